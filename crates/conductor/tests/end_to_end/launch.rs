//! `Launch` starts programs that a person allowed, and no others.

use crate::studio::{DEVICES, Studio, text, until};
use conductor_testkit::terminal::at_a_terminal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A program that writes facts about itself and keeps running.
fn program(folder: &Path) -> String {
    let file = folder.join("app.sh");
    let told = folder.join("told");
    let text = format!(
        "#!/bin/sh\nps -o pid=,sid= -p $$ > {0}.new\nenv >> {0}.new\necho \"words $*\" >> {0}.new\nmv {0}.new {0}\nexec sleep 60\n",
        told.display()
    );
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file.display().to_string()
}

fn config(app: &str, row: &str) -> String {
    format!(
        "{DEVICES}\n[[modes]]\nname = \"Default\"\n[[modes.mappings]]\nid = \"run\"\n\
         trigger = {{ type = \"Note\", note = 36, device = \"pads\" }}\naction = {{ type = \"Launch\", app = \"{app}\" }}\n{row}"
    )
}

fn row(program: &str) -> String {
    format!(
        "[[tools.shell.commands]]\nname = \"app\"\nprogram = \"{program}\"\nargs = [\"one\", \"two words\"]\neffect = \"read\"\n"
    )
}

fn press(studio: &Studio) {
    let mut send = studio.command();
    send.args(["send", "pads hand", "on:36@100 off:36"]);
    assert_eq!(at_a_terminal(send).0, Some(0));
}

/// The outcome of the mapping's call, from the log.
fn ended(studio: &Studio) -> Value {
    until("the call is in the audit log", || {
        let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
        let mut records = log.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        records.rfind(|it| it["principal"] == "mapping:Default/run" && it["result"].is_string())
    })
}

#[test]
fn a_pad_starts_an_allowed_program_that_outlives_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let mut studio = Studio::empty();
    studio.set("XDG_CURRENT_DESKTOP", "here");
    studio.set("AWS_SECRET_ACCESS_KEY", "not for programs");
    std::fs::write(studio.config_file(), config("app", &row(&path))).unwrap();
    studio.up(&[]);
    assert!(!text(&studio.run(&["config", "check"]).stdout).contains("refused"));
    let told = studio.call("conductor_explain", json!({ "event": "on:36@100", "device": "pads" }));
    assert_eq!(told["verdict"], "fires", "{told}");
    press(&studio);
    let told = until("the program runs", || std::fs::read_to_string(folder.path().join("told")).ok());
    let ended = ended(&studio);
    assert_eq!((&ended["tool"], &ended["result"]), (&json!("desktop.launch"), &json!("ok")), "{ended}");
    let mut lines = told.lines();
    let ids: Vec<i32> = lines.next().unwrap().split_whitespace().map(|it| it.parse().unwrap()).collect();
    assert_eq!(ids[0], ids[1], "the program is not the leader of its own session");
    assert!(told.contains("words one two words"), "{told}");
    assert!(told.contains("XDG_CURRENT_DESKTOP=here") && !told.contains("AWS_SECRET"), "{told}");
    assert_eq!(studio.status()["statistics"]["actions_executed"], 1);
    studio.stop();
    let pid = rustix::process::Pid::from_raw(ids[0]).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_ok(), "the program ended with the daemon");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn what_no_row_allows_is_told_before_it_is_pressed_and_refused_when_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let slots =
        row(&path).replace("\"two words\"]", "\"{n}\"]") + "slots.n = { type = \"integer\", min = 1, max = 2 }\n";
    for (app, rows) in [("app", String::new()), ("other", row(&path)), ("app", slots)] {
        let studio = Studio::start(&config(app, &rows));
        let told = text(&studio.run(&["config", "check"]).stdout);
        assert!(told.contains("so this action is refused"), "{app}: {told}");
        assert!(told.contains(&format!("[[tools.shell.commands]] with name = \"{app}\"")), "{told}");
        let why = studio.call("conductor_explain", json!({ "event": "on:36@100", "device": "pads" }));
        assert_eq!(why["verdict"], "refused", "{why}");
        press(&studio);
        let ended = ended(&studio);
        assert_ne!(ended["result"], "ok", "{ended}");
        until("the trace has the failed action", || {
            let trace = studio.call("conductor_get_trace", json!({ "mapping_id": "run", "outcome": "failed" }));
            (!trace["records"].as_array()?.is_empty()).then_some(())
        });
        let counted = &studio.status()["statistics"];
        assert_eq!((&counted["actions_executed"], &counted["actions_failed"]), (&json!(0), &json!(1)));
        assert!(!folder.path().join("told").exists(), "{app}");
    }
}

/// A program can be named by its row or by its path. Another path is refused.
#[test]
fn a_program_may_be_named_by_its_path_and_no_tool_presses_the_pad() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let studio = Studio::start(&config(&path, &row(&path)));
    // There is no terminal: events that a program sends do not count as played by a person.
    studio.hand().play(&[0x90, 36, 100]);
    let trace = studio.call("conductor_get_trace", json!({ "mapping_id": "run" }));
    assert_eq!(trace["records"][0]["outcome"], "tainted", "{trace}");
    assert!(!folder.path().join("told").exists());
    studio.hand().play(&[0x80, 36, 0]);
    until("a press by a person starts the program", || {
        press(&studio);
        std::fs::read_to_string(folder.path().join("told")).ok()
    });
    let refused = studio.refusal("call", json!({ "tool": "desktop.launch", "arguments": { "app": "/bin/sleep" } }));
    assert_eq!(refused["code"], "DENIED", "{refused}");
}

/// The soft and the hard limit on open files of a running process.
fn open_files(pid: u32) -> [u32; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|it| it.strip_prefix("Max open files")).unwrap();
    let mut numbers = line.split_whitespace().map_while(|it| it.parse().ok());
    std::array::from_fn(|_| numbers.next().unwrap())
}

/// The daemon raises its own limit on open files. Programs that use `select` fail above 1024, so
/// they get the limit that the daemon was started with.
#[test]
fn a_launched_program_has_the_file_limit_of_before_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path());
    let mapping = config("app", &row(&path)).replace(DEVICES, "");
    let (studio, _) = crate::limits::few_files(300, 2000, &mapping);
    assert_eq!(open_files(studio.pid()), [2000, 2000], "the daemon did not raise its own limit");
    press(&studio);
    let told = until("the program runs", || std::fs::read_to_string(folder.path().join("told")).ok());
    let pid: u32 = told.split_whitespace().next().unwrap().parse().unwrap();
    let limits = open_files(pid);
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    assert_eq!(limits, [300, 2000]);
}

/// A Pd that the daemon starts uses `select`, so it also gets the original limit.
#[test]
fn a_started_pd_has_the_file_limit_of_before_the_daemon() {
    conductor_testkit::require!(conductor_testkit::real::pd::probe());
    let (studio, _) = crate::limits::few_files(300, 2000, "[patch.pd]\nmode = \"spawn\"\n");
    studio.ask("call", json!({ "tool": "create_patch", "arguments": { "host": "pd", "format": "pd" } }));
    let tasks = std::fs::read_dir(format!("/proc/{}/task", studio.pid())).unwrap();
    let children: Vec<u32> = tasks
        .flatten()
        .flat_map(|it| std::fs::read_to_string(it.path().join("children")))
        .flat_map(|it| it.split_whitespace().map(|it| it.parse().unwrap()).collect::<Vec<u32>>())
        .collect();
    let words = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let pd = children.into_iter().find(|it| words(it).contains("-guiport")).expect("no Pd is running");
    assert_eq!(open_files(pd), [300, 2000]);
}
