//! `conductor_get_plan`: one plan.

use super::prelude::*;

pub fn definition() -> Definition {
    Definition::new("conductor_get_plan", Tier::ReadOnly, TOOLSET, |studio, _clearance, arguments| async move {
        let id = plan_id(&arguments)?;
        // Expires old plans first, so that the status is current.
        plans::list(&studio).await?;
        Ok(Output::new(plans::find(&studio, &id.to_string())?.config_plan().unwrap_or(Value::Null)))
    })
    .text("Get plan", "Returns one plan with its diff, hashes, warnings and status.")
    .input(object(json!({ "plan_id": { "type": "string", "format": "uuid" } })))
    .output(config_plan())
}
