//! Clips in session slots and in the arrangement. Clips that are not on a track (groove pool, take
//! lanes, freeze data) are not listed. Not here: notes.

use crate::document::Document;
use crate::error::{Listing, LiveError};
use crate::facts;
use crate::path::{PathId, TrackPart};
use crate::track::{Track, TrackKind};
use crate::wire;
use crate::xml::El;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of entries per list in one reply.
pub const PAGE: usize = 400;

/// The contents of a slot or clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClipKind {
    /// A MIDI clip.
    Midi,
    /// An audio clip.
    Audio,
    /// A slot without a clip.
    Empty,
}

/// Where a clip is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// The clip is in a session slot.
    Session,
    /// The clip is on the timeline.
    Arrangement,
}

/// One session slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlotRow {
    /// `track:N/clipslot:M`
    pub slot_id: PathId,
    /// The clip in the slot, if any.
    pub clip_id: Option<PathId>,
    /// Name of the clip.
    pub name: Option<String>,
    /// Content of the slot.
    pub kind: ClipKind,
}

/// One arrangement clip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArrangementRow {
    /// `track:N/clip:M`
    pub clip_id: PathId,
    /// Name of the clip.
    pub name: String,
    /// Start in beats.
    #[serde(serialize_with = "wire::number")]
    pub start_beat: f64,
    /// End in beats.
    #[serde(serialize_with = "wire::number")]
    pub end_beat: f64,
    /// Content of the clip.
    pub kind: ClipKind,
}

/// The clips of a track, up to [`PAGE`] of each list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Clips {
    /// The requested track.
    pub track_id: PathId,
    /// One entry per session slot.
    pub session: Vec<SlotRow>,
    /// Arrangement clips, sorted by start time.
    pub arrangement: Vec<ArrangementRow>,
    /// Present when entries were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Offset of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// Warnings for the caller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Clips {
    /// One page of a track's slots and arrangement clips; `offset` applies to both lists.
    pub fn page(track: PathId, session: Vec<SlotRow>, arrangement: Vec<ArrangementRow>, offset: usize) -> Clips {
        let more = session.len().max(arrangement.len()) > offset.saturating_add(PAGE);
        Clips {
            track_id: track,
            session: session.into_iter().skip(offset).take(PAGE).collect(),
            arrangement: arrangement.into_iter().skip(offset).take(PAGE).collect(),
            truncated: more.then_some(true),
            next_offset: more.then_some(offset + PAGE),
            warnings: Vec::new(),
        }
    }
}

/// All properties of a clip or an empty slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClipInfo {
    /// Path of the clip, or of the slot if the slot is empty.
    pub id: PathId,
    /// Whether the clip is a MIDI clip.
    pub is_midi: bool,
    /// Content of the clip or slot.
    pub kind: ClipKind,
    /// Where the clip is placed.
    pub location: Location,
    /// The slot of a session clip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_id: Option<PathId>,
    /// Name of the clip.
    pub name: String,
    /// Start in beats. For an arrangement clip it is counted from the start of the Set.
    #[serde(serialize_with = "wire::number")]
    pub start_time: f64,
    /// End in beats.
    #[serde(serialize_with = "wire::number")]
    pub end_time: f64,
    /// Length in beats.
    #[serde(serialize_with = "wire::number")]
    pub duration: f64,
    /// Whether the clip loops.
    pub looping: bool,
    /// Start of the loop in beats of the clip.
    #[serde(serialize_with = "wire::number")]
    pub loop_start: f64,
    /// End of the loop in beats of the clip.
    #[serde(serialize_with = "wire::number")]
    pub loop_end: f64,
    /// Start marker in beats of the clip.
    #[serde(serialize_with = "wire::number")]
    pub start_marker: f64,
    /// End marker in beats of the clip.
    #[serde(serialize_with = "wire::number")]
    pub end_marker: f64,
    /// Colour as RGB; 0 when unknown.
    pub color: u32,
    /// Whether the clip is deactivated.
    pub muted: bool,
    /// Path of an audio clip's sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

impl ClipInfo {
    /// The properties of an empty slot.
    pub fn empty(slot: PathId) -> ClipInfo {
        ClipInfo {
            id: slot,
            is_midi: false,
            kind: ClipKind::Empty,
            location: Location::Session,
            slot_id: Some(slot),
            name: String::new(),
            start_time: 0.0,
            end_time: 0.0,
            duration: 0.0,
            looping: false,
            loop_start: 0.0,
            loop_end: 0.0,
            start_marker: 0.0,
            end_marker: 0.0,
            color: 0,
            muted: false,
            file_path: None,
        }
    }
}

