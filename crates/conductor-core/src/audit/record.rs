//! The content of audit records. The order of the members in [`Entry::write`] is part of the
//! format.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use uuid::Uuid;

use super::line::Fields;
use crate::digest::{Digest, write_hex};
use crate::error::{AuditResult, Code, Effect};
use crate::named_enum::named_enum;
use crate::policy::{Channel, Tier};
use crate::principal::Principal;
use crate::timestamp::Timestamp;

/// Longest tool name, connection name and principal in a record, in bytes. Longer names are cut.
const MAX_NAME: usize = 128;
/// Longest `input`, in bytes of JSON. A longer `input` is written as shortened text.
const MAX_INPUT: usize = 4096;
const MAX_DETAIL: usize = 16 * 1024;

/// Id and time of a record. The time of an outcome is the end of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Id of the record, a UUIDv7.
    pub id: Uuid,
    /// Wall-clock time of the record.
    pub ts: Timestamp,
}

/// One record without its number and its link to the previous record.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// The first line of each segment file.
    Segment {
        /// Random id of the log.
        log_id: Uuid,
        /// Number of this file, from 1.
        segment: u32,
        /// Number of the previous file.
        prev_segment: Option<u32>,
    },
    /// A call with an effect is about to run.
    Intent(CallFacts),
    /// A call has ended.
    Outcome(CallFacts, OutcomeFacts),
    /// An event that is not a call. `detail` never contains values of arguments, results or
    /// secrets.
    Event {
        /// Who caused the event; absent for the daemon itself.
        principal: Option<Principal>,
        /// Name of the connection.
        conn: Option<String>,
        event: EventName,
        /// Facts of this event.
        detail: Value,
    },
    /// A repair after a failure of the log or the daemon.
    Recovery {
        /// Kind of repair.
        event: Recovery,
        /// Facts of this repair.
        detail: Value,
    },
}

/// The facts of a call that are known before it ends. The intent and the outcome of a call contain
/// the same facts.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFacts {
    /// UUIDv7 of the call, the same in its intent and outcome.
    pub call: Uuid,
    /// The caller.
    pub principal: Principal,
    /// Name of the connection.
    pub conn: Option<String>,
    /// Name of the tool. For an unknown tool, the requested name.
    pub tool: String,
    /// Tier of the tool; absent for an unknown tool.
    pub tier: Option<Tier>,
    /// Digest of the tool, for a tool of a plugin.
    pub pin: Option<Digest>,
    /// Keyed hash of the arguments.
    pub input_hash: InputHash,
    /// The arguments without secrets; only if `detail` in `[audit]` is `full`.
    pub input: Option<Value>,
    /// How the call was made, if not as `tools/call`.
    pub via: Option<Via>,
    /// The script that made the call.
    pub script: Option<ScriptRef>,
    /// The approval of this call.
    pub approval: Option<ApprovalRef>,
}

/// The script that made a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptRef {
    /// The same id for all calls of one script.
    pub execution: Uuid,
    /// The call ran on copies, so it changed nothing.
    pub dry_run: bool,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct OutcomeFacts {
    /// How the call ended.
    pub result: AuditResult,
    /// Code of the error.
    pub code: Option<Code>,
    /// Whether a failed call changed something.
    pub effect: Option<Effect>,
    /// Number of attempts, including the first.
    pub attempts: u32,
    /// Time from receiving the call to its end.
    pub duration_ms: u64,
    /// Size of the result in bytes.
    pub output_bytes: u64,
}

/// A way to call a tool other than `tools/call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// The call was made as `resources/read`.
    Resource,
    /// The call was made with `conductor_call_tool`.
    CallTool,
}

/// The approval of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRef {
    /// Id of the approval.
    pub id: Uuid,
    /// Principal of the person, as text.
    pub by: String,
    /// How the approval was given.
    pub channel: AnsweredBy,
}

/// How an approval was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    /// A person, through this channel.
    Person(Channel),
    /// An earlier approval that covers further calls.
    Grant,
    /// The approval of a plan, which also covers the calls of its mappings.
    Mapping,
}

impl AnsweredBy {
    /// The word in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person(channel) => channel.as_str(),
            Self::Grant => "grant",
            Self::Mapping => "mapping",
        }
    }
}

