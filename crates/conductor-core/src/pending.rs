//! Plans and approvals: one store of what waits for a person, and of what a person allowed.
//!
//! Pure: time, ids and limits come in; every transition checks the state it leaves. Not here: files (`pending_store` in the shell), who
//! counts as a person (the control door), and waiting for an answer (`pipeline::approval`).

use crate::digest::Digest;
use crate::policy::limits::Limits;
use crate::policy::{ApprovalSettings, Channel, Floor, Tier};
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use uuid::Uuid;

/// A yes lives at least this long, so that a client that repeats its call after a person read the question can still use it.
const MIN_GRANT_MS: u64 = 60_000;
pub const MAX_USES: u32 = 100;
pub const MAX_GRANT_MS: u64 = 24 * 3_600_000;
/// Ended records are kept this long; the last applied plans are kept longer, for undo.
const KEPT_MS: u64 = 7 * 24 * 3_600_000;
const KEPT_PLANS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A single call that a person must allow.
    Call,
    /// A change of the configuration that a person applies.
    Plan,
    /// An applied file write that can be undone.
    Edit,
    /// What applying a mapping allowed it to call, for as long as it stands.
    Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Pending,
    Allowed,
    Used,
    Denied,
    Expired,
    Stale,
    Undone,
}

impl State {
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Allowed => "allowed",
            State::Used => "used",
            State::Denied => "denied",
            State::Expired => "expired",
            State::Stale => "stale",
            State::Undone => "undone",
        }
    }

    /// Whether nothing can become of it any more, except that an applied plan can be undone.
    const fn is_ended(self) -> bool {
        match self {
            State::Pending | State::Allowed => false,
            State::Used | State::Denied | State::Expired | State::Stale | State::Undone => true,
        }
    }
}

/// A line for the person who decides, rendered by us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub label: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    pub by: String,
    pub channel: Channel,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub id: Uuid,
    /// What a person types: eight letters and digits that cannot be misread.
    pub short: String,
    pub kind: Kind,
    pub state: State,
    pub principal: String,
    pub tool: String,
    pub tier: Tier,
    pub pin: Digest,
    pub args_hash: Digest,
    pub summary: String,
    pub facts: Vec<Fact>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_preview: Option<String>,
    pub base_state_hash: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_state_hash: Option<Digest>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub policy_version: Digest,
    pub channel_floor: Floor,
    /// Null for a standing grant.
    pub uses_left: Option<u32>,
    #[serde(default)]
    pub any_args: bool,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
}

impl Record {
    fn is_live(&self, state: State, now: Timestamp) -> bool {
        // At `expires_at` exactly it is over.
        self.state == state && self.expires_at.is_none_or(|end| now < end)
    }

    /// The state at this moment: what ran out is expired, whether or not somebody has written it down yet.
    pub fn state_at(&self, now: Timestamp) -> State {
        match self.state {
            State::Pending | State::Allowed if self.expires_at.is_some_and(|end| now >= end) => State::Expired,
            state => state,
        }
    }

    /// The record as a `ConfigPlan`.
    pub fn to_config_plan(&self, now: Timestamp) -> Value {
        let status = match self.state_at(now) {
            State::Pending | State::Allowed => "pending",
            State::Used => "applied",
            State::Denied => "rejected",
            State::Expired => "expired",
            State::Stale => "stale",
            State::Undone => "undone",
        };
        json!({
            "plan_id": self.id, "description": self.summary, "changes": self.changes,
            "diff_preview": self.diff_preview.as_deref().unwrap_or_default(),
            "base_state_hash": self.base_state_hash, "result_state_hash": self.result_state_hash,
            "created_at": self.created_at, "expires_at": self.expires_at, "warnings": self.warnings, "status": status,
        })
    }
}

/// Letters and digits of Crockford's base 32: no I, L, O or U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The short form of an id, from its random bits.
pub fn short_form(id: Uuid) -> String {
    let bits = u128::from_be_bytes(*id.as_bytes());
    // The low 62 bits of a version 4 id are random.
    let letter = |at: u32| char::from(ALPHABET[((bits >> (5 * at)) & 31) as usize]);
    let mut text: String = (0..4).map(letter).collect();
    text.push('-');
    text.extend((4..8).map(letter));
    text
}

/// Reads a short form as a person may type it: lower case, without the dash, with the letters that look like digits.
pub fn read_short(text: &str) -> Option<String> {
    let mut out = String::new();
    for c in text.chars().filter(|it| *it != '-' && !it.is_whitespace()) {
        let c = match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            c => c,
        };
        if !ALPHABET.contains(&u8::try_from(c).ok()?) {
            return None;
        }
        if out.len() == 4 {
            out.push('-');
        }
        out.push(c);
    }
    (out.len() == 9).then_some(out)
}

