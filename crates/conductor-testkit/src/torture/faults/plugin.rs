//! The process of a plugin is killed.

use crate::torture::calls::{Caller, Calls};
use crate::torture::checks::Breach;
use crate::torture::{RECOVERY, Stage, daemon, pause, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn call(stage: &Stage) -> Caller {
    let calls = Calls {
        tool: daemon::PLUGIN_TOOL,
        arguments: Box::new(|_| json!({})),
        after: Box::new(|_, _| {}),
        deadline: Duration::from_secs(20),
        pace_ms: 5,
        pause_ms: 5,
    };
    Caller::start(stage.daemon.control_socket(), Arc::clone(&stage.promised), calls)
}

pub fn try_once(stage: &Stage) -> Result<(), String> {
    let caller = call(stage);
    let result = caller.until_acknowledged();
    caller.stop();
    result
}

/// Kills the process of the plugin during calls, up to three times.
pub fn kill(stage: &mut Stage) -> Result<(), Breach> {
    let times = 1 + stage.dice.below(3);
    let pauses: Vec<u64> = (0..times).map(|_| stage.dice.below(40)).collect();
    let caller = call(stage);
    let result = caller.until_acknowledged().and_then(|()| {
        for ms in pauses {
            pause(ms);
            // Retry, because the new process of the plugin may not run yet.
            until(RECOVERY, || stage.daemon.kill_child("plugin-host"))?;
            caller.until_acknowledged()?;
        }
        Ok(())
    });
    caller.stop();
    Ok(result?)
}
