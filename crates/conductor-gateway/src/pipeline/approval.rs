//! Step 8: the approval of a call, and the queue of questions that wait for a person.
//!
//! Not here: the states of a question and their transitions (`conductor_core::pending`), their
//! files (`pending_store`), and the user interfaces (terminal, client dialog).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conductor_core::audit::record::{AnsweredBy, ApprovalRef, EventName};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Effect, OpenQuestion, RefusedBy, Subject, ToolError};
use conductor_core::event::Micros;
use conductor_core::pending::{
    Ask, Asked, Changed, Fact, Kind, Limited, MAX_USES, Pending, Present, Record, Refused, State, Yes,
};
use conductor_core::policy::{Channel, Decision, Floor, Verdict};
use conductor_core::text::{self, escape};
use conductor_core::timestamp::Timestamp;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use super::call::{Answered, AskClient, Call, ClientAnswer, ConnId, LogLevel, Principal};
use super::limits::Slot;
use super::record::CallRecord;
use super::{Stop, shown};
use crate::catalog::{AskFacts, Source, Target, Tool};
use crate::pending_store::{Attachment, PendingStore};
use crate::studio::Studio;
use crate::studio::events::{Event, Listener};

/// Longest target of a call, in characters. A target is never truncated, and must fit on a screen
/// together with the question.
const LONGEST_TARGET: usize = 1200;
/// Longest summary in lists, in characters.
const LONGEST_SUMMARY: usize = 150;
/// Longest life of an approval for a session.
const SESSION_MS: u64 = 12 * 3_600_000;
/// Time between two progress reports of a waiting call.
const STILL_WAITING: Duration = Duration::from_secs(5);

/// Questions that wait for a person's answer.
pub struct ApprovalQueue {
    store: Arc<PendingStore>,
    attended: Arc<AtomicUsize>,
    sessions: Mutex<Sessions>,
}

/// The connections of open questions, and of approvals for a session.
#[derive(Default)]
struct Sessions {
    /// The connection that asked each open question.
    asked_by: HashMap<Uuid, ConnId>,
    /// Approvals that end with their connection.
    granted: HashMap<ConnId, Vec<Uuid>>,
}

/// A local user interface keeps this value while a person can answer there.
pub struct ApproverPresent(Arc<AtomicUsize>);

impl Drop for ApproverPresent {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Why a decision was not stored.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the decision could not be written: {0}")]
    Disk(#[from] io::Error),
}

impl ApprovalQueue {
    pub fn new(store: PendingStore) -> Self {
        Self { store: Arc::new(store), attended: Arc::default(), sessions: Mutex::default() }
    }

    pub fn store(&self) -> &Arc<PendingStore> {
        &self.store
    }

    pub fn attend(&self) -> ApproverPresent {
        self.attended.fetch_add(1, Ordering::AcqRel);
        ApproverPresent(Arc::clone(&self.attended))
    }

    pub fn is_attended(&self) -> bool {
        self.attended.load(Ordering::Acquire) > 0
    }

