//! The JACK backend against a real server and third-party programs.
//!
//! libjack finds its server through the environment of the process. So every test runs again in a
//! child process with its own server name; the code after `inside` runs in the child.

use conductor_core::event::{Body, DeviceSlot, Micros, Taint};
use conductor_hosts::midi::jack::Jack;
use conductor_hosts::midi::period::no_desk;
use conductor_hosts::midi::ring::{Bell, EventReceiver, event_ring};
use conductor_hosts::midi::{Announcement, Backend, Cause, Malformed, PortError, SendError, Way};
use conductor_testkit::backend_contract as contract;
use conductor_testkit::real::{self, Missing, PATIENCE, jack, mido, wait_for};
use conductor_testkit::require;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SERVER: &str = "JACK_DEFAULT_SERVER";
const INSIDE: &str = "CONDUCTOR_TEST_INSIDE";

/// Runs the calling test again in a child process with its own server name. Returns `Ok` in that
/// child.
#[expect(clippy::disallowed_methods, reason = "libjack reads the server's name from the environment")]
fn inside(test: &str, extra: &[(&str, &Path)]) -> Result<String, Output> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(std::env::var(SERVER).unwrap());
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("jack_backend::{test}"), "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .env(SERVER, format!("ct-{}-{test}", std::process::id()).chars().take(40).collect::<String>())
        .env("JACK_NO_AUDIO_RESERVATION", "1")
        .envs(extra.iter().map(|(key, value)| (*key, *value)))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    if err.contains("SKIP ") {
        std::io::stderr().write_all(err.as_bytes()).unwrap();
    } else {
        assert_eq!(err, "", "libjack wrote to the terminal");
    }
    Err(output)
}

macro_rules! inside {
    ($test:literal) => {
        match inside($test, &[]) {
            Ok(server) => server,
            Err(_) => return,
        }
    };
}

#[expect(clippy::disallowed_methods, reason = "the time stamps are real time")]
fn backend() -> (Jack, Arc<AtomicU32>, Arc<AtomicU32>) {
    let start = Instant::now();
    let (changed, lost) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (changes, losses) = (Arc::clone(&changed), Arc::clone(&lost));
    let announce = Arc::new(move |what| {
        match what {
            Announcement::PortsChanged { .. } => changes.fetch_add(1, Ordering::Relaxed),
            Announcement::Lost { .. } => losses.fetch_add(1, Ordering::Relaxed),
        };
    });
    let stamp = Arc::new(move || Micros(start.elapsed().as_micros() as u64));
    (Jack::new("conductor", stamp, announce, no_desk()), changed, lost)
}

fn new_lane() -> (conductor_hosts::midi::ring::EventSender, EventReceiver) {
    event_ring(DeviceSlot(0), u32::MAX, Bell::silent())
}

struct Peer {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Peer {
    fn start(python: &str, args: &[&str]) -> Peer {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/jack/peer.py");
        let mut child = Command::new(python)
            .arg(script)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut peer = Peer { child, lines };
        assert_eq!(peer.line().as_deref(), Some("ready"));
        peer
    }

