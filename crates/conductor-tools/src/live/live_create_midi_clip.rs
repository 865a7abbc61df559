//! `live_create_midi_clip`: creates an empty clip in a session slot.

use super::prelude::*;
use conductor_set::ClipCreated;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Slot id from live_list_clips, such as track:2/clipslot:4.
    slot_id: Id,
    /// Length in beats, at least 0.25.
    #[schemars(range(min = 0.25))]
    length_beats: f64,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    editing::<Args, ClipCreated>(live, "live_create_midi_clip", |args| {
        Ok(LiveEdit::CreateMidiClip { slot_id: args.slot_id.path()?, length_beats: args.length_beats })
    })
    .text(
        "Create MIDI clip",
        "Creates an empty MIDI clip of the given length in an empty session slot of a MIDI track, ready for live_set_notes. One undo \
         step.",
    )
}
