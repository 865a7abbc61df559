//! A person at a terminal: the prompt of `conductor up`, `conductor approvals`, `conductor plans`
//! and `conductor call`. Also the same commands without a terminal.

use crate::studio::{BINARY, DEVICES, Studio, text, until};
use conductor_daemon::doors::control::client::{Client, ClientError};
use conductor_testkit::stranger::DirectClient;
use conductor_testkit::terminal::{Terminal, at_a_terminal, without_colours};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const MODES: &str = r#"
# The first comment stays.
[[modes]]
name = "Play"
"#;

pub fn conductor(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.env("CONDUCTOR_HOME", home).env_remove("DISPLAY").args(words);
    command
}

fn sysex(byte: u8) -> Value {
    json!({ "port": "synth", "data": [0x7D, byte] })
}

/// Types yes. If the answer was too quick, repeats it until `done` is shown.
pub fn say_yes(terminal: &mut Terminal, done: &str) {
    loop {
        terminal.type_in("y\n");
        if terminal.until_any(&[done, "before you could read this; y or n: "]).ends_with(done) {
            return;
        }
    }
}

#[test]
fn the_daemon_on_a_terminal_asks_there() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), format!("{DEVICES}{MODES}")).unwrap();
    let mut terminal = Terminal::start(conductor(home.path(), &["up", "--http", "127.0.0.1:0"]));
    terminal.until("Conductor is up");
    until("the daemon listens", || home.path().join("mcp.sock").exists().then_some(()));

    let mut script = DirectClient::connect(home.path());
    // Input typed before the question does not answer it.
    terminal.type_in("y\ny\n");
    let nasty = json!({ "port": "synth\u{1b}[2J\u{202e}", "data": [0x7D, 1] });
    script.ask("conductor_send_sysex", &nasty);
    let shown = terminal.until("Allow this once? y or n: ");
    let facts: Vec<&str> = shown.lines().skip_while(|it| !it.starts_with("Approval ")).skip(1).collect();
    let labels: Vec<&str> =
        facts.iter().filter_map(|it| it.split_whitespace().next().filter(|it| *it != "|")).collect();
    assert_eq!(&labels[..5], ["port", "tool", "tier", "who", "summary"], "{shown}");
    assert_eq!(
        &labels[labels.len() - 6..],
        ["until", "In", "port", "tool", "tier", "Allow"],
        "the most important facts are not repeated at the end: {shown}"
    );
    assert!(shown.contains("| synth\\u{1b}[2J\\u{202e}"), "deceptive characters are not escaped: {shown}");
    assert!(!without_colours(&shown).contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    terminal.type_in("maybe\n");
    terminal.until("type y or n: ");
    terminal.type_in("n\n");
    terminal.until("denied");
    let refused = script.answer();
    assert_eq!(
        (&refused["error"]["data"]["code"], &refused["error"]["data"]["by"]),
        (&json!("DENIED"), &json!("person"))
    );

    // A yes runs the call exactly once.
    let mut synth = Client::connect(&home.path().join("control.sock")).unwrap();
    synth.ask("monitor", json!({ "port": "synth" })).unwrap();
    script.ask("conductor_send_sysex", &sysex(2));
    terminal.until("Allow this once? y or n: ");
    say_yes(&mut terminal, "allowed");
    assert_eq!(script.answer()["result"]["status"], "confirmed");
    assert_eq!(synth.next_item().unwrap().unwrap()["bytes"], json!([0xF0, 0x7D, 2, 0xF7]));
    script.ask("conductor_send_sysex", &sysex(2));
    terminal.until("Allow this once? y or n: ");

    // The question is answered at another terminal. This terminal reports that and continues.
    let mut asking = Client::connect(&home.path().join("control.sock")).unwrap();
    let open = asking.ask("pending.list", json!({})).unwrap();
    let short = open["approvals"][0]["short"].as_str().unwrap();
    assert_eq!(at_a_terminal(conductor(home.path(), &["approvals", "deny", short])).0, Some(0));
    terminal.until(&format!("{short} was answered elsewhere or has expired"));
    assert_eq!(script.answer()["error"]["data"]["code"], "DENIED");

    let log = std::fs::read_to_string(home.path().join("audit.log")).unwrap();
    let channels: Vec<&str> =
        ["\"channel\":\"terminal\"", "\"channel\":\"cli\""].into_iter().filter(|it| log.contains(it)).collect();
    assert_eq!(channels.len(), 2, "{log}");
}