    /// Changes the store on a thread that may block on disk I/O.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Pending) -> T + Send + 'static,
    ) -> io::Result<T> {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || store.change(change)).await.map_err(io::Error::other)?
    }

    /// Like [`ApprovalQueue::change`], for a question whose record contains shortened facts. The
    /// full facts are written to the disk before the record.
    async fn ask(
        &self,
        id: Uuid,
        full: Option<Vec<u8>>,
        ask: impl FnOnce(&mut Pending) -> Asked + Send + 'static,
    ) -> io::Result<Asked> {
        let store = Arc::clone(&self.store);
        let work = move || {
            let bytes: Vec<(Attachment, &[u8])> = full.iter().map(|it| (Attachment::Full, it.as_slice())).collect();
            let asked = store.change_with(&bytes, |pending| match ask(pending) {
                created @ Asked::Created { .. } => Ok((id, created)),
                other @ (Asked::Run { .. }
                | Asked::Joined { .. }
                | Asked::Denied { .. }
                | Asked::Stale { .. }
                | Asked::Limited(_)) => Err(other),
            })?;
            Ok(asked.unwrap_or_else(|other| other))
        };
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    /// The full facts of a question.
    pub async fn full(&self, record: &Record) -> io::Result<Vec<Fact>> {
        let (store, id) = (Arc::clone(&self.store), record.id);
        let read =
            tokio::task::spawn_blocking(move || store.bytes(id, Attachment::Full)).await.map_err(io::Error::other)?;
        match read {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(record.facts.clone()),
            Err(fault) => Err(fault),
        }
    }

    /// Notes the connection of a question, for an approval that ends with the connection. Calls
    /// over HTTP have a connection for each request, so none is noted for them.
    fn note_session(&self, record: &Record, conn: ConnId) {
        let lasts = conn != ConnId::NONE && !matches!(record.principal, Principal::Http { .. });
        if lasts {
            self.sessions.lock().asked_by.insert(record.id, conn);
        }
    }

    /// The number of questions that wait for a person.
    pub fn waiting(&self) -> usize {
        self.store
            .read(|pending| pending.iter().filter(|it| it.kind == Kind::Call && it.state == State::Pending).count())
    }

    pub fn get(&self, id: Uuid) -> Option<Record> {
        self.store.read(|pending| pending.get(id).cloned())
    }

    /// Stores a person's approval. The caller has checked that the answer is from a person.
    pub async fn allow(&self, studio: &Studio, id: Uuid, yes: Yes) -> Result<(), ApprovalError> {
        let now = studio.timestamp();
        let (by, channel) = (yes.by.clone(), yes.channel);
        self.change(move |pending| pending.allow(id, &yes, now)).await??;
        self.report_decision(studio, EventName::ApprovalAllowed, id, &by, channel).await;
        Ok(())
    }

    /// As [`ApprovalQueue::allow`], for every call to this tool by the same caller until its
    /// connection ends, within the limits of an approval. A caller without a lasting connection
    /// keeps the approval for [`SESSION_MS`].
    pub async fn allow_session(&self, studio: &Studio, id: Uuid, yes: Yes) -> Result<(), ApprovalError> {
        let yes = Yes { uses: MAX_USES, for_ms: Some(SESSION_MS), any_args: true, ..yes };
        let conn = self.sessions.lock().asked_by.get(&id).copied();
        self.allow(studio, id, yes).await?;
        if let Some(conn) = conn {
            self.sessions.lock().granted.entry(conn).or_default().push(id);
        }
        Ok(())
    }

    /// Ends the approvals that were given for this connection.
    pub fn connection_ended(&self, conn: ConnId) {
        let ended = self.sessions.lock().granted.remove(&conn).unwrap_or_default();
        if ended.is_empty() {
            return;
        }
        let store = Arc::clone(&self.store);
        let end = move || {
            // If the change cannot be stored, the approvals end when they expire.
            let _ = store.change(|pending| ended.iter().filter(|id| pending.end_approval(**id)).count());
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(end)),
            Err(_) => end(),
        }
    }

    pub async fn deny(&self, studio: &Studio, id: Uuid, by: &str, channel: Channel) -> Result<(), ApprovalError> {
        self.deny_because(studio, id, by, channel, None).await
    }

    /// As [`ApprovalQueue::deny`], with a reason that the caller receives.
    pub async fn deny_because(
        &self,
        studio: &Studio,
        id: Uuid,
        by: &str,
        channel: Channel,
        reason: Option<String>,
    ) -> Result<(), ApprovalError> {
        let now = studio.timestamp();
        let who = by.to_owned();
        let reason = reason.map(|it| studio.scrubber.text(&it).into_owned());
        self.change(move |pending| pending.deny_because(id, &who, channel, reason.as_deref(), now)).await??;
        self.report_decision(studio, EventName::ApprovalDenied, id, by, channel).await;
        Ok(())
    }

    /// Expires old questions and plans. Each request also expires them; the daemon's timer calls
    /// this for UIs that only display them.
    pub async fn expire(&self, studio: &Studio) -> io::Result<()> {
        let now = studio.timestamp();
        for id in self.change(move |pending| pending.expire(now)).await? {
            self.sessions.lock().asked_by.remove(&id);
            let _ = studio.audit.event(None, EventName::ApprovalExpired, json!({ "approval": id.to_string() })).await;
            studio.events.send(Event::ApprovalDecided(id));
        }
        Ok(())
    }

    async fn report_decision(&self, studio: &Studio, event: EventName, id: Uuid, by: &str, channel: Channel) {
        let mut detail = json!({ "approval": id.to_string(), "channel": channel.as_str() });
        let person: Option<Principal> = by.parse().ok();
        // A person on another rig is not a principal of this rig, so the record's detail names the
        // person.
        if person.is_none() {
            detail["by"] = by.into();
        }
        let decision = if event == EventName::ApprovalAllowed { "allowed" } else { "denied" };
        studio.meters.decision(decision, channel.as_str());
        self.sessions.lock().asked_by.remove(&id);
        let _ = studio.audit.event(person, event, detail).await;
        studio.events.send(Event::ApprovalDecided(id));
    }
}

