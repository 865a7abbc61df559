//! `call`: runs a tool through the pipeline, and `tools.list`: describes the tools.

use super::{Caller, Control};
use crate::doors::mcp::render;
use conductor_core::config::ToolView;
use conductor_core::error::{Code, ToolError};
use conductor_gateway::catalog::Tool;
use conductor_gateway::catalog::names::Toolset;
use conductor_gateway::catalog::signature::{self, Detail};
use conductor_gateway::catalog::{examples, views};
use conductor_gateway::pipeline::call::{ConnId, Outcome};
use conductor_gateway::pipeline::circuit::CircuitStatus;
use conductor_gateway::pipeline::{self, Call};
use serde_json::{Value, json};
use std::sync::Arc;

/// Runs a listed tool. Hidden tools are decisions, which have their own requests.
pub async fn call(
    control: &Control,
    caller: Caller,
    tool: String,
    arguments: Option<Value>,
) -> Result<Value, ToolError> {
    let mut call = Call::new(control.principal(caller), tool, arguments.unwrap_or_else(|| json!({})));
    call.conn = ConnId(caller.connection);
    call.toolset = Arc::new(Toolset::Listed);
    run(control, call).await
}

pub async fn run(control: &Control, call: Call) -> Result<Value, ToolError> {
    match pipeline::run(&control.gateway.studio, call).await.into_outcome() {
        // Return the content blocks or the error result of a plugin unchanged.
        Outcome::Done(Ok(output)) if !output.is_structured() || output.is_error => Ok(render::direct_success(output)),
        Outcome::Done(Ok(output)) => {
            let (value, _, content) = output.into_parts();
            let blocks = content.len();
            Ok(if blocks == 0 { value } else { json!({ "result": value, "content_blocks": blocks }) })
        }
        Outcome::Done(Err(error)) => Err(error),
        Outcome::Cancelled => Err(ToolError::new(Code::Internal, "the call was cancelled")),
        Outcome::Ask { approval, .. } => {
            Err(ToolError::new(Code::ApprovalRequired, format!("approval {approval} is open")))
        }
    }
}

/// All listed tools, or only the tool with this name, each with its schema. For a tool that has
/// run, the state of its circuit breaker is included.
pub fn tools(control: &Control, name: Option<&str>) -> Value {
    let studio = &control.gateway.studio;
    let catalog = studio.catalog();
    let circuits = studio.circuits.list();
    let described = |tool: &Tool| {
        json!({
            "name": tool.name, "title": tool.title, "description": tool.description, "tier": tool.tier.as_str(),
            "toolset": tool.toolset, "input_schema": tool.published_schema.value(),
            "signature": signature::of(&tool.published_schema.value(), Detail::Full), "example": examples::of(&tool.name),
            "views": ToolView::ALL.iter().filter(|it| views::lists(**it, tool)).collect::<Vec<_>>(),
            "circuit": circuits.iter().find(|it| it.tool == tool.name).map(circuit),
        })
    };
    let tools: Vec<Value> = match name {
        Some(name) => catalog.get(name).filter(|it| !it.hidden).map(|it| described(it)).into_iter().collect(),
        None => catalog.list(&Toolset::Listed).map(|it| described(it)).collect(),
    };
    json!({ "tools": tools })
}

/// The circuit breaker of every tool that has run since the daemon started.
pub fn circuits(control: &Control) -> Vec<Value> {
    let named = |it: &CircuitStatus| {
        let mut value = circuit(it);
        value["tool"] = json!(it.tool);
        value
    };
    control.gateway.studio.circuits.list().iter().map(named).collect()
}

fn circuit(it: &CircuitStatus) -> Value {
    let targets = it.targets.iter().map(|it| {
        let cause = it.cause.as_ref().map(|(code, message)| json!({ "code": code.as_str(), "message": message }));
        json!({
            "target": it.target, "state": format!("{:?}", it.state), "failures": it.failures_total, "trips": it.trips_total,
            "cause": cause,
        })
    });
    json!({
        "state": format!("{:?}", it.state), "failures": it.failures_total, "trips": it.trips_total,
        "targets": targets.collect::<Vec<_>>(),
    })
}
