//! The half of the daemon that is spoken to: the audit log, the store of plans and approvals, the
//! catalog and the doors of AI clients.
//!
//! Not here: the hands (`run`), and how a call passes (`pipeline`). A home whose audit log was
//! tampered with still plays; it only serves no tool until a person has looked.

pub mod audit;
pub mod grants;
pub mod listener;
pub mod live_watch;
pub mod plugins;
mod settings;

use crate::doors::mcp::Shared;
use crate::doors::mcp::socket::{self, Tally};
use crate::gateway::grants::{Grants, NoTls};
use crate::gateway::listener::Http;
use crate::gateway::plugins::Plugins;
use crate::home::Home;
use crate::log::Log;
use audit::DaemonLog;
use conductor_core::audit::record::EventName;
use conductor_core::config::{self, Config, KeyRung, PdMode};
use conductor_core::digest::Digest;
use conductor_core::error::ToolError;
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::config_in_force::{ConfigInForce, Waiting};
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_gateway::pending_store::PendingStore;
use conductor_gateway::pipeline::record::AuditSink;
use conductor_gateway::secrets::{KeychainNote, Scrubber};
use conductor_gateway::studio::hub::Change;
use conductor_gateway::studio::{Parts, RealSleeper, Studio};
use conductor_gateway::tools::catalog::{Catalog, CatalogError, Tool};
use conductor_gateway::tools::daemon::{self as tools};
use conductor_gateway::tools::plugins::reach::Means;
use conductor_hosts::live::{self, Live};
use conductor_hosts::max::MaxHost;
use conductor_hosts::patch::reach::Consent;
use conductor_hosts::patch::{self, HostKind, Naming, Patches};
use conductor_hosts::pd::PdHost;
use conductor_hosts::pd::attach::AttachedPd;
use conductor_hosts::system::listener::{BindError, Listener};
use conductor_hosts::system::{Clock, Ids};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("the plans cannot be read: {0}")]
    Plans(io::Error),
    #[error("a tool cannot be offered: {0}")]
    Catalog(#[from] CatalogError),
    #[error("{0}")]
    Socket(#[from] BindError),
    #[error("{0}")]
    NoTls(#[from] NoTls),
}

/// Everything AI clients speak to.
pub struct Gateway {
    pub studio: Arc<Studio>,
    pub shared: Arc<Shared>,
    pub http: Arc<Http>,
    pub(crate) patches: Arc<Patches>,
    pub grants: Grants,
    pub plugins: Arc<Plugins>,
    pub live: Arc<Live>,
    pub audit: Arc<DaemonLog>,
    /// What the log was opened with.
    audit_section: config::Audit,
    /// What patches were made with.
    patch_section: config::Patch,
    live_section: config::Live,
    /// Parameters of the Set that are looked at, as the configuration names them.
    watched_live: watch::Sender<BTreeSet<String>>,
    /// What is not in force until a person accepts it; the terminal of `up` asks.
    waiting: watch::Sender<Waiting>,
    runtime: tokio::runtime::Handle,
    pub(crate) log: Log,
}

impl Gateway {
    /// Puts `config` in force as it is opened. `runtime` serves the listeners.
    pub fn open(
        home: &Home,
        clock: &Arc<dyn Clock>,
        ids: &Arc<dyn Ids>,
        owner: &OwnerHandle,
        serving: &ConfigInForce,
        runtime: tokio::runtime::Handle,
        log: &Log,
    ) -> Result<Self, GatewayError> {
        let config: &Config = &serving.config;
        let note = (config.secrets == KeyRung::Keychain).then(|| KeychainNote::of_home(audit::NOTE, home.root()));
        let settings = audit::settings(&config.audit);
        let audit = DaemonLog::open(home.root().to_owned(), settings, note, (Arc::clone(clock), Arc::clone(ids)), log);
        let key = conductor_gateway::secrets::home_key(home.root(), "plans.key", ids.as_ref())
            .map_err(GatewayError::Plans)?;
        let (pending, skipped) = PendingStore::open(home.root(), Arc::new(Disk), key).map_err(GatewayError::Plans)?;
        for file in skipped {
            log.warn(format_args!("plans: {}: {}", file.name, file.why));
        }
        clean_up(&pending, Timestamp::from_millis(clock.wall_ms()), log);
        let tools = tools::definitions(owner).into_iter().map(Tool::new).collect::<Result<Vec<_>, _>>()?;
        let mut catalog = Catalog::new(tools)?;
        tools::add_resources(&mut catalog, owner)?;
        tools::add_prompts(&mut catalog, owner)?;
        let settings = patch::Settings::of_config(&config.patch);
        let patches = Patches::new(home.root(), settings, Arc::clone(clock), Arc::clone(ids));
        drive(&patches, home, (clock, ids.as_ref()), &config.patch, log);
        conductor_gateway::tools::patch::add(&mut catalog, &patches)?;
        let live = Live::new(home.root(), live::Settings::of_config(home.root(), &config.live));
        conductor_gateway::tools::live::add(&mut catalog, &live)?;
        let scrubber = Scrubber::new();
        log.clean_by(&scrubber);
        let grants = Grants::new(home.root(), config, ids, &scrubber)?;
        grants.add_tools(&mut catalog)?;
        grants.put_in_force(config, log);
        let policy = config.policy.clone().unwrap_or_else(|| {
            log.error("[policy] cannot be used: until it can, a person is asked before every effect");
            settings::cautious()
        });
        let studio = Studio::new(Parts {
            clock: Arc::clone(clock),
            sleeper: Arc::new(RealSleeper::new(Arc::clone(clock))),
            ids: Arc::clone(ids),
            home: home.root().to_owned(),
            audit: Arc::clone(&audit) as Arc<dyn AuditSink>,
            pending,
            catalog,
            policy: settings::in_force(policy, config),
            settings: settings::settings(config),
            scrubber,
        });
        audit.tell(&studio.news);
        conductor_gateway::tools::live::connect(&studio, &live);
        let (farewell, left) = (owner.clone(), Arc::clone(&live));
        studio.on_connection_end(move |conn| {
            farewell.tool_gone(conn.0);
            left.connection_ended(conn.0);
        });
        let means = Means {
            files: Arc::clone(&grants.files),
            web: Arc::clone(&grants.web),
            secrets: Arc::clone(&grants.secrets),
            ids: Arc::clone(ids),
        };
        let plugins = Plugins::new(&studio, conductor_hosts::system::own_program(), means, log);
        plugins.set_rows(&config.plugins);
        runtime.block_on(async {
            // A client that is here first finds every tool. One plugin that takes its time keeps
            // nobody waiting for long.
            let _ = tokio::time::timeout(PLUGINS_AT_START, plugins.look()).await;
        });
        for line in settings::unknown_names(config, &studio.catalog()) {
            log.warn(line);
        }
        let shared = Shared::new(&studio);
        let http = Http::new(&shared, &config.http, runtime.clone(), log);
        let gateway = Gateway {
            studio,
            shared,
            http,
            patches,
            grants,
            plugins,
            live,
            audit,
            audit_section: config.audit.clone(),
            patch_section: config.patch.clone(),
            live_section: config.live.clone(),
            watched_live: watch::Sender::new(live_watch::watched(config)),
            waiting: watch::Sender::new(serving.waiting.clone()),
            runtime,
            log: log.clone(),
        };
        gateway.record_loaded(serving);
        Ok(gateway)
    }

    /// What is not in force until a person accepts it, as it changes.
    pub fn waiting(&self) -> watch::Receiver<Waiting> {
        self.waiting.subscribe()
    }

    /// Writes an event without waiting for the disk: the owner calls it.
    fn note(&self, event: EventName, detail: Value) {
        let written = self.studio.audit.event(None, event, detail);
        self.runtime.spawn(async move { drop(written.await) });
    }

    /// Which configuration is in force, by its hashes, and what of the file is not.
    fn record_loaded(&self, serving: &ConfigInForce) {
        let detail = json!({ "file": serving.hash_text(), "sections": serving.sections, "accepted": serving.mark });
        self.note(EventName::ConfigLoaded, detail.clone());
        if serving.waiting.needs_a_person() {
            let mut detail = detail;
            detail["held"] = serving.waiting.held.names().into();
            detail["closed"] = serving.waiting.closed.as_deref().into();
            self.note(EventName::ConfigHeld, detail);
        }
    }

    /// Puts the whole file in force by a person's word, and records whose it was.
    pub async fn accept_config(
        &self,
        owner: &OwnerHandle,
        by: Principal,
        hash: Digest,
    ) -> Result<conductor_gateway::report::Reloaded, ToolError> {
        let reloaded = owner.accept_config(Some(hash)).await?;
        let serving = owner.serving();
        let detail = json!({ "file": serving.hash_text(), "sections": serving.sections, "accepted": serving.mark });
        let _ = self.studio.audit.event(Some(by), EventName::ConfigAccepted, detail).await;
        Ok(reloaded)
    }

    /// A file that does not come into force.
    pub(crate) fn rejected(&self, reason: &str) {
        self.note(EventName::ConfigRejected, json!({ "reason": reason }));
    }

    /// A configuration that was accepted. Does not wait for anything but short locks: the owner
    /// calls it.
    pub(crate) fn put_in_force(&self, serving: &ConfigInForce) {
        let config: &Config = &serving.config;
        let seen = self.listed();
        self.record_loaded(serving);
        for held in serving.waiting.held.names() {
            self.log.warn(format_args!("{held} has changed and waits for `conductor config accept`"));
        }
        self.waiting.send_if_modified(|it| {
            let is_new = *it != serving.waiting;
            *it = serving.waiting.clone();
            is_new
        });
        match &config.policy {
            Some(policy) => {
                let new = settings::in_force(policy.clone(), config);
                if new.version != self.studio.policy().version {
                    self.log.info(format_args!("policy in force: {} rules", policy.rules.len()));
                    let old = self.studio.policy().version;
                    self.note(
                        EventName::PolicyChanged,
                        json!({ "from": old, "to": new.version, "sections": serving.sections }),
                    );
                    self.studio.set_policy(new);
                }
            }
            None => self.log.error("kept the old policy: [policy] has a fault"),
        }
        for line in settings::unknown_names(config, &self.studio.catalog()) {
            self.log.warn(line);
        }
        self.studio.set_settings(settings::settings(config));
        self.grants.put_in_force(config, &self.log);
        self.plugins.set_rows(&config.plugins);
        if config.audit != self.audit_section {
            self.log.info("[audit] has changed: `detail` and `read_only_sync` count now, the rest from the next start");
        }
        if config.patch != self.patch_section {
            self.log.info("[patch] has changed: it counts from the next start");
        }
        if config.live != self.live_section {
            self.log.info("[live] has changed: it counts from the next start");
        }
        // Also when it names the same ones: the knobs of a new configuration know nothing yet.
        self.watched_live.send_replace(live_watch::watched(config));
        self.http.configure(&config.http, config.mcp.session_idle_s.into());
        if seen != self.listed() {
            self.studio.hub.tell(Change::Tools);
        }
        // The old one may have been large.
        crate::release_memory::trim_soon(&self.runtime);
    }

    /// What a person typed when the daemon started.
    pub fn give_passphrase(&self, passphrase: secrecy::SecretString) {
        self.grants.secrets.give_passphrase(passphrase);
        self.grants.open_secrets(&self.log);
    }

    /// The tools that policy leaves in lists.
    fn listed(&self) -> BTreeSet<String> {
        let policy = self.studio.policy();
        let catalog = self.studio.catalog();
        let listed = catalog.tools().filter(|it| !policy.policy.denies_everyone(&it.name, it.tier));
        listed.map(|it| it.name.to_string()).collect()
    }

    pub async fn bind(home: &Home) -> Result<Listener, GatewayError> {
        Ok(Listener::bind(&home.mcp_socket())?)
    }

    /// Accepts AI clients, expires unanswered questions and forgets old ones, until the
    /// daemon stops.
    pub async fn serve(gateway: Arc<Gateway>, listener: Listener) {
        let shared = Arc::clone(&gateway.shared);
        let studio = &gateway.studio;
        let begin = json!({ "version": env!("CARGO_PKG_VERSION"), "remembered": gateway.audit.is_remembered() });
        let _ = studio.audit.event(None, EventName::DaemonStart, begin).await;
        let tidy = async {
            let mut clean_at = studio.clock.now().plus_us(CLEAN_UP_US);
            loop {
                let next = studio.sleeper.until(studio.clock.now().plus_us(EXPIRY_LOOK_US));
                tokio::select! {
                    () = next => {}
                    () = shared.stop.cancelled() => return,
                }
                // A disk that refuses is told by the next call that needs it.
                let _ = studio.desk.expire(studio).await;
                if gateway.audit.wants_another_try() {
                    let gateway = Arc::clone(&gateway);
                    let _ = tokio::task::spawn_blocking(move || gateway.audit.try_again()).await;
                }
                if studio.clock.now() >= clean_at {
                    clean_at = studio.clock.now().plus_us(CLEAN_UP_US);
                    let gateway = Arc::clone(&gateway);
                    let old = move || clean_up(gateway.studio.desk.store(), gateway.studio.timestamp(), &gateway.log);
                    let _ = tokio::task::spawn_blocking(old).await;
                }
            }
        };
        tokio::join!(socket::serve(listener, Arc::clone(&shared), Arc::new(Tally::default())), tidy);
    }

    /// Notices files that come, go and change, until the daemon stops.
    pub async fn watch_plugins(gateway: Arc<Gateway>, debounce_ms: u64) {
        tokio::select! {
            () = Arc::clone(&gateway.plugins).watch(debounce_ms) => {}
            () = gateway.shared.stop.cancelled() => {}
        }
    }

    /// The last words of the log. Blocks for two syncs.
    pub fn stop(&self, runtime: &tokio::runtime::Runtime) {
        self.shared.stop.cancel();
        self.patches.stop();
        runtime.block_on(self.http.close());
        runtime.block_on(self.plugins.stop());
        runtime.block_on(async {
            let _ = self.audit.event(None, EventName::DaemonStop, json!({})).await;
        });
        self.audit.stop();
    }
}

/// Plans and questions that ended long ago, and what crashes left behind.
fn clean_up(pending: &PendingStore, now: Timestamp, log: &Log) {
    if let Err(fault) = pending.clean_up(now) {
        log.warn(format_args!("plans: old ones cannot be removed: {fault}"));
    }
}

/// Lets patches be shown by the programs that the configuration names. One that cannot be had is
/// told and left out.
fn drive(
    patches: &Arc<Patches>,
    home: &Home,
    (clock, ids): (&Arc<dyn Clock>, &dyn Ids),
    config: &config::Patch,
    log: &Log,
) {
    if let Some(settings) = settings::pd(&config.pd) {
        match PdHost::new(home.root(), settings, patches.voice().clone(), Arc::clone(clock)) {
            Ok(pd) => {
                pd.tell(patches);
                patches.drive(pd);
            }
            Err(fault) => log.error(format_args!("[patch.pd]: {fault}")),
        }
    }
    if config.pd.mode == PdMode::Attach {
        match AttachedPd::listen(home.root(), ids, patches.voice().clone(), Arc::clone(clock)) {
            Ok(pd) => patches.drive(pd),
            Err(fault) => log.error(format_args!("[patch.pd]: {fault}")),
        }
    }
    if config.max.enabled {
        match MaxHost::listen(home.root(), config.max.port, ids, patches.voice().clone(), Arc::clone(clock)) {
            Ok(max) => patches.drive(max),
            Err(fault) => log.error(format_args!("[patch.max]: {fault}")),
        }
    }
    for path in &config.open {
        if let Err(fault) = patches.open(path, HostKind::Document, Naming::default(), &Consent::Call(None)) {
            log.warn(format_args!("[patch] open: {path}: {}", fault.message));
        }
    }
}

/// How long a start waits for plugins; what takes longer is offered when it is ready.
const PLUGINS_AT_START: std::time::Duration = std::time::Duration::from_secs(2);

/// Every ask ends what ran out; this is for the channels that show questions.
const EXPIRY_LOOK_US: u64 = 1_000_000;
/// Between two looks for records that ended long ago.
const CLEAN_UP_US: u64 = 86_400_000_000;
