//! All kinds of edits, and how a list of edits becomes one change. Not here: undo
//! ([`crate::OpenSet`]), and launching and transport, which are not edits.

mod clip;
mod delete;
mod device;
mod notes;
mod param;
mod track;

use crate::change::{Change, Draft};
use crate::check;
use crate::clip::ClipInfo;
use crate::diff::{Diff, diff};
use crate::document::{Document, Revision};
use crate::error::LiveError;
use crate::facts::COLORS;
use crate::note::Note;
use crate::path::PathId;
use crate::song::Overview;
use crate::track::{TrackInfo, TrackKind, TrackState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use device::{DeviceInserted, DeviceRef, ParamRef};
pub use notes::{NoteWindow, NotesWritten};
pub use param::ParamWritten;

/// One edit of a Set. Its JSON form: `{"edit": "set_tempo", "bpm": 128}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum LiveEdit {
    /// Sets the tempo.
    SetTempo {
        /// Beats per minute, 20 to 999.
        bpm: f64,
    },
    /// Sets the name and the switches of a track.
    SetTrackProps {
        /// `track:N`
        track_id: PathId,
        /// The properties to set; at least one.
        props: TrackProps,
    },
    /// Replaces all notes of a clip, or the notes inside a window.
    ReplaceNotes {
        /// A MIDI clip.
        clip_id: PathId,
        /// The new notes; may be empty.
        notes: Vec<Note>,
        /// If given, only notes that start inside the window are replaced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<NoteWindow>,
    },
    /// Adds a track after the last ordinary track.
    CreateTrack {
        /// The kind: MIDI or audio.
        kind: TrackKind,
    },
    /// Adds a MIDI clip without notes.
    CreateMidiClip {
        /// An empty slot of a MIDI track.
        slot_id: PathId,
        /// Length in beats, at least 0.25.
        length_beats: f64,
    },
    /// Sets the value of a device or mixer parameter.
    SetParam {
        /// The parameter.
        param_id: PathId,
        /// A value inside the parameter's range.
        value: f64,
    },
    /// Adds a device by cloning a device of the same class in the Set.
    InsertDevice {
        /// `track:N`
        track_id: PathId,
        /// Name of the device as in the device list.
        device_name: String,
        /// Position in the chain; an index beyond the end means the last position.
        index: u32,
    },
    /// Sets name, colour, loop and markers of a clip.
    SetClipProps {
        /// Any clip.
        clip_id: PathId,
        /// The properties to set; at least one.
        props: ClipProps,
    },
    /// Deletes a clip.
    DeleteClip {
        /// Any clip.
        clip_id: PathId,
    },
    /// Deletes a track. A group is deleted with all its tracks.
    DeleteTrack {
        /// `track:N`
        track_id: PathId,
    },
}

impl LiveEdit {
    /// Whether the edit refers to an object by its position.
    pub fn is_positional(&self) -> bool {
        match self {
            LiveEdit::SetTempo { .. } | LiveEdit::CreateTrack { .. } => false,
            LiveEdit::SetTrackProps { .. }
            | LiveEdit::ReplaceNotes { .. }
            | LiveEdit::CreateMidiClip { .. }
            | LiveEdit::SetParam { .. }
            | LiveEdit::InsertDevice { .. }
            | LiveEdit::SetClipProps { .. }
            | LiveEdit::DeleteClip { .. }
            | LiveEdit::DeleteTrack { .. } => true,
        }
    }

    /// Refuses values that are invalid for every Set and host.
    ///
    /// # Errors
    /// The first invalid argument.
    pub fn check(&self) -> Result<(), LiveError> {
        match self {
            LiveEdit::SetTempo { bpm } => check_range("bpm", *bpm, 20.0, 999.0),
            LiveEdit::SetTrackProps { props, .. } => props.check(),
            LiveEdit::ReplaceNotes { notes, window, .. } => notes::check(notes, window.as_ref()),
            LiveEdit::CreateMidiClip { length_beats, .. } => check_range("lengthBeats", *length_beats, 0.25, 1e9),
            LiveEdit::SetParam { value, .. } if !value.is_finite() => {
                Err(LiveError::value("value", "must be a finite number"))
            }
            LiveEdit::InsertDevice { device_name, .. } => check_text("deviceName", device_name),
            LiveEdit::SetClipProps { props, .. } => props.check(),
            LiveEdit::CreateTrack { .. }
            | LiveEdit::SetParam { .. }
            | LiveEdit::DeleteClip { .. }
            | LiveEdit::DeleteTrack { .. } => Ok(()),
        }
    }

