//! `live_get_notes`: returns the notes of a MIDI clip: all notes, one page, or a summary.

use super::prelude::*;
use conductor_set::{NoteQuery, Notes};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// MIDI clip id, such as track:2/clipslot:4/clip.
    clip_id: Id,
    /// Only notes that start here or later.
    #[schemars(range(min = 0))]
    from_beat: Option<f64>,
    /// Only notes that start before this.
    #[schemars(range(min = 0))]
    to_beat: Option<f64>,
    /// Number of entries to skip: nextOffset of the previous page.
    offset: Option<usize>,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_get_notes", Tier::ReadOnly, run).text(
        "Get notes",
        "Returns the notes of one MIDI clip, sorted by start, then pitch; times are in beats of the clip. Up to 400 notes are listed \
         in full. For a longer clip, returns a summary and the first 50; use `offset` (0, 400, ...) or fromBeat and toBeat to read \
         the rest. Absent fields have their default: probability 1, velocityDeviation 0, releaseVelocity 64, not muted.",
    )
}

async fn run(ask: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<Notes, ToolError> {
    let clip = args.clip_id.path()?;
    let query = NoteQuery { from_beat: args.from_beat, to_beat: args.to_beat, offset: args.offset };
    let notes = set.host.notes(clip, query).await.map_err(refused)?;
    let shown = match &notes {
        Notes::Listed { notes, .. } => notes.len(),
        Notes::Summary { first_notes, .. } => first_notes.len(),
    };
    // In a time window, the offset counts from the first note of the window, so it is not an index
    // into the clip.
    let from_start = (query.from_beat.is_none() && query.to_beat.is_none()).then(|| query.offset.unwrap_or(0));
    ask.live.sessions(|sessions| sessions.read_notes(&ask.key, &set.id, clip, from_start, shown));
    Ok(notes)
}
