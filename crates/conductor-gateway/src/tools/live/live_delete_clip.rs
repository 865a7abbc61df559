//! `live_delete_clip`: removes a clip.

use super::deleting;
use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    deleting(live, "live_delete_clip", "delete_clip", "clipId")
        .text(
            "Delete clip",
            "Removes one clip. In a running Live a person is asked first. One undo step. Deleting an arrangement clip renumbers those after it: shifted is then true, list the clips again.",
        )
        .input(schema::change(json!({ "clipId": schema::id("Clip id from live_list_clips") })))
        .output(schema::changed(json!({ "deleted": schema::list(schema::text()) })))
}
