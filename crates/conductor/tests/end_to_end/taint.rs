//! Events that a model causes never count as played by a person, on any path: mappings, routes,
//! timers, lights, panic, OSC and cables.
//!
//! Each test has a mapping `command` that writes a file. In most tests a person triggers it too,
//! which proves that it works.

use crate::jack::Stage;
use crate::studio::{Studio, until};
use conductor_testkit::require;
use conductor_testkit::stranger::DirectClient;
use conductor_testkit::terminal::at_a_terminal;
use serde_json::json;
use std::cell::Cell;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// The file that `command` writes.
struct Mark {
    folder: TempDir,
}

impl Mark {
    fn new() -> Self {
        Mark { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("PWNED")
    }

    /// The configuration row that allows the command.
    fn rows(&self) -> String {
        let file = self.file().display().to_string();
        format!(
            "[[tools.shell.commands]]\nname = \"mark\"\nprogram = \"/usr/bin/touch\"\nargs = [\"{file}\"]\neffect = \"read\"\n"
        )
    }

    fn mapping(&self, trigger: &str) -> String {
        let file = self.file().display().to_string();
        format!(
            "[[global_mappings]]\nid = \"command\"\ntrigger = {trigger}\n\
             action = {{ type = \"Shell\", command = \"/usr/bin/touch {file}\" }}\n"
        )
    }
}

fn press(model: &mut DirectClient, port: &str, note: u8) {
    let messages = json!([
        { "type": "note_on", "channel": 1, "note": note, "velocity": 100 },
        { "type": "note_off", "channel": 1, "note": note },
    ]);
    model.result("conductor_send_midi", &json!({ "port": port, "messages": messages }));
}

fn turn(model: &mut DirectClient, port: &str, controller: u8, value: u8) {
    let messages = json!([{ "type": "cc", "channel": 1, "controller": controller, "value": value }]);
    model.result("conductor_send_midi", &json!({ "port": port, "messages": messages }));
}

/// Plays a script as a person at a terminal.
fn by_hand(studio: &Studio, script: &str) {
    let mut send = studio.command();
    send.args(["send", "pads hand", script]);
    assert_eq!(at_a_terminal(send).0, Some(0));
}

fn next_seq(studio: &Studio) -> u64 {
    studio.call("conductor_get_trace", json!({ "limit": 1 }))["next_seq"].as_u64().unwrap()
}

/// The first outcome of `command` from the trace record `since` on, and its reason.
fn outcome(studio: &Studio, what: &str, since: u64) -> (String, String) {
    until(&format!("{what} reaches the mapping"), || {
        let trace =
            studio.call("conductor_get_trace", json!({ "since_seq": since, "mapping_id": "command", "limit": 100 }));
        let first = trace["records"].as_array()?.first()?.clone();
        Some((first["outcome"].as_str()?.to_owned(), first["reason"].as_str()?.to_owned()))
    })
}

/// Runs `doing`, waits until `command` was reached, and checks that no file was written.
fn is_held_back(studio: &Studio, mark: &Mark, what: &str, doing: impl FnOnce()) -> String {
    let since = next_seq(studio);
    doing();
    let (outcome, reason) = outcome(studio, what, since);
    assert_eq!(outcome, "tainted", "{what}: {reason}");
    assert!(!mark.file().exists(), "{what}");
    reason
}

/// Repeats `doing` until the file is written. Shortly after a tool has sent messages, a person's
/// press still counts as tainted, so it may need several attempts.
fn runs(studio: &Studio, mark: &Mark, what: &str, doing: impl Fn()) {
    let settled = || {
        let before = Cell::new(next_seq(studio));
        until("no further event occurs", || {
            std::thread::park_timeout(Duration::from_millis(1200));
            let now = next_seq(studio);
            (before.replace(now) == now).then_some(())
        });
    };
    for _ in 0..10 {
        doing();
        settled();
        if mark.file().exists() {
            std::fs::remove_file(mark.file()).unwrap();
            return;
        }
    }
    panic!("{what}: nothing ran: {}", studio.call("conductor_get_trace", json!({ "mapping_id": "command" })));
}

const DEVICES: &str = r#"
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "out"
direction = "Output"
virtual_port = "out"
[[devices]]
alias = "back"
direction = "Input"
virtual_port = "back"
trusted = true
"#;

/// All paths from a pad lead to note 40 or controller 40 at `out`.
const DETOURS: &str = r#"
[[global_mappings]]
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "out", channel = 0, message_type = "NoteOn", note = 40 }
[[global_mappings]]
trigger = { type = "Note", note = 38, device = "pads" }
action = { type = "Sequence", actions = [
    { type = "Delay", ms = 300 },
    { type = "SendMidi", port = "out", channel = 3, message_type = "NoteOn", note = 40, duration_ms = 20 },
] }
[[global_mappings]]
trigger = { type = "Note", note = 39, device = "pads" }
action = { type = "Repeat", count = 2, delay_ms = 100, action = { type = "MidiForward", target = "out", transform = { note_offset = 1 } } }
[[global_mappings]]
trigger = { type = "LongPress", note = 41, duration_ms = 30, device = "pads" }
action = { type = "SendMidi", port = "out", channel = 0, message_type = "NoteOn", note = 40 }
[[routes]]
from = "pads"
to = "out"
filter = { note_range = [37, 37] }
transform = { note_offset = 3, channel = 7 }
[[global_continuous]]
source = { type = "CC", cc = 20, device = "pads" }
targets = [{ type = "CC", port = "out", channel = 2, controller = 40 }]
"#;

