//! The half of the daemon that is spoken to: the audit log, the store of plans and approvals, the catalog and the doors of AI clients.
//!
//! Not here: the hands (`run`), and how a call passes (`pipeline`). A home whose audit log was tampered with still plays; it only serves
//! no tool until a person has looked.

use super::dispatch::Calls;
use super::handle::Handle;
use super::home::Home;
use super::log::Log;
use crate::audit_log::files::Disk;
use crate::audit_log::{self, AuditLog, OpenError};
use crate::doors::http::{self, Authority, Tokens};
use crate::doors::mcp::Shared;
use crate::doors::mcp::socket::{self, Tally};
use crate::hosts::live::{self, Live};
use crate::outside::{Clock, Ids};
use crate::pending_store::PendingStore;
use crate::pipeline::record::Journal;
use crate::pipeline::{self, Call};
use crate::studio::{Parts, PolicyInForce, RealSleeper, Settings, Studio};
use crate::tools::catalog::{Catalog, CatalogFault, Tool};
use crate::tools::daemon::{self as tools, mapping_call};
use conductor_core::audit::record::{CallFacts, EventName, InputHash, InputHasher, OutcomeFacts};
use conductor_core::event::Taint;
use conductor_core::hands::MappingCall;
use conductor_core::policy::{Policy, policy_version};
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[derive(Debug, thiserror::Error)]
pub enum WordsError {
    #[error("the plans cannot be read: {0}")]
    Plans(io::Error),
    #[error("a tool cannot be offered: {0}")]
    Catalog(#[from] CatalogFault),
    #[error("{0}")]
    Socket(#[from] socket::BindFault),
}

/// Everything AI clients speak to.
pub struct Words {
    pub studio: Arc<Studio>,
    pub shared: Arc<Shared>,
    pub http: Http,
    /// Absent when the log could not be opened.
    audit: Option<AuditLog>,
}

impl Words {
    pub fn open(home: &Home, clock: &Arc<dyn Clock>, ids: &Arc<dyn Ids>, owner: &Handle, log: &Log) -> Result<Self, WordsError> {
        let outside = Arc::new(Outside { clock: Arc::clone(clock), ids: Arc::clone(ids) });
        let opened = AuditLog::open(home.root(), Arc::new(Disk), audit_log::Settings::default(), outside.clone(), outside);
        let (audit, journal): (Option<AuditLog>, Arc<dyn Journal>) = match opened {
            Ok((audit, opened)) => {
                for (call, tool) in &opened.unanswered {
                    log.warn(format_args!("audit: {tool} (call {call}) was begun before the last stop; whether it took effect is unknown"));
                }
                if let Some(bytes) = opened.torn_bytes {
                    log.warn(format_args!("audit: a torn tail of {bytes} bytes was set aside"));
                }
                (Some(audit.clone()), Arc::new(audit))
            }
            Err(fault) => {
                let reason = match &fault {
                    OpenError::Refused(_) => format!("{fault}; no tool is served. Look with `conductor audit verify`"),
                    OpenError::Io(..) | OpenError::Key(_) | OpenError::Thread(_) => format!("{fault}; no tool is served"),
                };
                log.error(format_args!("audit: {reason}"));
                (None, Arc::new(NoLog { reason, hasher: InputHasher::new(&[0; 32]) }))
            }
        };
        let (pending, skipped) = PendingStore::open(home.root(), Arc::new(Disk)).map_err(WordsError::Plans)?;
        for file in skipped {
            log.warn(format_args!("plans: {}: {}", file.name, file.why));
        }
        let tools = tools::definitions(owner).into_iter().map(Tool::new).collect::<Result<Vec<_>, _>>()?;
        let mut catalog = Catalog::new(tools)?;
        tools::add_resources(&mut catalog, owner)?;
        tools::add_prompts(&mut catalog, owner)?;
        let live = Live::new(home.root(), live::Settings::of_config(home.root(), &owner.serving().config.live));
        crate::tools::live::add(&mut catalog, &live)?;
        let policy = Policy::default();
        let version = policy_version(&json!({}), &json!({}), &json!({})).unwrap_or(conductor_core::digest::Digest::of(&[]));
        let studio = Studio::new(Parts {
            clock: Arc::clone(clock),
            sleeper: Arc::new(RealSleeper::new(Arc::clone(clock))),
            ids: Arc::clone(ids),
            home: home.root().to_owned(),
            audit: journal,
            pending,
            catalog,
            policy: PolicyInForce { policy, version },
            settings: Settings::default(),
        });
        let farewell = owner.clone();
        studio.on_connection_end(move |conn| {
            farewell.tool_gone(conn.0);
            live.connection_ended(conn.0);
        });
        let shared = Shared::new(&studio);
        let http = Http { shared: Arc::clone(&shared), open: Mutex::default() };
        Ok(Words { studio, shared, http, audit })
    }

    pub async fn bind(home: &Home) -> Result<UnixListener, WordsError> {
        Ok(socket::bind(home.root(), "mcp.sock").await?)
    }

    /// Accepts AI clients, and ends questions that nobody answered, until the daemon stops.
    pub async fn serve(shared: Arc<Shared>, listener: UnixListener) {
        let studio = Arc::clone(&shared.studio);
        let _ = studio.audit.event(None, EventName::DaemonStart, json!({ "version": env!("CARGO_PKG_VERSION") })).await;
        let stop = shared.stop.clone();
        let tidy = async {
            loop {
                let next = studio.sleeper.until(studio.clock.now().plus_us(EXPIRY_LOOK_US));
                tokio::select! {
                    () = next => {}
                    () = stop.cancelled() => return,
                }
                // A disk that refuses is told by the next call that needs it.
                let _ = studio.desk.expire(&studio).await;
            }
        };
        tokio::join!(socket::serve(listener, Arc::clone(&shared), Arc::new(Tally::default())), tidy);
    }

    /// The last words of the log. Blocks for two syncs.
    pub fn stop(&self, runtime: &tokio::runtime::Runtime) {
        self.shared.stop.cancel();
        self.http.close();
        if let Some(audit) = &self.audit {
            runtime.block_on(async {
                let _ = Journal::event(audit, None, EventName::DaemonStop, json!({})).await;
            });
            audit.stop();
        }
    }

    pub fn audit_head(&self) -> Option<Value> {
        let head = self.audit.as_ref()?.head()?;
        Some(json!({ "log_id": head.log_id.to_string(), "seq": head.seq, "hash": head.hash }))
    }
}

/// Every ask ends what ran out; this is for the channels that show questions.
const EXPIRY_LOOK_US: u64 = 1_000_000;

/// The listener for HTTP clients. Opened when asked for, joined by whoever asks for the same port.
pub struct Http {
    shared: Arc<Shared>,
    open: Mutex<Option<(SocketAddr, CancellationToken)>>,
}

impl Http {
    /// Opens the listener, or tells where it is. Loopback only.
    pub async fn open(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{address} is not a loopback address")));
        }
        if let Some((bound, _)) = self.current().filter(|(bound, _)| address.port() == 0 || *bound == address) {
            return Ok(bound);
        }
        let (listener, bound) = http::bind(address).await?;
        let studio = &self.shared.studio;
        let tokens = Tokens::new(vec![http::default_token(&studio.home, &*studio.ids)?]);
        let authority = Authority::new(bound.port(), Vec::new(), Vec::new());
        let router = http::router(&self.shared, &tokens, authority, axum::Router::new());
        let stop = self.shared.stop.child_token();
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some((bound, stop.clone()));
        tokio::spawn(http::serve(listener, router, stop));
        Ok(bound)
    }

    pub fn close(&self) {
        if let Some((_, stop)) = self.open.lock().unwrap_or_else(PoisonError::into_inner).take() {
            stop.cancel();
        }
    }

    pub fn current(&self) -> Option<(SocketAddr, CancellationToken)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Calls under a pad, on their way into the pipeline. The owner exists before the studio does, so the studio is filled in later.
#[derive(Default)]
pub struct PadCalls {
    words: OnceLock<(Arc<Studio>, tokio::runtime::Handle)>,
}

impl PadCalls {
    pub fn connect(&self, studio: &Arc<Studio>, runtime: tokio::runtime::Handle) {
        let _ = self.words.set((Arc::clone(studio), runtime));
    }
}

impl Calls for PadCalls {
    fn start(&self, call: MappingCall, owner: &Handle) {
        let made = mapping_call::of(&call.action, &call.values);
        let (Some((studio, runtime)), Some((tool, arguments))) = (self.words.get(), made) else {
            return owner.call_done(call.ticket, false);
        };
        let principal = Principal::Mapping { mode: call.mapping.mode.to_string(), id: call.mapping.id.to_string() };
        let mut asked = Call::new(principal, tool, arguments);
        asked.tainted = call.taint != Taint::Clean;
        let (studio, owner, ticket) = (Arc::clone(studio), owner.clone(), call.ticket);
        runtime.spawn(async move {
            let reply = pipeline::run(&studio, asked).await;
            owner.call_done(ticket, reply.is_ok());
        });
    }
}

/// The log's view of time and chance.
struct Outside {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outside")
    }
}

impl audit_log::outside::Clock for Outside {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.wall_ms())
    }

    fn monotonic_ms(&self) -> u64 {
        self.clock.now().0 / 1000
    }
}

impl audit_log::outside::Ids for Outside {
    fn fill(&self, bytes: &mut [u8]) {
        self.ids.fill(bytes);
    }

    fn v4(&self) -> Uuid {
        self.ids.v4()
    }
}

/// Stands where the log cannot be opened: every call is refused before it does anything.
struct NoLog {
    reason: String,
    hasher: InputHasher,
}

impl Journal for NoLog {
    fn up(&self) -> Result<(), String> {
        Err(self.reason.clone())
    }

    fn hash_input(&self, arguments: &Value) -> InputHash {
        self.hasher.hash(arguments)
    }

    fn intent(&self, _: CallFacts) -> BoxFuture<'static, Result<u64, String>> {
        Box::pin(std::future::ready(Err(self.reason.clone())))
    }

    fn outcome(&self, _: CallFacts, _: OutcomeFacts, _: bool) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(std::future::ready(Err(self.reason.clone())))
    }

    fn event(&self, _: Option<Principal>, _: EventName, _: Value) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(std::future::ready(Err(self.reason.clone())))
    }
}
