//! `live_set_notes`: replaces all notes of a MIDI clip, or the notes in a window.

use super::prelude::*;
use conductor_set::{Note, NoteWindow, NotesWritten};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// MIDI clip id, such as track:2/clipslot:4/clip.
    clip_id: Id,
    /// The new notes; may be empty.
    notes: Vec<Note>,
    /// Replaces only notes that start in this window. Every given note must start in it too. Ends
    /// are exclusive, except toPitch.
    window: Option<NoteWindow>,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    editing::<Args, NotesWritten>(live, "live_set_notes", |args| {
        Ok(LiveEdit::ReplaceNotes { clip_id: args.clip_id.path()?, notes: args.notes, window: args.window })
    })
    .text(
        "Set notes",
        "Replaces all notes of one MIDI clip with the given list; with `window`, only those that start inside it. Read with \
         live_get_notes, change, write back. One undo step. Durations must be above 0. Notes of one pitch must not overlap: a later note \
         shortens an earlier one, and `adjusted` counts this. Pass expectRevision to make sure that nothing was changed in between.",
    )
    .idempotent()
}
