//! Connects this rig to the NATS server of `[cluster]`: publishes the audit log to its witness,
//! shares questions and applies decisions, reports the state of the rig, and sends events.
//!
//! One task owns the connection. Calls, the engine and the audit log never wait for it: they only
//! write their own files and events, which this task reads later. Without a server, everything on
//! this rig works as before. Not here: the messages (`conductor_core::cluster`), and the check that
//! a decision on this rig is from a person (`doors::control`).

mod approvals;
mod witness;

use crate::gateway::audit::DaemonLog;
use crate::log::Log;
use bytes::Bytes;
use conductor_core::cluster::decision::{Answer, Decision, Question, Questions};
use conductor_core::cluster::{self, ASKS, PRESENCE, nkey};
use conductor_core::config;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::principal::Principal;
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_gateway::report::ClusterNow;
use conductor_gateway::secrets::home_key;
use conductor_gateway::studio::Studio;
use conductor_hosts::cluster::{Credentials, Draft, Link, LinkError, Settings, StoreError};
use ed25519_dalek::SigningKey;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// The time between two reports of the state. The server forgets a state after three times this
/// time.
const PRESENCE_US: u64 = 5_000_000;
const FIRST_PAUSE_MS: u64 = 500;
const LONGEST_PAUSE_MS: u64 = 10_000;
/// Maximum number of events per second. Further events are dropped and counted.
const EVENTS_PER_SECOND: u32 = 20;
/// Maximum number of rigs in a list.
const MAX_RIGS: usize = 1000;
/// After a decision, this rig polls until the asked rig has applied it. The maximum number of
/// polls, and the time between two polls.
const LOOKS: u32 = 30;
const LOOK_US: u64 = 100_000;

/// The name of the key that signs decisions of people on this rig.
const DECIDER_KEY: &str = "decider.key";
const RIG_KEY: &str = "rig.key";

pub struct Cluster {
    studio: Arc<Studio>,
    audit: Arc<DaemonLog>,
    owner: OwnerHandle,
    runtime: tokio::runtime::Handle,
    log: Log,
    open: Mutex<Option<Open>>,
    /// The last known state of each rig. While there is no connection to the server, the rigs are
    /// shown as unknown.
    known: Mutex<BTreeMap<String, Value>>,
}

struct Open {
    shared: Arc<Shared>,
    stop: CancellationToken,
}

/// The state of the connection, shared by the tasks and by requests.
struct Shared {
    rig: String,
    section: config::Cluster,
    link: Mutex<Option<Arc<Link>>>,
    now: Mutex<ClusterNow>,
}

impl Shared {
    fn note(&self, change: impl FnOnce(&mut ClusterNow)) {
        change(&mut self.now.lock());
    }

    fn lost(&self) -> String {
        self.now.lock().error.clone().unwrap_or_else(|| "the server is not connected".to_owned())
    }
}

impl Cluster {
    pub fn new(
        studio: &Arc<Studio>,
        audit: &Arc<DaemonLog>,
        owner: &OwnerHandle,
        runtime: tokio::runtime::Handle,
        log: &Log,
    ) -> Arc<Self> {
        Arc::new(Self {
            studio: Arc::clone(studio),
            audit: Arc::clone(audit),
            owner: owner.clone(),
            runtime,
            log: log.clone(),
            open: Mutex::default(),
            known: Mutex::default(),
        })
    }

