//! Opens and closes the HTTP listeners: the daemon's own at `[http] bind`, and those that clients
//! of the control socket request.
//!
//! Not here: the routes (`doors::http`). A port that cannot be opened is reported, and the daemon
//! runs without it.

use crate::doors::http::hooks::{Deliveries, Hooks};
use crate::doors::http::oauth::Oauth;
use crate::doors::http::{self, Authority, Tokens, tls};
use crate::doors::mcp::Shared;
use crate::gateway::settings;
use crate::log::Log;
use conductor_core::config;
use conductor_core::digest::Digest;
use conductor_gateway::report::HttpNow;
use conductor_gateway::secrets::Secrets;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct Http {
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
    log: Log,
    state: Mutex<State>,
    secrets: Arc<Secrets>,
    deliveries: Arc<Deliveries>,
    /// The routes of the console, which exist before the first listener is opened.
    console: OnceLock<axum::Router>,
    /// Locked while listeners are opened or closed, so that a port is free before it is bound
    /// again.
    turn: tokio::sync::Mutex<()>,
}

/// The connection id of listeners that no control connection opened. Real connections never have
/// the id 0.
const NOBODY: u64 = 0;

#[derive(Default)]
struct State {
    settings: config::Http,
    session_idle_s: u64,
    open: Vec<Listener>,
    /// Present if the daemon has its own listener. The inner value is the requested address;
    /// without one, the listener is bound to `[http] bind`.
    own: Option<Option<SocketAddr>>,
    /// The reason why the daemon's own listener is missing.
    fault: Option<String>,
}