#[test]
fn monitor_keeps_a_picture_of_devices_events_latency_and_drops() {
    let mapping = "[[global_mappings]]\nid = \"kick\"\ntrigger = { type = \"Note\", note = 36, device = \"pads\" }\n\
        action = { type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"NoteOn\", note = 60, velocity = 1 }\n";
    let absent = "[[devices]]\nalias = \"keys\"\nmatchers = [{ type = \"ExactName\", pattern = \"Nobody\" }]\n";
    let mut studio = Studio::start(&format!("{DEVICES}{absent}{mapping}"));
    let mut terminal = Terminal::start(conductor(studio.home(), &["monitor"]));
    let first = terminal.until("Press Ctrl-C to stop");
    assert!(first.contains("mode Default, 0 events received, 0 dropped, 0 actions, 0 failed"), "{first}");
    assert!(first.contains("pads         connected") && first.contains("keys         absent"), "{first}");
    let mut hand = studio.hand();
    hand.play(&[0x90, 36, 100]);
    hand.play(&[0x90, 41, 100]);
    let shown = terminal.until("on:41@100 ");
    assert!(shown.contains("pads on:36@100 kick Note fired SendMidi"), "the fired mapping is not shown: {shown}");
    assert!(terminal.until(" us)").contains("no_match"), "the event without a mapping is not shown");
    let figures = terminal.until("(of the last ");
    assert!(figures.contains("latency p50 ") && figures.contains(" 0 dropped, 1 actions"), "{figures}");
    // Changes that are not caused by an event are shown too.
    studio.call("conductor_set_device_enabled", json!({ "device_id": "pads", "enabled": false }));
    terminal.until("pads         muted");
    studio.stop();
    let (status, text) = terminal.end();
    assert!(status.success() && text.ends_with("the daemon ended\r\n"), "{text}");
}

/// No person answers: the call returns when the waiting time ends, and the question stays open.
#[test]
fn a_terminal_where_nobody_answers_holds_a_call_as_long_as_the_file_says() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), format!("{DEVICES}{MODES}[policy.approval]\nwait_ms = 50\n"))
        .unwrap();
    let mut terminal = Terminal::start(conductor(home.path(), &["up", "--http", "127.0.0.1:0"]));
    terminal.until("Conductor is up");
    until("the daemon listens", || home.path().join("mcp.sock").exists().then_some(()));
    let mut script = DirectClient::connect(home.path());
    script.ask("conductor_send_sysex", &sysex(3));
    terminal.until("Allow this once? y or n: ");
    assert_eq!(script.answer()["error"]["data"]["code"], "APPROVAL_REQUIRED");
    say_yes(&mut terminal, "allowed");
    assert_eq!(
        script.call("conductor_send_sysex", &sysex(3))["result"]["status"],
        "confirmed",
        "the repeated call did not run"
    );
}

