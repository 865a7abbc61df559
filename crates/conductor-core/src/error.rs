//! The one error that leaves a tool, and what each door makes of its code.
//!
//! Not here: JSON-RPC and MCP envelopes, which are the doors'. Errors of the pure modules are enums
//! of their own; the pipeline turns them into a [`ToolError`] where it knows what the caller can do
//! about them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::timestamp::Timestamp;

/// Every code a caller can see. Closed: each door has an exhaustive match over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    BadInput,
    NotFound,
    StaleReference,
    WrongType,
    Unsupported,
    SdkRejected,
    HostOffline,
    Timeout,
    Denied,
    ApprovalRequired,
    PlanExpired,
    PlanStale,
    CircuitOpen,
    RateLimited,
    PinMismatch,
    AuditUnavailable,
    Busy,
    Internal,
}

impl Code {
    pub const ALL: [Self; 18] = [
        Self::BadInput,
        Self::NotFound,
        Self::StaleReference,
        Self::WrongType,
        Self::Unsupported,
        Self::SdkRejected,
        Self::HostOffline,
        Self::Timeout,
        Self::Denied,
        Self::ApprovalRequired,
        Self::PlanExpired,
        Self::PlanStale,
        Self::CircuitOpen,
        Self::RateLimited,
        Self::PinMismatch,
        Self::AuditUnavailable,
        Self::Busy,
        Self::Internal,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadInput => "BAD_INPUT",
            Self::NotFound => "NOT_FOUND",
            Self::StaleReference => "STALE_REFERENCE",
            Self::WrongType => "WRONG_TYPE",
            Self::Unsupported => "UNSUPPORTED",
            Self::SdkRejected => "SDK_REJECTED",
            Self::HostOffline => "HOST_OFFLINE",
            Self::Timeout => "TIMEOUT",
            Self::Denied => "DENIED",
            Self::ApprovalRequired => "APPROVAL_REQUIRED",
            Self::PlanExpired => "PLAN_EXPIRED",
            Self::PlanStale => "PLAN_STALE",
            Self::CircuitOpen => "CIRCUIT_OPEN",
            Self::RateLimited => "RATE_LIMITED",
            Self::PinMismatch => "PIN_MISMATCH",
            Self::AuditUnavailable => "AUDIT_UNAVAILABLE",
            Self::Busy => "BUSY",
            Self::Internal => "INTERNAL",
        }
    }

    /// What a model can do in its next turn, when the place that failed knows nothing better.
    pub const fn default_hint(self) -> &'static str {
        match self {
            Self::BadInput => "Correct the arguments at the JSON pointers in `violations`, then call again.",
            Self::NotFound => "Call the matching list tool and use a name or id from its answer.",
            Self::StaleReference => "List the objects again and use a fresh id.",
            Self::WrongType => "List the objects again and use an id of the type this tool takes.",
            Self::Unsupported => "Stop: this host cannot do it. Choose another tool or tell the person.",
            Self::SdkRejected => "Repeat the call once; if it is refused again, make a simpler change.",
            Self::HostOffline => {
                "Ask the person to start the program or connect the device; it is picked up by itself. Then repeat the call."
            }
            Self::Timeout => "Read the state before repeating: the work may have been done.",
            Self::Denied => "Do not repeat the call; ask the person.",
            Self::ApprovalRequired => {
                "A person must answer in the Conductor console or terminal. After a yes, repeat the identical call; it runs once."
            }
            Self::PlanExpired => "Read the state and make a new plan.",
            Self::PlanStale => "The state changed since the plan or the yes. Read it again and make a new plan.",
            Self::CircuitOpen => "Wait `retry_after_ms` and repeat the call, or use another tool.",
            Self::RateLimited => "Wait `retry_after_ms` and send fewer calls.",
            Self::PinMismatch => {
                "The tool is not the one that was allowed. A person must look at it and enable it again."
            }
            Self::AuditUnavailable => {
                "The audit log cannot be written, so no call is made. `effect` says whether this one had one. Tell the person."
            }
            Self::Busy => "Wait for running calls or open questions to finish, then repeat the call.",
            Self::Internal => "Report it to the person. `effect` says whether the call changed something.",
        }
    }

    /// Whether the circuit breaker counts it: only a host that hangs and a fault of our own. The
    /// others are answers about the caller's world. They come at once and say what to do, so
    /// switching the tool off would only hide them.
    pub const fn counts_for_breaker(self) -> bool {
        match self {
            Self::Timeout | Self::Internal => true,
            Self::HostOffline
            | Self::BadInput
            | Self::NotFound
            | Self::StaleReference
            | Self::WrongType
            | Self::Unsupported
            | Self::SdkRejected
            | Self::Denied
            | Self::ApprovalRequired
            | Self::PlanExpired
            | Self::PlanStale
            | Self::CircuitOpen
            | Self::RateLimited
            | Self::PinMismatch
            | Self::AuditUnavailable
            | Self::Busy => false,
        }
    }

    pub const fn http_status(self) -> u16 {
        match self {
            Self::BadInput | Self::WrongType => 400,
            Self::NotFound | Self::StaleReference => 404,
            Self::Unsupported | Self::SdkRejected => 422,
            Self::HostOffline | Self::CircuitOpen | Self::AuditUnavailable | Self::Busy => 503,
            Self::Timeout => 504,
            Self::Denied => 403,
            Self::ApprovalRequired => 202,
            Self::PlanExpired | Self::PlanStale | Self::PinMismatch => 409,
            Self::RateLimited => 429,
            Self::Internal => 500,
        }
    }

    /// The JSON-RPC number of the direct dialect. Numbers group; `data.code` tells apart.
    pub const fn direct_number(self, subject: Option<&Subject>) -> i32 {
        match self {
            Self::BadInput | Self::WrongType | Self::StaleReference => -32602,
            Self::NotFound => match subject {
                Some(Subject::Config(_)) => -32000,
                Some(Subject::Mode(_)) => -32001,
                Some(Subject::Device(_) | Subject::Port(_)) => -32002,
                Some(Subject::Plan(_) | Subject::Approval(_)) => -32004,
                Some(Subject::Host(_) | Subject::Tool(_) | Subject::Argument(_) | Subject::Other(_)) | None => -32602,
            },
            Self::HostOffline => match subject {
                Some(Subject::Device(_) | Subject::Port(_)) => -32002,
                Some(
                    Subject::Config(_)
                    | Subject::Mode(_)
                    | Subject::Plan(_)
                    | Subject::Approval(_)
                    | Subject::Host(_)
                    | Subject::Tool(_)
                    | Subject::Argument(_)
                    | Subject::Other(_),
                )
                | None => -32008,
            },
            Self::PlanExpired => -32003,
            Self::PlanStale => -32005,
            Self::ApprovalRequired | Self::Denied => -32006,
            Self::RateLimited => -32007,
            Self::SdkRejected | Self::Timeout => -32008,
            Self::Unsupported => -32009,
            Self::CircuitOpen => -32010,
            Self::Busy => -32011,
            Self::PinMismatch => -32012,
            Self::AuditUnavailable => -32013,
            Self::Internal => -32603,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not one of the codes: {0:?}")]
pub struct NotACode(pub String);

impl FromStr for Code {
    type Err = NotACode;

    /// For codes that come from a plugin or a bridge.
    fn from_str(text: &str) -> Result<Self, NotACode> {
        Self::ALL
            .into_iter()
            .find(|code| code.as_str() == text)
            .ok_or_else(|| NotACode(text.chars().take(64).collect()))
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What an error is about. A string on the wire; the kind picks the number of the direct dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Config(String),
    Mode(String),
    Device(String),
    Port(String),
    Plan(String),
    Approval(String),
    Host(String),
    Tool(String),
    Argument(String),
    Other(String),
}

impl Subject {
    fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Config(text)
            | Self::Mode(text)
            | Self::Device(text)
            | Self::Port(text)
            | Self::Plan(text)
            | Self::Approval(text)
            | Self::Host(text)
            | Self::Tool(text)
            | Self::Argument(text)
            | Self::Other(text) => text,
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Config(text)
            | Self::Mode(text)
            | Self::Device(text)
            | Self::Port(text)
            | Self::Plan(text)
            | Self::Approval(text)
            | Self::Host(text)
            | Self::Tool(text)
            | Self::Argument(text)
            | Self::Other(text) => text,
        }
    }
}

/// Whether a failed call changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    None,
    Done,
    Unknown,
}

