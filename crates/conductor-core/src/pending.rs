//! Plans and approval requests: one store, one record type, one state machine.
//!
//! Time and ids are parameters. A change is made here first and then written by `pending_store`,
//! which calls [`Pending::roll_back`] if writing fails. Not here: notifying waiting callers,
//! applying a plan, and the files stored with it.

pub mod record;

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use crate::audit::record::AnsweredBy;
use crate::digest::Digest;
use crate::policy::limits::{Class, Limits, PENDING_ALL, Rates};
use crate::policy::{ApprovalSettings, AskFloor, Channel, Floor, Tier};
use crate::principal::Principal;
use crate::timestamp::Timestamp;
pub use record::{ConfigPlan, Decided, Fact, Kind, PlanStatus, Record, Short, State};

/// Maximum number of calls that one approval may allow.
pub const MAX_USES: u32 = 100;
/// Longest time that an approval may be valid.
pub const MAX_GRANT_MS: u64 = 86_400_000;
/// Longest reason for a denial, in characters.
pub const MAX_REASON: usize = 500;
/// Shortest default validity of an approval, so that there is time to repeat the call even after a
/// late answer.
const MIN_GRANT_MS: u64 = 60_000;
/// Time for which ended records are kept.
const KEPT_MS: u64 = 7 * 86_400_000;
/// Number of applied plans that are kept regardless of age, so that they can be undone.
const KEPT_PLANS: usize = 100;
/// Maximum number of ended records that are kept and cannot be undone, so that unanswered requests
/// and plans cannot fill the disk within a week.
const KEPT_ENDED: usize = 500;

/// The state that an approval depends on. An approval is valid only while this state does not
/// change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// Digest of the tool.
    pub pin: Digest,
    /// Version of the policy in force.
    pub policy_version: Digest,
    /// Hash of the state that the call would change, if the tool provides one.
    pub state: Option<Digest>,
}

/// A call that needs the approval of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The caller.
    pub principal: Principal,
    /// Full name of the tool.
    pub tool: String,
    /// Tier of the tool.
    pub tier: Tier,
    /// Digest of the arguments.
    pub args_hash: Digest,
    /// The state that an approval depends on.
    pub present: Present,
    /// One line for the approver.
    pub summary: String,
    /// Details for the approver.
    pub facts: Vec<Fact>,
    /// Weakest channel that may approve.
    pub floor: Floor,
    /// Whether the tool is from a plugin. A changed plugin file ends a standing grant; a changed
    /// built-in tool does not.
    pub from_plugin: bool,
    /// Whether the call was caused by an event from the network. If so, no earlier approval
    /// applies.
    pub tainted: bool,
}

/// Random values for a new record.
#[derive(Debug, Clone, Copy)]
pub struct NewIds {
    /// Id of the record, a UUIDv4.
    pub id: Uuid,
    /// 40 random bits for the short id.
    pub short: u64,
}

/// The result of an [`Ask`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The call is approved and may run. One use of the approval was consumed.
    Run {
        /// The record that allowed the call.
        id: Uuid,
        /// The person who approved.
        by: String,
        /// The channel of the approval.
        channel: AnsweredBy,
    },
    /// There was an approval, but the state changed after it. The approval has ended; the next call
    /// makes a new request.
    Stale {
        /// The record that has ended.
        id: Uuid,
        /// The part that has changed.
        what: Changed,
    },
    /// A person denied the same call within the cooldown, so no new request is made.
    Denied {
        /// The reason that the person wrote for the denial.
        reason: Option<String>,
        /// The denied record.
        id: Uuid,
        /// Remaining time of the cooldown.
        retry_after_ms: u64,
    },
    /// There is already an open request for the same call.
    Joined {
        /// The open record.
        id: Uuid,
    },
    /// A new request was made; the caller must announce it.
    Created {
        /// The new record.
        id: Uuid,
    },
    /// A limit refused a new request.
    Limited(Limited),
}

/// The part of the state that changed after an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The tool. The error code is `PIN_MISMATCH`; for the policy and the state it is `PLAN_STALE`.
    Pin,
    /// The policy.
    Policy,
    /// The state that the call would change.
    State,
}

