//! The error type of every tool, and its form in MCP, HTTP and the audit log.
//!
//! Not here: JSON-RPC and MCP envelopes, which the listeners write. The other modules of this crate
//! have their own error enums; the pipeline converts them to a [`ToolError`] with a hint for the
//! caller.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::named_enum::named_enum;
use crate::timestamp::Timestamp;

/// Declares the codes. Each code has a name, an HTTP status, a JSON-RPC number, a result in the
/// audit log, a flag (whether the circuit breaker counts the failure) and a default hint.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $name:literal $http:literal $number:literal $audit:ident $counts:literal $hint:literal;)+) => {
        named_enum! {
            /// Every error code that a caller can receive. A match over the codes lists all of
            /// them, so that a new code cannot be forgotten there.
            #[derive(PartialOrd, Ord)]
            pub enum Code { $($(#[$doc])* $code = $name,)+ }
        }

        impl Code {
            /// HTTP status, JSON-RPC number, result in the audit log, whether the circuit breaker
            /// counts the failure, default hint.
            const fn facts(self) -> (u16, i32, AuditResult, bool, &'static str) {
                match self { $(Self::$code => ($http, $number, AuditResult::$audit, $counts, $hint)),+ }
            }
        }
    };
}

codes! {
    /// The arguments do not match the tool's schema.
    BadInput "BAD_INPUT" 400 -32602 Invalid false
        "Correct the arguments at the JSON pointers in `violations`, then call again.";
    /// No object has this name or id.
    NotFound "NOT_FOUND" 404 -32602 Error false
        "Call the matching list tool and use a name or id from its result.";
    /// The object existed when the id was issued, and no longer exists.
    StaleReference "STALE_REFERENCE" 404 -32602 Error false
        "List the objects again and use a fresh id.";
    /// The id names an object of another type.
    WrongType "WRONG_TYPE" 400 -32602 Error false
        "List the objects again and use an id of the type that this tool accepts.";
    /// The host does not support the operation.
    Unsupported "UNSUPPORTED" 422 -32009 Error false
        "Stop: this host does not support the operation. Choose another tool or tell the person.";
    /// The host refused this change.
    SdkRejected "SDK_REJECTED" 422 -32008 Error false
        "Repeat the call once; if it is refused again, make a simpler change.";
    /// The program is not running or the device is not connected.
    HostOffline "HOST_OFFLINE" 503 -32008 Error false
        "Ask the person to start the program or connect the device. Conductor detects this automatically. Then repeat the call.";
    /// The host did not answer in time.
    Timeout "TIMEOUT" 504 -32008 Timeout true
        "Read the state before you repeat the call, because the call may have taken effect.";
    /// A rule, a limit or a person refused the call.
    Denied "DENIED" 403 -32006 Denied false
        "Do not repeat the call; ask the person.";
    /// The call needs the approval of a person.
    ApprovalRequired "APPROVAL_REQUIRED" 202 -32006 Pending false
        "A person must answer in the Conductor console or terminal. After a yes, repeat the identical call; it runs once.";
    /// The plan has expired.
    PlanExpired "PLAN_EXPIRED" 409 -32003 Rejected false
        "Read the state and make a new plan.";
    /// The state changed after the plan was made or the approval was given.
    PlanStale "PLAN_STALE" 409 -32005 Rejected false
        "The state changed after the plan was made or approved. Read it again and make a new plan.";
    /// The circuit breaker of the tool is open.
    CircuitOpen "CIRCUIT_OPEN" 503 -32010 CircuitOpen false
        "Wait `retry_after_ms` and repeat the call, or use another tool.";
    /// The caller made too many calls in a short time.
    RateLimited "RATE_LIMITED" 429 -32007 RateLimited false
        "Wait `retry_after_ms` and send fewer calls.";
    /// The file of a plugin differs from the file that a person enabled.
    PinMismatch "PIN_MISMATCH" 409 -32012 Denied false
        "The tool changed after a person enabled it. A person must review it and enable it again.";
    /// The audit log cannot be written.
    AuditUnavailable "AUDIT_UNAVAILABLE" 503 -32013 Error false
        "The audit log cannot be written, so no call is made. `effect` reports whether this call changed something. Tell the person.";
    /// Too many calls are running, or too many approval requests are open.
    Busy "BUSY" 503 -32011 RateLimited false
        "Wait until running calls or open approval requests have ended, then repeat the call.";
    /// An error of Conductor itself.
    Internal "INTERNAL" 500 -32603 Error true
        "Report this error to the person. `effect` reports whether the call changed something.";
}

impl Code {
    /// The hint for a model if the error sets no other hint.
    pub const fn default_hint(self) -> &'static str {
        self.facts().4
    }

    /// Whether the circuit breaker counts this failure. Only a timeout of a host and an error of
    /// Conductor itself are counted. The other errors are returned at once with a hint, and an open
    /// breaker would hide them.
    pub const fn counts_for_breaker(self) -> bool {
        self.facts().3
    }

    /// Status of an HTTP response with this error.
    pub const fn http_status(self) -> u16 {
        self.facts().0
    }

    /// The JSON-RPC error number for direct tool calls (without an MCP session). Several codes
    /// share a number, so `data` also contains the code.
    pub const fn direct_number(self, subject: Option<&Subject>) -> i32 {
        match (self, subject) {
            (Self::NotFound, Some(Subject::Config(_))) => -32000,
            (Self::NotFound, Some(Subject::Mode(_))) => -32001,
            (Self::NotFound | Self::HostOffline, Some(Subject::Device(_) | Subject::Port(_))) => -32002,
            (Self::NotFound, Some(Subject::Plan(_) | Subject::Approval(_))) => -32004,
            (code, _) => code.facts().1,
        }
    }
}

