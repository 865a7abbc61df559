//! The pipeline that every tool call passes through, from every door.
//!
//! Types enforce two guarantees. A handler cannot run without a [`Clearance`](gate::Clearance),
//! which only the gate creates, after every check and, for a tool with an effect, the intent. A
//! [`Reply`] is built only from a [`Recorded`], which only the writer of the outcome creates.
//!
//! Not here: the work of a tool, how a call arrived, and the wire format of its reply.

pub mod approval;
pub mod call;
pub mod circuit;
pub mod gate;
mod handler;
pub mod limits;
pub mod record;
pub mod relay;
mod shown;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use conductor_core::digest;
use conductor_core::error::{Code, RefusedBy, Subject, ToolError, Violation};
use conductor_core::policy::limits::ARGUMENT_BYTES;
use conductor_core::policy::{self, Decision, Tier, Verdict};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

pub use call::{Call, ConnId, Outcome, Output, Principal, Reply, Via};
pub use record::{CallRecord, Recorded};

use crate::catalog::signature;
use crate::catalog::{Target, Tool};
use crate::studio::Studio;

/// The steps of a call, in order. A door does the first two before it creates a [`Call`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Receive,
    Authenticate,
    Resolve,
    Validate,
    Policy,
    RateLimit,
    CircuitPeek,
    Approval,
    Recheck,
    Intent,
    Handler,
    Outcome,
    Respond,
}

impl Step {
    pub const ALL: [Self; 13] = [
        Self::Receive,
        Self::Authenticate,
        Self::Resolve,
        Self::Validate,
        Self::Policy,
        Self::RateLimit,
        Self::CircuitPeek,
        Self::Approval,
        Self::Recheck,
        Self::Intent,
        Self::Handler,
        Self::Outcome,
        Self::Respond,
    ];
}

pub type Steps = Vec<Step>;

/// Why a call ends before its handler has succeeded. Not every stop is a failure.
#[derive(Debug)]
pub enum Stop {
    Refused(ToolError),
    Cancelled,
    AskClient { approval: String, message: String },
}

impl From<ToolError> for Stop {
    fn from(error: ToolError) -> Self {
        Self::Refused(error)
    }
}

/// Runs one call. Once polled, the call runs until its outcome is recorded, even if the caller
/// drops the returned future.
pub fn run(studio: &Arc<Studio>, call: Call) -> Running {
    Running { work: Some(Box::pin(run_to_end(Arc::clone(studio), call))), has_started: false }
}

/// A call. When it is dropped after its start, for example because its client has disconnected, it
/// continues in a task of the daemon.
#[must_use = "the call starts when this future is polled"]
pub struct Running {
    work: Option<BoxFuture<'static, Reply>>,
    has_started: bool,
}