#[test]
fn without_a_terminal_a_call_is_parked_at_once_and_nobody_decides() {
    let studio = Studio::start(&format!("{DEVICES}{MODES}"));
    let mut script = DirectClient::connect(studio.home());
    let parked = script.call("conductor_send_sysex", &sysex(1));
    let data = &parked["error"]["data"];
    assert_eq!(data["code"], "APPROVAL_REQUIRED");
    let short = data["short"].as_str().unwrap();
    let hint = data["hint"].as_str().unwrap();
    assert!(
        hint.contains("in the Conductor console or in a terminal of their own"),
        "the hint does not name both places: {data}"
    );
    assert!(!hint.contains("approvals allow"), "the hint contains a command to paste: {data}");
    let plan =
        script.call("conductor_plan_changes", &json!({ "changes": [{ "change_type": "CreateMode", "mode": "Mix" }] }));
    let plan_id = plan["result"]["plan_id"].as_str().unwrap();

    // The command itself refuses without a terminal.
    for words in [
        ["approvals", "allow", short],
        ["approvals", "deny", short],
        ["plans", "apply", plan_id],
        ["plans", "reject", plan_id],
    ] {
        let output = studio.run(&words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(text(&output.stderr).contains("needs a terminal"), "{}", text(&output.stderr));
    }
    assert_eq!(studio.run(&["approvals", "list", "--watch"]).status.code(), Some(1));
    // The daemon refuses too, if the command does not. The calling process has no terminal, so it
    // is not a person.
    let mut bare = session_without_terminal(studio.home());
    for (method, params) in [
        ("approvals.allow", json!({ "id": short })),
        ("approvals.deny", json!({ "id": short })),
        ("approvals.watch", json!({})),
        ("plans.apply", json!({ "id": plan_id })),
        ("plans.reject", json!({ "id": plan_id })),
        ("plans.undo", json!({ "id": plan_id })),
        ("config.accept", json!({ "hash": "sha256:" })),
        ("llm_apply_plan", json!({ "planId": plan_id })),
        ("llm_reject_plan", json!({ "planId": plan_id })),
        ("circuit.reset", json!({})),
        ("performance.set", json!({ "on": true })),
    ] {
        let refused = bare(method, params);
        assert_eq!(refused["error"]["data"]["code"], "DENIED", "{method}: {refused}");
    }
    assert_eq!(
        bare("pending.show", json!({ "id": short }))["result"]["state"],
        "pending",
        "reading was refused without a person"
    );
    assert_eq!(bare("pending.show", json!({ "id": plan_id }))["result"]["state"], "pending");
}

/// A Python program that sends one request to a socket and prints the answer.
pub const ASK: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b'\\n')
sys.stdout.write(s.makefile().readline())";

/// Sends requests to `control.sock` from a session without a terminal, even if the test was started
/// at a terminal.
fn session_without_terminal(home: &Path) -> impl FnMut(&str, Value) -> Value + use<'_> {
    move |method, params| {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let output = Command::new("setsid")
            .args(["python3", "-c", ASK])
            .arg(home.join("control.sock"))
            .arg(request.to_string())
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    }
}

