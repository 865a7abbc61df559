//! `conductor_count_mappings`: the number of mappings of one mode.

use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Mode name as in conductor_list_modes, or * for global mappings
    #[schemars(length(min = 1, max = 64))]
    mode: String,
    /// Also count disabled mappings
    #[serde(default)]
    disabled: bool,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Number of mappings
    count: usize,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_count_mappings", Tier::ReadOnly, TOOLSET, owner, run)
        .text("Count mappings", "Counts the mappings of one mode.")
}

async fn run(owner: OwnerHandle, _cx: Context, args: Args) -> Result<Answer, ToolError> {
    let rows = owner.mappings(&args.mode)?.mappings;
    Ok(Answer { count: rows.iter().filter(|it| it.enabled || args.disabled).count() })
}
