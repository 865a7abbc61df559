//! The half of the daemon that is spoken to: the audit log, the store of plans and approvals, the catalog and the doors of AI clients.
//!
//! Not here: the hands (`run`), and how a call passes (`pipeline`). A home whose audit log was tampered with still plays; it only serves
//! no tool until a person has looked.

use super::audit::{self, DaemonLog};
use super::config_file::{Serving, Waiting};
use super::dispatch::Calls;
use super::grants::{Grants, NoTls};
use super::handle::{Handle, Wake};
use super::home::Home;
use super::listener::Http;
use super::log::Log;
use super::plugins::Plugins;
use super::sections;
use crate::audit_log;
use crate::audit_log::files::Disk;
use crate::doors::mcp::Shared;
use crate::doors::mcp::socket::{self, Tally};
use crate::hosts::knobs::Knobs;
use crate::hosts::live::follow::Follow;
use crate::hosts::live::{self, Live};
use crate::hosts::max::MaxHost;
use crate::hosts::patch::knobs as patch_knobs;
use crate::hosts::patch::reach::Consent;
use crate::hosts::patch::{self, HostKind, Naming, Patches};
use crate::hosts::pd::PdHost;
use crate::hosts::pd::attach::AttachedPd;
use crate::outside::{Clock, Ids};
use crate::pending_store::PendingStore;
use crate::pipeline::record::Journal;
use crate::pipeline::{self, Call};
use crate::secrets::{KeychainNote, Scrubber};
use crate::studio::hub::Change;
use crate::studio::{Parts, RealSleeper, Studio};
use crate::tools::catalog::{Catalog, CatalogFault, Tool};
use crate::tools::daemon::{self as tools, mapping_call};
use crate::tools::plugins::reach::Means;
use conductor_core::audit::record::EventName;
use conductor_core::config::{self, Config, FeedbackFrom, KeyRung, PdMode};
use conductor_core::digest::Digest;
use conductor_core::error::ToolError;
use conductor_core::event::Taint;
use conductor_core::hands::{MappingCall, Reading};
use conductor_core::mapping::{Continuous, SourceKind, Takeover, Target};
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_set::PathId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, OnceLock};
use tokio::net::UnixListener;
use tokio::sync::watch;
use uuid::Uuid;