#[test]
fn approvals_are_listed_shown_and_answered_at_a_terminal() {
    let studio = Studio::start(&format!("{DEVICES}{MODES}"));
    let person = |words: &[&str]| at_a_terminal(conductor(studio.home(), words));
    assert_eq!(person(&["approvals", "list"]), (Some(0), "no call waits for approval\r\n".to_owned()));
    let mut script = DirectClient::connect(studio.home());
    let parked = script.call("conductor_send_sysex", &sysex(1));
    let short = parked["error"]["data"]["short"].as_str().unwrap().to_owned();
    let (code, said) = person(&["approvals", "show", &short]);
    assert_eq!(code, Some(0), "{said}");
    for word in ["socket:", "conductor_send_sysex", "HardwareIO", "\"data\":[125,1]", "pending"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let (code, said) = person(&["approvals", "allow", "ZZZZ-ZZZZ"]);
    assert!(code == Some(1) && said.contains("no approval"), "{said}");
    let (code, said) = person(&["approvals", "allow", &short, "--any-args"]);
    assert_eq!(code, Some(1), "SysEx was allowed with any arguments: {said}");
    assert_eq!(person(&["approvals", "allow", &short, "--for", "soon"]).0, Some(1));
    assert_eq!(person(&["approvals", "allow", &short]).0, Some(0));
    assert_eq!(person(&["approvals", "deny", &short]).0, Some(0), "an unused approval could not be withdrawn");
    assert_eq!(script.call("conductor_send_sysex", &sysex(1))["error"]["data"]["code"], "DENIED");

    let parked = script.call("conductor_send_sysex", &sysex(2));
    let short = parked["error"]["data"]["short"].as_str().unwrap().to_owned();
    assert_eq!(person(&["approvals", "allow", &short]).0, Some(0));
    assert_eq!(script.call("conductor_send_sysex", &sysex(2))["result"]["status"], "confirmed");
    let (code, said) = person(&["approvals", "deny", &short]);
    assert_eq!(code, Some(1), "a used approval could be denied: {said}");
}

/// `approvals list --watch` shows open and new questions, and a call waits for its answer.
#[test]
fn someone_who_watches_is_asked() {
    let studio = Studio::start(&format!("{DEVICES}{MODES}"));
    let mut script = DirectClient::connect(studio.home());
    let parked = script.call("conductor_send_sysex", &sysex(1));
    assert_eq!(parked["error"]["data"]["code"], "APPROVAL_REQUIRED");
    let mut watch = Terminal::start(conductor(studio.home(), &["approvals", "list", "--watch"]));
    watch.until("Allow this call once? [y/N]");
    watch.type_in("n\n");
    watch.until("denied");
    script.ask("conductor_send_sysex", &sysex(2));
    watch.until("Allow this call once? [y/N]");
    say_yes(&mut watch, "allowed");
    assert_eq!(
        script.answer()["result"]["status"],
        "confirmed",
        "the call did not wait, although a person was present"
    );
}

#[test]
fn a_call_from_the_command_line_is_answered_where_it_was_made() {
    let studio = Studio::start(&format!("{DEVICES}{MODES}"));
    let mut synth = studio.listen("synth");
    let arguments = sysex(9).to_string();
    let call = || Terminal::start(conductor(studio.home(), &["call", "conductor_send_sysex", &arguments]));
    let mut refused = call();
    refused.until("Allow this call once? [y/N]");
    refused.type_in("\n");
    let (status, said) = refused.end();
    assert!(!status.success() && said.contains("not allowed"), "{said}");
    let other = sysex(8).to_string();
    let mut allowed = Terminal::start(conductor(studio.home(), &["call", "conductor_send_sysex", &other]));
    allowed.until("Allow this call once? [y/N]");
    say_yes(&mut allowed, "confirmed");
    assert!(allowed.end().0.success());
    assert_eq!(synth.hear(), Some(vec![0xF0, 0x7D, 8, 0xF7]));
}

#[test]
fn plans_are_listed_applied_undone_and_rejected_at_a_terminal() {
    let studio = Studio::start(&format!("{DEVICES}{MODES}"));
    let person = |words: &[&str]| at_a_terminal(conductor(studio.home(), words));
    let before = std::fs::read_to_string(studio.config_file()).unwrap();
    assert_eq!(studio.status()["pending_plans"], 0);
    let mut script = DirectClient::connect(studio.home());
    let mut plan = |mode: &str| {
        let made = script
            .call("conductor_plan_changes", &json!({ "changes": [{ "change_type": "CreateMode", "mode": mode }] }));
        made["result"]["plan_id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    };
    let (first, second) = (plan("Mix"), plan("Solo"));
    assert_eq!(studio.status()["pending_plans"], 2);
    let (_, said) = person(&["status"]);
    assert!(said.contains("2 wait for you"), "{said}");
    let told = studio.ask("call", json!({ "tool": "conductor_get_status" }));
    assert_eq!(told["pending_plans"], 2, "the tool reports another number of plans");

    let (_, said) = person(&["plans", "list"]);
    assert_eq!(said.lines().filter(|it| it.contains("pending")).count(), 2, "{said}");
    let (_, said) = person(&["plans", "show", &first]);
    assert!(said.contains("+name = \"Mix\"") || said.contains("name = \"Mix\""), "{said}");
    let (code, said) = person(&["plans", "apply", &first]);
    assert!(code == Some(0) && said.starts_with("applied"), "{said}");
    let (code, said) = person(&["plans", "apply", &second]);
    assert!(
        code == Some(1) && said.contains("stale") || said.contains("changed"),
        "the stale plan was not refused: {said}"
    );
    assert_eq!(person(&["plans", "apply", &first]).0, Some(1), "a plan was applied twice");
    let after = std::fs::read_to_string(studio.config_file()).unwrap();
    assert!(after.contains("# The first comment stays.") && after.contains("Mix"), "{after}");

    let mut undo = Terminal::start(conductor(studio.home(), &["plans", "undo", &first]));
    undo.until("Apply this change to undo the plan? [y/N]");
    say_yes(&mut undo, "undone");
    assert!(undo.end().0.success());
    assert_eq!(std::fs::read_to_string(studio.config_file()).unwrap(), before);

    let third = plan("Drums");
    let (code, said) = person(&["plans", "reject", &third]);
    assert!(code == Some(0) && said.starts_with("rejected"), "{said}");
    assert_eq!(studio.status()["pending_plans"], 0);
    let refused = studio.control().ask("pending.show", json!({ "id": "no such plan" }));
    assert!(matches!(refused, Err(ClientError::Refused(_))));
}
