//! Real programs that tests use, such as JACK. Each program has one file with `probe`, which checks
//! whether it is installed, and `start`, which starts it and waits until it is ready, or returns
//! the reason. If a program is missing, the test is skipped and prints why. With
//! `CONDUCTOR_REQUIRE_REAL=1` the test fails instead.
//!
//! Not here: tests of the product with these programs.

pub mod fakelive;
pub mod fluidsynth;
pub mod jack;
pub mod keyring;
pub mod mido;
pub mod nats;
pub mod pd;
pub mod postgres;
pub mod pulse;
pub mod sway;
pub mod x11;

use rustix::process::Signal;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Missing {
    pub part: &'static str,
    pub package: &'static str,
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (Debian package {})", self.part, self.why, self.package)
    }
}

/// Whether a missing program is a failure instead of a skip. CI sets the variable.
#[expect(clippy::disallowed_methods, reason = "an environment variable makes missing programs a failure")]
pub fn required() -> bool {
    std::env::var_os("CONDUCTOR_REQUIRE_REAL").is_some_and(|it| it == "1")
}

/// Counts the skip, or fails if real programs are required.
pub fn skip(missing: impl fmt::Display) {
    assert!(!required(), "SKIP {missing}");
    crate::skips::note(&missing.to_string());
}

/// Returns the value of an `Ok`. For an `Err`, prints the skip and returns from the test.
#[macro_export]
macro_rules! require {
    ($part:expr) => {
        match $part {
            Ok(value) => value,
            Err(missing) => {
                $crate::real::skip(&missing);
                return;
            }
        }
    };
}

/// Calls `look` every 20 ms until it returns a value. Returns `None` after `limit`.
#[expect(clippy::disallowed_methods, reason = "waiting for another process is real time")]
pub fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = std::time::Instant::now();
    loop {
        if let Some(value) = look() {
            return Some(value);
        }
        if start.elapsed() > limit {
            return None;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The usual time limit of a wait.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A program in its own process group. Dropping it ends the group and waits for the end.
pub struct Group {
    pub child: Child,
    signal: Signal,
}

impl Group {
    /// Starts a program. `signal` ends it.
    pub fn spawn(command: &mut Command, signal: Signal) -> std::io::Result<Group> {
        Ok(Group { child: command.process_group(0).spawn()?, signal })
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the group at once, like a crash.
    pub fn kill(mut self) {
        self.signal = Signal::KILL;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        // Fails if the group has already ended.
        let _ = rustix::process::kill_process_group(group, self.signal);
        if wait_for(PATIENCE, || (!self.is_alive()).then_some(())).is_none() {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A child process that is killed when it is dropped.
pub struct Killed(pub Child);

impl Killed {
    pub fn end(&mut self) {
        // Fails if the child has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.end();
    }
}
