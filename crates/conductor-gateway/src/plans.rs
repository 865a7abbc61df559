//! Plans, which are changes to the configuration. A plan is drafted as a diff and kept until a
//! person applies it. An undo reverts an applied plan.
//!
//! The listed tools only draft plans. `plan.apply` and `plan.reject` are hidden tools that only a
//! person can call.

use crate::catalog::typed::Context;
use crate::mapping_call;
use crate::owner_handle::OwnerHandle;
use crate::pending_store::Attachment;
use crate::report::{NetworkNow, Reloaded, Status};
use crate::script::{Execution, JoinedPlan};
use crate::studio::Studio;
use crate::surroundings::OwnedSurroundings;
use conductor_core::audit::record::EventName;
use conductor_core::config::{self, Config, Diagnostic, Surroundings};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Effect, Subject, ToolError, Violation};
use conductor_core::pending::{
    Ask, ConfigPlan, Fact, Kind, Limited, NewIds, NewPlan, Pending, PlanStatus, Present, Record, Refused, State,
};
use conductor_core::plan::{self, Change, Draft, PlanError, RowRef};
use conductor_core::policy::{Channel, Floor};
use conductor_core::principal::Principal;
use conductor_core::templates;
use conductor_hosts::atomic_file;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io;
use std::sync::Arc;
use uuid::Uuid;

/// The label of the fact that names the plan to undo.
const UNDOES: &str = "undoes";

/// The present content of the file; empty if there is no file.
fn present_bytes(studio: &Studio) -> Result<Vec<u8>, ToolError> {
    match atomic_file::read(&config_path(studio)) {
        Ok(bytes) => Ok(bytes),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(fault) => Err(ToolError::new(Code::Internal, format!("config.toml cannot be read: {fault}"))
            .subject(Subject::Config("config.toml".into()))),
    }
}

fn config_path(studio: &Studio) -> std::path::PathBuf {
    studio.home.join("config.toml")
}

fn with_surroundings<T>(studio: &Studio, act: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    OwnedSurroundings::of(studio).with(act)
}

/// The owner's status, the number of plans that wait for a person, and the state of the audit log.
#[derive(Serialize, JsonSchema)]
pub struct StatusAndPlans {
    #[serde(flatten)]
    status: Status,
    /// Number of plans that wait for a person.
    pending_plans: usize,
    /// The audit log.
    audit: AuditNow,
    #[serde(flatten)]
    network: NetworkNow,
}

#[derive(Serialize, JsonSchema)]
struct AuditNow {
    /// Whether records can be written.
    writable: bool,
    /// Why no tool can be called.
    reason: Option<String>,
    /// Why the second copy is behind.
    copy_fault: Option<String>,
    /// Number of records that are kept in memory until they can be written.
    waiting: usize,
}

impl AuditNow {
    fn of(studio: &Studio) -> Self {
        let health = studio.audit.health();
        let (waiting, copy_fault) = health.map(|it| (it.unwritten, it.copy_fault)).unwrap_or_default();
        let reason = studio.audit.up().err().map(|it| studio.scrubber.text(&it).into_owned());
        AuditNow { writable: reason.is_none(), reason, copy_fault, waiting }
    }
}

pub fn with_waiting(studio: &Studio, status: Status) -> StatusAndPlans {
    let now = studio.timestamp();
    let pending_plans = studio.approvals.store().read(|pending| {
        let waits = |it: &&Record| it.kind == Kind::Plan && it.state == State::Pending && !it.is_over(now);
        pending.iter().filter(waits).count()
    });
    StatusAndPlans { status, pending_plans, audit: AuditNow::of(studio), network: studio.network() }
}

/// Drafts the changes against the present file and stores the plan. Nothing else changes.
pub async fn make(cx: &Context, changes: &[Change], description: Option<String>) -> Result<ConfigPlan, ToolError> {
    let base = present_bytes(&cx.studio)?;
    if let Some(script) = cx.clearance.script() {
        let changes: Vec<Change> = changes.iter().map(|it| by_id(it, &base)).collect();
        let draft = |now: &[u8]| with_surroundings(&cx.studio, |around| plan::draft(now, &changes, around, &template));
        return join(cx, script, &base, draft, None);
    }
    let draft = with_surroundings(&cx.studio, |around| plan::draft(&base, changes, around, &template));
    keep(cx, &base, draft.map_err(refused)?, description, Vec::new()).await
}

