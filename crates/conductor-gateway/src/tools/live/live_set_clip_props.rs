//! `live_set_clip_props`: name, colour, loop and markers of a clip.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    editing(live, "live_set_clip_props", "set_clip_props")
        .text(
            "Set clip properties",
            "Sets properties of one clip, at least one, in one undo step; properties that are not given do not change. Positions are in beats \
             of the clip. A document cannot toggle looping.",
        )
        .idempotent()
        .input(schema::change(json!({
            "clipId": schema::id("Clip id from live_list_clips"),
            "props": schema::object(json!({
                "name?": text(), "muted?": schema::said("true deactivates the clip", boolean()),
                "color?": { "type": "integer", "minimum": 0, "maximum": 69, "description": "Index into Live's 70 colours" },
                "loopStart?": number(), "loopEnd?": number(), "startMarker?": number(), "endMarker?": number(), "looping?": boolean(),
            })),
        })))
        .output(schema::changed(schema::clip_info_members()))
}
