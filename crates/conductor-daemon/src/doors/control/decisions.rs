//! Decisions of people about the configuration, plans, approval requests, the audit log and circuit
//! breakers, and the reads that a decision needs. The human door and the console use them. Before a
//! decision, the door has checked that the caller is a person.
//!
//! Applying and rejecting a plan are calls by `person:<uid>` in the pipeline, so they are validated
//! and recorded like any call.

use super::call::run;
use super::{Caller, Control};
use conductor_core::audit::record::EventName;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::pending::{Fact, Kind, Record, Refused, State, Yes};
use conductor_core::policy::Channel;
use conductor_core::principal::Principal;
use conductor_gateway::audit_log::head_value;
use conductor_gateway::pipeline::Call;
use conductor_gateway::pipeline::approval::ApprovalError;
use conductor_hosts::atomic_file;
use serde_json::{Value, json};
use std::net::SocketAddr;
use uuid::Uuid;

/// Reads the file again, and describes the parts that are not in force.
pub async fn reload(control: &Control) -> Result<Value, ToolError> {
    let reloaded = control.handle.reload().await;
    let path = control.home.config_file();
    let bytes = atomic_file::read(&path).map_err(|_| {
        let path = path.display().to_string();
        ToolError::new(
            Code::NotFound,
            format!("{path} does not exist or cannot be read; the configuration in force is unchanged"),
        )
        .subject(Subject::Config(path))
    })?;
    let serving = control.handle.serving();
    let waiting = &serving.waiting;
    let (changed, faults, error) = match reloaded {
        Ok(reloaded) => (reloaded.changed, reloaded.faults, None),
        Err(error) => (false, Vec::new(), Some(error.to_wire())),
    };
    Ok(json!({
        "changed": changed, "faults": faults, "error": error, "hash": Digest::of(&bytes), "held": waiting.held.names(),
        "since": waiting.since, "closed": waiting.closed.as_deref(), "difference": &*waiting.difference,
        "unprotected": waiting.typing,
    }))
}

pub async fn accept_config(control: &Control, person: Principal, hash: &str) -> Result<Value, ToolError> {
    let hash = hash.parse().map_err(|_| ToolError::new(Code::BadInput, "hash must be sha256: and 64 hex digits"))?;
    Ok(json!(control.gateway.accept_config(&control.handle, person, hash).await?))
}

/// Approval requests that wait for an answer, all plans, and file edits that can be undone. Newest
/// first.
pub async fn pending(control: &Control) -> Value {
    let studio = &control.gateway.studio;
    let _ = studio.approvals.expire(studio).await;
    let records = |kind: Kind, state: Option<State>| -> Vec<Value> {
        studio.approvals.store().read(|pending| {
            let is_wanted = |it: &&Record| it.kind == kind && state.is_none_or(|state| it.state == state);
            let mut found: Vec<&Record> = pending.iter().filter(is_wanted).collect();
            found.sort_by_key(|it| std::cmp::Reverse(it.created_at));
            found.into_iter().map(shown).collect()
        })
    };
    json!({
        "approvals": records(Kind::Call, Some(State::Pending)), "plans": records(Kind::Plan, None),
        "edits": records(Kind::Edit, Some(State::Used)),
    })
}

/// One record, or a page of its full facts.
pub async fn show(control: &Control, id: &str, full_from: Option<usize>) -> Result<Value, ToolError> {
    let studio = &control.gateway.studio;
    let _ = studio.approvals.expire(studio).await;
    let record = find(control, id, &[Kind::Call, Kind::Plan, Kind::Edit])?;
    let Some(from) = full_from else { return Ok(shown(&record)) };
    let facts = studio.approvals.full(&record).await;
    let unreadable = |error| ToolError::new(Code::Internal, format!("the full question cannot be read: {error}"));
    Ok(page(&facts.map_err(unreadable)?, from))
}

/// Drafts the inverse of an applied plan, or restores the content that a file had before an edit.
pub async fn undo(control: &Control, person: Principal, id: &str) -> Result<Value, ToolError> {
    let record = find(control, id, &[Kind::Plan, Kind::Edit])?;
    let is_edit = record.kind == Kind::Edit;
    let (tool, key) = if is_edit { ("filesystem.undo", "undo_id") } else { ("conductor_undo_plan", "plan_id") };
    run(control, Call::new(person, tool, json!({ key: record.id.to_string() }))).await
}

pub async fn apply_plan(control: &Control, person: Principal, channel: Channel, id: &str) -> Result<Value, ToolError> {
    let plan = find(control, id, &[Kind::Plan])?;
    run(control, Call::new(person, "plan.apply", json!({ "plan_id": plan.id.to_string(), "channel": channel }))).await
}

pub async fn reject_plan(
    control: &Control,
    person: Principal,
    channel: Channel,
    id: &str,
    reason: Option<String>,
) -> Result<Value, ToolError> {
    let plan = find(control, id, &[Kind::Plan])?;
    let mut arguments = json!({ "plan_id": plan.id.to_string(), "channel": channel });
    if let Some(reason) = reason {
        arguments["reason"] = reason.into();
    }
    run(control, Call::new(person, "plan.reject", arguments)).await
}

/// The calls that an approval allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    Uses {
        uses: u32,
        for_ms: Option<u64>,
        any_args: bool,
    },
    /// Every call to the tool by the same caller until its connection ends.
    Session,
}

