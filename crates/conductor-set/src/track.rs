//! Tracks: their names, their mixers, and the search by name. Not here: clips and devices.

use crate::document::{Document, Family};
use crate::error::{Elsewhere, Listing, LiveError};
use crate::path::{ChainOwner, PathId, TrackPart};
use crate::wire;
use crate::xml::El;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of an ordinary track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrackKind {
    /// A MIDI track.
    Midi,
    /// An audio track.
    Audio,
    /// A group of other tracks.
    Group,
}

impl TrackKind {
    pub(crate) fn of_tag(tag: &str) -> Option<Self> {
        match tag {
            "MidiTrack" => Some(TrackKind::Midi),
            "AudioTrack" => Some(TrackKind::Audio),
            "GroupTrack" => Some(TrackKind::Group),
            _ => None,
        }
    }

    /// The name in requests and replies.
    pub fn as_str(self) -> &'static str {
        match self {
            TrackKind::Midi => "midi",
            TrackKind::Audio => "audio",
            TrackKind::Group => "group",
        }
    }
}

/// A track in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrackRow {
    /// `track:N`
    pub id: PathId,
    /// Name of the track as Live shows it.
    pub name: String,
    /// Kind of the track.
    #[serde(rename = "type")]
    pub kind: TrackKind,
}

/// Tracks whose name contains the query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrackMatches {
    /// Matching tracks in Set order.
    pub matches: Vec<TrackRow>,
    /// Number of matches.
    pub count: usize,
}

impl TrackMatches {
    /// The tracks whose name contains the query; case is ignored.
    ///
    /// # Errors
    /// The query is empty.
    pub fn find(tracks: impl Iterator<Item = TrackRow>, query: &str) -> Result<TrackMatches, LiveError> {
        if query.is_empty() {
            return Err(LiveError::value("query", "must have at least 1 character"));
        }
        let wanted = query.to_lowercase();
        let matches: Vec<_> = tracks.filter(|it| it.name.to_lowercase().contains(&wanted)).collect();
        Ok(TrackMatches { count: matches.len(), matches })
    }
}

/// The properties of a track that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrackState {
    /// `track:N`
    pub id: PathId,
    /// Name of the track as Live shows it.
    pub name: String,
    /// Whether the track is muted by its own switch.
    pub mute: bool,
    /// Whether the track is soloed.
    pub solo: bool,
    /// Whether the track is armed for recording; `false` for a track that cannot be armed.
    pub arm: bool,
}

/// All properties of a track, as reported for a new track.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackInfo {
    /// `track:N`
    pub id: PathId,
    /// Kind of the track.
    pub kind: TrackKind,
    /// Name of the track as Live shows it.
    pub name: String,
    /// Whether the track is muted by its own switch.
    pub mute: bool,
    /// Whether the track is soloed.
    pub solo: bool,
    /// Whether the track is inaudible because another track is soloed.
    pub muted_via_solo: bool,
    /// Whether the track is armed for recording.
    pub arm: bool,
    /// Number of session slots.
    pub clip_slot_count: usize,
    /// Number of clips in the arrangement.
    pub arrangement_clip_count: usize,
    /// Number of devices in the chain.
    pub device_count: usize,
    /// Mixer of the track.
    pub mixer: MixerInfo,
}

/// The mixer settings of a track.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MixerInfo {
    /// Volume as linear gain; 1 is 0 dB.
    #[serde(serialize_with = "wire::optional")]
    pub volume: Option<f64>,
    /// Panning from -1 (left) to 1 (right).
    #[serde(serialize_with = "wire::optional")]
    pub panning: Option<f64>,
    /// Number of sends.
    pub send_count: usize,
}

/// An ordinary track in the document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Track<'a> {
    pub el: El<'a>,
    pub chunk: usize,
    pub index: u32,
    pub kind: TrackKind,
}

/// The device chain of any track.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain<'a> {
    pub owner: ChainOwner,
    /// The track element.
    pub el: El<'a>,
    pub chunk: usize,
}

pub(crate) fn name_of(track: El<'_>) -> String {
    let text = |path| track.value(path).filter(|v| !v.is_empty()).map(|v| v.into_owned());
    // Live 8 has no EffectiveName.
    text("Name/EffectiveName").or_else(|| text("Name/UserName")).unwrap_or_default()
}

