//! Checks a Set for broken references and counts that would prevent Live from opening it. Not here:
//! all other rules of Live.

use crate::change::Swap;
use crate::document::{Chunk, Document, Family};
use crate::error::LiveError;
use crate::ids::{is_pointee, pointees};
use crate::note::stored;
use crate::track::{TrackKind, chain_of};
use crate::xml::El;
use std::collections::{BTreeSet, HashMap, HashSet};

/// One fault and its location.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// Two targets have the same id.
    #[error("two targets have id {id}")]
    DuplicateId {
        /// The duplicated id.
        id: u32,
    },
    /// The id of a target is not below `NextPointeeId`.
    #[error("target id {id} is not below NextPointeeId {next}")]
    IdNotBelowNext {
        /// Id of the target.
        id: u32,
        /// The Set's next free id.
        next: u32,
    },
    /// The length of a slot list differs from the number of scenes.
    #[error("track {track:?}: {list} has {slots} slots for {scenes} scenes")]
    SlotCount {
        /// Name of the track.
        track: String,
        /// `MainSequencer` or `FreezeSequencer`.
        list: &'static str,
        /// Number of slots.
        slots: usize,
        /// Number of scenes.
        scenes: usize,
    },
    /// Two notes of a clip have the same id.
    #[error("track {track:?}: two notes of a clip have id {id}")]
    DuplicateNoteId {
        /// Name of the track.
        track: String,
        /// The duplicated id.
        id: u32,
    },
    /// The id of a note is not below the clip's `NextId`.
    #[error("track {track:?}: note id {id} is not below NextId {next}")]
    NoteIdNotBelowNext {
        /// Name of the track.
        track: String,
        /// Id of the note.
        id: u32,
        /// The clip's next free id.
        next: u32,
    },
    /// An envelope points at a target that does not exist.
    #[error("an envelope points at id {id}, which does not exist")]
    DanglingPointee {
        /// The id to which the envelope points.
        id: u32,
    },
    /// A track belongs to a group that does not exist.
    #[error("track {track:?} is in group {group}, which does not exist")]
    DanglingGroup {
        /// Name of the track.
        track: String,
        /// The id of the group.
        group: i64,
    },
}

/// Returns all faults in a document. The lengths of slot lists are not checked in group tracks and
/// in Sets older than Live 11.
pub fn check(doc: &Document) -> Vec<Fault> {
    let mut faults = Vec::new();
    let next = doc.in_set("NextPointeeId").and_then(|(_, el)| el.attr_u32("Value"));
    let mut seen: HashMap<u32, bool> = HashMap::new();
    for id in doc.chunks.iter().flat_map(|c| pointees(c.outline.all(&c.text))) {
        match seen.get_mut(&id) {
            Some(reported) if !*reported => {
                *reported = true;
                faults.push(Fault::DuplicateId { id });
            }
            Some(_) => {}
            None => {
                seen.insert(id, false);
                if let Some(next) = next.filter(|next| id >= *next) {
                    faults.push(Fault::IdNotBelowNext { id, next });
                }
            }
        }
    }
    let exists: HashSet<u32> = seen.into_keys().collect();
    for chunk in &doc.chunks {
        dangling(chunk, |id| exists.contains(&id), &mut faults);
    }
    for track in doc.tracks() {
        local(doc, track.chunk, &mut faults);
    }
    faults
}

/// Adds a fault for every envelope whose `PointeeId` does not exist.
fn dangling(chunk: &Chunk, exists: impl Fn(u32) -> bool, faults: &mut Vec<Fault>) {
    for target in chunk.outline.all(&chunk.text).filter(|el| el.name() == "EnvelopeTarget") {
        if let Some(id) = target.child("PointeeId").and_then(|p| p.attr_u32("Value")).filter(|id| !exists(*id)) {
            faults.push(Fault::DanglingPointee { id });
        }
    }
}

