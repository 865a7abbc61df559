//! `conductor_update_mapping`: plans a change of one mapping.

use super::prelude::*;
use super::{row_input, row_of};
use conductor_core::action::Action;
use conductor_core::config::Diagnostic;
use conductor_core::mapping::TriggerKind;
use conductor_core::plan::Change;

pub fn definition() -> Definition {
    // The full schemas of triggers and actions are published only in conductor_create_mapping.
    let of_type = |names: &[&str]| {
        json!({
            "type": "object", "properties": { "type": { "enum": names } }, "required": ["type"],
            "description": "As in conductor_create_mapping",
        })
    };
    let mut input = row_input(json!({
        "trigger?": of_type(TriggerKind::NAMES), "action?": of_type(Action::NAMES),
        "description?": { "type": "string", "maxLength": 1024 },
        "enabled?": { "type": "boolean" },
    }));
    input["anyOf"] = json!([{ "required": ["trigger"] }, { "required": ["action"] }, { "required": ["description"] }, { "required": ["enabled"] }]);
    Definition::new("conductor_update_mapping", Tier::ConfigChange, TOOLSET, |studio, clearance, arguments| async move {
        let change = change(&arguments).map_err(plans::bad_change)?;
        Ok(Output::new(plans::make(&studio, &clearance, &arguments, &[change], None).await?))
    })
    .text(
        "Update mapping",
        "Plans a change of one mapping, named by id or by index (exactly one of the two). Give at least one of trigger, action, description, \
         enabled. Trigger and action are as in conductor_create_mapping. Nothing changes until a person applies the plan.",
    )
    .input(input)
    .check(|arguments| plans::violations(&change(arguments).err().unwrap_or_default()))
    .output(config_plan())
    .summary(|arguments| format!("plan a change of mapping {} in {}", which(arguments), arguments["mode"]))
}

fn change(arguments: &Value) -> Result<Change, Vec<Diagnostic>> {
    let mut change = row_of("UpdateMapping", arguments);
    for key in ["trigger", "action", "description", "enabled"] {
        if let Some(value) = arguments.get(key) {
            change[key] = value.clone();
        }
    }
    Change::read(&change, "")
}

pub fn which(arguments: &Value) -> String {
    arguments.get("id").or_else(|| arguments.get("index")).map(Value::to_string).unwrap_or_default()
}
