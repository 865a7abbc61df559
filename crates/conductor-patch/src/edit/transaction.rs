//! A list of edits that is being applied: makes the changes and collects their inverses.

use std::sync::Arc;

use super::{Edit, EditError, NewBox, Op, Outcome, Target, Warning, WarningCode, find};
use crate::canvas::{Canvas, Cord, Face, Item, Mark, Slot};
use crate::change::{self, Change, Piece};
use crate::chunk::Chunk;
use crate::document::{BoxId, BoxView, CanvasId, Document, Limits, View};
use crate::style::Style;

/// The result of a transaction: its inverse changes, warnings, and handles of new boxes.
pub(super) type Finished = (Vec<Change>, Vec<Warning>, Vec<(String, BoxId)>);

pub(super) struct Transaction<'a> {
    pub(super) document: &'a mut Document,
    undo: Vec<Change>,
    warnings: Vec<Warning>,
    handles: Vec<(String, BoxId)>,
}

impl<'a> Transaction<'a> {
    pub(super) fn begin(document: &'a mut Document) -> Self {
        Transaction { document, undo: Vec::new(), warnings: Vec::new(), handles: Vec::new() }
    }

    pub(super) fn edit(&mut self, edit: &Edit) -> Result<Outcome, EditError> {
        let canvas = &edit.canvas;
        self.view(canvas)?;
        let gates = self.gates_before(canvas, &edit.op);
        let outcome = self.perform(canvas, &edit.op)?;
        self.check_depth(canvas, &outcome)?;
        if let Some(gates) = gates {
            self.follow_gates(canvas, &gates)?;
        }
        Ok(outcome)
    }

    /// Checks the nesting depth after an edit, because the saved document must be openable again.
    /// Only the outcomes below can add a patcher; a restored patcher was checked when it was added.
    fn check_depth(&self, canvas: &CanvasId, outcome: &Outcome) -> Result<(), EditError> {
        let limit = Limits::default().max_depth;
        let inside = match outcome {
            Outcome::Added { .. } | Outcome::TextSet { .. } if canvas.depth() < limit => return Ok(()),
            Outcome::Added { .. } | Outcome::TextSet { .. } | Outcome::Encapsulated { .. } => canvas,
            Outcome::Removed { .. }
            | Outcome::AttributeSet { .. }
            | Outcome::Named(_)
            | Outcome::HiddenSet(_)
            | Outcome::Moved(_)
            | Outcome::Connected { .. }
            | Outcome::Disconnected
            | Outcome::MidpointsSet(_)
            | Outcome::Restored => return Ok(()),
        };
        let depth = inside.depth() + self.canvas(inside)?.levels();
        if depth > limit { Err(EditError::TooDeep { limit }) } else { Ok(()) }
    }

    fn perform(&mut self, canvas: &CanvasId, op: &Op) -> Result<Outcome, EditError> {
        match op {
            Op::Add(new) => self.add(canvas, new),
            Op::Remove(target) => self.remove(canvas, target),
            Op::SetText { target, text, allow_unknown } => self.set_text(canvas, target, text, *allow_unknown),
            Op::SetAttribute { target, name, value, allow_unknown } => {
                self.set_attribute(canvas, target, name, value, *allow_unknown)
            }
            Op::SetVarname { target, name } => self.set_varname(canvas, target, name.as_deref()),
            Op::AssignVarnames(list) => self.assign_varnames(canvas, list),
            Op::SetHidden { target, hidden } => self.set_hidden(canvas, target, *hidden),
            Op::SetRect { target, position, size } => self.set_rect(canvas, target, *position, *size),
            Op::Connect { ends, hidden } => self.connect(canvas, ends, *hidden),
            Op::Disconnect(ends) => self.disconnect(canvas, ends),
            Op::SetMidpoints { ends, points } => self.set_midpoints(canvas, ends, points),
            Op::Encapsulate { targets, name, varname } => self.encapsulate(canvas, targets, name, varname.as_deref()),
            Op::Restore(restore) => {
                for change in restore.changes.iter().rev() {
                    self.make(change.clone())?;
                }
                Ok(Outcome::Restored)
            }
        }
    }

    pub(super) fn roll_back(mut self) {
        while let Some(change) = self.undo.pop() {
            // The inverse of a change that was just made cannot fail.
            let _ = change::make(&mut self.document.root, change);
        }
    }

    pub(super) fn finish(self) -> Finished {
        (self.undo, self.warnings, self.handles)
    }