/// The change with the id of its row instead of the index. A script reads the old configuration, so
/// an index in its calls means a row of the old configuration.
fn by_id(change: &Change, base: &[u8]) -> Change {
    let mut change = change.clone();
    if let Change::UpdateMapping { mode, row, .. } | Change::DeleteMapping { mode, row } = &mut change
        && let RowRef::Index(index) = row
        && let Some(config) = config::load(&String::from_utf8_lossy(base)).config
        && let Some(found) = rows_of(&config, mode).and_then(|rows| rows.mappings.get(*index))
    {
        *row = RowRef::Id(found.id.clone());
    }
    change
}

/// Maximum number of changes in one plan.
const MOST_CHANGES: usize = 64;

/// Adds changes to the plan of a script. Nothing is stored: the plan is stored when the script has
/// returned. The returned plan is only a preview.
fn join(
    cx: &Context,
    script: &Execution,
    base: &[u8],
    draft: impl FnOnce(&[u8]) -> Result<Draft, PlanError>,
    undoes: Option<Uuid>,
) -> Result<ConfigPlan, ToolError> {
    let studio = &cx.studio;
    let limits = studio.settings().limits.clone();
    let room = studio.approvals.store().read(|pending| pending.room_for(cx.clearance.principal(), &limits));
    room.map_err(|limited| not_stored(Refused::Limited(limited)))?;
    let mut joined = match script.joined() {
        Some(joined) if joined.base == Digest::of(base) => joined,
        Some(_) => return Err(script_is_stale()),
        None => JoinedPlan {
            base: Digest::of(base),
            result: String::from_utf8_lossy(base).into_owned(),
            rows: Vec::new(),
            summaries: Vec::new(),
            warnings: Vec::new(),
            undoes: Vec::new(),
        },
    };
    let draft = draft(joined.result.as_bytes()).map_err(refused)?;
    if joined.rows.len() + draft.changes.len() > MOST_CHANGES {
        let text = format!("one script can plan at most {MOST_CHANGES} changes");
        return Err(ToolError::new(Code::BadInput, text).hint("Divide the work into several scripts."));
    }
    joined.rows.extend(draft.changes.iter().map(|it| json!(it)));
    joined.summaries.extend(draft.changes.iter().map(plan::ChangeRow::summary));
    joined.warnings.extend(draft.warnings);
    joined.undoes.extend(undoes);
    joined.result = String::from_utf8_lossy(&draft.result).into_owned();
    let now = studio.timestamp();
    let preview = ConfigPlan {
        plan_id: script.id(),
        description: summary_of(&joined.summaries),
        changes: joined.rows.clone(),
        diff_preview: plan::diff::preview(&String::from_utf8_lossy(base), &joined.result),
        base_state_hash: Some(joined.base),
        result_state_hash: Some(Digest::of(joined.result.as_bytes())),
        created_at: now,
        expires_at: Some(now),
        warnings: joined.warnings.clone(),
        status: PlanStatus::Pending,
        reason: None,
    };
    script.set_joined(Some(joined));
    Ok(preview)
}

fn script_is_stale() -> ToolError {
    ToolError::new(Code::PlanStale, "the configuration changed since the script planned its first change")
        .subject(Subject::Config("config.toml".into()))
        .hint("Nothing was planned. Read the configuration and run a new script.")
}

/// Stores the plan of a script under an id that was chosen before. A plan with this id exists
/// already if the daemon ended after it had stored the plan.
pub async fn keep_joined(cx: &Context, joined: JoinedPlan, id: Uuid) -> Result<ConfigPlan, ToolError> {
    if let Some(record) = cx.studio.approvals.get(id) {
        return Ok(record.config_plan());
    }
    let base = present_bytes(&cx.studio)?;
    if Digest::of(&base) != joined.base {
        return Err(script_is_stale());
    }
    let facts = joined.undoes.iter().map(|it| Fact { label: UNDOES.into(), text: it.to_string() }).collect();
    let proposed = Proposed {
        diff_preview: plan::diff::preview(&String::from_utf8_lossy(&base), &joined.result),
        result: joined.result.into_bytes(),
        changes: joined.rows,
        summary: summary_of(&joined.summaries),
        warnings: joined.warnings,
        facts,
    };
    let ids = NewIds { id, ..cx.studio.new_ids() };
    store(cx, &base, proposed, ids).await
}

