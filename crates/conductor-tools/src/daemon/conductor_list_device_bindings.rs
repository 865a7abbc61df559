//! `conductor_list_device_bindings`: devices and their ports.

use super::prelude::*;
use conductor_gateway::report::Bindings;

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_list_device_bindings", Tier::ReadOnly, TOOLSET, owner, run).text(
        "List device bindings",
        "Lists each configured device (by alias) and each port without an alias (raw:PORT): whether it is connected, muted, or tainted. \
         Events from a tainted device do not count as played by a person, so they cannot press keys, start programs or call tools.",
    )
}

async fn run(owner: OwnerHandle, _cx: Context, _args: NoArgs) -> Result<Bindings, ToolError> {
    owner.bindings().await
}