named_enum! {
    /// Events that are not calls.
    #[expect(missing_docs, reason = "the names explain themselves")]
    pub enum EventName {
        DaemonStart = "daemon.start",
        DaemonStop = "daemon.stop",
        ConfigLoaded = "config.loaded",
        ConfigRejected = "config.rejected",
        ConfigHeld = "config.held",
        ConfigAccepted = "config.accepted",
        PolicyChanged = "policy.changed",
        AuthFailed = "auth.failed",
        ApprovalAsked = "approval.asked",
        ApprovalAllowed = "approval.allowed",
        ApprovalDenied = "approval.denied",
        ApprovalExpired = "approval.expired",
        PlanCreated = "plan.created",
        PlanApplied = "plan.applied",
        PlanRejected = "plan.rejected",
        PlanUndone = "plan.undone",
        ConsoleOpened = "console.opened",
        ConsoleEnded = "console.ended",
        PhonePaired = "phone.paired",
        PhoneRevoked = "phone.revoked",
        PluginEnabled = "plugin.enabled",
        PluginDisabled = "plugin.disabled",
        PluginFailed = "plugin.failed",
        SecretSet = "secret.set",
        SecretRemoved = "secret.removed",
        SecretRotated = "secret.rotated",
        CircuitTripped = "circuit.tripped",
        CircuitClosed = "circuit.closed",
        CircuitReset = "circuit.reset",
        DeviceLost = "device.lost",
        AuditRotated = "audit.rotated",
        AuditAccepted = "audit.accepted",
        AuditExported = "audit.exported",
    }
}

named_enum! {
    /// The kind of a recovery record.
    pub enum Recovery {
        /// The log ended in bytes that are not a record; they were moved to another file.
        TornTail = "audit.torn",
        /// A call started, and its end was never recorded. It may have had an effect.
        Unanswered = "call.unanswered",
        /// The operating system could not sync the segment to the disk, so no more records are
        /// written to the segment.
        Poisoned = "audit.poisoned",
        /// The log can be written again after a failure.
        Resumed = "audit.resumed",
    }
}

impl Entry {
    /// The value of `phase`.
    pub const fn phase(&self) -> &'static str {
        match self {
            Self::Segment { .. } => "segment",
            Self::Intent(_) => "intent",
            Self::Outcome(..) => "outcome",
            Self::Event { .. } => "event",
            Self::Recovery { .. } => "recovery",
        }
    }

    /// Whether the record is published to a witness: every record except the outcome of a read or
    /// of a call to an unknown tool.
    pub fn is_published(&self) -> bool {
        match self {
            Self::Outcome(call, _) => call.tier.is_some_and(|it| it != Tier::ReadOnly),
            Self::Segment { .. } | Self::Intent(_) | Self::Event { .. } | Self::Recovery { .. } => true,
        }
    }

    pub(super) fn write(&self, stamp: &Stamp, fields: &mut Fields<'_>) {
        if !matches!(self, Self::Segment { .. }) {
            uuid(fields, "id", stamp.id);
        }
        fields.plain("ts", &stamp.ts.to_bytes());
        fields.plain("phase", self.phase().as_bytes());
        match self {
            Self::Segment { log_id, segment, prev_segment } => {
                uuid(fields, "log_id", *log_id);
                fields.number("segment", u64::from(*segment));
                match prev_segment {
                    Some(number) => fields.number("prev_segment", u64::from(*number)),
                    None => fields.null("prev_segment"),
                }
            }
            Self::Intent(call) => call.write(fields),
            Self::Outcome(call, outcome) => {
                call.write(fields);
                outcome.write(fields);
            }
            Self::Event { principal, conn, event, detail } => {
                if let Some(principal) = principal {
                    fields.text("principal", cut(&principal.to_string(), MAX_NAME));
                }
                if let Some(conn) = conn {
                    fields.text("conn", cut(conn, MAX_NAME));
                }
                fields.plain("event", event.as_str().as_bytes());
                write_detail(fields, detail);
            }
            Self::Recovery { event, detail } => {
                fields.plain("event", event.as_str().as_bytes());
                write_detail(fields, detail);
            }
        }
    }
}

