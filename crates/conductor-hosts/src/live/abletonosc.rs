//! The host of a running Live that is controlled through AbletonOSC. Every write is read back,
//! because AbletonOSC does not confirm writes.
//!
//! Facts that AbletonOSC cannot report are left out and listed in `unknown`. Unsupported operations
//! are refused. Not here: the wire protocol (`wire`), reads (`reads`, `notes`), edits (`edits`).
//! Tested with recorded exchanges and a strict fake, not with a running Live.

mod edits;
mod notes;
mod reads;
pub mod wire;

use super::contents::{ABSENT, Contents, Facet};
use super::shared::{FOREIGN_UNDO, OnChange, caps, gone, known_ids, no_diff, refuse_preview, track_of, unsure};
use super::write_turn::Turn;
use super::{Answer, Caps, History, KnownIds, LiveHost, LiveHostError, Mode, Playing, State, Transport, Way};
use crate::picture::piano_roll::ClipDrawing;
use conductor_set::{
    Applied, Clips, Devices, Elsewhere, Guard, Listing, LiveEdit, LiveError, NoteQuery, Notes, Overview, Param, PathId,
    Revision, Scenes, Shifts, Stepped, TrackDetail, TrackKind, TrackMatches, TrackPart, TrackRow,
};
use edits::Job;
use parking_lot::{Mutex, MutexGuard};
use rosc::{OscMessage, OscType};
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;
use wire::{Ask, Batch, NAME, Settings, Wire, command, get, get_with, number, text, truth};

/// Number of retries of a read-back that did not return the written value.
const SETTLES: u32 = 2;

/// The structure of the Set as last read.
#[derive(Debug, Clone, Default, PartialEq)]
struct Look {
    tempo: Option<f64>,
    tracks: Vec<TrackRow>,
    /// Names of the clips, by track and slot.
    clips: Vec<Vec<Option<String>>>,
    /// Names of the devices, by track.
    devices: Vec<Vec<String>>,
    /// Start times of the arrangement clips, by track; `None` until they are read.
    starts: Vec<Option<Vec<f64>>>,
}

impl Look {
    fn revision(&self) -> Revision {
        // A track whose arrangement was not read yet is treated as a track without arrangement
        // clips.
        let starts: Vec<&[f64]> = self.starts.iter().map(|it| it.as_deref().unwrap_or_default()).collect();
        Revision::of_state(&format!("{:?}", (self.tempo, &self.tracks, &self.clips, &self.devices, starts)))
    }

    /// Whether an id of an object in `self` may refer to another object in `now`. A rename by the
    /// person is also treated as a move, because an unnecessary read is better than a write to the
    /// wrong track.
    fn moved_in(&self, now: &Look) -> bool {
        fn shorter_or<T>(old: &[T], new: &[T], differs: impl Fn(&T, &T) -> bool) -> bool {
            new.len() < old.len() || old.iter().zip(new).any(|(a, b)| differs(a, b))
        }
        shorter_or(&self.tracks, &now.tracks, |a, b| a != b)
            || shorter_or(&self.clips, &now.clips, |a, b| shorter_or(a, b, |a, b| a.is_some() && a != b))
            || shorter_or(&self.devices, &now.devices, |a, b| shorter_or(a, b, |a, b| a != b))
            || self.starts.iter().zip(&now.starts).any(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => shorter_or(a, b, |a, b| a != b),
                (_, _) => false,
            })
    }
}

#[derive(Default)]
struct Heard {
    look: Option<Look>,
    /// Digest of `look`.
    structure: Option<Revision>,
    contents: Contents,
    shifts: Shifts,
    /// Number of tracks for which listeners are registered.
    listened: usize,
    /// The value of [`Wire::gaps`] when listeners were last registered.
    gaps: u64,
}

impl Heard {
    fn revision(&self) -> Option<Revision> {
        self.structure.map(|it| self.contents.revision(it))
    }
}

pub struct AbletonOscHost {
    wire: Wire,
    caps: Caps,
    heard: Mutex<Heard>,
    on_change: OnChange,
}

fn cannot(subject: PathId, reason: &str) -> LiveHostError {
    LiveError::Unsupported {
        subject: Some(subject.to_string()),
        reason: reason.into(),
        instead: "use Conductor's script in Live".into(),
        elsewhere: Elsewhere::Script,
    }
    .into()
}

