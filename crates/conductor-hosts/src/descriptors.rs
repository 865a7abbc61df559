//! Open files are few: how many of them clients may hold, and what is kept back so that the human
//! door always opens.
//!
//! Not here: who is served (each door), and connections that the daemon opens itself.

use crate::system::open_files_at_start;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// More than a studio needs; some programs walk through all numbers up to their limit.
const MOST: u64 = 65_536;
/// An idle daemon holds about 30.
const FEWEST: u64 = 64;
/// Files, databases, plugins and programs that calls open, and the daemon's own.
const FOR_THE_DAEMON: u64 = 48;
/// Time without an accept after the system had no descriptor left. The kernel's queue keeps the
/// peers meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

const HTTP_CONNECTIONS: usize = 128;
/// Of one peer address, as long as they have shown no token.
const HTTP_STRANGERS: usize = 16;
/// Descriptors that only the human door may use.
const SPARE: usize = 8;
/// Connections of the human door.
const HUMAN: u64 = 64;

#[derive(Debug, thiserror::Error)]
#[error(
    "this process may open {limit} files and needs {FEWEST} at least; raise the limit (`ulimit -n`, or LimitNOFILE of the service)"
)]
pub struct TooFew {
    limit: u64,
}

/// Raises the soft limit as far as the hard one allows. To be called before the daemon opens
/// anything.
pub fn raise() -> Result<(), TooFew> {
    let before = open_files_at_start();
    let wanted = before.maximum.unwrap_or(MOST).min(MOST);
    if before.current.is_some_and(|it| it < wanted) {
        // What cannot be raised is used as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: before.maximum });
    }
    let limit = limit();
    if limit < FEWEST { Err(TooFew { limit }) } else { Ok(()) }
}

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST)
}

/// Waits before the next accept, if the last one failed for want of descriptors or memory.
pub async fn after_failed_accept(fault: &io::Error) {
    use rustix::io::Errno;
    // Everything else is the end of one peer that went away early.
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    if exhausted.iter().any(|it| fault.raw_os_error() == Some(it.raw_os_error())) {
        tokio::time::sleep(PAUSE).await;
    } else {
        tokio::task::yield_now().await;
    }
}

/// Descriptors that clients may hold at once, over all doors of AI clients.
#[derive(Debug)]
pub struct Budget {
    left: AtomicUsize,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    count: usize,
}

impl Budget {
    /// A quarter stays with the daemon, and never less than it needs.
    pub fn of_process() -> Arc<Self> {
        let limit = limit();
        let left = limit.saturating_sub(FOR_THE_DAEMON.max(limit / 4));
        Self::of(usize::try_from(left).unwrap_or(usize::MAX))
    }

    fn of(left: usize) -> Arc<Self> {
        Arc::new(Budget { left: AtomicUsize::new(left) })
    }

    pub fn take(self: &Arc<Self>, count: usize) -> Option<Share> {
        let taken = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(count));
        taken.ok().map(|_| Share { budget: Arc::clone(self), count })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.count, Ordering::AcqRel);
    }
}

/// Open files that are closed when the human door finds none left.
#[derive(Debug)]
pub struct Spare {
    files: Vec<File>,
}

impl Spare {
    pub fn new() -> Self {
        let mut spare = Spare { files: Vec::new() };
        spare.refill();
        spare
    }

    pub fn refill(&mut self) {
        while self.files.len() < SPARE
            && let Ok(file) = File::open("/dev/null")
        {
            self.files.push(file);
        }
    }

    /// Frees one for the accept that follows; false when there is none.
    pub fn free_one(&mut self) -> bool {
        self.files.pop().is_some()
    }
}

impl Default for Spare {
    fn default() -> Self {
        Spare::new()
    }
}

/// Connections of the human door: few, and the one that has been silent for longest makes room.
#[derive(Debug)]
pub struct Callers {
    most: usize,
    state: Mutex<CallerState>,
}

#[derive(Debug, Default)]
struct CallerState {
    connected: usize,
    /// Those that wait for the next line, the longest first.
    silent: Vec<(u64, CancellationToken)>,
}

