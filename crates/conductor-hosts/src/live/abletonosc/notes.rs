//! Reads and writes notes through AbletonOSC: five fields per note, in parts that fit into a
//! datagram.

use super::edits::Job;
use super::wire::{Ask, NAME, command, get, get_with, number, text, truth};
use super::{AbletonOscHost, Mine, first, float, index, refused, session_clip, values};
use crate::live::contents::{ABSENT, Facet};
use crate::live::shared::made;
use crate::live::{LiveHost as _, LiveHostError};
use conductor_set::{Elsewhere, Listing, LiveError, Note, NoteWindow, NotesWritten, Outcome, PathId};
use rosc::OscType;
use std::collections::BTreeMap;

/// Maximum number of added notes per datagram: about 8 KB, below the smallest default limit of the
/// systems that Live supports.
const NOTES_PER_DATAGRAM: usize = 400;
/// The time range of a whole clip: start and length in beats. If a request has no range, AbletonOSC
/// omits pitch 127.
const WHOLE: (f64, f64) = (-8192.0, 16_384.0);
/// Windows of this length or less, in beats, are not split. If the reply for such a window is
/// missing, the read fails.
const SHORTEST: f64 = 0.25;

/// Number of retries before a window is split. A lost reply and a reply that is too large look the
/// same.
const WINDOW_ROUNDS: u32 = 2;
/// Number of clips whose notes are read for an overview, in total and per batch. The replies of a
/// batch must fit into the receive buffer.
const SURVEYED: usize = 64;
const SURVEYED_AT_ONCE: usize = 16;

/// Arguments for all notes that start in a range of time and pitch.
fn range(at: [i32; 2], pitches: (u8, u8), (start, length): (f64, f64)) -> Vec<OscType> {
    let mut all = at.map(OscType::Int).to_vec();
    let (low, high) = (i32::from(pitches.0), i32::from(pitches.1));
    all.extend([OscType::Int(low), OscType::Int(high - low + 1), float(start), float(length)]);
    all
}

fn question(at: [i32; 2], time: (f64, f64)) -> Ask {
    get_with("/live/clip/get/notes", range(at, (0, 127), time), 2)
}

fn of_row(row: &[OscType]) -> Option<Note> {
    let at = |n: usize| row.get(n).and_then(number);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a pitch")]
    let pitch = at(0).filter(|it| (0.0..=127.0).contains(it))? as u8;
    Some(Note { velocity: at(3)?, muted: row.get(4).and_then(truth)?, ..Note::new(pitch, at(1)?, at(2)?) })
}

