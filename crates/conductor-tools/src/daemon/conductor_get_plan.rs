//! `conductor_get_plan`: returns one plan.

use super::prelude::*;

pub fn definition() -> Definition {
    tool("conductor_get_plan", Tier::ReadOnly, TOOLSET, &(), run)
        .text("Get plan", "Returns one plan with its diff, hashes, warnings and status.")
}

async fn run((): (), cx: Context, args: PlanId) -> Result<ConfigPlan, ToolError> {
    // Expire old plans first, so that the status of the plan is current.
    plans::list(&cx.studio).await?;
    Ok(plans::find(&cx.studio, &args.plan_id.to_string())?.config_plan())
}
