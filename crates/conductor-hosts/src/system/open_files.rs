//! Raises the limit on open files for the daemon, and restores it for its child processes.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// The limit is raised to at most this value. A studio needs no more, and a higher limit slows down
/// programs that loop over all descriptors up to their limit.
const MOST: u64 = 65_536;
/// The lowest limit with which the daemon works. An idle daemon has about 30 open files.
const FEWEST: u64 = 64;
/// Pause after an accept failed because no descriptors were left. New connections wait in the
/// kernel's queue.
const PAUSE: Duration = Duration::from_millis(100);

static AT_START: OnceLock<Rlimit> = OnceLock::new();

/// The limit that this process was started with. This function must be called once before the limit
/// is raised. Child processes get this limit, because programs that use `select` fail with
/// descriptors above 1024.
pub fn at_start() -> Rlimit {
    *AT_START.get_or_init(|| getrlimit(Resource::Nofile))
}

#[derive(Debug, thiserror::Error)]
#[error(
    "this process may open {limit} files but needs at least {FEWEST}; raise the limit (`ulimit -n`, or LimitNOFILE of the service)"
)]
pub struct TooFew {
    limit: u64,
}

/// Raises the soft limit as far as the hard limit allows. Call this before the daemon opens files.
pub fn raise() -> Result<(), TooFew> {
    let before = at_start();
    let wanted = before.maximum.unwrap_or(MOST).min(MOST);
    if before.current.is_some_and(|it| it < wanted) {
        // If this fails, the daemon uses the existing limit.
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
    // All other errors affect only one peer, which has disconnected early.
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    if exhausted.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error())) {
        tokio::time::sleep(PAUSE).await;
    } else {
        tokio::task::yield_now().await;
    }
}
