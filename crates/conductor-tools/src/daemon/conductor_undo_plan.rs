//! `conductor_undo_plan`: plans the inverse of an applied plan.

use super::prelude::*;

pub fn definition() -> Definition {
    tool("conductor_undo_plan", Tier::ConfigChange, TOOLSET, &(), run)
        .text(
            "Undo plan",
            "Plans the inverse of an applied plan: restores the old bytes if the file has not changed since then; otherwise reverts \
             each change by name. Nothing changes until a person applies the new plan.",
        )
        .summary(with_args(|args: &PlanId| format!("plan to undo \"{}\"", args.plan_id)))
}

async fn run((): (), cx: Context, args: PlanId) -> Result<ConfigPlan, ToolError> {
    plans::make_undo(&cx, args.plan_id).await
}