/// The object that an error is about. On the wire it is a string; its kind selects the JSON-RPC
/// number of a direct call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is named like the kind of its object")]
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

/// Returns a reference to the name in a [`Subject`], mutable if the subject is mutable.
macro_rules! subject_text {
    ($subject:expr) => {
        match $subject {
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
    };
}

impl Subject {
    fn text_mut(&mut self) -> &mut String {
        subject_text!(self)
    }

    /// The name or id of the object.
    pub fn as_str(&self) -> &str {
        subject_text!(self)
    }
}

named_enum! {
    /// Whether a failed call changed something.
    pub enum Effect {
        /// Nothing was changed.
        None = "none",
        /// The change was made.
        Done = "done",
        /// The call ended before the host confirmed or refused the change.
        Unknown = "unknown",
    }
}

named_enum! {
    /// Who refused a call.
    pub enum RefusedBy {
        /// A rule of `[policy]`.
        Policy = "policy",
        /// A person who answered the approval request.
        Person = "person",
        /// A limit on open approval requests.
        Limit = "limit",
    }
}

/// One fault in the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// JSON pointer into the arguments.
    pub path: String,
    /// The violated constraint.
    pub message: String,
}

/// The open approval request that an error reports. The id is not a secret: it gives no right to
/// answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenQuestion {
    /// UUID of the request.
    pub approval_id: String,
    /// The id as eight characters for people.
    pub short: String,
    /// The request expires at this time.
    pub expires_at: Timestamp,
    /// The request in one line.
    pub summary: String,
}

/// The last failure before the circuit opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Code of the failure.
    pub code: Code,
    /// Message of the failure.
    pub message: String,
}

/// Members that only some codes have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extras {
    /// Faults in the arguments, for `BAD_INPUT`.
    pub violations: Vec<Violation>,
    /// Who refused the call, for `DENIED`.
    pub by: Option<RefusedBy>,
    /// The open approval request, for `APPROVAL_REQUIRED`.
    pub question: Option<OpenQuestion>,
    /// The last failure, for `CIRCUIT_OPEN`.
    pub cause: Option<Cause>,
    /// Similar names, for `NOT_FOUND`.
    pub did_you_mean: Vec<String>,
    /// Members of a single tool, such as the risk assessment of a SysEx message. They never replace
    /// a standard member.
    pub more: Map<String, Value>,
}

/// A failed call, the same for every listener.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    /// The error code.
    pub code: Code,
    /// Description of the failure, for people and models.
    pub message: String,
    /// Next step for the caller.
    pub hint: String,
    /// The object that the error is about.
    pub subject: Option<Subject>,
    /// Whether the call changed something. Present on every error of a tool with effects.
    pub effect: Option<Effect>,
    /// A repeated call fails until this many milliseconds have passed.
    pub retry_after_ms: Option<u64>,
    // Boxed to keep `Result`s small: most of them contain no error.
    /// Members that only some codes have.
    pub extras: Box<Extras>,
}

impl ToolError {
    /// An error with the default hint of its code.
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

    /// Replaces the default hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Sets the object that the error is about.
    #[must_use]
    pub fn subject(mut self, subject: Subject) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Sets whether the call changed something.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Sets the time to wait before a repeated call.
    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// Sets who refused the call.
    #[must_use]
    pub fn by(mut self, by: RefusedBy) -> Self {
        self.extras.by = Some(by);
        self
    }

    /// Sets the faults in the arguments.
    #[must_use]
    pub fn violations(mut self, violations: Vec<Violation>) -> Self {
        self.extras.violations = violations;
        self
    }

