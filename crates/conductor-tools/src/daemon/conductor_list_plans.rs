//! `conductor_list_plans`: every plan, newest first.

use super::prelude::*;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Newest first
    plans: Vec<ConfigPlan>,
}

pub fn definition() -> Definition {
    tool("conductor_list_plans", Tier::ReadOnly, TOOLSET, &(), run).text(
        "List plans",
        "Lists plans for the configuration with their diff and status (pending, applied, rejected, expired, stale, undone), newest first.",
    )
}

async fn run((): (), cx: Context, _args: NoArgs) -> Result<Answer, ToolError> {
    Ok(Answer { plans: plans::list(&cx.studio).await? })
}
