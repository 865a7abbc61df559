//! `conductor_explain`: reports which mapping an event would fire, and why other mappings would not
//! fire.

use super::prelude::*;
use conductor_core::engine::Explanation;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// One event token, such as on:36@100
    #[schemars(length(min = 1, max = 512))]
    event: String,
    /// Default: the current mode
    #[schemars(length(min = 1, max = 64))]
    mode: Option<String>,
    /// Device alias; default: a device that is not named in any rule
    #[schemars(length(min = 1, max = 256))]
    device: Option<String>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_explain", Tier::ReadOnly, TOOLSET, owner, run).text(
        "Explain an event",
        "Lists the rules that use the control of an event, in order of precedence. For each rule that does not fire, reports the expected and \
         the actual value. Nothing is sent. The event is one token: on:36@100/0 (note@velocity/channel), off:36, cc:7=64, pb:8192, at:90, \
         pat:36=90, pc:5, down:south, up:south, axis:left_x=0.8, trig:right=0.9, osc:/a/b=1.0,2. Channels are 0-15 here.",
    )
}

async fn run(owner: OwnerHandle, _cx: Context, args: Args) -> Result<Explanation, ToolError> {
    owner.explain(&args.event, args.mode.as_deref(), args.device.as_deref()).await
}
