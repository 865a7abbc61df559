//! `conductor_update_mapping`: plans a change of one mapping.

use super::prelude::*;
use super::{Row, read_change};
use conductor_core::action::Action;
use conductor_core::mapping::TriggerKind;
use schemars::{Schema, SchemaGenerator, json_schema};

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = ["trigger", "action", "description", "enabled"].map(|it| json!({ "required": [it] }))))]
#[expect(dead_code, reason = "`read_change` reads the arguments and reports the places of faults")]
struct Args {
    #[serde(flatten)]
    row: Row,
    /// As in conductor_create_mapping
    #[serde(default)]
    #[schemars(schema_with = "trigger")]
    trigger: Option<Value>,
    /// As in conductor_create_mapping
    #[serde(default)]
    #[schemars(schema_with = "action")]
    action: Option<Value>,
    /// One line about the mapping
    #[schemars(length(max = 1024))]
    description: Option<String>,
    /// false to disable the mapping, true to enable it
    enabled: Option<bool>,
}

// The full schemas of triggers and actions are published only in conductor_create_mapping.
fn trigger(_: &mut SchemaGenerator) -> Schema {
    of_type(TriggerKind::NAMES)
}

fn action(_: &mut SchemaGenerator) -> Schema {
    of_type(Action::NAMES)
}

fn of_type(names: &[&str]) -> Schema {
    json_schema!({
        "type": "object", "properties": { "type": { "enum": names, "description": "Its type" } }, "required": ["type"],
        "additionalProperties": true,
    })
}

pub fn definition() -> Definition {
    tool("conductor_update_mapping", Tier::ConfigChange, TOOLSET, &(), run)
        .text(
            "Update mapping",
            "Plans a change of one mapping, named by id or by index (exactly one of the two). Give at least one of trigger, action, \
             description, enabled. Trigger and action are as in conductor_create_mapping. Nothing changes until a person applies the plan.",
        )
        .check(|arguments| plans::violations(&read_change("UpdateMapping", arguments).err().unwrap_or_default()))
        .summary(with_args(|row: &Row| format!("plan a change of mapping {row}")))
}

async fn run((): (), cx: Context, _args: Args) -> Result<ConfigPlan, ToolError> {
    let change = read_change("UpdateMapping", &cx.arguments).map_err(plans::bad_change)?;
    plans::make(&cx, &[change], None).await
}