fn uuid(fields: &mut Fields<'_>, key: &str, id: Uuid) {
    fields.plain(key, id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
}

fn write_detail(fields: &mut Fields<'_>, detail: &Value) {
    let text = detail.to_string();
    if text.len() <= MAX_DETAIL {
        fields.json("detail", detail);
    } else {
        fields.json("detail", &serde_json::json!({"cut": cut(&text, MAX_DETAIL / 4), "bytes": text.len()}));
    }
}

impl CallFacts {
    fn write(&self, fields: &mut Fields<'_>) {
        uuid(fields, "call", self.call);
        fields.text("principal", cut(&self.principal.to_string(), MAX_NAME));
        if let Some(conn) = &self.conn {
            fields.text("conn", cut(conn, MAX_NAME));
        }
        fields.text("tool", cut(&self.tool, MAX_NAME));
        if let Some(tier) = self.tier {
            fields.plain("tier", tier.as_str().as_bytes());
        }
        if let Some(pin) = self.pin {
            fields.plain("pin", &pin.to_text());
        }
        fields.plain("input_hash", &self.input_hash.to_text());
        if let Some(input) = &self.input {
            let text = input.to_string();
            if text.len() <= MAX_INPUT {
                fields.json("input", input)
            } else {
                fields.text("input", cut(&text, MAX_INPUT))
            }
        }
        match self.via {
            Some(Via::Resource) => fields.plain("via", b"resource"),
            Some(Via::CallTool) => fields.plain("via", b"call_tool"),
            None => {}
        }
        if let Some(ScriptRef { execution, dry_run }) = self.script {
            uuid(fields, "execution_id", execution);
            if dry_run {
                fields.json("dry_run", &Value::Bool(true));
            }
        }
        if let Some(ApprovalRef { id, by, channel }) = &self.approval {
            let by = cut(by, MAX_NAME);
            fields.json("approval", &serde_json::json!({"id": id.to_string(), "by": by, "channel": channel.as_str()}));
        }
    }
}

impl OutcomeFacts {
    fn write(&self, fields: &mut Fields<'_>) {
        fields.plain("result", self.result.as_str().as_bytes());
        if let Some(code) = self.code {
            fields.plain("code", code.as_str().as_bytes());
        }
        if let Some(effect) = self.effect {
            fields.plain("effect", effect.as_str().as_bytes());
        }
        fields.number("attempts", u64::from(self.attempts));
        fields.number("duration_ms", self.duration_ms);
        fields.number("output_bytes", self.output_bytes);
    }
}

fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// Keyed hash of a call's arguments. Equal arguments have equal hashes. An attacker without the
/// salt cannot find short arguments by trying all values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InputHash([u8; 32]);

impl InputHash {
    fn to_text(self) -> [u8; 76] {
        let mut out = [0; 76];
        out[..12].copy_from_slice(b"hmac-sha256:");
        write_hex(&self.0, &mut out[12..]);
        out
    }
}

impl fmt::Display for InputHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hmac-sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for InputHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hashes arguments with the salt of the log.
#[derive(Clone)]
pub struct InputHasher {
    keyed: Hmac<Sha256>,
}

impl fmt::Debug for InputHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InputHasher(..)")
    }
}

impl InputHasher {
    /// A hasher with the key of this log.
    pub fn new(salt: &[u8; 32]) -> Self {
        // HMAC pads a short key with zeros to the block size. Do that here, so that `new` cannot
        // fail because of the length.
        let mut block = [0; 64];
        block[..32].copy_from_slice(salt);
        Self { keyed: Hmac::new(&block.into()) }
    }

