//! Reads through AbletonOSC. A missing reply is an error. Facts that cannot be requested are listed
//! in `unknown`.

use super::wire::{Ask, Batch, NAME, command, get, get_with, number, text, truth};
use super::{AbletonOscHost, cannot, count, first, float, index, refused, session_clip, values};
use crate::live::contents::Facet;
use crate::live::shared::{gone, track_of, unsure, wrong};
use crate::live::{LiveHostError, Playing, Transport};
use crate::picture::piano_roll::{self, ClipDrawing};
use conductor_set::MixerInfo;
use conductor_set::{
    ArrangementRow, ChainPart, ClipInfo, ClipKind, Clips, CuePoint, Device, Devices, Listing, LiveError, Location,
    Overview, Param, PathId, RangeSource, Scene, Scenes, SlotRow, TrackDetail, TrackInfo, TrackKind, TrackPart,
    TrackState, Unit, display, send_name,
};
use rosc::OscType;

/// Maximum number of return tracks in Live, and therefore of sends per track.
const MOST_SENDS: u32 = 12;
/// Facts about parameters for which AbletonOSC has no address.
const PARAM_UNKNOWN: [&str; 2] = ["defaultValue", "automated"];

/// The addresses to write and to read a parameter, and its indices.
pub(super) fn param_address(path: PathId) -> Result<(&'static str, &'static str, Vec<OscType>), LiveHostError> {
    let PathId::OnTrack(track, TrackPart::Chain(part)) = path else {
        return Err(match path.chain_part() {
            Some(_) => cannot(path, "AbletonOSC can access only the parameters of ordinary tracks"),
            None => wrong(
                path,
                "a parameter (track:N/device:M/param:P, track:N/mixer/volume, …/panning or …/send:M)",
                Listing::Devices,
            ),
        });
    };
    let n = OscType::Int(index(track));
    match part {
        ChainPart::Volume => Ok(("/live/track/set/volume", "/live/track/get/volume", vec![n])),
        ChainPart::Panning => Ok(("/live/track/set/panning", "/live/track/get/panning", vec![n])),
        ChainPart::Send(send) => {
            Ok(("/live/track/set/send", "/live/track/get/send", vec![n, OscType::Int(index(send))]))
        }
        ChainPart::Param(device, param) => Ok((
            "/live/device/set/parameter/value",
            "/live/device/get/parameter/value",
            vec![n, OscType::Int(index(device)), OscType::Int(index(param))],
        )),
        ChainPart::Device(_) | ChainPart::Mixer => {
            Err(wrong(path, "a parameter, not a device or a mixer", Listing::Devices))
        }
    }
}

/// The requests for all facts about a parameter.
pub(super) fn param_asks(path: PathId) -> Result<Vec<Ask>, LiveHostError> {
    if let PathId::OnTrack(track, TrackPart::Chain(ChainPart::Param(device, _))) = path {
        return Ok(device_asks(track, device).into());
    }
    let (_, read, arguments) = param_address(path)?;
    let echo = arguments.len();
    Ok(vec![get_with(read, arguments, echo)])
}

/// Builds the parameter from the replies to [`param_asks`].
pub(super) fn param_of(path: PathId, batch: &Batch) -> Result<Param, LiveHostError> {
    if let PathId::OnTrack(track, TrackPart::Chain(ChainPart::Param(device, param))) = path {
        let all = device_params(path, track, device, batch, 0)?;
        return all.into_iter().nth(param as usize).ok_or_else(|| gone(path, Listing::Devices));
    }
    Ok(mixer_param(path, first(batch, 0, path, Listing::Devices, number)?))
}

