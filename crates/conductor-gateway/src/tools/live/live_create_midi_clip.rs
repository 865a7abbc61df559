//! `live_create_midi_clip`: an empty clip in a session slot.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    editing(live, "live_create_midi_clip", "create_midi_clip")
        .text(
            "Create MIDI clip",
            "Creates an empty MIDI clip of the given length in an empty session slot of a MIDI track, ready for live_set_notes. One undo \
             step.",
        )
        .input(schema::change(json!({
            "slotId": schema::id("Slot id from live_list_clips, such as track:2/clipslot:4"),
            "lengthBeats": { "type": "number", "minimum": 0.25, "description": "Length in beats, at least 0.25" },
        })))
        .output(schema::changed(json!({ "clipId": text(), "slotId": text(), "lengthBeats": schema::number() })))
}
