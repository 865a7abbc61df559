//! Limits the connections of each door (MCP, HTTP, and the human door `control.sock`). Clients can
//! therefore never use up the file descriptors that the human door and the daemon need.
//!
//! Not here: the limit on open files (`system::open_files`), and connections that the daemon opens.

use crate::system::open_files::limit;
use parking_lot::Mutex;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// Minimum number of descriptors for the daemon itself and for the files, databases, plugins and
/// programs that calls open.
const FOR_THE_DAEMON: u64 = 48;
const HTTP_CONNECTIONS: usize = 128;
/// Maximum number of connections from one peer address that have not sent a valid token. A client
/// may open a connection for each of its calls at once, so this is far more than one.
const HTTP_STRANGERS: usize = 64;
/// Number of descriptors that only the human door may use.
const SPARE: usize = 8;
/// Maximum number of connections of the human door.
const HUMAN: u64 = 64;

/// Number of descriptors that AI clients may use at once, through all doors together.
#[derive(Debug)]
pub struct Budget {
    left: AtomicUsize,
}

/// Descriptors that were reserved from the budget. Dropping this value returns them.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    count: usize,
}

impl Budget {
    /// Reserves a quarter of the process's descriptors for the daemon, but at least
    /// `FOR_THE_DAEMON`.
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

/// Open files in reserve. If no descriptor is left for a new connection, the human door closes one
/// of these files.
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

    /// Frees a descriptor for the next accept; returns false when the reserve is empty.
    pub fn free_one(&mut self) -> bool {
        self.files.pop().is_some()
    }
}

impl Default for Spare {
    fn default() -> Self {
        Spare::new()
    }
}

/// Connections of the human door. At the limit, a new connection closes the one that has been idle
/// longest.
#[derive(Debug)]
pub struct HumanConnections {
    most: usize,
    state: Mutex<HumanState>,
}

#[derive(Debug, Default)]
struct HumanState {
    connected: usize,
    /// Idle connections, which wait for the next request. The one that has been idle longest is
    /// first.
    idle: Vec<(u64, CancellationToken)>,
}

impl HumanConnections {
    pub fn new() -> Arc<Self> {
        let most = usize::try_from(HUMAN.min(limit() / 8)).unwrap_or(1);
        Arc::new(HumanConnections { most, state: Mutex::default() })
    }

    pub fn add(self: &Arc<Self>, id: u64) -> HumanConnection {
        let mut state = self.state.lock();
        state.connected += 1;
        if state.connected > self.most && !state.idle.is_empty() {
            state.idle.remove(0).1.cancel();
        }
        HumanConnection { all: Arc::clone(self), id, end: CancellationToken::new() }
    }
}

/// One connection of the human door.
#[derive(Debug)]
pub struct HumanConnection {
    all: Arc<HumanConnections>,
    id: u64,
    /// Cancelled when this connection must close in favour of a new one.
    pub end: CancellationToken,
}

impl HumanConnection {
    pub fn set_idle(&self, idle: bool) {
        let mut state = self.all.state.lock();
        state.idle.retain(|(id, _)| *id != self.id);
        if idle {
            state.idle.push((self.id, self.end.clone()));
        }
    }
}

impl Drop for HumanConnection {
    fn drop(&mut self) {
        self.set_idle(false);
        self.all.state.lock().connected -= 1;
    }
}

/// Connections of the HTTP doors, all listeners together.
#[derive(Debug)]
pub struct HttpConnections {
    budget: Arc<Budget>,
    open: Mutex<Vec<HttpEntry>>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct HttpEntry {
    id: usize,
    peer: IpAddr,
    known: bool,
    end: CancellationToken,
}

impl HttpConnections {
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(HttpConnections { budget: Arc::clone(budget), open: Mutex::default(), next: AtomicUsize::new(0) })
    }

