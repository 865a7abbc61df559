//! `conductor_get_trace`: recent events and their results.

use super::prelude::*;
use conductor_core::engine::Outcome;
use conductor_gateway::owner_handle::{Traced, Wanted};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Maximum number of records
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 200))]
    limit: usize,
    /// Only records from this number on: next_seq of the previous call
    since_seq: Option<u64>,
    /// Only events of this device alias or port
    #[schemars(length(min = 1, max = 256))]
    device: Option<String>,
    /// Only events that this mapping used
    #[schemars(length(min = 1, max = 64))]
    mapping_id: Option<String>,
    /// Only events with this outcome
    #[schemars(with = "Option<Outcome>")]
    outcome: Option<String>,
}

fn default_limit() -> usize {
    50
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_get_trace", Tier::ReadOnly, TOOLSET, owner, run).text(
        "Get trace",
        "Returns the last events and their outcomes: which mapping fired, what it did, or why nothing happened. To read only newer records, \
         call again with since_seq = next_seq; `lost` counts records that were dropped in between.",
    )
}

async fn run(owner: OwnerHandle, _cx: Context, args: Args) -> Result<Traced, ToolError> {
    let Args { limit, since_seq, device, mapping_id, outcome } = args;
    owner.trace(Wanted { limit: Some(limit), since_seq, device, mapping_id, outcome }).await
}
