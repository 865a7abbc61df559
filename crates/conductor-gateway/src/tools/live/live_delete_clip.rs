//! `live_delete_clip`: removes a clip.

use super::deleting;
use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    deleting(live, "live_delete_clip", "delete_clip", "clipId")
        .text(
            "Delete clip",
            "Deletes one clip. In a running Live, a person must approve it. One undo step. If an arrangement clip is deleted, the ids of \
             later clips change: `shifted` is then true; list the clips again.",
        )
        .input(schema::change(json!({ "clipId": schema::id("Clip id from live_list_clips") })))
        .output(schema::changed(json!({ "deleted": schema::list(schema::text()) })))
}