/// What a call that needs a person brings with it.
#[derive(Clone, Debug)]
pub struct Question {
    pub id: Uuid,
    pub principal: String,
    pub tool: String,
    pub tier: Tier,
    pub pin: Digest,
    pub args_hash: Digest,
    pub policy_version: Digest,
    pub base_state: Option<Digest>,
    pub floor: Floor,
    pub summary: String,
    pub facts: Vec<Fact>,
}

/// What becomes of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// A yes was there; one use of it is taken.
    Granted(Uuid),
    /// A yes was there, but for something that has changed since. It is void; the next call asks afresh.
    Stale(Uuid, Moved),
    /// The same was refused a moment ago; nobody is asked again.
    Cooling {
        id: Uuid,
        left_ms: u64,
    },
    /// The same question waits already.
    Joined(Uuid),
    Created(Uuid),
    /// Too much waits already.
    Full {
        all: bool,
    },
    /// Too many new questions in one minute.
    TooOften {
        retry_after_ms: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Pin,
    Policy,
    State,
}

/// A person's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub yes: bool,
    pub by: String,
    pub channel: Channel,
    pub uses: u32,
    pub for_ms: Option<u64>,
    pub any_args: bool,
    /// Of the tool.
    pub grantable: bool,
    pub grant_ms: Option<u64>,
}

impl Answer {
    pub fn no(by: impl Into<String>, channel: Channel) -> Self {
        Answer { yes: false, ..Answer::yes(by, channel) }
    }

    /// One use, for exactly these arguments.
    pub fn yes(by: impl Into<String>, channel: Channel) -> Self {
        Answer {
            yes: true,
            by: by.into(),
            channel,
            uses: 1,
            for_ms: None,
            any_args: false,
            grantable: true,
            grant_ms: None,
        }
    }
}

/// Why a transition did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no plan or approval {0}")]
    Unknown(String),
    #[error("it is {0:?} already")]
    NotPending(State),
    #[error("it ran out at {0}")]
    Expired(Timestamp),
    #[error("an answer from {0:?} is not enough here")]
    ChannelTooWeak(Channel),
    #[error("one yes allows one use of this tool, with these arguments")]
    NotGrantable,
    #[error("at most {MAX_USES} uses and 24 hours")]
    TooWide,
    #[error("it is a {0:?}")]
    WrongKind(Kind),
}

#[derive(Clone, Debug, Default)]
pub struct Pending {
    records: BTreeMap<Uuid, Record>,
    /// When each principal asked something new, within the last minute.
    asked: BTreeMap<String, VecDeque<Timestamp>>,
    changed: Vec<Uuid>,
}

impl Pending {
    pub fn load(records: impl IntoIterator<Item = Record>) -> Self {
        Pending { records: records.into_iter().map(|it| (it.id, it)).collect(), ..Pending::default() }
    }

    pub fn get(&self, id: Uuid) -> Option<&Record> {
        self.records.get(&id)
    }

