//! `conductor_plan_changes`: one plan for any number of changes.

use super::prelude::*;
use conductor_core::config::{Diagnostic, schema};
use conductor_core::plan::Change;

pub fn definition() -> Definition {
    Definition::new("conductor_plan_changes", Tier::ConfigChange, TOOLSET, |studio, clearance, arguments| async move {
        let changes = changes(&arguments).map_err(plans::bad_change)?;
        let description = arguments.get("description").and_then(Value::as_str).map(str::to_owned);
        Ok(Output::new(plans::make(&studio, &clearance, &arguments, &changes, description).await?))
    })
    .text(
        "Plan changes",
        "Plans several changes of the configuration as one diff. Nothing changes until a person applies the plan. Each change has a \
         change_type: CreateMapping {mode, mapping, position?}, UpdateMapping {mode, id or index, trigger?, action?, description?, enabled?}, \
         DeleteMapping {mode, id or index}, CreateContinuous {mode, continuous}, DeleteContinuous {mode, id}, CreateMode {mode, color?}, \
         DeleteMode {mode}, CreateDeviceIdentity {alias, matchers, description?}, DeleteDeviceIdentity {alias}, ApplyTemplate {template, \
         alias}. mode \"*\" means global. Triggers and actions are as in conductor_create_mapping. Channels are 0-15.",
    )
    .input(object(json!({
        "changes": {
            "type": "array", "minItems": 1, "maxItems": 64,
            "items": {
                "type": "object",
                "properties": { "change_type": { "enum": Change::NAMES } },
                "required": ["change_type"],
            },
        },
        "description?": { "type": "string", "maxLength": 1024, "description": "One line for the person who applies or rejects the plan" },
    })))
    .check(|arguments| plans::violations(&changes(arguments).err().unwrap_or_default()))
    .output(config_plan())
    .summary(|arguments| format!("plan {} changes", arguments["changes"].as_array().map_or(0, Vec::len)))
}

/// All changes, or the faults of all of them.
fn changes(arguments: &Value) -> Result<Vec<Change>, Vec<Diagnostic>> {
    let list = arguments.get("changes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut changes, mut faults) = (Vec::with_capacity(list.len()), Vec::new());
    for (index, change) in list.iter().enumerate() {
        match Change::read(change, &format!("/changes/{index}")) {
            Ok(change) => changes.push(change),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(changes) } else { Err(faults) }
}

/// A `ConfigPlan`, the result of every planning tool.
pub fn plan_schema() -> Value {
    schema::def("ConfigPlan").unwrap_or_else(|| json!({ "type": "object" }))
}