    /// The label of the edit in undo lists.
    pub fn label(&self) -> String {
        match self {
            LiveEdit::SetTempo { bpm } => format!("set tempo {bpm}"),
            LiveEdit::SetTrackProps { track_id, .. } => {
                format!("set track properties of {track_id}")
            }
            LiveEdit::ReplaceNotes { clip_id, notes, .. } => {
                format!("replace notes of {clip_id} ({} given)", notes.len())
            }
            LiveEdit::CreateTrack { kind } => format!("create {} track", kind.as_str()),
            LiveEdit::CreateMidiClip { slot_id, .. } => format!("create clip in {slot_id}"),
            LiveEdit::SetParam { param_id, value } => format!("set {param_id} to {value}"),
            LiveEdit::InsertDevice { track_id, device_name, .. } => format!("insert {device_name} on {track_id}"),
            LiveEdit::SetClipProps { clip_id, .. } => format!("set clip properties of {clip_id}"),
            LiveEdit::DeleteClip { clip_id } => format!("delete {clip_id}"),
            LiveEdit::DeleteTrack { track_id } => format!("delete {track_id}"),
        }
    }
}

/// The properties that can be set on a track.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrackProps {
    /// Name of the track, at least one character.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the track is muted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mute: Option<bool>,
    /// Whether the track is soloed; other tracks are not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solo: Option<bool>,
    /// Whether the track is armed for recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arm: Option<bool>,
}

impl TrackProps {
    fn check(&self) -> Result<(), LiveError> {
        if *self == TrackProps::default() {
            return Err(LiveError::value("props", "must contain at least one of name, mute, solo, arm"));
        }
        let Some(name) = &self.name else { return Ok(()) };
        if name.is_empty() {
            return Err(LiveError::value("props.name", "must have at least 1 character"));
        }
        check_text("props.name", name)
    }
}

/// The properties that can be set on a clip. Positions are in beats of the clip.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ClipProps {
    /// Name of the clip; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the clip is deactivated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted: Option<bool>,
    /// Index into Live's 70 colours.
    #[schemars(range(min = 0, max = 69))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<u32>,
    /// Start of the loop; must be below the loop end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_start: Option<f64>,
    /// End of the loop; must be above the loop start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_end: Option<f64>,
    /// Position at which the clip starts to play.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_marker: Option<f64>,
    /// Position at which the clip ends when it does not loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_marker: Option<f64>,
    /// Whether the clip loops. It cannot be changed in a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looping: Option<bool>,
}

impl ClipProps {
    fn check(&self) -> Result<(), LiveError> {
        if *self == ClipProps::default() {
            return Err(LiveError::value("props", "must contain at least one property"));
        }
        check_text("props.name", self.name.as_deref().unwrap_or_default())?;
        if let Some(color) = self.color.filter(|it| *it as usize >= COLORS.len()) {
            return Err(LiveError::value("props.color", format!("must be 0 to 69, not {color}")));
        }
        for (name, value) in [
            ("props.loopStart", self.loop_start),
            ("props.loopEnd", self.loop_end),
            ("props.startMarker", self.start_marker),
            ("props.endMarker", self.end_marker),
        ] {
            value.map_or(Ok(()), |v| check_range(name, v, -1e9, 1e9))?;
        }
        Ok(())
    }

    /// The loop of a clip after these properties are set. `now` is its current loop.
    ///
    /// # Errors
    /// The loop would end before it starts.
    pub fn loop_after(&self, now: (f64, f64)) -> Result<(f64, f64), LiveError> {
        let (start, end) = (self.loop_start.unwrap_or(now.0), self.loop_end.unwrap_or(now.1));
        if (self.loop_start.is_some() || self.loop_end.is_some()) && start >= end {
            let at_fault = if self.loop_end.is_some() { "props.loopEnd" } else { "props.loopStart" };
            return Err(LiveError::value(at_fault, format!("loopStart ({start}) must be below loopEnd ({end})")));
        }
        Ok((start, end))
    }
}

/// The result of one edit, in the format that its tool returns.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Outcome {
    /// The Set after a tempo change.
    Tempo(Overview),
    /// The track after its properties were set.
    Track(TrackState),
    /// The clip after its notes were replaced.
    Notes(NotesWritten),
    /// The new track.
    TrackCreated(TrackInfo),
    /// The new clip.
    ClipCreated(ClipCreated),
    /// The parameter after it was set.
    Param(ParamWritten),
    /// The new device.
    Device(DeviceInserted),
    /// The clip after its properties were set.
    Clip(ClipInfo),
    /// The deleted object.
    Deleted(Deleted),
}

