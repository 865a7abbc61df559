//! Requests on the human door about calls, plans, approvals, circuit breakers and HTTP listeners.
//! Requests that decide something need a person.
//!
//! Applying and rejecting a plan are calls of `person:<uid>` in the pipeline, so they are validated
//! and recorded like any call.

use super::{Caller, Control};
use crate::doors::mcp::render;
use conductor_core::audit::record::EventName;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::pending::{Fact, Kind, Record, Refused, State, Yes};
use conductor_core::policy::Channel;
use conductor_core::principal::Principal;
use conductor_gateway::audit_log::head_value;
use conductor_gateway::pipeline::approval::ApprovalError;
use conductor_gateway::pipeline::call::{ConnId, Outcome};
use conductor_gateway::pipeline::{self, Call};
use conductor_gateway::tools::daemon::plans;
use conductor_gateway::tools::filesystem;
use serde_json::{Value, json};
use std::net::SocketAddr;
use uuid::Uuid;

pub async fn call(
    control: &Control,
    caller: Caller,
    tool: String,
    arguments: Option<Value>,
) -> Result<Value, ToolError> {
    let mut call = Call::new(Principal::Cli { uid: caller.peer.uid }, tool, arguments.unwrap_or_else(|| json!({})));
    call.conn = ConnId(caller.connection);
    call.hand = control.recognise(caller.peer).is_ok();
    run(control, call).await
}

pub fn tools(control: &Control) -> Value {
    let catalog = control.gateway.studio.catalog();
    let tools = catalog.tools().filter(|it| !it.hidden).map(|it| {
        json!({ "name": it.name, "title": it.title, "description": it.description, "tier": it.tier.as_str(), "toolset": it.toolset })
    });
    json!({ "tools": tools.collect::<Vec<_>>() })
}

pub async fn plans_list(control: &Control) -> Result<Value, ToolError> {
    let plans = plans::list(&control.gateway.studio).await?;
    let edits = records(control, |it| it.kind == Kind::Edit && it.state == State::Used);
    Ok(json!({ "plans": plans, "shorts": shorts(control, Kind::Plan), "edits": edits }))
}

pub async fn plan(control: &Control, id: &str) -> Result<Value, ToolError> {
    // Listing also expires old plans.
    plans::list(&control.gateway.studio).await?;
    Ok(shown(&plan_or_edit(control, id)?))
}

pub async fn undo_plan(control: &Control, caller: Caller, id: &str) -> Result<Value, ToolError> {
    let person = control.person(caller)?;
    let record = plan_or_edit(control, id)?;
    let is_edit = record.kind == Kind::Edit;
    let (tool, key) = if is_edit { (filesystem::UNDO, "undo_id") } else { ("conductor_undo_plan", "plan_id") };
    run(control, Call::new(person, tool, json!({ key: record.id.to_string() }))).await
}

pub async fn decide_plan(control: &Control, caller: Caller, tool: &str, id: &str) -> Result<Value, ToolError> {
    let person = control.person(caller)?;
    let plan = plans::find(&control.gateway.studio, id)?;
    run(control, Call::new(person, tool, json!({ "plan_id": plan.id.to_string(), "channel": "cli" }))).await
}

pub async fn approvals(control: &Control) -> Value {
    let studio = &control.gateway.studio;
    let _ = studio.approvals.expire(studio).await;
    json!({ "approvals": records(control, |it| it.kind == Kind::Call && it.state == State::Pending) })
}

pub async fn approval(control: &Control, id: &str, full_from: Option<usize>) -> Result<Value, ToolError> {
    let record = question(control, id)?;
    let Some(from) = full_from else { return Ok(shown(&record)) };
    let facts = control.gateway.studio.approvals.full(&record).await;
    let unreadable = |error| ToolError::new(Code::Internal, format!("the full question cannot be read: {error}"));
    Ok(page(&facts.map_err(unreadable)?, from))
}

pub async fn allow(
    control: &Control,
    caller: Caller,
    id: &str,
    (uses, for_ms, any_args): (u32, Option<u64>, bool),
) -> Result<Value, ToolError> {
    let studio = &control.gateway.studio;
    let by = control.person(caller)?.to_string();
    let record = question(control, id)?;
    let tool = studio.catalog().get(&record.tool).cloned();
    let grantable = tool.as_ref().is_some_and(|it| it.grantable);
    let grant_ms = tool.and_then(|it| it.grant_ms);
    let yes = Yes { by, channel: Channel::Cli, uses, for_ms, any_args, grantable, grant_ms };
    studio.approvals.allow(studio, record.id, yes).await.map_err(not_decided)?;
    Ok(shown(&question(control, &record.id.to_string())?))
}

pub async fn deny(control: &Control, caller: Caller, id: &str) -> Result<Value, ToolError> {
    let studio = &control.gateway.studio;
    let by = control.person(caller)?.to_string();
    let record = question(control, id)?;
    studio.approvals.deny(studio, record.id, &by, Channel::Cli).await.map_err(not_decided)?;
    Ok(shown(&question(control, &record.id.to_string())?))
}

pub async fn accept_log(control: &Control, caller: Caller) -> Result<Value, ToolError> {
    let by = control.person(caller)?;
    let (log, who) = (std::sync::Arc::clone(&control.gateway.audit), by.clone());
    let accepted = tokio::task::spawn_blocking(move || log.accept(&who)).await;
    let accepted = accepted.map_err(|error| ToolError::new(Code::Internal, error.to_string()))?;
    let (head, report) = accepted.map_err(|why| ToolError::new(Code::BadInput, why))?;
    Ok(json!({ "head": head_value(&head), "verdict": report.verdict.as_str(), "by": by.to_string() }))
}

