//! Renders an audio track: plans the clips to mix, and mixes decoded samples. Not here: finding,
//! reading and writing files.
//!
//! Only clips that the document describes completely can be rendered: unwarped, at their original
//! pitch, without clip envelopes, at a constant tempo. The track's mixer and devices are not
//! applied.

use crate::clip::{Clip, file_path};
use crate::device::envelope;
use crate::document::Document;
use crate::error::{Elsewhere, Listing, LiveError};
use crate::path::PathId;
use crate::track::TrackKind;

/// The clips of one track between two beats. Where two clips overlap, the later clip in this list
/// is heard.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderPlan {
    /// Name of the track.
    pub track: String,
    /// Length in seconds.
    pub seconds: f64,
    /// The audible clips.
    pub pieces: Vec<RenderPiece>,
}

/// One clip, or its part inside the window. Times are in seconds. The comment of each field names
/// the start from which the time is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderPiece {
    /// Path of the clip.
    pub clip_id: PathId,
    /// The sample's absolute path as the Set stores it.
    pub path: String,
    /// The sample's path relative to the Set, if the Set stores it.
    pub relative_path: Option<String>,
    /// Start, counted from the start of the window.
    pub at: f64,
    /// Length of the piece.
    pub length: f64,
    /// Start, counted from the start of the sample.
    pub offset: f64,
    /// Start, counted from the start of the clip; needed for the fades.
    pub into_clip: f64,
    /// Length of the whole clip; needed for the fades.
    pub clip_length: f64,
    /// Linear gain.
    pub gain: f64,
    /// Length of the fade at the clip's start.
    pub fade_in: f64,
    /// Length of the fade at the clip's end.
    pub fade_out: f64,
}

/// Decoded audio: one vector per channel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    /// Frames per second.
    pub sample_rate: u32,
    /// One vector per channel, all with the same length.
    pub channels: Vec<Vec<f32>>,
}

/// An error without an alternative tool: no tool can render in a running Live either.
fn cannot(subject: PathId, reason: impl Into<String>) -> LiveError {
    LiveError::Unsupported {
        subject: Some(subject.to_string()),
        reason: reason.into(),
        instead: "ask the person to export the track in Live".into(),
        elsewhere: Elsewhere::Nowhere,
    }
}

fn piece(clip: &Clip<'_>, start: f64, end: f64, beat: f64) -> Result<RenderPiece, LiveError> {
    let el = clip.el;
    let cannot = |reason: &str| {
        cannot(clip.path, format!("clip {:?} cannot be rendered from a document: {reason}", clip.name()))
    };
    if el.flag("IsWarped") != Some(false) {
        return Err(cannot("it is warped"));
    }
    if [el.number("PitchCoarse"), el.number("PitchFine")].iter().any(|p| p.is_some_and(|p| p != 0.0)) {
        return Err(cannot("it is transposed"));
    }
    if el.at("Envelopes/Envelopes").is_some_and(|e| e.children().next().is_some()) {
        return Err(cannot("it has clip envelopes"));
    }
    let path = file_path(el).ok_or_else(|| cannot("it has no sample"))?;
    let (from, to) = (clip.start().max(start), clip.end().min(end));
    let into_clip = (from - clip.start()) * beat;
    // An unwarped clip stores its loop in seconds of the sample.
    let offset =
        el.number("Loop/LoopStart").unwrap_or(0.0) + el.number("Loop/StartRelative").unwrap_or(0.0) + into_clip;
    let has_fades = el.flag("Fade").unwrap_or(false);
    let fade = |name| {
        if has_fades { el.number(name).unwrap_or(0.0).max(0.0) * beat } else { 0.0 }
    };
    Ok(RenderPiece {
        clip_id: clip.path,
        path,
        relative_path: el.value("SampleRef/FileRef/RelativePath").filter(|p| !p.is_empty()).map(|p| p.into_owned()),
        at: (from - start) * beat,
        length: (to - from) * beat,
        offset,
        into_clip,
        clip_length: (clip.end() - clip.start()) * beat,
        gain: el.number("SampleVolume").unwrap_or(1.0),
        fade_in: fade("Fades/FadeInLength"),
        fade_out: fade("Fades/FadeOutLength"),
    })
}

