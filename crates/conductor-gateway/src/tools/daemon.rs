//! The `conductor_*` tools, which control the daemon. One file per tool; this file contains the
//! shared parts.
//!
//! No listed tool applies, approves, confirms or unlocks anything: a change of the configuration is
//! a plan that a person applies.

mod conductor_create_device_identity;
mod conductor_create_mapping;
mod conductor_delete_mapping;
mod conductor_explain;
mod conductor_get_config;
mod conductor_get_mappings;
mod conductor_get_plan;
mod conductor_get_status;
mod conductor_get_trace;
mod conductor_list_device_bindings;
mod conductor_list_devices;
mod conductor_list_modes;
mod conductor_list_plans;
mod conductor_list_templates;
mod conductor_panic;
mod conductor_plan_changes;
mod conductor_scan_ports;
mod conductor_send_midi;
mod conductor_send_sysex;
mod conductor_set_device_enabled;
mod conductor_simulate;
mod conductor_start_midi_learn;
mod conductor_stop_midi_learn;
mod conductor_switch_mode;
mod conductor_undo_plan;
mod conductor_update_mapping;
mod conductor_validate_config;
pub mod mapping_call;
mod plan_apply;
pub mod plans;
mod plugin_set;
mod prelude;
mod prompts;
mod resources;
pub mod surroundings;
pub mod sysex;

pub use prompts::add_prompts;
pub use resources::add_resources;

use super::catalog::{Definition, ResolveTarget, Target};
use super::schema_builder::object;
use crate::owner_handle::OwnerHandle;
use crate::pipeline::call::{Call, Output};
use crate::pipeline::gate::Clearance;
use crate::studio::Studio;
use conductor_core::error::{Code, RefusedBy, ToolError};
use conductor_core::policy::{ByArgs, Tier};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

pub const TOOLSET: &str = "daemon";

/// All tools of this set.
pub fn definitions(owner: &OwnerHandle) -> Vec<Definition> {
    vec![
        conductor_explain::definition(owner),
        conductor_get_config::definition(owner),
        conductor_get_mappings::definition(owner),
        conductor_get_status::definition(owner),
        conductor_get_trace::definition(owner),
        conductor_list_device_bindings::definition(owner),
        conductor_list_devices::definition(owner),
        conductor_list_modes::definition(owner),
        conductor_panic::definition(owner),
        conductor_scan_ports::definition(owner),
        conductor_send_midi::definition(owner),
        conductor_send_sysex::definition(owner),
        conductor_set_device_enabled::definition(owner),
        conductor_simulate::definition(owner),
        conductor_switch_mode::definition(owner),
        conductor_validate_config::definition(owner),
        conductor_list_templates::definition(),
        conductor_start_midi_learn::definition(owner),
        conductor_stop_midi_learn::definition(owner),
        conductor_create_device_identity::definition(),
        conductor_create_mapping::definition(),
        conductor_delete_mapping::definition(),
        conductor_get_plan::definition(),
        conductor_list_plans::definition(),
        conductor_plan_changes::definition(),
        conductor_undo_plan::definition(),
        conductor_update_mapping::definition(),
        plan_apply::apply(owner),
        plan_apply::reject(),
        plugin_set::definition(owner),
    ]
}

/// A tool that sends requests to the owner of the studio.
fn owner_tool<F, R>(name: &'static str, tier: Tier, owner: &OwnerHandle, run: F) -> Definition
where
    F: Fn(OwnerHandle, Arc<Studio>, Clearance, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    let owner = owner.clone();
    Definition::new(name, tier, TOOLSET, move |studio, clearance, arguments| {
        run(owner.clone(), studio, clearance, arguments)
    })
}

/// Serialises a value as the result of a tool.
pub(super) fn to_output(value: &impl Serialize) -> Result<Output, ToolError> {
    serde_json::to_value(value)
        .map(Output::new)
        .map_err(|fault| ToolError::new(Code::Internal, format!("the result cannot be written: {fault}")))
}

/// Parses validated arguments.
pub(super) fn parse_arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments).map_err(|fault| ToolError::new(Code::BadInput, fault.to_string()))
}

/// Refuses the call while the performance lock is on, unless a person makes it.
async fn unlocked(owner: &OwnerHandle, clearance: &Clearance, what: &str) -> Result<(), ToolError> {
    if clearance.by_person() || !owner.status().await?.performance_lock {
        return Ok(());
    }
    Err(locked(what))
}

/// The error of a call that the performance lock refuses.
pub fn locked(what: &str) -> ToolError {
    ToolError::new(Code::Denied, format!("the performance lock is on: {what}")).by(RefusedBy::Policy).hint(
        "Reads and plans still work. A person switches the lock off with `conductor performance off` after the show.",
    )
}

/// The output port of a call, by alias and by port name, independent of which one the caller used.
fn output_target(owner: &OwnerHandle, asks: bool) -> ResolveTarget {
    let owner = owner.clone();
    Arc::new(move |_, call: &Call| {
        let owner = owner.clone();
        let port = call.arguments.get("port").and_then(Value::as_str).unwrap_or_default().to_owned();
        Box::pin(async move {
            let bindings = owner.bindings().await.unwrap_or_default().device_bindings;
            let other = bindings.into_iter().find_map(|it| match it.output {
                Some(output) if it.device_id == port => Some(output),
                Some(output) if output == port => Some(it.device_id),
                Some(_) | None => None,
            });
            let names: Vec<&String> = std::iter::once(&port).chain(&other).collect();
            let devices = &owner.serving().config.devices;
            let asked = devices.iter().any(|it| it.ask_output && names.contains(&&it.alias));
            let shown = other.as_ref().map_or_else(|| port.clone(), |other| format!("{port} ({other})"));
            Target {
                shown: vec![("port", shown)],
                forms: names.iter().map(|it| json!({ "port": it })).collect(),
                key: Some(names.iter().min().map_or_else(String::new, |it| (*it).clone())),
                by_args: asks.then_some(if asked { ByArgs::Ask } else { ByArgs::Allow }),
                ..Target::default()
            }
        })
    })
}

/// The result of every planning tool.
fn config_plan() -> Value {
    conductor_plan_changes::plan_schema()
}

fn plan_id(arguments: &Value) -> Result<Uuid, ToolError> {
    let text = arguments["plan_id"].as_str().unwrap_or_default();
    text.parse().map_err(|_| ToolError::new(Code::BadInput, format!("{text:?} is not a plan id")))
}

/// A change of the row that is named by the arguments.
fn row_of(change_type: &str, arguments: &Value) -> Value {
    let mut change = json!({ "change_type": change_type });
    for key in ["mode", "id", "index"] {
        if let Some(value) = arguments.get(key) {
            change[key] = value.clone();
        }
    }
    change
}

/// The input of a tool that names one mapping, by id or by index. The published copy leaves the
/// root's `oneOf` out.
fn row_input(more: Value) -> Value {
    let mut properties = json!({
        "mode": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Mode name, or * for global" },
        "index?": { "type": "integer", "minimum": 0, "description": "Index from conductor_get_mappings, from 0" },
        "id?": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Id from conductor_get_mappings; does not change when rows move" },
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
        all.extend(more);
    }
    let mut input = object(properties);
    input["oneOf"] = json!([{ "required": ["id"] }, { "required": ["index"] }]);
    input
}
