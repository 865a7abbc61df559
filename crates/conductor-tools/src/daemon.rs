//! The `conductor_*` tools, which control the daemon. One file per tool; this file contains the
//! shared parts.
//!
//! No listed tool applies, approves, confirms or unlocks anything. A change to the configuration is
//! a plan that a person applies.

mod conductor_call_tool;
mod conductor_create_device_identity;
mod conductor_create_mapping;
mod conductor_delete_mapping;
mod conductor_explain;
mod conductor_find_tools;
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
mod conductor_run_script;
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
mod plan_apply;
mod plugin_set;
mod prelude;
mod prompts;
mod resources;
mod sysex;
mod token_change;

use conductor_core::config::Diagnostic;
use conductor_core::pending::ConfigPlan;
use conductor_core::plan::Change;
use conductor_core::policy::ByArgs;
use conductor_gateway::catalog::{Catalog, CatalogError, Definition, ResolveTarget, Target, Tool};
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_gateway::pipeline::call::Call;
use conductor_gateway::script::run::Scripts;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

pub use conductor_call_tool::definition as call_tool;

pub const TOOLSET: &str = "daemon";

/// Adds the tools, resources and prompts of the daemon to a catalog.
pub fn add(catalog: &mut Catalog, owner: &OwnerHandle) -> Result<(), CatalogError> {
    for definition in definitions(owner) {
        catalog.add(Tool::new(definition)?)?;
    }
    resources::add_resources(catalog, owner)?;
    prompts::add_prompts(catalog, owner)
}

/// Adds `conductor_run_script`, which needs the means to run scripts.
pub fn add_run_script(catalog: &mut Catalog, scripts: &Arc<Scripts>) -> Result<(), CatalogError> {
    catalog.add(Tool::new(conductor_run_script::definition(scripts))?)
}

/// The tools of this toolset, except `conductor_run_script`.
fn definitions(owner: &OwnerHandle) -> Vec<Definition> {
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
        conductor_call_tool::definition(),
        conductor_create_device_identity::definition(),
        conductor_create_mapping::definition(),
        conductor_delete_mapping::definition(),
        conductor_find_tools::definition(),
        conductor_get_plan::definition(),
        conductor_list_plans::definition(),
        conductor_plan_changes::definition(),
        conductor_undo_plan::definition(),
        conductor_update_mapping::definition(),
        plan_apply::apply(owner),
        plan_apply::reject(),
        plugin_set::definition(owner),
        token_change::definition(owner),
    ]
}

/// The mode of the simulator in a dry run; `None` before the script has switched it.
pub type SimulatedMode = Arc<parking_lot::Mutex<Option<String>>>;

/// The tools of a dry run that use the simulator instead of the engine.
pub fn simulated(owner: &OwnerHandle) -> Vec<Definition> {
    let mode = SimulatedMode::default();
    vec![conductor_switch_mode::simulated(owner, &mode), conductor_simulate::simulated(owner, &mode)]
}

/// Resolves the output port of a call to its alias and its port name, whichever of the two the
/// caller used.
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

/// The arguments of a tool for one plan.
#[derive(Deserialize, JsonSchema)]
struct PlanId {
    /// Id as in conductor_list_plans
    #[schemars(with = "String", extend("format" = "uuid"))]
    plan_id: Uuid,
}

/// Names one mapping, by id or by index.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = ["id", "index"].map(|it| json!({ "required": [it] }))))]
struct Row {
    /// Mode name, or * for global
    #[schemars(length(min = 1, max = 64))]
    mode: String,
    /// Index from conductor_get_mappings, from 0
    index: Option<usize>,
    /// Id from conductor_get_mappings; does not change when rows move
    #[schemars(length(min = 1, max = 64))]
    id: Option<String>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.id, self.index) {
            (Some(id), _) => write!(f, "{id:?} of {:?}", self.mode),
            (None, index) => write!(f, "{} of {:?}", index.unwrap_or_default(), self.mode),
        }
    }
}

/// Reads the arguments of a tool as a change of this type.
fn read_change(change_type: &str, arguments: &Value) -> Result<Change, Vec<Diagnostic>> {
    let mut change = arguments.clone();
    if let Value::Object(members) = &mut change {
        members.insert("change_type".to_owned(), change_type.into());
    }
    Change::read(&change, "")
}