/// The limit that refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comment of each variant explains its fields")]
pub enum Limited {
    /// This principal has too many open requests and plans.
    Principal,
    /// All principals together have too many open requests and plans.
    All,
    /// Too many new requests in a minute.
    Rate { retry_after_ms: u64 },
}

/// The approval of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Yes {
    /// Principal of the person.
    pub by: String,
    /// The channel of the answer.
    pub channel: Channel,
    /// Number of calls that are approved, 1 to [`MAX_USES`].
    pub uses: u32,
    /// How long the approval is valid; at most [`MAX_GRANT_MS`].
    pub for_ms: Option<u64>,
    /// Whether calls with other arguments are approved too.
    pub any_args: bool,
    /// Whether the tool permits an approval of more than this one call.
    pub grantable: bool,
    /// The tool's default validity of an approval. If absent, the approval is valid until the
    /// request would have expired, but for at least one minute.
    pub grant_ms: Option<u64>,
}

impl Yes {
    /// Approves one call with exactly these arguments.
    pub fn once(by: impl Into<String>, channel: Channel) -> Self {
        Self { by: by.into(), channel, uses: 1, for_ms: None, any_args: false, grantable: true, grant_ms: None }
    }
}

/// The reason why a decision is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum Refused {
    #[error("there is no such plan or approval")]
    NotFound,
    #[error("several plans or approvals have the short id {0}; use the full id")]
    Ambiguous(Short),
    #[error("this plan or approval is already {0}")]
    Already(State),
    #[error("this plan or approval has expired")]
    Expired,
    #[error("the {} has changed since the request was made", match .0 { Changed::Pin => "tool", Changed::Policy => "policy", Changed::State => "state" })]
    Changed(Changed),
    #[error("this request cannot be answered here; {}", match .0 { Floor::Client => "use the client's own dialog", Floor::Local => "use a terminal, the console, the approval pad or a paired phone", Floor::Pad => "hold the approval pad" })]
    Channel(Floor),
    #[error("each call to this tool needs its own approval")]
    NotGrantable,
    #[error("`uses` must be from 1 to {MAX_USES}, and the time must be at most 24 hours")]
    TooWide,
    #[error("this decision is not possible for a record of kind \"{0}\"")]
    Kind(Kind),
    #[error("calls to this tool cannot be approved in advance")]
    NeverStanding,
    #[error(transparent)]
    Record(#[from] record::BadRecord),
    #[error("too many plans and approval requests are open")]
    Limited(Limited),
}

/// A plan without its ids and times.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlan {
    /// The caller.
    pub principal: Principal,
    /// Full name of the tool.
    pub tool: String,
    /// Digest of the arguments.
    pub args_hash: Digest,
    /// Digest of the tool.
    pub pin: Digest,
    /// Version of the policy in force.
    pub policy_version: Digest,
    /// One line for the approver.
    pub summary: String,
    /// Details for the approver.
    pub facts: Vec<Fact>,
    /// The changes in the form of the tool's result.
    pub changes: Vec<serde_json::Value>,
    /// Diff of the file.
    pub diff_preview: String,
    /// Digest of the file before the plan.
    pub base_state_hash: Digest,
    /// Digest of the file after the plan.
    pub result_state_hash: Digest,
    /// Warnings for the approver.
    pub warnings: Vec<String>,
    /// Weakest channel that may approve.
    pub floor: Floor,
}

