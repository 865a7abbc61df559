//! The requests of the human door: one table of names and parameters, and one match that handles
//! them.
//!
//! A request is a decision of a person, a read that a decision needs, an operation on a secret, or
//! a stream. Everything else is a tool, which `call` runs.

use super::decisions::Grant;
use super::streams::{self, Stream};
use super::{Caller, Control, call, decisions, plugins, secrets};
use crate::doors::console;
use crate::doors::phone;
use conductor_core::cluster;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, ToolError};
use conductor_core::policy::Channel;
use conductor_gateway::audit_log::head_value;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

/// One line per request: variant, wire names, and parameters. `slow` marks requests that wait for a
/// person, a program or a piece of music, so a client must not time out on them.
macro_rules! requests {
    ($($variant:ident = $name:literal $(| $alias:literal)? $($slow:ident)? { $($fields:tt)* })+) => {
        #[derive(Deserialize)]
        #[serde(tag = "method", content = "params", deny_unknown_fields)]
        pub enum Request { $(#[serde(rename = $name $(, alias = $alias)?)] $variant { $($fields)* }),+ }

        impl Request {
            /// The wire names of each request: its name, and its alias if it has one.
            pub const NAMES: &'static [&'static [&'static str]] = &[$(&[$name $(, $alias)?]),+];
            const SLOW: &'static [&'static str] = &[$($(requests!(@$slow $name),)?)+];
        }
    };
    (@slow $name:literal) => { $name };
}

requests! {
    Call = "call" slow { tool: String, arguments: Option<Value> }
    // With `tool`, lists only this tool.
    ToolsList = "tools.list" { tool: Option<String> }

    // With `port`, streams the bytes sent to this port instead of the trace. With `state`, also
    // streams the status and the device bindings, twice a second.
    Monitor = "monitor" { port: Option<String>, #[serde(default)] state: bool }
    // `messages` are complete MIDI messages; `events` is an event script, in which `t:600` waits
    // 600 ms.
    Play = "play" slow { port: String, #[serde(default)] messages: Vec<Vec<u8>>, #[serde(default)] events: String }
    HttpOpen = "http.open" { address: SocketAddr }
    // `row` contains the keys of `[[http.tokens]]`, with the digest of the token.
    TokenAdd = "http.token.add" slow { row: Map<String, Value> }
    TokenRemove = "http.token.remove" slow { name: String }

    // The rigs of `[cluster]`, their open questions, and a person's answer to one of them.
    RigsList = "rigs.list" slow {}
    RigsQuestions = "rigs.questions" slow {}
    // `question` is the digest of the question that the person was shown.
    RigsDecide = "rigs.decide" slow { rig: String, id: String, question: Digest, answer: cluster::Answer }
    // `list` is `deciders` or `rigs`; `row` contains the keys of the new row.
    RigsEnrol = "rigs.enrol" slow { list: String, row: Map<String, Value> }
    RigsRemove = "rigs.remove" slow { list: String, name: String }

    // Reads the file again, and describes the parts that are not in force.
    ConfigReload = "config.reload" slow {}
    // `hash` is the hash of the file that the person was shown.
    ConfigAccept = "config.accept" slow { hash: String }
    PerformanceSet = "performance.set" { on: bool }
    CircuitReset = "circuit.reset" { tool: Option<String> }

    // Approval requests, plans, and file edits that can be undone.
    PendingList = "pending.list" {}
    // With `full_from`, all facts are returned in full, in pages. `full_from` is the first
    // character of the page.
    PendingShow = "pending.show" { id: String, full_from: Option<usize> }
    PlansApply = "plans.apply" | "llm_apply_plan" slow { #[serde(alias = "planId")] id: String }
    PlansReject = "plans.reject" | "llm_reject_plan" { #[serde(alias = "planId")] id: String }
    PlansUndo = "plans.undo" slow { id: String }
    ApprovalsAllow = "approvals.allow" {
        id: String, uses: Option<u32>, for_ms: Option<u64>, #[serde(default)] any_args: bool,
    }
    // The model sees the reason.
    ApprovalsDeny = "approvals.deny" { id: String, #[serde(default)] reason: Option<String> }
    ApprovalsWatch = "approvals.watch" {}

    AuditHead = "audit.head" {}
    AuditAccept = "audit.accept" {}
    LiveExamine = "live.examine" slow {}

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
    SecretsRotate = "secrets.rotate" slow {}

    // With `open`, the daemon writes a redirect file for a browser and returns its path instead of
    // the link.
    ConsoleLink = "console.link" { #[serde(default)] open: bool }
    ConsoleSessions = "console.sessions" {}
    // Without a name, ends every session and link.
    ConsoleRevoke = "console.revoke" { session: Option<String> }

    // A one-time link that pairs a phone.
    PhonePair = "phone.pair" { name: Option<String> }
    PhoneList = "phone.list" {}
    // Without a name, revokes every phone and link.
    PhoneRevoke = "phone.revoke" { name: Option<String> }
}

impl Request {
    pub fn read(name: &str, params: Value) -> Result<Self, ToolError> {
        serde_json::from_value(json!({ "method": name, "params": params }))
            .map_err(|error| ToolError::new(Code::BadInput, format!("params: {error}")))
    }

    pub fn is_name(name: &str) -> bool {
        Self::NAMES.iter().any(|names| names.contains(&name))
    }

    /// Whether the answer may depend on a person, a program or a piece of music.
    pub fn is_slow(name: &str) -> bool {
        Self::SLOW.contains(&name)
    }
}

pub enum Answer {
    Value(Value),
    Stream(Stream),
}

pub async fn answer(control: &Control, caller: Caller, request: Request) -> Result<Answer, ToolError> {
    let value = match request {
        Request::Call { tool, arguments } => call::call(control, caller, tool, arguments).await?,
        Request::ToolsList { tool } => call::tools(control, tool.as_deref()),
        Request::Monitor { port, state } => {
            return Ok(Answer::Stream(streams::monitor(control, port, state).await?));
        }
        Request::Play { port, messages, events } => streams::play(control, caller, port, messages, &events).await?,
        Request::HttpOpen { address } => decisions::open_http(control, caller, address).await?,
        Request::TokenAdd { row } => decisions::change_token(control, caller, json!({ "add": row })).await?,
        Request::TokenRemove { name } => decisions::change_token(control, caller, json!({ "remove": name })).await?,
        Request::RigsList {} => control.gateway.cluster.rigs().await?,
        Request::RigsQuestions {} => control.gateway.cluster.questions().await?,
        Request::RigsDecide { rig, id, question, answer } => {
            let person = control.person(caller)?;
            control.gateway.cluster.decide(&person, &rig, &id, question, answer).await?
        }
        Request::RigsEnrol { list, row } => {
            decisions::change_token(control, caller, json!({ "list": list, "add": row })).await?
        }
        Request::RigsRemove { list, name } => {
            decisions::change_token(control, caller, json!({ "list": list, "remove": name })).await?
        }
        Request::ConfigReload {} => decisions::reload(control).await?,
        Request::ConfigAccept { hash } => decisions::accept_config(control, control.person(caller)?, &hash).await?,
        Request::PerformanceSet { on } => {
            control.person(caller)?;
            control.handle.set_performance_lock(on).await?;
            json!({ "on": on })
        }
        Request::CircuitReset { tool } => decisions::reset_circuit(control, control.person(caller)?, tool).await?,
        Request::PendingList {} => decisions::pending(control).await,
        Request::PendingShow { id, full_from } => decisions::show(control, &id, full_from).await?,
        Request::PlansApply { id } => {
            decisions::apply_plan(control, control.person(caller)?, Channel::Cli, &id).await?
        }
        Request::PlansReject { id } => {
            decisions::reject_plan(control, control.person(caller)?, Channel::Cli, &id, None).await?
        }
        Request::PlansUndo { id } => decisions::undo(control, control.person(caller)?, &id).await?,
        Request::ApprovalsAllow { id, uses, for_ms, any_args } => {
            let by = control.person(caller)?;
            let grant = Grant::Uses { uses: uses.unwrap_or(1), for_ms, any_args };
            decisions::shown(&decisions::allow(control, &by, Channel::Cli, &id, grant).await?)
        }
        Request::ApprovalsDeny { id, reason } => {
            let by = control.person(caller)?;
            decisions::shown(&decisions::deny(control, &by, Channel::Cli, &id, reason).await?)
        }
        Request::ApprovalsWatch {} => return Ok(Answer::Stream(streams::questions(control, caller)?)),
        Request::AuditHead {} => json!({ "head": control.gateway.audit.head().as_ref().map(head_value) }),
        Request::AuditAccept {} => decisions::accept_log(control, control.person(caller)?).await?,
        Request::LiveExamine {} => json!({ "checks": control.gateway.live.examine().await }),
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
        Request::SecretsRotate {} => secrets::rotate(control, caller).await?,
        Request::ConsoleLink { open } => console::link(control, &control.person(caller)?, open)?,
        Request::ConsoleSessions {} => {
            control.person(caller)?;
            json!({ "sessions": control.gateway.consoles.list() })
        }
        Request::ConsoleRevoke { session } => {
            control.person(caller)?;
            console::revoke(control, session.as_deref())?
        }
        Request::PhonePair { name } => {
            control.person(caller)?;
            phone::link(control, name.as_deref())?
        }
        Request::PhoneList {} => {
            control.person(caller)?;
            phone::list(control)
        }
        Request::PhoneRevoke { name } => phone::revoke(control, control.person(caller)?, name).await?,
    };
    Ok(Answer::Value(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests bypass the pipeline. So a new request fails this test until its name is added to
    /// the list here.
    #[test]
    fn the_door_has_only_decisions_secrets_and_streams_in_addition_to_call() {
        let mut names = Request::NAMES.concat();
        names.sort_unstable();
        let expected = [
            "approvals.allow",
            "approvals.deny",
            "approvals.watch",
            "audit.accept",
            "audit.head",
            "call",
            "circuit.reset",
            "config.accept",
            "config.reload",
            "console.link",
            "console.revoke",
            "console.sessions",
            "http.open",
            "http.token.add",
            "http.token.remove",
            "live.examine",
            "llm_apply_plan",
            "llm_reject_plan",
            "monitor",
            "pending.list",
            "pending.show",
            "performance.set",
            "phone.list",
            "phone.pair",
            "phone.revoke",
            "plans.apply",
            "plans.reject",
            "plans.undo",
            "play",
            "plugins.check",
            "plugins.disable",
            "plugins.enable",
            "plugins.list",
            "rigs.decide",
            "rigs.enrol",
            "rigs.list",
            "rigs.questions",
            "rigs.remove",
            "secrets.list",
            "secrets.remove",
            "secrets.rotate",
            "secrets.set",
            "tools.list",
        ];
        assert_eq!(names, expected);
        for name in ["status", "mode.set", "device.enable", "panic", "learn.start", "send", "", "call "] {
            assert!(!Request::is_name(name), "{name}");
        }
    }
}
