//! A document with its history: undo, redo, the saved state, and the authors that shifted indices.
//! Not here: files and locks.

use crate::change::Change;
use crate::diff::{Diff, diff};
use crate::document::{Document, Revision};
use crate::edit::{LiveEdit, Outcome, Plan};
use crate::error::LiveError;
use crate::path::PathId;
use crate::shifts::Shifts;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;

/// Default limit of undo entries.
pub const DEFAULT_UNDO_DEPTH: usize = 200;

/// The author of an edit. The caller assigns the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Author(pub u64);

/// Preconditions of a write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guard {
    /// The revision that the caller expects.
    pub expect_revision: Option<String>,
    /// The author, and the value of [`OpenSet::structure`] when the author last read the Set.
    /// `None` for callers whose ids always refer to the current positions.
    pub seen: Option<(Author, u64)>,
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// One outcome per edit.
    pub outcomes: Vec<Outcome>,
    /// Number of new undo entries: 1; 0 for a preview, for an extended entry, or when nothing
    /// changed.
    pub undo_steps: u32,
    /// The new revision; for a preview, the revision that the edits would create.
    pub revision: Revision,
    /// Objects whose content changed.
    pub changed: Vec<PathId>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    /// Whether the ids of other objects changed.
    pub shifted: bool,
    /// The differences made by the write.
    pub diff: Diff,
}

/// The result of undo or redo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stepped {
    /// Number of undone or redone entries. The name in JSON depends on the tool.
    #[serde(skip)]
    pub count: u32,
    /// Labels of the entries, in the order in which they were undone or redone.
    pub labels: Vec<String>,
    /// Whether more entries can be undone.
    pub can_undo: bool,
    /// Whether more entries can be redone.
    pub can_redo: bool,
    /// The new revision.
    pub revision: Revision,
    /// Whether the ids of other objects changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shifted: bool,
}

/// A tool's reply to a write of one edit: the keys of its outcome `O`, and the keys of every write.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteResult<'a, O> {
    #[serde(flatten)]
    outcome: O,
    /// Number of new undo entries; 0 for a dry run or when nothing changed.
    undo_steps: u32,
    /// The new revision; for a dry run, the revision that the edit would create.
    // None for an overview, which contains the revision itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Revision")]
    revision: Option<Revision>,
    /// Warnings for the caller.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    /// Whether the ids of other objects changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shifted: bool,
    /// The differences that the edit would make; only for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<&'a Diff>,
}

impl Applied {
    /// The reply for a single edit; `with_diff` adds the differences, for a dry run. `None` without
    /// edits.
    pub fn result(&self, with_diff: bool) -> Option<WriteResult<'_, &Outcome>> {
        let outcome = self.outcomes.first()?;
        let (tells_revision, tells_shift) = match outcome {
            Outcome::Tempo(_) => (true, false),
            Outcome::Deleted(_) => (false, true),
            Outcome::Track(_)
            | Outcome::Notes(_)
            | Outcome::TrackCreated(_)
            | Outcome::ClipCreated(_)
            | Outcome::Param(_)
            | Outcome::Device(_)
            | Outcome::Clip(_) => (false, false),
        };
        Some(WriteResult {
            outcome,
            undo_steps: self.undo_steps,
            revision: (!tells_revision).then_some(self.revision),
            warnings: &self.warnings,
            shifted: self.shifted && !tells_shift,
            diff: with_diff.then_some(&self.diff),
        })
    }
}

#[derive(Debug, Clone)]
struct Entry {
    change: Change,
    label: String,
    shifted: bool,
}

/// An open Set.
#[derive(Debug, Clone)]
pub struct OpenSet {
    document: Document,
    /// The bytes of the file, and the document that they contain.
    saved: (Arc<[u8]>, Document),
    undo: VecDeque<Entry>,
    redo: Vec<Entry>,
    depth: usize,
    shifts: Shifts,
}

impl OpenSet {
    /// Opens `.als` bytes and stores them, so that saving without edits returns the same bytes.
    ///
    /// # Errors
    /// [`LiveError::BadFile`] with the reason.
    pub fn open(als: &[u8], limit: usize) -> Result<OpenSet, LiveError> {
        let document = Document::open(als, limit)?;
        Ok(OpenSet::with(als.into(), document))
    }

    /// Opens a document that has no file yet.
    pub fn new(document: Document) -> OpenSet {
        OpenSet::with(document.to_als().into(), document)
    }

    fn with(als: Arc<[u8]>, document: Document) -> OpenSet {
        OpenSet {
            saved: (als, document.clone()),
            document,
            undo: VecDeque::new(),
            redo: Vec::new(),
            depth: DEFAULT_UNDO_DEPTH,
            shifts: Shifts::default(),
        }
    }

    /// Limits the number of undo entries.
    #[must_use]
    pub fn with_undo_depth(mut self, depth: usize) -> OpenSet {
        self.depth = depth;
        self
    }

    /// The current document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Whether the document differs from the opened or last saved state.
    pub fn is_dirty(&self) -> bool {
        self.document.revision() != self.saved.1.revision()
    }

    /// Number of edits so far that shifted indices.
    pub fn structure(&self) -> u64 {
        self.shifts.count()
    }