/// A clip on a track of the document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clip<'a> {
    pub el: El<'a>,
    pub track: Track<'a>,
    pub path: PathId,
}

fn kind_of(el: El<'_>) -> Option<ClipKind> {
    match el.name() {
        "MidiClip" => Some(ClipKind::Midi),
        "AudioClip" => Some(ClipKind::Audio),
        _ => None,
    }
}

/// The clip element in a slot.
pub(crate) fn in_slot(slot: El<'_>) -> Option<El<'_>> {
    slot.at("ClipSlot/Value")?.children().find(|c| kind_of(*c).is_some())
}

fn start_of(el: El<'_>) -> f64 {
    el.attr_f64("Time").or_else(|| el.number("CurrentStart")).unwrap_or(0.0)
}

/// The event list with a track's arrangement clips.
pub(crate) fn arrangement_events(track: Track<'_>) -> Option<El<'_>> {
    let sequencer = track.sequencer()?;
    match track.kind {
        TrackKind::Midi => sequencer.at("ClipTimeable/ArrangerAutomation/Events"),
        TrackKind::Audio => sequencer.at("Sample/ArrangerAutomation/Events"),
        TrackKind::Group => None,
    }
}

impl<'a> Track<'a> {
    /// Arrangement clips by start time.
    pub fn arrangement(&self) -> Vec<Clip<'a>> {
        let mut found: Vec<El<'a>> = arrangement_events(*self)
            .map(|events| events.children().filter(|c| kind_of(*c).is_some()).collect())
            .unwrap_or_default();
        found.sort_by(|a, b| start_of(*a).total_cmp(&start_of(*b)));
        (0..).zip(found).map(|(n, el)| Clip { el, track: *self, path: self.on(TrackPart::Clip(n)) }).collect()
    }

    /// The clip of every slot, in order.
    pub fn slot_clips(&self) -> Vec<Option<Clip<'a>>> {
        let clip = |(n, slot)| Some(Clip { el: in_slot(slot)?, track: *self, path: self.on(TrackPart::SlotClip(n)) });
        (0..).zip(self.slots()).map(clip).collect()
    }

    /// Session clips in slot order.
    pub fn session(&self) -> Vec<Clip<'a>> {
        self.slot_clips().into_iter().flatten().collect()
    }
}

impl Clip<'_> {
    pub fn kind(&self) -> ClipKind {
        kind_of(self.el).unwrap_or(ClipKind::Empty)
    }

    pub fn name(&self) -> String {
        self.el.value("Name").map(|n| n.into_owned()).unwrap_or_default()
    }

    pub fn is_session(&self) -> bool {
        matches!(self.path, PathId::OnTrack(_, TrackPart::SlotClip(_)))
    }

    pub fn start(&self) -> f64 {
        if self.is_session() { self.el.number("CurrentStart").unwrap_or(0.0) } else { start_of(self.el) }
    }

    pub fn end(&self) -> f64 {
        self.el.number("CurrentEnd").unwrap_or_else(|| self.start())
    }

    pub fn info(&self) -> ClipInfo {
        let number = |path| self.el.number(path).unwrap_or(0.0);
        let (start, end) = (self.start(), self.end());
        let (location, slot_id) = if let PathId::OnTrack(t, TrackPart::SlotClip(n)) = self.path {
            (Location::Session, Some(PathId::OnTrack(t, TrackPart::Slot(n))))
        } else {
            (Location::Arrangement, None)
        };
        ClipInfo {
            id: self.path,
            is_midi: self.kind() == ClipKind::Midi,
            kind: self.kind(),
            location,
            slot_id,
            name: self.name(),
            start_time: start,
            end_time: end,
            duration: end - start,
            looping: self.el.flag("Loop/LoopOn").unwrap_or(false),
            loop_start: number("Loop/LoopStart"),
            loop_end: number("Loop/LoopEnd"),
            start_marker: number("Loop/LoopStart") + number("Loop/StartRelative"),
            end_marker: number("Loop/OutMarker"),
            color: facts::color(self.el.integer("Color").unwrap_or(-1)),
            muted: self.el.flag("Disabled").unwrap_or(false),
            file_path: file_path(self.el),
        }
    }
}

/// Path of the sample. Sets before Live 11 store it as a list of folders.
pub(crate) fn file_path(clip: El<'_>) -> Option<String> {
    let file = clip.at("SampleRef/FileRef")?;
    if let Some(path) = file.value("Path").filter(|p| !p.is_empty()) {
        return Some(path.into_owned());
    }
    let name = file.value("Name")?;
    let folders = file.child("RelativePath").into_iter().flat_map(|p| p.children()).filter_map(|e| e.attr("Dir"));
    let mut parts: Vec<String> = folders.map(|d| d.into_owned()).collect();
    parts.push(name.into_owned());
    Some(parts.join("/"))
}