    /// Puts `[cluster]` in force. Does not wait for the server.
    pub fn configure(&self, section: &config::Cluster) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|it| it.shared.section == *section) {
            return;
        }
        if let Some(old) = open.take() {
            old.stop.cancel();
        }
        let Some((server, rig)) = section.link() else { return };
        let now = ClusterNow { rig: rig.to_owned(), server: server.to_owned(), ..ClusterNow::default() };
        let shared = Arc::new(Shared {
            rig: rig.to_owned(),
            section: section.clone(),
            link: Mutex::default(),
            now: Mutex::new(now),
        });
        let stop = CancellationToken::new();
        let session = Session {
            studio: Arc::clone(&self.studio),
            audit: Arc::clone(&self.audit),
            owner: self.owner.clone(),
            log: self.log.clone(),
            shared: Arc::clone(&shared),
        };
        let ended = stop.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = session.run() => {}
            }
            session.shared.link.lock().take();
        });
        *open = Some(Open { shared, stop });
    }

    pub fn stop(&self) {
        if let Some(open) = self.open.lock().take() {
            open.stop.cancel();
        }
    }

    pub fn now(&self) -> Option<ClusterNow> {
        let open = self.open.lock();
        let shared = &open.as_ref()?.shared;
        let mut now = shared.now.lock().clone();
        let last = self.audit.last_published().map_or(0, |it| it + 1);
        now.unwitnessed = last.saturating_sub(now.witnessed_through.map_or(0, |it| it + 1));
        Some(now)
    }

    fn shared(&self) -> Result<Arc<Shared>, ToolError> {
        self.open.lock().as_ref().map(|it| Arc::clone(&it.shared)).ok_or_else(|| {
            ToolError::new(Code::NotFound, "this rig is not connected to other rigs")
                .hint("Set `nats` and `rig` in [cluster], and accept the change with `conductor config accept`.")
                .subject(Subject::Config("cluster".into()))
        })
    }

    fn link(&self) -> Result<(Arc<Shared>, Arc<Link>), ToolError> {
        let shared = self.shared()?;
        let link = shared.link.lock().clone();
        let link = link.ok_or_else(|| offline(&shared.lost()))?;
        Ok((shared, link))
    }

    /// The state of every rig. Without the server, the state of all rigs is unknown.
    pub async fn rigs(&self) -> Result<Value, ToolError> {
        let shared = self.shared()?;
        let link = shared.link.lock().clone();
        let read = match &link {
            Some(link) => read_presence(link).await.map_err(|it| it.to_string()),
            None => Err(shared.lost()),
        };
        let (present, error) = match read {
            Ok(present) => (present, None),
            Err(why) => (BTreeMap::new(), Some(why)),
        };
        let mut known = self.known.lock();
        known.extend(present.iter().map(|(name, state)| (name.clone(), state.clone())));
        for rig in &shared.section.rigs {
            known.entry(rig.name.clone()).or_insert_with(|| json!({ "rig": rig.name }));
        }
        while known.len() > MAX_RIGS {
            known.pop_last();
        }
        let rows: Vec<Value> = known
            .iter()
            .map(|(name, state)| {
                let mut row = state.clone();
                row["state"] = if present.contains_key(name) { "up" } else { "unknown" }.into();
                row
            })
            .collect();
        Ok(json!({ "rig": shared.rig, "connected": link.is_some(), "error": error, "rigs": rows }))
    }

    /// The open questions of all rigs, with the digest that a decision must name.
    pub async fn questions(&self) -> Result<Value, ToolError> {
        let (_, link) = self.link()?;
        let mut rows = Vec::new();
        for asked in read_questions(&link, "ask.*").await.map_err(|it| offline(&it.to_string()))? {
            let now = self.studio.timestamp();
            for question in asked.questions.iter().filter(|it| it.expires_at > now) {
                let mut row = serde_json::to_value(question).unwrap_or_default();
                row["rig"] = asked.rig.as_str().into();
                row["question"] = json!(question.digest(&asked.rig));
                rows.push(row);
            }
        }
        Ok(json!({ "questions": rows }))
    }

    /// Signs and sends a person's decision. `shown` is the digest of the question that the person
    /// saw.
    pub async fn decide(
        &self,
        person: &Principal,
        rig: &str,
        id: &str,
        shown: Digest,
        answer: Answer,
    ) -> Result<Value, ToolError> {
        let (shared, link) = self.link()?;
        let question = find_question(&link, rig, id).await?;
        if question.digest(rig) != shown {
            return Err(ToolError::new(Code::PlanStale, "the question has changed since it was shown"));
        }
        let key = home_key(&self.studio.home, DECIDER_KEY, &*self.studio.ids)
            .map_err(|it| ToolError::new(Code::Internal, it.to_string()))?;
        let by = format!("{}/{person}", shared.rig);
        let key = SigningKey::from_bytes(&key);
        let decision = Decision::sign(rig, &question, answer, self.studio.timestamp(), &by, &key);
        let draft = Draft {
            subject: cluster::decide_subject(rig, question.id),
            expected: Some(0),
            id: None,
            body: decision.to_json().into(),
        };
        link.store(draft).await.map_err(|error| match error {
            StoreError::NotFirst => ToolError::new(Code::BadInput, "another decision about this question came first"),
            StoreError::Refused(why) => ToolError::new(Code::Denied, why),
            StoreError::Link(LinkError::Silent) => offline(&format!(
                "the server did not confirm the decision; its configuration may not allow this rig to decide for {rig}"
            )),
            StoreError::Link(why) => offline(&why.to_string()),
        })?;
        let mut applied = false;
        for _ in 0..LOOKS {
            if find_question(&link, rig, &question.id.to_string()).await.is_err() {
                applied = true;
                break;
            }
            self.pause(LOOK_US).await;
        }
        Ok(json!({
            "rig": rig, "id": question.id, "short": question.short, "tool": question.tool, "answer": answer.as_str(),
            "applied": applied,
        }))
    }

    async fn pause(&self, us: u64) {
        self.studio.sleeper.until(self.studio.clock.now().plus_us(us)).await;
    }
}

