//! An open patch: a document with its revision, its journal for undo and redo, and references to
//! boxes. A reference expires when its box is removed or its revision is replaced. Not here: files,
//! hosts and clocks.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::canvas::Canvas;
use crate::document::{BoxId, CanvasId, Document};
use crate::edit::{Applied, CordEnds, Edit, EditError, LookupError, Op, Refused, Restore, Target, find};
use crate::objects;

/// Limits of the undo journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalLimits {
    /// Maximum number of steps.
    pub steps: usize,
    /// Maximum number of bytes that all steps together keep in memory.
    pub bytes: usize,
}

impl Default for JournalLimits {
    fn default() -> JournalLimits {
        JournalLimits { steps: 200, bytes: 64 << 20 }
    }
}

#[derive(Clone, Debug)]
struct Step {
    label: String,
    restore: Arc<Restore>,
    weight: usize,
}

/// A document that is open for editing.
#[derive(Clone, Debug)]
pub struct Patch {
    document: Document,
    revision: u64,
    saved_revision: u64,
    saved: Arc<[u8]>,
    locked: bool,
    limits: JournalLimits,
    undo: VecDeque<Step>,
    redo: Vec<Step>,
    /// The inverses of the changes of recent revisions, newest last. They are used to read old
    /// revisions, not for undo.
    trail: VecDeque<(u64, Step)>,
}

/// Why a list of edits was not applied to a patch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// The edits expect another revision.
    #[error("the patch is at revision {now}, not {expected}")]
    WrongRevision {
        /// The revision that the edits expect.
        expected: u64,
        /// The current revision.
        now: u64,
    },
    /// An edit was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There is nothing to undo or redo.
    #[error("nothing to {0}")]
    Nothing(&'static str),
}

/// A list of edits that was applied to a patch.
#[derive(Clone, Debug)]
pub struct Revised {
    /// The new revision.
    pub revision: u64,
    /// The results of the edits.
    pub applied: Applied,
}

impl Patch {
    /// Starts at revision 1, without unsaved changes.
    pub fn new(document: Document, limits: JournalLimits) -> Patch {
        let saved = document.to_bytes().into();
        Patch {
            document,
            revision: 1,
            saved_revision: 1,
            saved,
            locked: false,
            limits,
            undo: VecDeque::new(),
            redo: Vec::new(),
            trail: VecDeque::new(),
        }
    }

    /// The current document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Registers the ports of an abstraction with the document.
    pub fn learn_abstraction(&mut self, name: &str, ports: crate::Ports) {
        self.document.learn_abstraction(name, ports);
    }

    /// The revision: 1 at first, incremented by every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision that was saved last.
    pub fn saved_revision(&self) -> u64 {
        self.saved_revision
    }

    /// Whether the bytes differ from the bytes saved last.
    pub fn dirty(&self) -> bool {
        self.revision != self.saved_revision && self.document.to_bytes() != *self.saved
    }

    /// Whether the patch is locked, as in the program's lock mode. Files do not store this state,
    /// so a patch starts unlocked. Edits ignore the lock.
    pub fn locked(&self) -> bool {
        self.locked
    }

    /// Locks or unlocks the patch. Does not create a revision.
    pub fn set_locked(&mut self, locked: bool) {
        self.locked = locked;
    }

    /// The bytes that were opened or saved last.
    pub fn saved_bytes(&self) -> &[u8] {
        &self.saved
    }

    /// Records that `bytes`, the current revision, were written to disk.
    pub fn mark_saved(&mut self, bytes: impl Into<Arc<[u8]>>) {
        self.saved = bytes.into();
        self.saved_revision = self.revision;
    }

    /// Applies all edits of a list as one step, or none of them.
    pub fn apply(
        &mut self,
        edits: &[Edit],
        label: &str,
        expected_revision: Option<u64>,
    ) -> Result<Revised, PatchError> {
        self.run(edits, label, expected_revision, false)
    }

    /// Applies edits as part of the newest step if it has the same label, else as a new step. Used
    /// for the values that a knob sends while a person turns it.
    pub fn extend(&mut self, edits: &[Edit], label: &str) -> Result<Revised, PatchError> {
        self.run(edits, label, None, true)
    }

    fn run(
        &mut self,
        edits: &[Edit],
        label: &str,
        expected_revision: Option<u64>,
        extend: bool,
    ) -> Result<Revised, PatchError> {
        if let Some(expected) = expected_revision.filter(|expected| *expected != self.revision) {
            return Err(PatchError::WrongRevision { expected, now: self.revision });
        }
        let edits = self.settle(edits)?;
        let applied = self.document.apply(&edits)?;
        if applied.changed {
            let restore = Arc::new(applied.inverse.clone());
            let step = Step { label: label.to_owned(), weight: restore.weight(), restore };
            self.advance(step.clone());
            self.redo.clear();
            match self.undo.back_mut().filter(|step| extend && step.label == label) {
                Some(newest) => {
                    let earlier = Arc::make_mut(&mut newest.restore);
                    earlier.append(&step.restore);
                    newest.weight = earlier.weight();
                }
                None => self.undo.push_back(step),
            }
            self.forget();
        }
        Ok(Revised { revision: self.revision, applied })
    }

