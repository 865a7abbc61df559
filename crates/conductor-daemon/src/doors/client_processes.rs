//! Registers the processes of AI clients, connected or recently disconnected. A process that was
//! started by one of them must not decide as a person.
//!
//! Not here: the rule itself (`control/person`). The process of a client is the parent of an `mcp
//! start` proxy, the peer of a connection to `mcp.sock`, or the local peer of an HTTP connection.
//! It stays registered after it disconnects, for as long as an approval request is valid: a client
//! could disconnect and then open a terminal.

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

    /// Registers a connection of this process. `None` if the process has ended, or if it is a
    /// service manager, because every process descends from a service manager.
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
