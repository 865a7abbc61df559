//! `live_delete_clip`: removes a clip.

use super::{editing, schema};
use crate::hosts::live::Live;
use crate::tools::catalog::Definition;
use serde_json::json;
use std::sync::Arc;

pub fn definition(live: &Arc<Live>) -> Definition {
    let mut definition = editing(live, "live_delete_clip", "delete_clip")
        .text(
            "Delete clip",
            "Removes one clip. One undo step. Deleting an arrangement clip renumbers those after it: shifted is then true, list the clips again.",
        )
        .input(schema::change(json!({ "clipId": schema::id("Clip id from live_list_clips") })))
        .output(schema::changed(json!({ "deleted": schema::list(schema::text()) })));
    definition.destructive = Some(true);
    definition
}
