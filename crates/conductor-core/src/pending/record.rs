//! One plan, approval request, edit or standing grant, in the exact form of its file.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{Changed, MAX_USES, Present};
use crate::digest::Digest;
use crate::named_enum::{named_enum, serde_as_text};
use crate::plan::ChangeRow;
use crate::policy::{Channel, Floor, Tier};
use crate::principal::Principal;
use crate::timestamp::Timestamp;

const MAX_SUMMARY: usize = 200;
const MAX_FACT: usize = 16_384;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A call that needs or has an approval.
    Call,
    /// A change to the configuration.
    Plan,
    /// A completed file write that can be undone.
    Edit,
    /// The standing grant of an applied mapping: its calls are approved without a limit on their
    /// number.
    Standing,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "call",
            Self::Plan => "plan",
            Self::Edit => "edit",
            Self::Standing => "standing grant",
        })
    }
}

named_enum! {
    /// The state of a record.
    pub enum State {
        /// A person has not answered yet.
        Pending = "pending",
        /// A person approved, and uses are left.
        Allowed = "allowed",
        /// No uses are left, or the plan was applied.
        Used = "used",
        /// A person denied the request.
        Denied = "denied",
        /// The request or the approval has expired.
        Expired = "expired",
        /// The state that the record depends on has changed.
        Stale = "stale",
        /// The change was undone.
        Undone = "undone",
    }
}

impl State {
    /// Whether the state is final, except for an undo.
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Pending | Self::Allowed => false,
            Self::Used | Self::Denied | Self::Expired | Self::Stale | Self::Undone => true,
        }
    }
}

/// One line of details for the approver, written by Conductor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Name of the detail.
    pub label: String,
    /// Value of the detail.
    pub text: String,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Principal of the person.
    pub by: String,
    /// The channel of the answer.
    pub channel: Channel,
    /// Time of the answer.
    pub at: Timestamp,
    /// The reason that the person wrote for a denial. The caller sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Decided {
    /// An answer without a reason.
    pub fn new(by: impl Into<String>, channel: Channel, at: Timestamp) -> Self {
        Self { by: by.into(), channel, at, reason: None }
    }
}

/// A short id of eight characters that a person can read aloud: base 32 without I, L, O and U.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Short([u8; 9]);

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl Short {
    /// Creates a short id from the low 40 bits.
    pub fn from_bits(bits: u64) -> Self {
        let mut text = *b"0000-0000";
        for (place, at) in [8, 7, 6, 5, 3, 2, 1, 0].into_iter().enumerate() {
            text[at] = DIGITS[(bits >> (5 * place) & 31) as usize];
        }
        Self(text)
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| fmt::Write::write_char(f, char::from(*byte)))
    }
}

impl FromStr for Short {
    type Err = BadRecord;

    /// Parses a short id. Case and the dash do not matter; O is read as 0, and I and L as 1.
    fn from_str(text: &str) -> Result<Self, BadRecord> {
        let digits = text.bytes().filter(|byte| *byte != b'-').map(|byte| match byte.to_ascii_uppercase() {
            b'O' => b'0',
            b'I' | b'L' => b'1',
            other => other,
        });
        let mut bits = 0_u64;
        let mut count = 0;
        for digit in digits {
            let value = DIGITS.iter().position(|known| *known == digit).ok_or(BadRecord::Short)?;
            bits = bits << 5 | value as u64;
            count += 1;
            if count > 8 {
                return Err(BadRecord::Short);
            }
        }
        if count == 8 { Ok(Self::from_bits(bits)) } else { Err(BadRecord::Short) }
    }
}

serde_as_text!(Short);

/// Why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum BadRecord {
    #[error("a short id has eight characters, such as 7F3K-Q2WD")]
    Short,
    #[error("the text is not a record: {0}")]
    Json(String),
    #[error("{0} is longer than {1} characters")]
    TooLong(&'static str, usize),
    #[error("uses_left exceeds {MAX_USES}")]
    Uses,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// Requires that the member is present; it may be null.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// A plan, approval request, edit or standing grant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Id of the record, a UUIDv4.
    pub id: Uuid,
    /// The short id for people.
    pub short: Short,
    /// The kind of the record.
    pub kind: Kind,
    /// The state of the record.
    pub state: State,
    /// The caller.
    pub principal: Principal,
    /// Full name of the tool.
    pub tool: String,
    /// Tier of the tool.
    pub tier: Tier,
    /// Digest of the tool.
    pub pin: Digest,
    /// Digest of the arguments.
    pub args_hash: Digest,
    /// One line for the approver.
    pub summary: String,
    /// Details for the approver.
    pub facts: Vec<Fact>,
    /// The changes of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Value>>,
    /// Diff of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_preview: Option<String>,
    /// Digest of the state before the change.
    #[serde(deserialize_with = "nullable")]
    pub base_state_hash: Option<Digest>,
    /// Digest of the state after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_state_hash: Option<Digest>,
    /// Warnings for the approver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
    /// Version of the policy when the record was made.
    pub policy_version: Digest,
    /// Weakest channel that may approve.
    pub channel_floor: Floor,
    /// Number of calls that are still approved; absent for standing grants.
    #[serde(deserialize_with = "nullable")]
    pub uses_left: Option<u32>,
    /// Whether calls with other arguments are approved too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub any_args: bool,
    /// Time of the request.
    pub created_at: Timestamp,
    /// End of the request or of the approval; absent for standing grants.
    #[serde(deserialize_with = "nullable")]
    pub expires_at: Option<Timestamp>,
    /// The answer of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
}