fn group_holds_none(path: PathId) -> LiveError {
    LiveError::wrong_type(path, "a group track has no clips", Listing::Tracks)
}

impl Document {
    fn track_for_clips(&self, n: u32, path: PathId) -> Result<Track<'_>, LiveError> {
        let track = self.tracks().nth(n as usize).ok_or(LiveError::gone(path, Listing::Tracks))?;
        if track.kind == TrackKind::Group { Err(group_holds_none(path)) } else { Ok(track) }
    }

    /// The track, the slot element and the slot index at a slot path.
    pub(crate) fn need_slot(&self, path: PathId) -> Result<(Track<'_>, El<'_>, u32), LiveError> {
        let PathId::OnTrack(t, TrackPart::Slot(n)) = path else {
            return Err(LiveError::wrong_kind(path, "a session slot (track:N/clipslot:M)", Listing::Clips));
        };
        let track = self.track_for_clips(t, path)?;
        let slot = track.slots().get(n as usize).copied();
        slot.map(|s| (track, s, n)).ok_or(LiveError::gone(path, Listing::Clips))
    }

    pub(crate) fn need_clip(&self, path: PathId) -> Result<Clip<'_>, LiveError> {
        let gone = LiveError::gone(path, Listing::Clips);
        if let PathId::OnTrack(t, TrackPart::SlotClip(n)) = path {
            let track = self.track_for_clips(t, path)?;
            let slot = *track.slots().get(n as usize).ok_or(gone)?;
            let el = in_slot(slot).ok_or(LiveError::EmptySlot { subject: path })?;
            Ok(Clip { el, track, path })
        } else if let PathId::OnTrack(t, TrackPart::Clip(n)) = path {
            self.track_for_clips(t, path)?.arrangement().get(n as usize).copied().ok_or(gone)
        } else {
            Err(LiveError::wrong_kind(path, "a clip (track:N/clipslot:M/clip or track:N/clip:M)", Listing::Clips))
        }
    }

    pub(crate) fn need_midi_clip(&self, path: PathId) -> Result<Clip<'_>, LiveError> {
        let clip = self.need_clip(path)?;
        match clip.kind() {
            ClipKind::Midi => Ok(clip),
            ClipKind::Audio | ClipKind::Empty => {
                Err(LiveError::wrong_type(path, "an audio clip has no notes", Listing::Clips))
            }
        }
    }

    /// The clips of a track; `offset` applies to both lists.
    ///
    /// # Errors
    /// The path has the wrong kind, or the track does not exist.
    pub fn clips(&self, path: PathId, offset: usize) -> Result<Clips, LiveError> {
        let track = self.need_track(path)?;
        let arrangement = track.arrangement();
        let session = (0..).zip(track.slot_clips()).map(|(n, clip)| SlotRow {
            slot_id: track.on(TrackPart::Slot(n)),
            clip_id: clip.map(|clip| clip.path),
            name: clip.map(|clip| clip.name()),
            kind: clip.map_or(ClipKind::Empty, |clip| clip.kind()),
        });
        let rows = arrangement.iter().map(|clip| ArrangementRow {
            clip_id: clip.path,
            name: clip.name(),
            start_beat: clip.start(),
            end_beat: clip.end(),
            kind: clip.kind(),
        });
        Ok(Clips::page(path, session.collect(), rows.collect(), offset))
    }

    /// All properties of a clip.
    ///
    /// # Errors
    /// The path has the wrong kind, the clip does not exist, or the slot is empty.
    pub fn clip_info(&self, path: PathId) -> Result<ClipInfo, LiveError> {
        Ok(self.need_clip(path)?.info())
    }

    /// All slots of a track, including empty ones, then all arrangement clips.
    pub(crate) fn clip_infos(&self, track: Track<'_>) -> Vec<ClipInfo> {
        let slots = (0..).zip(track.slot_clips()).map(|(n, clip)| match clip {
            Some(clip) => clip.info(),
            None => ClipInfo::empty(track.on(TrackPart::Slot(n))),
        });
        slots.chain(track.arrangement().iter().map(|c| c.info())).collect()
    }

    /// The ids of all MIDI clips, for the completion of a `clipId` argument.
    pub fn midi_clip_ids(&self) -> Vec<PathId> {
        self.tracks()
            .filter(|t| t.kind == TrackKind::Midi)
            .flat_map(|t| t.session().into_iter().chain(t.arrangement()))
            .map(|c| c.path)
            .collect()
    }
}