/// The chain element of a track. In Live 8 the main track's element is named `MasterChain`.
pub(crate) fn chain_of(track: El<'_>) -> Option<El<'_>> {
    track.child("DeviceChain").or_else(|| track.child("MasterChain"))
}

pub(crate) fn mixer_of(track: El<'_>) -> Option<El<'_>> {
    chain_of(track)?.child("Mixer")
}

/// The stored text of a parameter. Sets before Live 9 have no `Manual` element; their first
/// automation event contains the value.
pub(crate) fn stored_text<'a>(param: El<'a>) -> Option<std::borrow::Cow<'a, str>> {
    param.value("Manual").or_else(|| param.at("ArrangerAutomation/Events")?.children().next()?.attr("Value"))
}

pub(crate) fn stored_number(param: El<'_>) -> Option<f64> {
    match stored_text(param)?.trim() {
        "true" => Some(1.0),
        "false" => Some(0.0),
        text => text.parse().ok().filter(|v: &f64| v.is_finite()),
    }
}

impl<'a> Track<'a> {
    pub fn path(&self) -> PathId {
        PathId::Track(self.index)
    }

    pub fn on(&self, part: TrackPart) -> PathId {
        PathId::OnTrack(self.index, part)
    }

    pub fn name(&self) -> String {
        name_of(self.el)
    }

    pub fn row(&self) -> TrackRow {
        TrackRow { id: self.path(), name: self.name(), kind: self.kind }
    }

    pub fn sequencer(&self) -> Option<El<'a>> {
        chain_of(self.el)?.child("MainSequencer")
    }

    pub fn is_frozen(&self) -> bool {
        self.el.flag("Freeze") == Some(true)
    }

    /// The XML id that groups and routings refer to.
    pub fn xml_id(&self) -> Option<u32> {
        self.el.attr_u32("Id")
    }

    pub fn mute(&self) -> bool {
        let on = mixer_of(self.el).and_then(|m| m.child("Speaker")).and_then(stored_number);
        on == Some(0.0)
    }

    pub fn solo(&self) -> bool {
        mixer_of(self.el).and_then(|m| m.flag("SoloSink")) == Some(true)
    }

    pub fn arm(&self) -> bool {
        self.sequencer().and_then(|s| s.flag("Recorder/IsArmed")) == Some(true)
    }

    pub fn color_index(&self) -> i64 {
        self.el.integer("Color").unwrap_or(-1)
    }

    pub fn slots(&self) -> Vec<El<'a>> {
        let list = self.sequencer().and_then(|s| s.child("ClipSlotList"));
        list.map(|l| l.children().filter(|c| c.name() == "ClipSlot").collect()).unwrap_or_default()
    }

    pub fn state(&self) -> TrackState {
        TrackState { id: self.path(), name: self.name(), mute: self.mute(), solo: self.solo(), arm: self.arm() }
    }

    pub fn chain(&self) -> Chain<'a> {
        Chain { owner: ChainOwner::Track(self.index), el: self.el, chunk: self.chunk }
    }
}

impl<'a> Chain<'a> {
    pub fn devices(&self) -> Vec<El<'a>> {
        let list = chain_of(self.el).and_then(|c| c.at("DeviceChain/Devices"));
        list.map(|l| l.children().collect()).unwrap_or_default()
    }

    pub fn sends(&self) -> Vec<El<'a>> {
        let sends = mixer_of(self.el).and_then(|m| m.child("Sends"));
        sends.map(|s| s.children().filter_map(|h| h.child("Send")).collect()).unwrap_or_default()
    }
}

