//! `plan.apply` and `plan.reject`: hidden tools for a person, who calls them through the control
//! socket, the console, the approval pad or a paired phone.

use super::prelude::*;
use conductor_core::policy::Channel;
use conductor_gateway::pipeline::call::Principal;
use conductor_gateway::pipeline::gate::Clearance;
use conductor_gateway::plans::Applied;
use uuid::Uuid;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Id of a plan
    #[schemars(with = "String", extend("format" = "uuid"))]
    plan_id: Uuid,
    /// How the person decided
    #[schemars(with = "Value", extend("enum" = ["cli", "terminal", "console", "pad", "phone"]))]
    channel: Channel,
    /// Why the person rejects the plan; the client sees it
    #[serde(default)]
    #[schemars(length(max = 500))]
    reason: Option<String>,
}

pub fn apply(owner: &OwnerHandle) -> Definition {
    let mut definition = tool("plan.apply", Tier::ConfigChange, TOOLSET, owner, run_apply)
        .text("Apply plan", "Writes the plan's result, if the file has not changed since the plan was made.");
    definition.hidden = true;
    definition
}

async fn run_apply(owner: OwnerHandle, cx: Context, args: Args) -> Result<Applied, ToolError> {
    let by = person(&cx.clearance)?;
    plans::apply(&cx.studio, &owner, &by, args.channel, args.plan_id).await
}

pub fn reject() -> Definition {
    let mut definition = tool("plan.reject", Tier::ConfigChange, TOOLSET, &(), run_reject)
        .text("Reject plan", "Ends the plan without writing anything.");
    definition.hidden = true;
    definition
}

async fn run_reject((): (), cx: Context, args: Args) -> Result<ConfigPlan, ToolError> {
    let by = person(&cx.clearance)?;
    plans::reject(&cx.studio, &by, args.channel, args.plan_id, args.reason).await
}

/// Refuses all callers except a person. A mapping may call tools, but must not decide about plans.
pub(super) fn person(clearance: &Clearance) -> Result<Principal, ToolError> {
    if clearance.principal().is_person() {
        return Ok(clearance.principal().clone());
    }
    let name = clearance.tool().name.to_string();
    Err(ToolError::new(Code::NotFound, format!("Unknown tool: {name}")).subject(Subject::Tool(name)))
}
