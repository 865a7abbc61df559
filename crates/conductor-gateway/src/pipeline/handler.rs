//! Step 11: runs the handler under one deadline and retries only when that is safe. A panic ends
//! the call, not the daemon.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use conductor_core::audit::record::EventName;
use conductor_core::breaker::Change;
use conductor_core::error::{Code, Effect, Subject, ToolError};
use conductor_core::event::Micros;
use conductor_core::policy::Tier;
use futures_util::FutureExt;
use serde_json::json;

use super::call::{Call, Content, LogLevel, Output};
use super::circuit::PermitGuard;
use super::gate::Gate;
use super::record::CallRecord;
use super::{Stop, is_effectful};
use crate::catalog::schema::cut;
use crate::catalog::{Source, Tool};
use crate::studio::Studio;
use crate::studio::events::Event;

/// How long a handler may take to stop after a cancel.
const GRACE: Duration = Duration::from_secs(2);

enum End {
    Finished(Result<Output, ToolError>),
    /// The handler was dropped, because it did not stop within [`GRACE`] after a cancel.
    Killed,
}

pub(super) async fn run(
    studio: &Arc<Studio>,
    call: &Call,
    gate: Gate,
    record: &mut CallRecord,
) -> Result<Output, Stop> {
    let tool = Arc::clone(gate.tool());
    if gate.is_probe() {
        log(call, LogLevel::Info, &format!("{} was disabled after errors; this call tests it again", tool.name));
    }
    let ended = attempts(studio, call, &gate, record).await;
    let permit = gate.into_permit();
    match ended {
        End::Finished(Ok(output)) => {
            settle(studio, &tool, permit, None).await;
            finish(studio, &tool, output, record)
        }
        // A stopped call without an effect is recorded as cancelled. For any other stopped call,
        // its outcome is recorded.
        End::Finished(Err(error))
            if call.cancel.is_cancelled() && error.effect.unwrap_or(Effect::None) == Effect::None =>
        {
            record.effect = is_effectful(&tool).then_some(Effect::None);
            Err(Stop::Cancelled)
        }
        End::Finished(Err(error)) => {
            settle(studio, &tool, permit, Some(&error)).await;
            Err(error.into())
        }
        End::Killed => {
            record.effect = is_effectful(&tool).then_some(Effect::Unknown);
            Err(Stop::Cancelled)
        }
    }
}

/// Counts the call for its circuit breaker, and records a change in the breaker's state.
async fn settle(studio: &Studio, tool: &Tool, permit: Option<PermitGuard>, failed: Option<&ToolError>) {
    let Some(mut permit) = permit else { return };
    let (state, event) = match permit.settle(failed) {
        Change::Tripped => ("Tripped", EventName::CircuitTripped),
        Change::Closed => ("Passing", EventName::CircuitClosed),
        Change::None => return,
    };
    let target = Some(permit.target()).filter(|it| !it.is_empty());
    studio.events.observe_with(|| Event::CircuitChanged {
        tool: tool.name.to_string(),
        target: target.map(str::to_owned),
        state,
    });
    let cause = failed.map(|it| it.code.as_str());
    let _ = studio.audit.event(None, event, json!({ "tool": tool.name, "target": target, "cause": cause })).await;
}

async fn attempts(studio: &Arc<Studio>, call: &Call, gate: &Gate, record: &mut CallRecord) -> End {
    let retry = studio.settings().retry;
    loop {
        record.attempts += 1;
        let error = match once(studio, call, gate, record).await {
            End::Finished(Err(error)) => error,
            end @ (End::Finished(Ok(_)) | End::Killed) => return end,
        };
        let tool = gate.tool();
        let may = tool.retries()
            && is_transient(tool, &error)
            && record.attempts < retry.attempts
            && !call.cancel.is_cancelled();
        if !may {
            return End::Finished(Err(with_effect(tool, error)));
        }
        let delay_ms = retry.delay_ms(record.attempts, studio.jitter());
        let next = Micros(studio.clock.now().0.saturating_add(delay_ms.saturating_mul(1000)));
        if next >= gate.deadline() {
            return End::Finished(Err(with_effect(tool, error)));
        }
        log(call, LogLevel::Info, &format!("{}: {}; trying again in {delay_ms} ms", tool.name, error.code));
        tokio::select! {
            () = studio.sleeper.until(next) => {}
            () = call.cancel.cancelled() => return End::Finished(Err(error.effect(Effect::None))),
        }
    }
}

