//! `conductor_plan_changes`: one plan for any number of changes.

use super::prelude::*;
use conductor_core::config::Diagnostic;
use conductor_core::plan::Change;
use schemars::{Schema, SchemaGenerator, json_schema};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The changes, in order
    #[schemars(schema_with = "changes_schema", length(min = 1, max = 64))]
    changes: Vec<Value>,
    /// One line for the person who applies or rejects the plan
    #[schemars(length(max = 1024))]
    description: Option<String>,
}

fn changes_schema(_: &mut SchemaGenerator) -> Schema {
    let change_type = json!({ "enum": Change::NAMES, "description": "Type of the change" });
    json_schema!({
        "type": "array",
        "items": {
            "type": "object", "properties": { "change_type": change_type }, "required": ["change_type"],
            "additionalProperties": true,
        },
    })
}

pub fn definition() -> Definition {
    tool("conductor_plan_changes", Tier::ConfigChange, TOOLSET, &(), run)
        .text(
            "Plan changes",
            "Plans several changes to the configuration as one diff. Nothing changes until a person applies the plan. Each change has a \
             change_type: CreateMapping {mode, mapping, position?}, UpdateMapping {mode, id or index, trigger?, action?, description?, \
             enabled?}, DeleteMapping {mode, id or index}, CreateContinuous {mode, continuous}, DeleteContinuous {mode, id}, CreateMode {mode, \
             color?}, DeleteMode {mode}, CreateDeviceIdentity {alias, matchers, description?}, DeleteDeviceIdentity {alias}, ApplyTemplate \
             {template, alias}. mode \"*\" means global. Triggers and actions are as in conductor_create_mapping. Channels are 0-15.",
        )
        .check(with_args(|args: &Args| plans::violations(&read(&args.changes).err().unwrap_or_default())))
        .summary(with_args(|args: &Args| format!("plan {} changes", args.changes.len())))
}

async fn run((): (), cx: Context, args: Args) -> Result<ConfigPlan, ToolError> {
    let changes = read(&args.changes).map_err(plans::bad_change)?;
    plans::make(&cx, &changes, args.description).await
}

/// Returns all changes, or the faults of every invalid change.
fn read(list: &[Value]) -> Result<Vec<Change>, Vec<Diagnostic>> {
    let (mut changes, mut faults) = (Vec::with_capacity(list.len()), Vec::new());
    for (index, change) in list.iter().enumerate() {
        match Change::read(change, &format!("/changes/{index}")) {
            Ok(change) => changes.push(change),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() { Ok(changes) } else { Err(faults) }
}