fn mixer_param(id: PathId, value: f64) -> Param {
    let (name, unit) = match id.chain_part().map(|it| it.1) {
        Some(ChainPart::Panning) => ("Panning".into(), Unit::Pan),
        Some(ChainPart::Send(n)) => (send_name(n), Unit::Live),
        Some(ChainPart::Volume | ChainPart::Mixer | ChainPart::Device(_) | ChainPart::Param(..)) | None => {
            ("Volume".into(), Unit::Live)
        }
    };
    Param {
        id,
        name,
        min: if unit == Unit::Pan { -1.0 } else { 0.0 },
        max: 1.0,
        is_quantized: false,
        default_value: None,
        value,
        unit,
        display: display(unit, value),
        range_source: RangeSource::Host,
        automated: None,
    }
}

fn device_asks(track: u32, device: u32) -> [Ask; 5] {
    let at = [index(track), index(device)];
    [
        get("/live/device/get/parameters/name", &at),
        get("/live/device/get/parameters/min", &at),
        get("/live/device/get/parameters/max", &at),
        get("/live/device/get/parameters/is_quantized", &at),
        get("/live/device/get/parameters/value", &at),
    ]
}

fn device_params(
    subject: PathId,
    track: u32,
    device: u32,
    batch: &Batch,
    from: usize,
) -> Result<Vec<Param>, LiveHostError> {
    let column = |n: usize| values(batch, from + n, subject, Listing::Devices);
    let (names, lows, highs, steps, now) = (column(0)?, column(1)?, column(2)?, column(3)?, column(4)?);
    let nonsense = || LiveHostError::Offline {
        host: NAME,
        reason: format!("the reply about the parameters of {subject} is not valid"),
    };
    let mut params = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let at = |list: &[OscType]| list.get(n).and_then(number).ok_or_else(nonsense);
        let value = at(&now)?;
        params.push(Param {
            id: PathId::OnTrack(track, TrackPart::Chain(ChainPart::Param(device, count(n)))),
            name: text(name).ok_or_else(nonsense)?,
            min: at(&lows)?,
            max: at(&highs)?,
            is_quantized: steps.get(n).and_then(truth).ok_or_else(nonsense)?,
            default_value: None,
            value,
            unit: Unit::Live,
            display: display(Unit::Live, value),
            range_source: RangeSource::Host,
            automated: None,
        });
    }
    Ok(params)
}

/// The requests for a session clip, in the order that [`clip_info`] expects.
pub(super) fn clip_asks(at: [i32; 2]) -> [Ask; 11] {
    [
        get("/live/clip/get/name", &at),
        get("/live/clip/get/is_midi_clip", &at),
        get("/live/clip/get/start_time", &at),
        get("/live/clip/get/end_time", &at),
        get("/live/clip/get/looping", &at),
        get("/live/clip/get/loop_start", &at),
        get("/live/clip/get/loop_end", &at),
        get("/live/clip/get/start_marker", &at),
        get("/live/clip/get/end_marker", &at),
        get("/live/clip/get/color", &at),
        get("/live/clip/get/muted", &at),
    ]
}

/// Builds a session clip from the replies to [`clip_asks`], starting at reply `from`.
pub(super) fn clip_info(track: u32, slot: u32, batch: &Batch, from: usize) -> Result<ClipInfo, LiveHostError> {
    let id = PathId::OnTrack(track, TrackPart::SlotClip(slot));
    let number = |n: usize| first(batch, from + n, id, Listing::Clips, number);
    let flag = |n: usize| first(batch, from + n, id, Listing::Clips, truth);
    let is_midi = flag(1)?;
    let (start_time, end_time) = (number(2)?, number(3)?);
    Ok(ClipInfo {
        id,
        is_midi,
        kind: if is_midi { ClipKind::Midi } else { ClipKind::Audio },
        location: Location::Session,
        slot_id: Some(PathId::OnTrack(track, TrackPart::Slot(slot))),
        name: first(batch, from, id, Listing::Clips, text)?,
        start_time,
        end_time,
        duration: end_time - start_time,
        looping: flag(4)?,
        loop_start: number(5)?,
        loop_end: number(6)?,
        start_marker: number(7)?,
        end_marker: number(8)?,
        color: number(9)?.max(0.0) as u32,
        muted: flag(10)?,
        file_path: None,
    })
}

