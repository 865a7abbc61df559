//! Makes each edit through AbletonOSC: one write per batch, followed by a read-back. An error lists
//! the writes that were made before it.

use super::notes::same;
use super::reads::{clip_asks, clip_info, param_address, param_asks, param_of};
use super::wire::{Ask, Batch, command, get, get_with, number, text, truth};
use super::{AbletonOscHost, Mine, cannot, count, first, float, index, refused, session_clip};
use crate::live::LiveHostError;
use crate::live::contents::{ABSENT, Contents, Facet};
use crate::live::shared::{gone, made, unsure, wrong};
use conductor_set::{
    Applied, ClipCreated, ClipProps, Deleted, Guard, Listing, LiveEdit, LiveError, Outcome, Param, ParamWritten,
    PathId, Revision, TrackKind, TrackPart, TrackProps, display,
};
use rosc::OscType;

/// One edit, its preconditions (`guard`), and the result that the edit is added to.
pub(super) struct Job<'a> {
    pub edit: &'a LiveEdit,
    pub guard: &'a Guard,
    pub applied: &'a mut Applied,
}

/// A property with the value to write, and the addresses to write and to read it.
struct Wish {
    set: &'static str,
    get: &'static str,
    value: OscType,
}

/// Whether the value read equals the value sent, within 32-bit precision.
fn equal(sent: &OscType, read: &OscType) -> bool {
    match (number(sent), number(read)) {
        (Some(sent), Some(read)) => same(sent, read),
        (_, _) => text(sent) == text(read),
    }
}

/// Fails if the value read differs from the value sent.
fn verify(batch: &Batch, at: usize, subject: PathId, sent: &OscType) -> Result<OscType, LiveHostError> {
    let read = first(batch, at, subject, Listing::Tracks, |it| Some(it.clone()));
    match (read, &batch.error) {
        (Ok(read), _) if equal(sent, &read) => Ok(read),
        (_, Some(error)) => Err(refused(subject, error.clone())),
        (Ok(read), None) => Err(refused(subject, format!("Live reports {read} after {sent} was written"))),
        (Err(refusal), None) => Err(refusal),
    }
}

impl AbletonOscHost {
    pub(super) async fn make(&self, job: Job<'_>) -> Result<(), LiveHostError> {
        match job.edit {
            LiveEdit::SetTempo { bpm } => {
                self.admit(job.guard, std::slice::from_ref(job.edit), Vec::new()).await?;
                self.expect(|look| look.tempo = Some(*bpm));
                let write = command("/live/song/set/tempo", vec![float(*bpm)]);
                let read = get("/live/song/get/tempo", &[]);
                let (revision, _) = self.put_value(job.guard, write, read, PathId::Main, &float(*bpm)).await?;
                let overview = self.overview_at(revision).await.map_err(made)?;
                job.applied.done(Outcome::Tempo(overview), PathId::Main, revision);
                Ok(())
            }
            LiveEdit::SetTrackProps { track_id, props } => self.set_track_props(*track_id, props, job).await,
            LiveEdit::ReplaceNotes { clip_id, notes, window } => {
                self.replace_notes(*clip_id, notes, window.as_ref(), job).await
            }
            LiveEdit::CreateTrack { kind } => self.create_track(*kind, job).await,
            LiveEdit::CreateMidiClip { slot_id, length_beats } => self.create_clip(*slot_id, *length_beats, job).await,
            LiveEdit::SetParam { param_id, value } => self.set_param(*param_id, *value, job).await,
            LiveEdit::InsertDevice { track_id, .. } => Err(cannot(*track_id, "AbletonOSC cannot insert devices")),
            LiveEdit::SetClipProps { clip_id, props } => self.set_clip_props(*clip_id, props, job).await,
            LiveEdit::DeleteClip { clip_id } => self.delete_clip(*clip_id, job).await,
            LiveEdit::DeleteTrack { track_id } => self.delete_track(*track_id, job).await,
        }
    }

    /// Writes a value and reads it back. Returns the new revision and the value that was read.
    /// Fails if that value differs from the written one.
    async fn put_value(
        &self,
        guard: &Guard,
        write: Ask,
        read: Ask,
        subject: PathId,
        value: &OscType,
    ) -> Result<(Revision, OscType), LiveHostError> {
        let (mut batch, revision) = self.put(guard, Mine::Nothing, write, vec![read.clone()]).await?;
        self.settle(&mut batch, &read, |it| equal(value, it)).await?;
        let now = verify(&batch, 1, subject, value).map_err(unsure)?;
        Ok((revision, now))
    }

