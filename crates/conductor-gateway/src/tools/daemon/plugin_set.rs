//! `plugin.set`: a hidden tool for a person. Writes the row of a plugin as a plan and applies it at
//! once, so that it is stored, recorded and can be undone like any other change of the
//! configuration.

use super::plan_apply;
use super::prelude::*;
use conductor_core::audit::record::EventName;
use conductor_core::policy::Channel;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let owner = owner.clone();
    let mut definition =
        Definition::new("plugin.set", Tier::ConfigChange, TOOLSET, move |studio, clearance, arguments| {
            let owner = owner.clone();
            async move {
                let by = plan_apply::person(&clearance)?;
                let name = arguments["name"].as_str().unwrap_or_default().to_owned();
                let Value::Object(row) = &arguments["row"] else {
                    return Err(ToolError::new(Code::BadInput, "row: an object is expected"));
                };
                let enabled = row.get("enabled") == Some(&Value::Bool(true));
                let verb = if enabled { "Enable" } else { "Disable" };
                let made = plans::make_plugin(
                    &studio,
                    &clearance,
                    &arguments,
                    &name,
                    row,
                    format!("{verb} plugin \"{name}\""),
                )
                .await?;
                let id = made["plan_id"].as_str().and_then(|it| it.parse().ok());
                let id = id.ok_or_else(|| ToolError::new(Code::Internal, "the plan has no id"))?;
                let applied = plans::apply(&studio, &owner, &by, Channel::Cli, id).await?;
                let event = if enabled { EventName::PluginEnabled } else { EventName::PluginDisabled };
                let detail = json!({ "plugin": name, "pin": row.get("pin") });
                let _ = studio.audit.event(Some(by), event, detail).await;
                Ok(Output::new(applied))
            }
        })
        .text("Set plugin", "Writes a plugin's row into config.toml.")
        .input(object(json!({ "name": { "type": "string" }, "row": { "type": "object" } })));
    definition.hidden = true;
    definition
}