    /// Sets the open approval request.
    #[must_use]
    pub fn question(mut self, question: OpenQuestion) -> Self {
        self.extras.question = Some(question);
        self
    }

    /// Sets the last failure before the circuit opened.
    #[must_use]
    pub fn cause(mut self, code: Code, message: impl Into<String>) -> Self {
        self.extras.cause = Some(Cause { code, message: message.into() });
        self
    }

    /// Sets similar names.
    #[must_use]
    pub fn did_you_mean(mut self, names: Vec<String>) -> Self {
        self.extras.did_you_mean = names;
        self
    }

    /// Adds a member of a single tool.
    #[must_use]
    pub fn more(mut self, key: impl Into<String>, value: Value) -> Self {
        self.extras.more.insert(key.into(), value);
        self
    }

    /// The JSON object of the error. MCP has it in `structuredContent`, HTTP in the body, and a
    /// direct call in `error.data`.
    pub fn to_wire(&self) -> Value {
        let Extras { violations, by, question, cause, did_you_mean, more } = &*self.extras;
        let mut wire = Map::new();
        wire.insert("code".into(), json!(self.code));
        wire.insert("message".into(), json!(self.message));
        wire.insert("hint".into(), json!(self.hint));
        wire.insert("subject".into(), json!(self.subject.as_ref().map(Subject::as_str)));
        let optional = [
            ("retry_after_ms", self.retry_after_ms.map(|it| json!(it))),
            ("cause", cause.as_ref().map(|it| json!(it))),
            ("effect", self.effect.map(|it| json!(it))),
            ("violations", (!violations.is_empty()).then(|| json!(violations))),
            ("by", by.map(|it| json!(it))),
            ("approval_id", question.as_ref().map(|it| json!(it.approval_id))),
            ("short", question.as_ref().map(|it| json!(it.short))),
            ("expires_at", question.as_ref().map(|it| json!(it.expires_at))),
            ("summary", question.as_ref().map(|it| json!(it.summary))),
            ("did_you_mean", (!did_you_mean.is_empty()).then(|| json!(did_you_mean))),
        ];
        wire.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        for (key, value) in more {
            wire.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(wire)
    }

    /// Visits every text of this error, so that secrets can be scrubbed. Does not visit `more`; the
    /// caller must scrub it.
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

    /// The text block of an MCP result; some MCP clients show nothing else.
    pub fn to_text(&self) -> String {
        format!("{}\nRecovery: {}", self.message, self.hint)
    }

    /// How the call ended, for the audit log.
    pub fn audit_result(&self) -> AuditResult {
        AuditResult::of(self.code, self.subject.as_ref(), self.extras.by)
    }

    /// The JSON-RPC error number for direct tool calls.
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

named_enum! {
    /// How a call ended, as written in an audit record.
    pub enum AuditResult {
        /// The tool succeeded.
        Ok = "ok",
        /// The tool failed.
        Error = "error",
        /// A person refused, or the plan was expired or stale.
        Rejected = "rejected",
        /// A policy rule, a limit or a changed plugin file refused the call.
        Denied = "denied",
        /// The host did not answer in time.
        Timeout = "timeout",
        /// The circuit breaker refused the call.
        CircuitOpen = "circuit_open",
        /// A limit on rate or concurrency refused the call.
        RateLimited = "rate_limited",
        /// The request was invalid.
        Invalid = "invalid",
        /// The call waits for a person's approval.
        Pending = "pending",
        /// The caller cancelled the call.
        Cancelled = "cancelled",
    }
}

impl AuditResult {
    /// The result for an error code. An unknown tool is `Invalid`; any other missing object is
    /// `Error`. A refusal by a person is `Rejected`; a refusal by a rule is `Denied`.
    pub const fn of(code: Code, subject: Option<&Subject>, by: Option<RefusedBy>) -> Self {
        match (code, subject, by) {
            (Code::NotFound, Some(Subject::Tool(_)), _) => Self::Invalid,
            (Code::Denied, _, Some(RefusedBy::Person)) => Self::Rejected,
            (code, _, _) => code.facts().2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in the specification: code, audit result, whether the breaker counts the failure,
    /// HTTP status, and JSON-RPC number without a subject.
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
            .iter()
            .map(|&code| {
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
            assert_eq!(code.as_str().parse().as_ref(), Ok(code));
            assert!(!code.default_hint().is_empty());
        }
        assert!("NOPE".parse::<Code>().is_err());
        for result in AuditResult::ALL {
            assert_eq!(result.as_str().parse().as_ref(), Ok(result));
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