/// The approval under which a call runs.
#[derive(Debug, Clone)]
pub enum Consent {
    /// The policy allows the call, the handler only creates a plan, or a dry run makes the call.
    NotNeeded,
    Given(Given),
}

#[derive(Debug, Clone)]
pub struct Given {
    reference: ApprovalRef,
    present: Present,
    /// Whether the call waited for a person. If so, the target's state may have changed since.
    held: bool,
}

impl Consent {
    pub fn given(&self) -> Option<&Given> {
        match self {
            Self::NotNeeded => None,
            Self::Given(given) => Some(given),
        }
    }
}

impl Given {
    pub fn reference(&self) -> &ApprovalRef {
        &self.reference
    }

    pub fn present(&self) -> &Present {
        &self.present
    }

    /// The state that a person saw and approved. `None` for a grant (an approval that was given in
    /// advance), because the state was not known then.
    pub fn seen_state(&self) -> Option<Digest> {
        match self.reference.channel {
            AnsweredBy::Person(_) => self.present.state,
            AnsweredBy::Grant | AnsweredBy::Mapping => None,
        }
    }

    pub fn was_held(&self) -> bool {
        self.held
    }
}

/// Hash of the state that a call would change: its resolved target and the current content.
pub async fn state_of(studio: &Arc<Studio>, tool: &Tool, call: &Call, target: &Target) -> Option<Digest> {
    let content = match (target.state, &tool.state_hash) {
        (None, Some(state_hash)) => state_hash(Arc::clone(studio), call.arguments.clone()).await,
        (state, _) => state,
    };
    if target.shown.is_empty() {
        return content;
    }
    Digest::of_json(&json!([target.shown, content.map(|it| it.to_string())])).ok()
}

pub async fn answer(
    studio: &Arc<Studio>,
    tool: &Arc<Tool>,
    call: &Call,
    target: &Target,
    verdict: &Verdict,
    slot: &mut Option<Slot>,
    record: &mut CallRecord,
) -> Result<Consent, Stop> {
    match (verdict.decision, &call.script) {
        (Decision::Allow | Decision::Plan | Decision::Deny, _) => Ok(Consent::NotNeeded),
        // A dry run has no effect, so no person is asked. The answer of the dry run lists the call.
        (Decision::Ask, Some(script)) if script.is_dry_run() => {
            can_be_shown(tool, target)?;
            script.would_ask();
            Ok(Consent::NotNeeded)
        }
        // The future is boxed, so that calls without a question stay small.
        (Decision::Ask, _) => {
            can_be_shown(tool, target)?;
            Box::pin(async { Question::of(studio, tool, call, target, verdict, record).await.answered(slot).await })
                .await
        }
    }
}

