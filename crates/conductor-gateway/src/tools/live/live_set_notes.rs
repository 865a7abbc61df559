//! `live_set_notes`: replaces all notes of a MIDI clip, or those in a window.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    let pitch = || json!({ "type": "integer", "minimum": 0, "maximum": 127 });
    editing(live, "live_set_notes", "replace_notes")
        .text(
            "Set notes",
            "Replaces all notes of one MIDI clip with the given list; with `window`, only those that start inside it. Read with \
             live_get_notes, change, write back. One undo step. Durations must be above 0. Notes of one pitch must not overlap: a later note \
             shortens an earlier one, and `adjusted` counts this. Pass expectRevision to make sure that nothing was changed in between.",
        )
        .idempotent()
        .input(schema::change(json!({
            "clipId": schema::id("MIDI clip id, such as track:2/clipslot:4/clip"),
            "notes": schema::said("The new notes; may be empty", schema::list(schema::note())),
            "window?": schema::said(
                "Replaces only notes that start in this window. Every given note must start in it too. Ends are exclusive, except toPitch",
                schema::object(json!({
                    "fromBeat": { "type": "number", "minimum": 0 }, "toBeat": { "type": "number", "minimum": 0 },
                    "fromPitch?": pitch(), "toPitch?": pitch(),
                })),
            ),
        })))
        .output(schema::changed(json!({
            "id": text(), "name": text(), "count": integer(), "removed": integer(), "adjusted": integer(),
        })))
}