/// Checks that the file is still the one from which the plan of a script starts.
pub fn check_base(studio: &Studio, joined: &JoinedPlan) -> Result<(), ToolError> {
    if Digest::of(&present_bytes(studio)?) == joined.base { Ok(()) } else { Err(script_is_stale()) }
}

/// The difference that the plan of a script would make.
pub fn difference(studio: &Studio, joined: &JoinedPlan) -> Result<String, ToolError> {
    let base = present_bytes(studio)?;
    Ok(plan::diff::preview(&String::from_utf8_lossy(&base), &joined.result))
}

fn summary_of(changes: &[String]) -> String {
    match changes {
        [only] => only.clone(),
        [first, second] => format!("{first}; {second}"),
        [first, rest @ ..] => format!("{first} and {} more changes", rest.len()),
        [] => "no change".into(),
    }
}

/// Drafts a change to a plugin's row in `config.toml` and stores the plan, for `plugin.set`.
pub async fn make_plugin(
    cx: &Context,
    name: &str,
    row: &Map<String, Value>,
    description: String,
) -> Result<ConfigPlan, ToolError> {
    let base = present_bytes(&cx.studio)?;
    let draft =
        with_surroundings(&cx.studio, |around| plan::draft_plugin(&base, name, row, description.clone(), around));
    keep(cx, &base, draft.map_err(refused)?, Some(description), Vec::new()).await
}

/// Drafts a change to the HTTP tokens, or to the keys of other rigs, in `config.toml` and stores
/// the plan.
pub async fn make_token(
    cx: &Context,
    list: plan::RowList,
    change: plan::TokenChange<'_>,
    description: String,
) -> Result<ConfigPlan, ToolError> {
    let base = present_bytes(&cx.studio)?;
    let draft =
        with_surroundings(&cx.studio, |around| plan::draft_token(&base, list, change, description.clone(), around));
    keep(cx, &base, draft.map_err(refused)?, Some(description), Vec::new()).await
}

fn template(name: &str) -> Option<plan::Template> {
    let template = templates::find(name)?;
    let row = template.devices_row(name);
    Some(plan::Template {
        description: row["description"].as_str().map(str::to_owned),
        matchers: row["matchers"].as_array().cloned().unwrap_or_default(),
    })
}

/// Drafts the inverse of an applied plan.
pub async fn make_undo(cx: &Context, id: Uuid) -> Result<ConfigPlan, ToolError> {
    let studio = &cx.studio;
    let record = find(studio, &id.to_string())?;
    if record.state != State::Used {
        return Err(ToolError::new(
            Code::BadInput,
            format!("plan {id} is {}; only an applied plan can be undone", record.state),
        )
        .subject(Subject::Plan(id.to_string())));
    }
    let store = studio.approvals.store();
    let bytes = |which| store.bytes(id, which).map_err(|fault| lost(id, &fault));
    let (before, after) = (bytes(Attachment::Before)?, bytes(Attachment::After)?);
    let base = present_bytes(studio)?;
    if let Some(script) = cx.clearance.script() {
        let draft = |now: &[u8]| with_surroundings(studio, |around| plan::undo(&before, &after, now, around));
        return join(cx, script, &base, draft, Some(id));
    }
    let draft = with_surroundings(studio, |around| plan::undo(&before, &after, &base, around)).map_err(refused)?;
    let facts = vec![Fact { label: UNDOES.into(), text: id.to_string() }];
    keep(cx, &base, draft, Some(format!("Undo: {}", record.summary)), facts).await
}

