//! Questions that a rig shares with other rigs, and the signed decisions about them.
//!
//! A decision is signed over the digest of the whole question, so it is valid only for exactly what
//! the person was shown. [`judge`] checks a decision against the record, the policy and the keys of
//! the asked rig. Not here: the check that a person is present before a decision is signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::nkey;
use crate::config::Decider;
use crate::digest::Digest;
use crate::named_enum::named_enum;
use crate::pending::{Fact, Kind, Record, Short, State};
use crate::policy::{Channel, Floor, Tier};
use crate::principal::Principal;
use crate::timestamp::Timestamp;

/// Maximum number of questions in one message.
pub const MAX_QUESTIONS: usize = 64;
/// Maximum size of a shared question, in bytes of JSON. A larger question can be answered only at
/// its own rig, because a person must see all of it.
pub const MAX_QUESTION: usize = 8 * 1024;
/// Maximum difference between the clocks of two rigs. The time of a decision may be at most this
/// long before its question was made, and at most this long after the present time of the asked
/// rig.
pub const MAX_SKEW_MS: u64 = 120_000;
const MAX_BY: usize = 128;

/// One open question, as a person on another rig sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the comments of `Record` explain these fields")]
pub struct Question {
    pub id: Uuid,
    pub short: Short,
    pub principal: Principal,
    pub tool: String,
    pub tier: Tier,
    pub summary: String,
    pub facts: Vec<Fact>,
    pub pin: Digest,
    pub args_hash: Digest,
    pub state: Option<Digest>,
    pub policy_version: Digest,
    pub floor: Floor,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Question {
    /// The question of an open request for a call. `None` if other rigs must not answer it: it is
    /// not open, needs a pad, or is too large to be shown in full.
    pub fn of(record: &Record) -> Option<Self> {
        let is_open = record.kind == Kind::Call && record.state == State::Pending;
        if !is_open || !Channel::Rig.satisfies(record.channel_floor) {
            return None;
        }
        let question = Self {
            id: record.id,
            short: record.short,
            principal: record.principal.clone(),
            tool: record.tool.clone(),
            tier: record.tier,
            summary: record.summary.clone(),
            facts: record.facts.clone(),
            pin: record.pin,
            args_hash: record.args_hash,
            state: record.base_state_hash,
            policy_version: record.policy_version,
            floor: record.channel_floor,
            created_at: record.created_at,
            expires_at: record.expires_at?,
        };
        let size = serde_json::to_vec(&question).map_or(usize::MAX, |it| it.len());
        (size <= MAX_QUESTION).then_some(question)
    }

    /// Digest of the question and of the name of its rig. A decision contains this digest.
    pub fn digest(&self, rig: &str) -> Digest {
        let value = json!([rig, self]);
        // All members have a canonical form. If a member had no canonical form, both rigs would
        // hash the plain text and still get the same digest, because they run the same code.
        Digest::of_json(&value).unwrap_or_else(|_| Digest::of(value.to_string().as_bytes()))
    }
}

/// All questions of a rig that other rigs may answer. Each message replaces the previous one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Questions {
    /// Format version; always 1.
    pub v: u8,
    /// The rig that asks.
    pub rig: String,
    /// Open questions, oldest first.
    pub questions: Vec<Question>,
}

impl Questions {
    /// The questions of a rig, from its open records.
    pub fn of<'a>(rig: &str, records: impl Iterator<Item = &'a Record>) -> Self {
        let mut questions: Vec<Question> = records.filter_map(Question::of).collect();
        questions.sort_by_key(|it| (it.created_at, it.id));
        questions.truncate(MAX_QUESTIONS);
        Self { v: 1, rig: rig.to_owned(), questions }
    }

    /// Reads the message of a subject. A message that names another rig is refused.
    pub fn read(rig: &str, bytes: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(bytes).ok()?;
        (read.v == 1 && read.rig == rig && read.questions.len() <= MAX_QUESTIONS).then_some(read)
    }
}

named_enum! {
    /// The answer of a person.
    pub enum Answer {
        /// The call may run once.
        Allow = "allow",
        /// The call must not run.
        Deny = "deny",
    }
}

