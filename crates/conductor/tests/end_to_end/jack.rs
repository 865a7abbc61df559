//! MIDI in, mapping, MIDI out over a real JACK server, with a third-party MIDI program at the other
//! end of the cable.

use crate::studio::{Studio, until};
use conductor_testkit::real::{Missing, fluidsynth, jack, mido};
use conductor_testkit::require;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

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
    let mut stage = require!(Stage::without_server("e2e", VIRTUAL));
    let backend = stage.until_jack("missing");
    assert!(backend["reason"].as_str().unwrap().contains("no server"), "{backend}");
    let refusal = stage.studio.refusal("play", json!({ "port": "daw", "messages": [[0xF8]] }));
    assert_eq!(refusal["code"], "HOST_OFFLINE");

    require!(stage.start_server());
    stage.until_jack("ready");
    let port = until("the daemon's port is listed", || port(&stage, "daw"));

    let mut dump = stage.tool("jack_midi_dump", &["-a", "dump"]);
    let mut dump = dump.stdout(Stdio::piped()).spawn().unwrap();
    stage.until_cable(&port, "dump:input");
    let mut hand = stage.studio.hand();
    hand.play(&[0x90, 0x24, 0x64]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(dump.stdout.take().unwrap()));
    let heard = lines.find_map(|it| it.ok().filter(|it| it.contains("b0") || it.contains("B0"))).unwrap();
    dump.kill().unwrap();
    dump.wait().unwrap();
    assert!(heard.to_lowercase().contains("b0 14 01"), "{heard}");
}

/// A separate JACK server, and a daemon that uses it.
pub struct Stage {
    pub studio: Studio,
    name: String,
    folder: tempfile::TempDir,
    server: Option<jack::Running>,
}

impl Stage {
    pub fn open(test: &str, config: &str) -> Result<Self, Missing> {
        let mut stage = Stage::prepare(test, config);
        stage.start_server()?;
        stage.studio.up(&[]);
        stage.until_jack("ready");
        Ok(stage)
    }

    /// Starts the daemon only; the test starts the server later.
    fn without_server(test: &str, config: &str) -> Result<Self, Missing> {
        jack::probe()?;
        let mut stage = Stage::prepare(test, config);
        stage.studio.up(&[]);
        Ok(stage)
    }

    fn prepare(test: &str, config: &str) -> Self {
        let name = format!("ct-{test}-{}", std::process::id());
        let mut studio = Studio::empty();
        studio.set("JACK_DEFAULT_SERVER", &name);
        studio.set("JACK_NO_START_SERVER", "1");
        std::fs::write(studio.config_file(), config).unwrap();
        Stage { studio, name, folder: tempfile::tempdir().unwrap(), server: None }
    }

    fn start_server(&mut self) -> Result<(), Missing> {
        self.server = Some(jack::start(self.folder.path(), &self.name, 256)?);
        Ok(())
    }

    fn tool(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("JACK_DEFAULT_SERVER", &self.name).stderr(Stdio::null());
        command
    }

    fn until_jack(&self, state: &str) -> Value {
        until(&format!("jack is {state}"), || {
            let status = self.studio.status();
            let jack = status["backends"].as_array()?.iter().find(|it| it["name"] == "jack")?.clone();
            (jack["state"] == state).then_some(jack)
        })
    }

    pub fn until_connected(&self, device: &str, wanted: bool) {
        until(&format!("{device} connected: {wanted}"), || {
            let rows = self.studio.call("conductor_list_device_bindings", json!({}));
            let row = rows["device_bindings"].as_array()?.iter().find(|it| it["device_id"] == device)?.clone();
            (row["connected"] == wanted).then_some(())
        });
    }

    pub fn until_cable(&self, from: &str, to: &str) {
        until(&format!("{from} leads to {to}"), || {
            self.tool("jack_connect", &[from, to]).status().ok()?.success().then_some(())
        });
    }

    pub fn peer(&self, arguments: &[&str]) -> Result<Peer, Missing> {
        Peer::start(&self.name, arguments)
    }

