//! Step 12: writes the outcome of a call to the audit log, and proves in a type that it was
//! written.
//!
//! Not here: writing, chaining and syncing (`audit_log`).

use std::future::ready;
use std::sync::Arc;

use conductor_core::audit::record::{
    ApprovalRef, CallFacts, EventName, InputHash, OutcomeFacts, ScriptRef, Via as AuditVia,
};
use conductor_core::config::{AuditDetail, ReadOnlySync};
use conductor_core::digest::Digest;
use conductor_core::error::{AuditResult, Code, Effect, ToolError};
use conductor_core::event::Micros;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use uuid::Uuid;

use super::call::{Call, ConnId, Outcome, Principal, Via};
use super::{Step, Steps, handler, is_effectful};
use crate::audit_log::{AuditLog, Durability, Health};
use crate::catalog::Tool;
use crate::secrets::Scrubber;
use crate::studio::Studio;
use crate::studio::events::Event;

/// The operations of an audit log that the pipeline needs.
pub trait AuditSink: Send + Sync {
    /// Succeeds if records can be written. Otherwise the error is the reason.
    fn up(&self) -> Result<(), String>;
    /// The state of the log, for metrics; `None` without a real log.
    fn health(&self) -> Option<Health> {
        None
    }
    /// Hashes the arguments with the salt of this log.
    fn hash_input(&self, arguments: &Value) -> InputHash;
    /// Records an intent. The record is on the disk when the future completes.
    fn intent(&self, facts: CallFacts) -> BoxFuture<'static, Result<u64, String>>;
    /// Records an outcome. With `durable`, completes when the record is on the disk; otherwise when
    /// the kernel has received the record.
    fn outcome(&self, facts: CallFacts, outcome: OutcomeFacts, durable: bool)
    -> BoxFuture<'static, Result<(), String>>;
    /// Keeps the outcome of a call that runs even while the log is down. Returns whether the
    /// outcome will be written later.
    fn keep(&self, _facts: CallFacts, _outcome: OutcomeFacts) -> bool {
        false
    }
    /// Records an event outside calls; `detail` must not contain arguments, results or secrets.
    fn event(
        &self,
        principal: Option<Principal>,
        event: EventName,
        detail: Value,
    ) -> BoxFuture<'static, Result<(), String>>;
}

impl AuditSink for AuditLog {
    fn up(&self) -> Result<(), String> {
        self.check().map_err(|down| down.to_string())
    }

    fn health(&self) -> Option<Health> {
        Some(AuditLog::health(self))
    }

    fn hash_input(&self, arguments: &Value) -> InputHash {
        self.input_hash(arguments)
    }

    fn intent(&self, facts: CallFacts) -> BoxFuture<'static, Result<u64, String>> {
        let log = self.clone();
        Box::pin(async move { AuditLog::intent(&log, facts).await.map_err(|down| down.to_string()) })
    }

    fn outcome(
        &self,
        facts: CallFacts,
        outcome: OutcomeFacts,
        durable: bool,
    ) -> BoxFuture<'static, Result<(), String>> {
        let (facts, outcome) = match durable {
            true => (facts, outcome),
            false => match self.outcome_now(facts, outcome) {
                Ok(written) => return Box::pin(ready(written.map(|_| ()).map_err(|down| down.to_string()))),
                Err(back) => *back,
            },
        };
        let log = self.clone();
        let durability = if durable { Durability::Synced } else { Durability::Soon };
        Box::pin(async move {
            AuditLog::outcome(&log, facts, outcome, durability).await.map(|_| ()).map_err(|down| down.to_string())
        })
    }

    fn keep(&self, facts: CallFacts, outcome: OutcomeFacts) -> bool {
        self.keep_outcome(facts, outcome)
    }

    fn event(
        &self,
        principal: Option<Principal>,
        event: EventName,
        detail: Value,
    ) -> BoxFuture<'static, Result<(), String>> {
        let log = self.clone();
        Box::pin(async move {
            let written = AuditLog::event(&log, principal, None, event, detail, Durability::Soon).await;
            written.map(|_| ()).map_err(|down| down.to_string())
        })
    }
}