impl Document {
    /// Determines which samples are audible on an audio track between two beats.
    ///
    /// # Errors
    /// The path has the wrong kind; the track does not exist or is not an audio track; the window
    /// is empty; or the document does not describe a clip completely.
    pub fn plan_render(&self, path: PathId, start: f64, end: f64) -> Result<RenderPlan, LiveError> {
        let track = self.need_track(path)?;
        if track.kind != TrackKind::Audio {
            return Err(LiveError::wrong_type(
                path,
                format!("only audio tracks can be rendered; the kind of this track is {}", track.kind.as_str()),
                Listing::Tracks,
            ));
        }
        if !(start >= 0.0 && start.is_finite()) {
            return Err(LiveError::value("startBeat", format!("must be 0 or more, not {start}")));
        }
        if !(end > start && end.is_finite()) {
            return Err(LiveError::value("endBeat", format!("must be after startBeat ({start}), not {end}")));
        }
        let automated = self.main_param("Tempo").and_then(|(t, p)| envelope(t, p)).is_some_and(|e| e.len() > 1);
        if automated {
            return Err(cannot(path, "the tempo is automated"));
        }
        let tempo = self.tempo().filter(|t| *t > 0.0).ok_or_else(|| cannot(path, "the Set stores no tempo"))?;
        let beat = 60.0 / tempo;
        let inside = track.arrangement();
        let inside =
            inside.iter().filter(|c| c.start() < end && c.end() > start && c.el.flag("Disabled") != Some(true));
        let pieces = inside.map(|c| piece(c, start, end, beat)).collect::<Result<Vec<_>, _>>()?;
        Ok(RenderPlan { track: track.name(), seconds: (end - start) * beat, pieces })
    }
}

fn frames(seconds: f64, rate: u32) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "negative and non-finite values become 0"
    )]
    let count = (seconds * f64::from(rate)).round().max(0.0) as usize;
    count
}

/// Mixes the pieces of a plan. `samples` are in the order of the pieces. Where two pieces overlap,
/// the later one is heard.
///
/// # Errors
/// The samples do not match the plan, or have different sample rates.
pub fn mix(plan: &RenderPlan, samples: &[Samples]) -> Result<Samples, LiveError> {
    if samples.len() != plan.pieces.len() {
        return Err(LiveError::broken("the number of samples differs from the number of pieces"));
    }
    let rate = samples.first().map_or(44_100, |s| s.sample_rate);
    if let Some((p, s)) = plan.pieces.iter().zip(samples).find(|(_, s)| s.sample_rate != rate) {
        return Err(cannot(
            p.clip_id,
            format!("the sample rate of this clip is {} Hz, but another clip has {rate} Hz", s.sample_rate),
        ));
    }
    let width = samples.iter().map(|s| s.channels.len()).max().unwrap_or(2).max(1);
    let total = frames(plan.seconds, rate);
    let mut out = vec![vec![0.0_f32; total]; width];
    for (p, s) in plan.pieces.iter().zip(samples) {
        let (at, count, offset, into) =
            (frames(p.at, rate), frames(p.length, rate), frames(p.offset, rate), frames(p.into_clip, rate));
        let (fade_in, fade_out, whole) =
            (frames(p.fade_in, rate), frames(p.fade_out, rate), frames(p.clip_length, rate));
        for (channel, line) in out.iter_mut().enumerate() {
            // A mono sample is copied to every channel.
            let Some(source) = s.channels.get(channel).or_else(|| s.channels.first().filter(|_| s.channels.len() == 1))
            else {
                continue;
            };
            for n in 0..count.min(total.saturating_sub(at)) {
                let value = source.get(offset + n).copied().unwrap_or(0.0);
                let level = p.gain * ramp(into + n, fade_in) * ramp(whole.saturating_sub(into + n + 1), fade_out);
                #[expect(clippy::cast_possible_truncation, reason = "rendered samples are 32-bit floats")]
                let level = level as f32;
                if let Some(cell) = line.get_mut(at + n) {
                    *cell = value * level;
                }
            }
        }
    }
    Ok(Samples { sample_rate: rate, channels: out })
}

/// A linear fade: 0 at frame 0, 1 from `length` on.
fn ramp(frame: usize, length: usize) -> f64 {
    if frame >= length {
        return 1.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "frame counts are far below 2^52")]
    let share = frame as f64 / length as f64;
    share
}
