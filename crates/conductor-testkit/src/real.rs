//! Real programs that tests use, such as JACK. Each program has one file. A function `probe` checks
//! whether the program is installed, and a function `start` starts the program and waits until it
//! is ready. Both return the reason if they fail. If a program is missing, the test is skipped and
//! prints why. With `CONDUCTOR_REQUIRE_REAL=1` the test fails instead.
//!
//! Not here: tests of the product with these programs.

pub mod fakelive;
#[cfg(unix)]
pub mod fluidsynth;
#[cfg(unix)]
mod group;
#[cfg(unix)]
pub mod jack;
#[cfg(unix)]
pub mod keyring;
#[cfg(unix)]
pub mod mido;
#[cfg(unix)]
pub mod nats;
#[cfg(unix)]
pub mod pd;
#[cfg(unix)]
pub mod postgres;
pub mod program;
#[cfg(unix)]
pub mod pulse;
#[cfg(unix)]
pub mod sway;
#[cfg(unix)]
pub mod x11;

#[cfg(unix)]
pub use group::Group;
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
#[expect(clippy::disallowed_methods, reason = "waits for another process in real time")]
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

/// A child process that is killed when it is dropped.
pub struct Killed(pub Child);

impl Killed {
    pub fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.end();
    }
}