/// A new clip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClipCreated {
    /// Path of the clip.
    pub clip_id: PathId,
    /// Path of its slot.
    pub slot_id: PathId,
    /// The requested length.
    #[serde(serialize_with = "crate::wire::number")]
    pub length_beats: f64,
}

/// The objects that a delete removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// Ids before the deletion.
    pub deleted: Vec<PathId>,
    /// Whether the ids of other objects changed.
    pub shifted: bool,
}

/// The outcome of one edit, with the changed objects and the warnings.
pub(crate) struct Done {
    outcome: Outcome,
    changed: Vec<PathId>,
    warnings: Vec<String>,
    shifted: bool,
}

impl Done {
    fn new(outcome: Outcome, changed: PathId) -> Done {
        Done { outcome, changed: vec![changed], warnings: Vec::new(), shifted: false }
    }
}

/// A list of edits that is planned on a document but not applied. A preview and a write both start
/// with such a plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The change that the edits make.
    pub change: Change,
    /// The document after the change.
    pub after: Document,
    /// One outcome per edit.
    pub outcomes: Vec<Outcome>,
    /// Objects whose content changed.
    pub changed: Vec<PathId>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    /// Whether the ids of other objects changed.
    pub shifted: bool,
    before: Document,
}

impl Plan {
    /// The differences between the documents before and after the change.
    pub fn diff(&self) -> Diff {
        diff(&self.before, &self.after)
    }

    /// The revision after the change.
    pub fn revision(&self) -> Revision {
        self.after.revision()
    }
}

fn run(draft: &mut Draft, edit: &LiveEdit) -> Result<Done, LiveError> {
    match edit {
        LiveEdit::SetTempo { bpm } => param::set_tempo(draft, *bpm),
        LiveEdit::SetTrackProps { track_id, props } => track::set_props(draft, *track_id, props),
        LiveEdit::ReplaceNotes { clip_id, notes, window } => notes::replace(draft, *clip_id, notes, window.as_ref()),
        LiveEdit::CreateTrack { kind } => track::create(draft, *kind),
        LiveEdit::CreateMidiClip { slot_id, length_beats } => clip::create(draft, *slot_id, *length_beats),
        LiveEdit::SetParam { param_id, value } => param::set(draft, *param_id, *value),
        LiveEdit::InsertDevice { track_id, device_name, index } => {
            device::insert(draft, *track_id, device_name, *index)
        }
        LiveEdit::SetClipProps { clip_id, props } => clip::set_props(draft, *clip_id, props),
        LiveEdit::DeleteClip { clip_id } => delete::clip(draft, *clip_id),
        LiveEdit::DeleteTrack { track_id } => delete::track(draft, *track_id),
    }
}

impl Document {
    /// Plans a list of edits. Each edit is planned on the result of the previous one. If one edit
    /// fails, nothing is changed.
    ///
    /// # Errors
    /// The error of the first edit that fails.
    pub fn plan(&self, edits: &[LiveEdit]) -> Result<Plan, LiveError> {
        self.need_editable()?;
        let mut draft = Draft::new(self);
        let (mut outcomes, mut changed, mut warnings, mut shifted) = (Vec::new(), Vec::new(), Vec::new(), false);
        for edit in edits {
            let done = run(&mut draft, edit)?;
            draft.seal();
            // The overview contains the revision, which is computed only when the edit is sealed.
            let outcome = if matches!(done.outcome, Outcome::Tempo(_)) {
                Outcome::Tempo(draft.doc.overview())
            } else {
                done.outcome
            };
            outcomes.push(outcome);
            changed.extend(done.changed);
            warnings.extend(done.warnings);
            shifted |= done.shifted;
        }
        check::after_edit(self, &draft.doc, draft.swaps())?;
        changed.sort_unstable();
        changed.dedup();
        let (after, change) = draft.finish();
        Ok(Plan { change, after, outcomes, changed, warnings, shifted, before: self.clone() })
    }
}

/// Checks that an XML attribute can contain the text.
pub(crate) fn check_text(subject: &str, text: &str) -> Result<(), LiveError> {
    match text.chars().find(|c| (*c < ' ' && *c != '\t') || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        Some(c) => {
            Err(LiveError::value(subject, format!("must not contain the control character U+{:04X}", u32::from(c))))
        }
        None => Ok(()),
    }
}

pub(crate) fn check_range(subject: &str, value: f64, low: f64, high: f64) -> Result<(), LiveError> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(LiveError::value(subject, format!("must be {low} to {high}, not {value}")))
    }
}
