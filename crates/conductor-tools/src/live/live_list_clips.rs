//! `live_list_clips`: lists the slots and arrangement clips of a track.

use super::prelude::*;
use conductor_set::Clips;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Track id, such as track:2.
    track_id: Id,
    /// Number of entries to skip: nextOffset of the previous page.
    #[serde(default)]
    offset: usize,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_list_clips", Tier::ReadOnly, run).text(
        "List clips",
        "Lists the session slots (including empty slots) and arrangement clips of one track, each with its id, name and kind. Up to \
         400 of each; if nextOffset is present, there are more. Use a clip id with live_get_notes, and an empty slot id with \
         live_create_midi_clip.",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<Clips, ToolError> {
    set.host.clips(args.track_id.path()?, args.offset).await.map_err(refused)
}
