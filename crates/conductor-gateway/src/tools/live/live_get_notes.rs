//! `live_get_notes`: the notes of a MIDI clip, whole, in pages, or as a summary.

use super::prelude::*;
use conductor_set::{NoteQuery, Notes};

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_get_notes", |mut ask, set| async move {
        let clip = ask.id("clipId")?;
        let query = NoteQuery { from_beat: ask.take("fromBeat")?, to_beat: ask.take("toBeat")?, offset: ask.take("offset")? };
        let notes = set.host.notes(clip, query).await.map_err(refused)?;
        let shown = match &notes {
            Notes::Listed { notes, .. } => notes.len(),
            Notes::Summary { first_notes, .. } => first_notes.len(),
        };
        // The offset of a page in a time window counts from the window's first note.
        let from_start = (query.from_beat.is_none() && query.to_beat.is_none()).then(|| query.offset.unwrap_or(0));
        ask.live.sessions(|sessions| sessions.read_notes(&ask.key, &set.id, clip, from_start, shown));
        to_output(&notes)
    })
    .text(
        "Get notes",
        "Returns the notes of one MIDI clip, sorted by start, then pitch; times are in beats of the clip. Up to 400 notes are listed in full. \
         For a longer clip, returns a summary and the first 50; use `offset` (0, 400, ...) or fromBeat and toBeat to read the rest. Absent \
         fields have their default: probability 1, velocityDeviation 0, releaseVelocity 64, not muted.",
    )
    .input(schema::look(json!({
        "clipId": schema::id("MIDI clip id, such as track:2/clipslot:4/clip"),
        "fromBeat?": schema::beats("Only notes that start here or later"),
        "toBeat?": schema::beats("Only notes that start before this"),
        "offset?": schema::offset(),
    })))
    .output(object(json!({
        "clipId": text(), "count": integer(), "notes?": list(schema::note()), "nextOffset?": integer(),
        "summary?": object(json!({ "pitchRange": list(integer()), "spanBeats": number() })),
        "firstNotes?": list(schema::note()), "truncated?": boolean(),
    })))
}