fn index(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn float(value: f64) -> OscType {
    OscType::Float(value as f32)
}

fn session_clip(path: PathId) -> Result<(u32, u32), LiveHostError> {
    if let PathId::OnTrack(track, TrackPart::SlotClip(slot)) = path {
        return Ok((track, slot));
    }
    if matches!(path, PathId::OnTrack(_, TrackPart::Clip(_))) {
        return Err(cannot(path, "AbletonOSC can access only session clips"));
    }
    Err(super::shared::wrong(path, "a clip (track:N/clipslot:M/clip)", Listing::Clips))
}

/// The values in the reply to one request, or the error that was received instead.
fn values(batch: &Batch, at: usize, subject: PathId, listing: Listing) -> Result<Vec<OscType>, LiveHostError> {
    if let Some(Some(values)) = batch.replies.get(at) {
        return Ok(values.clone());
    }
    Err(match &batch.error {
        Some(error) if error.contains("Index out of range") || error.contains("index out of range") => {
            gone(subject, listing)
        }
        Some(error) if error.contains("'NoneType'") => LiveError::EmptySlot { subject }.into(),
        Some(error) => refused(subject, error.clone()),
        None => LiveHostError::NoAnswer { host: NAME },
    })
}

fn refused(subject: PathId, reason: String) -> LiveHostError {
    LiveError::Refused { subject, reason, cure: "repeat the call once; if it is refused again, make a simpler change" }
        .into()
}

fn first<T>(
    batch: &Batch,
    at: usize,
    subject: PathId,
    listing: Listing,
    of: fn(&OscType) -> Option<T>,
) -> Result<T, LiveHostError> {
    let found = values(batch, at, subject, listing)?.first().and_then(of);
    found
        .ok_or_else(|| LiveHostError::Offline { host: NAME, reason: format!("the reply about {subject} is not valid") })
}

impl AbletonOscHost {
    pub async fn attach(settings: Settings, on_change: OnChange) -> Result<Arc<AbletonOscHost>, LiveHostError> {
        if wire::nobody_listens(settings.peer).await {
            let reason = format!(
                "nothing listens on UDP {}: Live is not running, or AbletonOSC is not selected as a control surface",
                settings.peer
            );
            return Err(LiveHostError::Offline { host: NAME, reason });
        }
        let (wire, pushed) = Wire::open(settings).await?;
        Self::over(wire, pushed, on_change).await
    }

    /// Attaches to Live through an open connection.
    pub async fn over(
        wire: Wire,
        pushed: mpsc::Receiver<OscMessage>,
        on_change: OnChange,
    ) -> Result<Arc<AbletonOscHost>, LiveHostError> {
        let host = Arc::new(AbletonOscHost {
            wire,
            caps: caps("AbletonOSC cannot render"),
            heard: Mutex::default(),
            on_change,
        });
        host.look().await?;
        tokio::spawn(hear(Arc::downgrade(&host), pushed));
        Ok(host)
    }

    pub async fn version(&self) -> Result<(u32, u32), LiveHostError> {
        let batch = self.wire.read(&[get("/live/application/get/version", &[])]).await?;
        let parts = values(&batch, 0, PathId::Main, Listing::Tracks)?;
        let part = |n: usize| parts.get(n).and_then(number).map(|it| it.max(0.0) as u32);
        part(0)
            .zip(part(1))
            .ok_or_else(|| LiveHostError::Offline { host: NAME, reason: "Live does not report its version".into() })
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock()
    }

    /// The requests that read the structure of the Set. Arrangement clips are requested only for
    /// tracks that can have them. For a group, AbletonOSC would report an error and drop all later
    /// requests that it received in the same tick.
    fn look_asks(&self) -> (Vec<Ask>, Vec<usize>) {
        let mut asks = vec![get("/live/song/get/tempo", &[]), get("/live/song/get/num_scenes", &[]), track_data(0, -1)];
        let rows = self.tracks();
        let holders = rows.iter().enumerate().filter(|(_, it)| it.kind != TrackKind::Group).map(|(n, _)| n);
        let holders: Vec<usize> = holders.collect();
        asks.extend(holders.iter().map(|n| get("/live/track/get/arrangement_clips/start_time", &[index(count(*n))])));
        (asks, holders)
    }

    /// Reads the structure of the Set and detects moves by the person or other programs.
    async fn look(&self) -> Result<Revision, LiveHostError> {
        let (asks, holders) = self.look_asks();
        let batch = self.wire.read(&asks).await?;
        let mut revision = self.absorb(&batch, (0, &holders), &Guard::default(), Mine::Nothing).await?;
        // Before the structure was first read, it is unknown which tracks can have arrangement
        // clips.
        if holders.is_empty() && !self.tracks().is_empty() {
            let (asks, holders) = self.look_asks();
            let batch = self.wire.read(&asks).await?;
            revision = self.absorb(&batch, (0, &holders), &Guard::default(), Mine::Nothing).await?;
        }
        self.listen().await?;
        Ok(revision)
    }

    /// Stores the structure from the replies, starting at reply `from`. `holders` are the tracks
    /// whose arrangement was requested.
    async fn absorb(
        &self,
        batch: &Batch,
        (from, holders): (usize, &[usize]),
        guard: &Guard,
        mine: Mine,
    ) -> Result<Revision, LiveHostError> {
        let mut look = self.parse_look(batch, (from, holders)).await?;
        let moved =
            |look: &Look| mine != Mine::Anything && self.heard().look.as_ref().is_some_and(|old| old.moved_in(look));
        if moved(&look) {
            // The reply may be a late reply to an earlier batch, so read the structure again to
            // confirm the move.
            let (asks, holders) = self.look_asks();
            let again = self.wire.read(&asks).await?;
            look = self.parse_look(&again, (0, &holders)).await?;
        }
        let structure = look.revision();
        let (revision, news) = {
            let mut heard = self.heard();
            let silent = heard.look.is_some() && heard.gaps != self.wire.gaps();
            let foreign = heard.look.as_ref().is_some_and(|old| mine != Mine::Anything && old.moved_in(&look));
            if foreign || silent {
                heard.shifts.foreign();
            }
            if mine == Mine::Anything {
                heard.shifts.ours(guard);
            }
            if foreign || silent {
                heard.contents.forget();
            }
            heard.look = Some(look);
            heard.structure = Some(structure);
            (heard.contents.revision(structure), foreign || silent)
        };
        if news {
            (self.on_change)(&[], true);
        }
        Ok(revision)
    }

    async fn parse_look(&self, batch: &Batch, (from, holders): (usize, &[usize])) -> Result<Look, LiveHostError> {
        let tempo = first(batch, from, PathId::Main, Listing::Tracks, number)?;
        let scenes = first(batch, from + 1, PathId::Main, Listing::Tracks, number)?.max(0.0) as usize;
        let rows = match batch.replies.get(from + 2) {
            Some(Some(rows)) => rows.clone(),
            // The names of a very large Set do not fit into one datagram, so request them in parts.
            Some(None) | None => self.track_data_in_parts().await?,
        };
        let mut look = Look { tempo: Some(tempo), ..Look::default() };
        let mut left = rows.as_slice();
        while let Some((row, rest)) = left.split_at_checked(4) {
            if row.is_empty() {
                break;
            }
            let devices = row.get(3).and_then(number).map_or(0, |it| it.max(0.0) as usize);
            let (Some((slots, rest)), n) = (rest.split_at_checked(scenes), count(look.tracks.len())) else { break };
            let Some((names, rest)) = rest.split_at_checked(devices) else { break };
            look.tracks.push(TrackRow {
                id: PathId::Track(n),
                name: row.first().and_then(text).unwrap_or_default(),
                kind: match (row.get(2).and_then(truth), row.get(1).and_then(truth)) {
                    (Some(true), _) => TrackKind::Group,
                    (_, Some(true)) => TrackKind::Midi,
                    (_, _) => TrackKind::Audio,
                },
            });
            look.clips.push(slots.iter().map(text).collect());
            look.devices.push(names.iter().filter_map(text).collect());
            left = rest;
        }
        look.starts = vec![None; look.tracks.len()];
        for (n, reply) in holders.iter().zip(batch.replies.iter().skip(from + 3)) {
            if let Some(known) = look.starts.get_mut(*n) {
                *known = reply.as_ref().map(|it| it.iter().filter_map(number).collect());
            }
        }
        Ok(look)
    }

    async fn track_data_in_parts(&self) -> Result<Vec<OscType>, LiveHostError> {
        let batch = self.wire.read(&[get("/live/song/get/num_tracks", &[])]).await?;
        let tracks = first(&batch, 0, PathId::Main, Listing::Tracks, number)?.max(0.0) as usize;
        let (mut rows, mut at, mut part) = (Vec::new(), 0, tracks.div_ceil(2).max(1));
        while at < tracks {
            let end = (at + part).min(tracks);
            let batch = self.wire.read(&[track_data(index(count(at)), index(count(end)))]).await?;
            match batch.replies.into_iter().next().flatten() {
                Some(more) => {
                    rows.extend(more);
                    at = end;
                }
                None if part > 1 => part = part.div_ceil(2),
                None => return Err(LiveHostError::NoAnswer { host: NAME }),
            }
        }
        Ok(rows)
    }

    /// Registers missing listeners. After a time without replies, all listeners are registered
    /// again, because AbletonOSC may have restarted.
    async fn listen(&self) -> Result<(), LiveHostError> {
        let (from, to, gaps) = {
            let heard = self.heard();
            let gaps = self.wire.gaps();
            let tracks = heard.look.as_ref().map_or(0, |it| it.tracks.len());
            let from = if heard.gaps == gaps { heard.listened } else { 0 };
            (from, tracks, gaps)
        };
        if from >= to && self.heard().gaps == gaps {
            return Ok(());
        }
        let mut asks = vec![get("/live/song/get/is_playing", &[])];
        if from == 0 {
            asks.push(command("/live/song/start_listen/tempo", Vec::new()));
            asks.push(command("/live/song/start_listen/is_playing", Vec::new()));
        }
        for n in from..to {
            let n = OscType::Int(index(count(n)));
            asks.push(command("/live/track/start_listen/name", vec![n.clone()]));
            asks.push(command("/live/track/start_listen/playing_slot_index", vec![n]));
        }
        self.wire.batch(&asks).await?;
        let mut heard = self.heard();
        (heard.listened, heard.gaps) = (to, gaps);
        Ok(())
    }

    /// The current state of an object, as text for comparison.
    async fn state_of(&self, facet: Facet, id: PathId) -> Result<String, LiveHostError> {
        Ok(match facet {
            Facet::Notes => format!("{:?}", self.notes_of(id).await?),
            Facet::Clip => {
                let (track, slot) = session_clip(id)?;
                let batch = self.wire.read(&reads::clip_asks([index(track), index(slot)])).await?;
                format!("{:?}", reads::clip_info(track, slot, &batch, 0)?)
            }
            Facet::Param => format!("{:?}", self.param_now(id).await?.value),
            Facet::Track => format!("{:?}", self.track_state(id, index(track_of(id)?)).await?),
        })
    }

    /// If the caller expects a revision, reads the objects of the edits again. A changed object
    /// changes the revision.
    async fn observe(&self, guard: &Guard, edits: &[LiveEdit]) -> Result<(), LiveHostError> {
        if guard.expect_revision.is_none() {
            return Ok(());
        }
        let touched: Vec<(Facet, PathId)> = {
            let heard = self.heard();
            edits.iter().flat_map(|it| heard.contents.touched_by(it)).collect()
        };
        self.read_again(touched).await
    }

    async fn read_again(&self, objects: Vec<(Facet, PathId)>) -> Result<(), LiveHostError> {
        for (facet, id) in objects {
            let state = match self.state_of(facet, id).await {
                Ok(state) => state,
                Err(LiveHostError::Set(_)) => ABSENT.into(),
                Err(refusal) => return Err(refusal),
            };
            self.heard().contents.read(facet, id, &state);
        }
        Ok(())
    }

    fn was_read(&self, facet: Facet, id: PathId, state: &impl std::fmt::Debug) {
        self.heard().contents.read(facet, id, &format!("{state:?}"));
    }

    /// Records that a write by Conductor changed the object. Returns the new revision.
    fn was_written(&self, facet: Facet, id: PathId, before: &str, now: &impl std::fmt::Debug) -> Revision {
        let mut heard = self.heard();
        heard.contents.wrote(facet, id, before, &format!("{now:?}"));
        heard.revision().unwrap_or_else(|| Revision::of_state(""))
    }

    fn changed_contents(&self, change: impl FnOnce(&mut Contents)) -> Revision {
        let mut heard = self.heard();
        change(&mut heard.contents);
        heard.revision().unwrap_or_else(|| Revision::of_state(""))
    }

    /// Called before a write: sends `asks` and the requests for the structure in one batch, then
    /// checks the preconditions of the write (`guard`).
    async fn admit(&self, guard: &Guard, edits: &[LiveEdit], asks: Vec<Ask>) -> Result<Batch, LiveHostError> {
        self.observe(guard, edits).await?;
        let (look, holders) = self.look_asks();
        let mut all = asks;
        let from = all.len();
        all.extend(look);
        let mut batch = self.wire.read(&all).await?;
        let revision = self.absorb(&batch, (from, &holders), guard, Mine::Nothing).await?;
        if let Some(expected) = guard.expect_revision.clone().filter(|it| *it != revision.to_string()) {
            return Err(LiveError::RevisionDiffers { expected, actual: revision }.into());
        }
        self.heard().shifts.admit(guard, edits.iter().any(LiveEdit::is_positional))?;
        batch.replies.truncate(from);
        Ok(batch)
    }

    /// Sends a write, its read-backs, the requests for the structure and the fence message in one
    /// batch. A lost read-back is requested again; the write is not repeated.
    async fn put(
        &self,
        guard: &Guard,
        mine: Mine,
        write: Ask,
        asks: Vec<Ask>,
    ) -> Result<(Batch, Revision), LiveHostError> {
        self.put_once(guard, mine, write, asks).await.map_err(unsure)
    }

    async fn put_once(
        &self,
        guard: &Guard,
        mine: Mine,
        write: Ask,
        asks: Vec<Ask>,
    ) -> Result<(Batch, Revision), LiveHostError> {
        let from = asks.len() + 1;
        let mut all = vec![write];
        all.extend(asks);
        let (look, holders) = self.look_asks();
        all.extend(look);
        let mut batch = self.wire.write(&all).await?;
        let revision = match self.absorb(&batch, (from, &holders), guard, mine).await {
            Ok(revision) => revision,
            // If the write failed, AbletonOSC dropped the requests for the structure too. The error
            // of the batch contains the reason.
            Err(_) if batch.error.is_some() => self.look().await?,
            Err(refusal) => return Err(refusal),
        };
        batch.replies.truncate(from);
        Ok((batch, revision))
    }

    /// Repeats the first read-back, at most [`SETTLES`] times, until it returns the wanted value:
    /// the reply received first may have been sent before the write.
    async fn settle(
        &self,
        batch: &mut Batch,
        ask: &Ask,
        wanted: impl Fn(&OscType) -> bool,
    ) -> Result<(), LiveHostError> {
        for _ in 0..SETTLES {
            let Some(read) = batch.replies.get_mut(1) else { return Ok(()) };
            if batch.error.is_some() || read.as_ref().and_then(|it| it.first()).is_some_and(&wanted) {
                return Ok(());
            }
            let again = self.wire.read(std::slice::from_ref(ask)).await.map_err(unsure)?;
            *read = again.replies.into_iter().next().flatten();
        }
        Ok(())
    }

    fn track(&self, path: PathId) -> Result<(i32, TrackRow), LiveHostError> {
        let n = track_of(path)?;
        let row = self.heard().look.as_ref().and_then(|it| it.tracks.get(n as usize).cloned());
        row.map(|row| (index(n), row)).ok_or_else(|| gone(path, Listing::Tracks))
    }

    fn tracks(&self) -> Vec<TrackRow> {
        self.heard().look.as_ref().map(|it| it.tracks.clone()).unwrap_or_default()
    }

    /// Applies the expected effect of Conductor's own write to the stored structure, so that the
    /// next read of the structure finds only changes by others.
    fn expect(&self, change: impl FnOnce(&mut Look)) {
        if let Some(look) = &mut self.heard().look {
            change(look);
        }
    }

    /// Handles a push from a listener or a late reply. A value that is already known comes from
    /// Conductor's own write, or is the first push of a new listener. Returns whether the structure
    /// must be read again. A different name does not prove a move, because it may be a late reply.
    fn pushed(&self, message: &OscMessage) -> bool {
        let at = message.args.first().and_then(number).map(|it| it.max(0.0) as usize);
        let track = at.map(|n| PathId::Track(count(n)));
        match message.addr.as_str() {
            "/live/song/get/tempo" => {
                let tempo = message.args.first().and_then(number);
                let news =
                    self.heard().look.as_mut().is_some_and(|it| std::mem::replace(&mut it.tempo, tempo) != tempo);
                if news {
                    (self.on_change)(&[PathId::Main], false);
                }
            }
            "/live/song/get/is_playing" => (self.on_change)(&[PathId::Main], false),
            "/live/track/get/playing_slot_index" => (self.on_change)(track.as_slice(), false),
            "/live/track/get/name" => {
                let name = message.args.get(1).and_then(text);
                let known = self.heard().look.as_ref().zip(at).and_then(|(it, n)| it.tracks.get(n).cloned());
                return known.zip(name).is_some_and(|(row, name)| row.name != name);
            }
            _ => {}
        }
        false
    }
}

/// Which changes in a newly read structure were made by Conductor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mine {
    /// Only the changes recorded with `expect`.
    Nothing,
    /// Any change: the write shifted ids in a way that cannot be predicted.
    Anything,
}

