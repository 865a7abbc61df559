//! What can be asked on the human door. One closed enum; every method is one arm of one match.

use super::decisions::{self, GatewayMethod};
use super::person::NotAPerson;
use super::secrets::{self, SecretsMethod};
use super::{Caller, Control, play, plugins};
use crate::config_check::Checked;
use conductor_core::config::Config;
use conductor_core::digest::Digest;
use conductor_core::engine::explain::Asked;
use conductor_core::engine::{self, Explanation, SimError, TraceRecord};
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use conductor_core::event::Taint;
use conductor_core::principal::Principal;
use conductor_gateway::owner_handle::{self, SentBy, Wanted};
use conductor_gateway::pipeline::approval::ApproverPresent;
use conductor_gateway::studio::events::{Event, Listener};
use conductor_gateway::tools::daemon::plans;
use conductor_gateway::tools::daemon::surroundings::OwnedSurroundings;
use conductor_hosts::atomic_file;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

macro_rules! methods {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method { $($variant),+ }

        impl Method {
            pub const ALL: &'static [Method] = &[$(Method::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $(Method::$variant => $name),+ }
            }

            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Method::$variant),)+ _ => None }
            }
        }
    };
}

methods! {
    Status = "status",
    Modes = "modes",
    Mappings = "mappings",
    Devices = "devices",
    Bindings = "bindings",
    DeviceEnable = "device.enable",
    PortsScan = "ports.scan",
    ModeSet = "mode.set",
    ModeAuto = "mode.auto",
    PerformanceSet = "performance.set",
    Reload = "reload",
    Panic = "panic",
    Simulate = "simulate",
    Explain = "explain",
    Trace = "trace",
    LearnStart = "learn.start",
    LearnStop = "learn.stop",
    Monitor = "monitor",
    Send = "send",
    Play = "play",
    Listen = "listen",
    ConfigShow = "config.show",
    ConfigCheck = "config.check",
    ConfigWaiting = "config.waiting",
    ConfigAccept = "config.accept",
    Call = "call",
    ToolsList = "tools.list",
    PlansList = "plans.list",
    PlansShow = "plans.show",
    PlansApply = "plans.apply",
    PlansReject = "plans.reject",
    PlansUndo = "plans.undo",
    SeedApplyPlan = "llm_apply_plan",
    SeedRejectPlan = "llm_reject_plan",
    ApprovalsList = "approvals.list",
    ApprovalsShow = "approvals.show",
    ApprovalsAllow = "approvals.allow",
    ApprovalsDeny = "approvals.deny",
    ApprovalsWatch = "approvals.watch",
    AuditHead = "audit.head",
    AuditAccept = "audit.accept",
    CircuitList = "circuit.list",
    CircuitReset = "circuit.reset",
    HttpOpen = "http.open",
    HttpClose = "http.close",
    PluginsList = "plugins.list",
    PluginsCheck = "plugins.check",
    PluginsEnable = "plugins.enable",
    PluginsDisable = "plugins.disable",
    SecretsSet = "secrets.set",
    SecretsList = "secrets.list",
    SecretsRemove = "secrets.remove",
    SecretsStatus = "secrets.status",
    SecretsRotate = "secrets.rotate",
    LiveExamine = "live.examine",
}

pub enum Answer {
    Value(Value),
    /// One message per item until either side ends it.
    Stream(Stream),
}