#[test]
fn a_cable_makes_no_hand_of_what_a_tool_set_off() {
    let mark = Mark::new();
    let command = mark.mapping("{ type = \"Note\", note = 40, device = \"back\" }");
    let stage = require!(Stage::open("taint", &format!("{DEVICES}{DETOURS}{command}{}", mark.rows())));
    let studio = &stage.studio;
    stage.until_cable("conductor:out", "conductor:back");
    runs(studio, &mark, "a hand", || by_hand(studio, "on:36@100 t:20 off:36"));
    let mut model = DirectClient::connect(studio.home());
    is_held_back(studio, &mark, "straight to the output", || press(&mut model, "out", 40));
    for (what, note) in [("a mapping", 36), ("a route", 37), ("a delay", 38), ("a repetition", 39)] {
        is_held_back(studio, &mark, what, || press(&mut model, "pads hand", note));
    }
    runs(studio, &mark, "the hand again", || by_hand(studio, "on:36@100 t:20 off:36"));
}

#[test]
fn a_cable_that_delays_and_changes_what_it_carries_makes_no_hand_of_it() {
    let mark = Mark::new();
    let command = mark.mapping("{ type = \"Note\", note = 40, device = \"back\" }");
    let stage = require!(Stage::open("delay", &format!("{DEVICES}{DETOURS}{command}{}", mark.rows())));
    let studio = &stage.studio;
    let _relay = require!(stage.peer(&["relay", "into", "from", "900"]));
    let port = |part: &str| until(&format!("the port {part} is listed"), || crate::jack::port(&stage, part));
    stage.until_cable("conductor:out", &port("relay-in"));
    stage.until_cable(&port("relay-out"), "conductor:back");
    runs(studio, &mark, "a hand", || by_hand(studio, "on:36@100 t:20 off:36"));
    let mut model = DirectClient::connect(studio.home());
    for (what, at, note) in [("straight to the output", "out", 40), ("through a mapping", "pads hand", 36)] {
        is_held_back(studio, &mark, what, || press(&mut model, at, note));
    }
}