fn track_data(from: i32, to: i32) -> Ask {
    let words =
        ["track.name", "track.has_midi_input", "track.is_foldable", "track.num_devices", "clip.name", "device.name"];
    let mut all = vec![OscType::Int(from), OscType::Int(to)];
    all.extend(words.iter().map(|it| OscType::String((*it).into())));
    get_with("/live/song/get/track_data", all, 0)
}

/// Handles the pushes of listeners for the lifetime of the host.
async fn hear(host: Weak<AbletonOscHost>, mut pushed: mpsc::Receiver<OscMessage>) {
    while let Some(message) = pushed.recv().await {
        let Some(host) = host.upgrade() else { return };
        if host.pushed(&message) {
            // If the read fails, the next call reports the error.
            let _ = host.look().await;
        }
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
            revision: heard.revision().map(|it| it.to_string()).unwrap_or_default(),
            structure: heard.shifts.count(),
        }
    }

    fn refresh(&self) -> Answer<'_, ()> {
        Box::pin(async move { self.look().await.map(drop) })
    }

    fn overview(&self) -> Answer<'_, Overview> {
        Box::pin(self.overview_now())
    }

    fn find_track(&self, query: String) -> Answer<'_, TrackMatches> {
        Box::pin(async move { Ok(TrackMatches::find(self.tracks().into_iter(), &query)?) })
    }

    fn clips(&self, track: PathId, offset: usize) -> Answer<'_, Clips> {
        Box::pin(self.clips_now(track, offset))
    }

    fn notes(&self, clip: PathId, query: NoteQuery) -> Answer<'_, Notes> {
        Box::pin(async move {
            let notes = self.notes_of(clip).await?;
            self.was_read(Facet::Notes, clip, &notes);
            Ok(Notes::answer(clip, notes, query)?)
        })
    }

    fn devices(&self, chain: PathId) -> Answer<'_, Devices> {
        Box::pin(self.devices_now(chain))
    }

    fn scenes(&self) -> Answer<'_, Scenes> {
        Box::pin(self.scenes_now())
    }

    fn track_detail(&self, track: PathId) -> Answer<'_, TrackDetail> {
        Box::pin(self.track_detail_now(track))
    }

    fn draw_clip(&self, clip: PathId, width: u32) -> Answer<'_, ClipDrawing> {
        Box::pin(self.draw_clip_now(clip, width))
    }

    fn param(&self, id: PathId) -> Answer<'_, Param> {
        Box::pin(self.param_now(id))
    }

    fn param_values(&self, ids: Vec<PathId>) -> Answer<'_, Vec<Option<f64>>> {
        Box::pin(self.values_now(ids))
    }

    fn turn_knob(&self, id: PathId, value: f64, _: bool) -> Answer<'_, ()> {
        Box::pin(async move {
            let (set, _, mut arguments) = reads::param_address(id)?;
            arguments.push(float(value));
            self.wire.send(&command(set, arguments)).await
        })
    }

    fn write(self: Arc<Self>, turn: Turn, edits: Vec<LiveEdit>, guard: Guard, mode: Mode) -> Answer<'static, Applied> {
        Box::pin(async move {
            let _turn = turn;
            refuse_preview(NAME, mode, "a running Live does not support dry runs")?;
            edits.iter().try_for_each(LiveEdit::check)?;
            let mut applied = Applied {
                outcomes: Vec::new(),
                undo_steps: 0,
                revision: Revision::of_state(""),
                changed: Vec::new(),
                warnings: Vec::new(),
                shifted: false,
                diff: no_diff(),
            };
            for edit in &edits {
                self.make(Job { edit, guard: &guard, applied: &mut applied }).await?;
            }
            Ok(applied)
        })
    }

    fn step(self: Arc<Self>, turn: Turn, way: Way, steps: u32, guard: Guard, mode: Mode) -> Answer<'static, History> {
        Box::pin(async move {
            let _turn = turn;
            refuse_preview(NAME, mode, "a running Live does not support dry runs of undo and redo")?;
            let (write, can) = match way {
                Way::Undo => ("/live/song/undo", "/live/song/get/can_undo"),
                Way::Redo => ("/live/song/redo", "/live/song/get/can_redo"),
            };
            let more = |batch: &Batch, at| first(batch, at, PathId::Main, Listing::Tracks, truth);
            let mut able = more(&self.admit(&guard, &[], vec![get(can, &[])]).await?, 0)?;
            let mut stepped = 0;
            while able && stepped < steps {
                // The content of Live's undo list is unknown, so any id may have shifted.
                let made = self.put(&guard, Mine::Anything, command(write, Vec::new()), vec![get(can, &[])]).await;
                let (batch, _) = made.map_err(|why| half_done(why, stepped, steps))?;
                able = more(&batch, 1)?;
                stepped += 1;
            }
            let ours = self.heard().contents.ours();
            self.read_again(ours).await.map_err(|why| half_done(why, stepped, steps))?;
            let revision = self.changed_contents(|_| ());
            let both = [get("/live/song/get/can_undo", &[]), get("/live/song/get/can_redo", &[])];
            let batch = self.wire.read(&both).await?;
            let stepped = Stepped {
                count: stepped,
                labels: Vec::new(),
                can_undo: more(&batch, 0)?,
                can_redo: more(&batch, 1)?,
                revision,
                shifted: stepped > 0,
            };
            let tracks = count(self.tracks().len());
            Ok(History { stepped, diff: no_diff(), tracks, warnings: vec![FOREIGN_UNDO.into()] })
        })
    }

    fn launch(&self, id: PathId) -> Answer<'_, &'static str> {
        Box::pin(self.launch_now(id))
    }

    fn transport(&self, action: Transport, beat: Option<f64>) -> Answer<'_, Playing> {
        Box::pin(self.transport_now(action, beat))
    }

    fn known_ids(&self) -> KnownIds {
        let heard = self.heard();
        let Some(look) = &heard.look else { return KnownIds::default() };
        let tracks = look.tracks.iter().zip(&look.clips);
        known_ids(tracks.map(|(row, slots)| (row.kind, row.name.as_str(), slots.as_slice())))
    }

    fn document(self: Arc<Self>) -> Option<Arc<super::document::DocumentHost>> {
        None
    }
}

