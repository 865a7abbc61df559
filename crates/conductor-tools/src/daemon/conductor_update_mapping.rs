//! `conductor_update_mapping`: plans a change to one mapping.

use super::prelude::*;
use super::{Row, read_change};
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

fn trigger(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "$ref": "#/$defs/Trigger" })
}

fn action(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "$ref": "#/$defs/Action" })
}

pub fn definition() -> Definition {
    tool("conductor_update_mapping", Tier::ConfigChange, TOOLSET, &(), run)
        .text(
            "Update mapping",
            "Plans a change to one mapping, named by id or by index (exactly one of the two), as in conductor_get_mappings. Give at least \
             one of trigger, action, description, enabled; enabled = false switches the mapping off and keeps it. Trigger and action are \
             complete, as in conductor_create_mapping. Nothing changes until a person applies the plan.",
        )
        .listed(json!({
            "type": "object",
            "properties": {
                "mode": { "type": "string", "description": "Mode name as in conductor_list_modes, or * for global" },
                "id": { "type": "string", "description": "Id of the mapping" },
                "index": { "type": "integer", "description": "Index of the mapping, from 0" },
                "trigger": { "type": "object", "description": "Complete trigger, as in conductor_create_mapping" },
                "action": { "type": "object", "description": "Complete action, as in conductor_create_mapping" },
                "description": { "type": "string", "description": "One line about the mapping" },
                "enabled": { "type": "boolean", "description": "false to disable the mapping, true to enable it" },
            },
            "required": ["mode"],
            "additionalProperties": false,
        }))
        .check(|arguments| plans::violations(&read_change("UpdateMapping", arguments).err().unwrap_or_default()))
        .summary(with_args(|row: &Row| format!("plan a change to mapping {row}")))
}

async fn run((): (), cx: Context, _args: Args) -> Result<ConfigPlan, ToolError> {
    let change = read_change("UpdateMapping", &cx.arguments).map_err(plans::bad_change)?;
    plans::make(&cx, &[change], None).await
}