/// Refuses a call without asking a person when it would fail anyway, or when its target is too long
/// to be shown in full.
fn can_be_shown(tool: &Tool, target: &Target) -> Result<(), ToolError> {
    if let Some(fault) = &target.fault {
        return Err(super::handler::with_effect(tool, fault.clone()));
    }
    let Some((label, text)) = target.shown.iter().max_by_key(|(_, text)| text.chars().count()) else { return Ok(()) };
    let all: usize = target.shown.iter().map(|(_, text)| text.chars().count()).sum();
    if all <= LONGEST_TARGET {
        return Ok(());
    }
    Err(ToolError::new(
        Code::BadInput,
        format!(
            "{}: an approval request must show the whole target of the call, which has {all} characters ({} of them \
             in the {label}); the limit is {LONGEST_TARGET}",
            tool.name,
            text.chars().count()
        ),
    )
    .hint(format!("No person was asked. Make the {label} shorter, or divide the work into several calls."))
    .subject(Subject::Tool(tool.name.to_string()))
    .effect(Effect::None))
}

struct Question<'a> {
    studio: &'a Arc<Studio>,
    tool: &'a Arc<Tool>,
    call: &'a Call,
    ask: Ask,
    more: serde_json::Map<String, Value>,
    /// The full facts, for `approvals show --full`; `None` if nothing was shortened.
    full: Option<Vec<u8>>,
}

impl<'a> Question<'a> {
    /// Returns the approval of this call. Waits for a person at most once.
    async fn answered(self, slot: &mut Option<Slot>) -> Result<Consent, Stop> {
        if let Some(answered) = &self.call.answered {
            self.take_client_answer(answered).await?;
        }
        let mut held = false;
        loop {
            match self.ask().await? {
                Asked::Run { id, by, channel } => {
                    let reference = ApprovalRef { id, by, channel };
                    return Ok(Consent::Given(Given { reference, present: self.ask.present, held }));
                }
                Asked::Stale { what, .. } => return Err(self.stale(what).into()),
                Asked::Denied { retry_after_ms, reason, .. } => {
                    let text = format!("a person denied this call to {} a moment ago", self.tool.name);
                    return Err(self.denied(text, reason.as_deref()).retry_after_ms(retry_after_ms).into());
                }
                Asked::Limited(limited) => return Err(self.limited(limited).into()),
                Asked::Created { id } | Asked::Joined { id } => {
                    if held {
                        return Err(self.required(id).into());
                    }
                    self.wait(id, slot).await?;
                    held = true;
                }
            }
        }
    }

    async fn of(
        studio: &'a Arc<Studio>,
        tool: &'a Arc<Tool>,
        call: &'a Call,
        target: &Target,
        verdict: &Verdict,
        record: &CallRecord,
    ) -> Self {
        let canonical = record.arguments.as_deref().unwrap_or_default();
        let present = Present {
            pin: tool.pin,
            policy_version: studio.policy().version,
            state: state_of(studio, tool, call, target).await,
        };
        let own = own_facts(studio, tool, call, target).await;
        let clean = |text: &str| studio.scrubber.text(text).into_owned();
        let summary = text::middle(&clean(&tool.summarize(&call.arguments)), LONGEST_SUMMARY).into_owned();
        let fact = |label: &str, text: String| Fact { label: label.to_owned(), text };
        let mut whole: Vec<Fact> = target.shown.iter().map(|(label, text)| fact(label, clean(text))).collect();
        let uncut = whole.len();
        whole.push(fact("tool", tool.name.to_string()));
        whole.push(fact("tier", tool.tier.to_string()));
        whole.push(fact("who", call.principal.to_string()));
        whole.push(fact("summary", summary.clone()));
        whole.extend(own.facts.iter().map(|(label, text)| fact(label, clean(text))));
        if let Some(undo) = undo(tool) {
            whole.push(fact("undo", undo.to_owned()));
        }
        let mut facts: Vec<Fact> = whole
            .iter()
            .enumerate()
            .map(|(at, it)| if at < uncut { it.clone() } else { fact(&it.label, shown::lines(&it.text)) })
            .collect();
        let arguments = clean(&String::from_utf8_lossy(canonical));
        facts.push(fact("arguments", shown::arguments(&arguments)));
        whole.push(fact("arguments", arguments));
        let full = (facts != whole).then(|| serde_json::to_vec(&whole).unwrap_or_default());
        let ask = Ask {
            principal: call.principal.clone(),
            tool: tool.name.to_string(),
            tier: tool.tier,
            args_hash: Digest::of(canonical),
            present,
            summary,
            facts,
            floor: verdict.floor,
            from_plugin: match tool.source {
                Source::Builtin => false,
                Source::Plugin { .. } => true,
            },
            tainted: call.tainted,
        };
        Self { studio, tool, call, ask, more: own.more, full }
    }

