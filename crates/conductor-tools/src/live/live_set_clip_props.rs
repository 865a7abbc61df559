//! `live_set_clip_props`: sets the name, colour, loop and markers of a clip.

use super::prelude::*;
use conductor_set::{ClipInfo, ClipProps};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Clip id from live_list_clips.
    clip_id: Id,
    /// The properties to set, at least one.
    props: ClipProps,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    editing::<Args, ClipInfo>(live, "live_set_clip_props", |args| {
        Ok(LiveEdit::SetClipProps { clip_id: args.clip_id.path()?, props: args.props })
    })
    .text(
        "Set clip properties",
        "Sets properties of one clip, at least one, in one undo step; properties that are not given do not change. Positions are in \
         beats of the clip. A document cannot toggle looping.",
    )
    .idempotent()
}