    /// Hashes the canonical JSON of arguments. Also accepts arguments that [`crate::digest::check`]
    /// refuses, because refused calls are recorded too.
    pub fn hash(&self, arguments: &Value) -> InputHash {
        let bytes = serde_json_canonicalizer::to_vec(arguments).unwrap_or_default();
        InputHash(self.keyed.clone().chain_update(&bytes).finalize().into_bytes().into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::audit::line::{Chain, read};
    use serde_json::json;

    pub(crate) fn stamp(n: u64) -> Stamp {
        Stamp { id: Uuid::from_u128(u128::from(n)), ts: Timestamp::from_millis(1_767_323_045_000 + n) }
    }

    pub(crate) fn call(tool: &str) -> CallFacts {
        CallFacts {
            call: Uuid::from_u128(7),
            principal: Principal::socket(1000, "demo"),
            conn: Some("c4".into()),
            tool: tool.into(),
            tier: Some(Tier::HardwareIo),
            pin: Some(Digest::of(b"pin")),
            input_hash: InputHasher::new(&[0; 32]).hash(&json!({})),
            input: None,
            via: None,
            script: None,
            approval: None,
        }
    }

    fn line_of(entry: &Entry) -> String {
        let mut out = Vec::new();
        Chain::after(4, Digest::of(b"")).append(&stamp(0), entry, &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn members_stand_in_the_order_of_the_format() {
        let call = CallFacts {
            input: Some(json!({"hash": "x"})),
            via: Some(Via::Resource),
            script: Some(ScriptRef { execution: Uuid::from_u128(9), dry_run: true }),
            approval: Some(ApprovalRef {
                id: Uuid::from_u128(1),
                by: "person:1".into(),
                channel: AnsweredBy::Person(Channel::Pad),
            }),
            ..call("filesystem.delete")
        };
        let outcome = OutcomeFacts {
            result: AuditResult::Timeout,
            code: Some(Code::Timeout),
            effect: Some(Effect::Unknown),
            attempts: 1,
            duration_ms: 30_000,
            output_bytes: 0,
        };
        let keys = |line: &str| -> Vec<String> {
            let value: Value = serde_json::from_str(line).expect("JSON");
            value.as_object().expect("an object").keys().cloned().collect()
        };
        let all = "v seq id ts phase call principal conn tool tier pin input_hash input via execution_id dry_run approval result code effect attempts \
                   duration_ms output_bytes prev hash";
        assert_eq!(keys(&line_of(&Entry::Outcome(call.clone(), outcome))).join(" "), all);
        let intent = keys(&line_of(&Entry::Intent(call))).join(" ");
        assert_eq!(
            intent,
            "v seq id ts phase call principal conn tool tier pin input_hash input via execution_id dry_run approval prev hash"
        );
        let event = Entry::Event {
            principal: Some(Principal::Person { uid: 1 }),
            conn: Some("c".into()),
            event: EventName::ApprovalAllowed,
            detail: json!({}),
        };
        assert_eq!(keys(&line_of(&event)).join(" "), "v seq id ts phase principal conn event detail prev hash");
        let segment = Entry::Segment { log_id: Uuid::from_u128(1), segment: 2, prev_segment: Some(1) };
        assert_eq!(keys(&line_of(&segment)).join(" "), "v seq ts phase log_id segment prev_segment prev hash");
    }

    #[test]
    fn nothing_in_a_record_can_break_the_line() {
        let tool = "x\n{\"v\":1}\u{1b}[2J\u{202e}".repeat(40);
        let line = line_of(&Entry::Intent(CallFacts {
            principal: Principal::Mapping { mode: "\"\n".repeat(500), id: "i".into() },
            input: Some(json!({"a": "\u{0}\n".repeat(4000)})),
            ..call(&tool)
        }));
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains('\u{1b}') && !line.contains('\0'));
        assert!(read(line.trim_end().as_bytes()).is_ok());
        let value: Value = serde_json::from_str(&line).expect("JSON");
        assert!(value["tool"].as_str().is_some_and(|name| tool.starts_with(name) && name.len() <= 128));
        let big = Entry::Recovery { event: Recovery::TornTail, detail: json!({"x": "\u{1}".repeat(100_000)}) };
        assert!(line_of(&big).len() < crate::audit::line::MAX_LINE);
    }

    #[test]
    fn notes_cannot_be_guessed_without_the_salt() {
        let secret = InputHasher::new(&[9; 32]).hash(&json!({"note": 60}));
        let guess =
            |salt: &[u8; 32]| (0..128).any(|note| InputHasher::new(salt).hash(&json!({"note": note})) == secret);
        assert!(guess(&[9; 32]));
        assert!(!guess(&[0; 32]));
        let unkeyed =
            (0..128).any(|note| Digest::of_json(&json!({"note": note})).is_ok_and(|d| *d.as_bytes() == secret.0));
        assert!(!unkeyed);
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::HashSet<_> = EventName::ALL.iter().map(|event| event.as_str()).collect();
        assert_eq!(names.len(), EventName::ALL.len());
    }
}