impl Effect {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Done => "done",
            Self::Unknown => "unknown",
        }
    }
}

/// Who said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBy {
    Policy,
    Person,
    Limit,
}

/// One fault of the arguments: where, and which constraint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    pub path: String,
    pub message: String,
}

/// The open question a caller is told about. The id is inert: knowing it gives no power.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenQuestion {
    pub approval_id: String,
    pub short: String,
    pub expires_at: Timestamp,
    pub summary: String,
}

/// The last failure behind an open circuit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    pub code: Code,
    pub message: String,
}

/// Members that only some codes have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extras {
    pub violations: Vec<Violation>,
    pub by: Option<RefusedBy>,
    pub question: Option<OpenQuestion>,
    pub cause: Option<Cause>,
    pub did_you_mean: Vec<String>,
    /// Members of one tool's own, such as the risk assessment of a SysEx message. They never
    /// replace a member named above.
    pub more: Map<String, Value>,
}

/// A failed call, as every door shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    pub code: Code,
    pub message: String,
    pub hint: String,
    pub subject: Option<Subject>,
    /// Present on every error of an effectful tool.
    pub effect: Option<Effect>,
    pub retry_after_ms: Option<u64>,
    // Boxed: errors travel in `Result`s far more often as absent than as present.
    pub extras: Box<Extras>,
}

