//! `conductor_call_tool`: a call that names another tool becomes a call to that tool, before the
//! first step of the pipeline.
//!
//! Policy, tier, limits, circuit breaker, approval and audit therefore apply to the named tool. The
//! record notes how the call was made.

use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Stop;
use super::call::{Call, Principal, Via};
use crate::catalog::Tool;
use crate::studio::Studio;

/// The tool whose calls are replaced.
pub const CALL_TOOL: &str = "conductor_call_tool";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// Replaces a call to `conductor_call_tool` with the call that it contains. Replaces only once: if
/// that call also names `conductor_call_tool`, it is refused. Other calls are returned unchanged,
/// and so are calls whose arguments validation will refuse.
pub fn unwrap(studio: &Studio, mut call: Call) -> Call {
    let is_client = match &call.principal {
        // `refuse_nesting` refuses these.
        Principal::Mapping { .. } | Principal::Plugin { .. } | Principal::Webhook { .. } => false,
        Principal::Person { .. }
        | Principal::Phone { .. }
        | Principal::Cli { .. }
        | Principal::Socket { .. }
        | Principal::Http { .. }
        | Principal::Oauth { .. } => call.script.is_none(),
    };
    let is_wrapper = |tool: &Tool| tool.name == CALL_TOOL && call.toolset.has(tool);
    let is_wrapped =
        is_client && call.via == Via::Tool && studio.catalog().get(&call.tool).is_some_and(|it| is_wrapper(it));
    if is_wrapped && let Ok(wrapped) = Wrapped::deserialize(&call.arguments) {
        call.tool = wrapped.tool;
        call.arguments = Value::Object(wrapped.arguments);
        call.via = Via::CallTool;
    }
    call
}

/// Refuses a tool that runs other tools, unless a client or a person calls it directly. Otherwise a
/// script could start scripts, and a pad or a plugin could run code that no person has seen.
pub(super) fn refuse_nesting(tool: &Tool, call: &Call) -> Result<(), Stop> {
    if !tool.runs_tools() {
        return Ok(());
    }
    let by = match &call.principal {
        _ if call.via == Via::CallTool => CALL_TOOL,
        _ if call.script.is_some() => "a script",
        Principal::Mapping { .. } => "a mapping",
        Principal::Plugin { .. } => "a plugin",
        Principal::Webhook { .. } => "a webhook",
        Principal::Phone { .. } => "a phone",
        Principal::Person { .. }
        | Principal::Cli { .. }
        | Principal::Socket { .. }
        | Principal::Http { .. }
        | Principal::Oauth { .. } => return Ok(()),
    };
    Err(ToolError::new(Code::Denied, format!("{by} cannot call {}", tool.name))
        .hint("Call the tool itself, by its own name.")
        .subject(Subject::Tool(tool.name.to_string()))
        .by(RefusedBy::Policy)
        .into())
}