/// The facts about one call, collected while it runs.
pub struct CallRecord {
    pub id: Uuid,
    pub tool: Option<Arc<Tool>>,
    input_hash: InputHash,
    /// Whether records contain the arguments themselves.
    full_detail: bool,
    /// Canonical bytes of the arguments. `None` if the arguments have no canonical form.
    pub arguments: Option<Vec<u8>>,
    pub approval: Option<ApprovalRef>,
    /// The state that a person saw and approved.
    pub seen_state: Option<Digest>,
    pub intent: Option<u64>,
    pub attempts: u32,
    pub effect: Option<Effect>,
    pub output_bytes: u64,
    started: Micros,
    steps: Steps,
    scrubber: Arc<Scrubber>,
}

impl CallRecord {
    pub(super) fn open(studio: &Studio, call: &Call) -> Self {
        let mut steps = Vec::with_capacity(Step::ALL.len());
        steps.extend([Step::Receive, Step::Authenticate]);
        Self {
            id: studio.ids.v7(studio.clock.wall_ms()),
            tool: None,
            input_hash: studio.audit.hash_input(&call.arguments),
            full_detail: studio.settings().audit.detail == AuditDetail::Full,
            arguments: None,
            approval: None,
            seen_state: None,
            intent: None,
            attempts: 0,
            effect: None,
            output_bytes: 0,
            started: studio.clock.now(),
            steps,
            scrubber: Arc::clone(&studio.scrubber),
        }
    }