impl AbletonOscHost {
    pub(super) async fn overview_now(&self) -> Result<Overview, LiveHostError> {
        if self.heard().look.is_none() {
            self.look().await?;
        }
        self.survey().await;
        let revision = self.heard().revision().unwrap_or_else(|| conductor_set::Revision::of_state(""));
        self.overview_at(revision).await
    }

    pub(super) async fn overview_at(&self, revision: conductor_set::Revision) -> Result<Overview, LiveHostError> {
        let asks = [
            get("/live/song/get/tempo", &[]),
            get("/live/song/get/root_note", &[]),
            get("/live/song/get/scale_name", &[]),
            get("/live/song/get/num_scenes", &[]),
            get("/live/song/get/cue_points", &[]),
            get("/live/song/get/signature_numerator", &[]),
            get("/live/song/get/signature_denominator", &[]),
        ];
        let batch = self.wire.read(&asks).await?;
        let at = |n| first(&batch, n, PathId::Main, Listing::Tracks, number);
        let scale_name = first(&batch, 2, PathId::Main, Listing::Tracks, text)?;
        let known = conductor_set::scale_intervals(&scale_name);
        let mut unknown = vec!["scaleMode", "gridQuantization", "gridIsTriplet", "returnTrackCount"];
        if known.is_none() {
            unknown.push("scaleIntervals");
        }
        let tracks = self.tracks();
        Ok(Overview {
            tempo: Some(at(0)?),
            root_note: Some(at(1)?.clamp(0.0, 11.0) as u8),
            scale_intervals: known.unwrap_or_default().to_vec(),
            scale_name: Some(scale_name),
            scale_mode: None,
            grid_quantization: None,
            grid_is_triplet: None,
            track_count: tracks.len(),
            return_track_count: None,
            scene_count: at(3)?.max(0.0) as usize,
            cue_point_count: values(&batch, 4, PathId::Main, Listing::Tracks)?.len() / 2,
            tracks,
            time_signature: Some(format!("{}/{}", at(5)?, at(6)?)),
            revision,
            editable: true,
            unknown,
            warnings: Vec::new(),
        })
    }

    pub(super) async fn track_state(&self, id: PathId, n: i32) -> Result<TrackState, LiveHostError> {
        let asks = [
            get("/live/track/get/name", &[n]),
            get("/live/track/get/mute", &[n]),
            get("/live/track/get/solo", &[n]),
            get("/live/track/get/can_be_armed", &[n]),
        ];
        let batch = self.wire.read(&asks).await?;
        let flag = |at| first(&batch, at, id, Listing::Tracks, truth);
        // For a track that cannot be armed, AbletonOSC would report an error and drop all later
        // requests that it received in the same tick.
        let arm = if flag(3)? {
            let batch = self.wire.read(&[get("/live/track/get/arm", &[n])]).await?;
            first(&batch, 0, id, Listing::Tracks, truth)?
        } else {
            false
        };
        Ok(TrackState { id, name: first(&batch, 0, id, Listing::Tracks, text)?, mute: flag(1)?, solo: flag(2)?, arm })
    }

    pub(super) async fn track_info(&self, id: PathId) -> Result<TrackInfo, LiveHostError> {
        let (n, row) = self.track(id)?;
        let state = self.track_state(id, n).await?;
        let solos = vec![OscType::Int(0), OscType::Int(-1), OscType::String("track.solo".into())];
        let asks = [
            get("/live/song/get/num_scenes", &[]),
            get("/live/track/get/num_devices", &[n]),
            get("/live/track/get/arrangement_clips/name", &[n]),
            get_with("/live/song/get/track_data", solos, 0),
        ];
        let batch = self.wire.read(&asks).await?;
        let many = |at| first(&batch, at, id, Listing::Tracks, number).map(|it| it.max(0.0) as usize);
        let someone_solos = values(&batch, 3, id, Listing::Tracks)?.iter().filter_map(truth).any(|it| it);
        let mixer = self.mixer(track_of(id)?).await?;
        let level = |n: usize| mixer.get(n).map(|it| it.value);
        Ok(TrackInfo {
            id,
            kind: row.kind,
            name: state.name,
            mute: state.mute,
            solo: state.solo,
            muted_via_solo: someone_solos && !state.solo && !state.mute,
            arm: state.arm,
            clip_slot_count: many(0)?,
            arrangement_clip_count: values(&batch, 2, id, Listing::Tracks)?.len(),
            device_count: many(1)?,
            mixer: MixerInfo { volume: level(0), panning: level(1), send_count: mixer.len().saturating_sub(2) },
        })
    }

