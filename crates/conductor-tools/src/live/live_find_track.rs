//! `live_find_track`: finds tracks by name.

use super::prelude::*;
use conductor_set::TrackMatches;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Track name or a part of it.
    #[schemars(length(min = 1))]
    query: String,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_find_track", Tier::ReadOnly, run).text(
        "Find track",
        "Returns the ids of the tracks whose name contains the query; case is ignored. If nothing is found, `count` is 0 and there \
         is no error; live_get_song_overview lists all names.",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<TrackMatches, ToolError> {
    set.host.find_track(args.query).await.map_err(refused)
}