impl Record {
    /// An open request for one call. For other kinds of records, the caller then changes the
    /// members that differ.
    #[expect(clippy::too_many_arguments, reason = "each argument is a member without a default")]
    pub(super) fn new(
        id: Uuid,
        principal: Principal,
        tool: String,
        tier: Tier,
        pin: Digest,
        args_hash: Digest,
        policy_version: Digest,
        summary: &str,
    ) -> Self {
        Self {
            id,
            short: Short::from_bits(0),
            kind: Kind::Call,
            state: State::Pending,
            principal,
            tool,
            tier,
            pin,
            args_hash,
            summary: summary.chars().take(MAX_SUMMARY).collect(),
            facts: Vec::new(),
            changes: None,
            diff_preview: None,
            base_state_hash: None,
            result_state_hash: None,
            warnings: None,
            policy_version,
            channel_floor: Floor::Local,
            uses_left: Some(1),
            any_args: false,
            created_at: Timestamp::default(),
            expires_at: None,
            decided: None,
        }
    }

    /// The bytes of the record's file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut record = self.clone();
        for fact in &mut record.facts {
            if fact.text.chars().count() > MAX_FACT {
                fact.text = fact.text.chars().take(MAX_FACT).collect();
            }
        }
        // A record contains nothing that serde_json cannot serialise.
        serde_json::to_vec(&record).unwrap_or_default()
    }

    /// Reads a stored record and checks its limits.
    pub fn from_json(bytes: &[u8]) -> Result<Self, BadRecord> {
        let record: Self = serde_json::from_slice(bytes).map_err(|error| BadRecord::Json(error.to_string()))?;
        if record.summary.chars().count() > MAX_SUMMARY {
            return Err(BadRecord::TooLong("summary", MAX_SUMMARY));
        }
        if record.facts.iter().any(|fact| fact.text.chars().count() > MAX_FACT) {
            return Err(BadRecord::TooLong("a fact", MAX_FACT));
        }
        if record.uses_left.is_some_and(|uses| uses > MAX_USES) {
            return Err(BadRecord::Uses);
        }
        Ok(record)
    }

    /// Whether the record is open but its time has passed.
    pub fn is_over(&self, now: Timestamp) -> bool {
        !self.state.has_ended() && self.expires_at.is_some_and(|at| now >= at)
    }

    pub(super) fn ended_at(&self) -> Timestamp {
        let decided = self.decided.as_ref().map(|decided| decided.at);
        decided.into_iter().chain(self.expires_at).max().unwrap_or(self.created_at)
    }

    /// The start of the time that ends at `expires_at`: the time of the request, or of the
    /// approval.
    pub(super) fn begun_at(&self) -> Timestamp {
        self.decided.as_ref().map_or(self.created_at, |decided| decided.at)
    }

    /// The part of the state that changed after the approval or the plan. The pin is checked first,
    /// because it has its own error code.
    pub(super) fn changed(&self, present: &Present) -> Option<Changed> {
        if self.pin != present.pin {
            Some(Changed::Pin)
        } else if self.policy_version != present.policy_version {
            Some(Changed::Policy)
        } else if !self.any_args && self.base_state_hash != present.state {
            Some(Changed::State)
        } else {
            None
        }
    }

    /// The record of a plan as tools return it.
    pub fn config_plan(&self) -> ConfigPlan {
        ConfigPlan {
            plan_id: self.id,
            description: self.summary.clone(),
            changes: self.changes.clone().unwrap_or_default(),
            diff_preview: self.diff_preview.clone().unwrap_or_default(),
            base_state_hash: self.base_state_hash,
            result_state_hash: self.result_state_hash,
            created_at: self.created_at,
            expires_at: self.expires_at,
            warnings: self.warnings.clone().unwrap_or_default(),
            status: match self.state {
                State::Pending | State::Allowed => PlanStatus::Pending,
                State::Used => PlanStatus::Applied,
                State::Denied => PlanStatus::Rejected,
                State::Expired => PlanStatus::Expired,
                State::Stale => PlanStatus::Stale,
                State::Undone => PlanStatus::Undone,
            },
            reason: self.decided.as_ref().and_then(|it| it.reason.clone()),
        }
    }
}

/// A plan in the results of tools.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConfigPlan {
    /// Id of the plan.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub plan_id: Uuid,
    /// One line for the person who applies or rejects the plan.
    pub description: String,
    /// The changes, in order.
    #[schemars(with = "Vec<ChangeRow>", length(min = 1, max = 64))]
    pub changes: Vec<Value>,
    /// Removed and added lines of config.toml.
    pub diff_preview: String,
    /// Hash of the file that the plan starts from.
    #[schemars(with = "Digest")]
    pub base_state_hash: Option<Digest>,
    /// Hash of the file after the plan is applied.
    #[schemars(with = "Digest")]
    pub result_state_hash: Option<Digest>,
    /// When the plan was made.
    pub created_at: Timestamp,
    /// When a pending plan expires.
    #[schemars(with = "Timestamp")]
    pub expires_at: Option<Timestamp>,
    /// Warnings about the file after the plan is applied.
    pub warnings: Vec<String>,
    /// The status.
    pub status: PlanStatus,
    /// Why a person rejected the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The status of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Waits for a person.
    Pending,
    /// Written to the file.
    Applied,
    /// A person rejected the plan.
    Rejected,
    /// No person decided in time.
    Expired,
    /// The file changed before the plan was applied.
    Stale,
    /// Applied, and reverted by another plan.
    Undone,
}
