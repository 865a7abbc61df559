//! The smallest changes to a document. Each change replaces an old part by a new part, so its exact
//! inverse restores bytes, slots and keys. Not here: the meaning of edits (`edit`).

use std::sync::Arc;

use crate::canvas::{Canvas, Cord, Face, Item, Mark, Slot};
use crate::chunk::Chunk;
use crate::document::CanvasId;

/// An item of a canvas together with its box or cord.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(Chunk),
    Mark(Mark),
    Box { slot: Slot, face: Arc<Face>, inner: Option<Arc<Canvas>> },
    Cord { slot: Slot, cord: Arc<Cord> },
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Replaces the pieces at a position.
    Splice { canvas: CanvasId, at: usize, old: Vec<Piece>, new: Vec<Piece> },
    /// Replaces the text and the facts of a box.
    Face { canvas: CanvasId, slot: Slot, new: Arc<Face> },
    /// Replaces the embedded patcher of a box.
    Inner { canvas: CanvasId, slot: Slot, new: Option<Arc<Canvas>> },
    /// Replaces a cord.
    Cord { canvas: CanvasId, slot: Slot, new: Arc<Cord> },
}

/// The document is not in the state that the change expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale;

pub(crate) fn canvas_mut<'a>(root: &'a mut Arc<Canvas>, id: &CanvasId) -> Option<&'a mut Canvas> {
    let mut canvas = Arc::make_mut(root);
    for slot in &id.0 {
        canvas = Arc::make_mut(canvas.inner_mut(*slot)?);
    }
    Some(canvas)
}

/// Applies the change and returns its inverse.
pub(crate) fn make(root: &mut Arc<Canvas>, change: Change) -> Result<Change, Stale> {
    match change {
        Change::Splice { canvas: id, at, old, new } => {
            let canvas = canvas_mut(root, &id).ok_or(Stale)?;
            for (n, expected) in old.iter().enumerate() {
                let matches = match (canvas.items.get(at + n), expected) {
                    (Some(Item::Text(found)), Piece::Text(wanted)) => found.len() == wanted.len(),
                    (Some(Item::Mark(found)), Piece::Mark(wanted)) => found == wanted,
                    (Some(Item::Box(found)), Piece::Box { slot, .. })
                    | (Some(Item::Cord(found)), Piece::Cord { slot, .. }) => found == slot,
                    _ => false,
                };
                if !matches {
                    return Err(Stale);
                }
            }
            let items = new.iter().map(Piece::item).collect();
            let removed = canvas.items.splice(at, old.len(), items).ok_or(Stale)?;
            let mut taken = Vec::with_capacity(removed.len());
            for item in removed {
                taken.push(match item {
                    Item::Text(chunk) => Piece::Text(chunk),
                    Item::Mark(mark) => Piece::Mark(mark),
                    Item::Box(slot) => {
                        let (face, inner) = canvas.detach_box(slot).ok_or(Stale)?;
                        Piece::Box { slot, face, inner }
                    }
                    Item::Cord(slot) => Piece::Cord { slot, cord: canvas.detach_cord(slot).ok_or(Stale)? },
                });
            }
            for (n, piece) in new.iter().enumerate() {
                match piece {
                    Piece::Text(_) => {}
                    Piece::Mark(mark) => canvas.remember_mark(*mark, at + n),
                    Piece::Box { slot, face, inner } => canvas.attach_box(*slot, face.clone(), inner.clone(), at + n),
                    Piece::Cord { slot, cord } => canvas.attach_cord(*slot, cord.clone(), at + n),
                }
            }
            Ok(Change::Splice { canvas: id, at, old: new, new: taken })
        }
        Change::Face { canvas: id, slot, new } => {
            let old = canvas_mut(root, &id).and_then(|canvas| canvas.swap_face(slot, new)).ok_or(Stale)?;
            Ok(Change::Face { canvas: id, slot, new: old })
        }
        Change::Inner { canvas: id, slot, new } => {
            let old = canvas_mut(root, &id).and_then(|canvas| canvas.swap_inner(slot, new)).ok_or(Stale)?;
            Ok(Change::Inner { canvas: id, slot, new: old })
        }
        Change::Cord { canvas: id, slot, new } => {
            let old = canvas_mut(root, &id).and_then(|canvas| canvas.swap_cord(slot, new)).ok_or(Stale)?;
            Ok(Change::Cord { canvas: id, slot, new: old })
        }
    }
}

impl Piece {
    fn item(&self) -> Item {
        match self {
            Piece::Text(chunk) => Item::Text(chunk.clone()),
            Piece::Mark(mark) => Item::Mark(*mark),
            Piece::Box { slot, .. } => Item::Box(*slot),
            Piece::Cord { slot, .. } => Item::Cord(*slot),
        }
    }

    fn weight(&self) -> usize {
        let held = match self {
            Piece::Text(chunk) => chunk.weight(),
            Piece::Mark(_) => 0,
            Piece::Box { face, inner, .. } => face.weight() + inner.as_ref().map_or(0, |inner| inner.weight()),
            Piece::Cord { cord, .. } => size_of::<Cord>() + cord.text.weight(),
        };
        size_of::<Piece>() + held
    }
}

impl Change {
    /// Estimate of the bytes that the change keeps in memory. They count towards the size limit of
    /// the journal.
    pub(crate) fn weight(&self) -> usize {
        let held = match self {
            Change::Splice { old, new, .. } => old.iter().chain(new).map(Piece::weight).sum(),
            Change::Face { new, .. } => new.weight(),
            Change::Inner { new, .. } => new.as_ref().map_or(0, |inner| inner.weight()),
            Change::Cord { new, .. } => size_of::<Cord>() + new.text.weight(),
        };
        size_of::<Change>() + held
    }
}
