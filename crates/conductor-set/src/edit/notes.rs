//! Replaces notes: rewrites `KeyTracks`, keeps the text and id of unchanged notes, and removes
//! references to the ids of removed notes.

use super::{Done, Outcome, check_range};
use crate::change::Draft;
use crate::document::{Document, Family};
use crate::error::LiveError;
use crate::note::{Note, StoredNote, stored};
use crate::path::PathId;
use crate::xml::{El, Splices, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

/// The notes that a partial write replaces: the notes that start inside the window. `toBeat` is
/// exclusive, `toPitch` is inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NoteWindow {
    /// First beat of the window.
    #[schemars(range(min = 0))]
    pub from_beat: f64,
    /// First beat after the window.
    #[schemars(range(min = 0))]
    pub to_beat: f64,
    /// Lowest pitch of the window.
    #[schemars(range(min = 0, max = 127))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_pitch: Option<u8>,
    /// Highest pitch of the window.
    #[schemars(range(min = 0, max = 127))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_pitch: Option<u8>,
}

impl NoteWindow {
    /// Whether the note starts inside the window.
    pub fn holds(&self, note: &Note) -> bool {
        (self.from_beat..self.to_beat).contains(&note.start_time)
            && self.from_pitch.is_none_or(|p| note.pitch >= p)
            && self.to_pitch.is_none_or(|p| note.pitch <= p)
    }

    fn check(&self) -> Result<(), LiveError> {
        check_range("window.fromBeat", self.from_beat, 0.0, 1e9)?;
        check_range("window.toBeat", self.to_beat, 0.0, 1e9)?;
        if self.to_beat <= self.from_beat {
            return Err(LiveError::value("window.toBeat", "must be after fromBeat"));
        }
        if self.from_pitch.zip(self.to_pitch).is_some_and(|(low, high)| low > high) {
            return Err(LiveError::value("window.toPitch", "must not be below fromPitch"));
        }
        Ok(())
    }
}

/// A clip after its notes were replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotesWritten {
    /// Path of the clip.
    pub id: PathId,
    /// Name of the clip.
    pub name: String,
    /// Number of notes in the clip after the write.
    pub count: usize,
    /// Number of notes removed by the write.
    pub removed: usize,
    /// Number of notes that were dropped or shortened because of an overlap.
    pub adjusted: usize,
}

/// A note to write, and the stored note that it replaces.
#[derive(Debug, Clone, Copy)]
struct Planned<'a> {
    note: Note,
    old: Option<StoredNote<'a>>,
    given: bool,
}

// Sums of beats have rounding errors; a real overlap is much longer than this.
const NOISE: f64 = 1e-9;

fn key(note: &Note) -> (u8, u64) {
    // The addition converts -0 to 0, so that equal starts have equal bits.
    (note.pitch, (note.start_time + 0.0).to_bits())
}

/// Sorts notes by pitch and time, and resolves overlaps of one pitch as Live does. If two notes
/// have the same start, the later note in the list is kept. A note that overlaps the next note is
/// shortened to end at the start of the next note. If the clip already contained both notes, the
/// overlap stays.
fn settle<'a>(list: Vec<Planned<'a>>) -> (Vec<Planned<'a>>, usize) {
    let mut adjusted = 0;
    let mut place: HashMap<(u8, u64), usize> = HashMap::with_capacity(list.len());
    let mut kept: Vec<Planned<'a>> = Vec::with_capacity(list.len());
    for planned in list {
        match place.entry(key(&planned.note)) {
            std::collections::hash_map::Entry::Occupied(at) if planned.given => {
                kept[*at.get()] = planned;
                adjusted += 1;
            }
            std::collections::hash_map::Entry::Occupied(_) => kept.push(planned),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(kept.len());
                kept.push(planned);
            }
        }
    }
    kept.sort_by(|a, b| a.note.pitch.cmp(&b.note.pitch).then(a.note.start_time.total_cmp(&b.note.start_time)));
    for i in 1..kept.len() {
        let (before, next) = (kept[i - 1], kept[i]);
        let overlaps = before.note.pitch == next.note.pitch && before.note.end() - next.note.start_time > NOISE;
        let room = next.note.start_time - before.note.start_time;
        if overlaps && room > 0.0 && (before.given || next.given) {
            kept[i - 1].note.duration = room;
            adjusted += 1;
        }
    }
    (kept, adjusted)
}

