//! Changes as values. A change replaces chunks of text; it can be applied, inverted and combined
//! with a later change. Not here: the meaning of edits.

use crate::document::{Chunk, Document, Revision, Role};
use crate::error::LiveError;
use crate::xml::{Splices, splice};
use std::sync::Arc;

/// Chunks that replace other chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Swap {
    pub at: usize,
    pub out: Vec<Arc<Chunk>>,
    pub into: Vec<Arc<Chunk>>,
}

/// A change from one revision of a document to another.
///
/// `change.invert().apply(&change.apply(&d)?)` returns `d` with the same bytes and the same
/// revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    before: Revision,
    after: Revision,
    pub(crate) swaps: Vec<Swap>,
}

impl Change {
    /// The revision before this change.
    pub fn before(&self) -> Revision {
        self.before
    }

    /// The revision after this change.
    pub fn after(&self) -> Revision {
        self.after
    }

    /// Whether the change leaves all bytes unchanged.
    pub fn is_empty(&self) -> bool {
        self.swaps.is_empty()
    }

    /// The change that undoes this one.
    pub fn invert(&self) -> Change {
        let swaps = self.swaps.iter().rev();
        Change {
            before: self.after,
            after: self.before,
            swaps: swaps.map(|s| Swap { at: s.at, out: s.into.clone(), into: s.out.clone() }).collect(),
        }
    }

    /// Combines this change and `next` into one change.
    ///
    /// # Errors
    /// `next` does not start at the revision after this change.
    pub fn then(mut self, next: Change) -> Result<Change, LiveError> {
        if next.before != self.after {
            return Err(LiveError::RevisionDiffers { expected: next.before.to_string(), actual: self.after });
        }
        for swap in next.swaps {
            let same = |a: &[Arc<Chunk>], b: &[Arc<Chunk>]| {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
            };
            match self.swaps.last_mut() {
                // Merge repeated changes to one chunk: while a person turns a knob for minutes, the
                // intermediate texts must not be stored.
                Some(last) if last.at == swap.at && same(&last.into, &swap.out) => last.into = swap.into,
                Some(_) | None => self.swaps.push(swap),
            }
        }
        self.after = next.after;
        Ok(self)
    }

    /// The document after this change.
    ///
    /// # Errors
    /// The document is not at the revision before this change.
    pub fn apply(&self, document: &Document) -> Result<Document, LiveError> {
        if document.revision != self.before {
            return Err(LiveError::RevisionDiffers { expected: self.before.to_string(), actual: document.revision });
        }
        let mut next = document.clone();
        for swap in &self.swaps {
            let range = swap.at..swap.at + swap.out.len();
            if next.chunks.get(range.clone()).is_none() {
                return Err(LiveError::broken("a change refers to a chunk that does not exist"));
            }
            next.chunks.splice(range, swap.into.iter().cloned());
        }
        next.revision = self.after;
        Ok(next)
    }
}

/// A document that is being edited, with the swaps made so far.
pub(crate) struct Draft {
    pub doc: Document,
    before: Revision,
    swaps: Vec<Swap>,
    /// The replacements of the current edit as bytes. The next revision is computed from these
    /// bytes.
    log: Vec<u8>,
}

impl Draft {
    pub fn new(doc: &Document) -> Self {
        Draft { doc: doc.clone(), before: doc.revision, swaps: Vec::new(), log: Vec::new() }
    }

    fn note(&mut self, at: usize, start: usize, end: usize, text: &str) {
        for number in [at, start, end, text.len()] {
            self.log.extend_from_slice(&(number as u64).to_le_bytes());
        }
        self.log.extend_from_slice(text.as_bytes());
    }

    fn swap(&mut self, at: usize, out: usize, into: Vec<Arc<Chunk>>) {
        let removed = self.doc.chunks.splice(at..at + out, into.iter().cloned()).collect();
        self.swaps.push(Swap { at, out: removed, into });
    }

    /// Applies replacements to one chunk.
    pub fn splice(&mut self, at: usize, splices: Splices) -> Result<(), LiveError> {
        if splices.is_empty() {
            return Ok(());
        }
        let list = splices.sorted();
        let old = self.doc.chunks.get(at).cloned().ok_or_else(|| LiveError::broken("no such chunk"))?;
        let text = splice(&old.text, &list).ok_or_else(|| LiveError::broken("two replacements overlap"))?;
        for s in &list {
            self.note(at, s.span.start, s.span.end, &s.with);
        }
        let chunk = self.doc.chunk(self.doc.role(at), text)?;
        self.swap(at, 1, vec![chunk]);
        Ok(())
    }

    /// Inserts a track chunk.
    pub fn insert(&mut self, at: usize, text: String) -> Result<(), LiveError> {
        self.note(at, 0, 0, &text);
        let chunk = self.doc.chunk(Role::Track, text)?;
        self.swap(at, 0, vec![chunk]);
        Ok(())
    }

    /// Removes a track chunk.
    pub fn remove(&mut self, at: usize) {
        self.note(at, 0, usize::MAX, "");
        self.swap(at, 1, Vec::new());
    }

    /// Ends one edit: sets the next revision of the document if the edit changed anything.
    pub fn seal(&mut self) {
        if !self.log.is_empty() {
            self.doc.revision = self.doc.revision.then(&std::mem::take(&mut self.log));
        }
    }

    pub fn swaps(&self) -> &[Swap] {
        &self.swaps
    }

    pub fn finish(self) -> (Document, Change) {
        let change = Change { before: self.before, after: self.doc.revision, swaps: self.swaps };
        (self.doc, change)
    }
}
