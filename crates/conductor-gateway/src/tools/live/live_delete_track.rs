//! `live_delete_track`: removes a track, or a group with its tracks.

use super::deleting;
use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    deleting(live, "live_delete_track", "delete_track", "trackId")
        .text(
            "Delete track",
            "Deletes one track; with a group track, also the tracks in it. In a running Live, a person must approve it. One undo step. The \
             ids of later tracks change: list them again.",
        )
        .input(schema::change(json!({ "trackId": schema::id("Track id, such as track:2") })))
        .output(schema::changed(json!({ "deleted": schema::list(schema::text()) })))
}