pub fn circuits(control: &Control) -> Value {
    let circuits = control.gateway.studio.circuits.list().into_iter().map(|it| {
        let targets = it.targets.iter().map(|it| {
            let cause = it.cause.as_ref().map(|(code, message)| json!({ "code": code.as_str(), "message": message }));
            json!({
                "target": it.target, "state": format!("{:?}", it.state), "failures": it.failures_total, "trips": it.trips_total,
                "cause": cause,
            })
        });
        json!({
            "tool": it.tool, "state": format!("{:?}", it.state), "failures": it.failures_total, "trips": it.trips_total,
            "targets": targets.collect::<Vec<_>>(),
        })
    });
    json!({ "circuits": circuits.collect::<Vec<_>>() })
}

pub async fn reset_circuit(control: &Control, caller: Caller, tool: Option<String>) -> Result<Value, ToolError> {
    let studio = &control.gateway.studio;
    let by = control.person(caller)?;
    match &tool {
        Some(tool) => {
            studio.circuits.reset(tool);
        }
        None => studio.circuits.reset_all(),
    }
    let _ = studio.audit.event(Some(by), EventName::CircuitReset, json!({ "tool": tool })).await;
    Ok(json!({ "reset": tool.unwrap_or_else(|| "all".into()) }))
}

pub async fn open_http(control: &Control, caller: Caller, address: SocketAddr) -> Result<Value, ToolError> {
    let bound = control.gateway.http.open_for(address, caller.connection).await.map_err(|error| {
        ToolError::new(Code::HostOffline, format!("{address} cannot be opened: {error}"))
            .subject(Subject::Host("http".into()))
    })?;
    let token_file = control.home.root().join("state/http.token");
    Ok(json!({ "address": bound.to_string(), "url": format!("http://{bound}/mcp"), "token_file": token_file }))
}

/// A connection may close its own listeners. Only a person may close others.
pub async fn close_http(control: &Control, caller: Caller, address: Option<SocketAddr>) -> Result<Value, ToolError> {
    let http = &control.gateway.http;
    match address {
        Some(address) if !http.is_held(address, caller.connection) => {
            control.person(caller)?;
            if !http.close_at(address).await {
                let text = format!("there is no listener at {address} that a client opened");
                return Err(ToolError::new(Code::NotFound, text).subject(Subject::Host("http".into())));
            }
        }
        own => http.release(own, caller.connection).await,
    }
    Ok(json!({}))
}

/// Finds a plan, or a file edit that can be undone.
fn plan_or_edit(control: &Control, id: &str) -> Result<Record, ToolError> {
    let studio = &control.gateway.studio;
    let edit = studio.approvals.store().read(|pending| {
        let id = pending.find(id).ok()?;
        pending.get(id).filter(|it| it.kind == Kind::Edit).cloned()
    });
    match edit {
        Some(edit) => Ok(edit),
        None => plans::find(studio, id),
    }
}

/// Runs a call from the command line and returns its result.
pub(super) async fn run(control: &Control, call: Call) -> Result<Value, ToolError> {
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

fn question(control: &Control, text: &str) -> Result<Record, ToolError> {
    let found = control.gateway.studio.approvals.store().read(|pending| {
        let id: Uuid = pending.find(text)?;
        Ok::<_, Refused>(pending.get(id).filter(|it| it.kind == Kind::Call).cloned())
    });
    match found {
        Ok(Some(record)) => Ok(record),
        Ok(None) | Err(Refused::NotFound) => {
            Err(ToolError::new(Code::NotFound, format!("there is no approval {text:?}"))
                .subject(Subject::Approval(text.to_owned()))
                .hint("`conductor approvals list` shows the open approvals."))
        }
        Err(other) => Err(ToolError::new(Code::BadInput, other.to_string())),
    }
}

/// Characters per page. A page fits into one line of this protocol even if every character is
/// escaped.
const PAGE: usize = 64 * 1024;

/// The page of the facts that starts at this character, and the start of the next page.
fn page(facts: &[Fact], from: usize) -> Value {
    let (mut at, mut room, mut part) = (0, PAGE, Vec::new());
    for fact in facts {
        let length = fact.text.chars().count();
        let skipped = from.saturating_sub(at).min(length);
        let given = (length - skipped).min(room);
        // An empty value is on the page on which the previous value ends.
        if given > 0 || (length == 0 && at >= from && room > 0) {
            let text: String = fact.text.chars().skip(skipped).take(given).collect();
            part.push(Fact { label: fact.label.clone(), text });
        }
        at += length;
        room -= given;
    }
    let next = from + (PAGE - room);
    json!({ "facts": part, "next": (next < at).then_some(next) })
}

fn shown(record: &Record) -> Value {
    serde_json::from_slice(&record.to_json()).unwrap_or(Value::Null)
}

fn records(control: &Control, filter: impl Fn(&Record) -> bool) -> Vec<Value> {
    control.gateway.studio.approvals.store().read(|pending| pending.iter().filter(|it| filter(it)).map(shown).collect())
}

/// Maps the ids of all records of a kind to their short ids.
fn shorts(control: &Control, kind: Kind) -> Value {
    control.gateway.studio.approvals.store().read(|pending| {
        pending
            .iter()
            .filter(|it| it.kind == kind)
            .map(|it| (it.id.to_string(), Value::from(it.short.to_string())))
            .collect()
    })
}

fn not_decided(error: ApprovalError) -> ToolError {
    match error {
        ApprovalError::Refused(Refused::Expired) => ToolError::new(Code::PlanExpired, "the approval has expired"),
        ApprovalError::Refused(why) => ToolError::new(Code::BadInput, why.to_string()),
        ApprovalError::Disk(error) => ToolError::new(Code::Internal, error.to_string()),
    }
}