fn offline(why: &str) -> ToolError {
    ToolError::new(Code::HostOffline, why.to_owned())
        .subject(Subject::Host("nats".into()))
        .hint("Questions of this rig can still be answered here, with `conductor approvals`.")
}

async fn read_presence(link: &Link) -> Result<BTreeMap<String, Value>, LinkError> {
    let mut found = BTreeMap::new();
    let mut from = 1;
    while let Some(message) = link.next(PRESENCE, "$KV.rigs.*", from).await? {
        from = message.seq + 1;
        let name = message.subject.rsplit('.').next().unwrap_or_default().to_owned();
        let Ok(mut state) = serde_json::from_slice::<Value>(&message.body) else { continue };
        if !state.is_object() || !cluster::is_rig_name(&name) || found.len() >= MAX_RIGS {
            continue;
        }
        // Use the name in the subject, because only the rig itself can write to its subject.
        state["rig"] = name.as_str().into();
        state["last_seen"] = message.time.into();
        found.insert(name, state);
    }
    Ok(found)
}

async fn read_questions(link: &Link, subjects: &str) -> Result<Vec<Questions>, LinkError> {
    let mut found = Vec::new();
    let mut from = 1;
    while let Some(message) = link.next(ASKS, subjects, from).await? {
        from = message.seq + 1;
        let rig = message.subject.strip_prefix("ask.").unwrap_or_default();
        found.extend(Questions::read(rig, &message.body));
    }
    Ok(found)
}

async fn find_question(link: &Link, rig: &str, id: &str) -> Result<Question, ToolError> {
    let none = || {
        ToolError::new(Code::NotFound, format!("the rig {rig} has no open question {id:?}"))
            .hint("`conductor rigs approvals list` lists the questions.")
    };
    if !cluster::is_rig_name(rig) {
        return Err(none());
    }
    let asked = read_questions(link, &cluster::ask_subject(rig)).await.map_err(|it| offline(&it.to_string()))?;
    let is_wanted = |it: &Question| it.id.to_string() == id || it.short.to_string().eq_ignore_ascii_case(id);
    asked.into_iter().flat_map(|it| it.questions).find(is_wanted).ok_or_else(none)
}

/// The identity of this rig, from the file in `[cluster]` or from its own key.
pub fn identity(
    home: &Path,
    section: &config::Cluster,
    ids: &dyn conductor_hosts::system::Ids,
) -> Result<Settings, String> {
    let (server, rig) = section.link().ok_or("[cluster] needs `nats` and `rig`")?;
    let credentials = match &section.credentials {
        Some(file) => {
            let path = home.join(file);
            let text = std::fs::read_to_string(&path).map_err(|it| format!("{}: {it}", path.display()))?;
            let (key, jwt) = nkey::read_credentials(&text).map_err(|it| format!("{}: {it}", path.display()))?;
            Credentials { seed: key.to_bytes(), jwt }
        }
        None => {
            let seed = home_key(home, RIG_KEY, ids).map_err(|it| it.to_string())?;
            Credentials { seed, jwt: None }
        }
    };
    let ca = section.ca.as_ref().map(|it| home.join(it));
    Ok(Settings { server: server.to_owned(), name: rig.to_owned(), credentials, ca })
}

/// The public keys of this rig: for the server, and for decisions.
pub fn public_keys(home: &Path, ids: &dyn conductor_hosts::system::Ids) -> std::io::Result<(String, String)> {
    let text = |name: &str| {
        home_key(home, name, ids).map(|it| nkey::public_text(&SigningKey::from_bytes(&it).verifying_key()))
    };
    Ok((text(RIG_KEY)?, text(DECIDER_KEY)?))
}

/// The task that owns the connection.
struct Session {
    studio: Arc<Studio>,
    audit: Arc<DaemonLog>,
    owner: OwnerHandle,
    log: Log,
    shared: Arc<Shared>,
}

