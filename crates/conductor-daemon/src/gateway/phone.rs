//! Opens and closes the listener for phones at `[policy.approval.phone] bind`.
//!
//! The listener always uses TLS, with the certificate of `[http.tls]`. Not here: its routes
//! (`doors::phone`). A port that cannot be opened is reported, and the daemon runs without it.

use crate::doors::http::{self, Authority, tls};
use crate::doors::mcp::Shared;
use crate::doors::phone::Certificate;
use crate::log::Log;
use axum::{Extension, Router};
use conductor_core::config;
use conductor_core::policy::PhoneSettings;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct PhoneListener {
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
    log: Log,
    routes: OnceLock<Router>,
    state: Mutex<State>,
    /// Locked while the listener is opened or closed.
    turn: tokio::sync::Mutex<()>,
}

/// The parts of the configuration that the listener depends on.
#[derive(Clone, PartialEq, Eq)]
struct Wanted {
    bind: SocketAddr,
    http: config::Http,
}

#[derive(Default)]
struct State {
    wanted: Option<Wanted>,
    open: Option<Open>,
    fault: Option<String>,
}

struct Open {
    served: Served,
    bound: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// The open listener.
#[derive(Clone)]
pub struct Served {
    /// The addresses for a phone, the most useful first.
    pub urls: Vec<String>,
    pub certificate: Certificate,
    /// Whether only programs on this machine can connect.
    pub is_loopback: bool,
}

impl PhoneListener {
    pub(crate) fn new(shared: &Arc<Shared>, runtime: tokio::runtime::Handle, log: &Log) -> Arc<Self> {
        Arc::new(PhoneListener {
            shared: Arc::clone(shared),
            runtime,
            log: log.clone(),
            routes: OnceLock::new(),
            state: Mutex::default(),
            turn: Default::default(),
        })
    }

    /// Sets the routes. Without them, no listener is opened.
    pub(crate) fn serve(&self, routes: Router) {
        let _ = self.routes.set(routes);
    }

    /// Applies the configuration. Returns at once; the listener is opened or closed later.
    pub(crate) fn configure(self: &Arc<Self>, phone: Option<&PhoneSettings>, http: &config::Http) {
        let (bind, hosts, tls) = (http.bind, http.hosts.clone(), http.tls.clone());
        let http = config::Http { bind, hosts, tls, ..config::Http::default() };
        let wanted = phone.map(|it| Wanted { bind: it.bind, http });
        let mut state = self.state.lock();
        if self.routes.get().is_none() || state.wanted == wanted {
            return;
        }
        state.wanted = wanted;
        drop(state);
        let listener = Arc::clone(self);
        self.runtime.spawn(async move { listener.reopen().await });
    }

    async fn reopen(&self) {
        let _turn = self.turn.lock().await;
        let (old, wanted) = {
            let mut state = self.state.lock();
            (state.open.take(), state.wanted.clone())
        };
        let mut kept = None;
        if let Some(old) = old {
            old.stop.cancel();
            // The port is free when the task has ended, even if the task panicked.
            let _ = old.task.await;
            kept = Some(old.bound);
        }
        let Some(wanted) = wanted else {
            self.state.lock().fault = None;
            return;
        };
        // Keep a port that was selected automatically, because paired phones use it.
        let kept = kept.filter(|it| wanted.bind.port() == 0 && it.ip() == wanted.bind.ip());
        let opened = self.open(kept.unwrap_or(wanted.bind), &wanted.http).await;
        let mut state = self.state.lock();
        match opened {
            Ok(open) => (state.open, state.fault) = (Some(open), None),
            Err(why) => {
                let fault = format!("[policy.approval.phone]: {why}");
                self.log.warn(&fault);
                state.fault = Some(fault);
            }
        }
    }

    async fn open(&self, address: SocketAddr, settings: &config::Http) -> Result<Open, String> {
        if !settings.tls.is_on() {
            return Err("phones connect only over TLS; add [http.tls] with self_signed = true, or with a certificate \
                        and its key"
                .to_owned());
        }
        let Some(routes) = self.routes.get() else { return Err("the daemon is starting".to_owned()) };
        let (listener, bound) = http::bind(address).await.map_err(|error| format!("{address}: {error}"))?;
        let studio = &self.shared.studio;
        let tls = tls::load(&studio.home, settings, &[settings.bind.ip(), bound.ip()], &*studio.ids);
        let tls = tls.map_err(|error| error.to_string())?;
        let Some(tls) = tls else { return Err("no certificate is configured in [http.tls]".to_owned()) };
        let hosts: Vec<String> =
            settings.hosts.iter().map(|it| format!("{}:{}", in_url(tls::without_port(it)), bound.port())).collect();
        let certificate =
            Certificate { fingerprint: tls.fingerprint, is_self_signed: settings.tls.certificate.is_none() };
        let own = (!bound.ip().is_unspecified()).then(|| bound.to_string());
        let urls = hosts.iter().cloned().chain(own).map(|it| format!("https://{it}")).collect();
        let served = Served { urls, certificate, is_loopback: bound.ip().is_loopback() };
        let router = routes.clone().layer(Extension(certificate));
        let router = http::with_authority(router, Authority::new(bound, hosts, Vec::new(), true));
        let stop = self.shared.stop.child_token();
        let connections = Arc::clone(&self.shared.http_connections);
        let task = self.runtime.spawn(http::serve(listener, router, Some(tls.acceptor), connections, stop.clone()));
        Ok(Open { served, bound, stop, task })
    }

    /// The open listener, or the reason why there is none.
    pub fn served(&self) -> Result<Served, String> {
        let state = self.state.lock();
        match (&state.open, &state.fault) {
            (Some(open), _) => Ok(open.served.clone()),
            (None, Some(fault)) => Err(fault.clone()),
            (None, None) => Err("config.toml has no listener for phones".to_owned()),
        }
    }
}

/// A host as part of a URL: an IPv6 address is in brackets.
fn in_url(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
