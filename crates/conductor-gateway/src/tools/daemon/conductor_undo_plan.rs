//! `conductor_undo_plan`: plans the inverse of an applied plan.

use super::prelude::*;

pub fn definition() -> Definition {
    Definition::new("conductor_undo_plan", Tier::ConfigChange, TOOLSET, |studio, clearance, arguments| async move {
        let id = plan_id(&arguments)?;
        Ok(Output::new(plans::make_undo(&studio, &clearance, &arguments, id).await?))
    })
    .text(
        "Undo plan",
        "Plans the inverse of an applied plan: restores the old bytes if the file has not changed since, otherwise reverts each change by \
         name. Nothing changes until a person applies the new plan.",
    )
    .input(object(json!({ "plan_id": { "type": "string", "format": "uuid", "description": "Id of an applied plan, as in conductor_list_plans" } })))
    .output(config_plan())
    .summary(|arguments| format!("plan to undo {}", arguments["plan_id"]))
}