    /// Reloads the file after another program changed it. Clears the history, because every index
    /// may have shifted.
    ///
    /// # Errors
    /// [`LiveError::BadFile`] with the reason; in this case nothing is changed.
    pub fn reload(&mut self, als: &[u8], limit: usize) -> Result<(), LiveError> {
        let fresh = OpenSet::open(als, limit)?;
        self.document = fresh.document;
        self.saved = fresh.saved;
        self.undo.clear();
        self.redo.clear();
        self.shifts.foreign();
        Ok(())
    }

    /// The bytes to save: the original bytes when nothing changed.
    pub fn save(&self) -> Arc<[u8]> {
        if self.is_dirty() { self.document.to_als().into() } else { Arc::clone(&self.saved.0) }
    }

    /// Records that `als`, which [`OpenSet::save`] returned, was written to the file.
    pub fn saved(&mut self, als: Arc<[u8]>) {
        self.saved = (als, self.document.clone());
    }

    /// The differences since the Set was opened or last saved.
    pub fn diff_to_saved(&self) -> Diff {
        diff(&self.saved.1, &self.document)
    }

    fn admit(&self, guard: &Guard, positional: bool) -> Result<(), LiveError> {
        if let Some(expected) = &guard.expect_revision {
            let actual = self.document.revision();
            if *expected != actual.to_string() {
                return Err(LiveError::RevisionDiffers { expected: expected.clone(), actual });
            }
        }
        self.shifts.admit(guard, positional)
    }

    /// Plans edits without applying them. The checks and the diff are the same as in
    /// [`OpenSet::apply`].
    ///
    /// # Errors
    /// The error of the guard, or of the first edit that fails.
    pub fn preview(&self, edits: &[LiveEdit], guard: &Guard) -> Result<Applied, LiveError> {
        self.admit(guard, edits.iter().any(LiveEdit::is_positional))?;
        Ok(applied(&self.document.plan(edits)?, 0))
    }

    /// Applies edits as one undo entry. An error leaves document, history and revision unchanged.
    ///
    /// # Errors
    /// The error of the guard, or of the first edit that fails.
    pub fn apply(&mut self, edits: &[LiveEdit], guard: &Guard) -> Result<Applied, LiveError> {
        self.make(edits, guard, false)
    }

    /// Like [`OpenSet::apply`], but extends the newest undo entry instead of adding one. It is used
    /// while a person turns a knob.
    ///
    /// # Errors
    /// See [`OpenSet::apply`].
    pub fn extend(&mut self, edits: &[LiveEdit], guard: &Guard) -> Result<Applied, LiveError> {
        self.make(edits, guard, true)
    }

    fn make(&mut self, edits: &[LiveEdit], guard: &Guard, extend: bool) -> Result<Applied, LiveError> {
        self.admit(guard, edits.iter().any(LiveEdit::is_positional))?;
        let plan = self.document.plan(edits)?;
        if plan.change.is_empty() {
            return Ok(applied(&plan, 0));
        }
        let label = edits.iter().map(LiveEdit::label).collect::<Vec<_>>().join(", ");
        let mut entry = Entry { change: plan.change.clone(), label, shifted: plan.shifted };
        let grown = if extend { self.undo.pop_back() } else { None };
        let steps = u32::from(grown.is_none());
        if let Some(last) = grown {
            entry.change = last.change.then(entry.change)?;
            entry.shifted |= last.shifted;
        }
        self.undo.push_back(entry);
        while self.undo.len() > self.depth {
            self.undo.pop_front();
        }
        self.redo.clear();
        self.document = plan.after.clone();
        if plan.shifted {
            self.shifts.ours(guard);
        }
        Ok(applied(&plan, steps))
    }

    /// Undoes up to `steps` entries.
    ///
    /// # Errors
    /// The error of the guard.
    pub fn undo(&mut self, steps: u32, guard: &Guard) -> Result<Stepped, LiveError> {
        self.admit(guard, false)?;
        self.step(steps, guard, true)
    }

    /// Redoes up to `steps` entries.
    ///
    /// # Errors
    /// The error of the guard.
    pub fn redo(&mut self, steps: u32, guard: &Guard) -> Result<Stepped, LiveError> {
        self.admit(guard, false)?;
        self.step(steps, guard, false)
    }

    fn step(&mut self, steps: u32, guard: &Guard, back: bool) -> Result<Stepped, LiveError> {
        let (mut labels, mut shifted) = (Vec::new(), false);
        for _ in 0..steps {
            let Some(entry) = (if back { self.undo.pop_back() } else { self.redo.pop() }) else {
                break;
            };
            let change = if back { entry.change.invert() } else { entry.change.clone() };
            self.document = change.apply(&self.document)?;
            labels.push(entry.label.clone());
            if entry.shifted {
                shifted = true;
                self.shifts.ours(guard);
            }
            if back { self.redo.push(entry) } else { self.undo.push_back(entry) }
        }
        Ok(Stepped {
            count: u32::try_from(labels.len()).unwrap_or(u32::MAX),
            labels,
            can_undo: !self.undo.is_empty(),
            can_redo: !self.redo.is_empty(),
            revision: self.document.revision(),
            shifted,
        })
    }
}

fn applied(plan: &Plan, undo_steps: u32) -> Applied {
    Applied {
        outcomes: plan.outcomes.clone(),
        undo_steps,
        revision: plan.revision(),
        changed: plan.changed.clone(),
        warnings: plan.warnings.clone(),
        shifted: plan.shifted,
        diff: plan.diff(),
    }
}
