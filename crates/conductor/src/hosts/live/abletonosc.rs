//! A running Live behind AbletonOSC. Every write is read back, because the peer never says that one worked.
//!
//! What the peer cannot tell is absent and named in `unknown`; what it cannot do is refused. Not here: the wire and its fence (`wire`).
//! Checked against recorded exchanges and a strict stand-in, not in a running Live.

pub mod wire;

use super::lane::Turn;
use super::{Answer, Caps, History, KnownIds, LiveHost, Mode, Op, Playing, Refusal, State, Transport, Way};
use conductor_set::{
    Applied, ArrangementRow, Author, ChainPart, ClipCreated, ClipDrawing, ClipKind, Clips, CuePoint, Deleted, Device,
    Devices, Diff, Guard, Listing, LiveEdit, LiveError, MixerInfo, Note, NoteQuery, NoteSummary, Notes, NotesWritten,
    Outcome, Overview, PAGE, Param, ParamWritten, PathId, RangeSource, Revision, Scene, Scenes, SlotRow, Stepped,
    TrackDetail, TrackInfo, TrackKind, TrackMatches, TrackPart, TrackRow, TrackState, Unit,
};
use rosc::OscType;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::{Ask, Batch, NAME, Settings, Wire, get, get_with, number, tell, text, truth};

/// Notes per datagram when adding: about 8 KB, under the smallest default of the systems Live runs on.
const NOTES_PER_DATAGRAM: usize = 400;
/// The whole of a clip: without a range the peer misses pitch 127.
const WHOLE_CLIP: [OscType; 4] =
    [OscType::Int(0), OscType::Int(128), OscType::Float(-8192.0), OscType::Float(16_384.0)];

/// What was last heard of the Set as a whole.
#[derive(Default)]
struct Heard {
    revision: Option<Revision>,
    tracks: Vec<TrackRow>,
    structure: u64,
    shifts: BTreeMap<Author, u64>,
}

pub struct AbletonOscHost {
    wire: Wire,
    caps: Caps,
    heard: Mutex<Heard>,
}

/// Somebody at the computer, or another program.
const NOBODY: Author = Author(u64::MAX);
const FOREIGN_UNDO: &str = "this is Live's own undo list, which also holds what the person did";

fn gone(subject: PathId, listing: Listing) -> LiveError {
    LiveError::Gone { subject, listing }
}

fn wrong(subject: PathId, expected: &'static str, listing: Listing) -> Refusal {
    LiveError::WrongKind { subject, expected, listing }.into()
}

fn cannot(subject: PathId, reason: &str) -> Refusal {
    LiveError::Unsupported {
        subject: Some(subject.to_string()),
        reason: reason.into(),
        instead: "use Conductor's script in Live".into(),
    }
    .into()
}

