//! Measures the latency from port to port over a real JACK server. Compares Conductor with a direct
//! connection, with forwarders on mido, and with a C program.
//!
//! The bench has two JACK clients, one at each end of a path: the mouth sends each message at a
//! known frame, and the ear records the frame at which the message arrives. Both use the frame
//! counter of the server, so the figures do not depend on when a thread wakes up. All paths are
//! measured in turn within one run. The printed range is the range over these turns.
//!
//! Not here: ALSA. `a2jmidid` forwards between ALSA and JACK, and works only with an ALSA
//! sequencer. The C program here is `jalv` with a filter of x42, which works in the same way: one
//! client reads and writes in its callback.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]

use conductor_testkit::real::{PATIENCE, jack as server, mido, wait_for};
use jack::{
    AsyncClient, Client, ClientOptions, Control, MidiIn, MidiOut, NotificationHandler, Port, ProcessHandler,
    ProcessScope, RawMidi,
};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const RATE: u32 = 48_000;
const MOST_PER_SECOND: usize = 5000;
const SECONDS: usize = 3;
const ROUNDS: usize = 5;
/// How often the configuration is replaced while messages pass.
const RELOADS: usize = 100;
/// The time for which the idle load of a forwarder is measured.
const REST: Duration = Duration::from_secs(1);

/// Number of times that a device is plugged in.
const PLUGS: usize = 21;

const SERVER: &str = "JACK_DEFAULT_SERVER";
const HOME: &str = "CONDUCTOR_HOME";
/// Number of controllers. With sixteen, controller and value together encode a number of eleven
/// bits.
const CONTROLLERS: u8 = 16;
const FROM_CONTROLLER: u8 = 8;
const TO_CONTROLLER: u8 = 102;
/// Number of notes, each with 126 velocities.
const NOTES: u8 = 16;
const VELOCITIES: u8 = 126;
const FROM_NOTE: u8 = 36;
const TO_NOTE: u8 = 60;

/// The parameters of one table of the report.
#[derive(Clone, Copy)]
struct Setup {
    period: u32,
    per_second: usize,
    load: Load,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// The bench starts no other load.
    Idle,
    /// Two busy loops per core, and neither JACK nor the daemon has real-time priority.
    Busy,
    /// Two busy loops per core, and JACK and the daemon have real-time priority.
    BusyRealtime,
}

impl Load {
    fn text(self) -> &'static str {
        match self {
            Load::Idle => "no other work",
            Load::Busy => "two busy loops per core, normal priority",
            Load::BusyRealtime => "two busy loops per core, real-time priority",
        }
    }
}

/// Every setup, or those that the arguments name: `64/5000/idle`.
fn setups() -> Vec<Setup> {
    let loads = [("idle", Load::Idle), ("busy", Load::Busy), ("realtime", Load::BusyRealtime)];
    let mut all = Vec::new();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|it| it.contains('/')).collect();
    for (name, load) in loads {
        for period in [64, 256] {
            for per_second in [100, MOST_PER_SECOND] {
                if wanted.is_empty() || wanted.contains(&format!("{period}/{per_second}/{name}")) {
                    all.push(Setup { period, per_second, load });
                }
            }
        }
    }
    all
}

/// The number of turns of each path. The argument `rounds=1` gives a quick result.
fn rounds() -> usize {
    let given = std::env::args().find_map(|it| it.strip_prefix("rounds=")?.parse().ok());
    given.unwrap_or(ROUNDS)
}

fn main() {
    // libjack finds its server through the environment of the process, so the bench runs in a child
    // process with its own environment.
    #[expect(clippy::disallowed_methods, reason = "libjack reads the name of the server from the environment")]
    let name = std::env::var(SERVER);
    match name {
        Ok(name) if name.starts_with("ports-") => {
            let wanted = setups();
            measure(&name, wanted[0]);
        }
        _ => {
            for (at, setup) in setups().into_iter().enumerate() {
                let load = match setup.load {
                    Load::Idle => "idle",
                    Load::Busy => "busy",
                    Load::BusyRealtime => "realtime",
                };
                let status = Command::new(std::env::current_exe().unwrap())
                    .args([format!("{}/{}/{load}", setup.period, setup.per_second), format!("rounds={}", rounds())])
                    .env(SERVER, format!("ports-{}-{at}", std::process::id()))
                    .envs([("JACK_NO_AUDIO_RESERVATION", "1"), ("JACK_NO_START_SERVER", "1")])
                    .status();
                assert!(status.unwrap().success());
            }
        }
    }
}