#[test]
fn a_value_that_a_tool_moves_stays_tainted_through_a_binding() {
    let mark = Mark::new();
    let command = mark.mapping("{ type = \"CC\", cc = 40, device = \"back\", edge = \"level\" }");
    let stage = require!(Stage::open("values", &format!("{DEVICES}{DETOURS}{command}{}", mark.rows())));
    let studio = &stage.studio;
    stage.until_cable("conductor:out", "conductor:back");
    let value = Cell::new(0u8);
    runs(studio, &mark, "a hand", || {
        value.set(value.get() + 1);
        by_hand(studio, &format!("cc:20={}", value.get()));
    });
    is_held_back(studio, &mark, "a binding", || {
        turn(&mut DirectClient::connect(studio.home()), "pads hand", 20, 100);
    });
}

#[test]
fn a_panic_of_a_tool_presses_nothing() {
    let mark = Mark::new();
    let command = mark.mapping("{ type = \"CC\", cc = 123, device = \"back\", edge = \"level\" }");
    let stage = require!(Stage::open("panic", &format!("{DEVICES}{command}{}", mark.rows())));
    let studio = &stage.studio;
    stage.until_cable("conductor:out", "conductor:back");
    is_held_back(studio, &mark, "a tool's panic", || {
        drop(DirectClient::connect(studio.home()).call("conductor_panic", &json!({})))
    });
}

/// A person holds a note, and a tool mutes its device, which ends the note. The note-off that
/// returns is an effect of the tool.
#[test]
fn a_note_that_a_tool_ends_presses_nothing_by_its_end() {
    let mark = Mark::new();
    let config = format!(
        "{DEVICES}{DETOURS}{}{}",
        mark.mapping("{ type = \"Note\", note = 40, device = \"back\", on = \"release\" }"),
        mark.rows()
    );
    let stage = require!(Stage::open("ends", &config));
    let studio = &stage.studio;
    stage.until_cable("conductor:out", "conductor:back");
    runs(studio, &mark, "a hand", || by_hand(studio, "on:36@100 t:20 off:36"));
    std::thread::scope(|scope| {
        let since = next_seq(studio);
        let held = scope.spawn(|| by_hand(studio, "on:36@100 t:3000 off:36"));
        until("the note is held", || {
            let trace = studio.call("conductor_get_trace", json!({ "since_seq": since, "device": "pads" }));
            (!trace["records"].as_array()?.is_empty()).then_some(())
        });
        let mute = json!({ "device_id": "pads", "enabled": false });
        is_held_back(studio, &mark, "a mute", || {
            drop(DirectClient::connect(studio.home()).call("conductor_set_device_enabled", &mute))
        });
        held.join().unwrap();
    });
}

#[test]
fn a_light_that_a_tool_switches_presses_nothing() {
    let mark = Mark::new();
    let config = format!(
        r#"{DEVICES}
[[modes]]
name = "Play"
[[modes]]
name = "Mix"
[[global_mappings]]
id = "go"
trigger = {{ type = "Note", note = 36, device = "pads" }}
action = {{ type = "SendMidi", port = "out", channel = 0, message_type = "CC", controller = 1, value = 1 }}
[[feedback]]
device = "out"
out = {{ type = "Note", channel = 0, note = 40 }}
from = {{ type = "Mode", mode = "Mix" }}
[[feedback]]
device = "out"
out = {{ type = "Note", channel = 0, note = 40 }}
from = {{ type = "Pressed", mapping = "go" }}
on = 32
[[feedback]]
device = "out"
out = {{ type = "Note", channel = 0, note = 40 }}
from = {{ type = "PendingApprovals" }}
on = 64
{}{}"#,
        mark.mapping("{ type = \"Note\", note = 40, device = \"back\" }"),
        mark.rows()
    );
    let stage = require!(Stage::open("light", &config));
    let studio = &stage.studio;
    stage.until_cable("conductor:out", "conductor:back");
    let mut model = DirectClient::connect(studio.home());
    is_held_back(studio, &mark, "a mode", || drop(model.result("conductor_switch_mode", &json!({ "mode": "Mix" }))));
    model.result("conductor_switch_mode", &json!({ "mode": "Play" }));
    is_held_back(studio, &mark, "a pressed mapping", || press(&mut model, "pads hand", 36));
    is_held_back(studio, &mark, "a question", || {
        let sysex = json!({ "port": "out", "data": [0x7D, 1] });
        DirectClient::connect(studio.home()).call("conductor_send_sysex", &sysex);
    });
}