    fn queue(&self) -> &ApprovalQueue {
        &self.studio.approvals
    }

    async fn ask(&self) -> Result<Asked, Stop> {
        let ids = self.studio.new_ids();
        let (force, settings, now) = (self.studio.policy(), self.studio.settings(), self.studio.timestamp());
        let ask = self.ask.clone();
        let asked = self
            .queue()
            .ask(ids.id, self.full.clone(), move |pending| {
                pending.ask(ask, ids, &force.policy.approval, &settings.limits, now)
            })
            .await
            .map_err(|fault| {
                ToolError::new(Code::AuditUnavailable, format!("the approval request could not be stored: {fault}"))
            })?;
        if let Asked::Created { id } = &asked {
            let detail = json!({ "approval": id.to_string(), "tool": self.tool.name });
            let _ = self.studio.audit.event(Some(self.call.principal.clone()), EventName::ApprovalAsked, detail).await;
            // A person confirms their own call where they made it. No other channel asks about it.
            if let Some(record) = self.queue().get(*id).filter(|it| !it.principal.is_person()) {
                self.queue().note_session(&record, self.call.conn);
                self.studio.events.send(Event::ApprovalAsked(Arc::new(record)));
            }
        }
        Ok(asked)
    }

    /// Uses the answer that an MCP 2026 client sends with the repeated call. An answer that is no
    /// longer valid is refused without stating a reason.
    async fn take_client_answer(&self, answered: &Answered) -> Result<(), Stop> {
        let record = Uuid::parse_str(&answered.approval).ok().and_then(|id| self.queue().get(id)).filter(|record| {
            record.kind == Kind::Call
                && record.state == State::Pending
                && record.principal == self.ask.principal
                && record.tool == self.ask.tool
                && record.args_hash == self.ask.args_hash
                && record.channel_floor == Floor::Client
        });
        let Some(record) = record else { return Err(bad_state().into()) };
        self.decide(record.id, answered.yes).await.map_err(|_| bad_state())?;
        if answered.yes {
            Ok(())
        } else {
            Err(self.denied(format!("the person denied the call to {}", self.tool.name), None).into())
        }
    }

    /// Stores the answer of the client's own dialog.
    async fn decide(&self, id: Uuid, yes: bool) -> Result<(), ApprovalError> {
        let by = self.call.principal.to_string();
        if yes {
            let yes =
                Yes { grantable: self.tool.grantable, grant_ms: self.tool.grant_ms, ..Yes::once(by, Channel::Client) };
            self.queue().allow(self.studio, id, yes).await
        } else {
            self.queue().deny(self.studio, id, &by, Channel::Client).await
        }
    }

    /// If the policy accepts an answer from the client, asks the client. Otherwise waits for a
    /// local approver, at most `wait_ms`. Returns when the store should be queried again. Fails at
    /// once for a call of a script, and if neither the client nor a local approver can answer.
    async fn wait(&self, id: Uuid, slot: &mut Option<Slot>) -> Result<(), Stop> {
        let client = self.call.ask.as_ref().filter(|_| self.ask.floor == Floor::Client);
        if let Some(client) = client
            && client.by_result()
        {
            return Err(Stop::AskClient { approval: id.to_string(), message: self.message(id) });
        }
        if self.call.script.is_some() {
            return Err(self.required(id).into());
        }
        let wait_ms = self.studio.policy().policy.approval.wait_ms;
        // A person who makes a call confirms it by repeating it, so the call does not wait.
        let attended = self.queue().is_attended() && wait_ms > 0 && !self.call.principal.is_person();
        if client.is_none() && !attended {
            return Err(self.required(id).into());
        }
        let mut events = self.studio.events.listen(Event::is_approval);
        let store = Arc::clone(self.queue().store());
        // This change affects only memory, so it needs no blocking thread.
        if !store.change(|pending| pending.begin_wait(id)).unwrap_or(false) {
            return match self.queue().get(id).map(|record| record.state) {
                // The question was just decided: query the store again.
                Some(State::Allowed | State::Denied) => Ok(()),
                Some(State::Pending | State::Used | State::Expired | State::Stale | State::Undone) | None => {
                    Err(self.required(id).into())
                }
            };
        }
        let _waiting = Waiting { store, id };
        // Release the concurrency slot while waiting for the person.
        let had_slot = slot.take().is_some();
        let answered = self.hold(id, client.cloned(), attended.then_some(wait_ms), &mut events).await;
        if had_slot {
            *slot = Some(self.studio.traffic.slot_after_wait());
        }
        answered
    }