impl Callers {
    pub fn new() -> Arc<Self> {
        let most = usize::try_from(HUMAN.min(limit() / 8)).unwrap_or(1);
        Arc::new(Callers { most, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, CallerState> {
        self.state.lock()
    }

    pub fn connect(self: &Arc<Self>, id: u64) -> Caller {
        let mut state = self.state();
        state.connected += 1;
        if state.connected > self.most && !state.silent.is_empty() {
            state.silent.remove(0).1.cancel();
        }
        Caller { callers: Arc::clone(self), id, end: CancellationToken::new() }
    }
}

/// One connection of the human door.
#[derive(Debug)]
pub struct Caller {
    callers: Arc<Callers>,
    id: u64,
    /// Cancelled when this connection must make room.
    pub end: CancellationToken,
}

impl Caller {
    pub fn is_silent(&self, silent: bool) {
        let mut state = self.callers.state();
        state.silent.retain(|(id, _)| *id != self.id);
        if silent {
            state.silent.push((self.id, self.end.clone()));
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.is_silent(false);
        self.callers.state().connected -= 1;
    }
}

/// Connections of the HTTP doors, all listeners together.
#[derive(Debug)]
pub struct HttpConnections {
    budget: Arc<Budget>,
    open: Mutex<Vec<HttpGuest>>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct HttpGuest {
    id: usize,
    peer: IpAddr,
    known: bool,
    end: CancellationToken,
}

impl HttpConnections {
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(HttpConnections { budget: Arc::clone(budget), open: Mutex::default(), next: AtomicUsize::new(0) })
    }

    fn open(&self) -> MutexGuard<'_, Vec<HttpGuest>> {
        self.open.lock()
    }

    /// A place for one more. Connections without a token make room, the oldest first; `None` when
    /// all have shown one.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<HttpConnection> {
        let peer = same_peer(peer);
        let mut open = self.open();
        let strangers = open.iter().filter(|it| !it.known && it.peer == peer).count();
        if strangers >= HTTP_STRANGERS {
            end_oldest(&mut open, |it| it.peer == peer);
        }
        if open.len() >= HTTP_CONNECTIONS && !end_oldest(&mut open, |_| true) {
            return None;
        }
        // One that was just ended gives its descriptor back a little later.
        let share = self.budget.take(1).or_else(|| {
            end_oldest(&mut open, |_| true);
            None
        })?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let end = CancellationToken::new();
        open.push(HttpGuest { id, peer, known: false, end: end.clone() });
        Some(HttpConnection(Arc::new(HttpPlace { connections: Arc::clone(self), id, end, _share: share })))
    }
}

fn end_oldest(open: &mut Vec<HttpGuest>, of: impl Fn(&HttpGuest) -> bool) -> bool {
    let oldest = open.iter().position(|it| !it.known && of(it));
    let ended = oldest.map(|at| open.remove(at).end.cancel());
    ended.is_some()
}

/// One connection; requests on it carry a copy.
#[derive(Clone, Debug)]
pub struct HttpConnection(Arc<HttpPlace>);

#[derive(Debug)]
struct HttpPlace {
    connections: Arc<HttpConnections>,
    id: usize,
    end: CancellationToken,
    _share: Share,
}

impl HttpConnection {
    /// A request on it carried a valid token.
    pub fn is_known(&self) {
        let mut open = self.0.connections.open();
        if let Some(it) = open.iter_mut().find(|it| it.id == self.0.id) {
            it.known = true;
        }
    }

    /// Until it must make room.
    pub async fn ended(&self) {
        self.0.end.cancelled().await;
    }
}

impl Drop for HttpPlace {
    fn drop(&mut self) {
        self.connections.open().retain(|it| it.id != self.id);
    }
}

/// Addresses that one machine picks from freely count as one.
fn same_peer(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(it) if it.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(it) => IpAddr::V4(it),
        IpAddr::V6(it) => match it.to_ipv4_mapped() {
            Some(it) => same_peer(IpAddr::V4(it)),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(it) & !u128::from(u64::MAX))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_overdrawn_and_comes_back() {
        let budget = Budget::of(5);
        let two = budget.take(2).unwrap();
        assert!(budget.take(4).is_none());
        let three = budget.take(3).unwrap();
        assert!(budget.take(1).is_none());
        drop((two, three));
        assert!(budget.take(5).is_some());
    }

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn strangers_make_room_for_the_next_and_known_clients_stay() {
        let connections = HttpConnections::new(&Budget::of(1000));
        let known: Vec<_> =
            (0..100).map(|_| connections.admit(at("127.0.0.1")).unwrap()).inspect(HttpConnection::is_known).collect();
        let mut strangers: Vec<_> =
            (0..40).map(|n| connections.admit(at(&format!("127.0.0.{}", n + 1))).unwrap()).collect();
        let ended = strangers.iter().filter(|it| it.0.end.is_cancelled()).count();
        assert_eq!(ended, 40 - HTTP_STRANGERS, "all of 127/8 is one peer");
        assert!(known.iter().all(|it| !it.0.end.is_cancelled()));
        strangers.retain(|it| !it.0.end.is_cancelled());
        for n in 0..100 {
            strangers.push(connections.admit(at(&format!("10.0.0.{n}"))).unwrap());
        }
        assert!(connections.open().len() <= HTTP_CONNECTIONS);
        let all: Vec<_> = std::iter::from_fn(|| connections.admit(at("10.1.0.1")).inspect(HttpConnection::is_known))
            .take(200)
            .collect();
        assert_eq!(all.len(), HTTP_CONNECTIONS - known.len(), "known clients are never ended for others");
        drop((known, strangers, all));
        assert!(connections.open().is_empty());
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        assert_eq!(same_peer(at("2001:db8::1")), same_peer(at("2001:db8::ffff")));
        assert_ne!(same_peer(at("2001:db8::1")), same_peer(at("2001:db8:0:1::1")));
        assert_eq!(same_peer(at("::ffff:127.8.8.8")), at("127.0.0.1"));
        assert_ne!(same_peer(at("10.0.0.1")), same_peer(at("10.0.0.2")));
    }

    #[test]
    fn the_caller_that_is_silent_for_longest_makes_room() {
        let callers = Arc::new(Callers { most: 2, state: Mutex::default() });
        let (first, second) = (callers.connect(1), callers.connect(2));
        first.is_silent(true);
        second.is_silent(true);
        first.is_silent(false);
        first.is_silent(true);
        let third = callers.connect(3);
        assert!(second.end.is_cancelled() && !first.end.is_cancelled() && !third.end.is_cancelled());
        drop(second);
        first.is_silent(false);
        let fourth = callers.connect(4);
        assert!(!first.end.is_cancelled() && !third.end.is_cancelled(), "those that work stay");
        drop((first, third, fourth));
        assert_eq!(callers.state().connected, 0);
    }
}