/// Pitch and start of each note, rounded to the precision that Live and OSC both keep.
fn starts(notes: &[Note]) -> Vec<(u8, i64)> {
    let mut all: Vec<(u8, i64)> = notes.iter().map(|it| (it.pitch, (it.start_time * 1e4).round() as i64)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Fails for notes with probability, velocity deviation or release velocity, which AbletonOSC
/// cannot send.
fn carried(notes: &[Note]) -> Result<(), LiveHostError> {
    let plain = Note::new(0, 0.0, 1.0);
    let lossy = |it: &Note| {
        it.probability != plain.probability
            || it.velocity_deviation != plain.velocity_deviation
            || it.release_velocity != plain.release_velocity
    };
    match notes.iter().position(lossy) {
        None => Ok(()),
        Some(at) => Err(LiveError::Unsupported {
            subject: Some(format!("notes[{at}]")),
            reason: "AbletonOSC does not support probability, velocityDeviation or releaseVelocity".into(),
            instead: "leave these fields out, or use Conductor's script in Live".into(),
            elsewhere: Elsewhere::Script,
        }
        .into()),
    }
}

fn sorted(rows: &[OscType]) -> Vec<Note> {
    let mut notes: Vec<Note> = rows.chunks_exact(5).filter_map(of_row).collect();
    notes.sort_by(Note::order);
    notes
}

impl AbletonOscHost {
    pub(super) async fn notes_of(&self, clip: PathId) -> Result<Vec<Note>, LiveHostError> {
        let (track, slot) = session_clip(clip)?;
        let at = [index(track), index(slot)];
        let mut rows = Vec::new();
        // If a reply is missing, request both halves of the window: the notes of a very long clip
        // do not fit into a datagram.
        let mut windows = vec![WHOLE];
        while let Some(window) = windows.pop() {
            let batch = self.wire.read_within(&[question(at, window)], WINDOW_ROUNDS).await?;
            match values(&batch, 0, clip, Listing::Clips) {
                Ok(found) => rows.extend(found),
                Err(LiveHostError::NoAnswer { .. }) if window.1 > SHORTEST => {
                    let half = window.1 / 2.0;
                    windows.push((window.0 + half, half));
                    windows.push((window.0, half));
                }
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(sorted(&rows))
    }

    /// Reads the notes of the first clips, so that the revision of an overview covers them. A clip
    /// without a reply is left out.
    pub(super) async fn survey(&self) {
        let clips: Vec<PathId> = self.known_ids().midi_clips.into_iter().take(SURVEYED).collect();
        for part in clips.chunks(SURVEYED_AT_ONCE) {
            let at = |clip: &PathId| session_clip(*clip).map(|(track, slot)| [index(track), index(slot)]);
            let asks: Vec<Ask> = part.iter().flat_map(at).map(|at| question(at, WHOLE)).collect();
            let Ok(batch) = self.wire.read_within(&asks, WINDOW_ROUNDS).await else { return };
            for (clip, rows) in part.iter().zip(batch.replies) {
                if let Some(rows) = rows {
                    self.was_read(Facet::Notes, *clip, &sorted(&rows));
                }
            }
        }
    }

    pub(super) async fn replace_notes(
        &self,
        clip: PathId,
        notes: &[Note],
        window: Option<&NoteWindow>,
        job: Job<'_>,
    ) -> Result<(), LiveHostError> {
        let (track, slot) = session_clip(clip)?;
        let at = [index(track), index(slot)];
        carried(notes)?;
        let ask = vec![get("/live/clip/get/name", &at), get("/live/clip/get/is_midi_clip", &at)];
        let batch = self.admit(job.guard, std::slice::from_ref(job.edit), ask).await?;
        let name = first(&batch, 0, clip, Listing::Clips, text)?;
        if !first(&batch, 1, clip, Listing::Clips, truth)? {
            let reason = "an audio clip has no notes".into();
            return Err(LiveError::WrongType { subject: clip, reason, listing: Listing::Clips }.into());
        }
        let before = self.notes_of(clip).await?;
        let inside = |it: &Note| window.is_none_or(|window| window.holds(it));
        let removed = before.iter().filter(|it| inside(it)).count();
        let (pitches, time) = match window {
            None => ((0, 127), WHOLE),
            Some(it) => {
                ((it.from_pitch.unwrap_or(0), it.to_pitch.unwrap_or(127)), (it.from_beat, it.to_beat - it.from_beat))
            }
        };
        let remove = command("/live/clip/remove/notes", range(at, pitches, time));
        // The read-back of this batch is only the name of the clip. The notes are read at the end,
        // in parts if necessary.
        let (batch, _) = self.put(job.guard, Mine::Nothing, remove, vec![get("/live/clip/get/name", &at)]).await?;
        if let Some(error) = batch.error {
            return Err(refused(clip, error));
        }
        // The old notes have been removed. Record a changed state now, because a later write may
        // fail.
        self.was_written(Facet::Notes, clip, &format!("{before:?}"), &ABSENT);
        let mut steps = 1;
        for (n, part) in notes.chunks(NOTES_PER_DATAGRAM).enumerate() {
            let mut arguments = at.map(OscType::Int).to_vec();
            for note in part {
                arguments.extend([OscType::Int(i32::from(note.pitch)), float(note.start_time), float(note.duration)]);
                arguments.extend([float(note.velocity), OscType::Bool(note.muted)]);
            }
            let add = command("/live/clip/add/notes", arguments);
            let added = self.wire.write(&[add, get("/live/clip/get/name", &at)]).await;
            let added = added.and_then(|batch| match batch.error {
                Some(error) => Err(refused(clip, error)),
                None => Ok(()),
            });
            added.map_err(|why| LiveHostError::HalfDone {
                done: format!(
                    "{removed} old notes were removed, and at least {} of {} new notes were added",
                    n * NOTES_PER_DATAGRAM,
                    notes.len()
                ),
                why: Box::new(why),
            })?;
            steps += 1;
        }
        let now = self.notes_of(clip).await.map_err(made)?;
        let kept: Vec<Note> = before.iter().filter(|it| !inside(it)).copied().chain(notes.iter().copied()).collect();
        if starts(&now) != starts(&kept) {
            let why = refused(clip, format!("the clip should have {} notes, but has {}", kept.len(), now.len()));
            return Err(LiveHostError::HalfDone {
                done: "the notes of the clip were changed".into(),
                why: Box::new(why),
            });
        }
        let adjusted = adjusted(notes, &now);
        let count = now.len();
        job.applied.outcomes.push(Outcome::Notes(NotesWritten { id: clip, name, count, removed, adjusted }));
        job.applied.changed.push(clip);
        job.applied.undo_steps += steps;
        job.applied.revision = self.was_written(Facet::Notes, clip, &format!("{before:?}"), &now);
        if removed > 0 {
            job.applied.warnings.push(format!(
                "probability, velocity deviation and release velocity of the {removed} old notes were lost, because {NAME} cannot read them"
            ));
        }
        Ok(())
    }
}

/// Number of given notes that Live shortened, or dropped because a later note has the same start.
fn adjusted(given: &[Note], now: &[Note]) -> usize {
    let key = |it: &Note| (it.pitch, (it.start_time * 1e4).round() as i64);
    let last: BTreeMap<_, &Note> = given.iter().map(|it| (key(it), it)).collect();
    let stored: BTreeMap<_, &Note> = now.iter().map(|it| (key(it), it)).collect();
    let whole = |(place, note): (&(u8, i64), &&Note)| {
        stored.get(place).is_some_and(|it| (it.duration - note.duration).abs() < 1e-3)
    };
    given.len() - last.iter().filter(|it| whole((it.0, it.1))).count()
}

/// Whether two numbers are equal within 32-bit precision.
pub(super) fn same(sent: f64, read: f64) -> bool {
    (sent - read).abs() <= sent.abs().max(1.0) * 1e-6
}