    /// Adds a connection. At a limit, the oldest connection without a valid token is closed.
    /// Returns `None` when no connection can be closed, or when no descriptor is free yet.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<HttpConnection> {
        let peer = same_peer(peer);
        let mut open = self.open.lock();
        let strangers = open.iter().filter(|it| !it.known && it.peer == peer).count();
        if strangers >= HTTP_STRANGERS {
            end_oldest(&mut open, |it| it.peer == peer);
        }
        if open.len() >= HTTP_CONNECTIONS && !end_oldest(&mut open, |_| true) {
            return None;
        }
        // A connection that was just cancelled returns its descriptor a little later.
        let share = self.budget.take(1).or_else(|| {
            end_oldest(&mut open, |_| true);
            None
        })?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let end = CancellationToken::new();
        open.push(HttpEntry { id, peer, known: false, end: end.clone() });
        Some(HttpConnection(Arc::new(HttpSlot { connections: Arc::clone(self), id, end, _share: share })))
    }
}

fn end_oldest(open: &mut Vec<HttpEntry>, of: impl Fn(&HttpEntry) -> bool) -> bool {
    let oldest = open.iter().position(|it| !it.known && of(it));
    let ended = oldest.map(|at| open.remove(at).end.cancel());
    ended.is_some()
}

/// A handle of one connection. Each request of the connection has a clone of this handle.
#[derive(Clone, Debug)]
pub struct HttpConnection(Arc<HttpSlot>);

#[derive(Debug)]
struct HttpSlot {
    connections: Arc<HttpConnections>,
    id: usize,
    end: CancellationToken,
    _share: Share,
}

impl HttpConnection {
    /// Call when a request on this connection contained a valid token.
    pub fn mark_known(&self) {
        let mut open = self.0.connections.open.lock();
        if let Some(it) = open.iter_mut().find(|it| it.id == self.0.id) {
            it.known = true;
        }
    }

    /// Resolves when this connection must close in favour of a new one.
    pub async fn ended(&self) {
        self.0.end.cancelled().await;
    }
}

impl Drop for HttpSlot {
    fn drop(&mut self) {
        self.connections.open.lock().retain(|it| it.id != self.id);
    }
}

/// Maps all addresses that a single machine can choose freely to one address: loopback addresses to
/// one, and each IPv6 /64 network to one.
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
            (0..40).map(|_| connections.admit(at("127.0.0.1")).unwrap()).inspect(HttpConnection::mark_known).collect();
        let mut strangers: Vec<_> =
            (0..80).map(|n| connections.admit(at(&format!("127.0.0.{}", n + 1))).unwrap()).collect();
        let ended = strangers.iter().filter(|it| it.0.end.is_cancelled()).count();
        assert_eq!(ended, 80 - HTTP_STRANGERS, "the addresses of 127/8 do not count as one peer");
        assert!(known.iter().all(|it| !it.0.end.is_cancelled()));
        strangers.retain(|it| !it.0.end.is_cancelled());
        for n in 0..100 {
            strangers.push(connections.admit(at(&format!("10.0.0.{n}"))).unwrap());
        }
        assert!(connections.open.lock().len() <= HTTP_CONNECTIONS);
        let all: Vec<_> = std::iter::from_fn(|| connections.admit(at("10.1.0.1")).inspect(HttpConnection::mark_known))
            .take(200)
            .collect();
        assert_eq!(all.len(), HTTP_CONNECTIONS - known.len(), "a connection with a token was closed for another one");
        drop((known, strangers, all));
        assert!(connections.open.lock().is_empty());
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
        let open = Arc::new(HumanConnections { most: 2, state: Mutex::default() });
        let (first, second) = (open.add(1), open.add(2));
        first.set_idle(true);
        second.set_idle(true);
        first.set_idle(false);
        first.set_idle(true);
        let third = open.add(3);
        assert!(second.end.is_cancelled() && !first.end.is_cancelled() && !third.end.is_cancelled());
        drop(second);
        first.set_idle(false);
        let fourth = open.add(4);
        assert!(!first.end.is_cancelled() && !third.end.is_cancelled(), "a busy connection was closed");
        drop((first, third, fourth));
        assert_eq!(open.state.lock().connected, 0);
    }
}
