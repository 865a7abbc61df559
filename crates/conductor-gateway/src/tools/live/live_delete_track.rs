//! `live_delete_track`: removes a track, or a group with its tracks.

use super::deleting;
use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    deleting(live, "live_delete_track", "delete_track", "trackId")
        .text(
            "Delete track",
            "Removes one track; a group track takes its children with it. In a running Live a person is asked first. One undo step. Tracks after it get new ids: list them again.",
        )
        .input(schema::change(json!({ "trackId": schema::id("Track id, such as track:2") })))
        .output(schema::changed(json!({ "deleted": schema::list(schema::text()) })))
}
