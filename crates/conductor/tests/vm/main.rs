//! Tests of the ALSA sequencer, gamepads and virtual keyboards, inside the virtual machine that
//! `crates/conductor-testkit/vm/run.sh` starts. Elsewhere every test is skipped with a message.
//! Time inside the guest is not reliable, so only function is tested.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]
#![cfg(all(feature = "alsa", feature = "gamepad"))]

#[expect(dead_code, reason = "shared with the end-to-end tests, which use more of it")]
#[path = "../end_to_end/studio.rs"]
mod studio;

use conductor_core::event::{Axis, Body, Button, DeviceSlot, Micros, Side, Taint};
use conductor_hosts::gamepad::Gamepads;
use conductor_hosts::midi::alsa::Alsa;
use conductor_hosts::midi::ring::{Bell, EventReceiver, EventSender, event_ring};
use conductor_hosts::midi::{Announce, Announcement, Backend, PortError, PortInfo, Stamp, Way};
use conductor_testkit::backend_contract as contract;
use conductor_testkit::real::{Missing, mido, skip, wait_for};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use studio::{Ear, Studio};

/// The guest is emulated, so a step takes long if the host is busy.
const PATIENCE: Duration = Duration::from_secs(300);
/// The message after which a reader stops reading.
const STOP: u8 = 0xFC;

/// Whether this is the guest. Elsewhere, prints that the test is skipped.
#[expect(clippy::disallowed_methods, reason = "the lanes are chosen by an environment variable")]
fn in_the_guest() -> bool {
    let chosen = std::env::var("CONDUCTOR_LANES").is_ok_and(|lanes| lanes.split(',').any(|lane| lane == "vm"));
    if !chosen {
        conductor_testkit::skips::note("vm: this lane runs in a virtual machine (make test-vm)");
    }
    chosen
}

#[expect(clippy::disallowed_methods, reason = "the time stamps are real time")]
fn outside() -> (Stamp, Announce, Arc<AtomicU32>) {
    let start = Instant::now();
    let changed = Arc::new(AtomicU32::new(0));
    let changes = Arc::clone(&changed);
    let announce = Arc::new(move |what| match what {
        Announcement::PortsChanged { .. } => {
            changes.fetch_add(1, Ordering::Relaxed);
        }
        Announcement::Lost { .. } => {}
    });
    (Arc::new(move || Micros(start.elapsed().as_micros() as u64)), announce, changed)
}

fn new_lane() -> (EventSender, EventReceiver) {
    event_ring(DeviceSlot(0), u32::MAX, Bell::silent())
}

fn collect(lane: &mut EventReceiver, count: usize) -> Vec<Body> {
    let mut out = Vec::new();
    wait_for(PATIENCE, || {
        out.extend(std::iter::from_fn(|| lane.pop()).map(|event| event.body));
        (out.len() >= count).then_some(())
    });
    out
}

/// The sequencer address of one of our ports, as another program finds it.
fn address_of(port: &str) -> String {
    let found = wait_for(PATIENCE, || {
        let output = Command::new("aconnect").arg("-l").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut client = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("client ") {
                client = rest.split(':').next()?.into();
            } else if line.contains(&format!("'{port}")) {
                return Some(format!("{client}:{}", line.split_whitespace().next()?));
            }
        }
        None
    });
    found.unwrap_or_else(|| panic!("no port '{port}'"))
}

/// A standard MIDI file with one track of these messages, ten ticks apart.
fn midi_file(messages: &[[u8; 3]]) -> Vec<u8> {
    let mut track: Vec<u8> = Vec::new();
    for message in messages {
        track.push(10);
        track.extend(message);
    }
    track.extend([0, 0xFF, 0x2F, 0]);
    let mut file = b"MThd\0\0\0\x06\0\0\0\x01\x01\xE0MTrk".to_vec();
    file.extend((track.len() as u32).to_be_bytes());
    file.extend(track);
    file
}

