//! `live_create_track`: a new track at the end.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    editing(live, "live_create_track", "create_track")
        .text(
            "Create track",
            "Adds an empty MIDI or audio track after the last track. One undo step. Use live_set_track_props with the returned id to name it.",
        )
        .input(schema::change(json!({ "kind": { "type": "string", "enum": ["midi", "audio"], "description": "Kind of track" } })))
        .output(schema::changed(json!({
            "id": text(), "kind": text(), "name": text(), "mute": boolean(), "solo": boolean(), "mutedViaSolo": boolean(), "arm": boolean(),
            "clipSlotCount": integer(), "arrangementClipCount": integer(), "deviceCount": integer(),
            "mixer": object(json!({ "volume": nullable(number()), "panning": nullable(number()), "sendCount": integer() })),
        })))
}