    /// By full id, short form, or a prefix of the id that only one record has.
    pub fn find(&self, text: &str) -> Option<&Record> {
        if let Ok(id) = Uuid::parse_str(text) {
            return self.get(id);
        }
        let short = read_short(text)?;
        self.records.values().rev().find(|it| it.short == short)
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Records that differ from what was last taken here; the shell writes them down before it goes on.
    pub fn take_changed(&mut self) -> Vec<Uuid> {
        std::mem::take(&mut self.changed)
    }

    pub fn waiting(&self, now: Timestamp) -> impl Iterator<Item = &Record> {
        self.records.values().filter(move |it| it.is_live(State::Pending, now))
    }

    /// A call needs a person. Steps 1 to 4 of the approval, in one transition.
    pub fn ask(&mut self, question: Question, settings: &ApprovalSettings, limits: &Limits, now: Timestamp) -> Asked {
        if let Some(asked) = self.use_grant(&question, now) {
            return asked;
        }
        let same = |it: &&Record| {
            it.kind == Kind::Call
                && it.principal == question.principal
                && it.tool == question.tool
                && it.args_hash == question.args_hash
        };
        let refused = self.records.values().filter(same).filter(|it| it.state == State::Denied);
        let latest = refused.filter_map(|it| Some((it.decided.as_ref()?.at, it.id))).max();
        if let Some((at, id)) = latest
            && now < at.plus_millis(settings.cooldown_ms)
        {
            return Asked::Cooling { id, left_ms: at.plus_millis(settings.cooldown_ms).millis_since(now) };
        }
        if let Some(open) = self.records.values().filter(same).find(|it| it.is_live(State::Pending, now)) {
            return Asked::Joined(open.id);
        }
        if let Err(full) = self.room(&question.principal, limits, now) {
            return full;
        }
        let asked = self.asked.entry(question.principal.clone()).or_default();
        while asked.front().is_some_and(|it| now.millis_since(*it) >= 60_000) {
            asked.pop_front();
        }
        if asked.len() >= limits.asks_per_minute as usize {
            let oldest = asked.front().copied().unwrap_or(now);
            return Asked::TooOften { retry_after_ms: oldest.plus_millis(60_000).millis_since(now).max(1) };
        }
        asked.push_back(now);
        let id = question.id;
        self.put(Record {
            id,
            short: short_form(id),
            kind: Kind::Call,
            state: State::Pending,
            principal: question.principal,
            tool: question.tool,
            tier: question.tier,
            pin: question.pin,
            args_hash: question.args_hash,
            summary: cut(question.summary, 200),
            facts: question.facts,
            changes: Vec::new(),
            diff_preview: None,
            base_state_hash: question.base_state,
            result_state_hash: None,
            warnings: Vec::new(),
            policy_version: question.policy_version,
            channel_floor: question.floor,
            uses_left: Some(1),
            any_args: false,
            created_at: now,
            expires_at: Some(now.plus_millis(settings.ttl_ms)),
            decided: None,
        });
        Asked::Created(id)
    }

    /// Takes one use of a yes that covers this call.
    fn use_grant(&mut self, question: &Question, now: Timestamp) -> Option<Asked> {
        let covers = |it: &&mut Record| {
            it.kind == Kind::Call
                && it.is_live(State::Allowed, now)
                && it.principal == question.principal
                && it.tool == question.tool
                && (it.any_args || it.args_hash == question.args_hash)
        };
        let record = self.records.values_mut().find(covers)?;
        let moved = if record.pin != question.pin {
            Some(Moved::Pin)
        } else if record.policy_version != question.policy_version {
            Some(Moved::Policy)
        } else if !record.any_args && record.base_state_hash != question.base_state {
            Some(Moved::State)
        } else {
            None
        };
        let id = record.id;
        let asked = match moved {
            Some(moved) => {
                record.state = State::Stale;
                Asked::Stale(id, moved)
            }
            None => {
                let left = record.uses_left.unwrap_or(1).saturating_sub(1);
                record.uses_left = Some(left);
                if left == 0 {
                    record.state = State::Used;
                }
                Asked::Granted(id)
            }
        };
        self.changed.push(id);
        Some(asked)
    }

    fn room(&self, principal: &str, limits: &Limits, now: Timestamp) -> Result<(), Asked> {
        let own = self.waiting(now).filter(|it| it.principal == principal).count();
        if own >= limits.pending_per_principal {
            return Err(Asked::Full { all: false });
        }
        if self.waiting(now).count() >= limits.pending_all {
            return Err(Asked::Full { all: true });
        }
        Ok(())
    }

    /// Keeps a plan until a person applies or rejects it, or until it runs out.
    pub fn add_plan(&mut self, record: Record, limits: &Limits, now: Timestamp) -> Result<(), Asked> {
        self.room(&record.principal, limits, now)?;
        self.put(record);
        Ok(())
    }

    /// A record that needs no answer: an edit that was made, a grant that stands.
    pub fn add(&mut self, record: Record) {
        self.put(record);
    }

    fn put(&mut self, record: Record) {
        self.changed.push(record.id);
        self.records.insert(record.id, record);
    }

    /// A person answers a question.
    pub fn decide(&mut self, id: Uuid, answer: &Answer, now: Timestamp) -> Result<&Record, Refused> {
        let record = self.open(id, now)?;
        if record.kind != Kind::Call {
            return Err(Refused::WrongKind(record.kind));
        }
        if answer.yes && !answer.channel.satisfies(record.channel_floor) {
            return Err(Refused::ChannelTooWeak(answer.channel));
        }
        if answer.yes {
            let wider = answer.uses != 1 || answer.for_ms.is_some() || answer.any_args;
            if wider && !answer.grantable {
                return Err(Refused::NotGrantable);
            }
            if answer.uses == 0 || answer.uses > MAX_USES || answer.for_ms.is_some_and(|it| it > MAX_GRANT_MS) {
                return Err(Refused::TooWide);
            }
        }
        record.decided = Some(Decided { by: answer.by.clone(), channel: answer.channel, at: now });
        if answer.yes {
            record.state = State::Allowed;
            record.uses_left = Some(answer.uses);
            record.any_args = answer.any_args;
            record.expires_at = Some(match answer.for_ms.or(answer.grant_ms) {
                Some(ms) => now.plus_millis(ms),
                None => record.expires_at.unwrap_or(now).max(now.plus_millis(MIN_GRANT_MS)),
            });
        } else {
            record.state = State::Denied;
        }
        self.changed.push(id);
        self.records.get(&id).ok_or_else(|| Refused::Unknown(id.to_string()))
    }

    /// The plan that is about to be applied or rejected. It must still wait.
    pub fn open_plan(&mut self, id: Uuid, now: Timestamp) -> Result<&Record, Refused> {
        let record = self.open(id, now)?;
        if record.kind != Kind::Plan {
            return Err(Refused::WrongKind(record.kind));
        }
        Ok(record)
    }

    fn open(&mut self, id: Uuid, now: Timestamp) -> Result<&mut Record, Refused> {
        let record = self.records.get_mut(&id).ok_or_else(|| Refused::Unknown(id.to_string()))?;
        match record.state_at(now) {
            State::Pending => Ok(record),
            State::Expired => {
                if record.state != State::Expired {
                    record.state = State::Expired;
                    self.changed.push(id);
                }
                Err(Refused::Expired(record.expires_at.unwrap_or(now)))
            }
            state @ (State::Allowed | State::Used | State::Denied | State::Stale | State::Undone) => {
                Err(Refused::NotPending(state))
            }
        }
    }

    /// Moves a record on, if it still is where the caller believes it to be.
    pub fn advance(&mut self, id: Uuid, from: State, to: State, decided: Option<Decided>) -> Result<(), Refused> {
        let record = self.records.get_mut(&id).ok_or_else(|| Refused::Unknown(id.to_string()))?;
        if record.state != from {
            return Err(Refused::NotPending(record.state));
        }
        record.state = to;
        if decided.is_some() {
            record.decided = decided;
        }
        self.changed.push(id);
        Ok(())
    }

    /// The grant that applying a mapping gave it, if it covers this call template. A plugin whose code changed has none.
    pub fn standing(&self, principal: &str, tool: &str, template_hash: Digest, pin: Option<Digest>) -> Option<&Record> {
        self.records.values().find(|it| {
            it.kind == Kind::Standing
                && it.state == State::Allowed
                && it.principal == principal
                && it.tool == tool
                && it.args_hash == template_hash
                && pin.is_none_or(|pin| it.pin == pin)
        })
    }

    /// Ends the standing grants of mappings that are gone or changed.
    pub fn end_standing(&mut self, keep: impl Fn(&Record) -> bool) {
        for record in self.records.values_mut() {
            if record.kind == Kind::Standing && record.state == State::Allowed && !keep(record) {
                record.state = State::Stale;
                self.changed.push(record.id);
            }
        }
    }

    /// Writes down what ran out, and gives it.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Uuid> {
        let mut ended = Vec::new();
        for record in self.records.values_mut() {
            if record.state != State::Expired && record.state_at(now) == State::Expired {
                record.state = State::Expired;
                ended.push(record.id);
            }
        }
        self.changed.extend(&ended);
        ended
    }