    /// Applies edits to a copy; returns the resulting document and the results of the edits.
    pub fn preview(&self, edits: &[Edit]) -> Result<(Document, Applied), PatchError> {
        let edits = self.settle(edits)?;
        let mut document = self.document.clone();
        let applied = document.apply(&edits)?;
        Ok((document, applied))
    }

    fn advance(&mut self, step: Step) {
        self.revision += 1;
        self.trail.push_back((self.revision, step));
        while self.trail.len() > self.limits.steps {
            self.trail.pop_front();
        }
    }

    /// Drops the oldest steps beyond the limits; the newest step always stays.
    fn forget(&mut self) {
        let mut total: usize = self.undo.iter().map(|step| step.weight).sum();
        while self.undo.len() > 1 && (self.undo.len() > self.limits.steps || total > self.limits.bytes) {
            if let Some(step) = self.undo.pop_front() {
                total -= step.weight;
            }
        }
        let mut held: usize = self.trail.iter().map(|(_, step)| step.weight).sum();
        while self.trail.len() > 1 && held > self.limits.bytes {
            if let Some((_, step)) = self.trail.pop_front() {
                held -= step.weight;
            }
        }
    }

    /// Undoes up to `steps` steps; returns their labels, newest first.
    pub fn undo(&mut self, steps: usize) -> Result<Vec<String>, PatchError> {
        let mut labels = Vec::new();
        for _ in 0..steps {
            let Some(step) = self.undo.pop_back() else {
                break;
            };
            let back = self.swap(&step)?;
            labels.push(step.label);
            self.redo.push(back);
        }
        if labels.is_empty() { Err(PatchError::Nothing("undo")) } else { Ok(labels) }
    }

    /// Redoes up to `steps` undone steps; returns their labels in the order in which they were
    /// made.
    pub fn redo(&mut self, steps: usize) -> Result<Vec<String>, PatchError> {
        let mut labels = Vec::new();
        for _ in 0..steps {
            let Some(step) = self.redo.pop() else { break };
            let back = self.swap(&step)?;
            labels.push(step.label);
            self.undo.push_back(back);
        }
        if labels.is_empty() { Err(PatchError::Nothing("redo")) } else { Ok(labels) }
    }

    fn swap(&mut self, step: &Step) -> Result<Step, PatchError> {
        let edit = Edit { canvas: CanvasId::ROOT, op: Op::Restore(step.restore.as_ref().clone()) };
        let applied = self.document.apply(&[edit])?;
        let restore = Arc::new(applied.inverse);
        let back = Step { label: step.label.clone(), weight: restore.weight(), restore };
        self.advance(back.clone());
        Ok(back)
    }

    /// Replaces the document by a version that another program made. Clears the journal, because
    /// its steps do not fit the new version.
    pub fn take(&mut self, document: Document) {
        self.document = document;
        self.revision += 1;
        self.undo.clear();
        self.redo.clear();
        self.trail.clear();
    }

    /// Number of steps that can be undone, and number of steps that can be redone.
    pub fn depths(&self) -> (usize, usize) {
        (self.undo.len(), self.redo.len())
    }

    /// The document at an earlier revision; `None` if that revision is no longer stored.
    pub fn at_revision(&self, revision: u64) -> Option<Document> {
        if revision == 0 || revision > self.revision {
            return None;
        }
        let mut document = self.document.clone();
        for (made, step) in self.trail.iter().rev() {
            if *made <= revision {
                return Some(document);
            }
            let edit = Edit { canvas: CanvasId::ROOT, op: Op::Restore(step.restore.as_ref().clone()) };
            document.apply(&[edit]).ok()?;
        }
        let oldest = self.trail.front().map_or(self.revision, |(made, _)| made - 1);
        (oldest == revision).then_some(document)
    }

    /// Finds a canvas by the segments of its id after the root. A segment is a key, or a name that
    /// exactly one box has.
    pub fn canvas(&self, segments: &[&str]) -> Result<CanvasId, LookupError> {
        let mut id = CanvasId::ROOT;
        for segment in segments {
            let canvas =
                self.document.canvas_at(&id).ok_or_else(|| LookupError::Gone { key: (*segment).to_owned() })?;
            let slot = segment_slot(&self.document, &id, canvas, segment)?;
            id = id.inside(slot);
        }
        Ok(id)
    }

