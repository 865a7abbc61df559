//! The host of a running Live through Conductor's script. It supports every field of a note except
//! `selected`, Live's undo steps, devices, and events for changes by the person.
//!
//! The script runs on Live's main thread and reports results. This module checks the preconditions
//! of writes, computes revisions and converts the data. Not here: the script itself
//! (`bridges/live`), the connection (`line`), and the file with the script's address
//! (`rendezvous`). Tested with a strict fake, not with a running Live.

pub mod line;
pub mod rendezvous;

use super::contents::{ABSENT, Contents, Facet};
use super::shared::{FOREIGN_UNDO, OnChange, caps, known_ids, made, no_diff, refuse_preview, track_of, unsure};
use super::write_turn::Turn;
use super::{Answer, Caps, History, KnownIds, LiveHost, LiveHostError, Mode, Playing, State, Transport, Way, blocking};
use crate::picture::piano_roll::{self, ClipDrawing};
use conductor_set::{
    Applied, ArrangementRow, ClipInfo, ClipKind, Clips, Device, Devices, Guard, LiveEdit, LiveError, Location, Note,
    NoteQuery, Notes, Outcome, Overview, Param, ParamWritten, PathId, Revision, Scenes, Shifts, SlotRow, Stepped,
    TrackDetail, TrackKind, TrackMatches, TrackPart, TrackRow, TrackState,
};
use line::{Event, Greeting, Hear, Line, Reply};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

pub const NAME: &str = "script";
/// Maximum numbers of clips and notes that an overview reads for the revision. They are limited,
/// because the reads run on Live's main thread.
const SURVEYED_CLIPS: usize = 64;
const SURVEYED_NOTES: usize = 4000;
/// Facts that scripts in Live cannot read.
const SONG_UNKNOWN: [&str; 2] = ["gridQuantization", "gridIsTriplet"];

/// The `[live.script]` section of the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Conductor's home folder, which contains the rendezvous file.
    pub home: PathBuf,
    pub timeout: Duration,
}

/// The state of Live as last reported.
struct Heard {
    greeting: Greeting,
    epoch: u64,
    /// Digest of the fingerprint.
    structure: Revision,
    contents: Contents,
    known: KnownIds,
    shifts: Shifts,
}

impl Heard {
    fn revision(&self) -> Revision {
        self.contents.revision(self.structure)
    }
}

pub struct ScriptHost {
    settings: Settings,
    caps: Caps,
    line: tokio::sync::Mutex<Arc<Line>>,
    heard: Mutex<Heard>,
    on_change: OnChange,
    me: Weak<ScriptHost>,
}