async fn keep(
    cx: &Context,
    base: &[u8],
    draft: Draft,
    description: Option<String>,
    facts: Vec<Fact>,
) -> Result<ConfigPlan, ToolError> {
    let Draft { result, diff_preview, changes, warnings, .. } = draft;
    let summaries = || changes.iter().map(plan::ChangeRow::summary).collect::<Vec<_>>();
    let summary = description.unwrap_or_else(|| summary_of(&summaries()));
    let changes: Vec<Value> = changes.iter().map(|it| json!(it)).collect();
    store(cx, base, Proposed { result, diff_preview, changes, summary, warnings, facts }, cx.studio.new_ids()).await
}

/// A plan that is not stored yet.
struct Proposed {
    result: Vec<u8>,
    diff_preview: String,
    changes: Vec<Value>,
    summary: String,
    warnings: Vec<String>,
    facts: Vec<Fact>,
}

async fn store(cx: &Context, base: &[u8], proposed: Proposed, ids: NewIds) -> Result<ConfigPlan, ToolError> {
    let Context { studio, clearance, arguments } = cx;
    let Proposed { result, diff_preview, changes, summary, warnings, facts } = proposed;
    let force = studio.policy();
    let tool = clearance.tool();
    let plan = NewPlan {
        principal: clearance.principal().clone(),
        tool: tool.name.to_string(),
        args_hash: Digest::of_json(arguments).map_err(|fault| ToolError::new(Code::BadInput, fault.to_string()))?,
        pin: tool.pin,
        policy_version: force.version,
        summary,
        facts,
        changes,
        diff_preview,
        base_state_hash: Digest::of(base),
        result_state_hash: Digest::of(&result),
        warnings,
        floor: Floor::Local,
    };
    let (settings, limits, now) = (force.policy.approval.clone(), studio.settings().limits.clone(), studio.timestamp());
    let (store, base) = (Arc::clone(studio.approvals.store()), base.to_vec());
    let made = tokio::task::spawn_blocking(move || {
        store.change_with(&[(Attachment::Before, base.as_slice()), (Attachment::After, result.as_slice())], |pending| {
            let id = pending.create_plan(plan, ids, &settings, &limits, now)?;
            Ok((id, pending.get(id).map(Record::config_plan)))
        })
    });
    let not_kept = |fault: std::io::Error| {
        let folder = studio.home.join("state").join("plans");
        ToolError::new(Code::SdkRejected, format!("{}: the plan cannot be stored: {fault}", folder.display()))
            .hint("Nothing was changed. The person should check the folder: its permissions, the free space and the limit on open files.")
            .effect(Effect::None)
    };
    let made = made.await.map_err(|fault| internal(&fault))?.map_err(not_kept)?.map_err(not_stored)?;
    let detail = json!({ "plan": ids.id.to_string() });
    let _ = studio.audit.event(Some(clearance.principal().clone()), EventName::PlanCreated, detail).await;
    studio.events.uri_changed("conductor://plans");
    made.ok_or_else(|| internal(&"the plan was not stored"))
}

/// Finds a plan by its id or short id.
pub fn find(studio: &Studio, text: &str) -> Result<Record, ToolError> {
    let found = studio.approvals.store().read(|pending| {
        let id = pending.find(text)?;
        Ok(pending.get(id).filter(|it| it.kind == Kind::Plan).cloned())
    });
    match found {
        Ok(Some(record)) => Ok(record),
        Ok(None) | Err(Refused::NotFound) => Err(ToolError::new(Code::NotFound, format!("there is no plan {text:?}"))
            .subject(Subject::Plan(text.to_owned()))
            .hint("conductor_list_plans lists all plans.")),
        Err(other) => Err(not_stored(other)),
    }
}

/// Every plan, newest first.
pub async fn list(studio: &Arc<Studio>) -> Result<Vec<ConfigPlan>, ToolError> {
    studio.approvals.expire(studio).await.map_err(|fault| internal(&fault))?;
    let mut plans: Vec<Record> =
        studio.approvals.store().read(|pending| pending.iter().filter(|it| it.kind == Kind::Plan).cloned().collect());
    plans.sort_by_key(|it| std::cmp::Reverse(it.created_at));
    Ok(plans.iter().map(Record::config_plan).collect())
}