/// A signed decision about one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Format version; always 1.
    pub v: u8,
    /// The asked rig.
    pub rig: String,
    /// Id of the question.
    pub id: Uuid,
    /// Digest of the question that the person was shown.
    pub question: Digest,
    /// The answer.
    pub answer: Answer,
    /// Time of the signature.
    pub at: Timestamp,
    /// The rig and the principal of the person, such as `desk/person:1000`.
    pub by: String,
    /// Public key of the signer.
    pub key: String,
    /// Signature, in base 64.
    pub sig: String,
}

/// Why a decision has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum DecisionError {
    #[error("the message is not a decision: {0}")]
    Shape(String),
    #[error("the decision is about another rig or question")]
    Other,
    #[error("the key of the decision is not enrolled on this rig")]
    Stranger,
    #[error("the signature of the decision is invalid")]
    Signature,
    #[error("the question is not open any more")]
    NotOpen,
    #[error("the question has expired")]
    Expired,
    #[error(
        "the decision is dated more than two minutes before its question, or more than two minutes after the clock of this rig"
    )]
    Time,
    #[error("the person was shown another question")]
    Changed,
    #[error("the policy has changed since the question was asked")]
    Policy,
    #[error("the key may not allow calls of the tier {0}")]
    Tier(Tier),
    #[error("the question must be answered at its own rig")]
    Local,
}

impl Decision {
    /// Signs a decision.
    pub fn sign(rig: &str, question: &Question, answer: Answer, at: Timestamp, by: &str, key: &SigningKey) -> Self {
        let by = by.chars().filter(|it| !it.is_control()).take(MAX_BY).collect();
        let mut decision = Self {
            v: 1,
            rig: rig.to_owned(),
            id: question.id,
            question: question.digest(rig),
            answer,
            at,
            by,
            key: nkey::public_text(&key.verifying_key()),
            sig: String::new(),
        };
        decision.sig = STANDARD.encode(key.sign(&decision.signed_bytes()).to_bytes());
        decision
    }

    fn signed_bytes(&self) -> Vec<u8> {
        let Self { v: _, rig, id, question, answer, at, by, key, sig: _ } = self;
        let answer = answer.as_str();
        format!("conductor-decision/1\n{rig}\n{id}\n{question}\n{answer}\n{at}\n{by}\n{key}\n").into_bytes()
    }

    /// The bytes of the message.
    pub fn to_json(&self) -> Vec<u8> {
        // A decision contains nothing that serde_json cannot serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a decision and checks its signature. Returns it with the row of its signer.
    pub fn read<'d>(bytes: &[u8], deciders: &'d [Decider]) -> Result<(Self, &'d Decider), DecisionError> {
        let decision: Self = serde_json::from_slice(bytes).map_err(|it| DecisionError::Shape(it.to_string()))?;
        if decision.v != 1 || decision.by.chars().count() > MAX_BY || decision.by.chars().any(char::is_control) {
            return Err(DecisionError::Shape("unknown version or name".to_owned()));
        }
        let decider = deciders.iter().find(|it| it.key == decision.key).ok_or(DecisionError::Stranger)?;
        let key = nkey::read_public(&decision.key).map_err(|_| DecisionError::Stranger)?;
        let signature = STANDARD.decode(&decision.sig).ok().and_then(|it| Signature::from_slice(&it).ok());
        let signature = signature.ok_or(DecisionError::Signature)?;
        key.verify_strict(&decision.signed_bytes(), &signature).map_err(|_| DecisionError::Signature)?;
        Ok((decision, decider))
    }
}

/// The state of the asked rig that a decision is checked against.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Name of the rig.
    pub rig: &'a str,
    /// The record of the question now.
    pub record: Option<&'a Record>,
    /// Version of the policy in force now.
    pub policy_version: Digest,
    /// The keys that a person enrolled on this rig.
    pub deciders: &'a [Decider],
    /// The rig's clock.
    pub now: Timestamp,
}