/// The store of plans, approval requests, edits and standing grants.
#[derive(Debug, Default)]
pub struct Pending {
    records: BTreeMap<Uuid, Record>,
    /// Ids of the records that have not ended, so that a call does not have to search the ended
    /// records of the last week.
    open: HashSet<Uuid>,
    /// Ids of the records that can decide a call of this principal and tool: pending, allowed,
    /// standing, or denied within the cooldown. `live_for` removes records that have ended.
    live: HashMap<(Principal, String), Vec<Uuid>>,
    /// Ids of the records for which a call is waiting. Not stored on disk, because no call outlives
    /// the daemon.
    waited_for: HashSet<Uuid>,
    asks: Rates,
    /// The last time of the monotonic clock, in milliseconds. `None` if only the wall clock is
    /// used.
    steady_ms: Option<u64>,
    /// Times on the monotonic clock: when open records end, and when denied records were denied.
    /// Not stored on disk, because the monotonic clock restarts with the machine.
    steady: HashMap<Uuid, u64>,
    /// For each record with unwritten changes, its state before these changes; `None` for a new
    /// record.
    before: BTreeMap<Uuid, Option<Record>>,
}

/// Changes that must be written to disk.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    /// Records to write.
    pub written: Vec<Record>,
    /// Records to delete.
    pub removed: Vec<Uuid>,
}

impl Pending {
    /// Creates the store from the records of an earlier run.
    pub fn load(records: impl IntoIterator<Item = Record>) -> Self {
        let mut pending = Self::default();
        for record in records {
            pending.index(&record);
            pending.records.insert(record.id, record);
        }
        pending
    }

    fn index(&mut self, record: &Record) {
        let ids = self.live.entry((record.principal.clone(), record.tool.clone())).or_default();
        if !ids.contains(&record.id) {
            ids.push(record.id);
        }
        self.note_open(record.id, record.state);
    }

    fn note_open(&mut self, id: Uuid, state: State) {
        if state.has_ended() {
            self.open.remove(&id);
        } else {
            self.open.insert(id);
        }
    }

    fn open_records(&self) -> impl Iterator<Item = &Record> {
        self.open.iter().filter_map(|id| self.records.get(id))
    }

    /// The open requests and plans.
    pub fn waiting(&self) -> impl Iterator<Item = &Record> {
        self.open_records().filter(|record| record.state == State::Pending)
    }

    /// The record with this id.
    pub fn get(&self, id: Uuid) -> Option<&Record> {
        self.records.get(&id)
    }

    /// Every record, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Finds a record by its full id or its short id. The dash and the case of a short id do not
    /// matter.
    pub fn find(&self, text: &str) -> Result<Uuid, Refused> {
        if let Ok(id) = Uuid::parse_str(text) {
            return self.records.contains_key(&id).then_some(id).ok_or(Refused::NotFound);
        }
        let short: Short = text.parse().map_err(|_| Refused::NotFound)?;
        let mut found = self.records.values().filter(|record| record.short == short);
        // Prefer an open record to ended records.
        match (found.next(), found.next()) {
            (Some(record), None) => Ok(record.id),
            (None, _) => Err(Refused::NotFound),
            (Some(_), Some(_)) => {
                let mut open =
                    self.records.values().filter(|record| record.short == short && record.state == State::Pending);
                match (open.next(), open.next()) {
                    (Some(record), None) => Ok(record.id),
                    (_, _) => Err(Refused::Ambiguous(short)),
                }
            }
        }
    }

