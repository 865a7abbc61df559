//! Properties of the whole Set: tempo, scale, grid, scenes, locators, session view. Not here:
//! tracks, clips and devices.

use crate::clip::{ClipInfo, in_slot};
use crate::device::{Param, device_name, envelope};
use crate::document::{Document, Revision};
use crate::facts;
use crate::path::PathId;
use crate::track::{Track, TrackKind, TrackRow, mixer_of, stored_number};
use crate::wire;
use crate::xml::El;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An overview of the Set.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Beats per minute at the start of the Set.
    #[serde(serialize_with = "wire::optional")]
    pub tempo: Option<f64>,
    /// Root note of the scale; 0 is C.
    pub root_note: Option<u8>,
    /// Name of the scale, for example `Minor`.
    pub scale_name: Option<String>,
    /// Whether the Set highlights its scale.
    pub scale_mode: Option<bool>,
    /// Semitones above the root; empty when the scale is unknown.
    pub scale_intervals: Vec<u8>,
    /// Grid, for example `1/16`.
    pub grid_quantization: Option<String>,
    /// Whether the grid is in triplets.
    pub grid_is_triplet: Option<bool>,
    /// Number of ordinary tracks.
    pub track_count: usize,
    /// Number of return tracks; none when a running Live does not report it.
    pub return_track_count: Option<usize>,
    /// Number of scenes.
    pub scene_count: usize,
    /// Number of locators.
    pub cue_point_count: usize,
    /// Ordinary tracks in order.
    pub tracks: Vec<TrackRow>,
    /// Time signature, for example `4/4`.
    pub time_signature: Option<String>,
    /// The revision of this state.
    pub revision: Revision,
    /// Whether the Set can be edited.
    pub editable: bool,
    /// Names of fields of this reply that the document does not store.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<&'static str>,
    /// Warnings for the caller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One scene.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scene {
    /// `scene:N`
    pub id: PathId,
    /// Name of the scene; often empty.
    pub name: String,
    /// Tempo of the scene, if it has one.
    #[serde(serialize_with = "wire::optional")]
    pub tempo: Option<f64>,
    /// Time signature of the scene, if it has one.
    pub time_signature: Option<String>,
    /// Whether no track has a clip in this scene.
    pub is_empty: bool,
}

/// One locator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CuePoint {
    /// `cuepoint:N`
    pub id: PathId,
    /// Name of the locator.
    pub name: String,
    /// Position of the locator in beats.
    #[serde(serialize_with = "wire::number")]
    pub beat: f64,
}

/// Scenes and locators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scenes {
    /// Scenes in order.
    pub scenes: Vec<Scene>,
    /// Locators, sorted by time.
    pub cue_points: Vec<CuePoint>,
}

/// A track in the session view.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionTrack {
    /// Name of the track as Live shows it.
    pub name: String,
    /// Kind of the track.
    pub kind: TrackKind,
    /// Colour as RGB; 0 when unknown.
    pub color: u32,
    /// The clip of each slot, in order.
    pub clips: Vec<Option<ClipInfo>>,
    /// Volume, panning and sends.
    pub mixer: Vec<Param>,
    /// Whether the track is muted by its own switch.
    pub mute: bool,
    /// Whether the track is soloed.
    pub solo: bool,
    /// Whether the track is armed for recording.
    pub arm: bool,
    /// Names of the track's devices, in chain order.
    pub devices: Vec<String>,
    /// Number of clips in the arrangement.
    pub arrangement_clip_count: usize,
}

/// The scale of the Set as stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct StoredScale {
    root: Option<u8>,
    name: Option<String>,
    intervals: Vec<u8>,
    warning: Option<String>,
}

fn read_scale(info: Option<El<'_>>) -> StoredScale {
    let Some(info) = info else {
        return StoredScale::default();
    };
    let root = info.integer("RootNote").or_else(|| info.integer("Root")).and_then(|r| u8::try_from(r).ok());
    let Some(text) = info.value("Name").filter(|n| !n.is_empty()) else {
        return StoredScale { root, ..StoredScale::default() };
    };
    let Ok(number) = text.parse::<u32>() else {
        let intervals = facts::scale_by_name(&text).map(|s| s.intervals.to_vec()).unwrap_or_default();
        return StoredScale { root, name: Some(text.into_owned()), intervals, warning: None };
    };
    match facts::scale_by_number(number) {
        Some(scale) => {
            StoredScale { root, name: Some(scale.name.into()), intervals: scale.intervals.to_vec(), warning: None }
        }
        None => StoredScale {
            root,
            name: Some(format!("Scale {number}")),
            intervals: Vec::new(),
            warning: Some(format!("the Set stores scale number {number}, but the name of this scale is not certain")),
        },
    }
}

/// Decodes Live's code for a time signature: numerator - 1 + 99 * log2(denominator).
pub(crate) fn time_signature(code: i64) -> Option<(u32, u32)> {
    let code = u32::try_from(code).ok()?;
    let power = code / 99;
    (power <= 4).then(|| (code % 99 + 1, 1 << power))
}

fn signature_text(code: i64) -> Option<String> {
    time_signature(code).map(|(n, d)| format!("{n}/{d}"))
}

/// The value of a main-track parameter at the start of the Set: the first event of its envelope,
/// else the stored value.
fn at_start(track: El<'_>, param: El<'_>) -> Option<f64> {
    let event = envelope(track, param).and_then(|events| events.first().and_then(|e| e.attr_f64("Value")));
    event.or_else(|| stored_number(param))
}

/// Semitones above the root for the name of a Live scale; none for other names.
pub fn scale_intervals(name: &str) -> Option<&'static [u8]> {
    facts::scale_by_name(name).map(|scale| scale.intervals)
}

