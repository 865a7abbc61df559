//! The error type of every tool, and its form at each door.
//!
//! Not here: JSON-RPC and MCP envelopes, which are the doors'. Errors of the pure modules are enums
//! of their own; the pipeline turns them into a [`ToolError`] with a hint for the caller.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::named_enum::named_enum;
use crate::timestamp::Timestamp;

/// Declares the codes: name, HTTP status, JSON-RPC number, word in the audit log, whether the
/// circuit breaker counts it, default hint.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $name:literal $http:literal $number:literal $audit:ident $counts:literal $hint:literal;)+) => {
        named_enum! {
            /// Every code a caller can see. Closed: each door has an exhaustive match over it.
            #[derive(PartialOrd, Ord)]
            pub enum Code { $($(#[$doc])* $code = $name,)+ }
        }

        impl Code {
            /// HTTP status, JSON-RPC number, word in the audit log, circuit breaker, hint.
            const fn facts(self) -> (u16, i32, AuditResult, bool, &'static str) {
                match self { $(Self::$code => ($http, $number, AuditResult::$audit, $counts, $hint)),+ }
            }
        }
    };
}

codes! {
    /// The arguments do not fit the tool.
    BadInput "BAD_INPUT" 400 -32602 Invalid false
        "Correct the arguments at the JSON pointers in `violations`, then call again.";
    /// No object has this name or id.
    NotFound "NOT_FOUND" 404 -32602 Error false
        "Call the matching list tool and use a name or id from its answer.";
    /// The object existed when the id was made and is gone.
    StaleReference "STALE_REFERENCE" 404 -32602 Error false
        "List the objects again and use a fresh id.";
    /// The id names an object of another type.
    WrongType "WRONG_TYPE" 400 -32602 Error false
        "List the objects again and use an id of the type this tool takes.";
    /// The host cannot do it at all.
    Unsupported "UNSUPPORTED" 422 -32009 Error false
        "Stop: this host cannot do it. Choose another tool or tell the person.";
    /// The host refused this change.
    SdkRejected "SDK_REJECTED" 422 -32008 Error false
        "Repeat the call once; if it is refused again, make a simpler change.";
    /// The program or device is not there.
    HostOffline "HOST_OFFLINE" 503 -32008 Error false
        "Ask the person to start the program or connect the device; it is picked up by itself. Then repeat the call.";
    /// The host did not answer in time.
    Timeout "TIMEOUT" 504 -32008 Timeout true
        "Read the state before repeating: the work may have been done.";
    /// A rule, a limit or a person refused the call.
    Denied "DENIED" 403 -32006 Denied false
        "Do not repeat the call; ask the person.";
    /// The call waits for a person's yes.
    ApprovalRequired "APPROVAL_REQUIRED" 202 -32006 Pending false
        "A person must answer in the Conductor console or terminal. After a yes, repeat the identical call; it runs once.";
    /// The plan is older than its time to live.
    PlanExpired "PLAN_EXPIRED" 409 -32003 Rejected false
        "Read the state and make a new plan.";
    /// The state is not the one that the plan or the yes was made for.
    PlanStale "PLAN_STALE" 409 -32005 Rejected false
        "The state changed since the plan or the yes. Read it again and make a new plan.";
    /// The circuit breaker of the tool is open.
    CircuitOpen "CIRCUIT_OPEN" 503 -32010 CircuitOpen false
        "Wait `retry_after_ms` and repeat the call, or use another tool.";
    /// The caller made too many calls in a short time.
    RateLimited "RATE_LIMITED" 429 -32007 RateLimited false
        "Wait `retry_after_ms` and send fewer calls.";
    /// The file of a plugin differs from the one a person enabled.
    PinMismatch "PIN_MISMATCH" 409 -32012 Denied false
        "The tool is not the one that was allowed. A person must look at it and enable it again.";
    /// The audit log cannot be written.
    AuditUnavailable "AUDIT_UNAVAILABLE" 503 -32013 Error false
        "The audit log cannot be written, so no call is made. `effect` says whether this one had one. Tell the person.";
    /// Too many calls run or too many questions are open.
    Busy "BUSY" 503 -32011 RateLimited false
        "Wait for running calls or open questions to finish, then repeat the call.";
    /// An error of Conductor itself.
    Internal "INTERNAL" 500 -32603 Error true
        "Report it to the person. `effect` says whether the call changed something.";
}

impl Code {
    /// What a model can do in its next turn, when the place that failed has no better hint.
    pub const fn default_hint(self) -> &'static str {
        self.facts().4
    }

    /// Whether the circuit breaker counts this failure: only a host that hangs and an error of our
    /// own. The other codes come at once and say what to do, so switching the tool off would only
    /// hide them.
    pub const fn counts_for_breaker(self) -> bool {
        self.facts().3
    }

    /// Status of an HTTP answer with this error.
    pub const fn http_status(self) -> u16 {
        self.facts().0
    }

    /// The JSON-RPC number of the direct dialect. Several codes share a number; `data.code` is
    /// exact.
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

/// What an error is about. A string on the wire; the kind picks the number of the direct dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the kind of the named object")]
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

/// The name in a [`Subject`], shared or mutable as the subject is.
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
        /// A person who answered the question.
        Person = "person",
        /// A limit on open questions.
        Limit = "limit",
    }
}