    /// Volume, panning and all sends. The number of sends is not reported: sends are requested
    /// until AbletonOSC reports an error.
    async fn mixer(&self, track: u32) -> Result<Vec<Param>, LiveHostError> {
        let on = |part| PathId::OnTrack(track, TrackPart::Chain(part));
        let mut params = Vec::new();
        let n = index(track);
        let asks = [get("/live/track/get/volume", &[n]), get("/live/track/get/panning", &[n])];
        let batch = self.wire.read(&asks).await?;
        for (at, part) in [ChainPart::Volume, ChainPart::Panning].into_iter().enumerate() {
            params.push(mixer_param(on(part), first(&batch, at, on(part), Listing::Tracks, number)?));
        }
        let mut send = 0;
        while send < MOST_SENDS {
            // Request three sends at a time: a new Set has two returns, so one batch is usually
            // enough.
            let asks: Vec<Ask> = (send..send + 3).map(|it| get("/live/track/get/send", &[n, index(it)])).collect();
            let batch = self.wire.read(&asks).await?;
            for at in 0..asks.len() {
                match first(&batch, at, on(ChainPart::Send(send)), Listing::Tracks, number) {
                    Ok(value) => params.push(mixer_param(on(ChainPart::Send(send)), value)),
                    Err(LiveHostError::Set(_)) => return Ok(params),
                    Err(refusal) => return Err(refusal),
                }
                send += 1;
            }
        }
        Ok(params)
    }

    pub(super) async fn param_now(&self, path: PathId) -> Result<Param, LiveHostError> {
        param_of(path, &self.wire.read(&param_asks(path)?).await?)
    }

    /// Reads all values in one batch. An error does not state which request failed, and AbletonOSC
    /// drops the requests after it. Therefore, after an error, each value is requested separately.
    pub(super) async fn values_now(&self, ids: Vec<PathId>) -> Result<Vec<Option<f64>>, LiveHostError> {
        let ask = |id: &PathId| {
            param_address(*id).ok().map(|(_, read, arguments)| {
                let echo = arguments.len();
                get_with(read, arguments, echo)
            })
        };
        let value = |batch: &Batch, at: usize| batch.replies.get(at)?.as_ref()?.first().and_then(number);
        let asks: Vec<Option<Ask>> = ids.iter().map(ask).collect();
        let whole: Vec<Ask> = asks.iter().flatten().cloned().collect();
        let batch = self.wire.read(&whole).await?;
        let alone = batch.error.is_some();
        let (mut values, mut at) = (Vec::with_capacity(ids.len()), 0);
        for ask in asks {
            values.push(match ask {
                Some(ask) if alone => value(&self.wire.read(&[ask]).await?, 0),
                Some(_) => {
                    at += 1;
                    value(&batch, at - 1)
                }
                None => None,
            });
        }
        Ok(values)
    }