/// Whether a retry may succeed. A timeout of an effectful tool is not retried, because the work may
/// have been done. An offline host is not retried, because it does not reconnect during a call and
/// the caller can react at once.
fn is_transient(tool: &Tool, error: &ToolError) -> bool {
    error.code == Code::Internal || (error.code == Code::Timeout && tool.tier == Tier::ReadOnly)
}

async fn once(studio: &Arc<Studio>, call: &Call, gate: &Gate, record: &CallRecord) -> End {
    let tool = gate.tool();
    let clearance = gate.clearance(call, record);
    let (run, inner, arguments) = (Arc::clone(&tool.run), Arc::clone(studio), call.arguments.clone());
    // Run in the call's own task: a thread switch would cost more than most reads. A panic is
    // caught here. Returning drops the future, which stops the work.
    let task = AssertUnwindSafe(async move { run(inner, clearance, arguments).await }).catch_unwind();
    tokio::pin!(task);
    let deadline = studio.sleeper.until(gate.deadline());
    tokio::select! {
        biased;
        ended = &mut task => End::Finished(ended.unwrap_or_else(|_panic| Err(crashed(tool)))),
        () = deadline => {
            gate.cancel().cancel();
            let text = format!("{} did not finish within {} ms", tool.name, tool.timeout_ms);
            End::Finished(Err(ToolError::new(Code::Timeout, text).subject(Subject::Tool(tool.name.to_string()))))
        }
        () = gate.cancel().cancelled() => {
            let grace = Micros(studio.clock.now().0.saturating_add(GRACE.as_micros() as u64));
            tokio::select! {
                biased;
                ended = &mut task => End::Finished(ended.unwrap_or_else(|_panic| Err(crashed(tool)))),
                () = studio.sleeper.until(grace) => End::Killed,
            }
        }
    }
}

// The panic message may contain arguments or secrets. The panic hook logs it; the caller never
// receives it.
fn crashed(tool: &Tool) -> ToolError {
    ToolError::new(Code::Internal, format!("{} failed because of an internal error in Conductor", tool.name))
        .subject(Subject::Tool(tool.name.to_string()))
}

/// Adds the `effect` to an error of an effectful tool, unless the handler has set it. The effect is
/// unknown after a crash or a timeout, and otherwise none.
pub fn with_effect(tool: &Tool, error: ToolError) -> ToolError {
    if !is_effectful(tool) || error.effect.is_some() {
        return error;
    }
    let unknown = matches!(error.code, Code::Timeout | Code::Internal);
    error.effect(if unknown { Effect::Unknown } else { Effect::None })
}

/// Renders the result and limits its size. Every door sends this rendered text.
fn finish(studio: &Studio, tool: &Tool, mut output: Output, record: &mut CallRecord) -> Result<Output, Stop> {
    if cfg!(debug_assertions) && output.is_structured() && !tool.output_validator.fits(&output.value) {
        let first =
            tool.output_validator.violations(&output.value).into_iter().next().map(|it| it.message).unwrap_or_default();
        let text = format!("{}: the result does not match the tool's output schema: {first}", tool.name);
        return Err(with_done(tool, ToolError::new(Code::Internal, text)).into());
    }
    let most = tool.max_result_bytes.min(studio.settings().limits.result_bytes);
    let mut bytes = output.render();
    let is_error = output.is_error;
    if bytes > most {
        match &tool.source {
            Source::Plugin { .. } if !output.is_structured() => {
                output = Output::blocks(vec![Content::Text(cut(&output.plain(), most.saturating_sub('…'.len_utf8())))]);
                bytes = output.render();
            }
            Source::Plugin { .. } => {
                output = Output::new(json!({ "text": cut(output.text(), most), "truncated": true }));
                bytes = output.render();
            }
            // Built-in tools truncate their own lists. Truncating the JSON text here would make it
            // invalid, so return an error.
            Source::Builtin => {
                let text = format!("the result of {} has {bytes} bytes; the limit is {most}", tool.name);
                let error = ToolError::new(Code::Unsupported, text)
                    .hint("Request less: use a smaller range, a filter or a limit.");
                return Err(with_done(tool, error).into());
            }
        }
    }
    output.is_error = is_error;
    record.output_bytes = bytes as u64;
    Ok(output)
}

fn with_done(tool: &Tool, error: ToolError) -> ToolError {
    if is_effectful(tool) { error.effect(Effect::Done) } else { error }
}

fn log(call: &Call, level: LogLevel, text: &str) {
    if let Some(progress) = &call.progress {
        progress.log(level, text);
    }
}
