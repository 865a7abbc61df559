//! Pure Data is killed while a patch is edited in it.

use crate::torture::calls::{Caller, Calls};
use crate::torture::checks::{Breach, EFFECTS};
use crate::torture::{RECOVERY, Stage, now, pause, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

const PATCH: &str = "torture";
/// Longest time for an answer. A call that starts Pd may take 15 seconds, and an edit 5 more.
const DEADLINE: Duration = Duration::from_secs(30);
/// The daemon does not restart a Pd that has ended three times within a minute. The daemon counts
/// from the time at which it notices the end, so the limit here is longer.
const DEATHS: usize = 3;
const WITHIN: Duration = Duration::from_secs(70);
const NOT_RESTARTED: &str = "is not restarted";

pub fn kill(stage: &mut Stage) -> Result<(), Breach> {
    let ms = stage.dice.below(100);
    create(stage)?;
    let caller = edit(stage);
    let killed = caller.until_acknowledged().and_then(|()| {
        pause(ms);
        stage.daemon.kill_child("pd")
    });
    let process = stage.daemon.pid();
    stage.deaths_of_pd.retain(|(pid, at)| *pid == process && at.elapsed() < WITHIN);
    stage.deaths_of_pd.push((process, now()));
    let before = caller.acknowledged();
    let result = killed.and_then(|()| {
        until(RECOVERY, || {
            let error = caller.last_error();
            let is_over = caller.acknowledged() > before || error.contains(NOT_RESTARTED);
            if is_over { Ok(()) } else { Err(format!("Pd does not return: {error}")) }
        })
    });
    let refusal = caller.last_error();
    let acknowledged = caller.stop();
    result?;
    if acknowledged == before {
        return start_again(stage, &refusal);
    }
    let listed = ask(stage, "get_objects_in_patch", json!({ "patch_id": PATCH, "mode": "identity" }))?;
    let found = listed["total"].as_u64().or_else(|| listed["count"].as_u64()).unwrap_or(0);
    if found != acknowledged as u64 {
        let text = format!("{acknowledged} objects were added to a patch in Pd, it has {found}");
        return Err(Breach { invariant: EFFECTS, text });
    }
    Ok(close(stage)?)
}

/// The daemon refuses to start Pd after several deaths. A new daemon must start it.
fn start_again(stage: &mut Stage, refusal: &str) -> Result<(), Breach> {
    if stage.deaths_of_pd.len() < DEATHS {
        return Err(format!("after {} deaths within a minute: {refusal}", stage.deaths_of_pd.len()).into());
    }
    stage.daemon.end(Signal::TERM);
    stage.daemon.start()?;
    Ok(try_once(stage)?)
}

/// Starts Pd with a new patch, and closes it.
pub fn try_once(stage: &Stage) -> Result<(), String> {
    create(stage)?;
    close(stage)
}

fn ask(stage: &Stage, tool: &'static str, arguments: Value) -> Result<Value, String> {
    let mut client = stage.daemon.client()?;
    let _ = client.set_patience(Some(DEADLINE));
    stage.promised.call(&mut client, tool, arguments).map_err(|it| format!("{tool}: {it}"))
}

fn create(stage: &Stage) -> Result<(), String> {
    let file = format!("{PATCH}.pd");
    ask(stage, "create_patch", json!({ "host": "pd", "format": "pd", "alias": PATCH, "path": file })).map(|_| ())
}

/// Adds one object after another.
fn edit(stage: &Stage) -> Caller {
    let calls = Calls {
        tool: "add_max_object",
        arguments: Box::new(|number| json!({ "patch_id": PATCH, "obj_type": "print", "position": [10, 20 * number] })),
        after: Box::new(|_, _| {}),
        deadline: DEADLINE,
        pace_ms: 5,
        pause_ms: 20,
    };
    Caller::start(stage.daemon.control_socket(), Arc::clone(&stage.promised), calls)
}

/// Saves and closes the patch, because only a person can close a patch with unsaved edits.
fn close(stage: &Stage) -> Result<(), String> {
    ask(stage, "save_patch", json!({ "patch_id": PATCH }))?;
    ask(stage, "close_patch", json!({ "patch_id": PATCH }))?;
    let _ = fs::remove_file(stage.daemon.home.join("patches").join(format!("{PATCH}.pd")));
    Ok(())
}
