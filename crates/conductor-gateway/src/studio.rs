//! Everything that a call may need: time, ids, the catalog, policy, limits, circuit breakers, the
//! audit log and events.
//!
//! The daemon builds one studio. The testkit builds one in a temporary home. Not here: devices,
//! documents and configuration, which the daemon's owner thread holds.

pub mod events;
pub mod meters;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use conductor_core::audit::record::EventName;
use conductor_core::config::{Audit, Circuit, Config, Mcp};
use conductor_core::digest::Digest;
use conductor_core::event::Micros;
use conductor_core::pending::NewIds;
use conductor_core::policy::Policy;
use conductor_core::policy::limits::{Limits, Retry};
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::audit_log::Health;
use crate::catalog::{Catalog, Tool};
use crate::pending_store::PendingStore;
use crate::pipeline::approval::ApprovalQueue;
use crate::pipeline::call::ConnId;
use crate::pipeline::circuit::Circuits;
use crate::pipeline::limits::Traffic;
use crate::pipeline::record::AuditSink;
use crate::report::NetworkNow;
use crate::secrets::Scrubber;
use conductor_hosts::system::{Clock, Ids};
use events::{Change, Events};

/// Sleeps on the same clock as [`Clock::now`], so that a test can advance both.
pub trait Sleeper: Send + Sync {
    fn until(&self, at: Micros) -> BoxFuture<'static, ()>;
}

pub struct RealSleeper {
    clock: Arc<dyn Clock>,
}

impl RealSleeper {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

impl Sleeper for RealSleeper {
    fn until(&self, at: Micros) -> BoxFuture<'static, ()> {
        let left = at.0.saturating_sub(self.clock.now().0);
        Box::pin(tokio::time::sleep(std::time::Duration::from_micros(left)))
    }
}

/// The policy in force and its digest. An approval that was given under another version is stale.
pub struct PolicyInForce {
    pub policy: Policy,
    pub version: Digest,
}

/// The sections of the configuration that a reload can change.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub limits: Limits,
    pub retry: Retry,
    pub circuit: Circuit,
    pub audit: Audit,
    pub mcp: Mcp,
    /// Calls per minute of each HTTP token that has its own rate, by token name.
    pub token_rates: BTreeMap<String, u32>,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Self {
            limits: config.limits.clone(),
            retry: config.retry,
            circuit: config.circuit.clone(),
            audit: config.audit.clone(),
            mcp: config.mcp.clone(),
            token_rates: config.http.tokens.iter().filter_map(|it| Some((it.name.clone(), it.per_minute?))).collect(),
        }
    }
}

pub struct Studio {
    pub clock: Arc<dyn Clock>,
    pub sleeper: Arc<dyn Sleeper>,
    pub ids: Arc<dyn Ids>,
    pub home: PathBuf,
    /// Private to this crate, so that only the pipeline writes the records of calls.
    pub(crate) audit: Arc<dyn AuditSink>,
    pub approvals: ApprovalQueue,
    /// Locked while a plan is applied, so that the next plan starts from the result of this plan.
    pub applying: tokio::sync::Mutex<()>,
    pub traffic: Traffic,
    pub circuits: Circuits,
    /// Replaces secrets in all data that leaves the studio.
    pub scrubber: Arc<Scrubber>,
    catalog: ArcSwap<Catalog>,
    catalog_editor: Mutex<()>,
    policy: ArcSwap<PolicyInForce>,
    settings: ArcSwap<Settings>,
    /// Why a plugin's code is not the code that a person enabled, by plugin name.
    pin_faults: ArcSwap<BTreeMap<String, String>>,
    pub meters: meters::Meters,
    /// Shared with the audit log, which sends checkpoint events but has no reference to the studio.
    pub events: Arc<Events>,
    on_connection_end: OnceLock<Box<dyn Fn(ConnId) + Send + Sync>>,
    network: OnceLock<Box<dyn Fn() -> NetworkNow + Send + Sync>>,
}

/// The parts that [`Studio::new`] needs.
pub struct Parts {
    pub clock: Arc<dyn Clock>,
    pub sleeper: Arc<dyn Sleeper>,
    pub ids: Arc<dyn Ids>,
    pub home: PathBuf,
    pub audit: Arc<dyn AuditSink>,
    pub pending: PendingStore,
    pub catalog: Catalog,
    pub policy: PolicyInForce,
    pub settings: Settings,
    pub scrubber: Arc<Scrubber>,
}