/// The result of an applied plan.
#[derive(Serialize, JsonSchema)]
pub struct Applied {
    /// The plan.
    plan: ConfigPlan,
    /// Hash of the file in force.
    hash: Option<String>,
    /// Faults that disabled single rows, one line each.
    faults: Vec<String>,
    /// Parts of the file that wait for `conductor config accept`.
    held: Vec<String>,
}

/// Applies a plan, if the file has not changed since the plan was drafted. Of several concurrent
/// calls, exactly one succeeds.
pub async fn apply(
    studio: &Arc<Studio>,
    owner: &OwnerHandle,
    by: &Principal,
    channel: Channel,
    id: Uuid,
) -> Result<Applied, ToolError> {
    let _one_at_a_time = studio.applying.lock().await;
    if owner.status().await?.performance_lock {
        return Err(crate::performance_lock::locked("no plan is applied"));
    }
    let record = find(studio, &id.to_string())?;
    let base = present_bytes(studio)?;
    let (store, now, who) = (Arc::clone(studio.approvals.store()), studio.timestamp(), by.to_string());
    let present = Present { pin: record.pin, policy_version: studio.policy().version, state: Some(Digest::of(&base)) };
    decide(studio, id, move |pending| pending.apply(id, &who, channel, &present, now)).await?;
    let written = write(studio, &store, &record, &base);
    if let Err(error) = written {
        // Nothing was written, so the plan is pending again.
        store.change(|pending| pending.fail_apply(id, now)).map_err(|fault| internal(&fault))?.map_err(not_stored)?;
        return Err(error);
    }
    let after = store.bytes(id, Attachment::After).map_err(|fault| lost(id, &fault))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let reloaded = owner.plan_applied(text(&base), text(&after)).await?;
    settle_grants(studio, by, channel, &record, &store)?;
    for undone in record.facts.iter().filter(|it| it.label == UNDOES).filter_map(|it| it.text.parse().ok()) {
        // The record of the undone plan may have been removed already.
        let _ = store.change(|pending| pending.undo(undone, now)).map_err(|fault| internal(&fault))?;
    }
    let event =
        if record.facts.iter().any(|it| it.label == UNDOES) { EventName::PlanUndone } else { EventName::PlanApplied };
    let _ = studio.audit.event(Some(by.clone()), event, json!({ "plan": id.to_string() })).await;
    for uri in ["conductor://plans", "conductor://config"] {
        studio.events.uri_changed(uri);
    }
    let Reloaded { hash, faults, held, .. } = reloaded;
    Ok(Applied { plan: find(studio, &id.to_string())?.config_plan(), hash, faults, held })
}

