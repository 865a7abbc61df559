//! The listeners for HTTP clients: the daemon's own at `[http] bind`, and those that were asked for
//! over the human door.
//!
//! Not here: what is served (`doors::http`). A port that cannot be had is told, and no reason not
//! to run.

use crate::doors::http::{self, Authority, Tokens};
use crate::doors::mcp::Shared;
use crate::gateway::settings;
use crate::log::Log;
use conductor_core::config;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct Http {
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
    log: Log,
    state: Mutex<State>,
    /// One opens or closes at a time, so that a port is free again before it is bound anew.
    turn: tokio::sync::Mutex<()>,
}

/// No connection of the human door has this number.
const NOBODY: u64 = 0;

#[derive(Default)]
struct State {
    settings: config::Http,
    session_idle_s: u64,
    open: Vec<Listener>,
    /// The daemon has been told to have a listener of its own, at this address or, without one, at
    /// `bind`.
    own: Option<Option<SocketAddr>>,
    /// Why the daemon's own listener is not there.
    fault: Option<String>,
}

struct Listener {
    bound: SocketAddr,
    /// The daemon's own; it stays open without a holder.
    own: bool,
    /// Connections of the human door that asked for it. It ends with the last of them.
    holders: BTreeSet<u64>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Http {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        settings: &config::Http,
        runtime: tokio::runtime::Handle,
        log: &Log,
    ) -> Arc<Self> {
        let session_idle_s = shared.studio.settings().mcp.session_idle_s;
        let state = State { settings: settings.clone(), session_idle_s, ..State::default() };
        Arc::new(Http {
            shared: Arc::clone(shared),
            runtime,
            log: log.clone(),
            state: Mutex::new(state),
            turn: Default::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Opens a listener that no connection holds: it stays until [`Http::close`].
    pub async fn open(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.open_for(address, NOBODY).await
    }

    /// Opens a listener for a connection of the human door, or shares the one that is there. Port 0
    /// is served by any.
    pub async fn open_for(&self, address: SocketAddr, holder: u64) -> io::Result<SocketAddr> {
        let _turn = self.turn.lock().await;
        self.bind(address, false, BTreeSet::from([holder])).await
    }

    /// The daemon's own listener, at `address` or as `[http]` says. Never fails: the fault is kept
    /// for `status`.
    pub async fn open_own(&self, address: Option<SocketAddr>) -> Option<SocketAddr> {
        let _turn = self.turn.lock().await;
        self.state().own = Some(address);
        let address = address.unwrap_or(self.state().settings.bind);
        self.bind_own(address).await
    }

    async fn bind_own(&self, address: SocketAddr) -> Option<SocketAddr> {
        let bound = self.bind(address, true, BTreeSet::new()).await;
        let fault = bound.as_ref().err().map(|fault| {
            if fault.kind() == io::ErrorKind::AddrInUse {
                let told = format!("{address} is taken by another program; choose another with --http or [http] bind");
                // Clients that know this address may have shown the token to that program.
                let studio = &self.shared.studio;
                match http::new_token(&studio.home, &*studio.ids) {
                    Ok(_) => format!("{told}. The token in state/http.token is a new one: the old may be known to it"),
                    Err(fault) => format!("{told}. state/http.token cannot be made new: {fault}"),
                }
            } else {
                format!("{address}: {fault}")
            }
        });
        if let Some(fault) = &fault {
            self.log.warn(format_args!("http: {fault}"));
        }
        self.state().fault = fault;
        bound.ok()
    }

    async fn bind(&self, address: SocketAddr, own: bool, holders: BTreeSet<u64>) -> io::Result<SocketAddr> {
        let settings = self.state().settings.clone();
        if !address.ip().is_loopback() && !settings.allow_remote {
            let text = format!("{address} is not a loopback address, and [http] allow_remote is false");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if let Some(there) =
            self.state().open.iter_mut().find(|it| it.bound == address || (address.port() == 0 && !own))
        {
            there.own |= own;
            there.holders.extend(holders);
            return Ok(there.bound);
        }
        let (listener, bound) = http::bind(address).await?;
        let studio = &self.shared.studio;
        let default = http::default_token(&studio.home, &*studio.ids)?;
        let tokens = Tokens::new(std::iter::once(default).chain(settings::tokens(&settings)).collect());
        let authority = Authority::new(bound.port(), settings.hosts, settings.origins);
        let router = http::router(&self.shared, &tokens, authority, axum::Router::new());
        let stop = self.shared.stop.child_token();
        let connections = Arc::clone(&self.shared.http_connections);
        let task = self.runtime.spawn(http::serve(listener, router, connections, stop.clone()));
        self.state().open.push(Listener { bound, own, holders, stop, task });
        Ok(bound)
    }

    pub fn is_held(&self, address: SocketAddr, holder: u64) -> bool {
        self.state().open.iter().any(|it| it.bound == address && it.holders.contains(&holder))
    }

    pub fn holds(&self, holder: u64) -> bool {
        self.state().open.iter().any(|it| it.holders.contains(&holder))
    }

    /// A connection of the human door lets go of one listener, or of all it holds. Returns when the
    /// ports that this frees are free.
    pub async fn release(&self, address: Option<SocketAddr>, holder: u64) {
        if self.holds(holder) {
            let is_meant = |it: &Listener| address.is_none_or(|address| it.bound == address);
            self.end(|it| is_meant(it) && it.holders.remove(&holder) && it.holders.is_empty()).await;
        }
    }

    /// Ends a listener that was asked for, whoever holds it. False when there is none.
    pub async fn close_at(&self, address: SocketAddr) -> bool {
        self.end(|it| it.bound == address).await > 0
    }

    /// Ends all that were asked for; the daemon's own listener ends with the daemon.
    pub async fn close(&self) {
        self.end(|_| true).await;
    }

    /// Ends those that are not the daemon's own, and returns when their ports are free.
    async fn end(&self, mut which: impl FnMut(&mut Listener) -> bool) -> usize {
        let _turn = self.turn.lock().await;
        let ended: Vec<Listener> = self.state().open.extract_if(.., |it| which(it) && !it.own).collect();
        let count = ended.len();
        for listener in ended {
            listener.stop.cancel();
            // One that panicked has dropped its port too.
            let _ = listener.task.await;
        }
        count
    }

    /// Where clients are served, the daemon's own listener first.
    pub fn served(&self) -> Vec<SocketAddr> {
        let state = self.state();
        let mut served: Vec<(bool, SocketAddr)> = state.open.iter().map(|it| (!it.own, it.bound)).collect();
        served.sort_unstable();
        served.into_iter().map(|(_, bound)| bound).collect()
    }

    pub fn fault(&self) -> Option<String> {
        self.state().fault.clone()
    }

    /// A changed section. What is open is opened anew: a token that was taken away must not live on
    /// in an open stream. Does not wait.
    pub(crate) fn configure(self: &Arc<Self>, settings: &config::Http, session_idle_s: u64) {
        let mut state = self.state();
        if state.settings == *settings && state.session_idle_s == session_idle_s {
            return;
        }
        state.settings = settings.clone();
        state.session_idle_s = session_idle_s;
        drop(state);
        let http = Arc::clone(self);
        self.runtime.spawn(async move { http.open_anew().await });
    }

    async fn open_anew(&self) {
        let _turn = self.turn.lock().await;
        let old = std::mem::take(&mut self.state().open);
        let mut again = Vec::new();
        let mut own_bound = None;
        for listener in old {
            listener.stop.cancel();
            // The port is free when the task has dropped it; a task that panicked has dropped it
            // too.
            let _ = listener.task.await;
            if listener.own {
                own_bound = Some(listener.bound);
            }
            if !listener.holders.is_empty() {
                again.push((listener.bound, listener.holders));
            }
        }
        let own = {
            let state = self.state();
            state.own.map(|flag| flag.unwrap_or(state.settings.bind))
        };
        if let Some(wanted) = own {
            // A port that was picked is kept: whoever was told it goes on using it.
            let kept = own_bound.filter(|it| wanted.port() == 0 && it.ip() == wanted.ip());
            self.bind_own(kept.unwrap_or(wanted)).await;
        }
        for (address, holders) in again {
            if let Err(fault) = self.bind(address, false, holders).await {
                self.log.warn(format_args!("http: {address}: {fault}"));
            }
        }
    }
}