impl Session {
    async fn run(&self) {
        let mut failures: u32 = 0;
        let mut reported = None;
        loop {
            let why = match self.connect().await {
                Ok(link) => {
                    failures = 0;
                    reported = None;
                    self.log.info(format_args!("cluster: connected as {}", self.shared.rig));
                    self.use_link(Arc::new(link)).await
                }
                Err(why) => why,
            };
            self.shared.link.lock().take();
            self.shared.note(|it| {
                it.connected = false;
                it.error = Some(why.clone());
            });
            if reported.as_ref() != Some(&why) {
                self.log.warn(format_args!("cluster: {why}; trying again"));
                reported = Some(why);
            }
            failures = failures.saturating_add(1);
            let doubled = FIRST_PAUSE_MS.saturating_mul(1 << failures.saturating_sub(1).min(10));
            let pause = doubled.min(LONGEST_PAUSE_MS);
            let jitter = (u128::from(pause / 4) * u128::from(self.studio.jitter())) >> 32;
            self.pause((pause + jitter as u64) * 1000).await;
        }
    }

    async fn connect(&self) -> Result<Link, String> {
        let (studio, section) = (Arc::clone(&self.studio), self.shared.section.clone());
        let read = move || identity(&studio.home, &section, &*studio.ids);
        let settings = tokio::task::spawn_blocking(read).await.map_err(|it| it.to_string())??;
        Link::open(&settings).await.map_err(|it| it.to_string())
    }

    /// Uses a connection until it is lost. Returns the reason.
    async fn use_link(&self, link: Arc<Link>) -> String {
        *self.shared.link.lock() = Some(Arc::clone(&link));
        self.shared.note(|it| {
            it.connected = true;
            it.error = None;
        });
        let failed = |it: LinkError| it.to_string();
        tokio::select! {
            () = link.lost() => LinkError::Lost.to_string(),
            why = witness::run(self, &link) => why,
            why = approvals::run(self, &link) => failed(why),
            why = self.report_state(&link) => failed(why),
            why = self.send_events(&link) => failed(why),
        }
    }

    async fn pause(&self, us: u64) {
        self.studio.sleeper.until(self.studio.clock.now().plus_us(us)).await;
    }

    /// Writes the state of this rig in a loop, because the server forgets a state after a while.
    async fn report_state(&self, link: &Link) -> LinkError {
        loop {
            let serving = self.owner.serving();
            let status = self.owner.status().await.ok();
            let state = json!({
                "version": env!("CARGO_PKG_VERSION"), "config_hash": serving.hash_text(),
                "mode": status.as_ref().map(|it| it.current_mode.clone()),
                "drops": status.as_ref().map(|it| it.statistics.events_dropped),
                "waiting": self.studio.approvals.waiting(),
            });
            let subject = cluster::presence_subject(&self.shared.rig);
            let draft = Draft { subject, expected: None, id: None, body: state.to_string().into() };
            match link.store(draft).await {
                Ok(_) => {}
                Err(StoreError::Link(why)) => return why,
                Err(why @ (StoreError::NotFirst | StoreError::Refused(_))) => {
                    return LinkError::Answer(why.to_string());
                }
            }
            self.pause(PRESENCE_US).await;
        }
    }

    /// Sends events without a confirmation. If the server is slow, or there are too many, some are
    /// lost.
    async fn send_events(&self, link: &Link) -> LinkError {
        let mut events = self.studio.events.observe();
        let (mut second, mut sent) = (0, 0_u32);
        loop {
            let event = match events.recv().await {
                Ok(event) => event,
                Err(RecvError::Lagged(missed)) => {
                    self.shared.note(|it| it.dropped_events += missed);
                    continue;
                }
                Err(RecvError::Closed) => return LinkError::Lost,
            };
            let Some((name, data)) = event.observed() else { continue };
            let now = self.studio.clock.now_ms() / 1000;
            if now != second {
                (second, sent) = (now, 0);
            }
            sent += 1;
            if sent > EVENTS_PER_SECOND {
                self.shared.note(|it| it.dropped_events += 1);
                continue;
            }
            let body = json!({ "at": self.studio.timestamp(), "data": data }).to_string();
            if let Err(why) = link.send(cluster::event_subject(&self.shared.rig, name), Bytes::from(body)).await {
                return why;
            }
        }
    }
}