fn half_done(why: LiveHostError, stepped: u32, steps: u32) -> LiveHostError {
    if stepped == 0 {
        return why;
    }
    LiveHostError::HalfDone { done: format!("{stepped} of {steps} steps were completed"), why: Box::new(why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u32, name: &str) -> TrackRow {
        TrackRow { id: PathId::Track(n), name: name.into(), kind: TrackKind::Midi }
    }

    #[test]
    fn what_is_added_at_the_end_moves_nothing() {
        let old = Look {
            tracks: vec![row(0, "a"), row(1, "b")],
            clips: vec![vec![Some("x".into()), None], vec![None, None]],
            ..Look::default()
        };
        let mut now = old.clone();
        now.tracks.push(row(2, "c"));
        now.clips.push(vec![None, None]);
        now.clips[1][1] = Some("new".into());
        assert!(!old.moved_in(&now));
        now.clips[0][0] = Some("another".into());
        assert!(old.moved_in(&now), "a clip was replaced, but no move was detected");
        let swapped = Look { tracks: vec![row(0, "b"), row(1, "a")], ..old.clone() };
        assert!(old.moved_in(&swapped));
        let fewer = Look { tracks: vec![row(0, "a")], ..old.clone() };
        assert!(old.moved_in(&fewer));
    }
}
