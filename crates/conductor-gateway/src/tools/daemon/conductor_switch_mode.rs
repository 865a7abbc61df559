//! `conductor_switch_mode`: makes a mode active.

use super::prelude::*;
use conductor_core::event::Taint;

#[derive(Deserialize)]
struct Arguments {
    mode: String,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_switch_mode", Tier::Stateful, owner, |owner, _studio, clearance, arguments| async move {
        unlocked(&owner, &clearance, "the mode stays as it is").await?;
        let Arguments { mode } = parse_arguments(arguments)?;
        let by = if clearance.by_hand() { Taint::Clean } else { Taint::Tool };
        to_output(&owner.switch_mode_by(mode, by).await?)
    })
    .text(
        "Switch mode",
        "Makes a mapping mode active from the next event on. Keys that are down keep the mode in which they were pressed, so that no note \
         stays on.",
    )
    .idempotent()
    .input(object(json!({
        "mode": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Mode name, as in conductor_list_modes" },
    })))
    .output(object(json!({ "success": boolean(), "mode_name": text(), "mode_index": integer(), "total_modes": integer() })))
    .summary(|arguments| format!("switch to mode {}", arguments.get("mode").unwrap_or(&Value::Null)))
}
