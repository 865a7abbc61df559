//! The processes behind AI clients: connected ones, and those that left a moment ago. Nothing below
//! one of them decides anything.
//!
//! Not here: the rule itself (`control/person`). A client is known by its process: the parent of an
//! `mcp start` proxy, the peer of a connection to `mcp.sock`, or the local peer of an HTTP
//! connection. It stays known for the life of a question after it left, because a client that hangs
//! up and then opens a terminal is the same client.

use super::control::person::{self, Client};
use conductor_core::event::Micros;
use conductor_hosts::system::Clock;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Clients that left and are remembered; the oldest goes first.
const MOST_LEFT: usize = 1024;

struct Entry {
    client: Client,
    connections: usize,
    left: Option<Micros>,
}

pub struct ClientProcesses {
    entries: Mutex<Vec<Entry>>,
    clock: Arc<dyn Clock>,
}

/// One connection of a client. Dropping it lets the client leave.
pub struct Seat {
    seats: Arc<ClientProcesses>,
    pid: i32,
    started: u64,
}

impl ClientProcesses {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), clock })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock()
    }

    /// A process that has ended, or from which everything descends, is not a client.
    pub fn take(self: &Arc<Self>, pid: i32) -> Option<Seat> {
        let client = person::client(pid)?;
        let (pid, started) = (client.pid, client.started);
        let mut entries = self.lock();
        match entries.iter_mut().find(|it| it.client.pid == pid && it.client.started == started) {
            Some(entry) => {
                entry.connections += 1;
                entry.left = None;
            }
            None => entries.push(Entry { client, connections: 1, left: None }),
        }
        Some(Seat { seats: Arc::clone(self), pid, started })
    }

    /// Clients that are connected or left less than `ttl_ms` ago.
    pub fn clients(&self, ttl_ms: u64) -> Vec<Client> {
        let now = self.clock.now();
        let mut entries = self.lock();
        entries.retain(|it| it.left.is_none_or(|left| now.since(left) < ttl_ms.saturating_mul(1000)));
        entries.iter().map(|it| it.client.clone()).collect()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let now = self.seats.clock.now();
        let mut entries = self.seats.lock();
        let found = entries.iter_mut().find(|it| it.client.pid == self.pid && it.client.started == self.started);
        if let Some(entry) = found {
            entry.connections -= 1;
            if entry.connections == 0 {
                entry.left = Some(now);
            }
        }
        let left = entries.iter().filter(|it| it.left.is_some()).count();
        if left > MOST_LEFT
            && let Some((oldest, _)) =
                entries.iter().enumerate().filter(|(_, it)| it.left.is_some()).min_by_key(|(_, it)| it.left)
        {
            entries.remove(oldest);
        }
    }
}
