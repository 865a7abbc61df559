//! From port to port over a real JACK server: what Conductor adds to a cable, beside the cable
//! itself, a forwarder on mido and a C program.
//!
//! Two clients of ours stand at the ends, so that nothing is a loop: the mouth puts every message
//! at a frame of its own and the ear notes the frame at which it arrives. Both count in the
//! server's frames, so the figures do not depend on when a thread woke up. All paths take turns
//! within one run; the spread is that of the turns.
//!
//! Not here: ALSA. `a2jmidid` itself carries between ALSA and JACK and does nothing without a
//! sequencer; the C program here is `jalv` with the filters of x42, which is of its class: one
//! client that reads and writes within its callback.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]

use conductor_testkit::real::{PATIENCE, jack as server, mido, wait_for};
use jack::{AsyncClient, Client, ClientOptions, Control, MidiIn, MidiOut, Port, ProcessHandler, ProcessScope, RawMidi};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const PERIOD: u32 = 64;
const RATE: u32 = 48_000;
const PER_SECOND: usize = 5000;
const SECONDS: usize = 3;
const MESSAGES: usize = PER_SECOND * SECONDS;
const ROUNDS: usize = 5;
/// How long a forwarder is watched while nothing passes.
const REST: Duration = Duration::from_secs(1);

/// How often a device is plugged in.
const PLUGS: usize = 21;

const SERVER: &str = "JACK_DEFAULT_SERVER";
/// Sixteen controllers, so that a number of eleven bits fits into controller and value.
const CONTROLLERS: u8 = 16;
const FROM_CONTROLLER: u8 = 8;
const TO_CONTROLLER: u8 = 102;

fn main() {
    // libjack finds its server through the environment of the process, so everything happens in a
    // child of its own.
    #[expect(clippy::disallowed_methods, reason = "libjack takes the server's name from the environment")]
    let name = std::env::var(SERVER);
    match name {
        Ok(name) if name.starts_with("ports-") => measure(&name),
        _ => {
            let status = Command::new(std::env::current_exe().unwrap())
                .env(SERVER, format!("ports-{}", std::process::id()))
                .envs([("JACK_NO_AUDIO_RESERVATION", "1"), ("JACK_NO_START_SERVER", "1")])
                .status();
            std::process::exit(status.unwrap().code().unwrap_or(1));
        }
    }
}

fn measure(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let _server = match server::start(folder.path(), name, PERIOD) {
        Ok(running) => running,
        Err(missing) => return println!("{missing}"),
    };
    let rig = Rig::new();
    let mut paths = paths(folder.path());
    paths.retain(|it| it.ends.as_ref().is_none_or(|ends| rig.sees(ends)));
    let mut turns: Vec<Vec<Turn>> = paths.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (path, turns) in paths.iter().zip(&mut turns) {
            turns.push(rig.turn(path));
        }
    }
    report(&paths, &turns);
    plug_in();
}

/// How long a port that appears stays unheard: until the daemon has connected itself to it. A
/// client can be connected to once it is active, so the time runs from there.
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
            "a port that appears is heard after {median:.1} ms ({least:.1} to {most:.1}), {} of {PLUGS} times",
            times.len()
        ),
        _ => println!("a port that appeared was never heard"),
    }
}

/// One way from the mouth to the ear.
struct Path {
    name: &'static str,
    /// Where messages go in and come out again; without them a cable leads from the mouth to the
    /// ear.
    ends: Option<(String, String)>,
    forwarder: Option<Arc<Forwarder>>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Fourteen bits of number.
    Bend,
    /// Eleven bits of number. Comes back under other controllers, and so cannot have passed
    /// unmapped.
    Controller,
}

impl Form {
    fn numbers(self) -> usize {
        match self {
            Form::Bend => 1 << 14,
            Form::Controller => usize::from(CONTROLLERS) << 7,
        }
    }

    fn write(self, number: usize) -> [u8; 3] {
        let (low, high) = ((number & 127) as u8, (number >> 7) as u8);
        match self {
            Form::Bend => [0xE0, low, high & 127],
            Form::Controller => [0xB0, FROM_CONTROLLER + high % CONTROLLERS, low],
        }
    }

    fn read(self, message: &[u8]) -> Option<usize> {
        match (self, message) {
            (Form::Bend, &[0xE0, low, high]) => Some(usize::from(low) | usize::from(high) << 7),
            (Form::Controller, &[0xB0, controller, value]) => {
                let high = controller.checked_sub(TO_CONTROLLER).filter(|it| *it < CONTROLLERS)?;
                Some(usize::from(value) | usize::from(high) << 7)
            }
            _ => None,
        }
    }
}

