//! Real programs the tests run against. Each part has one file with `probe` (looks, starts nothing)
//! and `start` (started and ready, or a reason). A part that is missing is a skip that prints why,
//! or a failure where `CONDUCTOR_REQUIRE_REAL=1`.
//!
//! Not here: what the product does with a part.

pub mod fakelive;
pub mod fluidsynth;
pub mod jack;
pub mod keyring;
pub mod mido;
pub mod pd;
pub mod postgres;
pub mod pulse;
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

/// Whether a missing part is a failure instead of a skip; CI sets it.
#[expect(clippy::disallowed_methods, reason = "the one switch of the test lanes is an environment variable")]
pub fn required() -> bool {
    std::env::var_os("CONDUCTOR_REQUIRE_REAL").is_some_and(|it| it == "1")
}

/// Counts the skip, or fails where real parts are required.
pub fn skip(missing: impl fmt::Display) {
    assert!(!required(), "SKIP {missing}");
    crate::skips::note(&missing.to_string());
}

/// Gives the value of an `Ok`, or prints the skip and returns from the test.
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

/// Looks every 20 ms until the condition gives a value. Gives up after `limit`.
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

/// The usual limit of a wait.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A program in a process group of its own. Dropping it ends the group and waits for it.
pub struct Group {
    pub child: Child,
    signal: Signal,
}

impl Group {
    /// Starts a program that `signal` ends.
    pub fn spawn(command: &mut Command, signal: Signal) -> std::io::Result<Group> {
        Ok(Group { child: command.process_group(0).spawn()?, signal })
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the group at once, as a crash would.
    pub fn kill(mut self) {
        self.signal = Signal::KILL;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        // Fails when the group is gone already.
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
        // Fails when the child has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.end();
    }
}
