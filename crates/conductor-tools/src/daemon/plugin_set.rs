//! `plugin.set`: a hidden tool for a person. It writes the row of a plugin as a plan and applies
//! the plan at once. So the change is stored, recorded and can be undone like any other change to
//! the configuration.

use super::plan_apply;
use super::prelude::*;
use conductor_core::audit::record::EventName;
use conductor_core::policy::Channel;
use conductor_gateway::plans::Applied;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Name of the plugin
    name: String,
    /// Keys and values to write to the row of the plugin
    row: Map<String, Value>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    let mut definition = tool("plugin.set", Tier::ConfigChange, TOOLSET, owner, run)
        .text("Set plugin", "Writes a plugin's row into config.toml.");
    definition.hidden = true;
    definition
}

async fn run(owner: OwnerHandle, cx: Context, args: Args) -> Result<Applied, ToolError> {
    let by = plan_apply::person(&cx.clearance)?;
    let Args { name, row } = args;
    let enabled = row.get("enabled") == Some(&Value::Bool(true));
    let verb = if enabled { "Enable" } else { "Disable" };
    let made = plans::make_plugin(&cx, &name, &row, format!("{verb} plugin \"{name}\"")).await?;
    let applied = plans::apply(&cx.studio, &owner, &by, Channel::Cli, made.plan_id).await?;
    let event = if enabled { EventName::PluginEnabled } else { EventName::PluginDisabled };
    let detail = json!({ "plugin": name, "pin": row.get("pin") });
    let _ = cx.studio.audit_event(Some(by), event, detail).await;
    Ok(applied)
}