    /// When the next record runs out.
    pub fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        let live = self.records.values().filter(|it| matches!(it.state, State::Pending | State::Allowed));
        live.filter_map(|it| it.expires_at).filter(|it| *it > now).min()
    }

    /// Forgets what ended long ago, but keeps the last applied plans, which can still be undone.
    pub fn forget_old(&mut self, now: Timestamp) -> Vec<Uuid> {
        let mut applied: Vec<(Timestamp, Uuid)> = self
            .records
            .values()
            .filter(|it| it.kind == Kind::Plan && it.state == State::Used)
            .map(|it| (it.decided.as_ref().map_or(it.created_at, |it| it.at), it.id))
            .collect();
        applied.sort_unstable();
        let kept: Vec<Uuid> = applied.iter().rev().take(KEPT_PLANS).map(|it| it.1).collect();
        let old = |it: &Record| {
            let ended =
                it.decided.as_ref().map_or(it.created_at, |it| it.at).max(it.expires_at.unwrap_or(it.created_at));
            it.state.is_ended() && now.millis_since(ended) >= KEPT_MS && !kept.contains(&it.id)
        };
        let gone: Vec<Uuid> = self.records.values().filter(|it| old(it)).map(|it| it.id).collect();
        for id in &gone {
            self.records.remove(id);
        }
        gone
    }
}

fn cut(mut text: String, max: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max) {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests;