#[test]
fn alsa_keeps_the_contract() {
    if !in_the_guest() {
        return;
    }
    let (stamp, announce, _) = outside();
    let mut alsa = Alsa::new("conductor", stamp, announce);
    let (sender, lane) = new_lane();
    let input = alsa.create_input("Contract In", sender).unwrap();
    let output = alsa.create_output("Contract Out").unwrap();
    let joined =
        Command::new("aconnect").args([address_of("Contract Out"), address_of("Contract In")]).status().unwrap();
    assert!(joined.success());
    contract::keeps_the_contract(&mut alsa, contract::Cable { output, input, lane, patience: PATIENCE });
}

#[test]
fn aplaymidi_plays_into_a_port_of_ours() {
    if !in_the_guest() {
        return;
    }
    let (stamp, announce, _) = outside();
    let mut alsa = Alsa::new("conductor", stamp, announce);
    let (sender, mut receiver) = new_lane();
    let input = alsa.create_input("Keys In", sender).unwrap();
    let messages: Vec<[u8; 3]> =
        (0..60u8).flat_map(|i| [[0x90, 30 + i, 1 + i], [0xB0, 7, i], [0xE1, i, 64], [0x90, 30 + i, 0]]).collect();
    let file = std::env::temp_dir().join("in.mid");
    std::fs::write(&file, midi_file(&messages)).unwrap();
    let played = Command::new("aplaymidi").args(["-d", "0", "-p", &address_of("Keys In")]).arg(&file).status().unwrap();
    assert!(played.success());
    let wanted: Vec<Body> = (0..60u8)
        .flat_map(|i| {
            let note = 30 + i;
            [
                Body::NoteOn { channel: 0, note, velocity: 1 + i },
                Body::Cc { channel: 0, controller: 7, value: i },
                Body::PitchBend { channel: 1, value: 64 * 128 + u16::from(i) },
                Body::NoteOff { channel: 0, note, velocity: 0 },
            ]
        })
        .collect();
    let heard = collect(&mut receiver, wanted.len());
    // Ignore messages that the player adds at the end of a file.
    let heard: Vec<Body> = heard.into_iter().take(wanted.len()).map(without_release_velocity).collect();
    assert_eq!(heard, wanted);
    assert!(input.is_open());
    drop(input);
    let ended = wait_for(PATIENCE, || receiver.is_abandoned().then_some(()));
    assert!(ended.is_some(), "the thread of a closed input is still running");
}

/// The kernel and players convert a note-on with velocity 0 to a note-off with a velocity of their
/// own.
fn without_release_velocity(body: Body) -> Body {
    if let Body::NoteOff { channel, note, .. } = body { Body::NoteOff { channel, note, velocity: 0 } } else { body }
}