    /// Devices and mixer of an ordinary track.
    async fn chain(&self, path: PathId) -> Result<(Vec<Device>, Vec<Param>), LiveHostError> {
        if matches!(path, PathId::Return(_) | PathId::Main) {
            return Err(cannot(path, "AbletonOSC can access only the devices of ordinary tracks"));
        }
        let (n, _) = self.track(path)?;
        let track = track_of(path)?;
        let asks = [get("/live/track/get/devices/name", &[n]), get("/live/track/get/devices/class_name", &[n])];
        let batch = self.wire.read(&asks).await?;
        let (names, classes) = (values(&batch, 0, path, Listing::Devices)?, values(&batch, 1, path, Listing::Devices)?);
        let asks: Vec<Ask> = (0..count(names.len())).flat_map(|it| device_asks(track, it)).collect();
        let batch = self.wire.read(&asks).await?;
        let mut devices = Vec::new();
        for (d, name) in (0_u32..).zip(&names) {
            let params = device_params(path, track, d, &batch, d as usize * 5)?;
            devices.push(Device {
                id: PathId::OnTrack(track, TrackPart::Chain(ChainPart::Device(d))),
                name: text(name).unwrap_or_default(),
                class_name: classes.get(d as usize).and_then(text).unwrap_or_default(),
                // In Live, the first parameter of every device is its on/off switch.
                is_on: params.first().map(|it| it.value != 0.0),
                params,
            });
        }
        Ok((devices, self.mixer(track).await?))
    }

    fn params_were_read(&self, devices: &[Device], mixer: &[Param]) {
        for param in devices.iter().flat_map(|it| &it.params).chain(mixer) {
            self.was_read(Facet::Param, param.id, &param.value);
        }
    }

    pub(super) async fn devices_now(&self, path: PathId) -> Result<Devices, LiveHostError> {
        let (devices, mixer) = self.chain(path).await?;
        self.params_were_read(&devices, &mixer);
        Ok(Devices::capped(path, devices, mixer, PARAM_UNKNOWN.into()))
    }

    pub(super) async fn track_detail_now(&self, path: PathId) -> Result<TrackDetail, LiveHostError> {
        let (devices, mixer) = self.chain(path).await?;
        self.params_were_read(&devices, &mixer);
        let track = track_of(path)?;
        let slots = self.heard().look.as_ref().and_then(|it| it.clips.get(track as usize).cloned()).unwrap_or_default();
        let filled: Vec<u32> = (0..).zip(&slots).filter(|(_, it)| it.is_some()).map(|(slot, _)| slot).collect();
        let asks: Vec<Ask> = filled.iter().flat_map(|slot| clip_asks([index(track), index(*slot)])).collect();
        let batch = self.wire.read(&asks).await?;
        let mut clips = Vec::new();
        for (slot, _) in (0_u32..).zip(&slots) {
            clips.push(match filled.iter().position(|it| *it == slot) {
                Some(at) => {
                    let info = clip_info(track, slot, &batch, at * 11)?;
                    self.was_read(Facet::Clip, info.id, &info);
                    info
                }
                None => ClipInfo::empty(PathId::OnTrack(track, TrackPart::Slot(slot))),
            });
        }
        let mut unknown = PARAM_UNKNOWN.to_vec();
        // Only name, start and length of arrangement clips can be requested; they are in the clip
        // list.
        unknown.extend(["clips in the arrangement", "filePath"]);
        Ok(TrackDetail::capped(path, clips, devices, mixer, unknown))
    }

