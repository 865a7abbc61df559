//! `live_get_track`: returns everything about one track, for clients that do not read resources.
//! The resource `ableton://track/{i}` returns the same.

use super::prelude::*;
use conductor_set::TrackDetail;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Track id, such as track:2.
    track_id: Id,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_get_track", Tier::ReadOnly, run).text(
        "Get track",
        "Returns one track in full: every slot and arrangement clip with its properties, its devices, and the parameters of devices \
         and mixer with ids for live_set_param. At most 400 clips and 400 parameters; if there are more, `truncated` is true and \
         `totals` has the numbers.",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<TrackDetail, ToolError> {
    set.host.track_detail(args.track_id.path()?).await.map_err(refused)
}
