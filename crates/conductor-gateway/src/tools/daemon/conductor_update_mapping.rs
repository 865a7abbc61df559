//! `conductor_update_mapping`: plans a change of one mapping.

use super::prelude::*;
use super::{mapping_input, row_of};
use conductor_core::config::Diagnostic;
use conductor_core::plan::Change;

pub fn definition() -> Definition {
    let mut input = mapping_input(json!({
        "description?": { "type": "string", "maxLength": 1024 },
        "enabled?": { "type": "boolean" },
    }));
    // Which of the optional members must be there is said at the root, which the published copy
    // leaves out.
    input["oneOf"] = json!([{ "required": ["id"] }, { "required": ["index"] }]);
    input["anyOf"] = json!([{ "required": ["trigger"] }, { "required": ["action"] }, { "required": ["description"] }, { "required": ["enabled"] }]);
    Definition::new("conductor_update_mapping", Tier::ConfigChange, TOOLSET, |studio, clearance, arguments| async move {
        let change = change(&arguments).map_err(plans::bad_change)?;
        Ok(Output::new(plans::make(&studio, &clearance, &arguments, &[change], None).await?))
    })
    .text(
        "Update mapping",
        "Plans a change of one mapping, named by id or by index (exactly one of the two); give at least one of trigger, action, description, \
         enabled. Trigger and action as in conductor_create_mapping. Nothing changes until a person applies the plan.",
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
