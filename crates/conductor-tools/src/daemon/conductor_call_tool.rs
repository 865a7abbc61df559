//! `conductor_call_tool`: calls any tool by its name. The pipeline replaces the call with a call to
//! that tool before the first step, so this handler never runs.

use super::prelude::*;
use conductor_gateway::pipeline::call::Output;
use conductor_gateway::pipeline::relay::CALL_TOOL;

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "the pipeline reads the arguments")]
struct Args {
    /// Name of the tool, from conductor_find_tools
    #[schemars(length(min = 1, max = 128))]
    tool: String,
    /// Arguments of that tool
    #[serde(default)]
    arguments: Map<String, Value>,
}

pub fn definition() -> Definition {
    tool(CALL_TOOL, Tier::HardwareIo, TOOLSET, &(), run).text(
        "Call tool",
        "Calls a tool that is not in your list. Call conductor_find_tools first and use its signature. The call is treated exactly like \
         a direct call to that tool: the same approvals and errors.",
    )
}

async fn run((): (), _cx: Context, _args: Args) -> Result<Output, ToolError> {
    Err(ToolError::new(Code::Internal, "the call was not replaced with a call to its tool"))
}
