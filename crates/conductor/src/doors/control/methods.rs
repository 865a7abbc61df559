//! The requests of the human door: one table of names and parameters, and one match that handles
//! them.

use super::person::NotAPerson;
use super::{Caller, Control, decisions, play, plugins, secrets};
use crate::config_check::Checked;
use conductor_core::config::Config;
use conductor_core::digest::Digest;
use conductor_core::engine::explain::Asked;
use conductor_core::engine::{self, Explanation, SimError, TraceRecord};
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use conductor_core::event::Taint;
use conductor_gateway::audit_log::head_value;
use conductor_gateway::owner_handle::{self, SentBy, Wanted};
use conductor_gateway::pipeline::approval::ApproverPresent;
use conductor_gateway::studio::events::{Event, Listener};
use conductor_gateway::tools::daemon::plans;
use conductor_gateway::tools::daemon::surroundings::OwnedSurroundings;
use conductor_hosts::atomic_file;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

/// One line per request: variant, wire name, and parameters. `slow` marks requests that wait for a
/// person, a program or a piece of music, so a client must not time out on them.
macro_rules! requests {
    ($($variant:ident = $name:literal $($slow:ident)? { $($fields:tt)* })+) => {
        #[derive(Deserialize)]
        #[serde(tag = "method", content = "params", deny_unknown_fields)]
        pub enum Request { $(#[serde(rename = $name)] $variant { $($fields)* }),+ }

        impl Request {
            pub const NAMES: &'static [&'static str] = &[$($name),+];
            const SLOW: &'static [&'static str] = &[$($(requests!(@$slow $name),)?)+];
        }
    };
    (@slow $name:literal) => { $name };
}

