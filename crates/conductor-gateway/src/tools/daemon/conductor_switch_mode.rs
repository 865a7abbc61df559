//! `conductor_switch_mode`: makes a mode active.

use super::prelude::*;
use crate::report::Switched;
use conductor_core::event::Taint;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Mode name, as in conductor_list_modes
    #[schemars(length(min = 1, max = 64))]
    mode: String,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_switch_mode", Tier::Stateful, TOOLSET, owner, run)
        .text(
            "Switch mode",
            "Makes a mapping mode active from the next event on. Keys that are down keep the mode in which they were pressed, so that no \
             note stays on.",
        )
        .idempotent()
        .summary(with_args(|args: &Args| format!("switch to mode {:?}", args.mode)))
}

async fn run(owner: OwnerHandle, cx: Context, args: Args) -> Result<Switched, ToolError> {
    unlocked(&owner, &cx.clearance, "the mode stays as it is").await?;
    let by = if cx.clearance.by_hand() { Taint::Clean } else { Taint::Tool };
    owner.switch_mode_by(args.mode, by).await
}