impl ToolError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: code.default_hint().to_owned(),
            subject: None,
            effect: None,
            retry_after_ms: None,
            extras: Box::default(),
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    #[must_use]
    pub fn subject(mut self, subject: Subject) -> Self {
        self.subject = Some(subject);
        self
    }

    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    #[must_use]
    pub fn by(mut self, by: RefusedBy) -> Self {
        self.extras.by = Some(by);
        self
    }

    #[must_use]
    pub fn violations(mut self, violations: Vec<Violation>) -> Self {
        self.extras.violations = violations;
        self
    }

    #[must_use]
    pub fn question(mut self, question: OpenQuestion) -> Self {
        self.extras.question = Some(question);
        self
    }

    #[must_use]
    pub fn cause(mut self, code: Code, message: impl Into<String>) -> Self {
        self.extras.cause = Some(Cause { code, message: message.into() });
        self
    }

    #[must_use]
    pub fn did_you_mean(mut self, names: Vec<String>) -> Self {
        self.extras.did_you_mean = names;
        self
    }

    #[must_use]
    pub fn more(mut self, key: impl Into<String>, value: Value) -> Self {
        self.extras.more.insert(key.into(), value);
        self
    }

    /// The object that MCP puts into `structuredContent`, HTTP into the body and the direct dialect
    /// into `error.data`.
    pub fn to_wire(&self) -> Value {
        let Extras { violations, by, question, cause, did_you_mean, more } = &*self.extras;
        let mut wire = Map::new();
        wire.insert("code".into(), json!(self.code));
        wire.insert("message".into(), json!(self.message));
        wire.insert("hint".into(), json!(self.hint));
        wire.insert("subject".into(), json!(self.subject.as_ref().map(Subject::as_str)));
        if let Some(ms) = self.retry_after_ms {
            wire.insert("retry_after_ms".into(), json!(ms));
        }
        if let Some(cause) = cause {
            wire.insert("cause".into(), json!(cause));
        }
        if let Some(effect) = self.effect {
            wire.insert("effect".into(), json!(effect));
        }
        if !violations.is_empty() {
            wire.insert("violations".into(), json!(violations));
        }
        if let Some(by) = by {
            wire.insert("by".into(), json!(by));
        }
        if let Some(OpenQuestion { approval_id, short, expires_at, summary }) = question {
            wire.insert("approval_id".into(), json!(approval_id));
            wire.insert("short".into(), json!(short));
            wire.insert("expires_at".into(), json!(expires_at));
            wire.insert("summary".into(), json!(summary));
        }
        if !did_you_mean.is_empty() {
            wire.insert("did_you_mean".into(), json!(did_you_mean));
        }
        for (key, value) in more {
            wire.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(wire)
    }

    /// Every text of this failure, for whoever must clean them. Values in `more` are not texts and
    /// are left to the caller.
    pub fn each_text(&mut self, mut look: impl FnMut(&mut String)) {
        let Extras { violations, by: _, question, cause, did_you_mean, more: _ } = &mut *self.extras;
        let subject = self.subject.as_mut().map(Subject::text_mut);
        let cause = cause.as_mut().map(|it| &mut it.message);
        let summary = question.as_mut().map(|it| &mut it.summary);
        let violations = violations.iter_mut().flat_map(|it| [&mut it.path, &mut it.message]);
        [&mut self.message, &mut self.hint]
            .into_iter()
            .chain(subject)
            .chain(cause)
            .chain(summary)
            .chain(violations)
            .chain(did_you_mean)
            .for_each(&mut look);
    }

    /// The text block of an MCP result; some hosts show nothing else.
    pub fn to_text(&self) -> String {
        format!("{}\nRecovery: {}", self.message, self.hint)
    }

    pub fn audit_result(&self) -> AuditResult {
        AuditResult::of(self.code, self.subject.as_ref(), self.extras.by)
    }

    pub const fn direct_number(&self) -> i32 {
        self.code.direct_number(self.subject.as_ref())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ToolError {}

/// The word an audit record has for the end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditResult {
    Ok,
    Error,
    Rejected,
    Denied,
    Timeout,
    CircuitOpen,
    RateLimited,
    Invalid,
    Pending,
    Cancelled,
}

impl AuditResult {
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Error,
        Self::Rejected,
        Self::Denied,
        Self::Timeout,
        Self::CircuitOpen,
        Self::RateLimited,
        Self::Invalid,
        Self::Pending,
        Self::Cancelled,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Rejected => "rejected",
            Self::Denied => "denied",
            Self::Timeout => "timeout",
            Self::CircuitOpen => "circuit_open",
            Self::RateLimited => "rate_limited",
            Self::Invalid => "invalid",
            Self::Pending => "pending",
            Self::Cancelled => "cancelled",
        }
    }

    /// A missing tool is the caller's fault in the request itself, a missing object one of the
    /// state it asked about. A person's no is told apart from a rule's.
    pub const fn of(code: Code, subject: Option<&Subject>, by: Option<RefusedBy>) -> Self {
        match code {
            Code::BadInput => Self::Invalid,
            Code::NotFound => match subject {
                Some(Subject::Tool(_)) => Self::Invalid,
                Some(
                    Subject::Config(_)
                    | Subject::Mode(_)
                    | Subject::Device(_)
                    | Subject::Port(_)
                    | Subject::Plan(_)
                    | Subject::Approval(_)
                    | Subject::Host(_)
                    | Subject::Argument(_)
                    | Subject::Other(_),
                )
                | None => Self::Error,
            },
            Code::Denied => match by {
                Some(RefusedBy::Person) => Self::Rejected,
                Some(RefusedBy::Policy | RefusedBy::Limit) | None => Self::Denied,
            },
            Code::StaleReference
            | Code::WrongType
            | Code::Unsupported
            | Code::SdkRejected
            | Code::HostOffline
            | Code::AuditUnavailable
            | Code::Internal => Self::Error,
            Code::Timeout => Self::Timeout,
            Code::ApprovalRequired => Self::Pending,
            Code::PlanExpired | Code::PlanStale => Self::Rejected,
            Code::CircuitOpen => Self::CircuitOpen,
            Code::RateLimited | Code::Busy => Self::RateLimited,
            Code::PinMismatch => Self::Denied,
        }
    }
}