/// The tempo, and for each track: name, type, clip name per slot, start times of arrangement clips,
/// and device names.
type Fingerprint = (f64, Vec<(String, TrackKind, Vec<Option<String>>, Vec<f64>, Vec<String>)>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Song {
    tempo: f64,
    root_note: u8,
    scale_name: String,
    scale_mode: bool,
    scale_intervals: Vec<u8>,
    time_signature: String,
    return_track_count: usize,
    scene_count: usize,
    cue_point_count: usize,
    tracks: Vec<TrackRow>,
}

#[derive(Deserialize)]
struct TrackClips {
    slots: u32,
    clips: Vec<ClipInfo>,
}

#[derive(Deserialize)]
struct Chain {
    devices: Vec<Device>,
    mixer: Vec<Param>,
}

#[derive(Deserialize)]
struct WrittenParam {
    #[serde(flatten)]
    param: Param,
    previous: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Steps {
    count: u32,
    can_undo: bool,
    can_redo: bool,
}

#[derive(Deserialize)]
struct Mark {
    mark: String,
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, LiveHostError> {
    serde_json::from_value(value)
        .map_err(|fault| LiveHostError::Offline { host: NAME, reason: format!("a reply is not valid: {fault}") })
}

impl ScriptHost {
    pub async fn attach(settings: Settings, on_change: OnChange) -> Result<Arc<ScriptHost>, LiveHostError> {
        let host: Arc<OnceLock<Weak<ScriptHost>>> = Arc::default();
        let (line, greeting) = meet(&settings, hear(Arc::clone(&host))).await?;
        let fingerprint: Fingerprint = read(line.ask("fingerprint", json!({})).await?.result["fingerprint"].take())?;
        let heard = Heard {
            epoch: greeting.epoch,
            greeting,
            structure: structure(&fingerprint),
            contents: Contents::default(),
            known: known(&fingerprint),
            shifts: Shifts::default(),
        };
        let made = Arc::new_cyclic(|me| ScriptHost {
            settings,
            caps: caps("scripts in Live cannot render"),
            line: tokio::sync::Mutex::new(Arc::new(line)),
            heard: Mutex::new(heard),
            on_change,
            me: Weak::clone(me),
        });
        let _ = host.set(Arc::downgrade(&made));
        Ok(made)
    }

    pub fn greeting(&self) -> Greeting {
        self.heard().greeting.clone()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock()
    }

    /// The connection, which is opened again if it was closed. After a reconnect another Set may be
    /// open, so every session must read again.
    async fn line(&self) -> Result<Arc<Line>, LiveHostError> {
        let mut line = self.line.lock().await;
        if line.has_ended() {
            let (again, greeting) = meet(&self.settings, hear(Arc::new(OnceLock::from(Weak::clone(&self.me))))).await?;
            *line = Arc::new(again);
            {
                let mut heard = self.heard();
                heard.epoch = greeting.epoch;
                heard.greeting = greeting;
                heard.shifts.foreign();
                heard.contents.forget();
            }
            (self.on_change)(&[], true);
        }
        Ok(Arc::clone(&line))
    }

    async fn ask(&self, op: &str, body: Value) -> Result<Reply, LiveHostError> {
        self.line().await?.ask(op, body).await
    }

    async fn get<T: DeserializeOwned>(&self, op: &str, body: Value) -> Result<T, LiveHostError> {
        read(self.ask(op, body).await?.result)
    }

    fn note(&self, fingerprint: &Fingerprint) -> Revision {
        let mut heard = self.heard();
        heard.structure = structure(fingerprint);
        heard.known = known(fingerprint);
        heard.revision()
    }

    async fn look(&self) -> Result<Revision, LiveHostError> {
        let fingerprint: Fingerprint = read(self.ask("fingerprint", json!({})).await?.result["fingerprint"].take())?;
        Ok(self.note(&fingerprint))
    }

    async fn overview_now(&self) -> Result<Overview, LiveHostError> {
        let song: Song = self.get("overview", json!({})).await?;
        let revision = self.heard().revision();
        Ok(Overview {
            tempo: Some(song.tempo),
            root_note: Some(song.root_note),
            scale_name: Some(song.scale_name),
            scale_mode: Some(song.scale_mode),
            scale_intervals: song.scale_intervals,
            grid_quantization: None,
            grid_is_triplet: None,
            track_count: song.tracks.len(),
            return_track_count: Some(song.return_track_count),
            scene_count: song.scene_count,
            cue_point_count: song.cue_point_count,
            tracks: song.tracks,
            time_signature: Some(song.time_signature),
            revision,
            editable: true,
            unknown: SONG_UNKNOWN.into(),
            warnings: Vec::new(),
        })
    }

    async fn track_clips(&self, track: PathId) -> Result<TrackClips, LiveHostError> {
        track_of(track)?;
        self.get("clips", json!({ "trackId": track })).await
    }

    async fn all_notes(&self, clip: PathId) -> Result<Vec<Note>, LiveHostError> {
        #[derive(Deserialize)]
        struct All {
            notes: Vec<Note>,
            // Scripts that an earlier version installed do not send a mark.
            mark: Option<String>,
        }
        let All { notes, mark } = self.get("notes", json!({ "clipId": clip })).await?;
        if let Some(mark) = mark {
            self.heard().contents.read(Facet::Notes, clip, &mark);
        }
        Ok(notes)
    }

    /// Reads the note marks (digests of the notes) of the first clips, so that the revision of an
    /// overview covers them.
    async fn survey(&self) -> Result<(), LiveHostError> {
        #[derive(Deserialize)]
        struct All {
            marks: BTreeMap<String, String>,
        }
        let most = json!({ "clips": SURVEYED_CLIPS, "notes": SURVEYED_NOTES });
        let marks = match self.get("marks", most).await {
            Ok(All { marks }) => marks,
            Err(LiveHostError::Said { .. }) => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        let mut heard = self.heard();
        for (id, mark) in marks {
            if let Ok(id) = id.parse() {
                heard.contents.read(Facet::Notes, id, &mark);
            }
        }
        Ok(())
    }

    /// The current state of an object, as text for comparison.
    async fn state_of(&self, facet: Facet, id: PathId) -> Result<String, LiveHostError> {
        Ok(match facet {
            Facet::Notes => self.get::<Mark>("mark", json!({ "clipId": id })).await?.mark,
            Facet::Clip => format!("{:?}", self.get::<ClipInfo>("clip", json!({ "clipId": id })).await?),
            Facet::Param => format!("{:?}", self.get::<Param>("param", json!({ "paramId": id })).await?.value),
            Facet::Track => format!("{:?}", self.get::<TrackState>("track", json!({ "trackId": id })).await?),
        })
    }

    /// If the caller expects a revision, reads the objects of the edits again. A changed object
    /// changes the revision. Returns the marks of the clips; the script compares them again right
    /// before the write.
    async fn observe(&self, guard: &Guard, edits: &[LiveEdit]) -> Result<BTreeMap<PathId, String>, LiveHostError> {
        let mut marks = BTreeMap::new();
        if guard.expect_revision.is_none() {
            return Ok(marks);
        }
        let touched: Vec<(Facet, PathId)> = {
            let heard = self.heard();
            edits.iter().flat_map(|it| heard.contents.touched_by(it)).collect()
        };
        for (facet, id) in touched {
            if let Some(state) = self.read_again(facet, id).await?
                && facet == Facet::Notes
            {
                marks.insert(id, state);
            }
        }
        Ok(marks)
    }

    /// Reads the state of an object again; `None` if the object does not exist.
    async fn read_again(&self, facet: Facet, id: PathId) -> Result<Option<String>, LiveHostError> {
        let state = match self.state_of(facet, id).await {
            Ok(state) => Some(state),
            Err(LiveHostError::Said { .. }) => None,
            Err(refusal) => return Err(refusal),
        };
        self.heard().contents.read(facet, id, state.as_deref().unwrap_or(ABSENT));
        Ok(state)
    }

    /// Reads the properties that are not known yet. This must happen before the write, because the
    /// reply to a write contains only the new state.
    async fn read_first(&self, edits: &[LiveEdit]) -> Result<(), LiveHostError> {
        for edit in edits {
            let (facet, id) = match edit {
                LiveEdit::SetClipProps { clip_id, .. } => (Facet::Clip, *clip_id),
                LiveEdit::SetTrackProps { track_id, .. } => (Facet::Track, *track_id),
                LiveEdit::SetTempo { .. }
                | LiveEdit::ReplaceNotes { .. }
                | LiveEdit::CreateTrack { .. }
                | LiveEdit::CreateMidiClip { .. }
                | LiveEdit::SetParam { .. }
                | LiveEdit::InsertDevice { .. }
                | LiveEdit::DeleteClip { .. }
                | LiveEdit::DeleteTrack { .. } => continue,
            };
            if !self.heard().contents.knows(facet, id) {
                self.read_again(facet, id).await?;
            }
        }
        Ok(())
    }

    /// Records the values that were read. Automated values change constantly, so they are left out.
    fn params_were_read(&self, chain: &Chain) {
        let mut heard = self.heard();
        for param in chain.devices.iter().flat_map(|it| &it.params).chain(&chain.mixer) {
            if param.automated != Some(true) {
                heard.contents.read(Facet::Param, param.id, &format!("{:?}", param.value));
            }
        }
    }

    async fn chain(&self, track: PathId) -> Result<Chain, LiveHostError> {
        let chain: Chain = self.get("devices", json!({ "trackId": track })).await?;
        self.params_were_read(&chain);
        Ok(chain)
    }

    /// Records the state of each object after Conductor's own write.
    fn note_writes(&self, outcomes: &[Outcome], marks: &BTreeMap<PathId, [String; 2]>) {
        let mut heard = self.heard();
        let contents = &mut heard.contents;
        for (id, [before, now]) in marks {
            contents.wrote(Facet::Notes, *id, before, now);
        }
        for outcome in outcomes {
            match outcome {
                // `read_first` already recorded the state before the write, so `ABSENT` is ignored
                // here.
                Outcome::Clip(it) => contents.wrote(Facet::Clip, it.id, ABSENT, &format!("{it:?}")),
                Outcome::Track(it) => contents.wrote(Facet::Track, it.id, ABSENT, &format!("{it:?}")),
                Outcome::Param(it) => {
                    let (before, now) = (format!("{:?}", it.previous), format!("{:?}", it.param.value));
                    contents.wrote(Facet::Param, it.param.id, &before, &now);
                }
                Outcome::Deleted(it) => {
                    for id in &it.deleted {
                        contents.deleted(Facet::Notes, *id);
                        contents.deleted(Facet::Clip, *id);
                    }
                }
                Outcome::Notes(_)
                | Outcome::ClipCreated(_)
                | Outcome::Tempo(_)
                | Outcome::TrackCreated(_)
                | Outcome::Device(_) => {}
            }
        }
    }

    /// Checks the preconditions of a write. Returns the epoch (a count of id shifts) and the marks
    /// (digests of notes). The script compares both again right before the write.
    async fn admit(&self, guard: &Guard, edits: &[LiveEdit]) -> Result<Value, LiveHostError> {
        let marks = self.observe(guard, edits).await?;
        // Events for the person's changes arrive on the same connection before the reply to this
        // read.
        let actual = self.look().await?;
        if let Some(expected) = guard.expect_revision.clone().filter(|it| *it != actual.to_string()) {
            return Err(LiveError::RevisionDiffers { expected, actual }.into());
        }
        let heard = self.heard();
        heard.shifts.admit(guard, edits.iter().any(LiveEdit::is_positional))?;
        let positional = guard.seen.is_some() && edits.iter().any(LiveEdit::is_positional);
        let mut body = json!({ "expectMarks": marks });
        if positional {
            body["expectEpoch"] = json!(heard.epoch);
        }
        Ok(body)
    }

    /// Processes the reply to Conductor's own write: returns the new revision, and whether ids
    /// shifted.
    fn wrote(&self, reply: &mut Reply, guard: &Guard) -> Result<(Revision, bool), LiveHostError> {
        let fingerprint: Fingerprint = read(reply.result["fingerprint"].take())?;
        let revision = self.note(&fingerprint);
        let mut heard = self.heard();
        let shifted = heard.epoch != reply.epoch;
        if shifted {
            heard.epoch = reply.epoch;
            heard.shifts.ours(guard);
        }
        Ok((revision, shifted))
    }

    fn heard_event(&self, event: &Event) {
        let subject: Option<PathId> = event.subject.parse().ok();
        let shifted = event.what == "structure";
        if shifted {
            let mut heard = self.heard();
            if heard.epoch == event.epoch {
                return;
            }
            heard.epoch = event.epoch;
            heard.shifts.foreign();
            heard.contents.forget();
        }
        (self.on_change)(subject.as_slice(), shifted);
    }

    async fn outcome(&self, edit: &LiveEdit, value: Value) -> Result<Outcome, LiveHostError> {
        Ok(match edit {
            LiveEdit::SetTempo { .. } => Outcome::Tempo(self.overview_now().await?),
            LiveEdit::SetTrackProps { .. } => Outcome::Track(read(value)?),
            LiveEdit::ReplaceNotes { .. } => Outcome::Notes(read(value)?),
            LiveEdit::CreateTrack { .. } => Outcome::TrackCreated(read(value)?),
            LiveEdit::CreateMidiClip { .. } => Outcome::ClipCreated(read(value)?),
            LiveEdit::SetParam { .. } => {
                let WrittenParam { param, previous } = read(value)?;
                Outcome::Param(ParamWritten { param, previous, unknown: Vec::new() })
            }
            LiveEdit::InsertDevice { .. } => Outcome::Device(read(value)?),
            LiveEdit::SetClipProps { .. } => Outcome::Clip(read(value)?),
            LiveEdit::DeleteClip { .. } | LiveEdit::DeleteTrack { .. } => Outcome::Deleted(read(value)?),
        })
    }
}

async fn meet(settings: &Settings, hear: Hear) -> Result<(Line, Greeting), LiveHostError> {
    let home = settings.home.clone();
    let met = blocking(move || rendezvous::read(&home).map_err(LiveHostError::from)).await?;
    Line::open(&met, settings.timeout, hear).await
}

/// Creates the event handler. The connection exists before the host, so the host is set later.
fn hear(host: Arc<OnceLock<Weak<ScriptHost>>>) -> Hear {
    Arc::new(move |event| {
        if let Some(host) = host.get().and_then(Weak::upgrade) {
            host.heard_event(event);
        }
    })
}

fn structure(fingerprint: &Fingerprint) -> Revision {
    Revision::of_state(&format!("{fingerprint:?}"))
}

fn known(fingerprint: &Fingerprint) -> KnownIds {
    known_ids(fingerprint.1.iter().map(|(name, kind, slots, ..)| (*kind, name.as_str(), slots.as_slice())))
}

/// All slots, including empty ones, then the arrangement clips.
fn with_empty_slots(track: PathId, found: TrackClips) -> Result<Vec<ClipInfo>, LiveHostError> {
    let n = track_of(track)?;
    let (session, arrangement): (Vec<ClipInfo>, Vec<ClipInfo>) =
        found.clips.into_iter().partition(|it| it.location == Location::Session);
    let mut session = session.into_iter().peekable();
    let mut all = Vec::new();
    for slot in 0..found.slots {
        let id = PathId::OnTrack(n, TrackPart::Slot(slot));
        all.push(session.next_if(|it| it.slot_id == Some(id)).unwrap_or_else(|| ClipInfo::empty(id)));
    }
    all.extend(arrangement);
    Ok(all)
}

impl LiveHost for ScriptHost {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn state(&self) -> State {
        let heard = self.heard();
        State {
            host: NAME,
            path: None,
            dirty: false,
            revision: heard.revision().to_string(),
            structure: heard.shifts.count(),
        }
    }

    fn refresh(&self) -> Answer<'_, ()> {
        // Events for the person's moves arrive on the connection before the reply to this read.
        Box::pin(async move { self.look().await.map(drop) })
    }

    fn overview(&self) -> Answer<'_, Overview> {
        Box::pin(async move {
            self.survey().await?;
            self.overview_now().await
        })
    }

    fn find_track(&self, query: String) -> Answer<'_, TrackMatches> {
        Box::pin(async move {
            let song: Song = self.get("overview", json!({})).await?;
            Ok(TrackMatches::find(song.tracks.into_iter(), &query)?)
        })
    }

    fn clips(&self, track: PathId, offset: usize) -> Answer<'_, Clips> {
        Box::pin(async move {
            let all = with_empty_slots(track, self.track_clips(track).await?)?;
            let (mut session, mut arrangement) = (Vec::new(), Vec::new());
            for clip in all {
                match (clip.location, clip.slot_id) {
                    (Location::Session, Some(slot_id)) => {
                        let filled = clip.kind != ClipKind::Empty;
                        let (clip_id, name) = (filled.then_some(clip.id), filled.then_some(clip.name));
                        session.push(SlotRow { slot_id, clip_id, name, kind: clip.kind });
                    }
                    (Location::Session | Location::Arrangement, _) => arrangement.push(ArrangementRow {
                        clip_id: clip.id,
                        name: clip.name,
                        start_beat: clip.start_time,
                        end_beat: clip.end_time,
                        kind: clip.kind,
                    }),
                }
            }
            Ok(Clips::page(track, session, arrangement, offset))
        })
    }

    fn notes(&self, clip: PathId, query: NoteQuery) -> Answer<'_, Notes> {
        Box::pin(async move { Ok(Notes::answer(clip, self.all_notes(clip).await?, query)?) })
    }

    fn devices(&self, chain: PathId) -> Answer<'_, Devices> {
        Box::pin(async move {
            let found = self.chain(chain).await?;
            Ok(Devices::capped(chain, found.devices, found.mixer, Vec::new()))
        })
    }

    fn scenes(&self) -> Answer<'_, Scenes> {
        Box::pin(self.get("scenes", json!({})))
    }

    fn track_detail(&self, track: PathId) -> Answer<'_, TrackDetail> {
        Box::pin(async move {
            let clips = with_empty_slots(track, self.track_clips(track).await?)?;
            for clip in clips.iter().filter(|it| it.kind != ClipKind::Empty) {
                self.heard().contents.read(Facet::Clip, clip.id, &format!("{clip:?}"));
            }
            let found = self.chain(track).await?;
            Ok(TrackDetail::capped(track, clips, found.devices, found.mixer, Vec::new()))
        })
    }

    fn draw_clip(&self, clip: PathId, width: u32) -> Answer<'_, ClipDrawing> {
        Box::pin(async move {
            let notes = self.all_notes(clip).await?;
            let info: ClipInfo = self.get("clip", json!({ "clipId": clip })).await?;
            let song: Song = self.get("overview", json!({})).await?;
            let signature = song.time_signature.split_once('/');
            let signature = signature.and_then(|(n, d)| Some((n.parse().ok()?, d.parse().ok()?))).unwrap_or((4, 4));
            let track = clip.track().and_then(|n| song.tracks.get(n as usize)).map_or("", |it| &it.name);
            Ok(piano_roll::draw(&info, track, &notes, signature, width)?)
        })
    }

    fn param(&self, id: PathId) -> Answer<'_, Param> {
        Box::pin(self.get("param", json!({ "paramId": id })))
    }

    fn param_values(&self, ids: Vec<PathId>) -> Answer<'_, Vec<Option<f64>>> {
        Box::pin(async move {
            let mut values = Vec::with_capacity(ids.len());
            for id in ids {
                values.push(match self.param(id).await {
                    Ok(param) => Some(param.value),
                    Err(LiveHostError::Said { .. }) => None,
                    Err(refusal) => return Err(refusal),
                });
            }
            Ok(values)
        })
    }

    fn turn_knob(&self, id: PathId, value: f64, _: bool) -> Answer<'_, ()> {
        Box::pin(async move {
            let edit = LiveEdit::SetParam { param_id: id, value };
            let mut reply = self.ask("apply", json!({ "edits": [edit] })).await?;
            self.wrote(&mut reply, &Guard::default()).map(drop)
        })
    }

    fn write(self: Arc<Self>, turn: Turn, edits: Vec<LiveEdit>, guard: Guard, mode: Mode) -> Answer<'static, Applied> {
        Box::pin(async move {
            let _turn = turn;
            refuse_preview(NAME, mode, "a running Live does not support dry runs")?;
            edits.iter().try_for_each(LiveEdit::check)?;
            let mut body = self.admit(&guard, &edits).await?;
            self.read_first(&edits).await?;
            body["edits"] = json!(edits);
            let mut reply = self.ask("apply", body).await.map_err(unsure)?;
            let (_, shifted) = self.wrote(&mut reply, &guard)?;
            let values: Vec<Value> = read(reply.result["outcomes"].take())?;
            let mut outcomes = Vec::new();
            for (edit, value) in edits.iter().zip(values) {
                outcomes.push(self.outcome(edit, value).await.map_err(made)?);
            }
            let marks: Option<BTreeMap<PathId, [String; 2]>> = read(reply.result["marks"].take())?;
            self.note_writes(&outcomes, &marks.unwrap_or_default());
            if shifted {
                self.heard().contents.forget();
            }
            let revision = self.heard().revision();
            let mut warnings: Vec<String> = read(reply.result["warnings"].take())?;
            let selected = |it: &LiveEdit| match it {
                LiveEdit::ReplaceNotes { notes, .. } => notes.iter().any(|it| it.selected.is_some()),
                LiveEdit::SetTempo { .. }
                | LiveEdit::SetTrackProps { .. }
                | LiveEdit::CreateTrack { .. }
                | LiveEdit::CreateMidiClip { .. }
                | LiveEdit::SetParam { .. }
                | LiveEdit::InsertDevice { .. }
                | LiveEdit::SetClipProps { .. }
                | LiveEdit::DeleteClip { .. }
                | LiveEdit::DeleteTrack { .. } => false,
            };
            if edits.iter().any(selected) {
                warnings
                    .push("`selected` was dropped, because it is a view state that scripts in Live cannot set".into());
            }
            let changed = read(reply.result["changed"].take())?;
            Ok(Applied {
                outcomes,
                undo_steps: reply.undo_steps,
                revision,
                changed,
                warnings,
                shifted,
                diff: no_diff(),
            })
        })
    }

    fn step(self: Arc<Self>, turn: Turn, way: Way, steps: u32, guard: Guard, mode: Mode) -> Answer<'static, History> {
        Box::pin(async move {
            let _turn = turn;
            refuse_preview(NAME, mode, "a running Live does not support dry runs of undo and redo")?;
            self.admit(&guard, &[]).await?;
            let op = match way {
                Way::Undo => "undo",
                Way::Redo => "redo",
            };
            let mut reply = self.ask(op, json!({ "steps": steps })).await.map_err(unsure)?;
            let (_, shifted) = self.wrote(&mut reply, &guard)?;
            let Steps { count, can_undo, can_redo } = read(reply.result)?;
            let ours = self.heard().contents.ours();
            for (facet, id) in ours {
                self.read_again(facet, id).await.map_err(made)?;
            }
            let revision = self.heard().revision();
            let stepped = Stepped { count, labels: Vec::new(), can_undo, can_redo, revision, shifted };
            let tracks = self.heard().known.tracks;
            Ok(History { stepped, diff: no_diff(), tracks, warnings: vec![FOREIGN_UNDO.into()] })
        })
    }

    fn launch(&self, id: PathId) -> Answer<'_, &'static str> {
        Box::pin(async move {
            self.ask("fire", json!({ "target": id })).await?;
            Ok("fired")
        })
    }

    fn transport(&self, action: Transport, beat: Option<f64>) -> Answer<'_, Playing> {
        Box::pin(self.get("transport", json!({ "action": action, "beat": beat })))
    }

    fn known_ids(&self) -> KnownIds {
        self.heard().known.clone()
    }

    fn document(self: Arc<Self>) -> Option<Arc<super::document::DocumentHost>> {
        None
    }
}