#[test]
fn aseqdump_hears_a_port_of_ours() {
    if !in_the_guest() {
        return;
    }
    let (stamp, announce, _) = outside();
    let mut alsa = Alsa::new("conductor", stamp, announce);
    let mut output = alsa.create_output("Pads Out").unwrap();
    let mut dump = Command::new("stdbuf")
        .args(["-oL", "aseqdump", "-p", &address_of("Pads Out")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(dump.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    while !line().starts_with("Source") {}
    for note in 0..100u8 {
        output.send(&[0x90, note, 1 + note], Taint::Clean.into()).unwrap();
    }
    output.send(&[0xF0, 0x7E, 0x7F, 6, 1, 0xF7], Taint::Clean.into()).unwrap();
    for note in 0..100u8 {
        let heard = line();
        let words: Vec<&str> = heard.split_whitespace().collect();
        assert!(heard.contains("Note on") && words.contains(&format!("{note},").as_str()), "{note}: {heard}");
    }
    let sysex = line();
    assert!(sysex.contains("F0 7E 7F 06 01 F7"), "{sysex}");
    dump.kill().unwrap();
    dump.wait().unwrap();
}

fn modprobe(args: &[&str]) {
    let root = modules();
    let status = Command::new("modprobe").args(["-d", &root]).args(args).status().unwrap();
    assert!(status.success(), "modprobe {args:?}");
}

/// Removes the virtual card as soon as no process uses it.
fn unload_virmidi() {
    let unloaded = wait_for(PATIENCE, || {
        let status =
            Command::new("modprobe").args(["-d", &modules(), "-r", "snd-virmidi"]).stderr(Stdio::null()).status();
        status.is_ok_and(|it| it.success()).then_some(())
    });
    assert!(unloaded.is_some(), "closed ports still use the device");
}

/// The device file through which a player sends to the virtual card.
fn player_end() -> PathBuf {
    let found = wait_for(PATIENCE, || {
        let names = std::fs::read_dir("/dev/snd").ok()?.filter_map(Result::ok).map(|entry| entry.path());
        names.into_iter().find(|path| path.to_string_lossy().contains("midiC"))
    });
    found.expect("the card has no device file")
}

#[expect(clippy::disallowed_methods, reason = "the guest's script sets the folder of the modules")]
fn modules() -> String {
    std::env::var("CONDUCTOR_VM_MODULES").unwrap_or_default()
}

fn virtual_ports(alsa: &mut Alsa, way: Way) -> Vec<PortInfo> {
    let ports = alsa.ports().unwrap();
    ports.into_iter().filter(|port| port.way == way && port.name.contains("VirMIDI")).collect()
}

#[test]
fn a_device_that_appears_is_announced_heard_and_gone_again() {
    if !in_the_guest() {
        return;
    }
    let (stamp, announce, changed) = outside();
    let mut alsa = Alsa::new("conductor", stamp, announce);
    alsa.connect().unwrap();
    assert_eq!(virtual_ports(&mut alsa, Way::Input), []);
    modprobe(&["snd-virmidi", "midi_devs=1"]);
    assert!(wait_for(PATIENCE, || (changed.load(Ordering::Relaxed) > 0).then_some(())).is_some(), "no announcement");
    let inputs = wait_for(PATIENCE, || Some(virtual_ports(&mut alsa, Way::Input)).filter(|it| !it.is_empty())).unwrap();
    let id = inputs[0].id.clone();
    let (sender, mut receiver) = new_lane();
    let input = alsa.open_input(&id, sender).unwrap();
    let mut output = alsa.open_output(&id).unwrap();
    let mut device = std::fs::OpenOptions::new().read(true).write(true).open(player_end()).unwrap();

    let sysex: Vec<u8> = (0..8192).map(|i| (i % 128) as u8).collect();
    device.write_all(&[0x90, 36, 100, 37, 101, 36, 0]).unwrap();
    device.write_all(&[&[0xF0][..], &sysex, &[0xF7]].concat()).unwrap();
    let heard: Vec<Body> = collect(&mut receiver, 4).into_iter().map(without_release_velocity).collect();
    assert_eq!(
        heard,
        [
            Body::NoteOn { channel: 0, note: 36, velocity: 100 },
            Body::NoteOn { channel: 0, note: 37, velocity: 101 },
            Body::NoteOff { channel: 0, note: 36, velocity: 0 },
            Body::SysEx(sysex.clone().into()),
        ]
    );

    // The driver drops messages that arrive before a program reads. So the reader starts first, and
    // a first message is repeated until it is received.
    let (told, heard) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut byte = [0];
        while device.read_exact(&mut byte).is_ok() && told.send(byte[0]).is_ok() && byte[0] != STOP {}
    });
    let first = wait_for(PATIENCE, || {
        output.send(&[0xB3, 7, 64], Taint::Clean.into()).unwrap();
        heard.try_recv().ok()
    });
    assert_eq!(first, Some(0xB3));
    let long = [&[0xF0][..], &sysex, &[0xF7]].concat();
    output.send(&long, Taint::Clean.into()).unwrap();
    output.send(&[STOP], Taint::Clean.into()).unwrap();
    let mut got = Vec::new();
    while let Ok(byte) = heard.recv_timeout(PATIENCE) {
        got.push(byte);
    }
    reader.join().unwrap();
    let start = got.iter().position(|byte| *byte == 0xF0).unwrap();
    assert!(
        got[start..] == [&long[..], &[STOP]].concat(),
        "the device did not receive the whole SysEx message: {} bytes",
        got.len()
    );

    drop((input, output));
    let before = changed.load(Ordering::Relaxed);
    unload_virmidi();
    assert!(wait_for(PATIENCE, || (changed.load(Ordering::Relaxed) > before).then_some(())).is_some());
    assert!(wait_for(PATIENCE, || virtual_ports(&mut alsa, Way::Input).is_empty().then_some(())).is_some());
    let (sender, _receiver) = new_lane();
    assert_eq!(alsa.open_input(&id, sender).err(), Some(PortError::Gone { id }));
}

/// A program that acts as a device: the device exists when the program has reported it, and is
/// removed when this value is dropped.
struct Plugged {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Plugged {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut plugged = Plugged { child, lines };
        assert_eq!(plugged.lines.next().unwrap().unwrap(), "ready");
        plugged
    }

    fn pad() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../conductor-testkit/vm/pad.py");
        Plugged::start(Command::new("/usr/bin/python3").arg(script))
    }

    /// A reader of the virtual keyboard.
    fn keyboard() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../conductor-testkit/vm/keys.py");
        Plugged::start(Command::new("/usr/bin/python3").arg(script))
    }

    fn say(&mut self, line: &str) {
        self.child.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

impl Drop for Plugged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_gamepad_comes_plays_and_goes() {
    if !in_the_guest() {
        return;
    }
    let (stamp, announce, changed) = outside();
    let pads = match Gamepads::start(stamp, announce) {
        Ok(pads) => pads,
        Err(why) => {
            skip(&Missing { part: "gamepad", package: "udev", why: why.to_string() });
            return;
        }
    };
    assert_eq!(pads.ports(), []);
    let mut pad = Plugged::pad();
    let port = wait_for(PATIENCE, || pads.ports().pop()).expect("the new pad was not found");
    assert!(changed.load(Ordering::Relaxed) > 0);
    assert_eq!(port.usb.map(|usb| (usb.vendor, usb.product)), Some((0x045E, 0x028E)));
    assert!(port.guid.is_some(), "{port:?}");
    let (sender, mut receiver) = new_lane();
    let input = pads.open_input(&port.id, sender).unwrap();
    pad.say("press south");
    pad.say("release south");
    pad.say("press east");
    pad.say("axis x 32000");
    pad.say("axis rz 200");
    let mut heard = Vec::new();
    let value = |body: &Body| if let Body::Trigger { side: Side::Right, value } = body { Some(*value) } else { None };
    wait_for(PATIENCE, || {
        heard.extend(std::iter::from_fn(|| receiver.pop()).map(|event| event.body));
        heard.iter().filter_map(value).any(|it| it > 0.7).then_some(())
    });
    let pressed: Vec<&Body> = heard.iter().filter(|it| matches!(it, Body::ButtonDown(_) | Body::ButtonUp(_))).collect();
    let wanted = [Body::ButtonDown(Button::South), Body::ButtonUp(Button::South), Body::ButtonDown(Button::East)];
    assert_eq!(pressed[..3], wanted.iter().collect::<Vec<_>>()[..], "{heard:?}");
    let stick =
        heard.iter().find_map(|it| if let Body::Axis { axis: Axis::LeftX, value } = it { Some(*value) } else { None });
    assert!((stick.unwrap() - 0.977).abs() < 0.01, "{heard:?}");
    assert!((heard.iter().filter_map(value).next_back().unwrap() - 0.784).abs() < 0.01, "{heard:?}");

    pad.say("unplug");
    let gone = wait_for(PATIENCE, || receiver.is_abandoned().then_some(()));
    assert!(gone.is_some() && !input.is_open() && pads.ports().is_empty());
    let left: Vec<Body> = std::iter::from_fn(|| receiver.pop()).map(|event| event.body).collect();
    assert!(left.contains(&Body::ButtonUp(Button::East)), "the button of a removed pad is still held: {left:?}");
}

/// The interval between scans is longer than any test. So if a device returns within a test, the
/// system has announced it.
const STAGE: &str = r#"
schema = 1
[advanced_settings]
scan_interval_ms = 600000
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
"#;

/// A daemon with one device that is plugged in and out while one of its mappings holds a note.
struct Stage {
    studio: Studio,
    synth: Ear,
}

impl Stage {
    /// `device` and `trigger` are parts of a configuration; the alias of the device is `hands`.
    fn open(device: &str, trigger: &str) -> Self {
        let mapping = format!(
            "[[global_mappings]]\ntrigger = {{ device = \"hands\", {trigger} }}\naction = {{ type = \"SendMidi\", \
             port = \"synth\", channel = 1, message_type = \"NoteOn\", note = 62, velocity = 77 }}\n"
        );
        let studio = Studio::start(&format!("{STAGE}[[devices]]\nalias = \"hands\"\n{device}\n{mapping}"));
        let synth = studio.listen("synth");
        Stage { studio, synth }
    }

    /// Waits until `status` reports this connection state and this lifecycle.
    fn tells(&self, connected: bool, lifecycle: &str) {
        let mut last = Value::Null;
        let told = wait_for(PATIENCE, || {
            let rows = self.studio.call("conductor_list_device_bindings", json!({}));
            let row = rows["device_bindings"].as_array()?.iter().find(|it| it["device_id"] == "hands")?.clone();
            let status = self.studio.status();
            let now = row["connected"] == connected && status["lifecycle_state"] == lifecycle;
            last = json!([row, status]);
            now.then_some(())
        });
        assert!(told.is_some(), "the status never became connected: {connected}, {lifecycle}; last status: {last:#}");
    }

    fn starts_the_note(&mut self) {
        assert_eq!(self.synth.hear(), Some(vec![0x91, 62, 77]), "the mapping did not fire");
    }

    fn ends_the_note(&mut self) {
        assert_eq!(self.synth.hear().map(|it| (it[0], it[1])), Some((0x81, 62)), "the note was not released");
    }
}

#[test]
fn a_card_that_is_pulled_out_lets_go_of_its_note_and_plays_again_when_it_is_back() {
    if !in_the_guest() {
        return;
    }
    let matcher = "direction = \"Input\"\nmatchers = [{ type = \"NameContains\", pattern = \"VirMIDI\" }]";
    let mut stage = Stage::open(matcher, "type = \"Note\", note = 60");
    stage.tells(false, "Running");
    modprobe(&["snd-virmidi", "midi_devs=1"]);
    // Unbinding the driver has the effect of a pulled cable, even while programs still read from
    // the card.
    let cable = |word: &str| std::fs::write(format!("/sys/bus/platform/drivers/snd_virmidi/{word}"), "snd_virmidi.0");
    let play = |message: &[u8]| std::fs::write(player_end(), message).unwrap();
    for _ in 0..2 {
        stage.tells(true, "Running");
        play(&[0x90, 60, 100]);
        stage.starts_the_note();
        cable("unbind").unwrap();
        stage.ends_the_note();
        stage.tells(false, "Reconnecting");
        cable("bind").unwrap();
    }
    stage.tells(true, "Running");
    play(&[0x90, 60, 100]);
    stage.starts_the_note();
    play(&[0x80, 60, 0]);
    stage.ends_the_note();
    drop(stage);
    unload_virmidi();
}

#[test]
fn a_program_of_the_sequencer_that_ends_lets_go_of_its_note_and_plays_again_when_it_is_back() {
    if !in_the_guest() {
        return;
    }
    let python = match mido::python() {
        Ok(python) => python,
        Err(missing) => return skip(&missing),
    };
    let matcher = "direction = \"Input\"\nmatchers = [{ type = \"NameContains\", pattern = \"out-of-mido\" }]";
    let mut stage = Stage::open(matcher, "type = \"Note\", note = 60");
    for _ in 0..2 {
        let mut command = Command::new(python);
        command
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/jack/peer.py"))
            .args(["hold", "out-of-mido"]);
        let mut keys = Plugged::start(command.env("MIDI_API", "LINUX_ALSA"));
        stage.tells(true, "Running");
        keys.say("go");
        stage.starts_the_note();
        drop(keys);
        stage.ends_the_note();
        stage.tells(false, "Reconnecting");
    }
}

#[test]
fn a_gamepad_that_is_pulled_out_lets_go_of_its_note_and_plays_again_when_it_is_back() {
    if !in_the_guest() {
        return;
    }
    let matcher = "protocol = \"Gamepad\"\nmatchers = [{ type = \"NameContains\", pattern = \"X-Box 360\" }]";
    let mut stage = Stage::open(matcher, "type = \"GamepadButton\", button = \"south\"");
    for _ in 0..2 {
        let mut pad = Plugged::pad();
        stage.tells(true, "Running");
        pad.say("press south");
        stage.starts_the_note();
        pad.say("unplug");
        stage.ends_the_note();
        stage.tells(false, "Reconnecting");
    }
    let mut pad = Plugged::pad();
    stage.tells(true, "Running");
    pad.say("press south");
    stage.starts_the_note();
    pad.say("release south");
    stage.ends_the_note();
}

/// A gamepad button holds three keys of the virtual keyboard. A third-party program reads them.
struct Keyboard {
    studio: Studio,
    pad: Plugged,
    reader: Plugged,
}

impl Keyboard {
    fn open() -> Self {
        let config = "schema = 1\n[[devices]]\nalias = \"hands\"\nprotocol = \"Gamepad\"\nmatchers = [{ type = \
            \"NameContains\", pattern = \"X-Box 360\" }]\n[[global_mappings]]\ntrigger = { type = \"GamepadButton\", \
            button = \"south\" }\naction = { type = \"Keystroke\", keys = \"a\", modifiers = [\"ctrl\", \"shift\"], \
            hold = true }\n[[global_mappings]]\ntrigger = { type = \"GamepadButton\", button = \"east\" }\naction = { \
            type = \"MouseClick\", button = \"right\" }\n";
        let studio = Studio::start(config);
        let reader = Plugged::keyboard();
        let pad = Plugged::pad();
        let seen = wait_for(PATIENCE, || {
            let rows = studio.call("conductor_list_device_bindings", json!({}));
            rows["device_bindings"].as_array()?.iter().any(|it| it["connected"] == true).then_some(())
        });
        assert!(seen.is_some(), "the pad is not connected: {}", studio.status());
        Keyboard { studio, pad, reader }
    }

    fn next(&mut self) -> String {
        self.reader.lines.next().unwrap().unwrap()
    }

    fn presses(&mut self) {
        self.pad.say("press south");
        let down = [self.next(), self.next(), self.next()];
        assert_eq!(down, ["down KEY_LEFTCTRL", "down KEY_LEFTSHIFT", "down KEY_A"]);
    }

    fn releases(&mut self) {
        let mut up = [self.next(), self.next(), self.next()];
        up.sort();
        assert_eq!(up, ["up KEY_A", "up KEY_LEFTCTRL", "up KEY_LEFTSHIFT"]);
    }
}

#[test]
fn keys_reach_another_program_and_are_released_by_the_pad_and_by_panic() {
    if !in_the_guest() {
        return;
    }
    let mut keyboard = Keyboard::open();
    keyboard.presses();
    keyboard.pad.say("release south");
    keyboard.releases();
    keyboard.pad.say("press east");
    assert_eq!([keyboard.next(), keyboard.next()], ["down BTN_RIGHT", "up BTN_RIGHT"]);
    keyboard.pad.say("release east");

    keyboard.presses();
    assert!(keyboard.studio.run(&["panic"]).status.success());
    keyboard.releases();
    // The pad is still held: its release must not press or release anything again.
    keyboard.pad.say("release south");
    keyboard.presses();
    keyboard.pad.say("unplug");
    keyboard.releases();
}

#[test]
fn no_key_stays_down_when_the_daemon_is_killed() {
    if !in_the_guest() {
        return;
    }
    let mut keyboard = Keyboard::open();
    keyboard.presses();
    let pid = rustix::process::Pid::from_raw(keyboard.studio.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // The kernel releases the keys and removes the device. A reader that is slower than the removal
    // sees only the removal.
    let rest: Vec<String> = keyboard.reader.lines.by_ref().map(Result::unwrap).collect();
    assert_eq!(rest.last().map(String::as_str), Some("gone"), "{rest:?}");
    assert!(rest.iter().all(|it| !it.starts_with("down")), "{rest:?}");
    let left = Command::new("grep").args(["-c", "Name=\"Conductor\"", "/proc/bus/input/devices"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "0", "the device still exists");
}