#[derive(Debug, thiserror::Error)]
pub enum WordsError {
    #[error("the plans cannot be read: {0}")]
    Plans(io::Error),
    #[error("a tool cannot be offered: {0}")]
    Catalog(#[from] CatalogFault),
    #[error("{0}")]
    Socket(#[from] socket::BindFault),
    #[error("{0}")]
    NoTls(#[from] NoTls),
}

/// Everything AI clients speak to.
pub struct Words {
    pub studio: Arc<Studio>,
    pub shared: Arc<Shared>,
    pub http: Arc<Http>,
    patches: Arc<Patches>,
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
    followed: watch::Sender<BTreeSet<String>>,
    /// What is not in force until a person accepts it; the terminal of `up` asks.
    waiting: watch::Sender<Waiting>,
    runtime: tokio::runtime::Handle,
    log: Log,
}

impl Words {
    /// Puts `config` in force as it is opened. `runtime` serves the listeners.
    pub fn open(
        home: &Home,
        clock: &Arc<dyn Clock>,
        ids: &Arc<dyn Ids>,
        owner: &Handle,
        serving: &Serving,
        runtime: tokio::runtime::Handle,
        log: &Log,
    ) -> Result<Self, WordsError> {
        let config: &Config = &serving.config;
        let outside = Arc::new(Outside { clock: Arc::clone(clock), ids: Arc::clone(ids) });
        let note = (config.secrets == KeyRung::Keychain).then(|| KeychainNote::of_home(audit::NOTE, home.root()));
        let settings = audit::settings(&config.audit);
        let audit = DaemonLog::open(home.root().to_owned(), settings, note, outside, log);
        let key = crate::secrets::home_key(home.root(), "plans.key", ids.as_ref()).map_err(WordsError::Plans)?;
        let (pending, skipped) = PendingStore::open(home.root(), Arc::new(Disk), key).map_err(WordsError::Plans)?;
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
        crate::tools::patch::add(&mut catalog, &patches)?;
        let live = Live::new(home.root(), live::Settings::of_config(home.root(), &config.live));
        crate::tools::live::add(&mut catalog, &live)?;
        let scrubber = Scrubber::new();
        log.clean_by(&scrubber);
        let grants = Grants::new(home.root(), config, ids, &scrubber)?;
        grants.add_tools(&mut catalog)?;
        grants.put_in_force(config, log);
        let policy = config.policy.clone().unwrap_or_else(|| {
            log.error("[policy] cannot be used: until it can, a person is asked before every effect");
            sections::cautious()
        });
        let studio = Studio::new(Parts {
            clock: Arc::clone(clock),
            sleeper: Arc::new(RealSleeper::new(Arc::clone(clock))),
            ids: Arc::clone(ids),
            home: home.root().to_owned(),
            audit: Arc::clone(&audit) as Arc<dyn Journal>,
            pending,
            catalog,
            policy: sections::in_force(policy, config),
            settings: sections::settings(config),
            scrubber,
        });
        audit.tell(&studio.news);
        crate::tools::live::connect(&studio, &live);
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
        let plugins = Plugins::new(&studio, crate::outside::own_program(), means, log);
        plugins.set_rows(&config.plugins);
        runtime.block_on(async {
            // A client that is here first finds every tool. One plugin that takes its time keeps nobody waiting for long.
            let _ = tokio::time::timeout(PLUGINS_AT_START, plugins.look()).await;
        });
        for line in sections::unknown_names(config, &studio.catalog()) {
            log.warn(line);
        }
        let shared = Shared::new(&studio);
        let http = Http::new(&shared, &config.http, runtime.clone(), log);
        let words = Words {
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
            followed: watch::Sender::new(followed(config)),
            waiting: watch::Sender::new(serving.waiting.clone()),
            runtime,
            log: log.clone(),
        };
        words.record_loaded(serving);
        Ok(words)
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
    fn record_loaded(&self, serving: &Serving) {
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
        owner: &Handle,
        by: Principal,
        hash: Digest,
    ) -> Result<super::report::Reloaded, ToolError> {
        let reloaded = owner.accept_config(Some(hash)).await?;
        let serving = owner.serving();
        let detail = json!({ "file": serving.hash_text(), "sections": serving.sections, "accepted": serving.mark });
        let _ = self.studio.audit.event(Some(by), EventName::ConfigAccepted, detail).await;
        Ok(reloaded)
    }

    /// A file that does not come into force.
    pub(super) fn rejected(&self, reason: &str) {
        self.note(EventName::ConfigRejected, json!({ "reason": reason }));
    }

    /// A configuration that was accepted. Does not wait for anything but short locks: the owner calls it.
    pub(super) fn put_in_force(&self, serving: &Serving) {
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
                let new = sections::in_force(policy.clone(), config);
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
        for line in sections::unknown_names(config, &self.studio.catalog()) {
            self.log.warn(line);
        }
        self.studio.set_settings(sections::settings(config));
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
        self.followed.send_replace(followed(config));
        self.http.configure(&config.http, config.mcp.session_idle_s.into());
        if seen != self.listed() {
            self.studio.hub.tell(Change::Tools);
        }
        // The old one may have been large.
        super::code_pages::trim_soon(&self.runtime);
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

    pub async fn bind(home: &Home) -> Result<UnixListener, WordsError> {
        Ok(socket::bind(home.root(), "mcp.sock").await?)
    }

    /// Accepts AI clients, expires unanswered questions and forgets old ones, until the
    /// daemon stops.
    pub async fn serve(words: Arc<Words>, listener: UnixListener) {
        let shared = Arc::clone(&words.shared);
        let studio = &words.studio;
        let begin = json!({ "version": env!("CARGO_PKG_VERSION"), "remembered": words.audit.is_remembered() });
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
                if words.audit.wants_another_try() {
                    let words = Arc::clone(&words);
                    let _ = tokio::task::spawn_blocking(move || words.audit.try_again()).await;
                }
                if studio.clock.now() >= clean_at {
                    clean_at = studio.clock.now().plus_us(CLEAN_UP_US);
                    let words = Arc::clone(&words);
                    let old = move || clean_up(words.studio.desk.store(), words.studio.timestamp(), &words.log);
                    let _ = tokio::task::spawn_blocking(old).await;
                }
            }
        };
        tokio::join!(socket::serve(listener, Arc::clone(&shared), Arc::new(Tally::default())), tidy);
    }

    /// Notices files that come, go and change, until the daemon stops.
    pub async fn watch_plugins(words: Arc<Words>, debounce_ms: u64) {
        tokio::select! {
            () = Arc::clone(&words.plugins).watch(debounce_ms) => {}
            () = words.shared.stop.cancelled() => {}
        }
    }

    /// Tells the owner what the parameters stand at that are looked at, until the daemon stops. Rests while there are none.
    pub(super) async fn follow_live(words: Arc<Words>, owner: Handle) {
        let mut paths = words.followed.subscribe();
        let ended = words.shared.stop.clone();
        tokio::select! {
            () = follow(&words, &mut paths, &owner) => {}
            () = ended.cancelled() => {}
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

/// Lets patches be shown by the programs that the configuration names. One that cannot be had is told and left out.
fn drive(
    patches: &Arc<Patches>,
    home: &Home,
    (clock, ids): (&Arc<dyn Clock>, &dyn Ids),
    config: &config::Patch,
    log: &Log,
) {
    if let Some(settings) = sections::pd(&config.pd) {
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

/// Paths of the parameters that are looked at: those that controllers show, and those whose knobs must know where they stand.
fn followed(config: &Config) -> BTreeSet<String> {
    let modes = config.modes.iter().map(|it| &it.rows);
    let bindings = modes.chain([&config.global]).flat_map(|it| &it.continuous).filter(|it| it.enabled);
    let asks =
        |it: &&Continuous| it.glue.takeover != Takeover::Off || matches!(it.source.kind, SourceKind::Encoder { .. });
    let turned = bindings.filter_map(|it| it.binding.as_ref()).filter(asks).flat_map(|it| &it.targets);
    let turned =
        turned.filter_map(|it| if let Target::LiveParameter { path } = it { Some(path.clone()) } else { None });
    let path = |it: &config::Feedback| match &it.from {
        FeedbackFrom::LiveParameter { path } => Some(path.clone()),
        FeedbackFrom::Mode(_)
        | FeedbackFrom::Pressed { .. }
        | FeedbackFrom::Value { .. }
        | FeedbackFrom::Connected { .. }
        | FeedbackFrom::PerformanceLock
        | FeedbackFrom::PendingApprovals => None,
    };
    config.feedback.iter().filter_map(path).chain(turned).collect()
}

/// Between two looks at a running Live, whose peers answer ten times a second at most; at a file; and at nothing that answers.
const LIVE_LOOK_US: u64 = 50_000;
const FILE_LOOK_US: u64 = 200_000;
const ABSENT_LOOK_US: u64 = 1_000_000;

async fn follow(words: &Words, paths: &mut watch::Receiver<BTreeSet<String>>, owner: &Handle) {
    loop {
        let named = paths.borrow_and_update().clone();
        let mut wanted = BTreeMap::new();
        for path in named {
            match path.parse::<PathId>() {
                Ok(id) => drop(wanted.insert(id, path)),
                Err(why) => words.log.warn(format_args!("{path}: {why}")),
            }
        }
        let ids: Vec<PathId> = wanted.keys().copied().collect();
        let mut follow = Follow::default();
        let mut wait = 0;
        loop {
            let due = words.studio.clock.now().plus_us(wait);
            let rest = async {
                if ids.is_empty() {
                    std::future::pending::<()>().await;
                }
                words.studio.sleeper.until(due).await;
            };
            tokio::select! {
                changed = paths.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = rest => {}
            }
            wait = match follow.look(&words.live, &ids).await {
                Ok(look) => {
                    let named = |(id, reading): (PathId, Reading)| Some((wanted.get(&id)?.clone(), reading));
                    let news: Vec<(String, Reading)> = look.news.into_iter().filter_map(named).collect();
                    if !news.is_empty() {
                        owner.post(Wake::LiveParameters(news));
                    }
                    if look.is_file { FILE_LOOK_US } else { LIVE_LOOK_US }
                }
                // Lights keep what was last told; a Set that opens later is seen then.
                Err(_) => ABSENT_LOOK_US,
            };
        }
    }
}

/// How long a start waits for plugins; what takes longer is offered when it is ready.
const PLUGINS_AT_START: std::time::Duration = std::time::Duration::from_secs(2);

/// Every ask ends what ran out; this is for the channels that show questions.
const EXPIRY_LOOK_US: u64 = 1_000_000;
/// Between two looks for records that ended long ago.
const CLEAN_UP_US: u64 = 86_400_000_000;

/// Calls under a pad, on their way into the pipeline. The owner exists before the studio does, so the studio is filled in later.
#[derive(Default)]
pub struct PadCalls {
    words: OnceLock<(Arc<Studio>, tokio::runtime::Handle)>,
    patch_knobs: OnceLock<Knobs<patch_knobs::Knob>>,
    live_knobs: OnceLock<Knobs<live::knobs::Knob>>,
}

impl PadCalls {
    pub fn connect(&self, words: &Words, runtime: tokio::runtime::Handle, owner: &Handle) -> io::Result<()> {
        let _ = self.words.set((Arc::clone(&words.studio), runtime.clone()));
        let (log, lane) = (words.log.clone(), owner.clone());
        let knobs = patch_knobs::start(&words.patches, move |why| {
            log.debug(format_args!("patch: {why}"));
            lane.lane_failed();
        })?;
        let _ = self.patch_knobs.set(knobs);
        let (log, lane, clock) = (words.log.clone(), owner.clone(), Arc::clone(&words.studio.clock));
        let knobs = live::knobs::start(
            &words.live,
            runtime,
            move || clock.now(),
            move |knob, refusal| {
                log.debug(format_args!("live: {}: {}", knob.path, crate::tools::live::refused(refusal).message));
                lane.lane_failed();
            },
        )?;
        let _ = self.live_knobs.set(knobs);
        Ok(())
    }
}

impl Calls for PadCalls {
    fn start(&self, call: MappingCall, owner: &Handle) {
        let made = mapping_call::of(&call.action, &call.values);
        let (Some((studio, runtime)), Some((tool, arguments))) = (self.words.get(), made) else {
            return owner.call_done(call.ticket, false);
        };
        let tool = studio.catalog().named(&tool).map_or(tool, |it| it.name.to_string());
        let principal = Principal::Mapping { mode: call.mapping.mode.to_string(), id: call.mapping.id.to_string() };
        let mut asked = Call::new(principal, tool, arguments);
        asked.tainted = call.taint != Taint::Clean;
        let (studio, owner, ticket) = (Arc::clone(studio), owner.clone(), call.ticket);
        runtime.spawn(async move {
            let reply = pipeline::run(&studio, asked).await;
            owner.call_done(ticket, reply.is_ok());
        });
    }

    fn turn(&self, target: &Target, value: f64, ranged: bool, taint: Taint) -> Result<(), String> {
        match target {
            Target::PatchAttribute { patch, object, attribute } => {
                let (patch, object, attribute) = (patch.clone(), object.clone(), attribute.clone());
                let knobs = self.patch_knobs.get().ok_or("no patch is served yet")?;
                let by_hand = taint == Taint::Clean;
                knobs.turn(patch_knobs::Knob { patch, object, attribute, by_hand }, value);
                Ok(())
            }
            Target::LiveParameter { path } => {
                let knobs = self.live_knobs.get().ok_or("no Set is served yet")?;
                knobs.turn(live::knobs::Knob { path: path.clone(), ranged }, value);
                Ok(())
            }
            Target::Cc { .. }
            | Target::Cc14 { .. }
            | Target::Nrpn { .. }
            | Target::Rpn { .. }
            | Target::PitchBend { .. }
            | Target::Aftertouch { .. }
            | Target::OscFloat { .. } => Err("this target has no host".to_owned()),
        }
    }
}

/// The log's view of time and chance.
pub struct Outside {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Outside {
    /// For commands that read the log without a daemon.
    pub fn real() -> Self {
        Outside { clock: Arc::new(crate::outside::RealClock::new()), ids: Arc::new(crate::outside::RandomIds) }
    }
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

    fn v7(&self, at: Timestamp) -> Uuid {
        self.ids.v7(at.as_millis())
    }
}
