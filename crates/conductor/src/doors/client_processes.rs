//! Registers the processes of AI clients: connected ones, and those that disconnected recently. No
//! process that one of them started may decide anything.
//!
//! Not here: the rule itself (`control/person`). The process of a client is the parent of an
//! `mcp start` proxy, the peer of a connection to `mcp.sock`, or the local peer of an HTTP
//! connection. It stays registered after it disconnects, for as long as an approval request lives:
//! a client that hangs up and then opens a terminal is still that client.

use super::control::person::{self, Client};
use conductor_core::event::Micros;
use conductor_hosts::system::Clock;
use parking_lot::Mutex;
use std::sync::Arc;

/// How many disconnected clients are kept; the oldest is dropped first.
const MOST_DISCONNECTED: usize = 1024;

struct Entry {
    client: Client,
    connections: usize,
    disconnected_at: Option<Micros>,
}

pub struct ClientProcesses {
    entries: Mutex<Vec<Entry>>,
    clock: Arc<dyn Clock>,
}

/// One connection of a client's process. Dropping it unregisters the connection.
pub struct ClientProcess {
    registry: Arc<ClientProcesses>,
    pid: i32,
    started: u64,
}

impl ClientProcesses {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), clock })
    }

    /// Registers a connection of this process. `None` when the process has ended or is a service
    /// manager, from which every process descends.
    pub fn register(self: &Arc<Self>, pid: i32) -> Option<ClientProcess> {
        let client = person::client(pid)?;
        let (pid, started) = (client.pid, client.started);
        let mut entries = self.entries.lock();
        match entries.iter_mut().find(|it| it.client.pid == pid && it.client.started == started) {
            Some(entry) => {
                entry.connections += 1;
                entry.disconnected_at = None;
            }
            None => entries.push(Entry { client, connections: 1, disconnected_at: None }),
        }
        Some(ClientProcess { registry: Arc::clone(self), pid, started })
    }

    /// Clients that are connected, or disconnected less than `ttl_ms` ago.
    pub fn clients(&self, ttl_ms: u64) -> Vec<Client> {
        let now = self.clock.now();
        let mut entries = self.entries.lock();
        entries.retain(|it| it.disconnected_at.is_none_or(|at| now.since(at) < ttl_ms.saturating_mul(1000)));
        entries.iter().map(|it| it.client.clone()).collect()
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let now = self.registry.clock.now();
        let mut entries = self.registry.entries.lock();
        let found = entries.iter_mut().find(|it| it.client.pid == self.pid && it.client.started == self.started);
        if let Some(entry) = found {
            entry.connections -= 1;
            if entry.connections == 0 {
                entry.disconnected_at = Some(now);
            }
        }
        let disconnected = || entries.iter().enumerate().filter_map(|(at, it)| Some((it.disconnected_at?, at)));
        if disconnected().count() > MOST_DISCONNECTED
            && let Some((_, oldest)) = disconnected().min()
        {
            entries.remove(oldest);
        }
    }
}

/// Finds the local process at the other end of a TCP connection in the kernel's tables. Reads all
/// of `/proc`, so call it from a thread that may block.
#[cfg(target_os = "linux")]
pub fn peer_of(peer: std::net::SocketAddr, ours: std::net::SocketAddr) -> Option<i32> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|it| std::fs::read_to_string(it).unwrap_or_default());
    let inode = tables.iter().flat_map(|it| it.lines()).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |place: usize| words.get(place).copied().and_then(address);
        (at(1) == Some((peer.ip().to_canonical(), peer.port()))
            && at(2) == Some((ours.ip().to_canonical(), ours.port())))
        .then(|| words.get(9).copied().unwrap_or_default().to_owned())
    })?;
    let wanted = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let Ok(handles) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        handles.flatten().any(|it| std::fs::read_link(it.path()).is_ok_and(|it| it.as_os_str() == wanted.as_str()))
    })
}

#[cfg(not(target_os = "linux"))]
pub fn peer_of(_peer: std::net::SocketAddr, _ours: std::net::SocketAddr) -> Option<i32> {
    None
}

/// Parses `0100007F:0BB8`, or 32 digits before the colon: 32-bit words in native byte order.
#[cfg(target_os = "linux")]
fn address(text: &str) -> Option<(std::net::IpAddr, u16)> {
    let (host, port) = text.split_once(':')?;
    let words: Vec<[u8; 4]> = (0..host.len() / 8)
        .map(|at| u32::from_str_radix(host.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect::<Option<_>>()?;
    let ip = match words.as_slice() {
        [one] => std::net::IpAddr::from(*one),
        [a, b, c, d] => {
            let bytes: Vec<u8> = [a, b, c, d].into_iter().flatten().copied().collect();
            std::net::IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_peer_of_a_connection_is_found_in_both_families() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(place) else { continue };
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (_server, peer) = listener.accept().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            let found = peer_of(peer, listener.local_addr().unwrap());
            assert_eq!(found, Some(std::process::id() as i32), "{place}");
        }
        assert_eq!(address("0100007F:0BB8"), Some(("127.0.0.1".parse().unwrap(), 3000)));
        assert_eq!(address("xyz"), None);
    }
}
