//! Answers `tools/call`, and calls in the direct dialect, in which the method is the name of a
//! tool.

use conductor_core::error::{Code, Subject, ToolError};
use rmcp::model::{CallToolRequestParams, ErrorData, ServerResult};
use serde_json::{Map, Value, json};

use super::era::{self, Era};
use super::methods::{Answer, Cx, internal};
use super::{McpDoor, elicit, progress, render};
use conductor_gateway::apps;
use conductor_gateway::catalog::mcp_methods::MCP_METHODS;
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::{self, Call, Reply, Via, relay};

pub async fn answer(door: &McpDoor, request: CallToolRequestParams, cx: &Cx, era: Era) -> Answer {
    let arguments = Value::Object(request.arguments.unwrap_or_default());
    let call = door.session.call(door.principal(cx), request.name.into_owned(), arguments, cx.cancel.clone());
    // Replace a call to `conductor_call_tool` by the call that it contains, before any question is
    // asked: a question is bound to the tool that runs.
    let mut call = relay::unwrap(door.studio(), call);
    let is_wrapped = call.via == Via::CallTool;
    elicit::prepare(door, &mut call, request.request_state.as_deref(), request.input_responses.as_ref(), era)?;
    call.progress = progress::channel(door, cx, era);
    call.ask = elicit::channel(door, cx, era);
    let question = call.ask.as_ref().is_some_and(|ask| ask.by_result()).then(|| elicit::Question::of(&call));
    let reply = run(door, call).await;
    let tool = reply.tool().cloned();
    let shows_pages = era::shows_pages(door, cx);
    let mut short = None;
    let mut result = match reply.into_outcome() {
        Outcome::Done(Ok(output)) => {
            // The page of a plan shows the plan's short id. A person types this id in a command.
            short = shows_pages.then(|| apps::short_of(door.studio(), &output.value)).flatten();
            render::success(output)
        }
        // An unknown name in the arguments of `conductor_call_tool` is a wrong argument, not an
        // unknown tool.
        Outcome::Done(Err(error)) if is_unknown_tool(&error) && !is_wrapped => {
            return Err(render::unknown_tool(&error));
        }
        Outcome::Done(Err(error)) if elicit::is_bad_state(&error) => return Err(elicit::bad_state()),
        Outcome::Done(Err(error)) => render::failure(&error),
        Outcome::Cancelled => return Err(cancelled()),
        Outcome::Ask { approval, message } => {
            let question = question.ok_or_else(internal)?;
            let mut result = elicit::input_required(door, &question, tool.as_deref(), &approval, message)?;
            result.meta = door.signed(era);
            return Ok(ServerResult::InputRequiredResult(result));
        }
    };
    result.meta = door.signed(era);
    if let Some(short) = short {
        result.meta.get_or_insert_default().insert(apps::SHORT.to_owned(), json!(short.to_string()));
    }
    Ok(ServerResult::CallToolResult(result))
}

/// Answers a method that is not part of the protocol: it is the name of a tool.
pub async fn direct(door: &McpDoor, method: String, params: Option<Value>, cx: &Cx) -> Result<Value, ErrorData> {
    if MCP_METHODS.contains(&method.as_str()) {
        return Err(ErrorData::invalid_params(format!("Invalid params for {method}"), None));
    }
    if method.starts_with("tasks/") || method.starts_with("notifications/") || method.starts_with("conductor.") {
        return Err(door.unknown_method(&method));
    }
    let arguments = params.unwrap_or_else(|| Value::Object(Map::new()));
    let call = door.session.call(door.session.principal("direct"), method.clone(), arguments, cx.cancel.clone());
    let mut call = relay::unwrap(door.studio(), call);
    let is_wrapped = call.via == Via::CallTool;
    call.progress = progress::channel(door, cx, Era::Legacy);
    match run(door, call).await.into_outcome() {
        Outcome::Done(Ok(output)) => Ok(render::direct_success(output)),
        Outcome::Done(Err(error)) if is_unknown_tool(&error) && !is_wrapped => {
            let data = json!({ "code": error.code, "hint": error.hint, "did_you_mean": error.extras.did_you_mean });
            Err(ErrorData { data: Some(data), ..door.unknown_method(&method) })
        }
        Outcome::Done(Err(error)) => Err(render::direct_failure(&error)),
        Outcome::Cancelled | Outcome::Ask { .. } => Err(cancelled()),
    }
}

/// Runs a call in one of the connection's slots. After many consecutive rate-limit refusals the
/// connection is not read for a moment, so that a flood of calls cannot fill the log.
pub async fn run(door: &McpDoor, mut call: Call) -> Reply {
    let (_running, crowded) = door.session.start();
    call.crowded = crowded;
    let reply = pipeline::run(door.studio(), call).await;
    let refused = matches!(reply.outcome(), Outcome::Done(Err(error)) if error.code == Code::RateLimited);
    door.session.refused_for_speed(refused);
    reply
}

/// The client cancelled the call, so this error is not sent.
fn cancelled() -> ErrorData {
    ErrorData::internal_error("cancelled", None)
}

fn is_unknown_tool(error: &ToolError) -> bool {
    error.code == Code::NotFound && matches!(error.subject, Some(Subject::Tool(_)))
}