pub enum Stream {
    Records(mpsc::Receiver<TraceRecord>),
    Bytes(mpsc::Receiver<Vec<u8>>),
    /// Questions as they come and are answered. Somebody is there to answer for as long as it
    /// lives.
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accept {
    /// Of the file that the person was shown.
    hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfMode {
    mode: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceEnable {
    device_id: String,
    enabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PerformanceSet {
    on: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Simulate {
    events: String,
    mode: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Explain {
    event: String,
    mode: Option<String>,
    device: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    limit: Option<usize>,
    since_seq: Option<u64>,
    device: Option<String>,
    mapping_id: Option<String>,
    outcome: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LearnStart {
    timeout_ms: u32,
    #[serde(default)]
    let_through: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    port: String,
    /// Whole MIDI messages.
    messages: Vec<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Play {
    port: String,
    /// An event script; `t:` lets time pass.
    events: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfPort {
    port: String,
}

pub async fn answer(control: &Control, caller: Caller, method: Method, params: Value) -> Result<Answer, ToolError> {
    let handle = &control.handle;
    let value = match method {
        Method::Status => {
            let Nothing {} = read(params)?;
            told(plans::with_waiting(&control.gateway.studio, handle.status().await?))
        }
        Method::Modes => {
            let Nothing {} = read(params)?;
            told(&*handle.modes())
        }
        Method::Mappings => {
            let OfMode { mode } = read(params)?;
            told(handle.mappings(&mode)?)
        }
        Method::Devices => {
            let Nothing {} = read(params)?;
            told(handle.devices().await?)
        }
        Method::Bindings => {
            let Nothing {} = read(params)?;
            told(handle.bindings().await?)
        }
        Method::DeviceEnable => {
            let DeviceEnable { device_id, enabled } = read(params)?;
            control.may_change_the_stage(caller.peer, "no device is muted or unmuted").await?;
            told(handle.set_device_enabled(device_id, enabled).await?)
        }
        Method::PortsScan => {
            let Nothing {} = read(params)?;
            control.may_change_the_stage(caller.peer, "no scan is started").await?;
            told(handle.scan_ports().await?)
        }
        Method::ModeSet => {
            let OfMode { mode } = read(params)?;
            control.may_change_the_stage(caller.peer, "the mode stays as it is").await?;
            let by = match control.recognise(caller.peer) {
                Ok(_) => Taint::Clean,
                Err(_) => Taint::Tool,
            };
            told(handle.switch_mode_by(mode, by).await?)
        }
        Method::ModeAuto => {
            let Nothing {} = read(params)?;
            control.may_change_the_stage(caller.peer, "the mode stays as it is").await?;
            told(handle.auto_mode().await?)
        }
        Method::PerformanceSet => {
            let PerformanceSet { on } = read(params)?;
            control.recognise(caller.peer).map_err(refuse)?;
            handle.set_performance_lock(on).await?;
            json!({ "on": on })
        }
        Method::Reload => {
            let Nothing {} = read(params)?;
            told(handle.reload().await?)
        }
        Method::Panic => {
            let Nothing {} = read(params)?;
            told(handle.panic().await?)
        }
        Method::Simulate => {
            let Simulate { events, mode } = read(params)?;
            simulate(&handle.serving().config, &events, mode.as_deref())?
        }
        Method::Explain => {
            let Explain { event, mode, device } = read(params)?;
            told_of(&handle.explain(&event, mode.as_deref(), device.as_deref()).await?)
        }
        Method::Trace => {
            let Trace { limit, since_seq, device, mapping_id, outcome } = read(params)?;
            let traced = handle.trace(Wanted { limit, since_seq, device, mapping_id, outcome }).await?;
            let records: Vec<Value> = traced.records.iter().map(TraceRecord::to_json).collect();
            json!({ "records": records, "next_seq": traced.next_seq, "lost": traced.lost })
        }
        Method::LearnStart => {
            let LearnStart { timeout_ms, let_through } = read(params)?;
            control.may_change_the_stage(caller.peer, "nothing is learned").await?;
            handle.learn_start(timeout_ms, let_through, Some(caller.connection)).await?
        }
        Method::LearnStop => {
            let Nothing {} = read(params)?;
            handle.learn_stop().await?
        }
        Method::Monitor => {
            let Nothing {} = read(params)?;
            return Ok(Answer::Stream(Stream::Records(handle.monitor().await?)));
        }
        Method::Send => {
            let Send { port, messages } = read(params)?;
            may_send(control, caller, &port).await?;
            json!({ "messages_sent": handle.send(port, messages, sent_by(control, caller)).await? })
        }
        Method::Play => {
            let Play { port, events } = read(params)?;
            may_send(control, caller, &port).await?;
            // What it leaves on ends with the connection.
            let by = match sent_by(control, caller) {
                SentBy::Person => SentBy::Hand { connection: caller.connection },
                by @ (SentBy::Hand { .. } | SentBy::Tool { .. }) => by,
            };
            json!({ "messages_sent": play::play(handle, &port, &events, by, control.now()).await? })
        }
        Method::Listen => {
            let OfPort { port } = read(params)?;
            return Ok(Answer::Stream(Stream::Bytes(handle.listen(port).await?)));
        }
        Method::ConfigShow => {
            let Nothing {} = read(params)?;
            let serving = handle.serving();
            let text = serving.text.as_deref().ok_or_else(|| no_file(control))?;
            json!({ "content": text, "path": control.home.config_file(), "hash": serving.hash_text() })
        }
        Method::ConfigCheck => {
            let Nothing {} = read(params)?;
            let studio = &control.gateway.studio;
            let around = OwnedSurroundings::read(studio, handle).await;
            Checked::here(&control.home.config_file(), studio, &around).to_json()
        }
        Method::ConfigWaiting => {
            let Nothing {} = read(params)?;
            // So that what is shown is the file as it is now.
            let reloaded = handle.reload().await;
            let serving = handle.serving();
            let waiting = &serving.waiting;
            json!({
                "hash": file_hash(control)?, "held": waiting.held.names(), "since": waiting.since, "closed": waiting.closed.as_deref(),
                "difference": &*waiting.difference, "unprotected": waiting.typing, "error": reloaded.err().map(|it| it.message),
            })
        }
        Method::ConfigAccept => {
            let Accept { hash } = read(params)?;
            let person = control.recognise(caller.peer).map_err(refuse)?;
            let hash = hash.parse().map_err(|_| ToolError::new(Code::BadInput, "hash: sha256: and 64 hex digits"))?;
            told(control.gateway.accept_config(handle, Principal::Person { uid: person.uid }, hash).await?)
        }
        Method::Call => return decisions::answer(control, caller, GatewayMethod::Call, params).await,
        Method::ToolsList => return decisions::answer(control, caller, GatewayMethod::ToolsList, params).await,
        Method::PlansList => return decisions::answer(control, caller, GatewayMethod::PlansList, params).await,
        Method::PlansShow => return decisions::answer(control, caller, GatewayMethod::PlansShow, params).await,
        Method::PlansApply => return decisions::answer(control, caller, GatewayMethod::PlansApply, params).await,
        Method::PlansReject => return decisions::answer(control, caller, GatewayMethod::PlansReject, params).await,
        Method::PlansUndo => return decisions::answer(control, caller, GatewayMethod::PlansUndo, params).await,
        Method::SeedApplyPlan => return decisions::answer(control, caller, GatewayMethod::SeedApplyPlan, params).await,
        Method::SeedRejectPlan => {
            return decisions::answer(control, caller, GatewayMethod::SeedRejectPlan, params).await;
        }
        Method::ApprovalsList => return decisions::answer(control, caller, GatewayMethod::ApprovalsList, params).await,
        Method::ApprovalsShow => return decisions::answer(control, caller, GatewayMethod::ApprovalsShow, params).await,
        Method::ApprovalsAllow => {
            return decisions::answer(control, caller, GatewayMethod::ApprovalsAllow, params).await;
        }
        Method::ApprovalsDeny => return decisions::answer(control, caller, GatewayMethod::ApprovalsDeny, params).await,
        Method::ApprovalsWatch => {
            return decisions::answer(control, caller, GatewayMethod::ApprovalsWatch, params).await;
        }
        Method::AuditHead => return decisions::answer(control, caller, GatewayMethod::AuditHead, params).await,
        Method::AuditAccept => return decisions::answer(control, caller, GatewayMethod::AuditAccept, params).await,
        Method::CircuitList => return decisions::answer(control, caller, GatewayMethod::CircuitList, params).await,
        Method::CircuitReset => return decisions::answer(control, caller, GatewayMethod::CircuitReset, params).await,
        Method::HttpOpen => return decisions::answer(control, caller, GatewayMethod::HttpOpen, params).await,
        Method::HttpClose => return decisions::answer(control, caller, GatewayMethod::HttpClose, params).await,
        Method::PluginsList => plugins::list(control, params)?,
        Method::PluginsCheck => plugins::check(control, params).await?,
        Method::PluginsEnable => plugins::enable(control, caller, params).await?,
        Method::PluginsDisable => plugins::disable(control, caller, params).await?,
        Method::SecretsSet => return secrets::answer(control, caller, SecretsMethod::Set, params).await,
        Method::SecretsList => return secrets::answer(control, caller, SecretsMethod::List, params).await,
        Method::SecretsRemove => return secrets::answer(control, caller, SecretsMethod::Remove, params).await,
        Method::SecretsStatus => return secrets::answer(control, caller, SecretsMethod::Status, params).await,
        Method::SecretsRotate => return secrets::answer(control, caller, SecretsMethod::Rotate, params).await,
        Method::LiveExamine => {
            let Nothing {} = read(params)?;
            json!({ "checks": control.gateway.live.examine().await })
        }
    };
    Ok(Answer::Value(value))
}

pub(super) fn read<T: DeserializeOwned>(params: Value) -> Result<T, ToolError> {
    serde_json::from_value(params).map_err(|error| ToolError::new(Code::BadInput, format!("params: {error}")))
}

/// Reports are plain data; there is nothing in them that JSON cannot say.
fn told(report: impl Serialize) -> Value {
    json!(report)
}

async fn may_send(control: &Control, caller: Caller, port: &str) -> Result<(), ToolError> {
    if control.handle.serving().config.performance.allow_output.iter().any(|it| it == port) {
        return Ok(());
    }
    control.may_change_the_stage(caller.peer, &format!("nothing is sent to {port}")).await
}

/// Whoever does not count as a person is treated as a tool: what it sends is no hand.
fn sent_by(control: &Control, caller: Caller) -> SentBy {
    match control.recognise(caller.peer) {
        Ok(_) => SentBy::Person,
        Err(_) => SentBy::Tool { connection: caller.connection },
    }
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
    ToolError::new(Code::NotFound, format!("there is no {}; the built-in empty mode serves", path.display()))
        .subject(Subject::Config(path.display().to_string()))
}

/// Runs a script on a configuration in virtual time: `{trace, text}`.
pub fn simulate(config: &Config, events: &str, mode: Option<&str>) -> Result<Value, ToolError> {
    let simulation = engine::simulate(config, events, mode).map_err(|fault| match fault {
        SimError::Script(faults) => {
            let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
            ToolError::new(Code::BadInput, lines.join("\n")).subject(Subject::Argument("events".into()))
        }
        SimError::Mode(unknown) => owner_handle::no_mode(&unknown.asked, unknown.known.iter().map(String::as_str)),
    })?;
    let trace: Vec<Value> = simulation.records.iter().map(TraceRecord::to_json).collect();
    Ok(json!({ "trace": trace, "text": simulation.text() }))
}

/// Judges one event by a configuration alone, as if every device were there.
pub fn explain(config: &Config, event: &str, mode: Option<&str>, device: Option<&str>) -> Result<Value, ToolError> {
    let body = owner_handle::one_event(event)?;
    let mode = mode.unwrap_or(&config.default_mode);
    if mode != "*" && config.modes.iter().all(|it| it.name != mode) {
        return Err(owner_handle::no_mode(mode, config.modes.iter().map(|it| it.name.as_str())));
    }
    let asked = Asked { mode, device, muted: false, absent: false, taint: Taint::Clean };
    Ok(told_of(&engine::explain(config, &body, &asked)))
}

fn told_of(explanation: &Explanation) -> Value {
    let mut value = explanation.to_json();
    if let Value::Object(members) = &mut value {
        members.insert("text".into(), explanation.text().into());
    }
    value
}