    async fn hold(
        &self,
        id: Uuid,
        client: Option<Arc<dyn AskClient>>,
        wait_ms: Option<u64>,
        events: &mut Listener,
    ) -> Result<(), Stop> {
        let started = self.studio.clock.now().0;
        let give_up = wait_ms.map(|ms| Micros(started.saturating_add(ms.saturating_mul(1000))));
        let dialog = async {
            match &client {
                Some(client) => client.ask(self.message(id)).await,
                None => std::future::pending().await,
            }
        };
        let timeout = async {
            match give_up {
                Some(at) if client.is_none() => self.studio.sleeper.until(at).await,
                Some(_) | None => std::future::pending().await,
            }
        };
        tokio::pin!(dialog, timeout);
        let mut waited = 0.0;
        self.still_waiting(waited);
        loop {
            let next = Micros(self.studio.clock.now().0.saturating_add(STILL_WAITING.as_micros() as u64));
            tokio::select! {
                biased;
                () = self.call.cancel.cancelled() => return Err(Stop::Cancelled),
                event = events.recv() => match event {
                    Ok(Event::ApprovalDecided(decided)) if decided == id => return Ok(()),
                    Ok(_) => {}
                    // Some events were lost, so read the record itself.
                    Err(RecvError::Lagged(_)) => {
                        if self.queue().get(id).is_none_or(|record| record.state != State::Pending) {
                            return Ok(());
                        }
                    }
                    Err(RecvError::Closed) => return Err(self.required(id).into()),
                },
                said = &mut dialog => {
                    return match said {
                        ClientAnswer::Yes => self.decide(id, true).await.map_err(|_| self.required(id).into()),
                        ClientAnswer::No => {
                            let _ = self.decide(id, false).await;
                            Err(self.denied(format!("the person denied the call to {}", self.tool.name), None).into())
                        }
                        ClientAnswer::Nothing => Err(self.required(id).into()),
                    };
                }
                () = &mut timeout => return Err(self.required(id).into()),
                () = self.studio.sleeper.until(next) => {
                    waited += STILL_WAITING.as_secs_f64();
                    self.still_waiting(waited);
                }
            }
        }
    }

    fn still_waiting(&self, seconds: f64) {
        if let Some(progress) = &self.call.progress {
            let text = format!("{} waits for a person", self.tool.name);
            progress.report(seconds, None, &text);
            if seconds == 0.0 {
                progress.log(LogLevel::Info, &text);
            }
        }
    }

    /// The text of the client's own dialog: target, tool, summary, reversibility, id and expiry.
    fn message(&self, id: Uuid) -> String {
        let (short, until) = match self.queue().get(id) {
            Some(record) => (record.short.to_string(), record.expires_at.map(|at| at.to_string()).unwrap_or_default()),
            None => (id.to_string(), String::new()),
        };
        let mut message = String::new();
        for fact in self.ask.facts.iter().take_while(|it| it.label != "tool") {
            // Writing into a string does not fail.
            let _ = writeln!(message, "{}: {}", fact.label, escape(&fact.text));
        }
        let undone = undo(self.tool).map(|it| format!(" {it}.")).unwrap_or_default();
        let _ = write!(
            message,
            "{}: {}.{undone} Approval {short}, valid until {until}.",
            self.tool.name,
            escape(&self.ask.summary)
        );
        message
    }

