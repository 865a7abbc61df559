//! Checks a call again before its handler runs, writes the durable intent, and creates the
//! [`Clearance`]. No other module can create one.

use std::sync::Arc;

use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::Micros;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::approval::{self, Consent, Given};
use super::call::{Call, ConnId, Principal, Progress, Via};
use super::circuit::{self, PermitGuard};
use super::record::{self, CallRecord, unavailable};
use super::{Stop, is_effectful};
use crate::catalog::names::Toolset;
use crate::catalog::{Target, Tool};
use crate::script::Execution;
use crate::studio::Studio;

/// Permission to run a handler once. Its fields are private and only this file creates it, so every
/// handler that runs has passed the gate.
pub struct Clearance {
    tool: Arc<Tool>,
    call: Uuid,
    principal: Principal,
    conn: ConnId,
    via: Via,
    deadline: Micros,
    cancel: CancellationToken,
    progress: Option<Arc<dyn Progress>>,
    intent: Option<u64>,
    attempt: u32,
    tainted: bool,
    toolset: Arc<Toolset>,
    script: Option<Arc<Execution>>,
    seen_state: Option<Digest>,
}

impl Clearance {
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Id of the call. Its intent and its outcome in the audit log have the same id.
    pub fn call(&self) -> Uuid {
        self.call
    }

    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    pub fn conn(&self) -> ConnId {
        self.conn
    }

    pub fn via(&self) -> &Via {
        &self.via
    }

    /// The time at which the work is stopped, on the studio's monotonic clock.
    pub fn deadline(&self) -> Micros {
        self.deadline
    }

    /// Cancelled when the caller no longer wants the result, and at the deadline. A handler stops
    /// at its next safe point.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Position of the durable intent in the log; absent without one, as for ReadOnly tools.
    pub fn intent(&self) -> Option<u64> {
        self.intent
    }

    /// Number of the attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    pub fn tainted(&self) -> bool {
        self.tainted
    }

    /// The tools that the caller can call.
    pub fn toolset(&self) -> &Arc<Toolset> {
        &self.toolset
    }

    /// The script that makes this call.
    pub fn script(&self) -> Option<&Arc<Execution>> {
        self.script.as_ref()
    }

    /// The state that a person saw and approved for this call; `None` when no person was asked.
    pub fn seen_state(&self) -> Option<Digest> {
        self.seen_state
    }

    /// Whether a recognised person made the call. A `cli:` principal is not a person: any process
    /// can run a command.
    pub fn by_person(&self) -> bool {
        self.principal.is_person()
    }

    pub fn report(&self, done: f64, total: Option<f64>, text: &str) {
        if let Some(progress) = &self.progress {
            progress.report(done, total, text);
        }
    }

    pub fn progress(&self) -> Option<&Arc<dyn Progress>> {
        self.progress.as_ref()
    }
}

/// An opened gate: one call may run its handler, including retries.
pub(super) struct Gate {
    tool: Arc<Tool>,
    permit: Option<PermitGuard>,
    deadline: Micros,
    cancel: CancellationToken,
    intent: Option<u64>,
}

impl Gate {
    pub(super) fn clearance(&self, call: &Call, record: &CallRecord) -> Clearance {
        Clearance {
            tool: Arc::clone(&self.tool),
            call: record.id,
            principal: call.principal.clone(),
            conn: call.conn,
            via: call.via.clone(),
            deadline: self.deadline,
            cancel: self.cancel.clone(),
            progress: call.progress.clone(),
            intent: self.intent,
            attempt: record.attempts,
            tainted: call.tainted,
            toolset: Arc::clone(&call.toolset),
            script: call.script.clone(),
            seen_state: record.seen_state,
        }
    }

    pub(super) fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    pub(super) fn deadline(&self) -> Micros {
        self.deadline
    }

    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    pub(super) fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(PermitGuard::is_probe)
    }

    pub(super) fn into_permit(self) -> Option<PermitGuard> {
        self.permit
    }
}

/// Step 9: checks that nothing has changed since a person was asked, then requests the permit of
/// the circuit breaker.
pub(super) async fn recheck(
    studio: &Arc<Studio>,
    tool: &Arc<Tool>,
    call: &Call,
    target: &Target,
    consent: &Consent,
    record: &mut CallRecord,
) -> Result<Option<PermitGuard>, Stop> {
    if let Some(given) = consent.given() {
        unchanged(studio, tool, call, given).await?;
        record.approval = Some(given.reference().clone());
        record.seen_state = given.seen_state();
    }
    if tool.is_exempt(&call.principal) {
        return Ok(None);
    }
    circuit::admit(studio, tool, target).map(Some)
}

/// Checks that the tool definition, the policy and the state are still the same as at the approval.
/// The store compared them when it returned the approval, but the call may have waited since then.
async fn unchanged(studio: &Arc<Studio>, tool: &Arc<Tool>, call: &Call, given: &Given) -> Result<(), Stop> {
    let stale = |code, text: &str| {
        ToolError::new(code, format!("{}: {text}", tool.name)).subject(Subject::Tool(tool.name.to_string()))
    };
    if given.was_held() {
        let now = studio.catalog().get(&tool.name).map(|tool| tool.pin);
        if now != Some(given.present().pin) || studio.pin_fault(tool).is_some() {
            return Err(stale(Code::PinMismatch, "the tool changed while the call waited").into());
        }
        if studio.policy().version != given.present().policy_version {
            return Err(stale(Code::PlanStale, "the policy changed while the call waited").into());
        }
    }
    // Resolve the target again, because a link may point elsewhere by now.
    let target = super::resolve_target(studio, tool, call).await;
    if approval::state_of(studio, tool, call, &target).await != given.present().state {
        return Err(stale(Code::PlanStale, "the target changed since it was approved").into());
    }
    Ok(())
}

/// Step 10: writes the intent to the disk before the gate opens, for every tier except ReadOnly.
/// While the log is down, only exempt calls run: `conductor_panic`, and the reads that diagnose the
/// daemon at the human door.
pub(super) async fn open(
    studio: &Arc<Studio>,
    tool: &Arc<Tool>,
    call: &Call,
    permit: Option<PermitGuard>,
    record: &mut CallRecord,
) -> Result<Gate, Stop> {
    if call.cancel.is_cancelled() {
        return Err(Stop::Cancelled);
    }
    let intent = match (tool.is_exempt(&call.principal), is_effectful(tool)) {
        (true, true) => record::promptly(studio, studio.audit.intent(record.facts(call))).await.ok(),
        (true, false) => None,
        (false, true) => Some(studio.audit.intent(record.facts(call)).await.map_err(unavailable)?),
        (false, false) => {
            studio.audit.up().map_err(unavailable)?;
            None
        }
    };
    record.intent = intent;
    let deadline = Micros(studio.clock.now().0.saturating_add(tool.timeout_ms.saturating_mul(1000)));
    Ok(Gate { tool: Arc::clone(tool), permit, deadline, cancel: call.cancel.child_token(), intent })
}