struct Listener {
    bound: SocketAddr,
    /// The certificate's digest, if the listener uses TLS.
    fingerprint: Option<Digest>,
    /// Whether this is the daemon's own listener, which stays open without a holder.
    own: bool,
    /// Connections of the control socket that requested the listener. When the last of them closes,
    /// the listener closes too.
    holders: BTreeSet<u64>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Http {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        settings: &config::Http,
        secrets: &Arc<Secrets>,
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
            secrets: Arc::clone(secrets),
            deliveries: Deliveries::new(&shared.studio.home, &shared.studio.ids),
            console: OnceLock::new(),
            turn: Default::default(),
        })
    }

    /// Adds the routes of the console to every listener that is opened from now on.
    pub(crate) fn serve_console(&self, routes: axum::Router) {
        let _ = self.console.set(routes);
    }

    /// Opens a listener that no connection holds. It stays open until [`Http::close`].
    pub async fn open(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.open_for(address, NOBODY).await
    }

    /// Opens a listener for a connection of the control socket, or shares an open listener. With
    /// port 0, any open listener is shared.
    pub async fn open_for(&self, address: SocketAddr, holder: u64) -> io::Result<SocketAddr> {
        let _turn = self.turn.lock().await;
        self.bind(address, false, BTreeSet::from([holder])).await
    }

    /// Opens the daemon's own listener at `address`, or at `[http] bind`. On an error, returns
    /// `None` and stores the error for `status`.
    pub async fn open_own(&self, address: Option<SocketAddr>) -> Option<SocketAddr> {
        let _turn = self.turn.lock().await;
        self.state.lock().own = Some(address);
        let address = address.unwrap_or(self.state.lock().settings.bind);
        self.bind_own(address).await
    }

    async fn bind_own(&self, address: SocketAddr) -> Option<SocketAddr> {
        let bound = self.bind(address, true, BTreeSet::new()).await;
        let fault = bound.as_ref().err().map(|fault| {
            if fault.kind() == io::ErrorKind::AddrInUse {
                let taken = format!("{address} is used by another program; choose another address with --http or [http] bind");
                // Replace the token, because clients of this address may have sent the old token to
                // that program.
                let studio = &self.shared.studio;
                match http::new_token(&studio.home, &*studio.ids) {
                    Ok(_) => {
                        format!("{taken}. A new token was written to state/http.token, because that program may have received the old one")
                    }
                    Err(error) => format!("{taken}. state/http.token cannot be replaced: {error}"),
                }
            } else {
                format!("{address}: {fault}")
            }
        });
        if let Some(fault) = &fault {
            self.log.warn(format_args!("http: {fault}"));
        }
        self.state.lock().fault = fault;
        bound.ok()
    }

    async fn bind(&self, address: SocketAddr, own: bool, holders: BTreeSet<u64>) -> io::Result<SocketAddr> {
        let settings = self.state.lock().settings.clone();
        let may_be_remote = settings.allow_remote && settings.tls.is_on();
        if !address.ip().is_loopback() && !may_be_remote {
            let text = format!(
                "{address} can be reached from other machines; this needs allow_remote = true in [http], and [http.tls]"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if let Some(there) =
            self.state.lock().open.iter_mut().find(|it| it.bound == address || (address.port() == 0 && !own))
        {
            there.own |= own;
            there.holders.extend(holders);
            return Ok(there.bound);
        }
        let (listener, bound) = http::bind(address).await?;
        let studio = &self.shared.studio;
        let phone = studio.policy().policy.approval.phone.as_ref().map(|it| it.bind.ip());
        let addresses: Vec<IpAddr> = std::iter::once(bound.ip()).chain(phone).collect();
        let tls = tls::load(&studio.home, &settings, &addresses, &*studio.ids).map_err(io::Error::other)?;
        let default = http::default_token(&studio.home, &*studio.ids)?;
        let oauth = settings.oauth.clone().map(Oauth::new).transpose().map_err(io::Error::other)?;
        let tokens = Tokens::with_oauth(std::iter::once(default).chain(settings::tokens(&settings)).collect(), oauth);
        let authority = Authority::new(bound, settings.hosts, settings.origins, tls.is_some());
        let console = self.console.get().cloned().unwrap_or_default();
        let hooks = Hooks::new(settings.hooks, &self.shared, &self.secrets, &tokens, &self.deliveries);
        let router = http::router(&self.shared, &tokens, authority, console.merge(hooks.routes()));
        let stop = self.shared.stop.child_token();
        let connections = Arc::clone(&self.shared.http_connections);
        let fingerprint = tls.as_ref().map(|it| it.fingerprint);
        let acceptor = tls.map(|it| it.acceptor);
        let task = self.runtime.spawn(http::serve(listener, router, acceptor, connections, stop.clone()));
        self.state.lock().open.push(Listener { bound, fingerprint, own, holders, stop, task });
        Ok(bound)
    }

    pub fn holds(&self, holder: u64) -> bool {
        self.state.lock().open.iter().any(|it| it.holders.contains(&holder))
    }

    /// Releases the listeners of a connection. Returns when the freed ports can be bound again.
    pub async fn release(&self, holder: u64) {
        if self.holds(holder) {
            self.end(|it| it.holders.remove(&holder) && it.holders.is_empty()).await;
        }
    }

    /// Closes all requested listeners. The daemon's own listener stays open until the daemon stops.
    pub async fn close(&self) {
        self.end(|_| true).await;
    }

    /// Closes listeners, except the daemon's own, and returns when their ports are free.
    async fn end(&self, mut which: impl FnMut(&mut Listener) -> bool) {
        let _turn = self.turn.lock().await;
        let ended: Vec<Listener> = self.state.lock().open.extract_if(.., |it| which(it) && !it.own).collect();
        for listener in ended {
            listener.stop.cancel();
            // A task that panicked has also released its port.
            let _ = listener.task.await;
        }
    }

    /// The addresses of open listeners; the daemon's own is first.
    pub fn served(&self) -> Vec<SocketAddr> {
        let state = self.state.lock();
        let mut served: Vec<(bool, SocketAddr)> = state.open.iter().map(|it| (!it.own, it.bound)).collect();
        served.sort_unstable();
        served.into_iter().map(|(_, bound)| bound).collect()
    }

    /// The open listeners for `status`; the daemon's own is first.
    pub fn now(&self) -> Vec<HttpNow> {
        let served = self.served();
        let url = |it: SocketAddr| HttpNow { url: self.url(it), fingerprint: self.fingerprint(it) };
        served.into_iter().map(url).collect()
    }

    fn fingerprint(&self, bound: SocketAddr) -> Option<Digest> {
        self.state.lock().open.iter().find(|it| it.bound == bound)?.fingerprint
    }

    /// The address of a listener for a browser or a client on this machine.
    pub fn url(&self, bound: SocketAddr) -> String {
        let scheme = if self.fingerprint(bound).is_some() { "https" } else { "http" };
        let ip = match bound.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
        };
        format!("{scheme}://{}", SocketAddr::new(ip, bound.port()))
    }

    pub fn fault(&self) -> Option<String> {
        self.state.lock().fault.clone()
    }

    /// Applies a changed `[http]` section. Open listeners are closed and opened again, so that
    /// streams with a removed token end. Does not wait until this is done.
    pub(crate) fn configure(self: &Arc<Self>, settings: &config::Http, session_idle_s: u64) {
        let mut state = self.state.lock();
        if state.settings == *settings && state.session_idle_s == session_idle_s {
            return;
        }
        state.settings = settings.clone();
        state.session_idle_s = session_idle_s;
        drop(state);
        let http = Arc::clone(self);
        self.runtime.spawn(async move { http.reopen().await });
    }

    async fn reopen(&self) {
        let _turn = self.turn.lock().await;
        let old = std::mem::take(&mut self.state.lock().open);
        let mut again = Vec::new();
        let mut own_bound = None;
        for listener in old {
            listener.stop.cancel();
            // The port is free when the task has ended, even if the task panicked.
            let _ = listener.task.await;
            if listener.own {
                own_bound = Some(listener.bound);
            }
            if !listener.holders.is_empty() {
                again.push((listener.bound, listener.holders));
            }
        }
        let own = {
            let state = self.state.lock();
            state.own.map(|flag| flag.unwrap_or(state.settings.bind))
        };
        if let Some(wanted) = own {
            // Keep a port that was selected automatically, because clients use it.
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