    pub(super) fn make(&mut self, change: Change) -> Result<(), EditError> {
        let inverse = change::make(&mut self.document.root, change).map_err(|_| EditError::Stale)?;
        self.undo.push(inverse);
        Ok(())
    }

    pub(super) fn warn(&mut self, code: WarningCode, message: String, subject: Option<&str>) {
        self.warnings.push(Warning { code, message, subject: subject.map(str::to_owned) });
    }

    pub(super) fn canvas(&self, id: &CanvasId) -> Result<&Canvas, EditError> {
        self.document.canvas_at(id).ok_or(EditError::CanvasGone)
    }

    pub(super) fn view(&self, id: &CanvasId) -> Result<View<'_>, EditError> {
        self.document.view(id).ok_or(EditError::CanvasGone)
    }

    pub(super) fn object(&self, id: &CanvasId, slot: Slot) -> Result<BoxView<'_>, EditError> {
        self.view(id)?.get(BoxId(slot)).ok_or(EditError::Stale)
    }

    pub(super) fn style(&self) -> Style {
        self.document.style.clone()
    }

    pub(super) fn resolve(&self, canvas: &CanvasId, target: &Target) -> Result<Slot, EditError> {
        let canvas = self.canvas(canvas)?;
        match target {
            Target::Box(id) => match canvas.face(id.0) {
                Some(_) => Ok(id.0),
                None => Err(EditError::Lookup(super::LookupError::Gone { key: format!("#{}", id.0) })),
            },
            Target::Named(name) => {
                if let Some((_, id)) = self.handles.iter().rev().find(|(handle, _)| handle == name) {
                    return Ok(id.0);
                }
                Ok(find(canvas, name)?.0)
            }
        }
    }

    pub(super) fn remember_handle(&mut self, new: &NewBox, slot: Slot) {
        if let Some(handle) = &new.handle {
            self.handles.push((handle.clone(), BoxId(slot)));
        }
    }

    /// Inserts a box or cord into its list: before the given box, or at the end.
    pub(super) fn insert(&mut self, id: &CanvasId, piece: Piece, before: Option<Slot>) -> Result<(), EditError> {
        let mark = match piece {
            Piece::Cord { .. } => Mark::Lines,
            Piece::Box { .. } | Piece::Text(_) | Piece::Mark(_) => Mark::Boxes,
        };
        if self.document.format.is_pd() {
            let at = self.canvas(id)?.position_of_mark(mark).ok_or(EditError::Stale)?;
            return self.splice(id, at, Vec::new(), vec![piece]);
        }
        let style = self.style();
        let level = Style::item_level(id.depth());
        if let Some(slot) = before {
            let at = self.canvas(id)?.position_of_box(slot).ok_or(EditError::Stale)?;
            let separator = Piece::Text(Chunk::owned(style.between(level)));
            return self.splice(id, at, Vec::new(), vec![piece, separator]);
        }
        self.ensure_list(id, mark)?;
        let canvas = self.canvas(id)?;
        let at = canvas.position_of_mark(mark).ok_or(EditError::Stale)?;
        if self.list_starts_before(canvas, at) {
            let close = match canvas.items.get(at + 1) {
                Some(Item::Text(chunk)) => chunk.clone(),
                Some(Item::Mark(_) | Item::Box(_) | Item::Cord(_)) | None => {
                    return Err(EditError::Stale);
                }
            };
            let old = vec![Piece::Mark(mark), Piece::Text(close)];
            let lead = Piece::Text(Chunk::owned(style.lead(level)));
            let close = Piece::Text(Chunk::owned(style.close(level)));
            return self.splice(id, at, old, vec![lead, piece, Piece::Mark(mark), close]);
        }
        let separator = Piece::Text(Chunk::owned(style.between(level)));
        self.splice(id, at, Vec::new(), vec![separator, piece])
    }

    /// Removes a box or cord from its list, and a separator that is no longer needed.
    pub(super) fn take_out(&mut self, id: &CanvasId, slot: Slot, is_box: bool) -> Result<(), EditError> {
        let canvas = self.canvas(id)?;
        let at = if is_box { canvas.position_of_box(slot) } else { canvas.position_of_cord(slot) };
        let at = at.ok_or(EditError::Stale)?;
        let piece = if is_box {
            let entry = canvas.entry(slot).ok_or(EditError::Stale)?;
            Piece::Box { slot, face: entry.face.clone(), inner: entry.inner.clone() }
        } else {
            Piece::Cord { slot, cord: canvas.cord(slot).ok_or(EditError::Stale)?.clone() }
        };
        if self.document.format.is_pd() {
            return self.splice(id, at, vec![piece], Vec::new());
        }
        let text = |at: Option<usize>| match at.and_then(|at| canvas.items.get(at)) {
            Some(Item::Text(chunk)) => Some(Piece::Text(chunk.clone())),
            Some(Item::Mark(_) | Item::Box(_) | Item::Cord(_)) | None => None,
        };
        let lead = text(at.checked_sub(1)).ok_or(EditError::Stale)?;
        let first = self.list_starts_before(canvas, at - 1);
        let last = matches!(canvas.items.get(at + 1), Some(Item::Mark(_)));
        match (first, last) {
            (true, true) => {
                let mark = if is_box { Mark::Boxes } else { Mark::Lines };
                let close = text(Some(at + 2)).ok_or(EditError::Stale)?;
                let empty = Piece::Text(Chunk::owned(self.style().nothing()));
                self.splice(id, at - 1, vec![lead, piece, Piece::Mark(mark), close], vec![Piece::Mark(mark), empty])
            }
            (true, false) => {
                let separator = text(Some(at + 1)).ok_or(EditError::Stale)?;
                self.splice(id, at, vec![piece, separator], Vec::new())
            }
            (false, _) => self.splice(id, at - 1, vec![lead, piece], Vec::new()),
        }
    }

    /// Whether the item before `at` is the text that opens a list.
    fn list_starts_before(&self, canvas: &Canvas, at: usize) -> bool {
        match at.checked_sub(1).and_then(|at| canvas.items.get(at)) {
            Some(Item::Text(chunk)) => chunk.bytes(&self.document.source).last() == Some(&b'['),
            Some(Item::Mark(_) | Item::Box(_) | Item::Cord(_)) | None => false,
        }
    }

    /// Adds an empty `boxes` or `lines` list to a patcher without one.
    fn ensure_list(&mut self, id: &CanvasId, mark: Mark) -> Result<(), EditError> {
        let canvas = self.canvas(id)?;
        if canvas.position_of_mark(mark).is_some() {
            return Ok(());
        }
        let at = canvas.position_of_mark(Mark::Members).ok_or(EditError::Stale)?;
        let empty_patcher = match at.checked_sub(1).and_then(|at| canvas.items.get(at)) {
            Some(Item::Text(chunk)) => chunk.bytes(&self.document.source).last() == Some(&b'{'),
            Some(Item::Mark(_) | Item::Box(_) | Item::Cord(_)) | None => false,
        };
        let style = self.style();
        let level = Style::item_level(id.depth()) - 1;
        let key = if mark == Mark::Boxes { "boxes" } else { "lines" };
        let member = style.member(key, &crate::style::Json::Array(Vec::new()), level);
        let separator = style.next_member(level, false);
        let lead = if empty_patcher { separator.trim_start_matches(',').to_owned() } else { separator };
        let open = format!("{lead}{}", member.trim_end_matches(']').trim_end_matches(' '));
        let pieces = vec![
            Piece::Text(Chunk::owned(open)),
            Piece::Mark(mark),
            Piece::Text(Chunk::owned(style.nothing())),
            Piece::Text(Chunk::owned("]")),
        ];
        self.splice(id, at, Vec::new(), pieces)
    }

    fn splice(&mut self, id: &CanvasId, at: usize, old: Vec<Piece>, new: Vec<Piece>) -> Result<(), EditError> {
        self.make(Change::Splice { canvas: id.clone(), at, old, new })
    }

    pub(super) fn swap_face(&mut self, id: &CanvasId, slot: Slot, face: Face) -> Result<(), EditError> {
        self.make(Change::Face { canvas: id.clone(), slot, new: Arc::new(face) })
    }

    pub(super) fn swap_inner(&mut self, id: &CanvasId, slot: Slot, inner: Option<Canvas>) -> Result<(), EditError> {
        self.make(Change::Inner { canvas: id.clone(), slot, new: inner.map(Arc::new) })
    }

    pub(super) fn swap_cord(&mut self, id: &CanvasId, slot: Slot, cord: Cord) -> Result<(), EditError> {
        self.make(Change::Cord { canvas: id.clone(), slot, new: Arc::new(cord) })
    }
}