impl fmt::Display for AuditResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AuditResult {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|result| result.as_str() == text).ok_or_else(|| {
            let words: Vec<_> = Self::ALL.iter().map(|result| result.as_str()).collect();
            format!("expected one of {}", words.join(" "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the pipeline's contract, in words: code, audit result, counts, HTTP status,
    /// direct number without a subject.
    const TABLE: &str = "\
        BAD_INPUT invalid no 400 -32602
        NOT_FOUND error no 404 -32602
        STALE_REFERENCE error no 404 -32602
        WRONG_TYPE error no 400 -32602
        UNSUPPORTED error no 422 -32009
        SDK_REJECTED error no 422 -32008
        HOST_OFFLINE error no 503 -32008
        TIMEOUT timeout yes 504 -32008
        DENIED denied no 403 -32006
        APPROVAL_REQUIRED pending no 202 -32006
        PLAN_EXPIRED rejected no 409 -32003
        PLAN_STALE rejected no 409 -32005
        CIRCUIT_OPEN circuit_open no 503 -32010
        RATE_LIMITED rate_limited no 429 -32007
        PIN_MISMATCH denied no 409 -32012
        AUDIT_UNAVAILABLE error no 503 -32013
        BUSY rate_limited no 503 -32011
        INTERNAL error yes 500 -32603";

    #[test]
    fn every_code_is_what_the_contract_says() {
        let lines: Vec<String> = Code::ALL
            .into_iter()
            .map(|code| {
                let counts = if code.counts_for_breaker() { "yes" } else { "no" };
                let result = ToolError::new(code, "").audit_result();
                format!("{code} {result} {counts} {} {}", code.http_status(), code.direct_number(None))
            })
            .collect();
        let wanted: Vec<&str> = TABLE.lines().map(str::trim).collect();
        assert_eq!(lines, wanted);
    }

    #[test]
    fn names_round_trip() {
        for code in Code::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
            assert!(!code.default_hint().is_empty());
        }
        assert!("NOPE".parse::<Code>().is_err());
        for result in AuditResult::ALL {
            assert_eq!(result.as_str().parse(), Ok(result));
            assert_eq!(json!(result), json!(result.as_str()));
        }
    }

    #[test]
    fn the_subject_picks_number_and_result() {
        let missing = |subject| ToolError::new(Code::NotFound, "").subject(subject);
        let name = || "x".to_owned();
        for (subject, number) in [
            (Subject::Config(name()), -32000),
            (Subject::Mode(name()), -32001),
            (Subject::Device(name()), -32002),
            (Subject::Port(name()), -32002),
            (Subject::Plan(name()), -32004),
            (Subject::Approval(name()), -32004),
            (Subject::Tool(name()), -32602),
            (Subject::Argument(name()), -32602),
        ] {
            assert_eq!(missing(subject).direct_number(), number);
        }
        assert_eq!(missing(Subject::Tool(name())).audit_result(), AuditResult::Invalid);
        assert_eq!(Code::HostOffline.direct_number(Some(&Subject::Port(name()))), -32002);
        assert_eq!(Code::HostOffline.direct_number(Some(&Subject::Host(name()))), -32008);
        assert_eq!(ToolError::new(Code::Denied, "").by(RefusedBy::Person).audit_result(), AuditResult::Rejected);
    }

    #[test]
    fn wire_shape() {
        let error =
            ToolError::new(Code::CircuitOpen, "database.query is off after 10 failures in 60 s. Try again in 12 s.")
                .hint("Wait 12 s and repeat the call, or use another tool.")
                .subject(Subject::Tool("database.query".into()))
                .retry_after_ms(12_000)
                .cause(Code::HostOffline, "studio: connection refused")
                .effect(Effect::None);
        assert_eq!(
            error.to_wire().to_string(),
            concat!(
                r#"{"code":"CIRCUIT_OPEN","message":"database.query is off after 10 failures in 60 s. Try again in 12 s.","#,
                r#""hint":"Wait 12 s and repeat the call, or use another tool.","subject":"database.query","retry_after_ms":12000,"#,
                r#""cause":{"code":"HOST_OFFLINE","message":"studio: connection refused"},"effect":"none"}"#
            )
        );
        let error = ToolError::new(Code::StaleReference, "track:7 is gone.").hint("Call live_get_song_overview.");
        assert_eq!(error.to_text(), "track:7 is gone.\nRecovery: Call live_get_song_overview.");
        assert_eq!(error.to_wire()["subject"], Value::Null);
    }

    #[test]
    fn extras_stand_beside_and_never_replace() {
        let error = ToolError::new(Code::ApprovalRequired, "asks")
            .question(OpenQuestion {
                approval_id: "a".into(),
                short: "7F3K-Q2WD".into(),
                expires_at: Timestamp::from_millis(0),
                summary: "s".into(),
            })
            .more("status", json!("requires_confirmation"))
            .more("code", json!("forged"));
        let wire = error.to_wire();
        assert_eq!(wire["code"], "APPROVAL_REQUIRED");
        assert_eq!(wire["short"], "7F3K-Q2WD");
        assert_eq!(wire["expires_at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(wire["status"], "requires_confirmation");
    }
}
