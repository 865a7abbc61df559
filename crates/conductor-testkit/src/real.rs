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
use std::process::Child;
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

/// Counts the skip, or fails where real parts are required.
#[expect(clippy::disallowed_methods, reason = "the one switch of the test lanes is an environment variable")]
pub fn skip(missing: &Missing) {
    assert!(std::env::var_os("CONDUCTOR_REQUIRE_REAL").is_none_or(|it| it != "1"), "SKIP {missing}");
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

/// Ends the process group of a child that leads one, and waits for it; by force if it does not
/// listen.
pub fn end_group(child: &mut Child, signal: Signal) {
    let group = rustix::process::Pid::from_child(child);
    // Fails when it is gone already.
    let _ = rustix::process::kill_process_group(group, signal);
    let ended = wait_for(PATIENCE, || matches!(child.try_wait(), Ok(Some(_))).then_some(()));
    if ended.is_none() {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = child.wait();
    }
}