fn index(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn float(value: f64) -> OscType {
    OscType::Float(value as f32)
}

fn same(sent: f64, read: f64) -> bool {
    // The peer stores and answers 32-bit numbers.
    (sent - read).abs() <= sent.abs().max(1.0) * 1e-6
}

fn track_of(path: PathId) -> Result<u32, Refusal> {
    if let PathId::Track(n) = path { Ok(n) } else { Err(wrong(path, "a track (track:N)", Listing::Tracks)) }
}

fn session_clip(path: PathId) -> Result<(u32, u32), Refusal> {
    if let PathId::OnTrack(track, TrackPart::SlotClip(slot)) = path {
        return Ok((track, slot));
    }
    if matches!(path, PathId::OnTrack(_, TrackPart::Clip(_))) {
        return Err(cannot(path, "AbletonOSC reaches session clips only"));
    }
    Err(wrong(path, "a clip (track:N/clipslot:M/clip)", Listing::Clips))
}

/// The values of one question, or why there are none.
fn values(batch: &Batch, at: usize, subject: PathId, listing: Listing) -> Result<Vec<OscType>, Refusal> {
    if let Some(Some(values)) = batch.replies.get(at) {
        return Ok(values.clone());
    }
    Err(match &batch.error {
        Some(error) if error.contains("Index out of range") => gone(subject, listing).into(),
        Some(error) if error.contains("'NoneType'") => LiveError::EmptySlot { subject }.into(),
        Some(error) => LiveError::Refused {
            subject,
            reason: error.clone(),
            cure: "repeat the call once, then make a simpler change",
        }
        .into(),
        None => Refusal::NoAnswer { host: NAME },
    })
}

fn first<T>(
    batch: &Batch,
    at: usize,
    subject: PathId,
    listing: Listing,
    of: fn(&OscType) -> Option<T>,
) -> Result<T, Refusal> {
    let found = values(batch, at, subject, listing)?.first().and_then(of);
    found.ok_or_else(|| Refusal::Offline { host: NAME, reason: format!("an answer about {subject} makes no sense") })
}

impl AbletonOscHost {
    pub async fn attach(settings: Settings) -> Result<AbletonOscHost, Refusal> {
        let missing =
            [(Op::Files, "a running Live saves its Set itself"), (Op::RenderTrack, "AbletonOSC cannot render")];
        let host = AbletonOscHost {
            wire: Wire::open(settings).await?,
            caps: Caps { missing: missing.into() },
            heard: Mutex::default(),
        };
        host.look().await?;
        Ok(host)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the revision is made of, and notices what somebody else shifted.
    async fn look(&self) -> Result<Revision, Refusal> {
        let words = |words: &[&str]| {
            let mut all = vec![OscType::Int(0), OscType::Int(-1)];
            all.extend(words.iter().map(|it| OscType::String((*it).into())));
            get_with("/live/song/get/track_data", all, 0)
        };
        let asks = [
            get("/live/song/get/tempo", &[]),
            words(&["track.name", "track.has_midi_input", "track.is_foldable"]),
            words(&["clip.name"]),
            words(&["device.name"]),
        ];
        let batch = self.wire.read(&asks).await?;
        let rows = values(&batch, 1, PathId::Main, Listing::Tracks)?;
        let tracks: Vec<TrackRow> = (0..)
            .zip(rows.chunks_exact(3))
            .map(|(n, row)| TrackRow {
                id: PathId::Track(n),
                name: row.first().and_then(text).unwrap_or_default(),
                kind: match (row.get(2).and_then(truth), row.get(1).and_then(truth)) {
                    (Some(true), _) => TrackKind::Group,
                    (_, Some(true)) => TrackKind::Midi,
                    (_, _) => TrackKind::Audio,
                },
            })
            .collect();
        let revision = Revision::of_state(&format!("{:?}", batch.replies));
        let mut heard = self.heard();
        let same = heard.tracks.len() == tracks.len()
            && heard.tracks.iter().zip(&tracks).all(|(a, b)| a.kind == b.kind && a.name == b.name);
        // A rename by hand looks like a move: better one look too many than a write to the wrong track.
        if !same && heard.revision.is_some() {
            heard.structure += 1;
            let now = heard.structure;
            heard.shifts.insert(NOBODY, now);
        }
        heard.tracks = tracks;
        heard.revision = Some(revision);
        Ok(revision)
    }

    /// After a write of ours: what changed is ours.
    async fn look_after(&self, guard: &Guard, shifted: bool) -> Result<Revision, Refusal> {
        let (structure, shifts) = {
            let heard = self.heard();
            (heard.structure, heard.shifts.clone())
        };
        let revision = self.look().await?;
        let mut heard = self.heard();
        (heard.structure, heard.shifts) = (structure, shifts);
        if shifted {
            heard.structure += 1;
            let now = heard.structure;
            heard.shifts.insert(guard.seen.map_or(NOBODY, |it| it.0), now);
        }
        Ok(revision)
    }

    async fn admit(&self, guard: &Guard, positional: bool) -> Result<(), Refusal> {
        let actual = self.look().await?;
        if let Some(expected) = guard.expect_revision.clone().filter(|it| *it != actual.to_string()) {
            return Err(LiveError::RevisionDiffers { expected, actual }.into());
        }
        let shifted = guard
            .seen
            .is_some_and(|(who, seen)| self.heard().shifts.iter().any(|(author, at)| *author != who && *at > seen));
        if positional && shifted { Err(LiveError::StructureShifted.into()) } else { Ok(()) }
    }

    fn track(&self, path: PathId) -> Result<(i32, TrackRow), Refusal> {
        let n = track_of(path)?;
        let row = self.heard().tracks.get(n as usize).cloned();
        row.map(|row| (index(n), row)).ok_or_else(|| gone(path, Listing::Tracks).into())
    }

    /// A write, its read-back and the fence. The value read must be the one sent.
    async fn write_number(&self, subject: PathId, write: Ask, read: Ask, sent: f64) -> Result<f64, Refusal> {
        let batch = self.wire.batch(&[write, read]).await?;
        let now = first(&batch, 1, subject, Listing::Tracks, number)?;
        if same(sent, now) {
            return Ok(now);
        }
        let reason = batch.error.unwrap_or_else(|| format!("Live answers {now} after {sent} was written"));
        Err(LiveError::Refused { subject, reason, cure: "repeat the call once, then make a simpler change" }.into())
    }

    async fn make(&self, edit: &LiveEdit) -> Result<(Outcome, Vec<PathId>, u32, bool, Vec<String>), Refusal> {
        match edit {
            LiveEdit::SetTempo { bpm } => {
                let (write, read) = (tell("/live/song/set/tempo", vec![float(*bpm)]), get("/live/song/get/tempo", &[]));
                self.write_number(PathId::Main, write, read, *bpm).await?;
                Ok((Outcome::Tempo(self.overview_now().await?), vec![PathId::Main], 1, false, Vec::new()))
            }
            LiveEdit::SetTrackProps { track_id, props } => {
                let (n, _) = self.track(*track_id)?;
                let mut steps = 0;
                if let Some(name) = &props.name {
                    let write = tell("/live/track/set/name", vec![OscType::Int(n), OscType::String(name.clone())]);
                    let batch = self.wire.batch(&[write, get("/live/track/get/name", &[n])]).await?;
                    if first(&batch, 1, *track_id, Listing::Tracks, text)? != *name {
                        let reason = batch.error.unwrap_or_else(|| "Live kept another name".into());
                        return Err(
                            LiveError::Refused { subject: *track_id, reason, cure: "repeat the call once" }.into()
                        );
                    }
                    steps += 1;
                }
                let switches = [
                    (props.mute, "/live/track/set/mute", "/live/track/get/mute"),
                    (props.solo, "/live/track/set/solo", "/live/track/get/solo"),
                    (props.arm, "/live/track/set/arm", "/live/track/get/arm"),
                ];
                for (value, set, read) in switches {
                    let Some(value) = value else { continue };
                    let write = tell(set, vec![OscType::Int(n), OscType::Int(i32::from(value))]);
                    self.write_number(*track_id, write, get(read, &[n]), f64::from(u8::from(value))).await?;
                    steps += 1;
                }
                if steps == 0 {
                    return Err(LiveError::BadValue {
                        subject: "props".into(),
                        reason: "give at least one of name, mute, solo, arm".into(),
                    }
                    .into());
                }
                Ok((Outcome::Track(self.track_state(*track_id, n).await?), vec![*track_id], steps, false, Vec::new()))
            }
            LiveEdit::ReplaceNotes { clip_id, notes, window } => {
                self.replace_notes(*clip_id, notes, window.is_some()).await
            }
            LiveEdit::CreateTrack { kind } => {
                let address = match kind {
                    TrackKind::Midi => "/live/song/create_midi_track",
                    TrackKind::Audio => "/live/song/create_audio_track",
                    TrackKind::Group => return Err(cannot(PathId::Main, "AbletonOSC cannot group tracks")),
                };
                let before = self.heard().tracks.len();
                let batch = self
                    .wire
                    .batch(&[tell(address, vec![OscType::Int(-1)]), get("/live/song/get/num_tracks", &[])])
                    .await?;
                let after = first(&batch, 1, PathId::Main, Listing::Tracks, number)?;
                if !same(after, before as f64 + 1.0) {
                    let reason = batch
                        .error
                        .unwrap_or_else(|| format!("Live has {after} tracks after one was added to {before}"));
                    return Err(LiveError::Refused {
                        subject: PathId::Main,
                        reason,
                        cure: "list the tracks, then repeat once",
                    }
                    .into());
                }
                self.look().await?;
                let id = PathId::Track(u32::try_from(before).unwrap_or(u32::MAX));
                Ok((Outcome::TrackCreated(self.track_info(id).await?), vec![id], 1, false, Vec::new()))
            }
            LiveEdit::CreateMidiClip { slot_id, length_beats } => {
                let PathId::OnTrack(track, TrackPart::Slot(slot)) = *slot_id else {
                    return Err(wrong(*slot_id, "a session slot (track:N/clipslot:M)", Listing::Clips));
                };
                let (_, row) = self.track(PathId::Track(track))?;
                if row.kind != TrackKind::Midi {
                    return Err(LiveError::WrongType {
                        subject: *slot_id,
                        reason: "only MIDI tracks hold MIDI clips".into(),
                        listing: Listing::Tracks,
                    }
                    .into());
                }
                let at = [index(track), index(slot)];
                let before = self.wire.read(&[get("/live/clip_slot/get/has_clip", &at)]).await?;
                if first(&before, 0, *slot_id, Listing::Clips, truth)? {
                    return Err(LiveError::SlotOccupied { subject: *slot_id }.into());
                }
                let write = tell(
                    "/live/clip_slot/create_clip",
                    vec![OscType::Int(at[0]), OscType::Int(at[1]), float(*length_beats)],
                );
                self.write_number(*slot_id, write, get("/live/clip_slot/get/has_clip", &at), 1.0).await?;
                let clip_id = PathId::OnTrack(track, TrackPart::SlotClip(slot));
                let made = ClipCreated { clip_id, slot_id: *slot_id, length_beats: *length_beats };
                Ok((Outcome::ClipCreated(made), vec![clip_id], 1, false, Vec::new()))
            }
            LiveEdit::SetParam { param_id, value } => {
                let before = self.param(*param_id).await?;
                if !(before.min..=before.max).contains(value) {
                    let reason = format!("must be {} to {}, not {value}", before.min, before.max);
                    return Err(LiveError::BadValue { subject: "value".into(), reason }.into());
                }
                let (set, read, mut arguments) = self.param_address(*param_id)?;
                let question = get_with(read, arguments.clone(), arguments.len());
                arguments.push(float(*value));
                let now = self.write_number(*param_id, tell(set, arguments), question, *value).await?;
                let param = Param { value: now, display: now.to_string(), ..before.clone() };
                let written =
                    ParamWritten { param, previous: before.value, unknown: vec!["defaultValue", "automated"] };
                Ok((Outcome::Param(written), vec![*param_id], 1, false, Vec::new()))
            }
            LiveEdit::DeleteClip { clip_id } => {
                let (track, slot) = session_clip(*clip_id)?;
                let at = [index(track), index(slot)];
                let before = self.wire.read(&[get("/live/clip_slot/get/has_clip", &at)]).await?;
                if !first(&before, 0, *clip_id, Listing::Clips, truth)? {
                    return Err(LiveError::EmptySlot { subject: *clip_id }.into());
                }
                let write = tell("/live/clip_slot/delete_clip", at.map(OscType::Int).to_vec());
                self.write_number(*clip_id, write, get("/live/clip_slot/get/has_clip", &at), 0.0).await?;
                Ok((
                    Outcome::Deleted(Deleted { deleted: vec![*clip_id], shifted: false }),
                    vec![*clip_id],
                    1,
                    false,
                    Vec::new(),
                ))
            }
            LiveEdit::DeleteTrack { track_id } => {
                let (n, _) = self.track(*track_id)?;
                let before = self.heard().tracks.len();
                let batch = self
                    .wire
                    .batch(&[
                        tell("/live/song/delete_track", vec![OscType::Int(n)]),
                        get("/live/song/get/num_tracks", &[]),
                    ])
                    .await?;
                let after = first(&batch, 1, *track_id, Listing::Tracks, number)?;
                if after >= before as f64 {
                    let reason = batch.error.unwrap_or_else(|| "the track is still there".into());
                    return Err(LiveError::Refused {
                        subject: *track_id,
                        reason,
                        cure: "list the tracks, then repeat once",
                    }
                    .into());
                }
                Ok((
                    Outcome::Deleted(Deleted { deleted: vec![*track_id], shifted: true }),
                    vec![*track_id],
                    1,
                    true,
                    Vec::new(),
                ))
            }
            LiveEdit::InsertDevice { track_id, .. } => Err(cannot(*track_id, "AbletonOSC cannot insert devices")),
            LiveEdit::SetClipProps { clip_id, .. } => {
                Err(cannot(*clip_id, "clip properties are not written over AbletonOSC"))
            }
        }
    }

    async fn replace_notes(
        &self,
        clip: PathId,
        notes: &[Note],
        windowed: bool,
    ) -> Result<(Outcome, Vec<PathId>, u32, bool, Vec<String>), Refusal> {
        let (track, slot) = session_clip(clip)?;
        if windowed {
            return Err(cannot(clip, "a window of notes is not written over AbletonOSC"));
        }
        let plain = Note::new(0, 0.0, 1.0);
        for (at, note) in notes.iter().enumerate() {
            let subject = || format!("notes[{at}]");
            if note.probability != plain.probability
                || note.velocity_deviation != 0.0
                || note.release_velocity != plain.release_velocity
            {
                let reason = "AbletonOSC carries no probability, velocityDeviation or releaseVelocity".to_owned();
                return Err(LiveError::Unsupported {
                    subject: Some(subject()),
                    reason,
                    instead: "use Conductor's script in Live".into(),
                }
                .into());
            }
            if !(note.duration > 0.0
                && note.duration.is_finite()
                && note.start_time.is_finite()
                && note.velocity.is_finite())
            {
                return Err(LiveError::BadValue {
                    subject: subject(),
                    reason: "duration must be above 0, and every number finite".into(),
                }
                .into());
            }
        }
        let before = self.notes_of(clip).await?;
        let at = [index(track), index(slot)];
        let name = self.wire.read(&[get("/live/clip/get/name", &at)]).await?;
        let name = first(&name, 0, clip, Listing::Clips, text)?;
        let mut whole = at.map(OscType::Int).to_vec();
        whole.extend(WHOLE_CLIP);
        let read = || get_with("/live/clip/get/notes", whole.clone(), 2);
        let batch = self.wire.batch(&[tell("/live/clip/remove/notes", whole.clone()), read()]).await?;
        if !values(&batch, 1, clip, Listing::Clips)?.is_empty() {
            let reason = batch.error.unwrap_or_else(|| "the old notes are still there".into());
            return Err(LiveError::Refused { subject: clip, reason, cure: "read the notes, then repeat once" }.into());
        }
        let mut steps = 1;
        for part in notes.chunks(NOTES_PER_DATAGRAM) {
            let mut arguments = at.map(OscType::Int).to_vec();
            for note in part {
                arguments.extend([OscType::Int(i32::from(note.pitch)), float(note.start_time), float(note.duration)]);
                arguments.extend([float(note.velocity), OscType::Bool(note.muted)]);
            }
            self.wire.batch(&[tell("/live/clip/add/notes", arguments)]).await?;
            steps += 1;
        }
        let now = self.notes_of(clip).await?;
        let starts = |notes: &[Note]| {
            let mut all: Vec<(u8, i64)> =
                notes.iter().map(|it| (it.pitch, (it.start_time * 1e4).round() as i64)).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        if starts(&now) != starts(notes) {
            let reason = format!("{} notes were written and {} are there now", notes.len(), now.len());
            return Err(LiveError::Refused {
                subject: clip,
                reason,
                cure: "read the notes with live_get_notes; live_undo brings the old ones back",
            }
            .into());
        }
        let written = NotesWritten {
            id: clip,
            name,
            count: now.len(),
            removed: before.len(),
            adjusted: notes.len().saturating_sub(now.len()),
        };
        let lost =
            "probability, velocity deviation and release velocity of the old notes were not readable and are gone"
                .to_owned();
        let warnings = if before.is_empty() { Vec::new() } else { vec![lost] };
        Ok((Outcome::Notes(written), vec![clip], steps, false, warnings))
    }

    async fn notes_of(&self, clip: PathId) -> Result<Vec<Note>, Refusal> {
        let (track, slot) = session_clip(clip)?;
        let mut arguments = vec![OscType::Int(index(track)), OscType::Int(index(slot))];
        arguments.extend(WHOLE_CLIP);
        let batch = self.wire.read(&[get_with("/live/clip/get/notes", arguments, 2)]).await?;
        let values = values(&batch, 0, clip, Listing::Clips)?;
        let note = |row: &[OscType]| {
            let at = |n: usize| row.get(n).and_then(number);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a pitch")]
            let pitch = at(0).filter(|it| (0.0..=127.0).contains(it))? as u8;
            let muted = row.get(4).and_then(truth)?;
            Some(Note { velocity: at(3)?, muted, ..Note::new(pitch, at(1)?, at(2)?) })
        };
        let mut notes: Vec<Note> = values.chunks_exact(5).filter_map(note).collect();
        notes.sort_by(|a, b| a.start_time.total_cmp(&b.start_time).then(a.pitch.cmp(&b.pitch)));
        Ok(notes)
    }

    async fn track_state(&self, id: PathId, n: i32) -> Result<TrackState, Refusal> {
        let asks =
            [get("/live/track/get/name", &[n]), get("/live/track/get/mute", &[n]), get("/live/track/get/solo", &[n])];
        let batch = self.wire.read(&asks).await?;
        // A track that cannot arm answers with an error, which would end the batch of the others.
        let can = self.wire.read(&[get("/live/track/get/can_be_armed", &[n])]).await?;
        let arm = if first(&can, 0, id, Listing::Tracks, truth)? {
            let batch = self.wire.read(&[get("/live/track/get/arm", &[n])]).await?;
            first(&batch, 0, id, Listing::Tracks, truth)?
        } else {
            false
        };
        let flag = |at| first(&batch, at, id, Listing::Tracks, truth);
        Ok(TrackState { id, name: first(&batch, 0, id, Listing::Tracks, text)?, mute: flag(1)?, solo: flag(2)?, arm })
    }

    async fn track_info(&self, id: PathId) -> Result<TrackInfo, Refusal> {
        let (n, row) = self.track(id)?;
        let state = self.track_state(id, n).await?;
        let asks = [
            get("/live/song/get/num_scenes", &[]),
            get("/live/track/get/num_devices", &[n]),
            get("/live/track/get/volume", &[n]),
            get("/live/track/get/panning", &[n]),
        ];
        let batch = self.wire.read(&asks).await?;
        let count = |at| first(&batch, at, id, Listing::Tracks, number).map(|it| it.max(0.0) as usize);
        let level = |at| first(&batch, at, id, Listing::Tracks, number);
        Ok(TrackInfo {
            id,
            kind: row.kind,
            name: state.name,
            mute: state.mute,
            solo: state.solo,
            muted_via_solo: false,
            arm: state.arm,
            clip_slot_count: count(0)?,
            arrangement_clip_count: 0,
            device_count: count(1)?,
            mixer: MixerInfo { volume: Some(level(2)?), panning: Some(level(3)?), send_count: 0 },
        })
    }

    async fn overview_now(&self) -> Result<Overview, Refusal> {
        let revision = self.look().await?;
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
        let count =
            |at: usize| batch.replies.get(at).and_then(|it| it.as_ref()).and_then(|it| it.first()).and_then(number);
        let tempo = first(&batch, 0, PathId::Main, Listing::Tracks, number)?;
        let scale_name = batch.replies.get(2).and_then(|it| it.as_ref()).and_then(|it| it.first()).and_then(text);
        let cues = batch.replies.get(4).and_then(|it| it.as_ref()).map_or(0, |it| it.len() / 2);
        let tracks = self.heard().tracks.clone();
        let scale_intervals =
            scale_name.as_deref().and_then(conductor_set::scale_intervals).unwrap_or_default().to_vec();
        Ok(Overview {
            tempo: Some(tempo),
            root_note: count(1).map(|it| it as u8),
            scale_name,
            scale_mode: None,
            scale_intervals,
            grid_quantization: None,
            grid_is_triplet: None,
            track_count: tracks.len(),
            return_track_count: None,
            scene_count: count(3).map_or(0, |it| it.max(0.0) as usize),
            cue_point_count: cues,
            tracks,
            time_signature: count(5).zip(count(6)).map(|(n, d)| format!("{n}/{d}")),
            revision,
            editable: true,
            unknown: vec!["scaleMode", "gridQuantization", "gridIsTriplet", "returnTrackCount"],
            warnings: Vec::new(),
        })
    }

    /// Where a parameter is written and read, with its indices.
    fn param_address(&self, path: PathId) -> Result<(&'static str, &'static str, Vec<OscType>), Refusal> {
        let PathId::OnTrack(track, TrackPart::Chain(part)) = path else {
            return Err(wrong(
                path,
                "a parameter of an ordinary track (track:N/device:M/param:P or track:N/mixer/volume)",
                Listing::Devices,
            ));
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

    async fn param(&self, path: PathId) -> Result<Param, Refusal> {
        if let PathId::OnTrack(track, TrackPart::Chain(ChainPart::Param(device, param))) = path {
            let all = self.device_params(PathId::Track(track), track, device).await?;
            return all.into_iter().nth(param as usize).ok_or_else(|| gone(path, Listing::Devices).into());
        }
        let (_, read, arguments) = self.param_address(path)?;
        let echo = arguments.len();
        let batch = self.wire.read(&[get_with(read, arguments, echo)]).await?;
        let value = first(&batch, 0, path, Listing::Devices, number)?;
        let (name, low) = if read.ends_with("panning") {
            ("Panning", -1.0)
        } else if read.ends_with("send") {
            ("Send", 0.0)
        } else {
            ("Volume", 0.0)
        };
        Ok(mixer_param(path, name, low, value))
    }

    async fn device_params(&self, owner: PathId, track: u32, device: u32) -> Result<Vec<Param>, Refusal> {
        let at = [index(track), index(device)];
        let asks = [
            get("/live/device/get/parameters/name", &at),
            get("/live/device/get/parameters/min", &at),
            get("/live/device/get/parameters/max", &at),
            get("/live/device/get/parameters/is_quantized", &at),
            get("/live/device/get/parameters/value", &at),
        ];
        let batch = self.wire.read(&asks).await?;
        let column = |n| values(&batch, n, owner, Listing::Devices);
        let (names, lows, highs, steps, now) = (column(0)?, column(1)?, column(2)?, column(3)?, column(4)?);
        let at = |list: &[OscType], n: usize| list.get(n).and_then(number).unwrap_or(0.0);
        Ok(names
            .iter()
            .enumerate()
            .map(|(n, name)| Param {
                id: PathId::OnTrack(
                    track,
                    TrackPart::Chain(ChainPart::Param(device, u32::try_from(n).unwrap_or(u32::MAX))),
                ),
                name: text(name).unwrap_or_default(),
                min: at(&lows, n),
                max: at(&highs, n),
                is_quantized: steps.get(n).and_then(truth).unwrap_or(false),
                default_value: None,
                value: at(&now, n),
                unit: Unit::Live,
                display: at(&now, n).to_string(),
                range_source: RangeSource::Host,
                automated: false,
            })
            .collect())
    }

    async fn devices_now(&self, path: PathId) -> Result<Devices, Refusal> {
        self.look().await?;
        let (n, _) = self.track(path)?;
        let track = track_of(path)?;
        let asks = [
            get("/live/track/get/devices/name", &[n]),
            get("/live/track/get/devices/class_name", &[n]),
            get("/live/track/get/volume", &[n]),
            get("/live/track/get/panning", &[n]),
        ];
        let batch = self.wire.read(&asks).await?;
        let (names, classes) = (values(&batch, 0, path, Listing::Devices)?, values(&batch, 1, path, Listing::Devices)?);
        let mut devices = Vec::new();
        let (mut left, mut cut) = (PAGE, false);
        for (d, name) in (0_u32..).zip(&names) {
            let mut params = self.device_params(path, track, d).await?;
            cut |= params.len() > left;
            params.truncate(left);
            left -= params.len();
            devices.push(Device {
                id: PathId::OnTrack(track, TrackPart::Chain(ChainPart::Device(d))),
                name: text(name).unwrap_or_default(),
                class_name: classes.get(d as usize).and_then(text).unwrap_or_default(),
                is_on: params.first().map(|it| it.value != 0.0),
                params,
            });
        }
        let on = |part| PathId::OnTrack(track, TrackPart::Chain(part));
        let level = |at| first(&batch, at, path, Listing::Devices, number);
        let mixer = vec![
            mixer_param(on(ChainPart::Volume), "Volume", 0.0, level(2)?),
            mixer_param(on(ChainPart::Panning), "Panning", -1.0, level(3)?),
        ];
        Ok(Devices {
            track_id: path,
            devices,
            mixer,
            truncated: cut.then_some(true),
            unknown: vec!["defaultValue", "automated", "sends"],
        })
    }

    async fn clips_now(&self, path: PathId, offset: usize) -> Result<Clips, Refusal> {
        self.look().await?;
        let (n, row) = self.track(path)?;
        let track = track_of(path)?;
        let kind = match row.kind {
            TrackKind::Midi => ClipKind::Midi,
            TrackKind::Audio => ClipKind::Audio,
            TrackKind::Group => {
                return Ok(Clips {
                    track_id: path,
                    session: Vec::new(),
                    arrangement: Vec::new(),
                    truncated: None,
                    next_offset: None,
                });
            }
        };
        let slots = vec![OscType::Int(n), OscType::Int(n + 1), OscType::String("clip.name".into())];
        let asks = [
            get_with("/live/song/get/track_data", slots, 0),
            get("/live/track/get/arrangement_clips/name", &[n]),
            get("/live/track/get/arrangement_clips/start_time", &[n]),
            get("/live/track/get/arrangement_clips/length", &[n]),
        ];
        let batch = self.wire.read(&asks).await?;
        let column = |at| values(&batch, at, path, Listing::Clips);
        let (names, arranged, starts, lengths) = (column(0)?, column(1)?, column(2)?, column(3)?);
        let session = (0_u32..).zip(&names).skip(offset).take(PAGE).map(|(slot, name)| {
            let (slot_id, clip) =
                (PathId::OnTrack(track, TrackPart::Slot(slot)), PathId::OnTrack(track, TrackPart::SlotClip(slot)));
            match text(name) {
                Some(name) => SlotRow { slot_id, clip_id: Some(clip), name: Some(name), kind },
                None => SlotRow { slot_id, clip_id: None, name: None, kind: ClipKind::Empty },
            }
        });
        let at = |list: &[OscType], n: usize| list.get(n).and_then(number).unwrap_or(0.0);
        let arrangement = arranged.iter().enumerate().skip(offset).take(PAGE).map(|(c, name)| ArrangementRow {
            clip_id: PathId::OnTrack(track, TrackPart::Clip(u32::try_from(c).unwrap_or(u32::MAX))),
            name: text(name).unwrap_or_default(),
            start_beat: at(&starts, c),
            end_beat: at(&starts, c) + at(&lengths, c),
            kind,
        });
        let more = names.len().max(arranged.len()) > offset.saturating_add(PAGE);
        Ok(Clips {
            track_id: path,
            session: session.collect(),
            arrangement: arrangement.collect(),
            truncated: more.then_some(true),
            next_offset: more.then_some(offset + PAGE),
        })
    }

    async fn scenes_now(&self) -> Result<Scenes, Refusal> {
        let asks = [get("/live/song/get/scenes/name", &[]), get("/live/song/get/cue_points", &[])];
        let batch = self.wire.read(&asks).await?;
        let names = values(&batch, 0, PathId::Main, Listing::Tracks)?;
        let cues = values(&batch, 1, PathId::Main, Listing::Tracks)?;
        let mut scenes = Vec::new();
        for (n, name) in (0_u32..).zip(&names) {
            let batch = self.wire.read(&[get("/live/scene/get/is_empty", &[index(n)])]).await?;
            let is_empty = first(&batch, 0, PathId::Scene(n), Listing::Tracks, truth)?;
            scenes.push(Scene {
                id: PathId::Scene(n),
                name: text(name).unwrap_or_default(),
                tempo: None,
                time_signature: None,
                is_empty,
            });
        }
        let cue = |(n, row): (u32, &[OscType])| CuePoint {
            id: PathId::CuePoint(n),
            name: row.first().and_then(text).unwrap_or_default(),
            beat: row.get(1).and_then(number).unwrap_or(0.0),
        };
        Ok(Scenes { scenes, cue_points: (0..).zip(cues.chunks_exact(2)).map(cue).collect() })
    }

    async fn launch_now(&self, id: PathId) -> Result<&'static str, Refusal> {
        let write = match id {
            PathId::OnTrack(track, TrackPart::Slot(slot) | TrackPart::SlotClip(slot)) => {
                tell("/live/clip_slot/fire", vec![OscType::Int(index(track)), OscType::Int(index(slot))])
            }
            PathId::Scene(n) => tell("/live/scene/fire", vec![OscType::Int(index(n))]),
            PathId::Track(_)
            | PathId::OnTrack(..)
            | PathId::Return(_)
            | PathId::OnReturn(..)
            | PathId::Main
            | PathId::OnMain(_)
            | PathId::CuePoint(_) => return Err(wrong(id, "a slot, a session clip or a scene", Listing::Clips)),
        };
        let batch = self.wire.batch(&[write]).await?;
        match batch.error {
            None => Ok("fired"),
            Some(error) if error.contains("Index out of range") => Err(gone(id, Listing::Clips).into()),
            Some(reason) => {
                Err(LiveError::Refused { subject: id, reason, cure: "list the clips, then repeat once" }.into())
            }
        }
    }

    async fn transport_now(&self, action: Transport, beat: Option<f64>) -> Result<Playing, Refusal> {
        if let Some(beat) = beat {
            self.wire.batch(&[tell("/live/song/set/current_song_time", vec![float(beat)])]).await?;
        }
        let write = match action {
            Transport::Play => tell("/live/song/start_playing", Vec::new()),
            Transport::Stop => tell("/live/song/stop_playing", Vec::new()),
            Transport::Continue => tell("/live/song/continue_playing", Vec::new()),
            Transport::StopClips => tell("/live/song/stop_all_clips", Vec::new()),
            Transport::RecordOn => tell("/live/song/set/record_mode", vec![OscType::Int(1)]),
            Transport::RecordOff => tell("/live/song/set/record_mode", vec![OscType::Int(0)]),
        };
        let asks = [
            write,
            get("/live/song/get/is_playing", &[]),
            get("/live/song/get/current_song_time", &[]),
            get("/live/song/get/tempo", &[]),
        ];
        let batch = self.wire.batch(&asks).await?;
        let at = |n| first(&batch, n, PathId::Main, Listing::Tracks, number);
        Ok(Playing { is_playing: at(1)? != 0.0, beat: at(2)?, tempo: at(3)? })
    }
}

fn mixer_param(id: PathId, name: &str, low: f64, value: f64) -> Param {
    Param {
        id,
        name: name.into(),
        min: low,
        max: 1.0,
        is_quantized: false,
        default_value: None,
        value,
        unit: if low < 0.0 { Unit::Pan } else { Unit::Live },
        display: value.to_string(),
        range_source: RangeSource::Host,
        automated: false,
    }
}

impl LiveHost for AbletonOscHost {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn state(&self) -> State {
        let heard = self.heard();
        State {
            host: NAME,
            path: None,
            dirty: false,
            revision: heard.revision.map(|it| it.to_string()).unwrap_or_default(),
            structure: heard.structure,
        }
    }

    fn overview(&self) -> Answer<'_, Overview> {
        Box::pin(self.overview_now())
    }

    fn find_track(&self, query: String) -> Answer<'_, TrackMatches> {
        Box::pin(async move {
            self.look().await?;
            let wanted = query.to_lowercase();
            let matches: Vec<TrackRow> =
                self.heard().tracks.iter().filter(|it| it.name.to_lowercase().contains(&wanted)).cloned().collect();
            Ok(TrackMatches { count: matches.len(), matches })
        })
    }

    fn clips(&self, track: PathId, offset: usize) -> Answer<'_, Clips> {
        Box::pin(self.clips_now(track, offset))
    }

    fn notes(&self, clip: PathId, query: NoteQuery) -> Answer<'_, Notes> {
        Box::pin(async move {
            let inside = |it: &Note| {
                query.from_beat.is_none_or(|from| it.start_time >= from)
                    && query.to_beat.is_none_or(|to| it.start_time < to)
            };
            let notes: Vec<Note> = self.notes_of(clip).await?.into_iter().filter(inside).collect();
            let count = notes.len();
            if query == NoteQuery::default() && count > PAGE {
                let pitches = notes.iter().map(|it| it.pitch);
                let summary = NoteSummary {
                    pitch_range: [pitches.clone().min().unwrap_or(0), pitches.max().unwrap_or(0)],
                    span_beats: notes.iter().map(Note::end).fold(0.0, f64::max),
                };
                let first_notes = notes.into_iter().take(conductor_set::FIRST_NOTES).collect();
                return Ok(Notes::Summary { clip_id: clip, count, summary, first_notes, truncated: true });
            }
            let offset = query.offset.unwrap_or(0);
            let next_offset = (count > offset.saturating_add(PAGE)).then(|| offset + PAGE);
            Ok(Notes::Listed {
                clip_id: clip,
                count,
                notes: notes.into_iter().skip(offset).take(PAGE).collect(),
                next_offset,
            })
        })
    }

    fn devices(&self, chain: PathId) -> Answer<'_, Devices> {
        Box::pin(self.devices_now(chain))
    }

    fn scenes(&self) -> Answer<'_, Scenes> {
        Box::pin(self.scenes_now())
    }

    fn track_detail(&self, track: PathId) -> Answer<'_, TrackDetail> {
        Box::pin(std::future::ready(Err(cannot(
            track,
            "a track in full is not read over AbletonOSC; list its clips and devices",
        ))))
    }

    fn draw_clip(&self, clip: PathId, _: u32) -> Answer<'_, ClipDrawing> {
        Box::pin(std::future::ready(Err(cannot(clip, "clips of a running Live are not drawn"))))
    }

    fn write(self: Arc<Self>, turn: Turn, edits: Vec<LiveEdit>, guard: Guard, mode: Mode) -> Answer<'static, Applied> {
        Box::pin(async move {
            let _turn = turn;
            if mode == Mode::Preview {
                return Err(Refusal::Missing { host: NAME, reason: "a change cannot be tried out in a running Live" });
            }
            self.admit(&guard, edits.iter().any(LiveEdit::is_positional)).await?;
            let (mut outcomes, mut changed, mut undo_steps, mut shifted, mut warnings) =
                (Vec::new(), Vec::new(), 0, false, Vec::new());
            for edit in &edits {
                let done = self.make(edit).await?;
                outcomes.push(done.0);
                changed.extend(done.1);
                undo_steps += done.2;
                shifted |= done.3;
                warnings.extend(done.4);
            }
            let revision = self.look_after(&guard, shifted).await?;
            let diff = Diff { changes: Vec::new(), count: 0, text: String::new() };
            Ok(Applied { outcomes, undo_steps, revision, changed, warnings, shifted, diff })
        })
    }

    fn step(self: Arc<Self>, turn: Turn, way: Way, steps: u32, guard: Guard, mode: Mode) -> Answer<'static, History> {
        Box::pin(async move {
            let _turn = turn;
            if mode == Mode::Preview {
                return Err(Refusal::Missing { host: NAME, reason: "undo cannot be tried out in a running Live" });
            }
            self.admit(&guard, false).await?;
            let (write, can) = match way {
                Way::Undo => ("/live/song/undo", "/live/song/get/can_undo"),
                Way::Redo => ("/live/song/redo", "/live/song/get/can_redo"),
            };
            let mut count = 0;
            for _ in 0..steps {
                let batch = self.wire.read(&[get(can, &[])]).await?;
                if !first(&batch, 0, PathId::Main, Listing::Tracks, truth)? {
                    break;
                }
                self.wire.batch(&[tell(write, Vec::new())]).await?;
                count += 1;
            }
            let asks = [get("/live/song/get/can_undo", &[]), get("/live/song/get/can_redo", &[])];
            let batch = self.wire.read(&asks).await?;
            let flag = |at| first(&batch, at, PathId::Main, Listing::Tracks, truth);
            // What the list held is not known, so any index may have moved.
            let revision = self.look_after(&guard, count > 0).await?;
            let stepped = Stepped {
                count,
                labels: Vec::new(),
                can_undo: flag(0)?,
                can_redo: flag(1)?,
                revision,
                shifted: count > 0,
            };
            let tracks = u32::try_from(self.heard().tracks.len()).unwrap_or(u32::MAX);
            let diff = Diff { changes: Vec::new(), count: 0, text: String::new() };
            Ok(History { stepped, diff, tracks, warnings: vec![FOREIGN_UNDO.into()] })
        })
    }

    fn launch(&self, id: PathId) -> Answer<'_, &'static str> {
        Box::pin(self.launch_now(id))
    }

    fn transport(&self, action: Transport, beat: Option<f64>) -> Answer<'_, Playing> {
        Box::pin(self.transport_now(action, beat))
    }

    fn known_ids(&self) -> KnownIds {
        KnownIds { tracks: u32::try_from(self.heard().tracks.len()).unwrap_or(u32::MAX), midi_clips: Vec::new() }
    }

    fn document(self: Arc<Self>) -> Option<Arc<super::document::DocumentHost>> {
        None
    }
}
