//! The fault harness: runs the built daemon under a random schedule of faults, and checks the
//! invariants after each fault. The same seed gives the same schedule.
//!
//! While a fault is present, a worker keeps calling a tool with an effect, and a pad is held. The
//! faults are in `faults`, the checks in `checks`.
//!
//! The home is on a separate small file system, so that it can be filled and made read-only. The
//! harness therefore runs in a mount namespace ([`enter`]). Not here: faults of JACK, Pd and plugin
//! processes, which have separate tests, and lost datagrams between the daemon and a host.

pub mod checks;
mod control;
pub mod daemon;
pub mod faults;

use control::{Client, ClientError};
use daemon::Daemon;
use faults::Fault;
use serde_json::json;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A small random number generator (xorshift64*), so that a seed reproduces a run.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit.max(1)
    }
}

pub struct Settings {
    pub binary: PathBuf,
    pub faults: usize,
    pub seed: u64,
    /// The guarantee to remove.
    #[cfg(feature = "broken")]
    pub broken: Option<checks::Broken>,
}

/// A violated invariant, and the fault after which the violation was noticed.
#[derive(Clone, Debug)]
pub struct Violation {
    pub number: usize,
    pub fault: Fault,
    pub invariant: &'static str,
    pub text: String,
}

/// The command that runs `program` in a new mount namespace.
pub fn enter(program: &Path, arguments: &[&OsStr]) -> Command {
    let mut command = Command::new("unshare");
    let is_root = rustix::process::geteuid().is_root();
    command.args(if is_root { &["--mount"][..] } else { &["--user", "--map-root-user", "--mount"] });
    command.arg("--").arg(program).args(arguments);
    command
}

/// Counts of the calls that the worker has made so far.
#[derive(Debug, Default)]
pub struct Promised {
    /// Calls that the daemon has acknowledged.
    pub acknowledged: AtomicUsize,
    /// Calls without an answer within the time limit.
    pub unanswered: AtomicUsize,
    stop: AtomicBool,
}

pub const EFFECT: &str = "conductor_send_midi";

fn call_effect(client: &mut Client) -> Result<(), ClientError> {
    let message = json!({ "type": "cc", "channel": 1, "controller": 99, "value": 1 });
    client.call(EFFECT, json!({ "port": "synth", "messages": [message] })).map(|_| ())
}

fn work(control: PathBuf, promised: Arc<Promised>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut client = None;
        while !promised.stop.load(Ordering::Relaxed) {
            let Some(open) = &mut client else {
                client = Client::connect(&control, daemon::PATIENCE).ok();
                if client.is_none() {
                    pause(20);
                }
                continue;
            };
            match call_effect(open) {
                Ok(()) => _ = promised.acknowledged.fetch_add(1, Ordering::Relaxed),
                Err(ClientError::NoAnswer) => {
                    promised.unanswered.fetch_add(1, Ordering::Relaxed);
                    client = None;
                }
                Err(ClientError::Refused(_)) => pause(5),
                Err(ClientError::Closed(_)) => client = None,
            }
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "pauses between faults; no check depends on the time")]
pub fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// Calls `look` every 50 ms until it succeeds, at most `tries` times. Returns the last error.
pub fn until(tries: usize, mut look: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let mut last = Ok(());
    for _ in 0..tries {
        last = look();
        if last.is_ok() {
            return Ok(());
        }
        pause(50);
    }
    last
}

/// Runs the schedule. `report` receives one line per fault.
pub fn run(settings: &Settings, report: &mut dyn FnMut(&str)) -> Result<Vec<Violation>, String> {
    let folder = tempfile::tempdir().map_err(|it| it.to_string())?;
    let shim = folder.path().join("shim.so");
    let source = folder.path().join("shim.c");
    std::fs::write(&source, include_str!("../faults/shim.c")).map_err(|it| it.to_string())?;
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(source).arg("-ldl").status();
    if !built.is_ok_and(|it| it.success()) {
        return Err("the C compiler cannot build faults/shim.c".to_owned());
    }
    let home = folder.path().join("home");
    std::fs::create_dir(&home).map_err(|it| it.to_string())?;
    if !daemon::mount(&home) {
        return Err("cannot mount a file system for the home; run this in a mount namespace as root".to_owned());
    }
    let osc_port = faults::free_udp_port();
    let mut daemon = Daemon::new(settings.binary.clone(), shim, home.clone());
    let mut world = faults::World { value: 1, osc_port, clock_ms: 0 };
    std::fs::write(home.join("config.toml"), daemon::config(world.value, osc_port)).map_err(|it| it.to_string())?;
    daemon.start()?;
    let promised = Arc::new(Promised::default());
    let mut checks = checks::Checks::new(&daemon)?;
    let mut dice = Dice::new(settings.seed);
    let mut found = Vec::new();
    for number in 1..=settings.faults {
        let fault = Fault::ALL[dice.below(Fault::ALL.len() as u64) as usize];
        promised.stop.store(false, Ordering::Relaxed);
        let worker = work(home.join("control.sock"), Arc::clone(&promised));
        checks.hold_a_note(&daemon);
        let result = faults::inject(fault, &mut daemon, &mut dice, &mut world);
        #[cfg(feature = "broken")]
        let result = result.and_then(|()| match settings.broken {
            Some(broken) => broken.apply(&mut daemon, &mut world),
            None => Ok(()),
        });
        let healed = faults::heal(&mut daemon);
        promised.stop.store(true, Ordering::Relaxed);
        let _ = worker.join();
        #[cfg(feature = "broken")]
        if settings.broken == Some(checks::Broken::Answer) {
            daemon.signal(rustix::process::Signal::CONT);
        }
        let before = found.len();
        let mut violate = |invariant, text| found.push(Violation { number, fault, invariant, text });
        if let Err(text) = result.and(healed) {
            violate("the daemon works again after the fault", text);
        }
        let lets_go = {
            #[cfg(feature = "broken")]
            let lets_go = settings.broken != Some(checks::Broken::Note);
            #[cfg(not(feature = "broken"))]
            let lets_go = true;
            lets_go
        };
        for (invariant, text) in checks.run(&mut daemon, &promised, &world, fault, lets_go) {
            violate(invariant, text);
        }
        let status = if found.len() == before { "ok" } else { "VIOLATED" };
        let acknowledged = promised.acknowledged.load(Ordering::Relaxed);
        report(&format!("{number:4} {fault:?} {status} ({acknowledged} calls acknowledged)"));
        for it in &found[before..] {
            report(&format!("     violated: {}: {}", it.invariant, it.text));
        }
        if found.len() >= 10 {
            report("     stopped after ten violations");
            break;
        }
    }
    if !found.is_empty() {
        // The log of the daemon is the first thing to read after a violation.
        let log = std::fs::read_to_string(home.with_extension("log")).unwrap_or_default();
        for line in log.lines().rev().take(40).collect::<Vec<_>>().into_iter().rev() {
            report(line);
        }
    }
    drop(daemon);
    let _ = Command::new("umount").arg(&home).status();
    Ok(found)
}
