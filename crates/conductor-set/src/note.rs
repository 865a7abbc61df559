//! Notes of a clip: reading them, the limit of 400 notes per reply, and the rules for a list of
//! notes. Not here: writing notes (`edit::notes`).

use crate::clip::{Clip, PAGE};
use crate::document::Document;
use crate::error::LiveError;
use crate::path::PathId;
use crate::wire;
use crate::xml::El;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of notes in the summary of a clip with too many notes.
pub const FIRST_NOTES: usize = 50;

/// A note. Times are in beats of the clip.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Note {
    /// Pitch, 0 to 127; 60 is middle C.
    #[schemars(range(min = 0, max = 127))]
    pub pitch: u8,
    /// Start of the note in beats of the clip.
    #[serde(serialize_with = "wire::number")]
    #[schemars(range(min = 0))]
    pub start_time: f64,
    /// Length of the note in beats, above 0.
    #[serde(serialize_with = "wire::number")]
    #[schemars(range(min = 0))]
    pub duration: f64,
    /// Velocity, 0 to 127; may have a fraction. By default 100.
    #[serde(serialize_with = "wire::number", default = "full_velocity")]
    // The recorded schema has no default value, so the schema here must not have one either.
    #[schemars(range(min = 0, max = 127), skip_serializing_if = "is_default_velocity")]
    pub velocity: f64,
    /// Whether the note is deactivated. By default false.
    #[serde(skip_serializing_if = "is_default_mute", default)]
    pub muted: bool,
    /// Probability, 0 to 1. By default 1.
    #[serde(serialize_with = "wire::number", skip_serializing_if = "is_default_probability", default = "certain")]
    #[schemars(range(min = 0, max = 1))]
    pub probability: f64,
    /// Deviation of the velocity, -127 to 127. By default 0.
    #[serde(serialize_with = "wire::number", skip_serializing_if = "is_default_deviation", default)]
    pub velocity_deviation: f64,
    /// Release velocity, 0 to 127. By default 64.
    #[serde(serialize_with = "wire::number", skip_serializing_if = "is_default_release", default = "middle_release")]
    #[schemars(range(min = 0, max = 127))]
    pub release_velocity: f64,
    /// A view state that documents do not store. It is accepted, dropped with a warning, and not
    /// returned.
    #[serde(skip_serializing, default)]
    pub selected: Option<bool>,
}

fn full_velocity() -> f64 {
    100.0
}
fn certain() -> f64 {
    1.0
}
fn middle_release() -> f64 {
    64.0
}
fn is_default_velocity(v: &f64) -> bool {
    *v == full_velocity()
}
fn is_default_mute(muted: &bool) -> bool {
    !*muted
}
fn is_default_probability(p: &f64) -> bool {
    *p == certain()
}
fn is_default_deviation(d: &f64) -> bool {
    *d == 0.0
}
fn is_default_release(r: &f64) -> bool {
    *r == middle_release()
}

impl Note {
    /// A note with default values for all other properties.
    pub fn new(pitch: u8, start_time: f64, duration: f64) -> Note {
        Note {
            pitch,
            start_time,
            duration,
            velocity: full_velocity(),
            muted: false,
            probability: certain(),
            velocity_deviation: 0.0,
            release_velocity: middle_release(),
            selected: None,
        }
    }

    /// End of the note.
    pub fn end(&self) -> f64 {
        self.start_time + self.duration
    }

    /// The order of notes in lists: by start, then by pitch.
    pub fn order(&self, other: &Note) -> std::cmp::Ordering {
        self.start_time.total_cmp(&other.start_time).then(self.pitch.cmp(&other.pitch))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let range = |name: &str, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} must be {low} to {high}, not {value}"))
            }
        };
        if self.pitch > 127 {
            return Err(format!("pitch must be 0 to 127, not {}", self.pitch));
        }
        // Real Sets are much shorter than this limit.
        range("startTime", self.start_time, 0.0, 1e9)?;
        range("duration", self.duration, 0.0, 1e9)?;
        if self.duration == 0.0 {
            return Err("duration must be above 0".into());
        }
        range("velocity", self.velocity, 0.0, 127.0)?;
        range("probability", self.probability, 0.0, 1.0)?;
        range("velocityDeviation", self.velocity_deviation, -127.0, 127.0)?;
        range("releaseVelocity", self.release_velocity, 0.0, 127.0)
    }
}

/// A note as the text stores it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredNote<'a> {
    pub note: Note,
    pub id: Option<u32>,
    pub el: El<'a>,
}