/// Whether the notes of this clip omit attributes with default values.
fn omits_defaults(doc: &Document, clip: El<'_>) -> bool {
    if doc.schema.family < Family::Live12_3 {
        return false;
    }
    let full = |note: El<'_>| {
        ["VelocityDeviation", "OffVelocity", "Probability", "IsEnabled"].iter().all(|a| note.attr_span(a).is_some())
    };
    if let Some(first) = stored(clip).first() {
        return !full(first.el) || stored(clip).iter().any(|n| !full(n.el));
    }
    let clips = doc.tracks().flat_map(|t| t.session().into_iter().chain(t.arrangement()));
    let mut notes = clips.flat_map(|c| stored(c.el)).peekable();
    notes.peek().is_none() || notes.any(|n| !full(n.el))
}

fn note_text(planned: &Planned<'_>, id: u32, omit: bool) -> String {
    let note = &planned.note;
    let old = planned.old.map(|o| o.el);
    let mut out = String::from("<MidiNoteEvent");
    let mut put = |name: &str, value: f64, default: Option<f64>| {
        let stored = old.and_then(|el| Some((el.attr_raw(name)?, el.attr_f64(name)?)));
        let text = match stored {
            Some((raw, was)) if was == value => raw.to_owned(),
            Some(_) => number(value),
            // A kept note omits the same attributes as before. A new note omits default values if
            // the other notes omit them.
            None if default == Some(value) && (omit || old.is_some()) => return,
            None => number(value),
        };
        let _ = write!(out, " {name}=\"{text}\"");
    };
    put("Time", note.start_time, None);
    put("Duration", note.duration, None);
    put("Velocity", note.velocity, None);
    put("VelocityDeviation", note.velocity_deviation, Some(0.0));
    put("OffVelocity", note.release_velocity, Some(64.0));
    put("Probability", note.probability, Some(1.0));
    let enabled_was_there = old.is_some_and(|el| el.attr_span("IsEnabled").is_some());
    if note.muted || enabled_was_there || !(omit || old.is_some()) {
        let _ = write!(out, " IsEnabled=\"{}\"", !note.muted);
    }
    let _ = write!(out, " NoteId=\"{id}\"");
    // Keep attributes that this version of Conductor does not know.
    for (name, _) in old.iter().flat_map(|el| el.attributes()).filter(|(name, _)| !KNOWN.contains(name)) {
        let raw = old.and_then(|el| el.attr_raw(name)).unwrap_or_default();
        let _ = write!(out, " {name}=\"{}\"", raw.replace('"', "&quot;"));
    }
    out.push_str(" />");
    out
}

const KNOWN: [&str; 8] =
    ["Time", "Duration", "Velocity", "VelocityDeviation", "OffVelocity", "Probability", "IsEnabled", "NoteId"];

