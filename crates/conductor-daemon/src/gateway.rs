//! Opens the parts of the gateway and applies the configuration to them: audit log, plans and
//! approvals, tool catalog, hosts, and the listeners for AI clients.
//!
//! Not here: the engine's thread (`owner`), and the processing of calls (`pipeline`). If the audit
//! log is damaged, the engine runs, but no tool is available until a person accepts the damage.

mod approval_pad;
pub mod audit;
pub mod cluster;
pub mod grants;
pub mod listener;
pub mod live_watch;
pub mod owner_events;
pub mod phone;
pub mod plugins;
mod settings;
pub mod webhooks;

use crate::doors::console::sessions::{Ended, Sessions};
use crate::doors::mcp::Shared;
use crate::doors::mcp::listener as mcp_listener;
use crate::doors::phone::devices::Devices;
use crate::gateway::cluster::Cluster;
use crate::gateway::grants::{Grants, NoTls};
use crate::gateway::listener::Http;
use crate::gateway::phone::PhoneListener;
use crate::gateway::plugins::Plugins;
use crate::gateway::webhooks::Webhooks;
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
use conductor_gateway::builtin::BuiltinTools;
use conductor_gateway::catalog::{Catalog, CatalogError};
use conductor_gateway::config_in_force::{ConfigInForce, Waiting};
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_gateway::pending_store::PendingStore;
use conductor_gateway::pipeline::record::AuditSink;
use conductor_gateway::plugins::reach::PluginAccess;
use conductor_gateway::report::NetworkNow;
use conductor_gateway::script::copies::Originals;
use conductor_gateway::script::run::Scripts;
use conductor_gateway::script::store::Store as ScriptStore;
use conductor_gateway::secrets::{KeychainNote, Scrubber};
use conductor_gateway::studio::events::Change;
use conductor_gateway::studio::{Parts, RealSleeper, Studio};
use conductor_hosts::live::{self, Live};
use conductor_hosts::max::MaxHost;
use conductor_hosts::patch::reach::Consent;
use conductor_hosts::patch::{self, HostKind, Naming, Patches};
use conductor_hosts::pd::PdHost;
use conductor_hosts::pd::attach::AttachedPd;
use conductor_hosts::system::listener::{BindError, Listener};
use conductor_hosts::system::{Clock, Environment, Ids};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("the plans cannot be read: {0}")]
    Plans(io::Error),
    #[error("a tool cannot be added to the catalog: {0}")]
    Catalog(#[from] CatalogError),
    #[error("{0}")]
    Socket(#[from] BindError),
    #[error("{0}")]
    NoTls(#[from] NoTls),
}

pub struct Gateway {
    pub studio: Arc<Studio>,
    pub shared: Arc<Shared>,
    pub http: Arc<Http>,
    pub phone: Arc<PhoneListener>,
    pub phones: Arc<Devices>,
    webhooks: Arc<Webhooks>,
    pub cluster: Arc<Cluster>,
    patches: Arc<Patches>,
    pub grants: Grants,
    pub plugins: Arc<Plugins>,
    pub scripts: Arc<Scripts>,
    pub live: Arc<Live>,
    /// The links and sessions of the console.
    pub consoles: Arc<Sessions>,
    pub audit: Arc<DaemonLog>,
    /// The `[audit]` section at the start of the daemon. A change of a key other than `detail` and
    /// `read_only_sync` takes effect at the next start.
    audit_section: config::Audit,
    /// The `[patch]` section at the start of the daemon. A changed section takes effect at the next
    /// start.
    patch_section: config::Patch,
    live_section: config::Live,
    /// Paths of the Live parameters that the configuration uses.
    watched_live: watch::Sender<BTreeSet<String>>,
    /// Held parts of the file that a person has to accept. `conductor up` shows them in the
    /// terminal.
    waiting: watch::Sender<Waiting>,
    /// Counts the changes to the owner's state, for the console.
    owner_state: watch::Sender<u64>,
    runtime: tokio::runtime::Handle,
    pub(crate) log: Log,
}

impl Gateway {
    /// Opens every part with the configuration `serving`. The listeners run on `runtime`.
    pub fn open(
        tools: &BuiltinTools,
        home: &Home,
        (clock, ids): (&Arc<dyn Clock>, &Arc<dyn Ids>),
        owner: &OwnerHandle,
        serving: &ConfigInForce,
        runtime: tokio::runtime::Handle,
        log: &Log,
    ) -> Result<Self, GatewayError> {
        let config: &Config = &serving.config;
        let note = (config.secrets == KeyRung::Keychain).then(|| KeychainNote::of_home(audit::NOTE, home.root()));
        let settings = conductor_gateway::audit_log::Settings::from(&config.audit);
        let audit = DaemonLog::open(home.root().to_owned(), settings, note, (Arc::clone(clock), Arc::clone(ids)), log);
        // With a new key, earlier plans and approvals are not valid, so a person is asked again.
        let replaced = |fault: &io::Error| log.warn(format_args!("plans: {fault}; a new key was created"));
        let key = conductor_gateway::secrets::home_key_or_new(home.root(), "plans.key", ids.as_ref(), replaced)
            .map_err(GatewayError::Plans)?;
        let (pending, skipped) = PendingStore::open(home.root(), Arc::new(Disk), key).map_err(GatewayError::Plans)?;
        for file in skipped {
            log.warn(format_args!("plans: {}: {}", file.name, file.why));
        }
        clean_up(&pending, Timestamp::from_millis(clock.wall_ms()), log);
        let mut catalog = Catalog::default();
        (tools.daemon)(&mut catalog, owner)?;
        let user_home = Environment::read().user_home;
        let settings = patch::Settings::of_config(&config.patch, user_home.clone());
        let patches = Patches::new(home.root(), settings, Arc::clone(clock), Arc::clone(ids));
        drive(&patches, home, (clock, ids.as_ref()), &config.patch, log);
        (tools.patch)(&mut catalog, &patches)?;
        let live = Live::new(home.root(), live::Settings::of_config(home.root(), user_home.as_deref(), &config.live));
        (tools.live)(&mut catalog, &live)?;
        let life_ms = config.policy.as_ref().map_or_else(Default::default, |it| it.approval.clone()).ttl_ms;
        let now = Timestamp::from_millis(clock.wall_ms());
        let (journals, skipped) = ScriptStore::open(home.root(), Arc::new(Disk), script_key(&key), now, life_ms)
            .map_err(GatewayError::Plans)?;
        for file in skipped {
            log.warn(format_args!("scripts: {}: {}", file.name, file.why));
        }
        let scripts = Scripts::new(journals, conductor_hosts::system::own_program());
        scripts.copy_from(Originals {
            patches: Arc::clone(&patches),
            live: Arc::clone(&live),
            owner: owner.clone(),
            tools: *tools,
        });
        (tools.scripts)(&mut catalog, &scripts)?;
        let scrubber = Scrubber::new();
        log.clean_by(&scrubber);
        let grants = Grants::new(home.root(), config, ids, &scrubber)?;
        grants.add_tools(tools, &mut catalog)?;
        grants.put_in_force(config, log);
        let policy = config.policy.clone().unwrap_or_else(|| {
            log.error("[policy] has an error; until it is fixed, a person is asked before every effect");
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
            settings: config.into(),
            scrubber,
        });
        audit.send_checkpoints_to(&studio.events);
        conductor_gateway::live::connect(&studio, &live);
        let (engine, sessions) = (owner.clone(), Arc::clone(&live));
        studio.on_connection_end(move |conn| {
            engine.tool_gone(conn.0);
            sessions.connection_ended(conn.0);
        });
        let means = PluginAccess {
            files: Arc::clone(&grants.files),
            web: Arc::clone(&grants.web),
            secrets: Arc::clone(&grants.secrets),
            ids: Arc::clone(ids),
        };
        let plugins = Plugins::new(&studio, conductor_hosts::system::own_program(), means, log);
        plugins.set_rows(&config.plugins);
        runtime.block_on(async {
            // Load plugins before the first client connects, so that their tools are listed. The
            // timeout limits the delay by slow plugins.
            let _ = tokio::time::timeout(PLUGINS_AT_START, plugins.look()).await;
        });
        for line in settings::unknown_names(config, &studio.catalog()) {
            log.warn(line);
        }
        let shared = Shared::new(&studio);
        let http = Http::new(&shared, &config.http, &grants.secrets, runtime.clone(), log);
        let phone = PhoneListener::new(&shared, runtime.clone(), log);
        let (phones, fault) = Devices::open(home.root(), phone_key(&key), clock, ids);
        if let Some(fault) = fault {
            log.warn(format_args!("phones: {fault}"));
        }
        let webhooks = Webhooks::new(&studio, &grants.secrets, runtime.clone(), log);
        webhooks.configure(&config.webhooks);
        let cluster = Cluster::new(&studio, &audit, owner, runtime.clone(), log);
        cluster.configure(&config.cluster);
        // Use weak references: these parts refer to the studio, so strong ones would be a cycle.
        let (listeners, senders, rigs) = (Arc::downgrade(&http), Arc::downgrade(&webhooks), Arc::downgrade(&cluster));
        studio.report_network(move || NetworkNow {
            http: listeners.upgrade().map(|it| it.now()).unwrap_or_default(),
            webhooks: senders.upgrade().map(|it| it.now()).unwrap_or_default(),
            cluster: rigs.upgrade().and_then(|it| it.now()),
        });
        let gateway = Gateway {
            studio,
            shared,
            http,
            phone,
            phones,
            webhooks,
            cluster,
            patches,
            grants,
            plugins,
            scripts,
            live,
            consoles: Sessions::new(clock, ids),
            audit,
            audit_section: config.audit.clone(),
            patch_section: config.patch.clone(),
            live_section: config.live.clone(),
            watched_live: watch::Sender::new(live_watch::watched(config)),
            waiting: watch::Sender::new(serving.waiting.clone()),
            owner_state: watch::Sender::new(0),
            runtime,
            log: log.clone(),
        };
        gateway.record_loaded(serving);
        Ok(gateway)
    }

    /// A receiver for the held parts of the file that a person has to accept.
    pub fn waiting(&self) -> watch::Receiver<Waiting> {
        self.waiting.subscribe()
    }

    /// A receiver that is notified when the mode, a device, the learn session, the performance lock
    /// or the configuration changes.
    pub fn owner_state(&self) -> watch::Receiver<u64> {
        self.owner_state.subscribe()
    }

    /// Records an event. Does not wait for the disk, because the owner calls this.
    fn note(&self, event: EventName, detail: Value) {
        let written = self.studio.audit_event(None, event, detail);
        self.runtime.spawn(async move { drop(written.await) });
    }

    /// Records the hashes of the configuration in force, and the parts of the file that a person
    /// has to accept.
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

    /// Puts the whole file in force, because a person accepted it, and records the person.
    pub async fn accept_config(
        &self,
        owner: &OwnerHandle,
        by: Principal,
        hash: Digest,
    ) -> Result<conductor_gateway::report::Reloaded, ToolError> {
        let reloaded = owner.accept_config(Some(hash)).await?;
        let serving = owner.serving();
        let detail = json!({ "file": serving.hash_text(), "sections": serving.sections, "accepted": serving.mark });
        let _ = self.studio.audit_event(Some(by), EventName::ConfigAccepted, detail).await;
        Ok(reloaded)
    }

    /// Puts a configuration in force. Blocks only for short locks, because the owner calls this.
    pub(crate) fn put_in_force(&self, serving: &ConfigInForce) {
        let config: &Config = &serving.config;
        let seen = self.listed();
        self.record_loaded(serving);
        for held in serving.waiting.held.names() {
            self.log.warn(format_args!("{held} has changed; the change takes effect after `conductor config accept`"));
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
            None => self.log.error("[policy] has an error; the old policy stays in force"),
        }
        for line in settings::unknown_names(config, &self.studio.catalog()) {
            self.log.warn(line);
        }
        self.studio.set_settings(config.into());
        self.grants.put_in_force(config, &self.log);
        self.plugins.set_rows(&config.plugins);
        for (changed, section, when) in [
            (
                config.audit != self.audit_section,
                "audit",
                "now for `detail` and `read_only_sync`, and at the next start for all other keys",
            ),
            (config.patch != self.patch_section, "patch", "at the next start"),
            (config.live != self.live_section, "live", "at the next start"),
        ] {
            if changed {
                self.log.info(format_args!("[{section}] has changed and takes effect {when}"));
            }
        }
        // Send the paths even if they did not change, because the bindings of a new configuration
        // have no values yet.
        self.watched_live.send_replace(live_watch::watched(config));
        self.http.configure(&config.http, config.mcp.session_idle_s);
        self.open_phone_listener(config);
        self.webhooks.configure(&config.webhooks);
        self.cluster.configure(&config.cluster);
        if seen != self.listed() {
            self.studio.events.changed(Change::Tools);
        }
        // Release the memory of the old configuration, which may have been large.
        crate::release_memory::trim_soon(&self.runtime);
    }

    /// Opens, moves or closes the listener for phones. While `[policy]` has an error, the earlier
    /// policy stays in force, and so does its listener.
    pub(crate) fn open_phone_listener(&self, config: &Config) {
        let policy = self.studio.policy();
        self.phone.configure(policy.policy.approval.phone.as_ref(), &config.http);
    }

    /// Unlocks the secrets with the passphrase that a person typed at the start.
    pub fn give_passphrase(&self, passphrase: secrecy::SecretString) {
        self.grants.secrets.give_passphrase(passphrase);
        self.grants.open_secrets(&self.log);
    }

    /// The names of the tools that the policy does not hide.
    fn listed(&self) -> BTreeSet<String> {
        let policy = self.studio.policy();
        let catalog = self.studio.catalog();
        let listed = catalog.tools().filter(|it| !policy.policy.denies_everyone(&it.name, it.tier));
        listed.map(|it| it.name.to_string()).collect()
    }

    pub async fn bind(home: &Home) -> Result<Listener, GatewayError> {
        Ok(Listener::bind(&home.mcp_socket())?)
    }

    /// Accepts AI clients, expires unanswered approval requests and removes old records, until the
    /// daemon stops.
    pub async fn serve(gateway: Arc<Gateway>, listener: Listener) {
        let shared = Arc::clone(&gateway.shared);
        let studio = &gateway.studio;
        let begin = json!({ "version": env!("CARGO_PKG_VERSION"), "remembered": gateway.audit.is_remembered() });
        let _ = studio.audit_event(None, EventName::DaemonStart, begin).await;
        let tidy = async {
            let mut clean_at = studio.clock.now().plus_us(CLEAN_UP_US);
            loop {
                let next = studio.sleeper.until(studio.clock.now().plus_us(EXPIRY_LOOK_US));
                tokio::select! {
                    () = next => {}
                    () = shared.stop.cancelled() => return,
                }
                // Ignore an error here. The next call that uses the disk reports it.
                let _ = studio.approvals.expire(studio).await;
                if gateway.audit.wants_another_try() {
                    let gateway = Arc::clone(&gateway);
                    let _ = tokio::task::spawn_blocking(move || gateway.audit.try_again()).await;
                }
                if studio.clock.now() >= clean_at {
                    clean_at = studio.clock.now().plus_us(CLEAN_UP_US);
                    let gateway = Arc::clone(&gateway);
                    let old = move || {
                        clean_up(gateway.studio.approvals.store(), gateway.studio.timestamp(), &gateway.log);
                        if let Err(fault) = gateway.scripts.clean_up(&gateway.studio) {
                            gateway.log.warn(format_args!("old scripts cannot be removed: {fault}"));
                        }
                    };
                    let _ = tokio::task::spawn_blocking(old).await;
                }
            }
        };
        tokio::join!(mcp_listener::serve(listener, Arc::clone(&shared), Arc::default()), tidy);
    }

    /// Watches the plugin folder until the daemon stops.
    pub async fn watch_plugins(gateway: Arc<Gateway>, debounce_ms: u64) {
        tokio::select! {
            () = Arc::clone(&gateway.plugins).watch(debounce_ms) => {}
            () = gateway.shared.stop.cancelled() => {}
        }
    }

    /// Stops all parts and writes the last audit record. Blocks until the listeners are closed, the
    /// plugins have stopped or timed out, and the audit log is synced.
    pub fn stop(&self, runtime: &tokio::runtime::Runtime) {
        self.consoles.end(None, Ended::Stopping);
        self.shared.stop.cancel();
        self.patches.stop();
        self.webhooks.stop();
        self.cluster.stop();
        runtime.block_on(self.http.close());
        runtime.block_on(self.plugins.stop());
        runtime.block_on(async {
            let _ = self.audit.event(None, EventName::DaemonStop, json!({})).await;
        });
        self.audit.stop();
    }
}

/// Removes old plans and approvals, and temporary files of earlier crashes.
fn clean_up(pending: &PendingStore, now: Timestamp, log: &Log) {
    if let Err(error) = pending.clean_up(now) {
        log.warn(format_args!("plans: old plans cannot be removed: {error}"));
    }
}

/// The key of the journals of scripts, derived from the key of the approvals.
fn script_key(key: &[u8; 32]) -> [u8; 32] {
    *Digest::keyed(key, b"journals of scripts").as_bytes()
}

/// The key that seals the list of paired phones, derived from the key of the approvals.
fn phone_key(key: &[u8; 32]) -> [u8; 32] {
    *Digest::keyed(key, b"paired phones").as_bytes()
}

/// Connects the patch hosts in the configuration. If a host fails, the error is logged and the host
/// is not used.
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
                pd.notify(patches);
                patches.drive(pd);
            }
            Err(error) => log.error(format_args!("[patch.pd]: {error}")),
        }
    }
    if config.pd.mode == PdMode::Attach {
        match AttachedPd::listen(home.root(), ids, patches.voice().clone(), Arc::clone(clock)) {
            Ok(pd) => patches.drive(pd),
            Err(error) => log.error(format_args!("[patch.pd]: {error}")),
        }
    }
    if config.max.enabled {
        match MaxHost::listen(home.root(), config.max.port, ids, patches.voice().clone(), Arc::clone(clock)) {
            Ok(max) => patches.drive(max),
            Err(error) => log.error(format_args!("[patch.max]: {error}")),
        }
    }
    for path in &config.open {
        if let Err(error) = patches.open(path, HostKind::Document, Naming::default(), &Consent::Call(None)) {
            log.warn(format_args!("[patch] open: {path}: {}", error.message));
        }
    }
}

/// The longest time that a start waits for plugins. The tools of slower plugins are added when they
/// are ready.
const PLUGINS_AT_START: std::time::Duration = std::time::Duration::from_secs(2);

/// Interval of the timer that expires old approvals, in microseconds. Each request also expires
/// them. The timer is for UIs that only display approvals.
const EXPIRY_LOOK_US: u64 = 1_000_000;
/// Time between two removals of old records.
const CLEAN_UP_US: u64 = 86_400_000_000;