requests! {
    Status = "status" {}
    Modes = "modes" {}
    Mappings = "mappings" { mode: String }
    Devices = "devices" {}
    Bindings = "bindings" {}
    DeviceEnable = "device.enable" { device_id: String, enabled: bool }
    PortsScan = "ports.scan" {}
    ModeSet = "mode.set" { mode: String }
    ModeAuto = "mode.auto" {}
    PerformanceSet = "performance.set" { on: bool }
    Reload = "reload" slow {}
    Panic = "panic" {}
    Simulate = "simulate" { events: String, mode: Option<String> }
    Explain = "explain" { event: String, mode: Option<String>, device: Option<String> }
    Trace = "trace" {
        limit: Option<usize>, since_seq: Option<u64>, device: Option<String>, mapping_id: Option<String>,
        outcome: Option<String>,
    }
    LearnStart = "learn.start" slow { timeout_ms: u32, #[serde(default)] let_through: bool }
    LearnStop = "learn.stop" {}
    Monitor = "monitor" {}
    // `messages` are complete MIDI messages; `events` is a script in which `t:` lets time pass.
    Send = "send" { port: String, messages: Vec<Vec<u8>> }
    Play = "play" slow { port: String, events: String }
    Listen = "listen" { port: String }
    ConfigShow = "config.show" {}
    ConfigCheck = "config.check" {}
    ConfigWaiting = "config.waiting" {}
    // `hash` is the hash of the file that the person was shown.
    ConfigAccept = "config.accept" slow { hash: String }
    Call = "call" slow { tool: String, arguments: Option<Value> }
    ToolsList = "tools.list" {}
    PlansList = "plans.list" {}
    PlansShow = "plans.show" { id: String }
    PlansApply = "plans.apply" slow { id: String }
    PlansReject = "plans.reject" { id: String }
    PlansUndo = "plans.undo" slow { id: String }
    SeedApplyPlan = "llm_apply_plan" slow { #[serde(rename = "planId")] plan_id: String }
    SeedRejectPlan = "llm_reject_plan" { #[serde(rename = "planId")] plan_id: String }
    ApprovalsList = "approvals.list" {}
    // With `full_from`, all facts are returned in full, in pages. `full_from` is the first
    // character of the page.
    ApprovalsShow = "approvals.show" { id: String, full_from: Option<usize> }
    ApprovalsAllow = "approvals.allow" {
        id: String, uses: Option<u32>, for_ms: Option<u64>, #[serde(default)] any_args: bool,
    }
    ApprovalsDeny = "approvals.deny" { id: String }
    ApprovalsWatch = "approvals.watch" {}
    AuditHead = "audit.head" {}
    AuditAccept = "audit.accept" {}
    CircuitList = "circuit.list" {}
    CircuitReset = "circuit.reset" { tool: Option<String> }
    HttpOpen = "http.open" { address: SocketAddr }
    // Without an address, closes every listener that this connection opened.
    HttpClose = "http.close" { address: Option<SocketAddr> }
    PluginsList = "plugins.list" {}
    PluginsCheck = "plugins.check" slow { file: String }
    // Keys that are missing in `row` keep their value in the file.
    PluginsEnable = "plugins.enable" slow {
        name: String, file: String, pin: Digest, #[serde(default)] row: Map<String, Value>,
    }
    PluginsDisable = "plugins.disable" { name: String }
    SecretsSet = "secrets.set" slow {
        name: String, value: String, #[serde(default)] hosts: Vec<String>, #[serde(default)] allow_key_file: bool,
    }
    SecretsList = "secrets.list" {}
    SecretsRemove = "secrets.remove" slow { name: String }
    SecretsStatus = "secrets.status" {}
    SecretsRotate = "secrets.rotate" slow {}
    LiveExamine = "live.examine" slow {}
}

impl Request {
    pub fn read(name: &str, params: Value) -> Result<Self, ToolError> {
        serde_json::from_value(json!({ "method": name, "params": params }))
            .map_err(|error| ToolError::new(Code::BadInput, format!("params: {error}")))
    }

    /// Whether the answer may depend on a person, a program or a piece of music.
    pub fn is_slow(name: &str) -> bool {
        Self::SLOW.contains(&name)
    }
}

pub enum Answer {
    Value(Value),
    /// Sends one message per item until either side ends the stream.
    Stream(Stream),
}

pub enum Stream {
    Records(mpsc::Receiver<TraceRecord>),
    Bytes(mpsc::Receiver<Vec<u8>>),
    /// Approval requests and decisions as they happen. While this stream is open, an approver
    /// counts as present.
    Questions(ApproverPresent, Listener),
}

impl Stream {
    pub async fn next(&mut self) -> Option<Value> {
        match self {
            Stream::Records(records) => records.recv().await.map(|it| it.to_json()),
            Stream::Bytes(heard) => heard.recv().await.map(|it| json!({ "bytes": it })),
            Stream::Questions(_, events) => loop {
                match events.recv().await {
                    Ok(Event::ApprovalAsked(record)) => return serde_json::from_slice(&record.to_json()).ok(),
                    Ok(Event::ApprovalDecided(id)) => return Some(json!({ "decided": id.to_string() })),
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            },
        }
    }
}

pub async fn answer(control: &Control, caller: Caller, request: Request) -> Result<Answer, ToolError> {
    let handle = &control.handle;
    let studio = &control.gateway.studio;
    let value = match request {
        Request::Status {} => json!(plans::with_waiting(studio, handle.status().await?)),
        Request::Modes {} => json!(&*handle.modes()),
        Request::Mappings { mode } => json!(handle.mappings(&mode)?),
        Request::Devices {} => json!(handle.devices().await?),
        Request::Bindings {} => json!(handle.bindings().await?),
        Request::DeviceEnable { device_id, enabled } => {
            control.may_change_the_stage(caller.peer, "no device is muted or unmuted").await?;
            json!(handle.set_device_enabled(device_id, enabled).await?)
        }
        Request::PortsScan {} => {
            control.may_change_the_stage(caller.peer, "no scan is started").await?;
            json!(handle.scan_ports().await?)
        }
        Request::ModeSet { mode } => {
            control.may_change_the_stage(caller.peer, "the mode stays as it is").await?;
            let by = if control.recognise(caller.peer).is_ok() { Taint::Clean } else { Taint::Tool };
            json!(handle.switch_mode_by(mode, by).await?)
        }
        Request::ModeAuto {} => {
            control.may_change_the_stage(caller.peer, "the mode stays as it is").await?;
            json!(handle.auto_mode().await?)
        }
        Request::PerformanceSet { on } => {
            control.person(caller)?;
            handle.set_performance_lock(on).await?;
            json!({ "on": on })
        }
        Request::Reload {} => json!(handle.reload().await?),
        Request::Panic {} => json!(handle.panic().await?),
        Request::Simulate { events, mode } => simulate(&handle.serving().config, &events, mode.as_deref())?,
        Request::Explain { event, mode, device } => {
            with_text(&handle.explain(&event, mode.as_deref(), device.as_deref()).await?)
        }
        Request::Trace { limit, since_seq, device, mapping_id, outcome } => {
            json!(handle.trace(Wanted { limit, since_seq, device, mapping_id, outcome }).await?)
        }
        Request::LearnStart { timeout_ms, let_through } => {
            control.may_change_the_stage(caller.peer, "MIDI learn cannot start").await?;
            json!(handle.learn_start(timeout_ms, let_through, Some(caller.connection)).await?)
        }
        Request::LearnStop {} => json!(handle.learn_stop().await?),
        Request::Monitor {} => return Ok(Answer::Stream(Stream::Records(handle.monitor().await?))),
        Request::Send { port, messages } => {
            may_send(control, caller, &port).await?;
            json!({ "messages_sent": handle.send(port, messages, sent_by(control, caller)).await? })
        }
        Request::Play { port, events } => {
            may_send(control, caller, &port).await?;
            // Notes that are still on are released when the connection ends.
            let by = match sent_by(control, caller) {
                SentBy::Person => SentBy::Hand { connection: caller.connection },
                by @ (SentBy::Hand { .. } | SentBy::Tool { .. }) => by,
            };
            json!({ "messages_sent": play::play(handle, &port, &events, by, control.now()).await? })
        }
        Request::Listen { port } => return Ok(Answer::Stream(Stream::Bytes(handle.listen(port).await?))),
        Request::ConfigShow {} => {
            let serving = handle.serving();
            let text = serving.text.as_deref().ok_or_else(|| no_file(control))?;
            json!({ "content": text, "path": control.home.config_file(), "hash": serving.hash_text() })
        }
        Request::ConfigCheck {} => {
            let surroundings = OwnedSurroundings::read(studio, handle).await;
            Checked::here(&control.home.config_file(), studio, &surroundings).to_json()
        }
        Request::ConfigWaiting {} => {
            // Read the file again, so that the answer describes the file's present content.
            let reloaded = handle.reload().await;
            let serving = handle.serving();
            let waiting = &serving.waiting;
            json!({
                "hash": file_hash(control)?, "held": waiting.held.names(), "since": waiting.since, "closed": waiting.closed.as_deref(),
                "difference": &*waiting.difference, "unprotected": waiting.typing, "error": reloaded.err().map(|it| it.message),
            })
        }
        Request::ConfigAccept { hash } => {
            let person = control.person(caller)?;
            let hash =
                hash.parse().map_err(|_| ToolError::new(Code::BadInput, "hash must be sha256: and 64 hex digits"))?;
            json!(control.gateway.accept_config(handle, person, hash).await?)
        }
        Request::Call { tool, arguments } => decisions::call(control, caller, tool, arguments).await?,
        Request::ToolsList {} => decisions::tools(control),
        Request::PlansList {} => decisions::plans_list(control).await?,
        Request::PlansShow { id } => decisions::plan(control, &id).await?,
        Request::PlansApply { id } | Request::SeedApplyPlan { plan_id: id } => {
            decisions::decide_plan(control, caller, "plan.apply", &id).await?
        }
        Request::PlansReject { id } | Request::SeedRejectPlan { plan_id: id } => {
            decisions::decide_plan(control, caller, "plan.reject", &id).await?
        }
        Request::PlansUndo { id } => decisions::undo_plan(control, caller, &id).await?,
        Request::ApprovalsList {} => decisions::approvals(control).await,
        Request::ApprovalsShow { id, full_from } => decisions::approval(control, &id, full_from).await?,
        Request::ApprovalsAllow { id, uses, for_ms, any_args } => {
            decisions::allow(control, caller, &id, (uses.unwrap_or(1), for_ms, any_args)).await?
        }
        Request::ApprovalsDeny { id } => decisions::deny(control, caller, &id).await?,
        Request::ApprovalsWatch {} => {
            control.person(caller)?;
            return Ok(Answer::Stream(Stream::Questions(
                studio.approvals.attend(),
                studio.events.listen(Event::is_approval),
            )));
        }
        Request::AuditHead {} => json!({ "head": control.gateway.audit.head().as_ref().map(head_value) }),
        Request::AuditAccept {} => decisions::accept_log(control, caller).await?,
        Request::CircuitList {} => decisions::circuits(control),
        Request::CircuitReset { tool } => decisions::reset_circuit(control, caller, tool).await?,
        Request::HttpOpen { address } => decisions::open_http(control, caller, address).await?,
        Request::HttpClose { address } => decisions::close_http(control, caller, address).await?,
        Request::PluginsList {} => {
            let plugins = &control.gateway.plugins;
            json!({ "folder": plugins.folder(), "plugins": plugins.reports() })
        }
        Request::PluginsCheck { file } => plugins::check(control, &file).await?,
        Request::PluginsEnable { name, file, pin, row } => {
            plugins::enable(control, caller, &name, &file, pin, row).await?
        }
        Request::PluginsDisable { name } => plugins::disable(control, caller, name).await?,
        Request::SecretsSet { name, value, hosts, allow_key_file } => {
            secrets::set(control, caller, name, value, hosts, allow_key_file).await?
        }
        Request::SecretsList {} => secrets::list(control).await?,
        Request::SecretsRemove { name } => secrets::remove(control, caller, name).await?,
        Request::SecretsStatus {} => secrets::status(control).await?,
        Request::SecretsRotate {} => secrets::rotate(control, caller).await?,
        Request::LiveExamine {} => json!({ "checks": control.gateway.live.examine().await }),
    };
    Ok(Answer::Value(value))
}

async fn may_send(control: &Control, caller: Caller, port: &str) -> Result<(), ToolError> {
    if control.handle.serving().config.performance.allow_output.iter().any(|it| it == port) {
        return Ok(());
    }
    control.may_change_the_stage(caller.peer, &format!("nothing is sent to {port}")).await
}

/// A caller that is not a person counts as a tool: its events are tainted.
fn sent_by(control: &Control, caller: Caller) -> SentBy {
    if control.recognise(caller.peer).is_ok() { SentBy::Person } else { SentBy::Tool { connection: caller.connection } }
}

pub(super) fn refuse(why: NotAPerson) -> ToolError {
    ToolError::new(Code::Denied, why.to_string()).by(RefusedBy::Policy)
}

fn file_hash(control: &Control) -> Result<String, ToolError> {
    let bytes = atomic_file::read(&control.home.config_file()).map_err(|_| no_file(control))?;
    Ok(Digest::of(&bytes).to_string())
}

fn no_file(control: &Control) -> ToolError {
    let path = control.home.config_file();
    ToolError::new(Code::NotFound, format!("there is no {}; the built-in empty mode is in force", path.display()))
        .subject(Subject::Config(path.display().to_string()))
}

/// Runs a script on a configuration in virtual time: `{trace, text}`.
pub fn simulate(config: &Config, events: &str, mode: Option<&str>) -> Result<Value, ToolError> {
    let simulation = engine::simulate(config, events, mode).map_err(|error| match error {
        SimError::Script(errors) => play::bad_script(&errors),
        SimError::Mode(unknown) => owner_handle::no_mode(&unknown.asked, unknown.known.iter().map(String::as_str)),
    })?;
    let trace: Vec<Value> = simulation.records.iter().map(TraceRecord::to_json).collect();
    Ok(json!({ "trace": trace, "text": simulation.text() }))
}

/// Explains one event with a configuration only, as if every device were connected.
pub fn explain(config: &Config, event: &str, mode: Option<&str>, device: Option<&str>) -> Result<Value, ToolError> {
    let body = owner_handle::one_event(event)?;
    let mode = mode.unwrap_or(&config.default_mode);
    if mode != "*" && config.modes.iter().all(|it| it.name != mode) {
        return Err(owner_handle::no_mode(mode, config.modes.iter().map(|it| it.name.as_str())));
    }
    let asked = Asked { mode, device, muted: false, absent: false, taint: Taint::Clean };
    Ok(with_text(&engine::explain(config, &body, &asked)))
}

fn with_text(explanation: &Explanation) -> Value {
    let mut value = json!(explanation);
    if let Value::Object(members) = &mut value {
        members.insert("text".into(), explanation.text().into());
    }
    value
}