/// Checks a decision about the question `id` against the state of the asked rig. Returns the
/// decision and the name of the enrolled key.
pub fn judge<'a>(bytes: &[u8], id: Uuid, asked: &Asked<'a>) -> Result<(Decision, &'a str), DecisionError> {
    let (decision, decider) = Decision::read(bytes, asked.deciders)?;
    if decision.rig != asked.rig || decision.id != id {
        return Err(DecisionError::Other);
    }
    let record = asked.record.filter(|it| it.id == id && it.state == State::Pending).ok_or(DecisionError::NotOpen)?;
    if record.is_over(asked.now) {
        return Err(DecisionError::Expired);
    }
    if decision.at.millis_since(asked.now) > MAX_SKEW_MS || record.created_at.millis_since(decision.at) > MAX_SKEW_MS {
        return Err(DecisionError::Time);
    }
    let question = Question::of(record).ok_or(DecisionError::Local)?;
    if question.digest(asked.rig) != decision.question {
        return Err(DecisionError::Changed);
    }
    if record.policy_version != asked.policy_version {
        return Err(DecisionError::Policy);
    }
    // A denial removes no protection, so every enrolled key may deny.
    if decision.answer == Answer::Allow && !decider.tiers.contains(&record.tier) {
        return Err(DecisionError::Tier(record.tier));
    }
    Ok((decision, &decider.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RIG: &str = "stage-left";

    fn key(n: u8) -> SigningKey {
        SigningKey::from_bytes(&[n; 32])
    }

    fn decider(n: u8, tiers: &[Tier]) -> Decider {
        Decider { name: "desk".to_owned(), key: nkey::public_text(&key(n).verifying_key()), tiers: tiers.to_vec() }
    }

    fn now() -> Timestamp {
        Timestamp::from_millis(1_767_323_045_000)
    }

    fn record() -> Record {
        let record = json!({
            "id": "5e0c8b1e-0000-4000-8000-000000000001", "short": "7F3K-Q2WD", "kind": "call", "state": "pending",
            "principal": "socket:1000/demo", "tool": "shell.exec", "tier": "HardwareIO", "pin": Digest::of(b"pin"),
            "args_hash": Digest::of(b"args"), "summary": "run a command",
            "facts": [{"label": "command", "text": "ls"}], "base_state_hash": null,
            "policy_version": Digest::of(b"policy"), "channel_floor": "local", "uses_left": 1,
            "created_at": now(), "expires_at": now().plus_millis(300_000),
        });
        serde_json::from_value(record).unwrap()
    }

    fn signed(record: &Record, n: u8, answer: Answer) -> Decision {
        Decision::sign(RIG, &Question::of(record).unwrap(), answer, now(), "desk/person:1000", &key(n))
    }

    fn judged(bytes: &[u8], record: Option<&Record>, deciders: &[Decider]) -> Result<Answer, DecisionError> {
        let policy_version = Digest::of(b"policy");
        let asked = Asked { rig: RIG, record, policy_version, deciders, now: now().plus_millis(1000) };
        judge(bytes, super::tests::record().id, &asked).map(|(it, _)| it.answer)
    }

    #[test]
    fn an_enrolled_key_decides_once_for_what_was_shown() {
        let record = record();
        let all = [decider(1, Tier::ALL)];
        for answer in [Answer::Allow, Answer::Deny] {
            let bytes = signed(&record, 1, answer).to_json();
            assert_eq!(judged(&bytes, Some(&record), &all), Ok(answer));
        }
    }

    #[test]
    fn each_check_refuses_on_its_own() {
        let fine = record();
        let all = [decider(1, Tier::ALL)];
        let yes = signed(&fine, 1, Answer::Allow);
        let bytes = yes.to_json();
        let changed = |change: fn(&mut Record)| {
            let mut record = record();
            change(&mut record);
            judged(&bytes, Some(&record), &all)
        };
        assert_eq!(changed(|it| it.state = State::Denied), Err(DecisionError::NotOpen));
        assert_eq!(changed(|it| it.expires_at = Some(now())), Err(DecisionError::Expired));
        assert_eq!(changed(|it| it.args_hash = Digest::of(b"other")), Err(DecisionError::Changed));
        assert_eq!(changed(|it| it.facts[0].text = "rm".into()), Err(DecisionError::Changed));
        assert_eq!(changed(|it| it.base_state_hash = Some(Digest::of(b"x"))), Err(DecisionError::Changed));
        assert_eq!(changed(|it| it.channel_floor = Floor::Pad), Err(DecisionError::Local));
        assert_eq!(judged(&bytes, None, &all), Err(DecisionError::NotOpen));
        assert_eq!(judged(&bytes, Some(&fine), &[]), Err(DecisionError::Stranger));
        assert_eq!(judged(&bytes, Some(&fine), &[decider(2, Tier::ALL)]), Err(DecisionError::Stranger));
        let limited = [decider(1, &[Tier::Stateful])];
        assert_eq!(judged(&bytes, Some(&fine), &limited), Err(DecisionError::Tier(Tier::HardwareIo)));
        let no = signed(&fine, 1, Answer::Deny).to_json();
        assert_eq!(judged(&no, Some(&fine), &limited), Ok(Answer::Deny));
        let policy =
            Asked { rig: RIG, record: Some(&fine), policy_version: Digest::of(b"new"), deciders: &all, now: now() };
        assert_eq!(judge(&bytes, fine.id, &policy).unwrap_err(), DecisionError::Policy);
        let elsewhere = Asked { rig: "stage-right", ..policy };
        assert_eq!(judge(&bytes, fine.id, &elsewhere).unwrap_err(), DecisionError::Other);
        assert_eq!(judge(&bytes, Uuid::nil(), &policy).unwrap_err(), DecisionError::Other);
        let question = Question::of(&fine).unwrap();
        let early = Decision::sign(RIG, &question, Answer::Allow, Timestamp::from_millis(5), "x", &key(1));
        assert_eq!(judged(&early.to_json(), Some(&fine), &all), Err(DecisionError::Time));
        let late = Decision::sign(RIG, &question, Answer::Allow, now().plus_millis(400_000), "x", &key(1));
        assert_eq!(judged(&late.to_json(), Some(&fine), &all), Err(DecisionError::Time));
        // This decision names the enrolled key, but another key signed it.
        let forged = Decision { sig: signed(&fine, 2, Answer::Allow).sig, ..yes.clone() };
        assert_eq!(judged(&forged.to_json(), Some(&fine), &all), Err(DecisionError::Signature));
        let flipped = Decision { answer: Answer::Deny, ..yes };
        assert_eq!(judged(&flipped.to_json(), Some(&fine), &all), Err(DecisionError::Signature));
    }

    #[test]
    fn questions_are_read_back_and_large_ones_are_not_shared() {
        let (record, mut large) = (record(), record());
        large.facts[0].text = "x".repeat(MAX_QUESTION);
        let shared = Questions::of(RIG, [&record, &large].into_iter());
        assert_eq!(shared.questions.len(), 1);
        let bytes = serde_json::to_vec(&shared).unwrap();
        assert_eq!(Questions::read(RIG, &bytes), Some(shared));
        assert_eq!(Questions::read("stage-right", &bytes), None);
        assert_eq!(Questions::read(RIG, b"{}"), None);
    }

    proptest! {
        #[test]
        fn no_changed_byte_of_a_decision_counts(at in 0_usize..600, flip in 1_u8..=255) {
            let record = record();
            let mut bytes = signed(&record, 1, Answer::Allow).to_json();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            // Some changed bytes are only another JSON form of the same content. Such a decision is
            // accepted, so check that its content is equal.
            if let Ok(answer) = judged(&bytes, Some(&record), &[decider(1, Tier::ALL)]) {
                let read: Decision = serde_json::from_slice(&bytes).unwrap();
                prop_assert_eq!(read, signed(&record, 1, answer));
                prop_assert_eq!(answer, Answer::Allow);
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            prop_assert!(judged(&bytes, Some(&record()), &[decider(1, Tier::ALL)]).is_err());
            prop_assert!(Questions::read(RIG, &bytes).is_none());
        }
    }
}