    /// Starts another program than `peer.py`.
    pub fn script(&self, script: &str, arguments: &[&str]) -> Result<Peer, Missing> {
        Peer::run(&self.name, script, arguments)
    }
}

/// A program of `tests/end_to_end/jack`, at the other end of a cable.
pub struct Peer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(server: &str, arguments: &[&str]) -> Result<Self, Missing> {
        Peer::run(server, "peer.py", arguments)
    }

    fn run(server: &str, script: &str, arguments: &[&str]) -> Result<Self, Missing> {
        let python = mido::python()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/jack").join(script);
        let mut command = Command::new(python);
        command.arg(script).args(arguments).env("JACK_DEFAULT_SERVER", server);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        Ok(Peer { child, lines })
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    pub fn say(&self, line: &str) {
        writeln!(&mut self.child.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    pub fn line(&mut self) -> String {
        self.lines.next().expect("the peer has ended").unwrap()
    }

    /// Everything received before the end mark.
    fn heard(mut self) -> Vec<String> {
        std::iter::from_fn(|| Some(self.line()).filter(|it| it != "end")).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The end mark for a peer that listens at `daw`.
const END: [u8; 3] = [0x9F, 0, 1];

#[test]
fn a_sequencer_drives_a_mapping_and_a_dump_hears_it() {
    let config = r#"
[[devices]]
alias = "seq"
direction = "Input"
matchers = [{ type = "NameContains", pattern = "seq:" }]
[[devices]]
alias = "daw"
direction = "Output"
virtual_port = "daw"
[[global_mappings]]
trigger = { type = "Note", note = 60, device = "seq" }
action = { type = "SendMidi", port = "daw", channel = 2, message_type = "NoteOn", note = 67, velocity = 90 }
"#;
    let stage = require!(Stage::open("seq", config));
    let mut dump = stage.tool("jack_midi_dump", &["-a", "dump"]).stdout(Stdio::piped()).spawn().unwrap();
    stage.until_cable("conductor:daw", "dump:input");
    // Sends a note of a sixth of a second, twice a second.
    let mut sequencer =
        stage.tool("jack_midiseq", &["seq", "24000", "0", "60", "8000"]).stdout(Stdio::null()).spawn().unwrap();
    stage.until_connected("seq", true);
    let lines = BufReader::new(dump.stdout.take().unwrap()).lines().map_while(Result::ok);
    let heard: Vec<String> = lines
        .filter_map(|it| it.to_lowercase().split_once(": ").map(|it| it.1.trim().to_owned()))
        .filter(|it| it.starts_with("92") || it.starts_with("82"))
        .take(6)
        .collect();
    for child in [&mut sequencer, &mut dump] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (on, off): (Vec<_>, Vec<_>) = heard.iter().partition(|it| it.starts_with("92 43 5a"));
    assert_eq!((on.len(), off.len()), (3, 3), "not one note and one release for each press: {heard:?}");
    assert!(off.iter().all(|it| it.starts_with("82 43")), "{heard:?}");
}

#[test]
fn ten_thousand_messages_pass_a_mapping_in_order() {
    let config = r#"
[[devices]]
alias = "peer"
direction = "Input"
matchers = [{ type = "NameContains", pattern = "out-of-mido" }]
[[devices]]
alias = "daw"
direction = "Output"
virtual_port = "daw"
[[global_mappings]]
trigger = { type = "PitchBend", edge = "level", device = "peer" }
action = { type = "MidiForward", target = "daw", transform = { channel = 3 } }
"#;
    const COUNT: u16 = 10_000;
    let stage = require!(Stage::open("paced", config));
    let listener = require!(stage.peer(&["recv", "into-mido", "120"]));
    let into = until("the port of the listener is listed", || port(&stage, "into-mido"));
    stage.until_cable("conductor:daw", &into);
    let mut sender = require!(stage.peer(&["send", "out-of-mido", &COUNT.to_string(), "300"]));
    stage.until_connected("peer", true);
    sender.go();
    assert_eq!(sender.line(), "end");
    until("all actions are executed", || {
        (stage.studio.status()["statistics"]["actions_executed"].as_u64()? >= u64::from(COUNT)).then_some(())
    });
    stage.studio.ask("play", json!({ "port": "daw", "messages": [END] }));
    let heard = listener.heard();
    let wanted = (0..COUNT).map(|it| format!("e3{:02x}{:02x}", it & 127, it >> 7));
    let wrong = heard.iter().zip(wanted).find(|(heard, wanted)| *heard != wanted);
    assert_eq!((heard.len(), wrong), (usize::from(COUNT), None), "messages were lost or reordered");
    let statistics = &stage.studio.status()["statistics"];
    assert_eq!(statistics["events_dropped"], 0);
    assert!(statistics["events_in_period"].as_u64() > Some(0), "{statistics}");
}

pub fn port(stage: &Stage, part: &str) -> Option<String> {
    let listed = String::from_utf8(stage.tool("jack_lsp", &[]).output().ok()?.stdout).ok()?;
    listed.lines().find(|it| it.contains(part)).map(str::to_owned)
}

const OUT: &str = "[[devices]]\nalias = \"daw\"\ndirection = \"Output\"\nvirtual_port = \"daw\"\n";

#[test]
fn a_burst_and_a_huge_message_arrive_whole_or_are_refused_and_what_follows_is_right() {
    let stage = require!(Stage::open("burst", OUT));
    let listener = require!(stage.peer(&["recv", "into-mido", "120"]));
    let into = until("the port of the listener is listed", || port(&stage, "into-mido"));
    stage.until_cable("conductor:daw", &into);
    let huge: Vec<u8> = [0xF0].into_iter().chain(std::iter::repeat_n(1, 64 * 1024)).chain([0xF7]).collect();
    let refusal = stage.studio.refusal("play", json!({ "port": "daw", "messages": [huge] }));
    assert_eq!(refusal["code"], "BAD_INPUT", "{refusal}");
    let burst: Vec<[u8; 3]> = (0..4000u16).map(|it| [0xE5, (it & 127) as u8, (it >> 7) as u8]).collect();
    let sent = match stage.studio.control().ask("play", json!({ "port": "daw", "messages": burst })) {
        Ok(sent) => sent["messages_sent"].as_u64().unwrap(),
        Err(conductor_daemon::doors::control::client::ClientError::Refused(refused)) => {
            assert_eq!(refused.data["code"], "BUSY", "{}", refused.data);
            refused.data["messages_sent"].as_u64().unwrap()
        }
        Err(other) => panic!("{other:?}"),
    };
    // The queue is empty within a period. Then send ten more messages.
    let follow: Vec<[u8; 3]> = (0..10u8).map(|it| [0xB6, 20 + it, it]).collect();
    for message in follow.iter().chain([&END]) {
        until("the queue has space again", || {
            stage.studio.control().ask("play", json!({ "port": "daw", "messages": [message] })).ok()
        });
    }
    let heard = listener.heard();
    let text = |it: &[u8; 3]| format!("{:02x}{:02x}{:02x}", it[0], it[1], it[2]);
    let wanted: Vec<String> = burst.iter().take(sent as usize).chain(&follow).map(text).collect();
    assert_eq!(heard, wanted, "the accepted {sent} messages of the burst and the ten after them were not all received");
}

#[test]
fn a_pad_plays_a_concert_pitch_that_an_ear_can_tell() {
    let config = |note: u8| {
        format!(
            r#"
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
matchers = [{{ type = "ExactName", pattern = "{}" }}]
[[global_mappings]]
trigger = {{ type = "Note", note = 36, device = "pads" }}
action = {{ type = "SendMidi", port = "synth", channel = 0, message_type = "NoteOn", note = {note}, velocity = 110 }}
"#,
            fluidsynth::MIDI_PORT
        )
    };
    require!(fluidsynth::probe());
    let stage = require!(Stage::open("audio", &config(69)));
    let synth = require!(fluidsynth::start(&stage.name));
    stage.until_connected("synth", true);
    let mut hand = stage.studio.hand();
    let mut heard = || {
        hand.play(&[0x90, 36, 100]);
        let pitch = synth.pitch(stage.folder.path());
        hand.play(&[0x80, 36, 0]);
        pitch
    };
    let pitch = heard().expect("a tone");
    assert!((pitch - 440.0).abs() < 4.4, "the tone has {pitch} Hz instead of 440 Hz");
    // Control: another note must be measured as another pitch.
    stage.studio.save(&config(70));
    until("the new configuration is in force", || {
        let rows = stage.studio.call("conductor_get_mappings", json!({ "mode": "*" }));
        rows.to_string().contains("\"note\":70").then_some(())
    });
    let other = heard().expect("a tone");
    assert!((other - 466.2).abs() < 4.7, "the tone has {other} Hz instead of 466.2 Hz");
}

#[test]
fn a_server_that_dies_with_notes_held_leaves_none_of_them_on() {
    let config = r#"
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "box"
direction = "Output"
matchers = [{ type = "NameContains", pattern = "into-mido" }]
[[global_mappings]]
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "box", channel = 1, message_type = "NoteOn", note = 62, velocity = 77 }
"#;
    let mut stage = require!(Stage::open("dies", config));
    let mut listener = require!(stage.peer(&["each", "into-mido"]));
    stage.until_connected("box", true);
    let mut hand = stage.studio.hand();
    hand.play(&[0x90, 36, 100]);
    assert_eq!(listener.line(), "913e4d");
    stage.server.take().unwrap().kill();
    drop(listener);
    let jack = stage.until_jack("missing");
    assert!(jack["reason"].as_str().unwrap().contains("server"), "{jack}");
    stage.until_connected("box", false);
    // Release the key while the output is missing.
    hand.play(&[0x80, 36, 0]);
    require!(stage.start_server());
    stage.until_jack("ready");
    let mut listener = require!(stage.peer(&["each", "into-mido"]));
    assert!(listener.line().starts_with("813e"), "note-offs from the outage were not sent first");
    stage.until_connected("box", true);
    hand.play(&[0x90, 36, 100]);
    assert_eq!(listener.line(), "913e4d", "the mapping does not work after the outage");
    hand.play(&[0x80, 36, 0]);
    assert!(listener.line().starts_with("813e"));
}

#[test]
fn a_controller_that_is_pulled_out_lets_go_of_what_it_held() {
    let config = r#"
[[devices]]
alias = "keys"
direction = "Input"
matchers = [{ type = "NameContains", pattern = "out-of-mido" }]
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[global_mappings]]
trigger = { type = "Note", note = 60, device = "keys" }
action = { type = "SendMidi", port = "synth", channel = 1, message_type = "NoteOn", note = 62, velocity = 77 }
"#;
    let stage = require!(Stage::open("pulled", config));
    let mut synth = stage.studio.listen("synth");
    let lifecycle = |wanted: &str| {
        until(&format!("the lifecycle state is {wanted}"), || {
            (stage.studio.status()["lifecycle_state"] == wanted).then_some(())
        });
    };
    for _ in 0..2 {
        let mut keys = require!(stage.peer(&["hold", "out-of-mido"]));
        stage.until_connected("keys", true);
        lifecycle("Running");
        keys.go();
        assert_eq!(synth.hear(), Some(vec![0x91, 62, 77]));
        drop(keys);
        assert_eq!(synth.hear().map(|it| (it[0], it[1])), Some((0x81, 62)), "the note was not released");
        lifecycle("Reconnecting");
    }
}

/// Note-offs for a missing output are sent first when the output returns: for a held note, for a
/// note that a mapping ends, and for the pedal.
#[test]
fn what_ends_while_one_output_is_away_is_sent_when_it_is_back() {
    let config = r#"
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "box"
direction = "Output"
matchers = [{ type = "NameContains", pattern = "into-mido" }]
[[global_mappings]]
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "box", channel = 1, message_type = "NoteOn", note = 62, velocity = 77 }
[[global_mappings]]
trigger = { type = "Note", note = 37, device = "pads" }
action = { type = "SendMidi", port = "box", channel = 1, message_type = "NoteOn", note = 63, velocity = 77 }
[[global_mappings]]
trigger = { type = "Note", note = 37, device = "pads", on = "release" }
action = { type = "SendMidi", port = "box", channel = 1, message_type = "NoteOff", note = 63 }
[[global_mappings]]
trigger = { type = "CC", cc = 64, device = "pads", edge = "level" }
action = { type = "MidiForward", target = "box" }
"#;
    let stage = require!(Stage::open("away", config));
    let mut listener = require!(stage.peer(&["each", "into-mido"]));
    stage.until_connected("box", true);
    let mut hand = stage.studio.hand();
    for (press, heard) in [([0x90, 36, 100], "913e4d"), ([0x90, 37, 100], "913f4d"), ([0xB0, 64, 127], "b0407f")] {
        hand.play(&press);
        assert_eq!(listener.line(), heard);
    }
    drop(listener);
    stage.until_connected("box", false);
    for release in [[0x80, 36, 0], [0x80, 37, 0], [0xB0, 64, 0]] {
        hand.play(&release);
    }
    let mut listener = require!(stage.peer(&["each", "into-mido"]));
    let mut ends: Vec<String> = (0..3).map(|_| listener.line()[..4].to_owned()).collect();
    ends.sort();
    assert_eq!(ends, ["813e", "813f", "b040"]);
    hand.play(&[0x90, 36, 100]);
    assert_eq!(listener.line(), "913e4d", "the mapping does not work after the outage");
    hand.play(&[0x80, 36, 0]);
}

#[test]
fn a_scan_looks_now_also_for_a_server_that_was_missing_for_long() {
    let mut stage = require!(Stage::without_server("scan", VIRTUAL));
    // The daemon has retried at 1, 3 and 7 seconds; the next retry is at 15 seconds.
    until("the daemon has retried three times", || (stage.studio.status()["uptime_secs"].as_u64()? >= 8).then_some(()));
    require!(stage.start_server());
    let _peer = require!(stage.peer(&["each", "into-mido"]));
    let scanned = stage.studio.ask("call", json!({ "tool": "conductor_scan_ports", "arguments": {} }));
    assert_eq!(scanned["message"], "Port rescan triggered");
    let added = scanned["added"].as_array().unwrap();
    assert!(
        added.iter().any(|it| it.as_str().unwrap().contains("into-mido")),
        "the first scan did not find the port: {scanned}"
    );
    assert_eq!(scanned["removed"], json!([]));
}

/// A configured device is connected to the port of a program, and the program ends.
#[test]
fn a_port_that_goes_is_written_down_and_named_while_it_is_there() {
    let config = "[[devices]]\nalias = \"keys\"\ndirection = \"Input\"\nmatchers = [{ type = \"NameContains\", pattern = \"out-of-mido\" }]\n";
    let stage = require!(Stage::open("lost", config));
    let keys = require!(stage.peer(&["hold", "out-of-mido"]));
    stage.until_connected("keys", true);
    let device = stage.studio.status()["device"].clone();
    let inputs = stage.studio.call("conductor_list_devices", json!({}))["midi_inputs"].clone();
    assert_eq!(device["alias"], "keys");
    assert!(
        device["name"].as_str().unwrap().contains("out-of-mido"),
        "the device does not have the name of the port: {device}"
    );
    assert_eq!(inputs[device["port"].as_u64().unwrap() as usize], device["name"], "{inputs}");
    drop(keys);
    let record = until("the lost device is in the audit log", || {
        let log = std::fs::read_to_string(stage.studio.home().join("audit.log")).unwrap();
        let line = log.lines().find(|it| it.contains("\"device.lost\""))?.to_owned();
        serde_json::from_str::<Value>(&line).ok()
    });
    assert_eq!((&record["detail"]["device"], &record["detail"]["port"]), (&json!("keys"), &device["name"]), "{record}");
}