/// Adds the faults of one track: in its slot lists, its group and the ids of its notes.
fn local(doc: &Document, chunk: usize, faults: &mut Vec<Fault>) {
    let Some(track) = doc.tracks().find(|t| t.chunk == chunk) else {
        return;
    };
    let name = track.name();
    let scenes = doc.scene_elements().len();
    if doc.schema.family >= Family::Live11 && track.kind != TrackKind::Group {
        for list in ["MainSequencer", "FreezeSequencer"] {
            let slots = chain_of(track.el).and_then(|c| c.child(list)).and_then(|s| s.child("ClipSlotList"));
            let slots = slots.map(|l| l.children().count());
            if let Some(slots) = slots.filter(|n| *n != scenes) {
                faults.push(Fault::SlotCount { track: name.clone(), list, slots, scenes });
            }
        }
    }
    if let Some(group) = track.el.integer("TrackGroupId").filter(|g| *g >= 0)
        && !doc.tracks().any(|t| t.kind == TrackKind::Group && t.xml_id().map(i64::from) == Some(group))
    {
        faults.push(Fault::DanglingGroup { track: name.clone(), group });
    }
    for clip in track.session().into_iter().chain(track.arrangement()) {
        note_ids(clip.el, &name, faults);
    }
}

fn note_ids(clip: El<'_>, track: &str, faults: &mut Vec<Fault>) {
    let next = clip.at("Notes/NoteIdGenerator/NextId").and_then(|n| n.attr_u32("Value"));
    let mut seen = BTreeSet::new();
    for id in stored(clip).iter().filter_map(|n| n.id) {
        if !seen.insert(id) {
            faults.push(Fault::DuplicateNoteId { track: track.to_owned(), id });
        }
        if let Some(next) = next.filter(|next| id >= *next) {
            faults.push(Fault::NoteIdNotBelowNext { track: track.to_owned(), id, next });
        }
    }
}

/// Checks the parts that a list of edits changed. Ignores faults that the document had before.
///
/// An id in a changed chunk is valid if the chunk had this id before, or if the id is in the range
/// of free ids. So only the changed chunks are examined.
pub(crate) fn after_edit(before: &Document, after: &Document, swaps: &[Swap]) -> Result<(), LiveError> {
    let next = |doc: &Document| doc.in_set("NextPointeeId").and_then(|(_, el)| el.attr_u32("Value"));
    let free = next(before).unwrap_or(u32::MAX)..next(after).unwrap_or(u32::MAX);
    let mut known: HashSet<u32> = HashSet::new();
    let mut fresh: HashSet<u32> = HashSet::new();
    for swap in swaps {
        known.extend(swap.out.iter().flat_map(|c| pointees(c.outline.all(&c.text))));
    }
    for (index, chunk) in after.chunks.iter().enumerate() {
        if before.chunks.iter().any(|c| std::sync::Arc::ptr_eq(c, chunk)) {
            continue;
        }
        let mut here: HashSet<u32> = HashSet::new();
        for el in chunk.outline.all(&chunk.text).filter(|el| is_pointee(*el)) {
            let Some(id) = el.attr_u32("Id") else {
                continue;
            };
            let twice = !here.insert(id);
            let is_new = free.contains(&id) && !known.contains(&id);
            let new_twice = is_new && !fresh.insert(id);
            if (twice || new_twice || (!is_new && !known.contains(&id))) && !had(before, &Fault::DuplicateId { id }) {
                return Err(LiveError::broken(format!(
                    "target id {id} is used twice or is outside the range of free ids"
                )));
            }
        }
        let mut faults = Vec::new();
        dangling(chunk, |id| here.contains(&id), &mut faults);
        local(after, index, &mut faults);
        if let Some(fault) = faults.into_iter().find(|f| !had(before, f)) {
            return Err(LiveError::broken(fault.to_string()));
        }
    }
    Ok(())
}

/// Whether the document already had the fault before the edits. Checks the whole document, so it is
/// called only after a fault was found.
fn had(before: &Document, fault: &Fault) -> bool {
    let old = check(before);
    old.contains(fault) || matches!(fault, Fault::DanglingPointee { id } if targets(before).contains(id))
}

/// The ids of all targets of the document. All tracks are included, because an envelope may point
/// into another track.
fn targets(doc: &Document) -> HashSet<u32> {
    doc.chunks.iter().flat_map(|c| pointees(c.outline.all(&c.text))).collect()
}