    pub fn pass(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub fn at<T>(&mut self, step: Step, work: impl FnOnce(&mut Self) -> T) -> T {
        self.pass(step);
        work(self)
    }

    pub fn facts(&self, call: &Call) -> CallFacts {
        let tool = self.tool.as_ref();
        CallFacts {
            call: self.id,
            principal: call.principal.clone(),
            conn: (call.conn != ConnId::NONE).then(|| call.conn.0.to_string()),
            tool: tool.map_or_else(|| self.scrubber.text(&call.tool).into_owned(), |tool| tool.name.to_string()),
            tier: tool.map(|tool| tool.tier),
            pin: tool.map(|tool| tool.pin),
            input_hash: self.input_hash,
            input: self.full_detail.then(|| input_of(&self.scrubber, &call.arguments)),
            via: match call.via {
                Via::Tool => None,
                Via::Resource { .. } => Some(AuditVia::Resource),
                Via::CallTool => Some(AuditVia::CallTool),
            },
            script: call
                .script
                .as_ref()
                .map(|script| ScriptRef { execution: script.id(), dry_run: script.is_dry_run() }),
            approval: self.approval.clone(),
        }
    }
}

/// The arguments as they are written in a record. Long arguments are left out. Their hash is always
/// recorded.
fn input_of(scrubber: &Scrubber, arguments: &Value) -> Value {
    const MOST_BYTES: usize = 4096;
    let bytes = arguments.to_string().len();
    if bytes <= MOST_BYTES {
        let mut arguments = arguments.clone();
        scrubber.value(&mut arguments);
        arguments
    } else {
        json!({ "truncated": true, "bytes": bytes })
    }
}

/// A call whose outcome is in the audit log, or whose reply reports that the outcome could not be
/// written. Only [`record`] creates it.
pub struct Recorded {
    outcome: Outcome,
    tool: Option<Arc<Tool>>,
    steps: Steps,
}

impl Recorded {
    pub(super) fn into_parts(self) -> (Outcome, Option<Arc<Tool>>, Steps) {
        (self.outcome, self.tool, self.steps)
    }
}

/// Writes the outcome to the audit log. A reply can be built only from the returned value. When
/// this function returns, records of effects are on the disk, and records of reads and refusals
/// have been passed to the kernel.
pub(super) async fn record(studio: &Arc<Studio>, call: &Call, mut record: CallRecord, outcome: Outcome) -> Recorded {
    record.pass(Step::Outcome);
    let outcome = match outcome {
        Outcome::Done(Err(error)) => Outcome::Done(Err(match &record.tool {
            // The handler has not run, so there was no effect.
            Some(tool) if is_effectful(tool) && record.attempts == 0 && error.effect.is_none() => {
                error.effect(Effect::None)
            }
            Some(tool) => handler::with_effect(tool, error),
            None => error,
        })),
        other @ (Outcome::Done(Ok(_)) | Outcome::Cancelled | Outcome::Ask { .. }) => other,
    };
    // All replies are scrubbed here, so no reply contains a secret.
    let outcome = clean(&studio.scrubber, outcome);
    let (result, code, effect) = match &outcome {
        Outcome::Done(Ok(_)) => (AuditResult::Ok, None, None),
        Outcome::Done(Err(error)) => (error.audit_result(), Some(error.code), error.effect),
        Outcome::Cancelled => (AuditResult::Cancelled, None, record.effect),
        Outcome::Ask { .. } => (AuditResult::Pending, Some(Code::ApprovalRequired), None),
    };
    let elapsed = studio.clock.now().0.saturating_sub(record.started.0);
    let facts = OutcomeFacts {
        result,
        code,
        effect,
        attempts: record.attempts,
        duration_ms: elapsed / 1000,
        output_bytes: record.output_bytes,
    };
    let durable = record.intent.is_some() || studio.settings().audit.read_only_sync == ReadOnlySync::BeforeReply;
    let exempt = record.tool.as_ref().filter(|tool| tool.is_exempt(&call.principal));
    let written = studio.audit.outcome(record.facts(call), facts.clone(), durable);
    let written = if exempt.is_some() { promptly(studio, written).await } else { written.await };
    studio.meters.call(tool_name(&record), result, elapsed);
    studio.events.observe_with(|| Event::CallEnded {
        call: record.id,
        tool: tool_name(&record).to_owned(),
        principal: call.principal.to_string(),
        result,
        code,
        duration_ms: elapsed / 1000,
    });
    let outcome = match (written, exempt) {
        (Ok(()), _) => outcome,
        // The record of an effect is kept in memory and written later.
        (Err(_), Some(tool)) if is_effectful(tool) => pending(outcome, studio.audit.keep(record.facts(call), facts)),
        // A read through the human door has no effect to record. Its answer reports that the log is
        // down.
        (Err(_), Some(_)) => outcome,
        (Err(reason), None) => {
            let error = unavailable(reason);
            let ran = record.attempts > 0;
            Outcome::Done(Err(match &record.tool {
                Some(tool) if is_effectful(tool) => error.effect(if ran { Effect::Done } else { Effect::None }),
                Some(_) | None => error,
            }))
        }
    };
    record.pass(Step::Respond);
    Recorded { outcome, tool: record.tool, steps: record.steps }
}

pub(super) fn unavailable(reason: String) -> ToolError {
    ToolError::new(Code::AuditUnavailable, reason)
}

/// How long an exempt call waits for its record.
const PROMPT_US: u64 = 200_000;

pub(super) async fn promptly<T>(
    studio: &Studio,
    written: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = studio.sleeper.until(studio.clock.now().plus_us(PROMPT_US));
    tokio::select! {
        biased;
        written = written => written,
        () = late => Err("the audit log did not respond in time".to_owned()),
    }
}

/// Marks the answer of a call whose record is not in the log yet.
fn pending(mut outcome: Outcome, kept: bool) -> Outcome {
    if let Outcome::Done(Ok(output)) = &mut outcome {
        output.value["audit"] =
            if kept { "pending" } else { "not recorded: too many records wait to be written" }.into();
        output.render();
    }
    outcome
}

fn clean(scrubber: &Scrubber, mut outcome: Outcome) -> Outcome {
    if !scrubber.is_idle() {
        match &mut outcome {
            Outcome::Done(Ok(output)) => output.clean(scrubber),
            Outcome::Done(Err(error)) => scrubber.error(error),
            Outcome::Ask { message, .. } => scrubber.string(message),
            Outcome::Cancelled => {}
        }
    }
    outcome
}

/// The tool name for observers and metrics. An unknown name is text from the caller, so only the
/// audit log gets it.
fn tool_name(record: &CallRecord) -> &str {
    record.tool.as_ref().map_or("_unknown", |tool| tool.name.as_ref())
}

/// Sends the event for a call whose handler is about to run.
pub(super) fn started(studio: &Studio, call: &Call, record: &CallRecord) {
    studio.events.observe_with(|| Event::CallStarted {
        call: record.id,
        tool: tool_name(record).to_owned(),
        principal: call.principal.to_string(),
    });
}