/// Virtual inputs: any program can send to them, so their events do not count as played by a person
/// unless the file marks them `trusted`.
#[test]
fn a_program_that_plays_a_virtual_input_plays_notes_and_no_commands() {
    let mark = Mark::new();
    let config = |trusted: &str| {
        format!(
            r#"
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[devices]]
alias = "daw"
direction = "Input"
virtual_port = "daw"
{trusted}
[[devices]]
alias = "peer"
direction = "Input"
matchers = [{{ type = "NameContains", pattern = "theirs" }}]
{trusted}
[[modes]]
name = "Play"
[[modes]]
name = "Mix"
[[global_mappings]]
trigger = {{ type = "Note", note = 60 }}
action = {{ type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 20, value = 1 }}
[[global_mappings]]
trigger = {{ type = "Note", note = 61 }}
action = {{ type = "ModeChange", mode = "Mix" }}
{}{}"#,
            mark.mapping("{ type = \"Note\", note = 62 }"),
            mark.rows()
        )
    };
    let stage = require!(Stage::open("virtual", &config("")));
    let studio = &stage.studio;
    let mut synth = studio.listen("synth");
    let peer = require!(stage.peer(&["play", "theirs"]));
    stage.until_connected("peer", true);
    peer.say("90 3c 64");
    assert_eq!(synth.hear(), Some(vec![0xB0, 20, 1]), "the program cannot play notes");
    peer.say("90 3d 64");
    until("the mode is switched", || (studio.status()["current_mode"] == "Mix").then_some(()));
    let why = is_held_back(studio, &mark, "a port of another program", || peer.say("90 3e 64"));
    assert_eq!(why, "any program can send to this port; if only a person plays the device, set trusted = true on it");
    let told = studio.call("conductor_explain", json!({ "event": "on:62@100", "device": "peer" }));
    assert_eq!(
        (&told["verdict"], told["reason"].as_str().unwrap().contains("trusted = true")),
        (&json!("tainted"), true)
    );

    // The same program connects to one of our ports. Any program can do this.
    let theirs = until("the port of the peer is listed", || crate::jack::port(&stage, "theirs"));
    stage.until_cable(&theirs, "conductor:daw");
    let since = next_seq(studio);
    peer.say("80 3e 00");
    peer.say("90 3e 64");
    for device in ["daw", "peer"] {
        let held = until(&format!("the event of {device} is in the trace"), || {
            let wanted = json!({ "since_seq": since, "mapping_id": "command", "device": device });
            let trace = studio.call("conductor_get_trace", wanted);
            trace["records"].as_array()?.first().cloned()
        });
        assert_eq!(held["outcome"], "tainted", "{held}");
    }
    assert!(!mark.file().exists());

    studio.save(&config("trusted = true"));
    studio.accept();
    runs(studio, &mark, "a device that the person trusts", || {
        peer.say("80 3e 00");
        peer.say("90 3e 64");
    });
}

/// A port without an alias has no entry in the file, so it cannot be marked as trusted.
#[test]
fn a_port_without_an_alias_is_no_hand() {
    let mark = Mark::new();
    let config = format!(
        "[[devices]]\nalias = \"synth\"\nloopback = true\ndirection = \"Output\"\n{}{}",
        mark.mapping("{ type = \"Note\", note = 62 }"),
        mark.rows()
    );
    let stage = require!(Stage::open("raw", &config));
    let peer = require!(stage.peer(&["play", "theirs"]));
    let name = until("the port of the peer is listed", || crate::jack::port(&stage, "theirs"));
    stage.until_connected(&format!("raw:{name}"), true);
    is_held_back(&stage.studio, &mark, "raw", || peer.say("90 3e 64"));
}

