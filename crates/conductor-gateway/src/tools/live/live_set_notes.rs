//! `live_set_notes`: replaces the notes of a MIDI clip, all of them or those of a window.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    let pitch = || json!({ "type": "integer", "minimum": 0, "maximum": 127 });
    editing(live, "live_set_notes", "replace_notes")
        .text(
            "Set notes",
            "Replaces all notes of one MIDI clip with the given list, or with window only those that start inside it. Read with live_get_notes, \
             change, write back. One undo step. Duration must be above 0. Notes of one pitch may not overlap: a later one cuts an earlier one, \
             which adjusted counts. Pass expectRevision to be sure that nobody wrote in between.",
        )
        .idempotent()
        .input(schema::change(json!({
            "clipId": schema::id("MIDI clip id, such as track:2/clipslot:4/clip"),
            "notes": schema::said("The new notes; may be empty", schema::list(schema::note())),
            "window?": schema::said(
                "Replace only notes that start in this window, and every given note must; ends are exclusive except toPitch",
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
