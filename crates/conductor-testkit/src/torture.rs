//! The fault harness: runs the built daemon under a random schedule of faults, and checks the
//! invariants after each fault. The same seed gives the same schedule.
//!
//! While a fault is present, a thread keeps calling a tool with an effect, and a pad is held. The
//! faults are in `faults`, the checks in `checks`, the programs around the daemon in `parts`.
//!
//! The home is on a separate small file system, so that it can be filled and made read-only. The
//! harness therefore runs in a mount namespace ([`enter`]).

#[cfg(feature = "broken")]
pub mod broken;
mod calls;
pub mod checks;
mod control;
pub mod daemon;
pub mod faults;
mod parts;

use calls::{Caller, Calls, Promised};
use checks::{Breach, Checks, RECOVERED};
use daemon::Daemon;
use faults::Fault;
use parts::Parts;
use serde_json::Value;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Number of attempts, 50 ms apart, in which the daemon must recover from a fault.
pub const RECOVERY: usize = if cfg!(feature = "broken") { 200 } else { 1200 };

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
    /// Inject only this fault.
    pub only: Option<Fault>,
    /// Never inject this fault.
    pub without: Option<Fault>,
    /// The guarantee to remove.
    #[cfg(feature = "broken")]
    pub broken: Option<broken::Broken>,
}

/// A violated invariant, and the fault after which the violation was noticed.
#[derive(Clone, Debug)]
pub struct Violation {
    pub number: usize,
    pub fault: Fault,
    pub breach: Breach,
}

/// The settings that faults change, and the configuration of the programs around the daemon.
#[derive(Clone, Debug)]
pub struct World {
    /// The value that both pads send.
    pub value: u8,
    pub osc_port: u16,
    /// The offset of the daemon's clock.
    pub clock_ms: i64,
    /// The sections of the configuration about other programs.
    pub parts: String,
}

/// The daemon, and everything that a fault can change.
pub struct Stage {
    pub daemon: Daemon,
    pub parts: Parts,
    pub world: World,
    pub promised: Arc<Promised>,
    pub dice: Dice,
    /// For each death of Pd, the process id of the daemon and the time.
    pub deaths_of_pd: Vec<(u32, Instant)>,
}

/// The command that runs `program` in a new mount namespace.
pub fn enter(program: &Path, arguments: &[&OsStr]) -> Command {
    let mut command = Command::new("unshare");
    let is_root = rustix::process::geteuid().is_root();
    command.args(if is_root { &["--mount"][..] } else { &["--user", "--map-root-user", "--mount"] });
    command.arg("--").arg(program).args(arguments);
    command
}

#[expect(clippy::disallowed_methods, reason = "pauses between faults; no check depends on the time")]
pub fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

