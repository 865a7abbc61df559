//! `live_delete_clip`: removes a clip.

use super::deleting;
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Clip id from live_list_clips.
    clip_id: Id,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    deleting::<Args>(live, "live_delete_clip", |args| &args.clip_id, |args| {
        Ok(LiveEdit::DeleteClip { clip_id: args.clip_id.path()? })
    })
    .text(
        "Delete clip",
        "Deletes one clip. In a running Live, a person must approve it. One undo step. If an arrangement clip is deleted, the ids of \
         later clips change: `shifted` is then true; list the clips again.",
    )
}