impl Document {
    pub(crate) fn main_param(&self, name: &str) -> Option<(El<'_>, El<'_>)> {
        let main = self.main()?;
        Some((main.el, mixer_of(main.el)?.child(name)?))
    }

    /// Beats per minute at the start of the Set.
    pub fn tempo(&self) -> Option<f64> {
        let (track, param) = self.main_param("Tempo")?;
        at_start(track, param)
    }

    /// Numerator and denominator of the time signature at the start of the Set.
    pub fn time_signature(&self) -> Option<(u32, u32)> {
        let (track, param) = self.main_param("TimeSignature")?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a code is a small whole number; anything else is refused below"
        )]
        at_start(track, param).and_then(|code| time_signature(code as i64))
    }

    pub(crate) fn scene_elements(&self) -> Vec<El<'_>> {
        let list = self.in_set("Scenes").or_else(|| self.in_set("SceneNames"));
        list.map(|(_, l)| l.children().filter(|c| c.name() == "Scene").collect()).unwrap_or_default()
    }

    fn locators(&self) -> Vec<El<'_>> {
        let list = self.in_set("Locators/Locators");
        list.map(|(_, l)| l.children().filter(|c| c.name() == "Locator").collect()).unwrap_or_default()
    }

    /// An overview of the Set.
    pub fn overview(&self) -> Overview {
        let scale = read_scale(self.in_set("ScaleInformation").map(|(_, el)| el));
        let grid = self.in_set("Grid").map(|(_, el)| el);
        let fraction = grid.and_then(|g| Some((g.integer("FixedNumerator")?, g.integer("FixedDenominator")?)));
        let tracks = self.track_rows();
        let mut overview = Overview {
            tempo: self.tempo(),
            root_note: scale.root,
            scale_name: scale.name,
            scale_mode: self.in_set("InKey").and_then(|(_, el)| el.attr_raw("Value")).map(|v| v == "true"),
            scale_intervals: scale.intervals,
            grid_quantization: fraction.map(|(n, d)| format!("{n}/{d}")),
            grid_is_triplet: grid.and_then(|g| g.integer("Ntoles")).map(|n| n == 3),
            track_count: tracks.len(),
            return_track_count: Some(self.returns().count()),
            scene_count: self.scene_elements().len(),
            cue_point_count: self.locators().len(),
            tracks,
            time_signature: self.time_signature().map(|(n, d)| format!("{n}/{d}")),
            revision: self.revision,
            editable: self.schema.is_editable(),
            unknown: Vec::new(),
            warnings: scale.warning.into_iter().collect(),
        };
        overview.unknown = [
            ("tempo", overview.tempo.is_none()),
            ("rootNote", overview.root_note.is_none()),
            ("scaleName", overview.scale_name.is_none()),
            ("scaleMode", overview.scale_mode.is_none()),
            ("scaleIntervals", overview.scale_intervals.is_empty()),
            ("gridQuantization", overview.grid_quantization.is_none()),
            ("gridIsTriplet", overview.grid_is_triplet.is_none()),
            ("timeSignature", overview.time_signature.is_none()),
        ]
        .into_iter()
        .filter_map(|(name, missing)| missing.then_some(name))
        .collect();
        overview
    }

    /// The session view: every track with all its slots, without a limit.
    pub fn session(&self) -> Vec<SessionTrack> {
        let track = |track: Track<'_>| SessionTrack {
            name: track.name(),
            kind: track.kind,
            color: facts::color(track.color_index()),
            clips: track.slot_clips().iter().map(|clip| clip.map(|clip| clip.info())).collect(),
            mixer: track.chain().mixer(),
            mute: track.mute(),
            solo: track.solo(),
            arm: track.arm(),
            devices: track.chain().devices().iter().map(|device| device_name(*device)).collect(),
            arrangement_clip_count: track.arrangement().len(),
        };
        self.tracks().map(track).collect()
    }

    /// Scenes and locators.
    pub fn scenes(&self) -> Scenes {
        let slots: Vec<Vec<El<'_>>> = self.tracks().map(|t| t.slots()).collect();
        let filled = |row: usize| slots.iter().any(|s| s.get(row).is_some_and(|slot| in_slot(*slot).is_some()));
        let scene = |(n, el): (u32, El<'_>)| {
            let own = |switch, path| el.flag(switch).unwrap_or(false).then(|| el.number(path)).flatten();
            // Before Live 11 the name is an attribute of the scene.
            let name = el.value("Name").or_else(|| el.attr("Value")).map(|n| n.into_owned()).unwrap_or_default();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a code is a small whole number; anything else is refused"
            )]
            let code = own("IsTimeSignatureEnabled", "TimeSignatureId").map(|c| c as i64);
            Scene {
                id: PathId::Scene(n),
                name,
                tempo: own("IsTempoEnabled", "Tempo"),
                time_signature: code.and_then(signature_text),
                is_empty: !filled(n as usize),
            }
        };
        let mut locators = self.locators();
        let time = |el: &El<'_>| el.number("Time").unwrap_or(0.0);
        locators.sort_by(|a, b| time(a).total_cmp(&time(b)));
        let cue = |(n, el): (u32, El<'_>)| CuePoint {
            id: PathId::CuePoint(n),
            name: el.value("Name").map(|n| n.into_owned()).unwrap_or_default(),
            beat: time(&el),
        };
        Scenes {
            scenes: (0..).zip(self.scene_elements()).map(scene).collect(),
            cue_points: (0..).zip(locators).map(cue).collect(),
        }
    }
}
