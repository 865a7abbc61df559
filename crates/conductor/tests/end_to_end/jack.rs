//! The spine over a real JACK server, with a MIDI program we did not write at the other end of the cable.

use crate::studio::{Studio, until};
use conductor_testkit::real::jack;
use conductor_testkit::require;
use serde_json::json;
use std::process::{Command, Stdio};

const VIRTUAL: &str = r#"
schema = 1
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "daw"
direction = "Output"
virtual_port = "daw"
[[modes]]
name = "Default"
[[modes.mappings]]
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "daw", channel = 0, message_type = "CC", controller = 20, value = 1 }
"#;

#[test]
fn a_server_that_starts_later_is_picked_up_and_hears_the_pad() {
    require!(jack::probe());
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ct-e2e-{}", std::process::id());
    let mut studio = Studio::empty();
    studio.set("JACK_DEFAULT_SERVER", &name);
    studio.set("JACK_NO_START_SERVER", "1");
    std::fs::write(studio.config_file(), VIRTUAL).unwrap();
    studio.up(&[]);
    let backend = || {
        let status = studio.status();
        status["backends"].as_array().unwrap().iter().find(|it| it["name"] == "jack").cloned().unwrap()
    };
    assert_eq!(backend()["state"], "missing", "it starts without a server");
    assert!(backend()["reason"].as_str().unwrap().contains("no server"), "{}", backend());
    let refusal = studio.refusal("send", json!({ "port": "daw", "messages": [[0xF8]] }));
    assert_eq!(refusal["code"], "HOST_OFFLINE");

    let _server = require!(jack::start(folder.path(), &name, 256));
    until("the server is picked up", || (backend()["state"] == "ready").then_some(()));
    let tool = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("JACK_DEFAULT_SERVER", &name).stderr(Stdio::null());
        command
    };
    let port = until("our port is there", || {
        let listed = String::from_utf8(tool("jack_lsp", &[]).output().ok()?.stdout).ok()?;
        listed.lines().find(|it| it.ends_with("daw")).map(str::to_owned)
    });

    let mut dump = tool("jack_midi_dump", &["-a", "dump"]);
    let mut dump = dump.stdout(Stdio::piped()).spawn().unwrap();
    until("the cable is in", || tool("jack_connect", &[&port, "dump:input"]).status().ok()?.success().then_some(()));
    let mut hand = studio.hand();
    hand.play(&[0x90, 0x24, 0x64]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(dump.stdout.take().unwrap()));
    let heard = lines.find_map(|it| it.ok().filter(|it| it.contains("b0") || it.contains("B0"))).unwrap();
    dump.kill().unwrap();
    dump.wait().unwrap();
    assert!(heard.to_lowercase().contains("b0 14 01"), "{heard}");
}