/// What the two callbacks and the measurement share. Frames are kept plus one, so that zero means
/// none.
struct Traffic {
    runs: AtomicBool,
    maps: AtomicBool,
    sent: Vec<AtomicU64>,
    heard: Vec<AtomicU64>,
    arrived: AtomicUsize,
    /// Messages that came late, twice, or that nobody sent.
    astray: AtomicUsize,
}

impl Traffic {
    fn form(&self) -> Form {
        if self.maps.load(Ordering::Relaxed) { Form::Controller } else { Form::Bend }
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
            let due = self.next as u64 * u64::from(RATE) / PER_SECOND as u64;
            // Periods that the machine missed are caught up at the first frame of the next one.
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
            let ahead =
                form.read(event.bytes).map(|it| (it + form.numbers() - self.next % form.numbers()) % form.numbers());
            // The numbers repeat; half of them lie ahead, the other half are late.
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

struct Rig {
    mouth: AsyncClient<(), Mouth>,
    _ear: AsyncClient<(), Ear>,
    traffic: Arc<Traffic>,
}

/// What one turn of a path gave.
struct Turn {
    /// In frames, sorted. After a missed period the server sets its count anew, and one on its way
    /// may seem to arrive before it was sent.
    latencies: Vec<i32>,
    lost: usize,
    astray: usize,
    /// Processor time of the forwarder per message, in microseconds.
    cpu: f64,
    /// Its processor time in percent while nothing passed.
    rest: f64,
}

impl Rig {
    fn new() -> Self {
        let slots = || (0..MESSAGES).map(|_| AtomicU64::new(0)).collect();
        let traffic = Arc::new(Traffic {
            runs: AtomicBool::new(false),
            maps: AtomicBool::new(false),
            sent: slots(),
            heard: slots(),
            arrived: AtomicUsize::new(0),
            astray: AtomicUsize::new(0),
        });
        let client = |name| Client::new(name, ClientOptions::NO_START_SERVER).unwrap().0;
        let (mouth, ear) = (client("mouth"), client("ear"));
        let port = mouth.register_port("out", MidiOut::default()).unwrap();
        let speaks = Mouth { port, traffic: Arc::clone(&traffic), next: 0, first: None };
        let mouth = mouth.activate_async((), speaks).unwrap();
        let port = ear.register_port("in", MidiIn::default()).unwrap();
        let hears = Ear { port, traffic: Arc::clone(&traffic), next: 0 };
        let ear = ear.activate_async((), hears).unwrap();
        Rig { mouth, _ear: ear, traffic }
    }

    fn sees(&self, (from, to): &(String, String)) -> bool {
        let client = self.mouth.as_client();
        let both = || [from, to].iter().all(|it| client.port_by_name(it).is_some()).then_some(());
        let seen = wait_for(PATIENCE, both).is_some();
        if !seen {
            println!("SKIP {from}: this port never came");
        }
        seen
    }

    fn turn(&self, path: &Path) -> Turn {
        let client = self.mouth.as_client();
        let cables = match &path.ends {
            Some((from, to)) => vec![("mouth:out", from.as_str()), (to.as_str(), "ear:in")],
            None => vec![("mouth:out", "ear:in")],
        };
        for (from, to) in &cables {
            client.connect_ports_by_name(from, to).unwrap();
        }
        let traffic = &self.traffic;
        traffic.maps.store(path.form == Form::Controller, Ordering::Relaxed);
        for slot in traffic.sent.iter().chain(&traffic.heard) {
            slot.store(0, Ordering::Relaxed);
        }
        traffic.arrived.store(0, Ordering::Relaxed);
        traffic.astray.store(0, Ordering::Relaxed);
        let used = || path.forwarder.as_ref().map_or(0, |it| it.processor_ns());
        let before = used();
        wait(REST);
        let rested = used();
        traffic.runs.store(true, Ordering::Release);
        wait(Duration::from_secs(SECONDS as u64));
        // What is still under way may arrive; one who lost something never gets there.
        wait_for(Duration::from_secs(2), || (traffic.arrived.load(Ordering::Acquire) == MESSAGES).then_some(()));
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
        Turn {
            lost: MESSAGES - latencies.len(),
            latencies,
            astray: traffic.astray.load(Ordering::Relaxed),
            cpu: (worked - rested) as f64 / 1000.0 / MESSAGES as f64,
            rest: (rested - before) as f64 / REST.as_nanos() as f64 * 100.0,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement takes its time")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

/// A program between two ports. It ends with this value.
struct Forwarder {
    child: std::sync::Mutex<Child>,
    id: u32,
}

impl Forwarder {
    fn start(mut command: Command) -> std::io::Result<Arc<Self>> {
        // An open end keeps programs quiet that read commands.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        Ok(Arc::new(Forwarder { id: child.id(), child: child.into() }))
    }

    /// Waits for the first line that it writes.
    fn ready(self: Arc<Self>) -> Option<Arc<Self>> {
        let mut line = String::new();
        let stdout = self.child.lock().unwrap().stdout.take()?;
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut line).ok().filter(|it| *it > 0)?;
        // Nobody else reads, and a full pipe would hold it up.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Some(self)
    }

    /// Processor time of all its threads so far. The ticks of `stat` are too coarse for a message.
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

fn paths(folder: &std::path::Path) -> Vec<Path> {
    let mut paths = vec![Path { name: "cable", ends: None, forwarder: None, form: Form::Bend }];
    let conductor = conductor(folder);
    for (name, port, form) in [
        ("conductor, route", "route", Form::Bend),
        ("conductor, MidiForward", "forward", Form::Bend),
        ("conductor, mapped CC", "map", Form::Controller),
    ] {
        let ends = Some((format!("conductor:{port} in"), format!("conductor:{port} out")));
        paths.push(Path { name, ends, forwarder: Some(Arc::clone(&conductor)), form });
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/ports/forward.py");
    for (name, form) in [("mido, callback", "callback"), ("mido, loop", "loop")] {
        let started = mido::python().map_err(|missing| missing.to_string()).and_then(|python| {
            let mut command = Command::new(python);
            command.args([script, &format!("mido-{form}"), form]);
            let forwarder = Forwarder::start(command).map_err(|error| format!("SKIP {name}: {error}"))?;
            forwarder.ready().ok_or_else(|| format!("SKIP {name}: it ended at once"))
        });
        match started {
            Ok(forwarder) => {
                let ends = Some((format!("mido-{form}-in:in"), format!("mido-{form}-out:out")));
                paths.push(Path { name, ends, forwarder: Some(forwarder), form: Form::Bend });
            }
            Err(why) => println!("{why}"),
        }
    }
    let mut jalv = Command::new("jalv");
    jalv.args(["-n", "jalv", "http://gareus.org/oss/lv2/midifilter#passthru"]);
    match Forwarder::start(jalv) {
        Ok(forwarder) => {
            let ends = Some(("jalv:midiin".to_owned(), "jalv:midiout".to_owned()));
            paths.push(Path { name: "jalv, x42 passthru (C)", ends, forwarder: Some(forwarder), form: Form::Bend });
        }
        Err(error) => println!("SKIP jalv: {error} (Debian packages jalv x42-plugins)"),
    }
    paths
}

/// The daemon as `conductor up` starts it, with three ways through it.
fn conductor(folder: &std::path::Path) -> Arc<Forwarder> {
    let mut config = String::from(
        "schema = 1\n[[devices]]\nalias = \"late\"\ndirection = \"Input\"\n\
         matchers = [{ type = \"NameContains\", value = \"late\" }]\n",
    );
    for way in ["route", "forward", "map"] {
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
    std::fs::write(folder.join("config.toml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["--json", "up", "--http", "127.0.0.1:0"]).env("CONDUCTOR_HOME", folder);
    Forwarder::start(command).unwrap().ready().expect("the daemon starts")
}

fn report(paths: &[Path], turns: &[Vec<Turn>]) {
    println!(
        "port to port over JACK, {PERIOD} frames at {RATE} Hz, {PER_SECOND} messages a second for {SECONDS} s, \
         {ROUNDS} turns each: median (least to most of the turns)"
    );
    println!(
        "{:<24} {:>18} {:>8} {:>18} {:>8} {:>12} {:>7} {:>20} {:>8}",
        "", "p50 frames", "ms", "p99 frames", "ms", "lost", "astray", "CPU us a message", "rest %"
    );
    let mut cable = 0.0;
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
            "{:<24} {:>18} {:>8.2} {:>18} {:>8.2} {:>12} {astray:>7} {cpu:>20} {rest:>8}",
            path.name,
            p50.text(0),
            ms(p50.median),
            p99.text(0),
            ms(p99.median),
            format!("{lost} of {}", MESSAGES * turns.len()),
        );
        match path.ends {
            None => cable = p50.median,
            Some(_) if path.name.starts_with("conductor") => {
                let added = p50.median - cable;
                let within = if added <= f64::from(PERIOD) { "within" } else { "NOT within" };
                let loss = if lost + astray == 0 { "nothing lost" } else { "NOT without loss" };
                println!("  adds {added:.0} frames in the median, {within} one period of the cable; {loss}");
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