pub async fn allow(
    control: &Control,
    by: &Principal,
    channel: Channel,
    id: &str,
    grant: Grant,
) -> Result<Record, ToolError> {
    let studio = &control.gateway.studio;
    let record = find(control, id, &[Kind::Call])?;
    let tool = studio.catalog().get(&record.tool).cloned();
    let grantable = tool.as_ref().is_some_and(|it| it.grantable);
    let grant_ms = tool.and_then(|it| it.grant_ms);
    let once = Yes { grantable, grant_ms, ..Yes::once(by.to_string(), channel) };
    let allowed = match grant {
        Grant::Uses { uses, for_ms, any_args } => {
            studio.approvals.allow(studio, record.id, Yes { uses, for_ms, any_args, ..once }).await
        }
        Grant::Session => studio.approvals.allow_session(studio, record.id, once).await,
    };
    allowed.map_err(not_decided)?;
    find(control, &record.id.to_string(), &[Kind::Call])
}

pub async fn deny(
    control: &Control,
    by: &Principal,
    channel: Channel,
    id: &str,
    reason: Option<String>,
) -> Result<Record, ToolError> {
    let studio = &control.gateway.studio;
    let record = find(control, id, &[Kind::Call])?;
    let denied = studio.approvals.deny_because(studio, record.id, &by.to_string(), channel, reason).await;
    denied.map_err(not_decided)?;
    find(control, &record.id.to_string(), &[Kind::Call])
}

pub async fn accept_log(control: &Control, by: Principal) -> Result<Value, ToolError> {
    let (log, who) = (std::sync::Arc::clone(&control.gateway.audit), by.clone());
    let accepted = tokio::task::spawn_blocking(move || log.accept(&who)).await;
    let accepted = accepted.map_err(|error| ToolError::new(Code::Internal, error.to_string()))?;
    let (head, report) = accepted.map_err(|why| ToolError::new(Code::BadInput, why))?;
    Ok(json!({ "head": head_value(&head), "verdict": report.verdict.as_str(), "by": by.to_string() }))
}

pub async fn reset_circuit(control: &Control, by: Principal, tool: Option<String>) -> Result<Value, ToolError> {
    let studio = &control.gateway.studio;
    match &tool {
        Some(tool) => {
            studio.circuits.reset(tool);
        }
        None => studio.circuits.reset_all(),
    }
    let _ = studio.audit_event(Some(by), EventName::CircuitReset, json!({ "tool": tool })).await;
    Ok(json!({ "reset": tool.unwrap_or_else(|| "all".into()) }))
}

pub async fn open_http(control: &Control, caller: Caller, address: SocketAddr) -> Result<Value, ToolError> {
    let http = &control.gateway.http;
    let bound = http.open_for(address, caller.connection).await.map_err(|error| {
        ToolError::new(Code::HostOffline, format!("{address} cannot be opened: {error}"))
            .subject(Subject::Host("http".into()))
    })?;
    let token_file = control.home.root().join("state").join("http.token");
    Ok(json!({ "address": bound.to_string(), "url": format!("{}/mcp", http.url(bound)), "token_file": token_file }))
}

/// Adds or removes an HTTP token, or a key of another rig, and waits until the change is in force.
pub async fn change_token(control: &Control, caller: Caller, change: Value) -> Result<Value, ToolError> {
    let change = Call::new(control.person(caller)?, "token.change", change);
    let applied = run(control, change).await?;
    // The owner answers in order, so this returns after the reload that the change caused.
    control.handle.status().await?;
    Ok(applied)
}

/// Finds a record of one of these kinds by its id or short id.
pub fn find(control: &Control, text: &str, kinds: &[Kind]) -> Result<Record, ToolError> {
    let found = control.gateway.studio.approvals.store().read(|pending| {
        let id: Uuid = pending.find(text)?;
        Ok::<_, Refused>(pending.get(id).filter(|it| kinds.contains(&it.kind)).cloned())
    });
    let (what, subject, hint) = match kinds {
        [Kind::Call] => ("approval", Subject::Approval(text.to_owned()), "`conductor approvals list` lists the ids."),
        [Kind::Call, ..] => {
            let hint = "`conductor approvals list` and `conductor plans list` list the ids.";
            ("approval or plan", Subject::Approval(text.to_owned()), hint)
        }
        _ => ("plan", Subject::Plan(text.to_owned()), "`conductor plans list` lists the ids."),
    };
    match found {
        Ok(Some(record)) => Ok(record),
        Ok(None) | Err(Refused::NotFound) => {
            Err(ToolError::new(Code::NotFound, format!("there is no {what} {text:?}")).subject(subject).hint(hint))
        }
        Err(other) => Err(ToolError::new(Code::BadInput, other.to_string())),
    }
}

/// Characters per page. A page fits into one line of this protocol even if every character is
/// escaped.
const PAGE: usize = 64 * 1024;

/// The page of facts that starts at character `from`, and the start of the next page.
pub fn page(facts: &[Fact], from: usize) -> Value {
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

pub fn shown(record: &Record) -> Value {
    let mut value: Value = serde_json::from_slice(&record.to_json()).unwrap_or_default();
    if record.kind == Kind::Plan {
        value["status"] = json!(record.config_plan().status);
    }
    value
}

fn not_decided(error: ApprovalError) -> ToolError {
    match error {
        ApprovalError::Refused(Refused::Expired) => ToolError::new(Code::PlanExpired, "the approval has expired"),
        ApprovalError::Refused(why) => ToolError::new(Code::BadInput, why.to_string()),
        ApprovalError::Disk(error) => ToolError::new(Code::Internal, error.to_string()),
    }
}