    pub(super) async fn clips_now(&self, path: PathId, offset: usize) -> Result<Clips, LiveHostError> {
        let (n, row) = self.track(path)?;
        let track = track_of(path)?;
        let kind = match row.kind {
            TrackKind::Midi => ClipKind::Midi,
            TrackKind::Audio => ClipKind::Audio,
            TrackKind::Group => return Ok(Clips::page(path, Vec::new(), Vec::new(), offset)),
        };
        let asks = [
            get("/live/track/get/arrangement_clips/name", &[n]),
            get("/live/track/get/arrangement_clips/start_time", &[n]),
            get("/live/track/get/arrangement_clips/length", &[n]),
        ];
        let batch = self.wire.read(&asks).await?;
        let column = |at| values(&batch, at, path, Listing::Clips);
        let (names, starts, lengths) = (column(0)?, column(1)?, column(2)?);
        let slots = self.heard().look.as_ref().and_then(|it| it.clips.get(track as usize).cloned()).unwrap_or_default();
        let session = (0_u32..).zip(slots).map(|(slot, name)| {
            let clip = PathId::OnTrack(track, TrackPart::SlotClip(slot));
            SlotRow {
                slot_id: PathId::OnTrack(track, TrackPart::Slot(slot)),
                clip_id: name.is_some().then_some(clip),
                kind: if name.is_some() { kind } else { ClipKind::Empty },
                name,
            }
        });
        let mut arrangement = Vec::new();
        for (c, name) in (0_u32..).zip(&names) {
            let at = |list: &[OscType]| list.get(c as usize).and_then(number);
            let (Some(start), Some(length)) = (at(&starts), at(&lengths)) else {
                return Err(LiveHostError::Offline {
                    host: NAME,
                    reason: format!("the reply about the clips of {path} is not valid"),
                });
            };
            arrangement.push(ArrangementRow {
                clip_id: PathId::OnTrack(track, TrackPart::Clip(c)),
                name: text(name).unwrap_or_default(),
                start_beat: start,
                end_beat: start + length,
                kind,
            });
        }
        let mut clips = Clips::page(path, session.collect(), arrangement, offset);
        if !clips.arrangement.is_empty() {
            clips.warnings.push(
                "endBeat is startBeat plus the clip's length, which is the length of the loop for a looped clip".into(),
            );
        }
        Ok(clips)
    }

    pub(super) async fn scenes_now(&self) -> Result<Scenes, LiveHostError> {
        let asks = [get("/live/song/get/scenes/name", &[]), get("/live/song/get/cue_points", &[])];
        let batch = self.wire.read(&asks).await?;
        let names = values(&batch, 0, PathId::Main, Listing::Tracks)?;
        let cues = values(&batch, 1, PathId::Main, Listing::Tracks)?;
        const FACTS: [&str; 6] = [
            "/live/scene/get/is_empty",
            "/live/scene/get/tempo_enabled",
            "/live/scene/get/tempo",
            "/live/scene/get/time_signature_enabled",
            "/live/scene/get/time_signature_numerator",
            "/live/scene/get/time_signature_denominator",
        ];
        let asks: Vec<Ask> =
            (0..count(names.len())).flat_map(|n| FACTS.map(|address| get(address, &[index(n)]))).collect();
        let batch = self.wire.read(&asks).await?;
        let mut scenes = Vec::new();
        for (n, name) in (0_u32..).zip(&names) {
            let id = PathId::Scene(n);
            let at = |fact: usize| first(&batch, n as usize * FACTS.len() + fact, id, Listing::Tracks, number);
            scenes.push(Scene {
                id,
                name: text(name).unwrap_or_default(),
                is_empty: at(0)? != 0.0,
                tempo: if at(1)? != 0.0 { Some(at(2)?) } else { None },
                time_signature: if at(3)? != 0.0 { Some(format!("{}/{}", at(4)?, at(5)?)) } else { None },
            });
        }
        let mut cue_points = Vec::new();
        for (n, row) in (0..).zip(cues.chunks_exact(2)) {
            let (Some(name), Some(beat)) = (row.first().and_then(text), row.get(1).and_then(number)) else {
                return Err(LiveHostError::Offline {
                    host: NAME,
                    reason: "the reply about the locators is not valid".into(),
                });
            };
            cue_points.push(CuePoint { id: PathId::CuePoint(n), name, beat });
        }
        Ok(Scenes { scenes, cue_points })
    }