fn write(
    studio: &Studio,
    store: &crate::pending_store::PendingStore,
    record: &Record,
    base: &[u8],
) -> Result<(), ToolError> {
    let id = record.id;
    let after = store.bytes(id, Attachment::After).map_err(|fault| lost(id, &fault))?;
    let text = String::from_utf8_lossy(&after);
    // Other programs can change the stored bytes, so apply them only if they are the bytes that the
    // person was shown.
    let shown = record.result_state_hash == Some(Digest::of(&after))
        && record.diff_preview.as_deref() == Some(&plan::diff::preview(&String::from_utf8_lossy(base), &text));
    if !shown {
        return Err(ToolError::new(
            Code::PlanStale,
            "the stored plan is not the plan that was shown; nothing was written",
        )
        .subject(Subject::Plan(id.to_string())));
    }
    if config::load(&text).config.is_none() {
        return Err(
            ToolError::new(Code::Internal, "the plan's result cannot be read").subject(Subject::Plan(id.to_string()))
        );
    }
    let path = config_path(studio);
    let mut is_changed = false;
    let unchanged = || {
        let now = match atomic_file::read(&path) {
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        is_changed = now != base;
        if is_changed { Err(io::Error::other("config.toml changed while the plan was applied")) } else { Ok(()) }
    };
    let written = atomic_file::replace_if(&path, &after, 0o600, &id.to_string(), unchanged);
    written.map_err(|fault| {
        let error = if is_changed {
            ToolError::new(Code::PlanStale, format!("nothing was written: {fault}"))
        } else {
            ToolError::new(Code::SdkRejected, format!("{}: the file cannot be written: {fault}", path.display())).hint(
                "The plan can be applied again. The person should check the file: its permissions and the free space.",
            )
        };
        error.subject(Subject::Plan(id.to_string()))
    })
}

/// Updates the standing grants (approvals that were given in advance) after a plan was applied. The
/// calls of a mapping with constant arguments are granted as long as the mapping stays unchanged.
/// Removed and changed mappings lose their grants.
fn settle_grants(
    studio: &Studio,
    by: &Principal,
    channel: Channel,
    record: &Record,
    store: &crate::pending_store::PendingStore,
) -> Result<(), ToolError> {
    let after = store.bytes(record.id, Attachment::After).map_err(|fault| lost(record.id, &fault))?;
    let config = config::load(&String::from_utf8_lossy(&after)).config.unwrap_or_default();
    let force = studio.policy();
    let now = studio.timestamp();
    for change in record.changes.as_deref().unwrap_or_default() {
        let (Some(mode), Some(id)) = (change["mode"].as_str(), change["mapping_id"].as_str()) else { continue };
        let principal = Principal::Mapping { mode: mode.to_owned(), id: id.to_owned() };
        let calls = rule_of(&config, mode, id).map(|it| mapping_call::constant_calls(&it.action)).unwrap_or_default();
        let mut asks = Vec::new();
        for (tool_name, arguments) in calls {
            let Some(tool) = studio.catalog().named(&tool_name).cloned() else { continue };
            let Ok(args_hash) = Digest::of_json(&arguments) else { continue };
            asks.push((
                tool.ask_floor,
                Ask {
                    principal: principal.clone(),
                    tool: tool.name.to_string(),
                    tier: tool.tier,
                    args_hash,
                    present: Present { pin: tool.pin, policy_version: force.version, state: None },
                    summary: format!("standing: {}", tool.summarize(&arguments)),
                    facts: Vec::new(),
                    floor: Floor::Local,
                    from_plugin: false,
                    tainted: false,
                },
                studio.new_ids(),
            ));
        }
        store
            .change(|pending| {
                pending.end_standing(&principal, None);
                for (floor, ask, ids) in asks {
                    // `grant_standing` refuses SysEx calls, so each press still needs an approval.
                    let _ = pending.grant_standing(ask, floor, &by.to_string(), channel, ids, now);
                }
            })
            .map_err(|fault| internal(&fault))?;
    }
    Ok(())
}

fn rule_of<'a>(config: &'a Config, mode: &str, id: &str) -> Option<&'a config::Rule> {
    rows_of(config, mode)?.mappings.iter().find(|it| it.id == id)?.rule.as_ref()
}

fn rows_of<'a>(config: &'a Config, mode: &str) -> Option<&'a config::Rows> {
    if mode == "*" { Some(&config.global) } else { Some(&config.modes.iter().find(|it| it.name == mode)?.rows) }
}

pub async fn reject(
    studio: &Arc<Studio>,
    by: &Principal,
    channel: Channel,
    id: Uuid,
    reason: Option<String>,
) -> Result<ConfigPlan, ToolError> {
    find(studio, &id.to_string())?;
    let (who, now) = (by.to_string(), studio.timestamp());
    decide(studio, id, move |pending| pending.deny_because(id, &who, channel, reason.as_deref(), now)).await?;
    let _ = studio.audit.event(Some(by.clone()), EventName::PlanRejected, json!({ "plan": id.to_string() })).await;
    studio.events.uri_changed("conductor://plans");
    Ok(find(studio, &id.to_string())?.config_plan())
}

/// Stores a person's decision about a plan, on a thread that may block on disk I/O.
async fn decide<T: Send + 'static>(
    studio: &Studio,
    id: Uuid,
    change: impl FnOnce(&mut Pending) -> Result<T, Refused> + Send + 'static,
) -> Result<T, ToolError> {
    let store = Arc::clone(studio.approvals.store());
    let decided = tokio::task::spawn_blocking(move || store.change(change)).await;
    let decided = decided.map_err(|fault| internal(&fault))?.map_err(|fault| internal(&fault))?;
    decided.map_err(|why| not_applied(id, why))
}