    /// Finds a box by varname, else by key, else by `#index@revision`.
    pub fn object(&self, canvas: &CanvasId, reference: &str) -> Result<BoxId, LookupError> {
        let canvas = self.document.canvas_at(canvas).ok_or_else(|| LookupError::Gone { key: reference.to_owned() })?;
        match find(canvas, reference) {
            Err(LookupError::NotFound { name, nearest }) => match indexed(reference) {
                Some((_, revision)) if revision != self.revision => {
                    Err(LookupError::OldRevision { reference: name, revision, now: self.revision })
                }
                Some((index, _)) => {
                    canvas.box_slots().nth(index).map(BoxId).ok_or(LookupError::NotFound { name, nearest })
                }
                None => Err(LookupError::NotFound { name, nearest }),
            },
            found => found,
        }
    }

    /// Replaces each `#index@revision` by the box that has this index before the first edit.
    fn settle(&self, edits: &[Edit]) -> Result<Vec<Edit>, Refused> {
        let mut edits = edits.to_vec();
        for (index, edit) in edits.iter_mut().enumerate() {
            let canvas = edit.canvas.clone();
            for target in targets(&mut edit.op) {
                if let Target::Named(name) = target
                    && indexed(name).is_some()
                {
                    let id = self
                        .object(&canvas, name)
                        .map_err(|error| Refused { index, error: EditError::Lookup(error) })?;
                    *target = Target::Box(id);
                }
            }
        }
        Ok(edits)
    }
}

fn indexed(reference: &str) -> Option<(usize, u64)> {
    let (index, revision) = reference.strip_prefix('#')?.split_once('@')?;
    Some((index.parse().ok()?, revision.parse().ok()?))
}

fn targets(op: &mut Op) -> Vec<&mut Target> {
    fn ends(ends: &mut CordEnds) -> Vec<&mut Target> {
        vec![&mut ends.from, &mut ends.to]
    }
    match op {
        Op::Remove(target)
        | Op::SetText { target, .. }
        | Op::SetAttribute { target, .. }
        | Op::SetVarname { target, .. }
        | Op::SetHidden { target, .. }
        | Op::SetRect { target, .. } => vec![target],
        Op::Connect { ends: list, .. } | Op::Disconnect(list) | Op::SetMidpoints { ends: list, .. } => ends(list),
        Op::Encapsulate { targets, .. } => targets.iter_mut().collect(),
        Op::Add(_) | Op::AssignVarnames(_) | Op::Restore(_) => Vec::new(),
    }
}

fn segment_slot(document: &Document, id: &CanvasId, canvas: &Canvas, segment: &str) -> Result<u32, LookupError> {
    let embedded = |slot: u32| canvas.inner(slot).is_some();
    if let Some(slot) = canvas.by_key(segment).filter(|slot| embedded(*slot)) {
        return Ok(slot);
    }
    if canvas.was(segment) {
        return Err(LookupError::Gone { key: segment.to_owned() });
    }
    let subpatchers = document.view(id).map(|view| view.subpatchers(false)).unwrap_or_default();
    let named: Vec<_> = subpatchers
        .iter()
        .filter(|sub| {
            sub.canvas.is_some() && (sub.varname.as_deref() == Some(segment) || sub.name.as_deref() == Some(segment))
        })
        .collect();
    match named.as_slice() {
        [only] => Ok(only.id.0),
        [] => {
            let names = subpatchers
                .iter()
                .flat_map(|sub| [Some(sub.key.as_str()), sub.name.as_deref(), sub.varname.as_deref()])
                .flatten();
            Err(LookupError::NotFound { name: segment.to_owned(), nearest: objects::nearest(segment, names) })
        }
        several => Err(LookupError::Ambiguous {
            name: segment.to_owned(),
            keys: several.iter().map(|sub| sub.key.clone()).collect(),
        }),
    }
}

/// The readable part of a root's id: the first 40 characters of the file name without its last
/// extension. Characters that are not allowed in an id become `-`.
pub fn id_stem(file_name: &str) -> String {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    stem.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .take(40)
        .collect()
}

/// A digest in lowercase base 36. Its first characters make a root's id unique.
pub fn base36(digest: &[u8]) -> String {
    let mut number = digest.to_vec();
    let mut out = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest * 256 + u32::from(*byte);
            *byte = (value / 36) as u8;
            rest = value % 36;
        }
        out.push(char::from_digit(rest, 36).unwrap_or('0'));
    }
    // Pad with zeros: a digest with leading zeros must not yield a shorter text.
    while out.len() < (digest.len() * 800).div_ceil(517) {
        out.push('0');
    }
    out.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_readable_and_safe() {
        assert_eq!(id_stem("my synth+.v2.maxpat"), "my-synth-.v2");
        assert_eq!(id_stem(&"x".repeat(60)).len(), 40);
        assert_eq!(base36(&[0, 36]), "0010");
        assert!(base36(&[255; 32]).len() >= 43);
    }
}