impl Studio {
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts { clock, sleeper, ids, home, audit, pending, catalog, policy, settings, scrubber } = parts;
        pending.run_on(&clock);
        Arc::new(Self {
            circuits: Circuits::new(Arc::clone(&clock)),
            scrubber,
            clock,
            sleeper,
            ids,
            home,
            audit,
            approvals: ApprovalQueue::new(pending),
            applying: tokio::sync::Mutex::default(),
            traffic: Traffic::default(),
            catalog: ArcSwap::from_pointee(catalog),
            catalog_editor: Mutex::default(),
            policy: ArcSwap::from_pointee(policy),
            settings: ArcSwap::from_pointee(settings),
            pin_faults: ArcSwap::default(),
            meters: meters::Meters::default(),
            events: Arc::default(),
            on_connection_end: OnceLock::new(),
            network: OnceLock::new(),
        })
    }

    /// Sets the callback for the end of a connection. The callback releases the notes that calls on
    /// this connection left on.
    pub fn on_connection_end(&self, callback: impl Fn(ConnId) + Send + Sync + 'static) {
        let _ = self.on_connection_end.set(Box::new(callback));
    }

    pub fn connection_ended(&self, conn: ConnId) {
        self.approvals.connection_ended(conn);
        if let Some(callback) = self.on_connection_end.get() {
            callback(conn);
        }
    }

    /// Sets the source of the state of network connections, for `status`.
    pub fn report_network(&self, report: impl Fn() -> NetworkNow + Send + Sync + 'static) {
        let _ = self.network.set(Box::new(report));
    }

    /// Records an event outside calls; `detail` must not contain arguments, results or secrets.
    pub fn audit_event(
        &self,
        principal: Option<Principal>,
        event: EventName,
        detail: Value,
    ) -> BoxFuture<'static, Result<(), String>> {
        self.audit.event(principal, event, detail)
    }

    /// Succeeds if records can be written. Otherwise the error is the reason.
    pub fn audit_up(&self) -> Result<(), String> {
        self.audit.up()
    }

    /// The state of the audit log; `None` without a real log.
    pub fn audit_health(&self) -> Option<Health> {
        self.audit.health()
    }

    pub fn network(&self) -> NetworkNow {
        self.network.get().map(|report| report()).unwrap_or_default()
    }

    pub fn now_ms(&self) -> u64 {
        self.clock.now().0 / 1000
    }

    /// Wall time, for records that people read.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.wall_ms())
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Edits a copy of the catalog and replaces the catalog with it. Running calls keep their tool
    /// definitions. Sends an event for each list (tools, resources, prompts) that changed.
    pub fn edit_catalog<T>(&self, edit: impl FnOnce(&mut Catalog) -> T) -> T {
        // Without this lock, two editors would copy the same catalog and one edit would be lost.
        let _one = self.catalog_editor.lock();
        let old = self.catalog();
        let mut new = old.copy();
        let result = edit(&mut new);
        let differs = old.differs(&new);
        self.catalog.store(Arc::new(new));
        for (differs, change) in differs.into_iter().zip([Change::Tools, Change::Resources, Change::Prompts]) {
            if differs {
                self.events.changed(change);
            }
        }
        result
    }

    pub fn policy(&self) -> Arc<PolicyInForce> {
        self.policy.load_full()
    }

    pub fn set_policy(&self, policy: PolicyInForce) {
        self.policy.store(Arc::new(policy));
    }

    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    pub fn set_settings(&self, settings: Settings) {
        self.circuits.reconfigure(|tool| settings.circuit.of(tool));
        self.settings.store(Arc::new(settings));
    }

    pub fn set_pin_faults(&self, faults: BTreeMap<String, String>) {
        self.pin_faults.store(Arc::new(faults));
    }

    pub fn pin_fault(&self, tool: &Tool) -> Option<String> {
        match &tool.source {
            crate::catalog::Source::Builtin => None,
            crate::catalog::Source::Plugin { name, .. } => self.pin_faults.load().get(name).cloned(),
        }
    }

    /// Ids for a new question, plan or edit.
    pub fn new_ids(&self) -> NewIds {
        let mut bits = [0; 8];
        self.ids.fill(&mut bits);
        NewIds { id: self.ids.v4(), short: u64::from_le_bytes(bits) }
    }

    /// A random number, uniform over all of `u32`, for retry delays.
    pub fn jitter(&self) -> u32 {
        let mut bytes = [0; 4];
        self.ids.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }
}