impl Document {
    /// Ordinary tracks with their index. Return tracks and the main track are not included.
    pub(crate) fn tracks(&self) -> impl Iterator<Item = Track<'_>> {
        let roots = self.chunks.iter().enumerate().skip(1).take(self.chunks.len().saturating_sub(2));
        let ordinary = roots.filter_map(|(chunk, c)| {
            let el = c.root()?;
            Some((chunk, el, TrackKind::of_tag(el.name())?))
        });
        (0..).zip(ordinary).map(|(index, (chunk, el, kind))| Track { el, chunk, index, kind })
    }

    pub(crate) fn returns(&self) -> impl Iterator<Item = Chain<'_>> {
        let roots = self.chunks.iter().enumerate().skip(1).take(self.chunks.len().saturating_sub(2));
        let found = roots.filter_map(|(chunk, c)| Some((chunk, c.root().filter(|el| el.name() == "ReturnTrack")?)));
        (0..).zip(found).map(|(n, (chunk, el))| Chain { owner: ChainOwner::Return(n), el, chunk })
    }

    pub(crate) fn main(&self) -> Option<Chain<'_>> {
        let (chunk, el) = self.in_set("MainTrack").or_else(|| self.in_set("MasterTrack"))?;
        Some(Chain { owner: ChainOwner::Main, el, chunk })
    }

    pub(crate) fn need_track(&self, path: PathId) -> Result<Track<'_>, LiveError> {
        let PathId::Track(n) = path else {
            return Err(LiveError::wrong_kind(path, "a track (track:N)", Listing::Tracks));
        };
        self.tracks().nth(n as usize).ok_or(LiveError::gone(path, Listing::Tracks))
    }

    pub(crate) fn need_chain(&self, path: PathId) -> Result<Chain<'_>, LiveError> {
        let Some(owner) = path.chain_owner() else {
            return Err(LiveError::wrong_kind(path, "a track (track:N, returntrack:N or main)", Listing::Tracks));
        };
        self.chain(owner).ok_or(LiveError::gone(path, Listing::Tracks))
    }

    pub(crate) fn chain(&self, owner: ChainOwner) -> Option<Chain<'_>> {
        match owner {
            ChainOwner::Track(n) => self.tracks().nth(n as usize).map(|t| t.chain()),
            ChainOwner::Return(n) => self.returns().nth(n as usize),
            ChainOwner::Main => self.main(),
        }
    }

    /// All ordinary tracks.
    pub fn track_rows(&self) -> Vec<TrackRow> {
        self.tracks().map(|t| t.row()).collect()
    }

    /// Tracks whose name contains `query`; case is ignored. Without a match the list is empty; this
    /// is not an error.
    ///
    /// # Errors
    /// The query is empty.
    pub fn find_track(&self, query: &str) -> Result<TrackMatches, LiveError> {
        TrackMatches::find(self.tracks().map(|t| t.row()), query)
    }

    /// Name and switches of a track.
    ///
    /// # Errors
    /// The path has the wrong kind, or the track does not exist.
    pub fn track_state(&self, path: PathId) -> Result<TrackState, LiveError> {
        Ok(self.need_track(path)?.state())
    }

    /// All properties of a track.
    ///
    /// # Errors
    /// The path has the wrong kind, or the track does not exist.
    pub fn track_info(&self, path: PathId) -> Result<TrackInfo, LiveError> {
        let track = self.need_track(path)?;
        let someone_soloed = self.tracks().any(|t| t.solo());
        let mixer = mixer_of(track.el);
        let level = |name| mixer.and_then(|m| m.child(name)).and_then(stored_number);
        let (mute, solo) = (track.mute(), track.solo());
        Ok(TrackInfo {
            id: path,
            kind: track.kind,
            name: track.name(),
            mute,
            solo,
            muted_via_solo: someone_soloed && !solo && !mute,
            arm: track.arm(),
            clip_slot_count: track.slots().len(),
            arrangement_clip_count: track.arrangement().len(),
            device_count: track.chain().devices().len(),
            mixer: MixerInfo {
                volume: level("Volume"),
                panning: level("Pan"),
                send_count: track.chain().sends().len(),
            },
        })
    }

    /// Refuses every edit if Sets of this Live version are read-only.
    pub(crate) fn need_editable(&self) -> Result<(), LiveError> {
        let reason = match self.schema.family {
            Family::Before11 => "Sets saved by a Live before version 11 are read-only",
            Family::Newer => {
                "this Set was saved by a newer Live than this version of Conductor supports, so it is read-only"
            }
            Family::Live11 | Family::Live12 | Family::Live12_1 | Family::Live12_3 => return Ok(()),
        };
        Err(LiveError::Unsupported {
            subject: None,
            reason: format!("{reason} ({})", self.schema.creator),
            instead: "save the Set with Live 11 or 12 and open the new file, or make the change in a running Live"
                .into(),
            elsewhere: Elsewhere::Running,
        })
    }

    pub(crate) fn need_thawed(&self, track: Track<'_>) -> Result<(), LiveError> {
        if track.is_frozen() {
            return Err(LiveError::Unsupported {
                subject: Some(track.path().to_string()),
                reason: "the track is frozen; its notes, clips and devices cannot change".into(),
                instead: "ask the person to unfreeze the track in Live and to save, then try again".into(),
                elsewhere: Elsewhere::Nowhere,
            });
        }
        Ok(())
    }
}