    /// Writes properties one by one; an error lists the properties already written.
    async fn wish(
        &self,
        subject: PathId,
        at: &[i32],
        wishes: Vec<(&'static str, Wish)>,
        job: &mut Job<'_>,
    ) -> Result<(), LiveHostError> {
        let mut done: Vec<&str> = Vec::new();
        for (name, Wish { set, get: read, value }) in wishes {
            let mut arguments: Vec<OscType> = at.iter().map(|it| OscType::Int(*it)).collect();
            arguments.push(value.clone());
            let written = self.put_value(job.guard, command(set, arguments), get(read, at), subject, &value);
            (job.applied.revision, _) = written.await.map_err(|why| match done.as_slice() {
                [] => why,
                before => LiveHostError::HalfDone {
                    done: format!("these were written: {}", before.join(", ")),
                    why: Box::new(why),
                },
            })?;
            job.applied.undo_steps += 1;
            done.push(name);
        }
        Ok(())
    }

    async fn set_track_props(&self, id: PathId, props: &TrackProps, mut job: Job<'_>) -> Result<(), LiveHostError> {
        self.admit(job.guard, std::slice::from_ref(job.edit), Vec::new()).await?;
        let (n, row) = self.track(id)?;
        if props.arm.is_some() {
            let batch = self.wire.read(&[get("/live/track/get/can_be_armed", &[n])]).await?;
            if !first(&batch, 0, id, Listing::Tracks, truth)? {
                let reason = format!("a {} track cannot be armed", row.kind.as_str());
                return Err(LiveError::WrongType { subject: id, reason, listing: Listing::Tracks }.into());
            }
        }
        let before = self.track_state(id, n).await?;
        let mut wishes = Vec::new();
        if let Some(name) = &props.name {
            let value = OscType::String(name.clone());
            wishes.push(("name", Wish { set: "/live/track/set/name", get: "/live/track/get/name", value }));
            self.expect(|look| {
                if let Some(row) = look.tracks.get_mut(n.max(0) as usize) {
                    row.name.clone_from(name);
                }
            });
        }
        for (name, value, set, get) in [
            ("mute", props.mute, "/live/track/set/mute", "/live/track/get/mute"),
            ("solo", props.solo, "/live/track/set/solo", "/live/track/get/solo"),
            ("arm", props.arm, "/live/track/set/arm", "/live/track/get/arm"),
        ] {
            if let Some(value) = value {
                wishes.push((name, Wish { set, get, value: OscType::Int(i32::from(value)) }));
            }
        }
        self.wish(id, &[n], wishes, &mut job).await?;
        let state = self.track_state(id, n).await.map_err(made)?;
        job.applied.revision = self.was_written(Facet::Track, id, &format!("{before:?}"), &state);
        job.applied.outcomes.push(Outcome::Track(state));
        job.applied.changed.push(id);
        Ok(())
    }

    async fn create_track(&self, kind: TrackKind, job: Job<'_>) -> Result<(), LiveHostError> {
        let address = match kind {
            TrackKind::Midi => "/live/song/create_midi_track",
            TrackKind::Audio => "/live/song/create_audio_track",
            TrackKind::Group => return Err(cannot(PathId::Main, "AbletonOSC cannot group tracks")),
        };
        self.admit(job.guard, std::slice::from_ref(job.edit), Vec::new()).await?;
        let before = self.tracks().len();
        let write = command(address, vec![OscType::Int(-1)]);
        let counted = get("/live/song/get/num_tracks", &[]);
        let (mut batch, revision) = self.put(job.guard, Mine::Nothing, write, vec![counted.clone()]).await?;
        let one_more = |it: &OscType| number(it).is_some_and(|it| same(it, before as f64 + 1.0));
        self.settle(&mut batch, &counted, one_more).await?;
        let after = first(&batch, 1, PathId::Main, Listing::Tracks, number).map_err(unsure)?;
        if !same(after, before as f64 + 1.0) {
            let reason = format!("Live had {before} tracks and reports {after} after one was added");
            return Err(refused(PathId::Main, batch.error.unwrap_or(reason)));
        }
        let id = PathId::Track(count(before));
        self.listen().await.map_err(made)?;
        job.applied.done(Outcome::TrackCreated(self.track_info(id).await.map_err(made)?), id, revision);
        Ok(())
    }

    async fn create_clip(&self, slot_id: PathId, length_beats: f64, job: Job<'_>) -> Result<(), LiveHostError> {
        let PathId::OnTrack(track, TrackPart::Slot(slot)) = slot_id else {
            return Err(wrong(slot_id, "a session slot (track:N/clipslot:M)", Listing::Clips));
        };
        let at = [index(track), index(slot)];
        let has_clip = get("/live/clip_slot/get/has_clip", &at);
        let batch = self.admit(job.guard, std::slice::from_ref(job.edit), vec![has_clip.clone()]).await?;
        let (_, row) = self.track(PathId::Track(track)).map_err(|_| gone(slot_id, Listing::Tracks))?;
        if row.kind != TrackKind::Midi {
            let reason = format!("a MIDI clip needs a MIDI track, and this is a {} track", row.kind.as_str());
            return Err(LiveError::WrongType { subject: slot_id, reason, listing: Listing::Tracks }.into());
        }
        if first(&batch, 0, slot_id, Listing::Clips, truth)? {
            return Err(LiveError::SlotOccupied { subject: slot_id }.into());
        }
        let mut arguments = at.map(OscType::Int).to_vec();
        arguments.push(float(length_beats));
        let write = command("/live/clip_slot/create_clip", arguments);
        self.put_value(job.guard, write, has_clip, slot_id, &OscType::Bool(true)).await?;
        let clip_id = PathId::OnTrack(track, TrackPart::SlotClip(slot));
        let revision = self.was_written(Facet::Notes, clip_id, ABSENT, &Vec::<conductor_set::Note>::new());
        job.applied.done(Outcome::ClipCreated(ClipCreated { clip_id, slot_id, length_beats }), clip_id, revision);
        Ok(())
    }

    async fn set_param(&self, id: PathId, value: f64, job: Job<'_>) -> Result<(), LiveHostError> {
        let (set, read, mut arguments) = param_address(id)?;
        let batch = self.admit(job.guard, std::slice::from_ref(job.edit), param_asks(id)?).await?;
        let before = param_of(id, &batch)?;
        if !(before.min..=before.max).contains(&value) {
            let reason = format!("must be {} to {}, not {value}", before.min, before.max);
            return Err(LiveError::BadValue { subject: "value".into(), reason }.into());
        }
        let question: Ask = get_with(read, arguments.clone(), arguments.len());
        arguments.push(float(value));
        let (_, now) = self.put_value(job.guard, command(set, arguments), question, id, &float(value)).await?;
        let now = number(&now).unwrap_or(value);
        let (previous, unit) = (before.value, before.unit);
        let revision = self.was_written(Facet::Param, id, &format!("{previous:?}"), &now);
        let param = Param { value: now, display: display(unit, now), ..before };
        let written = ParamWritten { param, previous, unknown: vec!["defaultValue", "automated"] };
        job.applied.done(Outcome::Param(written), id, revision);
        Ok(())
    }

    async fn set_clip_props(&self, id: PathId, props: &ClipProps, mut job: Job<'_>) -> Result<(), LiveHostError> {
        let (track, slot) = session_clip(id)?;
        let at = [index(track), index(slot)];
        let batch = self.admit(job.guard, std::slice::from_ref(job.edit), clip_asks(at).into()).await?;
        let now = clip_info(track, slot, &batch, 0)?;
        let (start, end) = props.loop_after((now.loop_start, now.loop_end))?;
        let mut wishes = Vec::new();
        let mut add = |name, set, get, value: Option<OscType>| {
            if let Some(value) = value {
                wishes.push((name, Wish { set, get, value }));
            }
        };
        let flag = |it: bool| OscType::Int(i32::from(it));
        add("looping", "/live/clip/set/looping", "/live/clip/get/looping", props.looping.map(flag));
        add("name", "/live/clip/set/name", "/live/clip/get/name", props.name.clone().map(OscType::String));
        add("muted", "/live/clip/set/muted", "/live/clip/get/muted", props.muted.map(flag));
        let color = props.color.map(|it| OscType::Int(index(it)));
        add("color", "/live/clip/set/color_index", "/live/clip/get/color_index", color);
        let ends = [
            ("loopEnd", "/live/clip/set/loop_end", "/live/clip/get/loop_end", props.loop_end, end),
            ("loopStart", "/live/clip/set/loop_start", "/live/clip/get/loop_start", props.loop_start, start),
        ];
        // Live refuses a loop whose end is before its start, even between two writes. If the start
        // moves back, the start is written first; otherwise the end is written first.
        let order = if start < now.loop_start { [1, 0] } else { [0, 1] };
        for (name, set, get, wanted, value) in order.map(|n| ends[n]) {
            add(name, set, get, wanted.map(|_| float(value)));
        }
        let marker = props.start_marker.map(float);
        add("startMarker", "/live/clip/set/start_marker", "/live/clip/get/start_marker", marker);
        add("endMarker", "/live/clip/set/end_marker", "/live/clip/get/end_marker", props.end_marker.map(float));
        if let Some(name) = &props.name {
            self.expect(|look| {
                let of_track = look.clips.get_mut(track as usize);
                if let Some(known) = of_track.and_then(|it| it.get_mut(slot as usize)) {
                    *known = Some(name.clone());
                }
            });
        }
        self.wish(id, &at, wishes, &mut job).await?;
        let batch = self.wire.read(&clip_asks(at)).await.map_err(made)?;
        let info = clip_info(track, slot, &batch, 0).map_err(made)?;
        job.applied.revision = self.was_written(Facet::Clip, id, &format!("{now:?}"), &info);
        job.applied.outcomes.push(Outcome::Clip(info));
        job.applied.changed.push(id);
        Ok(())
    }

    async fn delete_clip(&self, id: PathId, job: Job<'_>) -> Result<(), LiveHostError> {
        let (track, slot) = session_clip(id)?;
        let at = [index(track), index(slot)];
        let has_clip = get("/live/clip_slot/get/has_clip", &at);
        let batch = self.admit(job.guard, std::slice::from_ref(job.edit), vec![has_clip.clone()]).await?;
        if !first(&batch, 0, id, Listing::Clips, truth)? {
            return Err(LiveError::EmptySlot { subject: id }.into());
        }
        self.expect(|look| {
            if let Some(known) = look.clips.get_mut(track as usize).and_then(|it| it.get_mut(slot as usize)) {
                *known = None;
            }
        });
        let write = command("/live/clip_slot/delete_clip", at.map(OscType::Int).to_vec());
        self.put_value(job.guard, write, has_clip, id, &OscType::Bool(false)).await?;
        let revision = self.changed_contents(|it| {
            it.deleted(Facet::Notes, id);
            it.deleted(Facet::Clip, id);
        });
        job.applied.done(Outcome::Deleted(Deleted { deleted: vec![id], shifted: false }), id, revision);
        Ok(())
    }

    async fn delete_track(&self, id: PathId, job: Job<'_>) -> Result<(), LiveHostError> {
        self.admit(job.guard, std::slice::from_ref(job.edit), Vec::new()).await?;
        let (n, _) = self.track(id)?;
        let before = self.tracks().len();
        let write = command("/live/song/delete_track", vec![OscType::Int(n)]);
        let counted = get("/live/song/get/num_tracks", &[]);
        let (mut batch, _) = self.put(job.guard, Mine::Anything, write, vec![counted.clone()]).await?;
        let fewer = |it: &OscType| number(it).is_some_and(|it| it < before as f64);
        self.settle(&mut batch, &counted, fewer).await?;
        let after = first(&batch, 1, id, Listing::Tracks, number).map_err(unsure)?.max(0.0) as usize;
        if after >= before {
            return Err(refused(id, batch.error.unwrap_or_else(|| "the track was not deleted".into())));
        }
        // Deleting a group deletes its tracks too; they follow the group in track order.
        let first = u32::try_from(n).unwrap_or(0);
        let deleted = (first..first + count(before - after)).map(PathId::Track).collect();
        job.applied.shifted = true;
        let revision = self.changed_contents(Contents::forget);
        job.applied.done(Outcome::Deleted(Deleted { deleted, shifted: true }), id, revision);
        Ok(())
    }
}

/// Records an edit that adds one entry to Live's undo list.
trait Done {
    fn done(&mut self, outcome: Outcome, changed: PathId, revision: Revision);
}

impl Done for Applied {
    fn done(&mut self, outcome: Outcome, changed: PathId, revision: Revision) {
        self.outcomes.push(outcome);
        self.changed.push(changed);
        self.undo_steps += 1;
        self.revision = revision;
    }
}
