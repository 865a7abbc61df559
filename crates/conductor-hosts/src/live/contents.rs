//! Records the contents of a running Live that are part of its revision: notes, clip properties,
//! parameter values, and switches of tracks.
//!
//! The structure of the Set is read completely before every call, but the contents are too large
//! for that. Instead, the state of an object is stored when the object is read or written. A write
//! that expects a revision reads its objects again. Only objects that differ from their first known
//! state are part of the revision. Therefore the first read of an object does not change the
//! revision, a change to the object does, and an undo restores the old revision. Not here: how a
//! host reads an object.

use crate::system::{Ids, RandomIds};
use conductor_set::{LiveEdit, PathId, Revision};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Maximum number of known objects. When it is reached, all of them are dropped.
const MOST: usize = 20_000;
/// The state of an object that does not exist.
pub const ABSENT: &str = "absent";

/// A part of an object that one kind of edit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Facet {
    Notes,
    Clip,
    Param,
    Track,
}

type Key = (Facet, PathId);

#[derive(Debug)]
struct Known {
    first: Revision,
    now: Revision,
    /// Whether Conductor wrote the object. If so, an undo or redo can change the object.
    ours: bool,
}

#[derive(Debug)]
pub struct Contents {
    known: BTreeMap<Key, Known>,
    /// The objects that differ from their first known state.
    changed: BTreeMap<Key, Revision>,
    /// How many times all objects were dropped.
    generation: u64,
    /// Identifies this attachment to Live. Revisions of an earlier attachment are not valid,
    /// because changes in between are unknown.
    attachment: Uuid,
}

impl Default for Contents {
    fn default() -> Self {
        Contents { known: BTreeMap::new(), changed: BTreeMap::new(), generation: 0, attachment: RandomIds.v4() }
    }
}

impl Contents {
    /// Computes the revision of the Set from its structure and these contents.
    pub fn revision(&self, structure: Revision) -> Revision {
        Revision::of_state(&format!("{structure} {} {} {:?}", self.attachment, self.generation, self.changed))
    }

    pub fn knows(&self, facet: Facet, id: PathId) -> bool {
        self.known.contains_key(&(facet, id))
    }

    /// Records the state of an object that was read.
    pub fn read(&mut self, facet: Facet, id: PathId, state: &str) {
        self.note((facet, id), Revision::of_state(state), Revision::of_state(state), false);
    }

    /// Records the states of an object before and after a write by Conductor.
    pub fn wrote(&mut self, facet: Facet, id: PathId, before: &str, now: &str) {
        self.note((facet, id), Revision::of_state(before), Revision::of_state(now), true);
    }

    /// Records that Conductor deleted an object, if the object is known.
    pub fn deleted(&mut self, facet: Facet, id: PathId) {
        if self.knows(facet, id) {
            self.wrote(facet, id, ABSENT, ABSENT);
        }
    }

    fn note(&mut self, key: Key, first: Revision, now: Revision, ours: bool) {
        if self.known.len() >= MOST && !self.known.contains_key(&key) {
            self.forget();
        }
        let known = self.known.entry(key).or_insert(Known { first, now, ours });
        known.now = now;
        known.ours |= ours;
        if known.first == now {
            self.changed.remove(&key);
        } else {
            self.changed.insert(key, now);
        }
    }

    /// Drops all known objects: another Set may be open, or ids may refer to other objects.
    pub fn forget(&mut self) {
        self.generation += 1;
        self.known.clear();
        self.changed.clear();
    }

    /// The objects that Conductor wrote. An undo or redo can have changed them.
    pub fn ours(&self) -> Vec<Key> {
        self.known.iter().filter(|(_, it)| it.ours).map(|(key, _)| *key).collect()
    }

    /// The known objects that an edit changes or removes.
    pub fn touched_by(&self, edit: &LiveEdit) -> Vec<Key> {
        let on_track = |track: &PathId| {
            let PathId::Track(n) = track else { return Vec::new() };
            let on = |id: &PathId| matches!(id, PathId::Track(it) | PathId::OnTrack(it, _) if it == n);
            self.known.keys().filter(|(_, id)| on(id)).copied().collect()
        };
        let all = match edit {
            LiveEdit::ReplaceNotes { clip_id, .. } => vec![(Facet::Notes, *clip_id)],
            LiveEdit::SetClipProps { clip_id, .. } => vec![(Facet::Clip, *clip_id)],
            LiveEdit::DeleteClip { clip_id } => vec![(Facet::Notes, *clip_id), (Facet::Clip, *clip_id)],
            LiveEdit::SetParam { param_id, .. } => vec![(Facet::Param, *param_id)],
            LiveEdit::SetTrackProps { track_id, .. } => vec![(Facet::Track, *track_id)],
            LiveEdit::DeleteTrack { track_id } => on_track(track_id),
            LiveEdit::SetTempo { .. }
            | LiveEdit::CreateTrack { .. }
            | LiveEdit::CreateMidiClip { .. }
            | LiveEdit::InsertDevice { .. } => Vec::new(),
        };
        all.into_iter().filter(|(facet, id)| self.knows(*facet, *id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_set::TrackPart;

    #[test]
    fn a_first_read_keeps_the_revision_a_change_does_not_and_undo_brings_it_back() {
        let (mut contents, structure) = (Contents::default(), Revision::of_state("x"));
        let clip = PathId::OnTrack(0, TrackPart::SlotClip(0));
        let start = contents.revision(structure);
        contents.read(Facet::Notes, clip, "a");
        contents.read(Facet::Notes, clip, "a");
        assert_eq!(contents.revision(structure), start);
        contents.read(Facet::Notes, clip, "b");
        let second = contents.revision(structure);
        assert_ne!(second, start);
        contents.wrote(Facet::Notes, clip, "b", "c");
        assert!(contents.revision(structure) != second && contents.revision(structure) != start);
        contents.read(Facet::Notes, clip, "a");
        assert_eq!(contents.revision(structure), start);
        contents.wrote(Facet::Param, PathId::Main, "0.5", "0.6");
        assert_ne!(contents.revision(structure), start, "our first write did not change the revision");
        assert_eq!(contents.ours().len(), 2);
        contents.forget();
        assert_ne!(contents.revision(structure), start);
        assert_ne!(Contents::default().revision(structure), start, "two attachments have the same revision");
    }

    #[test]
    fn deleting_a_track_touches_what_is_known_of_it() {
        let mut contents = Contents::default();
        let of = |n| PathId::OnTrack(n, TrackPart::SlotClip(0));
        contents.read(Facet::Notes, of(0), "a");
        contents.read(Facet::Notes, of(1), "a");
        let gone = contents.touched_by(&LiveEdit::DeleteTrack { track_id: PathId::Track(1) });
        assert_eq!(gone, [(Facet::Notes, of(1))]);
    }
}