/// One fault of the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// JSON pointer into the arguments.
    pub path: String,
    /// The violated constraint.
    pub message: String,
}

/// The open question that an error reports. Knowing the id grants nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenQuestion {
    /// UUID of the question.
    pub approval_id: String,
    /// The id as eight digits for people.
    pub short: String,
    /// The question ends at this time.
    pub expires_at: Timestamp,
    /// The question in one line.
    pub summary: String,
}

/// The last failure behind an open circuit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Code of that failure.
    pub code: Code,
    /// Message of that failure.
    pub message: String,
}

/// Members that only some codes have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extras {
    /// Of `BAD_INPUT`.
    pub violations: Vec<Violation>,
    /// Of `DENIED`.
    pub by: Option<RefusedBy>,
    /// Of `APPROVAL_REQUIRED`.
    pub question: Option<OpenQuestion>,
    /// Of `CIRCUIT_OPEN`.
    pub cause: Option<Cause>,
    /// Of `NOT_FOUND`: similar names.
    pub did_you_mean: Vec<String>,
    /// Members of a single tool, such as the risk assessment of a SysEx message. They never replace
    /// a standard member.
    pub more: Map<String, Value>,
}

/// A failed call, as every door shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    /// Closed set of codes.
    pub code: Code,
    /// What failed, for people and models.
    pub message: String,
    /// What the caller can do next.
    pub hint: String,
    /// The object the error is about.
    pub subject: Option<Subject>,
    /// Present on every error of an effectful tool.
    pub effect: Option<Effect>,
    /// A repeated call fails before this time.
    pub retry_after_ms: Option<u64>,
    // Boxed: errors travel in `Result`s far more often as absent than as present.
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

    /// Sets the object the error is about.
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

    /// Sets who refused.
    #[must_use]
    pub fn by(mut self, by: RefusedBy) -> Self {
        self.extras.by = Some(by);
        self
    }

    /// Sets the faults of the arguments.
    #[must_use]
    pub fn violations(mut self, violations: Vec<Violation>) -> Self {
        self.extras.violations = violations;
        self
    }

    /// Sets the open question.
    #[must_use]
    pub fn question(mut self, question: OpenQuestion) -> Self {
        self.extras.question = Some(question);
        self
    }

    /// Sets the last failure behind an open circuit.
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

    /// The object that MCP puts into `structuredContent`, HTTP into the body and the direct dialect
    /// into `error.data`.
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

    /// Visits every text of this error, so that secrets can be scrubbed. Values in `more` are left
    /// to the caller.
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

    /// How the call ended, for the audit log.
    pub fn audit_result(&self) -> AuditResult {
        AuditResult::of(self.code, self.subject.as_ref(), self.extras.by)
    }

    /// The JSON-RPC number of the direct dialect.
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
    /// How a call ended, in the word of an audit record.
    pub enum AuditResult {
        /// The tool succeeded.
        Ok = "ok",
        /// The tool failed.
        Error = "error",
        /// A person refused, or the plan was too old.
        Rejected = "rejected",
        /// A rule, a limit or a pin refused.
        Denied = "denied",
        /// The host did not answer in time.
        Timeout = "timeout",
        /// The circuit breaker refused.
        CircuitOpen = "circuit_open",
        /// A limit on rate or concurrency refused.
        RateLimited = "rate_limited",
        /// The request itself was wrong.
        Invalid = "invalid",
        /// The call waits for a person.
        Pending = "pending",
        /// The caller cancelled.
        Cancelled = "cancelled",
    }
}

impl AuditResult {
    /// An unknown tool is an error of the request, another missing object an error of the state. A
    /// person's refusal differs from a rule's.
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

    /// The table of the pipeline's contract: code, audit result, counts, HTTP status, direct number
    /// without a subject.
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