/// The new `KeyTracks` element: one `KeyTrack` per pitch, in ascending order, with ids from 0.
fn key_tracks(notes: &[(Planned<'_>, u32)], el: El<'_>, doc: &Document, omit: bool) -> String {
    if notes.is_empty() {
        return "<KeyTracks />".into();
    }
    let (nl, unit) = (doc.newline, &*doc.unit);
    let base = el.indent();
    let mut out = String::from("<KeyTracks>");
    for (n, group) in notes.chunk_by(|a, b| a.0.note.pitch == b.0.note.pitch).enumerate() {
        let pitch = group.first().map_or(0, |(p, _)| p.note.pitch);
        let _ = write!(out, "{nl}{base}{unit}<KeyTrack Id=\"{n}\">{nl}{base}{unit}{unit}<Notes>");
        for (planned, id) in group {
            let _ = write!(out, "{nl}{base}{unit}{unit}{unit}{}", note_text(planned, *id, omit));
        }
        let _ = write!(
            out,
            "{nl}{base}{unit}{unit}</Notes>{nl}{base}{unit}{unit}<MidiKey Value=\"{pitch}\" />{nl}{base}{unit}</KeyTrack>"
        );
    }
    let _ = write!(out, "{nl}{base}</KeyTracks>");
    out
}

pub(super) fn check(notes: &[Note], window: Option<&NoteWindow>) -> Result<(), LiveError> {
    if let Some(window) = window {
        window.check()?;
    }
    for (i, note) in notes.iter().enumerate() {
        note.check().map_err(|reason| LiveError::value(format!("notes[{i}]"), reason))?;
        if window.is_some_and(|w| !w.holds(note)) {
            return Err(LiveError::value(format!("notes[{i}]"), "must start inside the window"));
        }
    }
    Ok(())
}

pub(super) fn replace(
    draft: &mut Draft,
    path: PathId,
    notes: &[Note],
    window: Option<&NoteWindow>,
) -> Result<Done, LiveError> {
    let doc = &draft.doc;
    let clip = doc.need_midi_clip(path)?;
    check(notes, window)?;
    doc.need_thawed(clip.track)?;
    let keys =
        clip.el.at("Notes/KeyTracks").ok_or_else(|| LiveError::unsupported(path, "the clip stores no note list"))?;

    let old = stored(clip.el);
    let (replaced, outside): (Vec<StoredNote<'_>>, Vec<StoredNote<'_>>) =
        old.iter().copied().partition(|s| window.is_none_or(|w| w.holds(&s.note)));
    let by_place: HashMap<(u8, u64), StoredNote<'_>> = replaced.iter().map(|s| (key(&s.note), *s)).collect();
    let stay = outside.into_iter().map(|s| Planned { note: s.note, old: Some(s), given: false });
    let given = notes.iter().map(|n| {
        let note = Note { selected: None, ..*n };
        Planned { note, old: by_place.get(&key(&note)).copied(), given: true }
    });
    let (settled, adjusted) = settle(stay.chain(given).collect());

    let warnings = if notes.iter().any(|n| n.selected.is_some()) {
        vec!["selected is a view state that a document does not store; it was dropped".to_owned()]
    } else {
        Vec::new()
    };
    let kept: BTreeSet<usize> = settled.iter().filter_map(|p| p.old.map(|o| o.el.key())).collect();
    let removed = old.len() - kept.len();
    let written = NotesWritten { id: path, name: clip.name(), count: settled.len(), removed, adjusted };
    let same = removed == 0 && settled.iter().all(|p| p.old.is_some_and(|o| o.note == p.note));

    let mut splices = Splices::default();
    if !same {
        let text = clip.el.child("Notes");
        let generator = text.and_then(|n| n.at("NoteIdGenerator/NextId"));
        let highest = old.iter().filter_map(|s| s.id).max().map_or(1, |id| id.saturating_add(1));
        let mut next = generator.and_then(|g| g.attr_u32("Value")).unwrap_or(1).max(highest);
        let numbered: Vec<(Planned<'_>, u32)> = settled
            .into_iter()
            .map(|p| {
                let id = p.old.and_then(|o| o.id).unwrap_or_else(|| {
                    next = next.saturating_add(1);
                    next - 1
                });
                (p, id)
            })
            .collect();
        let new_text = key_tracks(&numbered, keys, doc, omits_defaults(doc, clip.el));
        let chunk_text = &doc.chunks[clip.track.chunk].text;
        splices.put(chunk_text, keys.span(), new_text);
        if let Some(generator) = generator {
            splices.attr(generator, "Value", &next.to_string());
        }
        let alive: BTreeSet<u32> = numbered.iter().map(|(_, id)| *id).collect();
        let gone: BTreeSet<u32> = old.iter().filter_map(|s| s.id).filter(|id| !alive.contains(id)).collect();
        forget(&mut splices, clip.el, &gone);
    }
    let chunk = clip.track.chunk;
    draft.splice(chunk, splices)?;
    Ok(Done { warnings, ..Done::new(Outcome::Notes(written), path) })
}

/// Removes references to removed notes: per-note event lists, and members of probability groups.
fn forget(splices: &mut Splices, clip: El<'_>, gone: &BTreeSet<u32>) {
    if gone.is_empty() {
        return;
    }
    let names_gone = |el: El<'_>| {
        let id = el.attr_u32("NoteId").or_else(|| el.attr_u32("Value").filter(|_| el.name().ends_with("NoteId")));
        id.is_some_and(|id| gone.contains(&id))
    };
    if let Some(lists) = clip.at("Notes/PerNoteEventStore/EventLists") {
        splices.remove_children(lists, names_gone);
    }
    if let Some(groups) = clip.at("Notes/NoteProbabilityGroups") {
        for parent in groups.descendants().filter(|el| el.children().any(names_gone)) {
            splices.remove_children(parent, names_gone);
        }
    }
}