fn measure(name: &str, setup: Setup) {
    let folder = tempfile::tempdir().unwrap();
    let started = match setup.load {
        Load::Idle | Load::BusyRealtime => server::start(folder.path(), name, setup.period),
        Load::Busy => server::start_without_priority(folder.path(), name, setup.period),
    };
    let _server = match started {
        Ok(running) => running,
        Err(missing) => return println!("{missing}"),
    };
    let rig = Rig::new(setup);
    let mut paths = paths(folder.path(), setup.load);
    paths.retain(|it| it.ends.as_ref().is_none_or(|ends| rig.sees(ends)));
    let _busy = BusyLoops::start(if setup.load == Load::Idle { 0 } else { 2 * cores() });
    let mut turns: Vec<Vec<Turn>> = paths.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds() {
        for (path, turns) in paths.iter().zip(&mut turns) {
            turns.push(rig.turn(path));
        }
    }
    report(setup, &paths, &turns);
    if let Some(route) = paths.iter().find(|it| it.name == "conductor, route") {
        rig.reloads(route, folder.path());
    }
    if setup.load == Load::Idle {
        plug_in();
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Programs that use all processor time that they get.
struct BusyLoops(Vec<Child>);

impl BusyLoops {
    fn start(count: usize) -> Self {
        let run = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        BusyLoops((0..count).map(run).collect())
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The daemon's counts of events over JACK.
#[derive(Clone, Copy, Default)]
struct Decided {
    in_period: u64,
    by_owner: u64,
    /// Events that reached the engine.
    processed: u64,
    /// Messages that an output refused.
    failed: u64,
}

/// Where the messages of a path were lost.
#[derive(Clone, Copy, Default)]
struct Losses {
    /// Sent by the mouth, but never in the input buffer of the daemon's callback. The server
    /// overwrites the buffers of a period that a client misses.
    before: u64,
    /// Heard by the callback, but merged or dropped in the event ring.
    ring: u64,
    /// Refused by the output: its queue was full, or its port was closed.
    outlet: u64,
    /// Written by the daemon, but not heard by the ear.
    after: u64,
}

impl Losses {
    fn of(turn: &Turn) -> Option<Self> {
        let Decided { in_period, by_owner, processed, failed } = turn.decided?;
        let heard = in_period + by_owner;
        let arrived = turn.latencies.len() as u64;
        Some(Losses {
            before: (turn.sent as u64).saturating_sub(heard),
            ring: heard.saturating_sub(processed),
            outlet: failed,
            after: processed.saturating_sub(failed + arrived),
        })
    }
}

fn status(folder: &std::path::Path) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    let output = command.args(["--json", "status"]).env(HOME, folder).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn decided(folder: &std::path::Path) -> Decided {
    let status = status(folder);
    let statistics = status.get("statistics").or_else(|| status.get("data")?.get("statistics"));
    let count = |key: &str| statistics.and_then(|it| it.get(key)?.as_u64()).unwrap_or(0);
    Decided {
        in_period: count("events_in_period"),
        by_owner: count("events_after_owner") + count("events_to_owner"),
        processed: count("events_processed"),
        failed: count("actions_failed"),
    }
}

/// Measures the time until the daemon has connected to a new port. The time starts when the client
/// of the port is active, because only then can the daemon connect to it.
fn plug_in() {
    let plug = || {
        let client = Client::new("late", ClientOptions::NO_START_SERVER).ok()?.0;
        let port = client.register_port("out", MidiOut::default()).ok()?;
        let client = client.activate_async((), ()).ok()?;
        let now = || client.as_client().time();
        let started = now();
        while port.connected_count().ok()? == 0 {
            if now() - started > PATIENCE.as_micros() as u64 {
                return None;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Some((now() - started) as f64 / 1000.0)
    };
    let mut times: Vec<f64> = (0..PLUGS).filter_map(|_| plug()).collect();
    times.sort_by(f64::total_cmp);
    match (times.first(), times.get(times.len() / 2), times.last()) {
        (Some(least), Some(median), Some(most)) => println!(
            "the daemon connects to a new port after {median:.1} ms ({least:.1} to {most:.1}), {} of {PLUGS} times",
            times.len()
        ),
        _ => println!("the daemon never connected to a new port"),
    }
}

/// One path from the mouth to the ear.
struct Path {
    name: &'static str,
    /// The input and output ports of the forwarder. `None` for a direct connection from the mouth
    /// to the ear.
    ends: Option<(String, String)>,
    forwarder: Option<Arc<Forwarder>>,
    form: Form,
    /// The home of the daemon, if the daemon is on this path.
    home: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A pitch bend, which encodes a number of 14 bits.
    Bend,
    /// A controller message, which encodes a number of eleven bits. The daemon maps it to another
    /// controller, so the bench detects a message that was not mapped.
    Controller,
    /// A note, which encodes a number of almost eleven bits in note and velocity. The daemon maps
    /// it to another note.
    Note,
}

impl Form {
    fn numbers(self) -> usize {
        match self {
            Form::Bend => 1 << 14,
            Form::Controller => usize::from(CONTROLLERS) << 7,
            Form::Note => usize::from(NOTES) * usize::from(VELOCITIES),
        }
    }

    fn write(self, number: usize) -> [u8; 3] {
        let (low, high) = ((number & 127) as u8, (number >> 7) as u8);
        match self {
            Form::Bend => [0xE0, low, high & 127],
            Form::Controller => [0xB0, FROM_CONTROLLER + high % CONTROLLERS, low],
            Form::Note => {
                let (note, velocity) = (number % usize::from(NOTES), number / usize::from(NOTES));
                [0x90, FROM_NOTE + note as u8, 1 + velocity as u8 % VELOCITIES]
            }
        }
    }

    fn read(self, message: &[u8]) -> Option<usize> {
        match (self, message) {
            (Form::Bend, &[0xE0, low, high]) => Some(usize::from(low) | usize::from(high) << 7),
            (Form::Controller, &[0xB0, controller, value]) => {
                let high = controller.checked_sub(TO_CONTROLLER).filter(|it| *it < CONTROLLERS)?;
                Some(usize::from(value) | usize::from(high) << 7)
            }
            (Form::Note, &[0x90, note, velocity]) => {
                let note = note.checked_sub(TO_NOTE).filter(|it| *it < NOTES)?;
                Some(usize::from(velocity.checked_sub(1)?) * usize::from(NOTES) + usize::from(note))
            }
            _ => None,
        }
    }
}

/// Data that the two callbacks and the measurement share. A frame number is stored plus one, so
/// that zero can mean "no frame yet".
struct Traffic {
    runs: AtomicBool,
    form: AtomicUsize,
    per_second: usize,
    xruns: AtomicUsize,
    sent: Vec<AtomicU64>,
    heard: Vec<AtomicU64>,
    arrived: AtomicUsize,
    /// Messages that arrived late or twice, or that the mouth did not send.
    astray: AtomicUsize,
}

impl Traffic {
    fn form(&self) -> Form {
        [Form::Bend, Form::Controller, Form::Note][self.form.load(Ordering::Relaxed)]
    }
}

struct Mouth {
    port: Port<MidiOut>,
    traffic: Arc<Traffic>,
    next: usize,
    first: Option<u32>,
}

impl ProcessHandler for Mouth {
    fn process(&mut self, _: &Client, scope: &ProcessScope) -> Control {
        let mut writer = self.port.writer(scope);
        if !self.traffic.runs.load(Ordering::Acquire) {
            (self.next, self.first) = (0, None);
            return Control::Continue;
        }
        let start = scope.last_frame_time();
        let first = *self.first.get_or_insert(start);
        let form = self.traffic.form();
        while let Some(sent) = self.traffic.sent.get(self.next) {
            let due = self.next as u64 * u64::from(RATE) / self.traffic.per_second as u64;
            // After missed periods, the late messages are sent at the first frame of the next
            // period.
            let offset = due.saturating_sub(u64::from(start.wrapping_sub(first)));
            let Some(time) = u32::try_from(offset).ok().filter(|it| *it < scope.n_frames()) else { break };
            let bytes = form.write(self.next % form.numbers());
            if writer.write(&RawMidi { time, bytes: &bytes }).is_err() {
                break;
            }
            sent.store(u64::from(start.wrapping_add(time)) + 1, Ordering::Release);
            self.next += 1;
        }
        Control::Continue
    }
}

struct Ear {
    port: Port<MidiIn>,
    traffic: Arc<Traffic>,
    next: usize,
}

impl ProcessHandler for Ear {
    fn process(&mut self, _: &Client, scope: &ProcessScope) -> Control {
        if !self.traffic.runs.load(Ordering::Acquire) {
            self.next = 0;
            return Control::Continue;
        }
        let form = self.traffic.form();
        for event in self.port.iter(scope) {
            // Do not count the note-off of a mapped note.
            if form == Form::Note && event.bytes.first() == Some(&0x80) {
                continue;
            }
            let ahead =
                form.read(event.bytes).map(|it| (it + form.numbers() - self.next % form.numbers()) % form.numbers());
            // The numbers repeat. A number in the half of the range ahead is a new message. A
            // number in the other half is a late message.
            let slot =
                ahead.filter(|it| *it < form.numbers() / 2).and_then(|it| self.traffic.heard.get(self.next + it));
            let (Some(slot), Some(ahead)) = (slot, ahead) else {
                self.traffic.astray.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            slot.store(u64::from(scope.last_frame_time().wrapping_add(event.time)) + 1, Ordering::Relaxed);
            self.next += ahead + 1;
            self.traffic.arrived.fetch_add(1, Ordering::Release);
        }
        Control::Continue
    }
}

/// Counts the periods that the server missed.
struct Xruns(Arc<Traffic>);

impl NotificationHandler for Xruns {
    fn xrun(&mut self, _: &Client) -> Control {
        self.0.xruns.fetch_add(1, Ordering::Relaxed);
        Control::Continue
    }
}

struct Rig {
    messages: usize,
    mouth: AsyncClient<Xruns, Mouth>,
    _ear: AsyncClient<(), Ear>,
    traffic: Arc<Traffic>,
}

/// The result of one turn of a path.
struct Turn {
    /// Latencies in frames, sorted. A value may be negative: after a missed period the server
    /// corrects its frame counter, and a message in transit may seem to arrive before it was sent.
    latencies: Vec<i32>,
    sent: usize,
    lost: usize,
    astray: usize,
    /// Processor time of the forwarder per message, in microseconds.
    cpu: f64,
    /// Processor time of the forwarder in percent while no messages are sent.
    rest: f64,
    decided: Option<Decided>,
    xruns: usize,
}

impl Rig {
    fn new(setup: Setup) -> Self {
        let messages = setup.per_second * SECONDS;
        let slots = || (0..messages).map(|_| AtomicU64::new(0)).collect();
        let traffic = Arc::new(Traffic {
            runs: AtomicBool::new(false),
            form: AtomicUsize::new(0),
            per_second: setup.per_second,
            xruns: AtomicUsize::new(0),
            sent: slots(),
            heard: slots(),
            arrived: AtomicUsize::new(0),
            astray: AtomicUsize::new(0),
        });
        let client = |name| Client::new(name, ClientOptions::NO_START_SERVER).unwrap().0;
        let (mouth, ear) = (client("mouth"), client("ear"));
        let port = mouth.register_port("out", MidiOut::default()).unwrap();
        let speaks = Mouth { port, traffic: Arc::clone(&traffic), next: 0, first: None };
        let mouth = mouth.activate_async(Xruns(Arc::clone(&traffic)), speaks).unwrap();
        let port = ear.register_port("in", MidiIn::default()).unwrap();
        let hears = Ear { port, traffic: Arc::clone(&traffic), next: 0 };
        let ear = ear.activate_async((), hears).unwrap();
        Rig { messages, mouth, _ear: ear, traffic }
    }

    fn sees(&self, (from, to): &(String, String)) -> bool {
        let client = self.mouth.as_client();
        let both = || [from, to].iter().all(|it| client.port_by_name(it).is_some()).then_some(());
        let seen = wait_for(PATIENCE, both).is_some();
        if !seen {
            println!("SKIP {from} to {to}: one of these ports did not appear");
        }
        seen
    }

    fn turn(&self, path: &Path) -> Turn {
        self.turn_with(path, || wait(Duration::from_secs(SECONDS as u64)))
    }

    /// Replaces the configuration many times while messages pass through a route.
    fn reloads(&self, path: &Path, folder: &std::path::Path) {
        let file = folder.join("config.toml");
        let config = std::fs::read_to_string(&file).unwrap();
        let hash = || status(folder).pointer("/config/hash").cloned();
        let mut done = 0;
        let turn = self.turn_with(path, || {
            for number in 0..RELOADS {
                let before = hash();
                std::fs::write(&file, format!("{config}\n[[modes]]\nname = \"Mode {number}\"\n")).unwrap();
                done += usize::from(wait_for(PATIENCE, || (hash() != before).then_some(())).is_some());
            }
        });
        println!("{done} reloads while messages passed: {} xruns, {} lost", turn.xruns, turn.lost);
        std::fs::write(&file, config).unwrap();
    }

    fn turn_with(&self, path: &Path, meanwhile: impl FnOnce()) -> Turn {
        let client = self.mouth.as_client();
        let cables = match &path.ends {
            Some((from, to)) => vec![("mouth:out", from.as_str()), (to.as_str(), "ear:in")],
            None => vec![("mouth:out", "ear:in")],
        };
        for (from, to) in &cables {
            client.connect_ports_by_name(from, to).unwrap();
        }
        let traffic = &self.traffic;
        traffic.form.store(path.form as usize, Ordering::Relaxed);
        for slot in traffic.sent.iter().chain(&traffic.heard) {
            slot.store(0, Ordering::Relaxed);
        }
        traffic.arrived.store(0, Ordering::Relaxed);
        traffic.astray.store(0, Ordering::Relaxed);
        let used = || path.forwarder.as_ref().map_or(0, |it| it.processor_ns());
        let decided_before = path.home.as_deref().map(decided);
        let before = used();
        wait(REST);
        let rested = used();
        let xruns = traffic.xruns.load(Ordering::Relaxed);
        traffic.runs.store(true, Ordering::Release);
        meanwhile();
        // Messages in transit may still arrive. If messages were lost, this wait ends at its time
        // limit.
        wait_for(Duration::from_secs(2), || (traffic.arrived.load(Ordering::Acquire) == self.messages).then_some(()));
        let worked = used();
        traffic.runs.store(false, Ordering::Release);
        for (from, to) in &cables {
            client.disconnect_ports_by_name(from, to).unwrap();
        }
        let frames = |(sent, heard): (&AtomicU64, &AtomicU64)| {
            let (sent, heard) = (sent.load(Ordering::Acquire), heard.load(Ordering::Acquire));
            (heard != 0).then(|| (heard as u32).wrapping_sub(sent as u32).cast_signed())
        };
        let mut latencies: Vec<i32> = traffic.sent.iter().zip(&traffic.heard).filter_map(frames).collect();
        latencies.sort_unstable();
        let decided = path.home.as_deref().zip(decided_before).map(|(home, before)| {
            let now = decided(home);
            Decided {
                in_period: now.in_period - before.in_period,
                by_owner: now.by_owner - before.by_owner,
                processed: now.processed - before.processed,
                failed: now.failed - before.failed,
            }
        });
        let sent = traffic.sent.iter().filter(|it| it.load(Ordering::Acquire) != 0).count();
        Turn {
            decided,
            xruns: traffic.xruns.load(Ordering::Relaxed) - xruns,
            sent,
            lost: sent - latencies.len(),
            latencies,
            astray: traffic.astray.load(Ordering::Relaxed),
            cpu: (worked - rested) as f64 / 1000.0 / self.messages as f64,
            rest: (rested - before) as f64 / REST.as_nanos() as f64 * 100.0,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the bench waits in real time")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// A program between two ports. Dropping the value ends the program.
struct Forwarder {
    child: std::sync::Mutex<Child>,
    id: u32,
}

impl Forwarder {
    fn start(mut command: Command) -> std::io::Result<Arc<Self>> {
        // Keep stdin open, because some of the programs read commands from it.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        Ok(Arc::new(Forwarder { id: child.id(), child: child.into() }))
    }

    /// Waits for the first line that the program writes.
    fn ready(self: Arc<Self>) -> Option<Arc<Self>> {
        let mut line = String::new();
        let stdout = self.child.lock().unwrap().stdout.take()?;
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut line).ok().filter(|it| *it > 0)?;
        // Read the rest of the output, because a full pipe would block the program.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Some(self)
    }

    /// Processor time of all threads of the program so far. The ticks of `stat` are too coarse to
    /// measure a message.
    fn processor_ns(&self) -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id)).unwrap();
        let ns = |thread: std::fs::DirEntry| -> Option<u64> {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_ascii_whitespace().next()?.parse().ok()
        };
        threads.filter_map(Result::ok).filter_map(ns).sum()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn paths(folder: &std::path::Path, load: Load) -> Vec<Path> {
    let mut paths = vec![Path { name: "cable", ends: None, forwarder: None, form: Form::Bend, home: None }];
    let conductor = conductor(folder, load);
    for (name, port, form) in [
        ("conductor, route", "route", Form::Bend),
        ("conductor, MidiForward", "forward", Form::Bend),
        ("conductor, mapped CC", "map", Form::Controller),
        ("conductor, mapped note", "note", Form::Note),
    ] {
        let ends = Some((format!("conductor:{port} in"), format!("conductor:{port} out")));
        let home = Some(folder.to_owned());
        paths.push(Path { name, ends, forwarder: Some(Arc::clone(&conductor)), form, home });
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/ports/forward.py");
    for (name, form) in [("mido, callback", "callback"), ("mido, loop", "loop")] {
        let started = mido::python().map_err(|missing| missing.to_string()).and_then(|python| {
            let mut command = Command::new(python);
            command.args([script, &format!("mido-{form}"), form]);
            let forwarder = Forwarder::start(command).map_err(|error| format!("SKIP {name}: {error}"))?;
            forwarder.ready().ok_or_else(|| format!("SKIP {name}: it ended immediately"))
        });
        match started {
            Ok(forwarder) => {
                let ends = Some((format!("mido-{form}-in:in"), format!("mido-{form}-out:out")));
                paths.push(Path { name, ends, forwarder: Some(forwarder), form: Form::Bend, home: None });
            }
            Err(why) => println!("{why}"),
        }
    }
    let mut jalv = Command::new("jalv");
    jalv.args(["-n", "jalv", "http://gareus.org/oss/lv2/midifilter#passthru"]);
    match Forwarder::start(jalv) {
        Ok(forwarder) => {
            let ends = Some(("jalv:midiin".to_owned(), "jalv:midiout".to_owned()));
            let name = "jalv, x42 passthru (C)";
            paths.push(Path { name, ends, forwarder: Some(forwarder), form: Form::Bend, home: None });
        }
        Err(error) => println!("SKIP jalv: {error} (Debian packages jalv x42-plugins)"),
    }
    paths
}

/// Starts the daemon as `conductor up` does, with four paths through it.
fn conductor(folder: &std::path::Path, load: Load) -> Arc<Forwarder> {
    let mut config = String::from(
        "schema = 1\n[[devices]]\nalias = \"late\"\ndirection = \"Input\"\n\
         matchers = [{ type = \"NameContains\", value = \"late\" }]\n",
    );
    for way in ["route", "forward", "map", "note"] {
        config.push_str(&format!(
            "[[devices]]\nalias = \"{way}-in\"\ndirection = \"Input\"\nvirtual_port = \"{way} in\"\n\
             [[devices]]\nalias = \"{way}-out\"\ndirection = \"Output\"\nvirtual_port = \"{way} out\"\n"
        ));
    }
    config.push_str(
        "[[routes]]\nfrom = \"route-in\"\nto = \"route-out\"\n\
         [[global_mappings]]\ntrigger = { type = \"PitchBend\", edge = \"level\", device = \"forward-in\" }\n\
         action = { type = \"MidiForward\", target = \"forward-out\" }\n",
    );
    for controller in 0..CONTROLLERS {
        let (from, to) = (FROM_CONTROLLER + controller, TO_CONTROLLER + controller);
        config.push_str(&format!(
            "[[global_continuous]]\nsource = {{ type = \"CC\", cc = {from}, device = \"map-in\" }}\n\
             glue = {{ throttle_ms = 0 }}\ntargets = [{{ type = \"CC\", port = \"map-out\", channel = 0, controller = {to} }}]\n"
        ));
    }
    for note in 0..NOTES {
        let (from, to) = (FROM_NOTE + note, TO_NOTE + note);
        config.push_str(&format!(
            "[[global_mappings]]\ntrigger = {{ type = \"Note\", note = {from}, device = \"note-in\" }}\n\
             action = {{ type = \"SendMidi\", port = \"note-out\", channel = 0, message_type = \"NoteOn\", \
             note = {to}, velocity_map = {{ type = \"PassThrough\" }} }}\n"
        ));
    }
    std::fs::write(folder.join("config.toml"), config).unwrap();
    let mut command = match load {
        Load::Idle | Load::BusyRealtime => Command::new(env!("CARGO_BIN_EXE_conductor")),
        // Without this capability the daemon cannot give its thread real-time priority.
        Load::Busy => {
            let mut command = Command::new("setpriv");
            command.args(["--inh-caps=-sys_nice", "--bounding-set=-sys_nice", env!("CARGO_BIN_EXE_conductor")]);
            command
        }
    };
    command.args(["--json", "up", "--http", "127.0.0.1:0"]).env(HOME, folder);
    Forwarder::start(command).unwrap().ready().expect("the daemon did not start")
}

fn report(setup: Setup, paths: &[Path], turns: &[Vec<Turn>]) {
    let Setup { period, per_second, load } = setup;
    println!(
        "port to port over JACK, {period} frames at {RATE} Hz, {per_second} messages a second for {SECONDS} s, \
         {}, {} turns each: median (lowest to highest of the turns)",
        load.text(),
        rounds()
    );
    println!(
        "{:<24} {:>18} {:>8} {:>18} {:>8} {:>8} {:>12} {:>7} {:>20} {:>8}",
        "", "p50 frames", "ms", "p99 frames", "ms", "max", "lost", "stray", "CPU us a message", "idle %"
    );
    let (mut cable, mut cable_p99) = (0.0, 0.0);
    for (path, turns) in paths.iter().zip(turns) {
        let at = |share: f64| {
            move |turn: &Turn| {
                let rank = ((turn.latencies.len() as f64 * share) as usize).min(turn.latencies.len().saturating_sub(1));
                turn.latencies.get(rank).map_or(f64::NAN, |it| f64::from(*it))
            }
        };
        let (p50, p99) = (Spread::of(turns, at(0.5)), Spread::of(turns, at(0.99)));
        let ms = |frames: f64| frames * 1000.0 / f64::from(RATE);
        let lost: usize = turns.iter().map(|it| it.lost).sum();
        let astray: usize = turns.iter().map(|it| it.astray).sum();
        let (cpu, rest) = match path.forwarder {
            Some(_) => {
                let rest = Spread::of(turns, |it| it.rest);
                (Spread::of(turns, |it| it.cpu).text(2), format!("{:.2}", rest.median))
            }
            None => ("-".to_owned(), "-".to_owned()),
        };
        println!(
            "{:<24} {:>18} {:>8.2} {:>18} {:>8.2} {:>8} {:>12} {astray:>7} {cpu:>20} {rest:>8}",
            path.name,
            p50.text(0),
            ms(p50.median),
            p99.text(0),
            ms(p99.median),
            turns.iter().filter_map(|it| it.latencies.last()).max().copied().unwrap_or(0),
            format!("{lost} of {}", per_second * SECONDS * turns.len()),
        );
        match path.ends {
            None => (cable, cable_p99) = (p50.median, p99.median),
            Some(_) if path.name.starts_with("conductor") => {
                let (added, added_p99) = (p50.median - cable, p99.median - cable_p99);
                let goal = if added <= 0.0 && added_p99 <= 0.0 { "the same period" } else { "NOT the same period" };
                let loss = if lost + astray == 0 { "no message lost" } else { "MESSAGES LOST OR STRAY" };
                let xruns: usize = turns.iter().map(|it| it.xruns).sum();
                let all = turns
                    .iter()
                    .filter_map(|it| it.decided)
                    .fold((0, 0), |sum, it| (sum.0 + it.in_period, sum.1 + it.in_period + it.by_owner));
                let share = all.0 as f64 / (all.1.max(1)) as f64 * 100.0;
                println!(
                    "  adds {added:.0} frames at p50 and {added_p99:.0} at p99: {goal}; {loss}; {share:.2} % decided in the \
                     callback; {xruns} xruns"
                );
                let all = turns.iter().filter_map(Losses::of).fold(Losses::default(), |sum, it| Losses {
                    before: sum.before + it.before,
                    ring: sum.ring + it.ring,
                    outlet: sum.outlet + it.outlet,
                    after: sum.after + it.after,
                });
                if lost > 0 {
                    println!(
                        "  lost before the daemon (a missed period): {}, in its ring: {}, at its outlet: {}, after it (a \
                         missed period): {}",
                        all.before, all.ring, all.outlet, all.after
                    );
                }
            }
            Some(_) => {}
        }
    }
}

struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(turns: &[Turn], figure: impl Fn(&Turn) -> f64) -> Self {
        let mut figures: Vec<f64> = turns.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        Spread { median: figures[figures.len() / 2], least: figures[0], most: figures[figures.len() - 1] }
    }

    fn text(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.least, self.most)
    }
}