impl Future for Running {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        self.has_started = true;
        let Some(work) = &mut self.work else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.has_started
            && let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

async fn run_to_end(studio: Arc<Studio>, call: Call) -> Reply {
    let call = relay::unwrap(&studio, call);
    let mut record = CallRecord::open(&studio, &call);
    // No early return below: every call must be recorded, even after a panic.
    let attempted = AssertUnwindSafe(attempt(&studio, &call, &mut record)).catch_unwind().await;
    let outcome = match attempted {
        Ok(Ok(output)) => Outcome::Done(Ok(output)),
        Ok(Err(Stop::Refused(error))) => Outcome::Done(Err(error)),
        Ok(Err(Stop::Cancelled)) => Outcome::Cancelled,
        Ok(Err(Stop::AskClient { approval, message })) => Outcome::Ask { approval, message },
        Err(_panic) => {
            Outcome::Done(Err(ToolError::new(Code::Internal, "an internal error in Conductor ended the call")))
        }
    };
    Reply::new(record::record(&studio, &call, record, outcome).await)
}

async fn attempt(studio: &Arc<Studio>, call: &Call, record: &mut CallRecord) -> Result<Output, Stop> {
    let tool = record.at(Step::Resolve, |record| resolve(studio, call, record))?;
    record.at(Step::Validate, |record| validate(&tool, call, record))?;
    let target = resolve_target(studio, &tool, call).await;
    let verdict = record.at(Step::Policy, |record| {
        refuse_secrets(studio, &tool, record)?;
        decide(studio, &tool, call, &target)
    })?;
    let mut slot = record.at(Step::RateLimit, |_| limits::admit(studio, &tool, call))?;
    record.at(Step::CircuitPeek, |_| circuit::peek(studio, &tool, call, &target))?;
    record.pass(Step::Approval);
    let consent = approval::answer(studio, &tool, call, &target, &verdict, &mut slot, record).await?;
    record.pass(Step::Recheck);
    let permit = gate::recheck(studio, &tool, call, &target, &consent, record).await?;
    record.pass(Step::Intent);
    let gate = gate::open(studio, &tool, call, permit, record).await?;
    record.pass(Step::Handler);
    record::started(studio, call, record);
    handler::run(studio, call, gate, record).await
}

/// Step 3: finds the tool. The call keeps this definition even if its plugin is reloaded.
fn resolve(studio: &Studio, call: &Call, record: &mut CallRecord) -> Result<Arc<Tool>, Stop> {
    let catalog = call.script.as_ref().and_then(|script| script.copies()).unwrap_or_else(|| studio.catalog());
    let found = catalog.get(&call.tool).filter(|tool| {
        // Only people and mappings can call hidden tools. A script cannot, not even for a person.
        let sees_hidden = (call.principal.is_person() || matches!(call.principal, Principal::Mapping { .. }))
            && call.script.is_none();
        (!tool.hidden || sees_hidden) && call.toolset.has(tool)
    });
    let Some(tool) = found else {
        let asked: String = call.tool.chars().take(64).collect();
        let near = catalog.nearest(&call.tool, &call.toolset);
        let hint = match near.as_slice() {
            [] => "conductor_find_tools finds tools for a task.".to_owned(),
            [first, ..] => format!("Did you mean {first}? conductor_find_tools finds tools for a task."),
        };
        let subject = if studio.scrubber.is_idle() { asked.clone() } else { String::new() };
        return Err(ToolError::new(Code::NotFound, studio.scrubber.unknown("Unknown tool", &asked))
            .hint(hint)
            .subject(Subject::Tool(subject))
            .did_you_mean(near)
            .into());
    };
    record.tool = Some(Arc::clone(tool));
    relay::refuse_nesting(tool, call)?;
    if let Some(reason) = studio.pin_fault(tool) {
        return Err(ToolError::new(Code::PinMismatch, reason).subject(Subject::Tool(tool.name.to_string())).into());
    }
    Ok(Arc::clone(tool))
}

/// Step 4: validates the arguments before any code of the tool runs, except its own check of the
/// arguments.
fn validate(tool: &Tool, call: &Call, record: &mut CallRecord) -> Result<(), Stop> {
    let violations = match digest::canonical(&call.arguments) {
        Err(fault) => vec![Violation { path: String::new(), message: fault.to_string() }],
        Ok(canonical) => {
            let violations = if canonical.len() > ARGUMENT_BYTES {
                vec![Violation {
                    path: String::new(),
                    message: format!("arguments too large: {} bytes; the limit is {ARGUMENT_BYTES}", canonical.len()),
                }]
            } else {
                violations(tool, &call.arguments)
            };
            record.arguments = Some(canonical);
            violations
        }
    };
    let Some(first) = violations.first() else { return Ok(()) };
    let place = if first.path.is_empty() { "the arguments".to_owned() } else { first.path.clone() };
    let shape = signature::at_fault(&tool.published_schema.value(), &call.arguments, &first.path);
    let hint = match violations.len() {
        1 => format!("Fix {place}, then call again. {shape}"),
        several => {
            format!("Fix the {several} errors listed in `violations`, starting with {place}, then call again. {shape}")
        }
    };
    Err(ToolError::new(Code::BadInput, format!("{}: {place}: {}", tool.name, first.message))
        .hint(hint)
        .subject(Subject::Argument(first.path.clone()))
        .violations(violations)
        .into())
}

/// The violations that the tool's own check finds. If it finds none, the violations of the schema.
fn violations(tool: &Tool, arguments: &serde_json::Value) -> Vec<Violation> {
    let by_schema = tool.validator.violations(arguments);
    let by_tool = tool.check.as_ref().map(|check| check(arguments)).unwrap_or_default();
    if by_tool.is_empty() { by_schema } else { by_tool }
}

/// Part of step 5: refuses arguments that contain a stored secret if the tool has an effect,
/// because the tool could write the secret to a file, a device or another machine. Replies of
/// read-only tools are scrubbed instead.
fn refuse_secrets(studio: &Studio, tool: &Tool, record: &CallRecord) -> Result<(), Stop> {
    let has_secret = record.arguments.as_ref().is_some_and(|arguments| studio.scrubber.finds(arguments));
    if !has_secret || !is_effectful(tool) {
        return Ok(());
    }
    Err(ToolError::new(Code::Denied, format!("{}: the arguments contain a stored secret", tool.name))
        .hint("Leave the secret out. A configuration or a plugin refers to it as secret:NAME.")
        .subject(Subject::Tool(tool.name.to_string()))
        .by(RefusedBy::Policy)
        .into())
}

/// The target of the call, for policy, the question and the circuit breaker.
async fn resolve_target(studio: &Arc<Studio>, tool: &Tool, call: &Call) -> Target {
    match &tool.target {
        Some(target) => target(studio, call).await,
        None => Target::default(),
    }
}

/// Step 5: applies the policy.
fn decide(studio: &Studio, tool: &Tool, call: &Call, target: &Target) -> Result<Verdict, Stop> {
    let force = studio.policy();
    let verdict = force.policy.decide(&policy::Subject {
        tool: &tool.name,
        tier: tool.tier,
        principal: &call.principal,
        args: &call.arguments,
        forms: &target.forms,
        requires_approval: tool.requires_approval,
        by_args: target.by_args.or_else(|| tool.decide.as_ref().map(|decide| decide(studio, &call.arguments))),
        ask_floor: tool.ask_floor,
    });
    // Policy never refuses an exempt call, and never requires its approval.
    if tool.is_exempt(&call.principal) {
        return Ok(Verdict { decision: Decision::Allow, ..verdict });
    }
    match verdict.decision {
        Decision::Deny => {
            let rule = verdict.rule.map_or_else(
                || "the default for its tier".to_owned(),
                |rule| format!("rule {} of the policy", rule + 1),
            );
            Err(ToolError::new(Code::Denied, format!("{} is refused by {rule}", tool.name))
                .subject(Subject::Tool(tool.name.to_string()))
                .by(RefusedBy::Policy)
                .into())
        }
        Decision::Allow | Decision::Ask | Decision::Plan => Ok(verdict),
    }
}

/// Whether the tool may change something. If so, an intent is written before it runs, and its
/// errors have an `effect`.
pub fn is_effectful(tool: &Tool) -> bool {
    tool.tier != Tier::ReadOnly
}