    fn line(&mut self) -> Option<String> {
        self.lines.next().and_then(Result::ok)
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// Everything received before the end mark.
    fn heard(mut self) -> Vec<String> {
        let mut out = Vec::new();
        while let Some(line) = self.line() {
            if line == "end" {
                return out;
            }
            out.push(line);
        }
        panic!("the peer ended after {} messages", out.len());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(lane: &mut EventReceiver, count: usize, limit: Duration) -> Vec<Body> {
    let mut out = Vec::new();
    wait_for(limit, || {
        out.extend(std::iter::from_fn(|| lane.pop()).map(|event| event.body));
        (out.len() >= count).then_some(())
    });
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const END_MARK: [u8; 3] = [0x9F, 0, 1];

/// Sends a message, and waits while the queue is full.
fn send_patiently(output: &mut dyn conductor_hosts::midi::Output, message: &[u8]) {
    let sent = wait_for(PATIENCE, || match output.send(message, Taint::Clean.into()) {
        Ok(()) => Some(()),
        Err(SendError::Busy) => None,
        Err(other) => panic!("{other}"),
    });
    assert!(sent.is_some(), "the queue never emptied");
}

fn bend(value: u16) -> [u8; 3] {
    [0xE0, (value & 127) as u8, (value >> 7) as u8]
}

#[test]
fn jack_keeps_the_contract() {
    let server = inside!("jack_keeps_the_contract");
    let dir = tempfile::tempdir().unwrap();
    let _server = require!(jack::start(dir.path(), &server, 256));
    let (mut backend, ..) = backend();
    let (sender, lane) = new_lane();
    let input = backend.create_input("in", sender).unwrap();
    let output = backend.create_output("out").unwrap();
    assert!(jack::connect("conductor:out", "conductor:in"));
    contract::keeps_the_contract(&mut backend, contract::Cable { output, input, lane, patience: PATIENCE });
}

#[test]
fn a_sequencer_is_heard_and_a_dump_hears_us() {
    let server = inside!("a_sequencer_is_heard_and_a_dump_hears_us");
    let dir = tempfile::tempdir().unwrap();
    let _server = require!(jack::start(dir.path(), &server, 256));
    let (mut backend, changed, _) = backend();
    let (sender, mut receiver) = new_lane();
    let _input = backend.create_input("keys", sender).unwrap();
    let mut sequencer =
        Command::new("jack_midiseq").args(["seq", "24000", "0", "60", "8000"]).stderr(Stdio::null()).spawn().unwrap();
    let theirs = jack::wait_for_port("seq:").unwrap();
    assert!(jack::connect(&theirs, "conductor:keys"));
    let heard = collect(&mut receiver, 4, PATIENCE);
    let note = |body: &Body| matches!(body, Body::NoteOn { note: 60, .. } | Body::NoteOff { note: 60, .. });
    assert!(heard.len() >= 4 && heard.iter().all(note), "{heard:?}");
    let listed = backend.ports().unwrap();
    assert!(listed.iter().any(|port| port.way == Way::Input && port.id == theirs), "{listed:?}");
    assert!(listed.iter().all(|port| !port.id.starts_with("conductor:")), "our own ports are listed as devices");
    sequencer.kill().unwrap();
    sequencer.wait().unwrap();
    assert!(changed.load(Ordering::Relaxed) > 0);

    let mut output = backend.create_output("pads").unwrap();
    let mut dump = Command::new("jack_midi_dump").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let theirs = jack::wait_for_port("midi-monitor:").unwrap();
    assert!(jack::connect("conductor:pads", &theirs));
    let mut lines = BufReader::new(dump.stdout.take().unwrap()).lines();
    for message in [&[0x90, 36, 100][..], &[0xB1, 7, 64], &[0xC2, 5], &[0xF0, 0x7E, 0x7F, 6, 1, 0xF7]] {
        output.send(message, Taint::Clean.into()).unwrap();
        let expected: Vec<String> = message.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = lines.by_ref().map_while(Result::ok).find(|line| !line.trim().is_empty()).unwrap();
        assert!(line.to_lowercase().contains(&expected.join(" ")), "{line} lacks {expected:?}");
    }
    dump.kill().unwrap();
    dump.wait().unwrap();
}

#[test]
fn ten_thousand_paced_messages_arrive_in_order_both_ways() {
    let server = inside!("ten_thousand_paced_messages_arrive_in_order_both_ways");
    let dir = tempfile::tempdir().unwrap();
    let _server = require!(jack::start(dir.path(), &server, 256));
    let python = require!(mido::python());
    let (mut backend, ..) = backend();

    let mut peer = Peer::start(python, &["send", "out", "10000", "200"]);
    let port = backend.ports().unwrap().into_iter().find(|port| port.id.starts_with("peer") && port.way == Way::Input);
    let (sender, mut receiver) = new_lane();
    let _input = backend.open_input(&port.unwrap().id, sender).unwrap();
    peer.go();
    let heard = collect(&mut receiver, 10_000, Duration::from_secs(60));
    let expected: Vec<Body> = (0..10_000).map(|value| Body::PitchBend { channel: 0, value }).collect();
    assert!(
        heard == expected,
        "received {} of 10000 messages, in order: {}",
        heard.len(),
        heard.is_sorted_by_key(bend_value)
    );
    assert_eq!(receiver.counts().dropped + receiver.counts().merged, 0);
    drop(peer);

    let peer = Peer::start(python, &["recv", "in", "60"]);
    let port = wait_for(PATIENCE, || {
        let ports = backend.ports().unwrap();
        ports.into_iter().find(|port| port.id.starts_with("peer") && port.way == Way::Output)
    });
    let mut output = backend.open_output(&port.unwrap().id).unwrap();
    for value in 0..10_000 {
        send_patiently(output.as_mut(), &bend(value));
        std::thread::park_timeout(Duration::from_micros(150));
    }
    send_patiently(output.as_mut(), &END_MARK);
    let expected: Vec<String> = (0..10_000).map(|value| hex(&bend(value))).collect();
    let heard = peer.heard();
    assert!(heard == expected, "received {} of 10000 messages", heard.len());
}

fn bend_value(body: &Body) -> Option<u16> {
    if let Body::PitchBend { value, .. } = body { Some(*value) } else { None }
}

#[test]
fn a_burst_and_long_messages_arrive_whole_or_are_refused() {
    let server = inside!("a_burst_and_long_messages_arrive_whole_or_are_refused");
    let dir = tempfile::tempdir().unwrap();
    let _server = require!(jack::start(dir.path(), &server, 256));
    let python = require!(mido::python());
    let (mut backend, ..) = backend();
    let peer = Peer::start(python, &["recv", "in", "60"]);
    let port = backend.ports().unwrap().into_iter().find(|port| port.id.starts_with("peer")).unwrap();
    let mut output = backend.open_output(&port.id).unwrap();
    let mut expected = Vec::new();
    // Send without pauses: more messages than fit into one period.
    for value in 0..4000 {
        output.send(&bend(value), Taint::Clean.into()).unwrap();
        expected.push(hex(&bend(value)));
    }
    for number in 0..10 {
        send_patiently(output.as_mut(), &[0xB5, number, number]);
        expected.push(hex(&[0xB5, number, number]));
    }
    let sysex = |len: usize, seed: usize| {
        let body: Vec<u8> = (0..len).map(|i| ((i * 31 + seed) % 128) as u8).collect();
        [&[0xF0][..], &body, &[0xF7]].concat()
    };
    for len in [8193, 65_536] {
        let refused = output.send(&sysex(len, 5), Taint::Clean.into());
        assert_eq!(refused, Err(SendError::Malformed(Malformed::SysExTooLong { len })));
    }
    for seed in 0..3 {
        send_patiently(output.as_mut(), &sysex(8192, seed));
        expected.push(hex(&sysex(8192, seed)));
    }
    send_patiently(output.as_mut(), &[0x90, 1, 2]);
    expected.push(hex(&[0x90, 1, 2]));
    send_patiently(output.as_mut(), &END_MARK);
    let heard = peer.heard();
    let first_wrong = heard.iter().zip(&expected).position(|(got, wanted)| got != wanted);
    assert!(heard == expected, "received {} of {} messages, first wrong: {first_wrong:?}", heard.len(), expected.len());

    let mut peer = Peer::start(python, &["sysex", "out"]);
    let id = jack::wait_for_port("peer").unwrap();
    let (sender, mut receiver) = new_lane();
    let _input = backend.open_input(&id, sender).unwrap();
    peer.go();
    let wanted: Vec<u8> = (0..8192).map(|i| (i % 128) as u8).collect();
    assert_eq!(collect(&mut receiver, 1, PATIENCE), vec![Body::SysEx(wanted.into())]);
}

#[test]
fn an_unread_burst_is_busy_and_not_lost() {
    let server = inside!("an_unread_burst_is_busy_and_not_lost");
    let dir = tempfile::tempdir().unwrap();
    let _server = require!(jack::start(dir.path(), &server, 256));
    let (mut backend, ..) = backend();
    let mut output = backend.create_output("pads").unwrap();
    let taken =
        (0..200_000u32).take_while(|i| output.send(&bend((i % 16384) as u16), Taint::Clean.into()).is_ok()).count();
    assert!(taken >= 4000, "{taken}");
    if taken < 200_000 {
        assert_eq!(
            output.send(&[0x80, 36, 0], Taint::Clean.into()),
            Ok(()),
            "a release was refused, although space is reserved for releases"
        );
    }
}

#[test]
fn a_server_that_ends_is_noticed_and_its_return_too() {
    let server = inside!("a_server_that_ends_is_noticed_and_its_return_too");
    let dir = tempfile::tempdir().unwrap();
    let first = require!(jack::start(dir.path(), &server, 256));
    let (mut backend, _, lost) = backend();
    let (sender, receiver) = new_lane();
    let input = backend.create_input("in", sender).unwrap();
    let mut output = backend.create_output("out").unwrap();
    assert!(input.is_open() && output.is_open());
    first.kill();
    assert!(wait_for(PATIENCE, || (!input.is_open()).then_some(())).is_some());
    assert!(wait_for(PATIENCE, || (lost.load(Ordering::Relaxed) == 1).then_some(())).is_some());
    assert_eq!(output.send(&[0x90, 1, 1], Taint::Clean.into()), Err(SendError::Offline));
    let why = backend.connect().unwrap_err();
    assert_eq!(why.cause, Cause::NoServer, "{why}");
    assert!(matches!(backend.ports(), Err(PortError::Unavailable(_))));
    assert!(receiver.is_abandoned(), "the receiver is still connected after the end of the server");

    let _second = jack::start(dir.path(), &server, 256).unwrap();
    backend.connect().unwrap();
    let (sender, mut receiver) = new_lane();
    let _input = backend.create_input("in", sender).unwrap();
    let mut output = backend.create_output("out").unwrap();
    assert!(jack::connect("conductor:out", "conductor:in"));
    send_patiently(output.as_mut(), &[0x90, 36, 100]);
    assert_eq!(collect(&mut receiver, 1, PATIENCE), vec![Body::NoteOn { channel: 0, note: 36, velocity: 100 }]);
}

#[test]
fn a_port_that_came_back_before_anyone_looked_is_another() {
    let server = inside!("a_port_that_came_back_before_anyone_looked_is_another");
    let dir = tempfile::tempdir().unwrap();
    let _server = require!(jack::start(dir.path(), &server, 256));
    let (mut backend, changed, _) = backend();
    backend.connect().unwrap();
    let plug = || {
        let client = ::jack::Client::new("late", ::jack::ClientOptions::NO_START_SERVER).unwrap().0;
        let port = client.register_port("out", ::jack::MidiOut::default()).unwrap();
        (client.activate_async((), ()).unwrap(), port)
    };
    let look = |backend: &mut Jack| {
        let found = backend.ports().unwrap().into_iter().find(|it| it.id == "late:out");
        found.map(|it| it.generation)
    };
    let first = plug();
    let generation = wait_for(PATIENCE, || look(&mut backend)).expect("the port was not found");
    assert_eq!(look(&mut backend), Some(generation), "listing the ports changed the generation");
    let told = changed.load(Ordering::Relaxed);
    drop(first);
    let _second = plug();
    wait_for(PATIENCE, || (changed.load(Ordering::Relaxed) > told + 1).then_some(()))
        .expect("the removed and the new port were not both announced");
    let again = wait_for(PATIENCE, || look(&mut backend).filter(|it| *it != generation));
    assert!(again.is_some(), "the new port has the generation of the old one");
}

#[test]
fn closed_ports_vanish_and_their_last_messages_go_out() {
    let server = inside!("closed_ports_vanish_and_their_last_messages_go_out");
    let dir = tempfile::tempdir().unwrap();
    let _server = require!(jack::start(dir.path(), &server, 256));
    let (mut backend, ..) = backend();
    let (sender, mut receiver) = new_lane();
    let input = backend.create_input("in", sender).unwrap();
    let mut output = backend.create_output("out").unwrap();
    assert!(jack::connect("conductor:out", "conductor:in"));
    for note in 0..100 {
        send_patiently(output.as_mut(), &[0x80, note, 0]);
    }
    drop(output);
    assert_eq!(collect(&mut receiver, 100, PATIENCE).len(), 100);
    drop(input);
    let gone = wait_for(PATIENCE, || {
        backend.ports().unwrap();
        jack::ports().iter().all(|name| !name.starts_with("conductor:")).then_some(())
    });
    assert!(gone.is_some(), "{:?}", jack::ports());
    assert!(receiver.is_abandoned());
    let missing = backend.open_output("nobody:here").err();
    assert_eq!(missing, Some(PortError::Gone { id: "nobody:here".into() }));
}

#[test]
fn without_a_server_the_reason_is_told_and_nothing_is_printed() {
    let test = "without_a_server_the_reason_is_told_and_nothing_is_printed";
    match inside(test, &[]) {
        Ok(_) => {
            let (mut backend, ..) = backend();
            let why = backend.connect().unwrap_err();
            // On a machine without libjack, the cause is the missing library.
            assert!(matches!(why.cause, Cause::NoServer | Cause::LibraryMissing), "{why}");
            assert!(why.to_string().starts_with("jack: "));
            assert!(backend.connect().is_err() && backend.create_output("x").is_err());
        }
        Err(output) => {
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "libjack wrote to the terminal")
        }
    }
}

#[test]
fn without_libjack_the_reason_is_told() {
    // An empty file with the library's name is found before the real library, so that loading fails
    // on every machine.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("libjack.so.0"), "").unwrap();
    // Without a sign of a server, the library would not be loaded.
    std::fs::write(dir.path().join("pipewire-0"), "").unwrap();
    let extra = [("LD_LIBRARY_PATH", dir.path()), ("XDG_RUNTIME_DIR", dir.path())];
    match inside("without_libjack_the_reason_is_told", &extra) {
        Ok(_) => {
            let (mut backend, ..) = backend();
            let why = backend.connect().unwrap_err();
            assert_eq!(why.cause, Cause::LibraryMissing, "{why}");
            assert!(backend.create_output("x").is_err());
        }
        Err(output) => assert_eq!(String::from_utf8_lossy(&output.stderr), ""),
    }
}

#[test]
fn this_binary_does_not_need_libjack_to_start() {
    let exe = std::env::current_exe().unwrap();
    let Ok(output) = Command::new("ldd").arg(exe).output() else {
        real::skip(&Missing { part: "ldd", package: "libc-bin", why: "it does not start".into() });
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("libc.so"), "{text}");
    assert!(!text.contains("libjack"), "{text}");
}

/// The period determines the time from one client to another; the median is about half a period.
/// Slow outliers depend on the machine and are not checked.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures latency in real time")]
fn one_way_latency_stays_below_a_period_in_the_median() {
    let server = inside!("one_way_latency_stays_below_a_period_in_the_median");
    let dir = tempfile::tempdir().unwrap();
    let _server = require!(jack::start(dir.path(), &server, 256));
    let start = Instant::now();
    let now = move || Micros(start.elapsed().as_micros() as u64);
    let mut ear = Jack::new("ear", Arc::new(now), Arc::new(|_| {}), no_desk());
    let mut mouth = Jack::new("mouth", Arc::new(now), Arc::new(|_| {}), no_desk());
    let (sender, mut receiver) = new_lane();
    let _input = ear.create_input("in", sender).unwrap();
    let mut output = mouth.create_output("out").unwrap();
    assert!(jack::connect("mouth:out", "ear:in"));
    let mut sent = Vec::new();
    for value in 0..1000u16 {
        sent.push(now());
        send_patiently(output.as_mut(), &bend(value));
        std::thread::park_timeout(Duration::from_micros(1100));
    }
    let mut heard = Vec::new();
    wait_for(PATIENCE, || {
        heard.extend(std::iter::from_fn(|| receiver.pop()));
        (heard.len() >= 1000).then_some(())
    });
    assert_eq!(heard.iter().filter_map(|it| bend_value(&it.body)).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
    let mut waits: Vec<u64> = heard.iter().zip(&sent).map(|(event, sent)| event.at.since(*sent)).collect();
    waits.sort_unstable();
    println!("one way, 256 frames: p50 {} us, p99 {} us", waits[500], waits[990]);
    assert!(waits[500] < 5333, "p50 {} us", waits[500]);
}
