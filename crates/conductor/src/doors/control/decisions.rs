//! Methods of the human door about calls, plans and approvals. Those that decide something ask
//! first whether a person is asking.
//!
//! Applying and rejecting go through the pipeline like any call, as `person:<uid>`: they are
//! validated, recorded and answered alike.

use super::methods::{Answer, Stream, read, refuse};
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
use conductor_gateway::studio::events::Event;
use conductor_gateway::tools::daemon::plans;
use conductor_gateway::tools::filesystem;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayMethod {
    Call,
    ToolsList,
    PlansList,
    PlansShow,
    PlansApply,
    PlansReject,
    PlansUndo,
    SeedApplyPlan,
    SeedRejectPlan,
    ApprovalsList,
    ApprovalsShow,
    ApprovalsAllow,
    ApprovalsDeny,
    ApprovalsWatch,
    AuditHead,
    AuditAccept,
    CircuitList,
    CircuitReset,
    HttpOpen,
    HttpClose,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfId {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Show {
    id: String,
    /// Every fact whole, in pages: the character to begin with.
    full_from: Option<usize>,
}

/// As the seed spells it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfPlan {
    #[serde(rename = "planId")]
    plan_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallParams {
    tool: String,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allow {
    id: String,
    #[serde(default = "one")]
    uses: u32,
    for_ms: Option<u64>,
    #[serde(default)]
    any_args: bool,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reset {
    tool: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    address: SocketAddr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Close {
    /// Without one: everything that this connection asked for.
    address: Option<SocketAddr>,
}

pub async fn answer(
    control: &Control,
    caller: Caller,
    method: GatewayMethod,
    params: Value,
) -> Result<Answer, ToolError> {
    let studio = &control.gateway.studio;
    let value = match method {
        GatewayMethod::Call => {
            let CallParams { tool, arguments } = read(params)?;
            let mut call =
                Call::new(Principal::Cli { uid: caller.peer.uid }, tool, arguments.unwrap_or_else(|| json!({})));
            call.conn = ConnId(caller.connection);
            call.hand = control.recognise(caller.peer).is_ok();
            run(control, call).await?
        }
        GatewayMethod::ToolsList => {
            let Nothing {} = read(params)?;
            let catalog = studio.catalog();
            let tools = catalog.tools().filter(|it| !it.hidden).map(|it| {
                json!({ "name": it.name, "title": it.title, "description": it.description, "tier": it.tier.as_str(), "toolset": it.toolset })
            });
            json!({ "tools": tools.collect::<Vec<_>>() })
        }
        GatewayMethod::PlansList => {
            let Nothing {} = read(params)?;
            let plans = plans::list(studio).await?;
            let edits: Vec<Value> = studio.approvals.store().read(|pending| {
                pending.iter().filter(|it| it.kind == Kind::Edit && it.state == State::Used).map(shown).collect()
            });
            json!({ "plans": plans, "shorts": shorts(control, Kind::Plan), "edits": edits })
        }
        GatewayMethod::PlansShow => {
            let OfId { id } = read(params)?;
            plans::list(studio).await?;
            shown(&plan_or_edit(control, &id)?)
        }
        GatewayMethod::PlansApply => {
            let OfId { id } = read(params)?;
            decide_plan(control, caller, "plan.apply", &id).await?
        }
        GatewayMethod::SeedApplyPlan => {
            let OfPlan { plan_id } = read(params)?;
            decide_plan(control, caller, "plan.apply", &plan_id).await?
        }
        GatewayMethod::PlansReject => {
            let OfId { id } = read(params)?;
            decide_plan(control, caller, "plan.reject", &id).await?
        }
        GatewayMethod::SeedRejectPlan => {
            let OfPlan { plan_id } = read(params)?;
            decide_plan(control, caller, "plan.reject", &plan_id).await?
        }
        GatewayMethod::PlansUndo => {
            let OfId { id } = read(params)?;
            let person = control.recognise(caller.peer).map_err(refuse)?;
            let record = plan_or_edit(control, &id)?;
            let (tool, arguments) = if record.kind == Kind::Edit {
                (filesystem::UNDO, json!({ "undo_id": record.id.to_string() }))
            } else {
                ("conductor_undo_plan", json!({ "plan_id": record.id.to_string() }))
            };
            run(control, Call::new(Principal::Person { uid: person.uid }, tool, arguments)).await?
        }
        GatewayMethod::ApprovalsList => {
            let Nothing {} = read(params)?;
            let _ = studio.approvals.expire(studio).await;
            let waiting: Vec<Value> = studio.approvals.store().read(|pending| {
                pending.iter().filter(|it| it.kind == Kind::Call && it.state == State::Pending).map(shown).collect()
            });
            json!({ "approvals": waiting })
        }
        GatewayMethod::ApprovalsShow => {
            let Show { id, full_from } = read(params)?;
            let record = question(control, &id)?;
            match full_from {
                None => shown(&record),
                Some(from) => {
                    let facts = studio.approvals.full(&record).await.map_err(|fault| {
                        ToolError::new(Code::Internal, format!("the whole question cannot be read: {fault}"))
                    })?;
                    page(&facts, from)
                }
            }
        }
        GatewayMethod::ApprovalsAllow => {
            let Allow { id, uses, for_ms, any_args } = read(params)?;
            let person = control.recognise(caller.peer).map_err(refuse)?;
            let record = question(control, &id)?;
            let tool = studio.catalog().get(&record.tool).cloned();
            let yes = Yes {
                by: Principal::Person { uid: person.uid }.to_string(),
                channel: Channel::Cli,
                uses,
                for_ms,
                any_args,
                grantable: tool.as_ref().is_some_and(|it| it.grantable),
                grant_ms: tool.as_ref().and_then(|it| it.grant_ms),
            };
            studio.approvals.allow(studio, record.id, yes).await.map_err(not_decided)?;
            shown(&question(control, &record.id.to_string())?)
        }
        GatewayMethod::ApprovalsDeny => {
            let OfId { id } = read(params)?;
            let person = control.recognise(caller.peer).map_err(refuse)?;
            let record = question(control, &id)?;
            let by = Principal::Person { uid: person.uid }.to_string();
            studio.approvals.deny(studio, record.id, &by, Channel::Cli).await.map_err(not_decided)?;
            shown(&question(control, &record.id.to_string())?)
        }
        GatewayMethod::ApprovalsWatch => {
            let Nothing {} = read(params)?;
            control.recognise(caller.peer).map_err(refuse)?;
            return Ok(Answer::Stream(Stream::Questions(
                studio.approvals.attend(),
                studio.events.listen(Event::is_approval),
            )));
        }
        GatewayMethod::AuditHead => {
            let Nothing {} = read(params)?;
            json!({ "head": control.gateway.audit.head().as_ref().map(head_value) })
        }
        GatewayMethod::AuditAccept => {
            let Nothing {} = read(params)?;
            let person = control.recognise(caller.peer).map_err(refuse)?;
            let by = Principal::Person { uid: person.uid };
            let (log, who) = (std::sync::Arc::clone(&control.gateway.audit), by.clone());
            let accepted = tokio::task::spawn_blocking(move || log.accept(&who)).await;
            let accepted = accepted.map_err(|fault| ToolError::new(Code::Internal, fault.to_string()))?;
            let (head, report) = accepted.map_err(|why| ToolError::new(Code::BadInput, why))?;
            json!({ "head": head_value(&head), "verdict": report.verdict.as_str(), "by": by.to_string() })
        }
        GatewayMethod::CircuitList => {
            let Nothing {} = read(params)?;
            let circuits = studio.circuits.list().into_iter().map(|it| {
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
        GatewayMethod::CircuitReset => {
            let Reset { tool } = read(params)?;
            let person = control.recognise(caller.peer).map_err(refuse)?;
            match &tool {
                Some(tool) => {
                    studio.circuits.reset(tool);
                }
                None => studio.circuits.reset_all(),
            }
            let by = Principal::Person { uid: person.uid };
            let _ = studio.audit.event(Some(by), EventName::CircuitReset, json!({ "tool": tool })).await;
            json!({ "reset": tool.unwrap_or_else(|| "all".into()) })
        }
        GatewayMethod::HttpOpen => {
            let Open { address } = read(params)?;
            let bound = control.gateway.http.open_for(address, caller.connection).await.map_err(|fault| {
                ToolError::new(Code::HostOffline, format!("{address} cannot be opened: {fault}"))
                    .subject(Subject::Host("http".into()))
            })?;
            json!({ "address": bound.to_string(), "url": format!("http://{bound}/mcp"), "token_file": control.home.root().join("state/http.token") })
        }
        GatewayMethod::HttpClose => {
            let Close { address } = read(params)?;
            let http = &control.gateway.http;
            match address {
                Some(address) if !http.is_held(address, caller.connection) => {
                    control.recognise(caller.peer).map_err(refuse)?;
                    if !http.close_at(address).await {
                        let text = format!("no listener was asked for at {address}");
                        return Err(ToolError::new(Code::NotFound, text).subject(Subject::Host("http".into())));
                    }
                }
                of_this_connection => http.release(of_this_connection, caller.connection).await,
            }
            json!({})
        }
    };
    Ok(Answer::Value(value))
}

/// A plan, or a change of a file that can be undone.
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

/// A call of the command line: its result, or its error.
pub(super) async fn run(control: &Control, call: Call) -> Result<Value, ToolError> {
    match pipeline::run(&control.gateway.studio, call).await.into_outcome() {
        // A plugin's finished blocks, or its own error result: there is nothing else to show.
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

async fn decide_plan(control: &Control, caller: Caller, tool: &str, id: &str) -> Result<Value, ToolError> {
    let person = control.recognise(caller.peer).map_err(refuse)?;
    let plan = plans::find(&control.gateway.studio, id)?;
    let arguments = json!({ "plan_id": plan.id.to_string(), "channel": "cli" });
    run(control, Call::new(Principal::Person { uid: person.uid }, tool, arguments)).await
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
                .hint("`conductor approvals list` has the open ones."))
        }
        Err(other) => Err(ToolError::new(Code::BadInput, other.to_string())),
    }
}

/// Characters of one page; escaped it still fits into one line of this door.
const PAGE: usize = 64 * 1024;

/// The part of the facts that begins with this character, and where the next one does.
fn page(facts: &[Fact], from: usize) -> Value {
    let (mut at, mut room, mut part) = (0, PAGE, Vec::new());
    for fact in facts {
        let length = fact.text.chars().count();
        let skipped = from.saturating_sub(at).min(length);
        let given = (length - skipped).min(room);
        // An empty value belongs to the page on which the one before it ends.
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

fn shorts(control: &Control, kind: Kind) -> Value {
    control.gateway.studio.approvals.store().read(|pending| {
        pending
            .iter()
            .filter(|it| it.kind == kind)
            .map(|it| (it.id.to_string(), Value::from(it.short.to_string())))
            .collect()
    })
}

fn not_decided(fault: ApprovalError) -> ToolError {
    match fault {
        ApprovalError::Refused(Refused::Expired) => ToolError::new(Code::PlanExpired, "it has expired"),
        ApprovalError::Refused(why) => ToolError::new(Code::BadInput, why.to_string()),
        ApprovalError::Disk(fault) => ToolError::new(Code::Internal, fault.to_string()),
    }
}