/// The stored notes of a MIDI clip, sorted by start, then by pitch. Events that are not notes are
/// left out.
pub(crate) fn stored(clip: El<'_>) -> Vec<StoredNote<'_>> {
    let Some(keys) = clip.at("Notes/KeyTracks") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for key in keys.children() {
        let Some(pitch) = key.integer("MidiKey").and_then(|p| u8::try_from(p).ok()).filter(|p| *p <= 127) else {
            continue;
        };
        for el in key.child("Notes").into_iter().flat_map(|n| n.children()).filter(|e| e.name() == "MidiNoteEvent") {
            let number = |name, default| el.attr_f64(name).unwrap_or(default);
            let note = Note {
                pitch,
                start_time: number("Time", 0.0),
                duration: number("Duration", 0.0),
                velocity: number("Velocity", full_velocity()),
                muted: el.attr_raw("IsEnabled") == Some("false"),
                probability: number("Probability", certain()),
                velocity_deviation: number("VelocityDeviation", 0.0),
                release_velocity: number("OffVelocity", middle_release()),
                selected: None,
            };
            found.push(StoredNote { note, id: el.attr_u32("NoteId"), el });
        }
    }
    found.sort_by(|a, b| a.note.order(&b.note));
    found
}

/// Selects the notes to read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NoteQuery {
    /// Only notes that start at this beat or later.
    pub from_beat: Option<f64>,
    /// Only notes that start before this beat.
    pub to_beat: Option<f64>,
    /// Number of matching notes to skip.
    pub offset: Option<usize>,
}

impl NoteQuery {
    fn is_whole(&self) -> bool {
        self.from_beat.is_none() && self.to_beat.is_none() && self.offset.is_none()
    }
}

/// A summary of a clip with many notes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoteSummary {
    /// Lowest and highest pitch.
    pub pitch_range: [u8; 2],
    /// The latest end of a note, in beats from beat 0.
    #[serde(serialize_with = "wire::number")]
    pub span_beats: f64,
}

/// Notes of a clip: all notes, a page, or a summary.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Notes {
    /// Up to 400 notes.
    #[serde(rename_all = "camelCase")]
    Listed {
        /// The requested clip.
        clip_id: PathId,
        /// Number of notes that match the query.
        count: usize,
        /// Sorted by start, then by pitch.
        notes: Vec<Note>,
        /// Offset of the next page.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_offset: Option<usize>,
    },
    /// The clip has more than 400 notes.
    #[serde(rename_all = "camelCase")]
    Summary {
        /// The requested clip.
        clip_id: PathId,
        /// The number of notes.
        count: usize,
        /// A summary of the notes.
        summary: NoteSummary,
        /// The first 50 notes.
        first_notes: Vec<Note>,
        /// Always true.
        truncated: bool,
    },
}

impl Notes {
    /// The reply to a query: all notes if there are at most 400, else a summary. With a window or
    /// an offset, the reply is always a page. `all` is sorted by start, then by pitch.
    ///
    /// # Errors
    /// The window is not finite.
    pub fn answer(clip: PathId, all: Vec<Note>, query: NoteQuery) -> Result<Notes, LiveError> {
        for (name, value) in [("fromBeat", query.from_beat), ("toBeat", query.to_beat)] {
            if value.is_some_and(|v| !v.is_finite()) {
                return Err(LiveError::value(name, "must be a finite number"));
            }
        }
        let inside = |n: &Note| {
            query.from_beat.is_none_or(|from| n.start_time >= from) && query.to_beat.is_none_or(|to| n.start_time < to)
        };
        let notes: Vec<Note> = all.into_iter().filter(inside).collect();
        let count = notes.len();
        if query.is_whole() && count > PAGE {
            let summary = NoteSummary {
                pitch_range: pitch_range(&notes).unwrap_or_default(),
                span_beats: notes.iter().map(Note::end).fold(0.0, f64::max),
            };
            let first_notes = notes.into_iter().take(FIRST_NOTES).collect();
            return Ok(Notes::Summary { clip_id: clip, count, summary, first_notes, truncated: true });
        }
        let offset = query.offset.unwrap_or(0);
        let next_offset = (count > offset.saturating_add(PAGE)).then(|| offset + PAGE);
        let notes = notes.into_iter().skip(offset).take(PAGE).collect();
        Ok(Notes::Listed { clip_id: clip, count, notes, next_offset })
    }
}

pub(crate) fn pitch_range(notes: &[Note]) -> Option<[u8; 2]> {
    Some([notes.iter().map(|n| n.pitch).min()?, notes.iter().map(|n| n.pitch).max()?])
}

impl Clip<'_> {
    pub(crate) fn notes(&self) -> Vec<Note> {
        stored(self.el).into_iter().map(|s| s.note).collect()
    }
}

impl Document {
    /// The notes of a MIDI clip: all notes if there are at most 400, else a summary. With a window
    /// or an offset, the reply is always a page.
    ///
    /// # Errors
    /// The path has the wrong kind, the clip does not exist or is an audio clip, or the window is
    /// not finite.
    pub fn notes(&self, path: PathId, query: NoteQuery) -> Result<Notes, LiveError> {
        Notes::answer(path, self.need_midi_clip(path)?.notes(), query)
    }

    /// All notes of a MIDI clip without a limit; for drawing and comparing, not for replies to
    /// clients.
    ///
    /// # Errors
    /// The path has the wrong kind, or the clip does not exist or is an audio clip.
    pub fn all_notes(&self, path: PathId) -> Result<Vec<Note>, LiveError> {
        Ok(self.need_midi_clip(path)?.notes())
    }
}
