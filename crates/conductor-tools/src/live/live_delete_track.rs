//! `live_delete_track`: removes a track, or a group with its tracks.

use super::deleting;
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Track id, such as track:2.
    track_id: Id,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    deleting::<Args>(live, "live_delete_track", |args| &args.track_id, |args| {
        Ok(LiveEdit::DeleteTrack { track_id: args.track_id.path()? })
    })
    .text(
        "Delete track",
        "Deletes one track; with a group track, also the tracks in it. In a running Live, a person must approve it. One undo step. The \
         ids of later tracks change: list them again.",
    )
}
