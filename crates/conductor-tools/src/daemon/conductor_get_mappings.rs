//! `conductor_get_mappings`: the rows of one mode, as written in the file.

use super::prelude::*;
use conductor_gateway::report::Mappings;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Mode name as in conductor_list_modes, or * for global mappings
    #[schemars(length(min = 1, max = 64))]
    mode: String,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_get_mappings", Tier::ReadOnly, TOOLSET, owner, run).text(
        "Get mappings",
        "Lists the mappings and continuous bindings of one mode, as written in the file; mode \"*\" lists the global ones. `index` counts \
         from 0; `id` does not change when rows move.",
    )
}

async fn run(owner: OwnerHandle, _cx: Context, args: Args) -> Result<Mappings, ToolError> {
    owner.mappings(&args.mode)
}