    fn subject(&self) -> Subject {
        Subject::Tool(self.tool.name.to_string())
    }

    fn required(&self, id: Uuid) -> ToolError {
        let record = self.queue().get(id);
        let short = record.as_ref().map(|it| it.short.to_string()).unwrap_or_default();
        let expires_at = record.as_ref().and_then(|it| it.expires_at).unwrap_or(Timestamp::from_millis(0));
        let mut error = ToolError::new(Code::ApprovalRequired, format!("{} needs a person's approval ({short})", self.tool.name))
            .hint(format!(
                "Ask the person to answer {short} in the Conductor console or in a terminal of their own, then repeat the identical \
                 call; it runs once. A call with other arguments needs another approval."
            ))
            .subject(self.subject())
            .effect(Effect::None)
            .question(OpenQuestion {
                approval_id: id.to_string(),
                short,
                expires_at,
                summary: self.ask.summary.clone(),
            });
        for (key, value) in &self.more {
            error = error.more(key.clone(), value.clone());
        }
        error
    }

    /// The refusal by a person. The model sees the reason, in the text and in a separate member.
    fn denied(&self, text: String, reason: Option<&str>) -> ToolError {
        let Some(reason) = reason else {
            return ToolError::new(Code::Denied, text).subject(self.subject()).by(RefusedBy::Person);
        };
        ToolError::new(Code::Denied, format!("{text}: {reason}"))
            .hint("The person gave the reason in the message. Follow it instead of repeating the call.")
            .subject(self.subject())
            .by(RefusedBy::Person)
            .more("reason", Value::from(reason))
    }

    fn stale(&self, what: Changed) -> ToolError {
        let (code, text) = match what {
            Changed::Pin => (Code::PinMismatch, "the tool changed since the approval"),
            Changed::Policy => (Code::PlanStale, "the policy changed since the approval"),
            Changed::State => (Code::PlanStale, "the target changed since it was approved"),
        };
        ToolError::new(code, format!("{}: {text}", self.tool.name)).subject(self.subject())
    }

    fn limited(&self, limited: Limited) -> ToolError {
        match limited {
            Limited::Principal => {
                ToolError::new(Code::Busy, "too many of your approval requests and plans are open").by(RefusedBy::Limit)
            }
            Limited::All => {
                ToolError::new(Code::Busy, "too many approval requests and plans are open").by(RefusedBy::Limit)
            }
            Limited::Rate { retry_after_ms } => {
                ToolError::new(Code::RateLimited, "too many new approval requests in a minute")
                    .retry_after_ms(retry_after_ms)
                    .by(RefusedBy::Limit)
            }
        }
    }
}

/// Ends the wait when it is dropped. The question stays when the call is cancelled.
struct Waiting {
    store: Arc<PendingStore>,
    id: Uuid,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.store.change(|pending| pending.end_wait(self.id));
    }
}

/// The MCP server converts this error to a protocol error; see `doors/mcp/elicit`.
fn bad_state() -> ToolError {
    ToolError::new(Code::PlanExpired, "this answer is no longer valid").more("request_state", Value::Bool(false))
}

/// Reads the tool's own facts. May block on disk I/O, so it runs on a blocking thread.
async fn own_facts(studio: &Arc<Studio>, tool: &Tool, call: &Call, target: &Target) -> AskFacts {
    let Some(facts) = tool.facts.clone() else { return target.facts.clone() };
    let (studio, arguments) = (Arc::clone(studio), call.arguments.clone());
    tokio::task::spawn_blocking(move || facts(&studio, &arguments)).await.unwrap_or_default()
}

/// The sentence about undo in the client's dialog. `None` if the tool stores no old state and
/// destroys nothing.
fn undo(tool: &Tool) -> Option<&'static str> {
    if tool.undoable {
        Some("Can be undone")
    } else if tool.annotations.destructive {
        Some("Not reversible")
    } else {
        None
    }
}