#[expect(clippy::disallowed_methods, reason = "the daemon limits the restarts of Pd per minute")]
fn now() -> Instant {
    Instant::now()
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

/// Writes an error as text, for a file operation of the harness.
fn text(error: std::io::Error) -> String {
    error.to_string()
}

impl Stage {
    /// Starts all programs in a new home below `folder`.
    fn open(binary: &Path, dice: Dice, folder: &Path, report: &mut dyn FnMut(&str)) -> Result<Self, String> {
        let shim = folder.join("shim.so");
        let source = folder.join("shim.c");
        std::fs::write(&source, include_str!("../faults/shim.c")).map_err(text)?;
        let mut compiler = Command::new("cc");
        let built = compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(source).arg("-ldl").status();
        if !built.is_ok_and(|it| it.success()) {
            return Err("the C compiler cannot build faults/shim.c".to_owned());
        }
        let home = folder.join("home");
        std::fs::create_dir(&home).map_err(text)?;
        if !daemon::mount(&home, "size=24m,mode=700") || !daemon::mount(SHARED_MEMORY.as_ref(), "mode=1777") {
            return Err("cannot mount a file system for the home; run this in a mount namespace as root".to_owned());
        }
        let parts = Parts::start(folder, report)?;
        let jack = parts.jack.as_ref().map(|it| it.name.clone());
        let mut daemon = Daemon::new(binary.to_owned(), shim, home.clone(), jack);
        std::fs::create_dir(home.join("plugins")).map_err(text)?;
        let plugin = home.join(format!("plugins/{}.js", daemon::PLUGIN));
        std::fs::write(&plugin, daemon::PLUGIN_FILE).map_err(text)?;
        let (_, manifest) = daemon.command(&["--json", "plugins", "check", &plugin.to_string_lossy()]);
        let shown: Value = serde_json::from_str(&manifest).unwrap_or_default();
        let pin = shown["pin"].as_str().ok_or_else(|| format!("the plugin is refused: {manifest}"))?;
        let world = World { value: 1, osc_port: parts::free_udp_port(), clock_ms: 0, parts: parts.config(pin) };
        std::fs::write(home.join("config.toml"), daemon::config(&world)).map_err(text)?;
        daemon.start()?;
        let stage = Stage { daemon, parts, world, promised: Arc::default(), dice, deaths_of_pd: Vec::new() };
        faults::try_hosts(&stage)?;
        Ok(stage)
    }

    /// Injects one fault while calls are made, and waits until the daemon works again.
    fn disturb(&mut self, fault: Fault, #[cfg(feature = "broken")] broken: Option<broken::Broken>) -> Vec<Breach> {
        let calls = Calls {
            tool: calls::EFFECT,
            arguments: Box::new(|_| calls::effect()),
            after: Box::new(|_, _| {}),
            deadline: daemon::PATIENCE,
            // The daemon sends at most 2000 messages per minute for all tools together.
            pace_ms: 35,
            pause_ms: 5,
        };
        let caller = Caller::start(self.daemon.control_socket(), Arc::clone(&self.promised), calls);
        let result = faults::inject(fault, self);
        #[cfg(feature = "broken")]
        let result = result.and_then(|()| match broken {
            Some(broken) => broken.apply(self).map_err(Breach::from),
            None => Ok(()),
        });
        let healed = faults::heal(&mut self.daemon).map_err(|text| Breach { invariant: RECOVERED, text });
        caller.stop();
        [result.err(), healed.err()].into_iter().flatten().collect()
    }
}

/// JACK stores its files here. The harness has its own file system there, so that a killed server
/// leaves nothing behind on the machine.
const SHARED_MEMORY: &str = "/dev/shm";

/// Number of faults in one home. Each check reads the whole audit log, so a new home keeps the
/// checks fast. It also keeps the log smaller than the file system of the home.
const FAULTS_PER_HOME: usize = 50;

/// Runs the schedule. `report` receives one line per fault.
pub fn run(settings: &Settings, report: &mut dyn FnMut(&str)) -> Result<Vec<Violation>, String> {
    let mut dice = Dice::new(settings.seed);
    let mut found = Vec::new();
    for first in (1..=settings.faults).step_by(FAULTS_PER_HOME) {
        let numbers = first..=settings.faults.min(first + FAULTS_PER_HOME - 1);
        found.extend(run_in_new_home(settings, numbers, &mut dice, report)?);
        if found.len() >= MOST_VIOLATIONS {
            report("     stopped after ten violations");
            break;
        }
    }
    Ok(found)
}

const MOST_VIOLATIONS: usize = 10;

fn run_in_new_home(
    settings: &Settings,
    numbers: RangeInclusive<usize>,
    dice: &mut Dice,
    report: &mut dyn FnMut(&str),
) -> Result<Vec<Violation>, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let home = folder.path().join("home");
    let found = Stage::open(&settings.binary, dice.clone(), folder.path(), report).and_then(|mut stage| {
        let found = run_schedule(settings, numbers, &mut stage, report);
        *dice = stage.dice.clone();
        found
    });
    if found.as_ref().map_or(true, |it| !it.is_empty()) {
        // The log of the daemon is the first thing to read after a violation.
        let log = std::fs::read_to_string(home.with_extension("log")).unwrap_or_default();
        for line in log.lines().rev().take(40).collect::<Vec<_>>().into_iter().rev() {
            report(line);
        }
    }
    for mounted in [home.as_path(), SHARED_MEMORY.as_ref()] {
        let _ = Command::new("umount").arg("--lazy").arg(mounted).status();
    }
    found
}

fn run_schedule(
    settings: &Settings,
    numbers: RangeInclusive<usize>,
    stage: &mut Stage,
    report: &mut dyn FnMut(&str),
) -> Result<Vec<Violation>, String> {
    let is_wanted = |it: &Fault| {
        it.is_possible(&stage.parts) && settings.only.is_none_or(|only| only == *it) && settings.without != Some(*it)
    };
    let possible: Vec<Fault> = Fault::ALL.into_iter().filter(is_wanted).collect();
    if possible.is_empty() {
        return Err("a program for this fault is missing".to_owned());
    }
    let mut checks = Checks::new(stage)?;
    let mut found: Vec<Violation> = Vec::new();
    for number in numbers {
        let start = now();
        let fault = possible[stage.dice.below(possible.len() as u64) as usize];
        checks.hold_a_note(&stage.daemon);
        #[cfg(not(feature = "broken"))]
        let (mut breaches, lets_go) = (stage.disturb(fault), true);
        #[cfg(feature = "broken")]
        let (mut breaches, lets_go) =
            (stage.disturb(fault, settings.broken), settings.broken != Some(broken::Broken::Note));
        breaches.extend(checks.run(stage, fault, lets_go));
        let status = if breaches.is_empty() { "ok" } else { "VIOLATED" };
        let acknowledged: usize = stage.promised.acknowledged().values().sum();
        let ms = start.elapsed().as_millis();
        report(&format!("{number:4} {fault:?} {status} ({acknowledged} calls acknowledged, {ms} ms)"));
        for breach in breaches {
            report(&format!("     violated: {}: {}", breach.invariant, breach.text));
            found.push(Violation { number, fault, breach });
        }
        if found.len() >= MOST_VIOLATIONS {
            break;
        }
    }
    Ok(found)
}