    /// The changes that are not written yet.
    pub fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        for id in self.before.keys() {
            match self.records.get(id) {
                Some(record) => changes.written.push(record.clone()),
                None => changes.removed.push(*id),
            }
        }
        changes
    }

    /// Sets the time of the monotonic clock. A record expires when either clock reaches its end, so
    /// setting the wall clock back does not prolong it.
    pub fn set_steady(&mut self, now_ms: u64) {
        self.steady_ms = Some(now_ms);
    }

    fn is_over(&self, record: &Record, now: Timestamp) -> bool {
        let run_out = || self.steady.get(&record.id).zip(self.steady_ms).is_some_and(|(end, steady)| steady >= *end);
        record.is_over(now) || (!record.state.has_ended() && run_out())
    }

    /// Sets the end on the monotonic clock for open records that have none: new records, and all
    /// records after a start. The remaining time is at most the full validity of the record, even
    /// if the wall clock was wrong when the record was made.
    fn note_ends(&mut self, now: Timestamp) {
        let Some(steady) = self.steady_ms else { return };
        let fresh: Vec<(Uuid, u64)> = self
            .open_records()
            .filter(|record| !self.steady.contains_key(&record.id))
            .filter_map(|record| {
                let until = record.expires_at?;
                let left = until.millis_since(now).min(until.millis_since(record.begun_at()));
                Some((record.id, steady.saturating_add(left)))
            })
            .collect();
        self.steady.extend(fresh);
    }

    /// Milliseconds since a person denied the call. Uses the longer of the times on the wall clock
    /// and on the monotonic clock, because the wall clock may be set back.
    fn since_refused(&self, record: &Record, now: Timestamp) -> u64 {
        let at = record.decided.as_ref().map_or(record.created_at, |decided| decided.at);
        let steady = self.steady.get(&record.id).zip(self.steady_ms).map(|(at, now)| now.saturating_sub(*at));
        now.millis_since(at).max(steady.unwrap_or(0))
    }

    /// Discards the old state of the records. Call this after the changes are on the disk.
    pub fn commit(&mut self) {
        self.before.clear();
    }

    /// Reverts the changes that could not be written.
    pub fn roll_back(&mut self) {
        for (id, before) in std::mem::take(&mut self.before) {
            self.steady.remove(&id);
            match before {
                Some(record) => {
                    self.index(&record);
                    self.records.insert(id, record);
                }
                None => {
                    self.records.remove(&id);
                    self.open.remove(&id);
                }
            }
        }
    }

    /// Changes an existing record and stores its old state for a rollback. The caller has checked
    /// the state.
    fn set(&mut self, id: Uuid, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records.get_mut(&id) {
            self.before.entry(id).or_insert_with(|| Some(record.clone()));
            change(record);
            let state = record.state;
            self.note_open(id, state);
        }
    }

    fn insert(&mut self, record: Record) -> Uuid {
        self.forget_surplus();
        let id = record.id;
        self.before.entry(id).or_insert(None);
        self.index(&record);
        self.records.insert(id, record);
        id
    }

    fn free_short(&self, mut short: u64) -> Short {
        while self.records.values().any(|record| record.short == Short::from_bits(short)) {
            short = short.wrapping_add(1);
        }
        Short::from_bits(short)
    }

    /// Ends the records that have expired at `now`, including those with `expires_at` equal to
    /// `now`. Returns the requests and plans that expired without an answer.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Uuid> {
        self.note_ends(now);
        let over: Vec<(Uuid, bool)> = self
            .open_records()
            .filter(|record| self.is_over(record, now))
            .map(|record| (record.id, record.state == State::Pending))
            .collect();
        for (id, _) in &over {
            self.set(*id, |record| record.state = State::Expired);
        }
        over.into_iter().filter(|(_, open)| *open).map(|(id, _)| id).collect()
    }

    /// Decides a call by existing approvals and denials, or makes a new request. Checks in this
    /// order: approvals, denials, open requests, limits.
    pub fn ask(
        &mut self,
        ask: Ask,
        ids: NewIds,
        settings: &ApprovalSettings,
        limits: &Limits,
        now: Timestamp,
    ) -> Asked {
        self.expire(now);
        let mine = self.live_for(&ask.principal, &ask.tool, settings.cooldown_ms, now);
        let exact = |record: &&Record| record.args_hash == ask.args_hash && !record.any_args;

        if !ask.tainted {
            let standing =
                mine.iter().filter_map(|id| self.get(*id)).filter(exact).find(|record| record.kind == Kind::Standing);
            if let Some((id, pin)) =
                standing.filter(|record| record.state == State::Allowed).map(|record| (record.id, record.pin))
            {
                return self.use_standing(id, pin, &ask);
            }
            let allowed = || {
                mine.iter()
                    .filter_map(|id| self.get(*id))
                    .filter(|record| record.kind == Kind::Call && record.state == State::Allowed)
            };
            // Prefer an approval with these exact arguments to an approval with any arguments.
            let found =
                allowed().find(exact).or_else(|| allowed().find(|record| record.any_args)).map(|record| record.id);
            if let Some(id) = found {
                return self.take_use(id, &ask.present);
            }
        }

        let same = |state| {
            mine.iter().filter_map(|id| self.get(*id)).filter(exact).find(|r| r.kind == Kind::Call && r.state == state)
        };
        // A person who denied their own call may make the call again at once.
        if let Some(record) = same(State::Denied).filter(|_| !ask.principal.is_person()) {
            let retry_after_ms = settings.cooldown_ms.saturating_sub(self.since_refused(record, now)).max(1);
            let reason = record.decided.as_ref().and_then(|decided| decided.reason.clone());
            return Asked::Denied { id: record.id, retry_after_ms, reason };
        }
        if let Some(record) = same(State::Pending) {
            return Asked::Joined { id: record.id };
        }

        if let Err(limited) = self.room_for(&ask.principal, limits) {
            return Asked::Limited(limited);
        }
        // A person confirms their own calls, so these calls do not count as approval requests.
        if !ask.principal.is_person()
            && let Err(retry_after_ms) =
                self.asks.take(limits, &ask.principal, Class::Ask, self.steady_ms.unwrap_or(now.as_millis()))
        {
            return Asked::Limited(Limited::Rate { retry_after_ms });
        }
        let Ask { principal, tool, tier, args_hash, present, summary, facts, floor, from_plugin: _, tainted: _ } = ask;
        let record = Record {
            short: self.free_short(ids.short),
            kind: Kind::Call,
            state: State::Pending,
            facts,
            base_state_hash: present.state,
            channel_floor: floor,
            created_at: now,
            expires_at: Some(now.plus_millis(settings.ttl_ms)),
            ..Record::new(ids.id, principal, tool, tier, present.pin, args_hash, present.policy_version, &summary)
        };
        let id = self.insert(record);
        self.note_ends(now);
        Asked::Created { id }
    }

    /// The records that can still decide a call. Removes all others from the index, so that many
    /// ended requests do not slow down the next call.
    fn live_for(&mut self, principal: &Principal, tool: &str, cooldown_ms: u64, now: Timestamp) -> Vec<Uuid> {
        let key = (principal.clone(), tool.to_owned());
        let Some(mut ids) = self.live.remove(&key) else {
            return Vec::new();
        };
        ids.retain(|id| {
            self.get(*id).is_some_and(|record| match record.state {
                State::Pending | State::Allowed => true,
                State::Denied => record.decided.is_some() && self.since_refused(record, now) < cooldown_ms,
                State::Used | State::Expired | State::Stale | State::Undone => false,
            })
        });
        self.live.insert(key, ids.clone());
        ids
    }

    fn use_standing(&mut self, id: Uuid, pin: Digest, ask: &Ask) -> Asked {
        if ask.from_plugin && pin != ask.present.pin {
            self.set(id, |record| record.state = State::Stale);
            return Asked::Stale { id, what: Changed::Pin };
        }
        let by = self
            .get(id)
            .and_then(|record| record.decided.as_ref())
            .map(|decided| decided.by.clone())
            .unwrap_or_default();
        Asked::Run { id, by, channel: AnsweredBy::Mapping }
    }

    fn take_use(&mut self, id: Uuid, present: &Present) -> Asked {
        let Some(record) = self.get(id) else {
            return Asked::Limited(Limited::All);
        };
        if let Some(what) = record.changed(present) {
            self.set(id, |record| record.state = State::Stale);
            return Asked::Stale { id, what };
        }
        let first = record.decided.as_ref();
        let by = first.map(|decided| decided.by.clone()).unwrap_or_default();
        let channel = match first {
            Some(decided) if !record.any_args && record.uses_left == Some(1) => AnsweredBy::Person(decided.channel),
            Some(_) | None => AnsweredBy::Grant,
        };
        self.set(id, |record| {
            let left = record.uses_left.unwrap_or(0).saturating_sub(1);
            record.uses_left = Some(left);
            if left == 0 {
                record.state = State::Used;
            }
        });
        Asked::Run { id, by, channel }
    }

    /// Whether the principal may open one more request or plan.
    pub fn room_for(&self, principal: &Principal, limits: &Limits) -> Result<(), Limited> {
        if self.waiting().count() >= PENDING_ALL {
            return Err(Limited::All);
        }
        if self.waiting().filter(|record| record.principal == *principal).count() >= limits.pending_per_principal {
            return Err(Limited::Principal);
        }
        Ok(())
    }

    /// Whether the caller may wait for this record. Only one call waits per record; other identical
    /// calls return at once.
    pub fn begin_wait(&mut self, id: Uuid) -> bool {
        self.get(id).is_some_and(|record| record.state == State::Pending) && self.waited_for.insert(id)
    }

    /// Whether a call waits for this record.
    pub fn is_waited_for(&self, id: Uuid) -> bool {
        self.waited_for.contains(&id)
    }

    /// Marks that no call waits for this record any more. The record stays in the store.
    pub fn end_wait(&mut self, id: Uuid) {
        self.waited_for.remove(&id);
    }

    /// The record, if it is in `state` now; otherwise the reason for the refusal.
    fn in_state(&mut self, id: Uuid, state: State, now: Timestamp) -> Result<&Record, Refused> {
        self.note_ends(now);
        if self.get(id).is_some_and(|record| self.is_over(record, now)) {
            self.set(id, |record| record.state = State::Expired);
        }
        match self.get(id) {
            None => Err(Refused::NotFound),
            Some(record) if record.state == state => Ok(record),
            Some(record) if record.state == State::Expired => Err(Refused::Expired),
            Some(record) => Err(Refused::Already(record.state)),
        }
    }

    /// Records an approval.
    pub fn allow(&mut self, id: Uuid, yes: &Yes, now: Timestamp) -> Result<(), Refused> {
        let record = self.in_state(id, State::Pending, now)?;
        if record.kind != Kind::Call {
            return Err(Refused::Kind(record.kind));
        }
        if !yes.channel.satisfies(record.channel_floor) {
            return Err(Refused::Channel(record.channel_floor));
        }
        if !(1..=MAX_USES).contains(&yes.uses) || yes.for_ms.is_some_and(|ms| ms > MAX_GRANT_MS) {
            return Err(Refused::TooWide);
        }
        if !yes.grantable && (yes.uses > 1 || yes.any_args || yes.for_ms.is_some()) {
            return Err(Refused::NotGrantable);
        }
        let asked_until = record.expires_at.unwrap_or(now);
        let until = match (yes.for_ms, yes.grant_ms) {
            (Some(ms), _) | (None, Some(ms)) => now.plus_millis(ms),
            (None, None) => asked_until.max(now.plus_millis(MIN_GRANT_MS)),
        };
        self.set(id, |record| {
            record.state = State::Allowed;
            record.uses_left = Some(yes.uses);
            record.any_args = yes.any_args;
            if yes.any_args {
                record.base_state_hash = None;
            }
            record.expires_at = Some(until);
            record.decided = Some(Decided::new(&yes.by, yes.channel, now));
        });
        // The end of the approval differs from the end of the request.
        self.steady.remove(&id);
        self.note_ends(now);
        Ok(())
    }

    /// Denies a request or a plan, or ends an approval that has uses left. Every channel may deny.
    pub fn deny(&mut self, id: Uuid, by: &str, channel: Channel, now: Timestamp) -> Result<(), Refused> {
        self.deny_because(id, by, channel, None, now)
    }

    /// Like [`Pending::deny`], with a reason for the caller, cut to [`MAX_REASON`] characters.
    pub fn deny_because(
        &mut self,
        id: Uuid,
        by: &str,
        channel: Channel,
        reason: Option<&str>,
        now: Timestamp,
    ) -> Result<(), Refused> {
        if self.in_state(id, State::Allowed, now).is_err() {
            self.in_state(id, State::Pending, now)?;
        }
        let reason = reason.map(str::trim).filter(|it| !it.is_empty());
        let reason = reason.map(|it| it.chars().take(MAX_REASON).collect());
        self.set(id, |record| {
            record.state = State::Denied;
            record.uses_left = record.uses_left.map(|_| 0);
            record.decided = Some(Decided { reason, ..Decided::new(by, channel, now) });
        });
        self.steady.extend(self.steady_ms.map(|steady| (id, steady)));
        Ok(())
    }

    /// Ends an approval that has uses left, for example because the session that it was given for
    /// has ended. Returns whether there was such an approval.
    pub fn end_approval(&mut self, id: Uuid) -> bool {
        let is_open = self.get(id).is_some_and(|it| it.kind == Kind::Call && it.state == State::Allowed);
        if is_open {
            self.set(id, |record| record.state = State::Expired);
        }
        is_open
    }

    /// Stores a new plan.
    pub fn create_plan(
        &mut self,
        plan: NewPlan,
        ids: NewIds,
        settings: &ApprovalSettings,
        limits: &Limits,
        now: Timestamp,
    ) -> Result<Uuid, Refused> {
        self.expire(now);
        self.room_for(&plan.principal, limits).map_err(Refused::Limited)?;
        let NewPlan { principal, tool, args_hash, pin, policy_version, summary, facts, changes, .. } = plan;
        let record = Record {
            short: self.free_short(ids.short),
            kind: Kind::Plan,
            state: State::Pending,
            facts,
            changes: Some(changes),
            diff_preview: Some(plan.diff_preview),
            base_state_hash: Some(plan.base_state_hash),
            result_state_hash: Some(plan.result_state_hash),
            warnings: Some(plan.warnings),
            channel_floor: plan.floor,
            created_at: now,
            expires_at: Some(now.plus_millis(settings.ttl_ms)),
            ..Record::new(ids.id, principal, tool, Tier::ConfigChange, pin, args_hash, policy_version, &summary)
        };
        let id = self.insert(record);
        self.note_ends(now);
        Ok(id)
    }

    /// Reserves a plan for applying; only one caller gets `Ok`. If applying then fails, call
    /// [`Pending::fail_apply`].
    pub fn apply(
        &mut self,
        id: Uuid,
        by: &str,
        channel: Channel,
        present: &Present,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let record = self.in_state(id, State::Pending, now)?;
        if record.kind != Kind::Plan {
            return Err(Refused::Kind(record.kind));
        }
        if !channel.satisfies(record.channel_floor) {
            return Err(Refused::Channel(record.channel_floor));
        }
        if let Some(what) = record.changed(present) {
            self.set(id, |record| record.state = State::Stale);
            return Err(Refused::Changed(what));
        }
        self.set(id, |record| {
            record.state = State::Used;
            record.uses_left = Some(0);
            record.decided = Some(Decided::new(by, channel, now));
        });
        Ok(())
    }

    /// Reopens a plan that could not be applied, for its remaining time.
    pub fn fail_apply(&mut self, id: Uuid, now: Timestamp) -> Result<(), Refused> {
        self.in_state(id, State::Used, now)?;
        self.set(id, |record| {
            record.state = State::Pending;
            record.uses_left = Some(1);
            record.decided = None;
        });
        Ok(())
    }

    /// Records a completed file write that can be undone.
    pub fn record_edit(&mut self, ask: Ask, result: Option<Digest>, ids: NewIds, now: Timestamp) -> Uuid {
        let Ask { principal, tool, tier, args_hash, present, summary, facts, floor, .. } = ask;
        let record = Record {
            short: self.free_short(ids.short),
            kind: Kind::Edit,
            state: State::Used,
            facts,
            base_state_hash: present.state,
            result_state_hash: result,
            channel_floor: floor,
            uses_left: Some(0),
            created_at: now,
            expires_at: Some(now.plus_millis(KEPT_MS)),
            ..Record::new(ids.id, principal, tool, tier, present.pin, args_hash, present.policy_version, &summary)
        };
        self.insert(record)
    }

    /// Marks an applied plan or edit as undone.
    pub fn undo(&mut self, id: Uuid, now: Timestamp) -> Result<(), Refused> {
        let record = self.in_state(id, State::Used, now)?;
        match record.kind {
            Kind::Plan | Kind::Edit => {}
            Kind::Call | Kind::Standing => return Err(Refused::Kind(record.kind)),
        }
        self.set(id, |record| record.state = State::Undone);
        Ok(())
    }

    /// Records the standing grant of a mapping that a person applied. Its `args_hash` is the hash
    /// of the argument template.
    pub fn grant_standing(
        &mut self,
        ask: Ask,
        ask_floor: AskFloor,
        by: &str,
        channel: Channel,
        ids: NewIds,
        now: Timestamp,
    ) -> Result<Uuid, Refused> {
        let never = matches!(ask_floor, AskFloor::Always | AskFloor::ByArgs);
        if never || !matches!(ask.principal, Principal::Mapping { .. }) {
            return Err(Refused::NeverStanding);
        }
        let Ask { principal, tool, tier, args_hash, present, summary, facts, floor, .. } = ask;
        let record = Record {
            short: self.free_short(ids.short),
            kind: Kind::Standing,
            state: State::Allowed,
            facts,
            channel_floor: floor,
            uses_left: None,
            created_at: now,
            expires_at: None,
            decided: Some(Decided::new(by, channel, now)),
            ..Record::new(ids.id, principal, tool, tier, present.pin, args_hash, present.policy_version, &summary)
        };
        Ok(self.insert(record))
    }

    /// Ends the standing grants of a mapping that was removed or whose argument template changed. A
    /// grant for the template `kept` stays.
    pub fn end_standing(&mut self, principal: &Principal, kept: Option<Digest>) -> Vec<Uuid> {
        let ended: Vec<Uuid> = self
            .records
            .values()
            .filter(|record| record.kind == Kind::Standing && record.state == State::Allowed)
            .filter(|record| record.principal == *principal && kept != Some(record.args_hash))
            .map(|record| record.id)
            .collect();
        for id in &ended {
            self.set(*id, |record| record.state = State::Stale);
        }
        ended
    }

    /// Removes the oldest ended records above [`KEPT_ENDED`], except records that can be undone.
    fn forget_surplus(&mut self) {
        if self.records.len().saturating_sub(self.open.len()) <= KEPT_ENDED {
            return;
        }
        let can_be_undone = |it: &Record| it.state == State::Used && matches!(it.kind, Kind::Plan | Kind::Edit);
        let ended = self.records.values().filter(|it| it.state.has_ended() && !can_be_undone(it));
        let mut ended: Vec<(Timestamp, Uuid)> = ended.map(|it| (it.ended_at(), it.id)).collect();
        ended.sort_unstable();
        let surplus = ended.len().saturating_sub(KEPT_ENDED);
        self.forget(ended.into_iter().take(surplus).map(|(_, id)| id));
    }

    fn forget(&mut self, ids: impl Iterator<Item = Uuid>) {
        for id in ids {
            if let Some(record) = self.records.remove(&id) {
                self.before.entry(id).or_insert(Some(record));
            }
            self.steady.remove(&id);
        }
        self.live.retain(|_, ids| {
            ids.retain(|id| self.records.contains_key(id));
            !ids.is_empty()
        });
    }

    /// Removes records that ended more than a week ago, except the last applied plans.
    pub fn clean_up(&mut self, now: Timestamp) -> Vec<Uuid> {
        self.expire(now);
        let mut applied: Vec<(Timestamp, Uuid)> = self
            .records
            .values()
            .filter(|record| record.kind == Kind::Plan && record.state == State::Used)
            .map(|record| (record.ended_at(), record.id))
            .collect();
        applied.sort_unstable();
        let kept: HashSet<Uuid> = applied.iter().rev().take(KEPT_PLANS).map(|(_, id)| *id).collect();
        let old: Vec<Uuid> = self
            .records
            .values()
            .filter(|record| record.state.has_ended() && !kept.contains(&record.id))
            .filter(|record| now.millis_since(record.ended_at()) >= KEPT_MS)
            .map(|record| record.id)
            .collect();
        self.forget(old.iter().copied());
        old
    }
}

#[cfg(test)]
mod tests;
