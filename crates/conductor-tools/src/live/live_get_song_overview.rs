//! `live_get_song_overview`: returns a summary of the Set.

use super::prelude::*;
use super::{SetOverview, overview};

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_get_song_overview", Tier::ReadOnly, run).text(
        "Get song overview",
        "Returns tempo, scale, grid, counts, revision and the list of tracks (id, name, type) of the current Live Set, without clip \
         contents. Call this tool first, then live_list_clips and live_get_notes.",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, _: NoArgs) -> Result<SetOverview, ToolError> {
    overview(&set).await
}
