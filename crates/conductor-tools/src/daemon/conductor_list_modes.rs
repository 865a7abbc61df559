//! `conductor_list_modes`: the modes of the configuration and the active mode.

use super::prelude::*;
use conductor_gateway::report::Modes;

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_list_modes", Tier::ReadOnly, TOOLSET, owner, run).text(
        "List modes",
        "Lists every mode with its colour and the number of its mappings, and names the active mode.",
    )
}

async fn run(owner: OwnerHandle, _cx: Context, _args: NoArgs) -> Result<Modes, ToolError> {
    Ok(Modes::clone(&owner.modes()))
}
