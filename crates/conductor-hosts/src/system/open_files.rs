//! The limit of open files: raised for the daemon, given back to its children.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// Enough for a studio. Some programs loop over all numbers up to their limit.
const MOST: u64 = 65_536;
/// An idle daemon holds about 30.
const FEWEST: u64 = 64;
/// Pause after an accept that failed because the system was out of descriptors. Peers wait in the
/// kernel's queue.
const PAUSE: Duration = Duration::from_millis(100);

static AT_START: OnceLock<Rlimit> = OnceLock::new();

/// The limit that this process was started with, as long as the first call comes before the limit
/// is raised. Children get this limit: programs that use `select` break on descriptors above 1024.
pub fn at_start() -> Rlimit {
    *AT_START.get_or_init(|| getrlimit(Resource::Nofile))
}

#[derive(Debug, thiserror::Error)]
#[error(
    "this process may open {limit} files and needs {FEWEST} at least; raise the limit (`ulimit -n`, or LimitNOFILE of the service)"
)]
pub struct TooFew {
    limit: u64,
}

/// Raises the soft limit as far as the hard limit allows. Call it before the daemon opens files.
pub fn raise() -> Result<(), TooFew> {
    let before = at_start();
    let wanted = before.maximum.unwrap_or(MOST).min(MOST);
    if before.current.is_some_and(|it| it < wanted) {
        // If it cannot be raised, the daemon works with the limit it has.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: before.maximum });
    }
    let limit = limit();
    if limit < FEWEST { Err(TooFew { limit }) } else { Ok(()) }
}

/// Sets the limit that this process was started with. Makes one system call, so it may run between
/// fork and exec.
pub(super) fn restore() -> io::Result<()> {
    AT_START.get().map_or(Ok(()), |before| Ok(setrlimit(Resource::Nofile, *before)?))
}

pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST)
}

/// Waits before the next accept if the last one failed for lack of descriptors or memory.
pub async fn after_failed_accept(error: &io::Error) {
    use rustix::io::Errno;
    // All other errors concern one peer that went away early.
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    if exhausted.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error())) {
        tokio::time::sleep(PAUSE).await;
    } else {
        tokio::task::yield_now().await;
    }
}