    pub(super) async fn draw_clip_now(&self, clip: PathId, width: u32) -> Result<ClipDrawing, LiveHostError> {
        let (track, slot) = session_clip(clip)?;
        let mut asks = clip_asks([index(track), index(slot)]).to_vec();
        asks.push(get("/live/song/get/signature_numerator", &[]));
        asks.push(get("/live/song/get/signature_denominator", &[]));
        asks.push(get("/live/track/get/name", &[index(track)]));
        let batch = self.wire.read(&asks).await?;
        let info = clip_info(track, slot, &batch, 0)?;
        if !info.is_midi {
            let reason = "an audio clip has no notes".into();
            return Err(LiveError::WrongType { subject: clip, reason, listing: Listing::Clips }.into());
        }
        let whole = |at| first(&batch, at, clip, Listing::Clips, number).map(|it| it.max(1.0) as u32);
        let name = first(&batch, 13, clip, Listing::Clips, text)?;
        let notes = self.notes_of(clip).await?;
        self.was_read(Facet::Notes, clip, &notes);
        Ok(piano_roll::draw(&info, &name, &notes, (whole(11)?, whole(12)?), width)?)
    }

    pub(super) async fn launch_now(&self, id: PathId) -> Result<&'static str, LiveHostError> {
        let (write, exists) = match id {
            PathId::OnTrack(track, TrackPart::Slot(slot) | TrackPart::SlotClip(slot)) => {
                let at = [index(track), index(slot)];
                let fire = command("/live/clip_slot/fire", at.map(OscType::Int).to_vec());
                (fire, get("/live/clip_slot/get/has_clip", &at))
            }
            PathId::Scene(n) => {
                (command("/live/scene/fire", vec![OscType::Int(index(n))]), get("/live/scene/get/name", &[index(n)]))
            }
            PathId::Track(_)
            | PathId::OnTrack(..)
            | PathId::Return(_)
            | PathId::OnReturn(..)
            | PathId::Main
            | PathId::OnMain(_)
            | PathId::CuePoint(_) => return Err(wrong(id, "a slot, a session clip or a scene", Listing::Clips)),
        };
        let before = self.wire.read(std::slice::from_ref(&exists)).await?;
        let there = values(&before, 0, id, Listing::Clips)?.first().and_then(truth);
        if matches!(id, PathId::OnTrack(_, TrackPart::SlotClip(_))) && there == Some(false) {
            return Err(LiveError::EmptySlot { subject: id }.into());
        }
        let batch = self.wire.write(&[write, exists]).await.map_err(unsure)?;
        match batch.error {
            // A launch has no reply. The reply to the next request proves that Live handled the
            // launch.
            None => values(&batch, 1, id, Listing::Clips).map(|_| "fired").map_err(unsure),
            Some(reason) => Err(refused(id, reason)),
        }
    }

    pub(super) async fn transport_now(&self, action: Transport, beat: Option<f64>) -> Result<Playing, LiveHostError> {
        let asks = [
            get("/live/song/get/is_playing", &[]),
            get("/live/song/get/current_song_time", &[]),
            get("/live/song/get/tempo", &[]),
        ];
        let made = |batch: Batch| match batch.error {
            None => Ok(batch),
            Some(reason) => Err(refused(PathId::Main, reason)),
        };
        if let Some(beat) = beat {
            let mut jump = vec![command("/live/song/set/current_song_time", vec![float(beat)])];
            jump.extend(asks.clone());
            made(self.wire.write(&jump).await.map_err(unsure)?)?;
        }
        let mut all = vec![match action {
            Transport::Play => command("/live/song/start_playing", Vec::new()),
            Transport::Stop => command("/live/song/stop_playing", Vec::new()),
            Transport::Continue => command("/live/song/continue_playing", Vec::new()),
            Transport::StopClips => command("/live/song/stop_all_clips", Vec::new()),
            Transport::RecordOn => command("/live/song/set/record_mode", vec![OscType::Int(1)]),
            Transport::RecordOff => command("/live/song/set/record_mode", vec![OscType::Int(0)]),
        }];
        all.extend(asks);
        let batch = made(self.wire.write(&all).await.map_err(unsure)?)?;
        let at = |n| first(&batch, n, PathId::Main, Listing::Tracks, number).map_err(unsure);
        Ok(Playing { is_playing: at(1)? != 0.0, beat: at(2)?, tempo: at(3)? })
    }
}