/// A UDP port that was free a moment ago.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn osc(address: &str, value: f32) -> Vec<u8> {
    let padded = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() / 4 * 4 + 4, 0);
        bytes
    };
    [padded(address), padded(",f"), value.to_be_bytes().to_vec()].concat()
}

#[test]
fn osc_to_ourselves_makes_no_network_of_a_tool_nor_one_listener_of_another() {
    let mark = Mark::new();
    let (open, closed, relayed) = (free_port(), free_port(), free_port());
    let config = format!(
        r#"
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "touch"
protocol = "Osc"
listen = "127.0.0.1:{open}"
allow_sensitive_actions = true
[[devices]]
alias = "stage"
protocol = "Osc"
listen = "127.0.0.1:{closed}"
[[global_mappings]]
trigger = {{ type = "Note", note = 36, device = "pads" }}
action = {{ type = "OscSend", host = "127.0.0.1", port = {open}, address = "/go", args = [1.0] }}
[[global_mappings]]
trigger = {{ type = "Note", note = 37, device = "pads" }}
action = {{ type = "OscSend", host = "localhost", port = {relayed}, address = "/go", args = [1.0] }}
[[global_mappings]]
trigger = {{ type = "Osc", address = "/pass", device = "stage" }}
action = {{ type = "OscSend", host = "127.0.0.1", port = {open}, address = "/go", args = [1.0] }}
[[global_continuous]]
source = {{ type = "CC", cc = 20, device = "pads" }}
targets = [{{ type = "OscFloat", host = "127.0.0.1", port = {open}, address = "/go" }}]
{}{}"#,
        mark.mapping("{ type = \"Osc\", address = \"/go\", device = \"touch\" }"),
        mark.rows()
    );
    let studio = &Studio::start(&config);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let surface = |port: u16, address: &str| {
        socket.send_to(&osc(address, 1.0), ("127.0.0.1", port)).unwrap();
    };
    runs(studio, &mark, "a surface", || surface(open, "/go"));
    let mut model = DirectClient::connect(studio.home());
    is_held_back(studio, &mark, "a tool's press", || press(&mut model, "pads hand", 36));
    is_held_back(studio, &mark, "a tool's turn", || turn(&mut model, "pads hand", 20, 99));
    is_held_back(studio, &mark, "a listener that is not allowed to", || surface(closed, "/pass"));

    // Another program forwards the message later, with another value.
    let relay = UdpSocket::bind(("127.0.0.1", relayed)).unwrap();
    is_held_back(studio, &mark, "a relay", || {
        press(&mut model, "pads hand", 37);
        relay.recv(&mut [0; 64]).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the relay is slow on purpose; nothing is measured")]
        std::thread::sleep(Duration::from_millis(700));
        relay.send_to(&osc("/go", 0.25), ("127.0.0.1", open)).unwrap();
    });
    runs(studio, &mark, "the surface again", || surface(open, "/go"));
}

/// Hardware needs no `trusted = true`: events of a port that JACK marks as physical count as played
/// by a person.
#[test]
fn a_hardware_port_is_a_hand() {
    let mark = Mark::new();
    let config = format!(
        "[[devices]]\nalias = \"keys\"\ndirection = \"Input\"\nmatchers = [{{ type = \"NameContains\", pattern = \"card:\" }}]\n{}{}",
        mark.mapping("{ type = \"Note\", note = 62 }"),
        mark.rows()
    );
    let stage = require!(Stage::open("card", &config));
    let card = require!(stage.script("physical.py", &[]));
    stage.until_connected("keys", true);
    runs(&stage.studio, &mark, "a hardware port", || card.say("go"));
}
