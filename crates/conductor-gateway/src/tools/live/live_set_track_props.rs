//! `live_set_track_props`: name and switches of a track.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    editing(live, "live_set_track_props", "set_track_props")
        .text(
            "Set track properties",
            "Sets name, mute, solo and arm of one track, at least one of them, in one undo step; properties that are not given do not change. \
             Returns the track after the write.",
        )
        .idempotent()
        .input(schema::change(json!({
            "trackId": schema::id("Track id, such as track:2"),
            "props": schema::object(json!({
                "name?": { "type": "string", "minLength": 1, "description": "New name" },
                "mute?": boolean(), "solo?": boolean(), "arm?": schema::said("Arm for recording", boolean()),
            })),
        })))
        .output(schema::changed(json!({ "id": text(), "name": text(), "mute": boolean(), "solo": boolean(), "arm": boolean() })))
}
