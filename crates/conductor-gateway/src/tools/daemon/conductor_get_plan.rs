//! `conductor_get_plan`: one plan.

use super::prelude::*;

pub fn definition() -> Definition {
    tool("conductor_get_plan", Tier::ReadOnly, TOOLSET, &(), run)
        .text("Get plan", "Returns one plan with its diff, hashes, warnings and status.")
}

async fn run((): (), cx: Context, args: PlanId) -> Result<ConfigPlan, ToolError> {
    // Expires old plans first, so that the status is current.
    plans::list(&cx.studio).await?;
    Ok(plans::find(&cx.studio, &args.plan_id.to_string())?.config_plan())
}