fn not_applied(id: Uuid, why: Refused) -> ToolError {
    let subject = Subject::Plan(id.to_string());
    match why {
        Refused::Changed(_) | Refused::Already(State::Stale) => {
            ToolError::new(Code::PlanStale, "the configuration changed since the plan was made; nothing was written")
                .subject(subject)
        }
        Refused::Expired | Refused::Already(State::Expired) => {
            ToolError::new(Code::PlanExpired, format!("plan {id} has expired")).subject(subject)
        }
        Refused::Already(state) => {
            ToolError::new(Code::BadInput, format!("plan {id} is already {state}")).subject(subject)
        }
        other @ (Refused::NotFound
        | Refused::Ambiguous(_)
        | Refused::Channel(_)
        | Refused::NotGrantable
        | Refused::TooWide
        | Refused::Kind(_)
        | Refused::NeverStanding
        | Refused::Record(_)
        | Refused::Limited(_)) => not_stored(other).subject(subject),
    }
}

fn not_stored(why: Refused) -> ToolError {
    let code = match &why {
        Refused::NotFound => Code::NotFound,
        Refused::Limited(Limited::Rate { .. }) => Code::RateLimited,
        Refused::Limited(Limited::Principal | Limited::All) => Code::Busy,
        Refused::Ambiguous(_)
        | Refused::Already(_)
        | Refused::Expired
        | Refused::Changed(_)
        | Refused::Channel(_)
        | Refused::NotGrantable
        | Refused::TooWide
        | Refused::Kind(_)
        | Refused::NeverStanding
        | Refused::Record(_) => Code::BadInput,
    };
    ToolError::new(code, why.to_string())
}

fn refused(error: PlanError) -> ToolError {
    let message = error.to_string();
    match &error {
        PlanError::Unreadable { diagnostics } => ToolError::new(Code::BadInput, message)
            .subject(Subject::Config("config.toml".into()))
            .hint("Correct config.toml by hand first; conductor_validate_config lists every fault.")
            .violations(violations(diagnostics)),
        PlanError::NotFound { subject, name, .. } => ToolError::new(Code::NotFound, message).subject(match subject {
            plan::Subject::Mode => Subject::Mode(name.clone()),
            plan::Subject::Device => Subject::Device(name.clone()),
            plan::Subject::Mapping | plan::Subject::Continuous | plan::Subject::Template => {
                Subject::Other(name.clone())
            }
        }),
        PlanError::StaleRow { .. } => ToolError::new(Code::StaleReference, message)
            .hint("Call conductor_get_mappings and use a fresh id; the id stays the same when rows move."),
        PlanError::Taken { .. } | PlanError::Refused { .. } => ToolError::new(Code::BadInput, message),
        PlanError::WouldBreak { diagnostics } => {
            ToolError::new(Code::BadInput, message).violations(violations(diagnostics))
        }
        PlanError::Stale { item } => ToolError::new(Code::PlanStale, message).subject(Subject::Other(item.clone())),
    }
}

/// Converts diagnostics, with their help, to violations in the arguments.
pub fn violations(diagnostics: &[Diagnostic]) -> Vec<Violation> {
    let violations = diagnostics.iter().take(8).map(|it| {
        let help = it.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        Violation { path: it.path.clone(), message: format!("{}{help}", it.message) }
    });
    violations.collect()
}

/// The error of a tool whose change has faults.
pub fn bad_change(diagnostics: Vec<Diagnostic>) -> ToolError {
    let violations = violations(&diagnostics);
    let first = violations.first().map(|it| format!("{}: {}", it.path, it.message)).unwrap_or_default();
    let subject = Subject::Argument(violations.first().map(|it| it.path.clone()).unwrap_or_default());
    ToolError::new(Code::BadInput, first).subject(subject).violations(violations)
}

fn lost(id: Uuid, fault: &io::Error) -> ToolError {
    ToolError::new(Code::Internal, format!("the stored result of plan {id} cannot be read: {fault}"))
        .subject(Subject::Plan(id.to_string()))
}

fn internal(fault: &dyn std::fmt::Display) -> ToolError {
    ToolError::new(Code::Internal, fault.to_string())
}
