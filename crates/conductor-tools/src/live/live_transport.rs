//! `live_transport`: starts and stops playing and recording in a running Live.

use super::prelude::*;
use conductor_hosts::live::{Playing, Transport};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The action.
    action: Transport,
    /// Jump to this beat first.
    #[schemars(range(min = 0))]
    beat: Option<f64>,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_transport", Tier::Stateful, run).text(
        "Transport",
        "Plays, stops, continues, stops all clips, or switches recording on or off in a running Live. If `beat` is given, jumps to \
         it first. Not available for a document (a Set file).",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<Playing, ToolError> {
    set.needs(Op::Transport).map_err(refused)?;
    set.host.transport(args.action, args.beat).await.map_err(refused)
}
