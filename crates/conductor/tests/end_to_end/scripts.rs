//! Scripts in a real daemon. The daemon or the process of the script is killed at every step.

use crate::studio::{DEVICES, Studio, text, until};
use conductor_daemon::doors::control::client::ClientError;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::{Child, Stdio};

/// Number of calls with an effect in each script.
const CALLS: usize = 5;

fn config() -> String {
    format!("{DEVICES}\n[[policy.rules]]\ntool = \"database.execute\"\ndecision = \"allow\"\n")
}

/// The result of a call, or the object of its error.
fn call(studio: &Studio, tool: &str, arguments: &Value) -> Value {
    match studio.control().ask("call", json!({ "tool": tool, "arguments": arguments })) {
        Ok(result) => result,
        Err(ClientError::Refused(refused)) => refused.data,
        Err(other) => panic!("{other}"),
    }
}

/// Number of records of calls from scripts in the audit log.
fn records(studio: &Studio) -> usize {
    let files = std::fs::read_dir(studio.home().join("audit")).unwrap().flatten();
    let all: String = files.filter_map(|it| std::fs::read_to_string(it.path()).ok()).collect();
    all.matches("\"execution_id\"").count()
}

/// The process of the running script.
fn child_of(studio: &Studio) -> Option<i32> {
    let parent = studio.pid().to_string();
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|it| {
        let pid: i32 = it.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(it.path().join("stat")).ok()?;
        let is_child = stat.rsplit_once(") ")?.1.split(' ').nth(1)? == parent;
        let command = std::fs::read(it.path().join("cmdline")).ok()?;
        (is_child && text(&command).contains("--script")).then_some(pid)
    })
}

fn start(studio: &Studio, code: &str) -> Child {
    let arguments = json!({ "code": code }).to_string();
    let mut command = studio.command();
    command.args(["--json", "call", "conductor_run_script", &arguments]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The numbers in the table from `hundred` to `hundred + 99`.
fn inserted(studio: &Studio, hundred: usize) -> Vec<u64> {
    // The first write after a kill rolls the database back to its last transaction.
    call(studio, "database.execute", &json!({ "sql": "DELETE FROM effects WHERE n < 0" }));
    let sql = format!("SELECT n FROM effects WHERE n >= {hundred} AND n < {} ORDER BY n", hundred + 100);
    let rows = call(studio, "database.query", &json!({ "sql": sql }));
    rows["rows"].as_array().unwrap_or_else(|| panic!("{rows}")).iter().map(|it| it[0].as_u64().unwrap()).collect()
}

/// Kills the daemon, or the process of the script, after each record that the script causes. The
/// identical script is then run until it ends. No effect occurs twice.
#[test]
fn a_script_that_is_killed_at_any_step_repeats_no_effect() {
    let mut studio = Studio::start(&config());
    call(&studio, "database.execute", &json!({ "sql": "CREATE TABLE effects (n INTEGER)" }));
    let (mut finished, mut unknown) = (0, 0);
    for step in 1..=2 * CALLS {
        for kills_daemon in [false, true] {
            let hundred = step * 1000 + usize::from(kills_daemon) * 100;
            // Each loop takes much longer than the test needs to see a record.
            let code = format!(
                "const wait = () => {{ for (let i = 0; i < 2e6; i++); }};\n\
                 for (let n = 0; n < {CALLS}; n++) {{\n\
                   wait();\n\
                   await studio.database.execute({{ sql: `INSERT INTO effects VALUES (${{{hundred} + n}})` }});\n\
                 }}\n\
                 wait();\n\
                 return 'done'"
            );
            let before = records(&studio);
            let mut running = start(&studio, &code);
            until("the step is reached", || (records(&studio) >= before + step).then_some(()));
            if kills_daemon {
                studio.signal(Signal::KILL);
                studio.ended();
                running.wait().unwrap();
                studio.up(&[]);
            } else {
                if let Some(pid) = child_of(&studio) {
                    // The script may have ended already.
                    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
                }
                running.wait().unwrap();
            }
            let ended = (0..10).map(|_| call(&studio, "conductor_run_script", &json!({ "code": code })));
            let ended = ended
                .into_iter()
                .find(|it| it["result"] == "done" || it["effect"] == "unknown" || it["code"] == "PLAN_STALE");
            let ended = ended.expect("the script did not end");
            let rows = inserted(&studio, hundred);
            let mut once = rows.clone();
            once.dedup();
            if ended["result"] == "done" {
                finished += 1;
                // The killed run may have returned after its last record. A script that has
                // returned starts from the beginning.
                let twice = step == 2 * CALLS && rows.len() == 2 * CALLS;
                assert!(twice || rows == once, "step {step}, daemon {kills_daemon}: {rows:?}");
                assert!(twice || rows.len() == CALLS, "step {step}, daemon {kills_daemon}: {rows:?}");
            } else {
                unknown += 1;
                assert_eq!(ended["effect"], "unknown", "{ended}");
                assert_eq!(rows, once, "step {step}, daemon {kills_daemon}");
            }
        }
    }
    assert!(finished > CALLS, "too few scripts continued: {finished} finished, {unknown} unknown");
}
