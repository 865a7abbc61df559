//! Hosts of tools that end, refuse connections, or accept them and never answer.

use super::datagrams::set_tempo;
use crate::torture::calls::{Caller, Calls};
use crate::torture::checks::Breach;
use crate::torture::{Stage, pause};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn fetch(stage: &Stage) -> Caller {
    let url = format!("http://{}/", stage.parts.web.address());
    let calls = Calls {
        tool: "web.fetch",
        arguments: Box::new(move |_| json!({ "url": url })),
        after: Box::new(|_, _| {}),
        // The tool itself has a time limit of 300 ms. This limit is longer, for a busy machine.
        deadline: Duration::from_secs(10),
        pace_ms: 5,
        pause_ms: 20,
    };
    Caller::start(stage.daemon.control_socket(), Arc::clone(&stage.promised), calls)
}

/// Makes one call to each host.
pub fn try_each(stage: &Stage) -> Result<(), String> {
    let live = stage.parts.live.as_ref().map(|it| set_tempo(stage, it, true));
    for caller in [Some(fetch(stage)), live].into_iter().flatten() {
        let result = caller.until_acknowledged();
        caller.stop();
        result?;
    }
    Ok(())
}

pub fn refuse(stage: &mut Stage) -> Result<(), Breach> {
    let ms = stage.dice.below(200);
    let caller = fetch(stage);
    let mut result = caller.until_acknowledged();
    if result.is_ok() {
        stage.parts.web.stop();
        result = caller.until_failed();
        pause(ms);
        result = result.and(stage.parts.web.start_again()).and_then(|()| caller.until_acknowledged());
    }
    caller.stop();
    Ok(result?)
}

pub fn be_silent(stage: &mut Stage) -> Result<(), Breach> {
    let ms = stage.dice.below(200);
    // Several calls wait for the host at the same time.
    let callers = [fetch(stage), fetch(stage), fetch(stage)];
    let mut result = callers.iter().try_for_each(Caller::until_acknowledged);
    if result.is_ok() {
        stage.parts.web.set_silent(true);
        result = callers.iter().try_for_each(Caller::until_failed);
        pause(ms);
        stage.parts.web.set_silent(false);
        result = result.and_then(|()| callers.iter().try_for_each(Caller::until_acknowledged));
    }
    callers.into_iter().for_each(|it| _ = it.stop());
    Ok(result?)
}

pub fn kill_live(stage: &mut Stage) -> Result<(), Breach> {
    let ms = stage.dice.below(200);
    let live = stage.parts.live.as_ref().ok_or("there is no Live")?;
    // The new Live has its own tempo, so an acknowledged tempo says nothing.
    let caller = set_tempo(stage, live, false);
    let result = caller.until_acknowledged().and_then(|()| {
        live.kill();
        let failed = caller.until_failed();
        pause(ms);
        live.start_again().map_err(|it| it.to_string())?;
        failed.and_then(|()| caller.until_acknowledged())
    });
    caller.stop();
    Ok(result?)
}
