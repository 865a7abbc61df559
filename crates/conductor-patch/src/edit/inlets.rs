//! Updates the box of a subpatcher after edits to the inlet and outlet boxes ("gates") inside it.
//! The outside cords of a gate stay connected to it when an edit adds, removes or moves gates, as
//! in Max and Pd. The port counts of the subpatcher's box are updated.

use super::transaction::Transaction;
use super::{EditError, Op, Target, WarningCode};
use crate::canvas::{Canvas, Cord, End, Slot};
use crate::chunk::Chunk;
use crate::document::CanvasId;
use crate::max::{self, Shape};
use crate::pd;
use crate::ports;
use crate::style::Json;

/// Gates of a canvas from left to right; the position of a gate is its port number.
#[derive(Debug, PartialEq)]
pub(super) struct Gates {
    inlets: Vec<Slot>,
    outlets: Vec<Slot>,
}

/// Whether the class is `inlet`, `outlet`, or one of Pd's signal versions.
pub(super) fn is_gate(class: &str) -> bool {
    matches!(class, "inlet" | "outlet" | "inlet~" | "outlet~")
}

fn class_of(canvas: &Canvas, slot: Slot) -> &str {
    let Some(face) = canvas.face(slot) else {
        return "";
    };
    match (face.facts.native, face.facts.maxclass.as_ref()) {
        (Some("obj"), _) | (None, "newobj") => face.facts.text.split_whitespace().next().unwrap_or_default(),
        (_, maxclass) => maxclass,
    }
}

fn gates(canvas: &Canvas) -> Gates {
    let sorted = |names: [&str; 2]| {
        let mut found: Vec<(f64, Slot)> = canvas
            .faces()
            .filter(|(slot, _)| names.contains(&class_of(canvas, *slot)))
            .map(|(slot, face)| (face.facts.rect.x, slot))
            .collect();
        // If two gates have the same position, Pd puts the earlier gate on the right, and Max on
        // the left.
        if found.iter().any(|(_, slot)| canvas.face(*slot).is_some_and(|face| face.facts.native.is_some())) {
            found.reverse();
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found.into_iter().map(|(_, slot)| slot).collect()
    };
    Gates { inlets: sorted(["inlet", "inlet~"]), outlets: sorted(["outlet", "outlet~"]) }
}

impl Transaction<'_> {
    /// The gates before an edit. `None` if the edit cannot change a gate, or if the canvas is the
    /// root.
    pub(super) fn gates_before(&self, id: &CanvasId, op: &Op) -> Option<Gates> {
        id.parent()?;
        let canvas = self.document.canvas_at(id)?;
        let touches = |target: &Target| self.resolve(id, target).is_ok_and(|slot| is_gate(class_of(canvas, slot)));
        let may = match op {
            Op::Add(new) => is_gate(new.class.split_whitespace().next().unwrap_or_default()),
            Op::SetText { target, text, .. } => {
                touches(target) || is_gate(text.split_whitespace().next().unwrap_or_default())
            }
            Op::Remove(target) | Op::SetRect { target, .. } => touches(target),
            Op::SetAttribute { target, name, .. } => name == "patching_rect" && touches(target),
            Op::SetVarname { .. }
            | Op::AssignVarnames(_)
            | Op::SetHidden { .. }
            | Op::Connect { .. }
            | Op::Disconnect(_)
            | Op::SetMidpoints { .. }
            | Op::Encapsulate { .. }
            | Op::Restore(_) => false,
        };
        may.then(|| gates(canvas))
    }

    /// Updates the cords and port counts of the subpatcher's box after an edit to the gates inside.
    pub(super) fn follow_gates(&mut self, id: &CanvasId, before: &Gates) -> Result<(), EditError> {
        let (Some(parent), Some(holder)) = (id.parent(), id.0.last().copied()) else {
            return Ok(());
        };
        let after = gates(self.canvas(id)?);
        if after == *before {
            return Ok(());
        }
        let renumber = |old: &[Slot], new: &[Slot], port: u32| match old.get(port as usize) {
            Some(gate) => new.iter().position(|found| found == gate).map(|at| at as u32),
            // The cord had no gate before the edit, so it keeps its port number.
            None => Some(port),
        };
        let mut lost = 0;
        for slot in self.canvas(&parent)?.cords_at(holder) {
            let cord = self.canvas(&parent)?.cord(slot).ok_or(EditError::Stale)?.clone();
            let outlet = if cord.from.slot == Some(holder) {
                renumber(&before.outlets, &after.outlets, cord.from.port)
            } else {
                Some(cord.from.port)
            };
            let inlet = if cord.to.slot == Some(holder) {
                renumber(&before.inlets, &after.inlets, cord.to.port)
            } else {
                Some(cord.to.port)
            };
            match (outlet, inlet) {
                (Some(outlet), Some(inlet)) if (outlet, inlet) == (cord.from.port, cord.to.port) => {}
                (Some(outlet), Some(inlet)) => self.renumber_cord(&parent, slot, &cord, outlet, inlet)?,
                _ => {
                    lost += 1;
                    self.take_out(&parent, slot, false)?;
                }
            }
        }
        if lost > 0 {
            let label = self.object(&parent, holder)?.label().to_owned();
            self.warn(
                WarningCode::DroppedCords,
                format!("outside cords that were removed with their inlet or outlet: {lost}"),
                Some(&label),
            );
        }
        self.restate_ports(&parent, holder)
    }

    fn renumber_cord(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        cord: &Cord,
        outlet: u32,
        inlet: u32,
    ) -> Result<(), EditError> {
        let source = &self.document.source;
        if self.document.format.is_pd() {
            let text = pd::replace_atom(cord.text.bytes(source), 5, &inlet.to_string())
                .and_then(|text| pd::replace_atom(&text, 3, &outlet.to_string()));
            let fresh = Cord {
                text: Chunk::owned(text.ok_or(EditError::Stale)?),
                from: End { port: outlet, ..cord.from.clone() },
                to: End { port: inlet, ..cord.to.clone() },
                ..cord.clone()
            };
            return self.swap_cord(id, slot, fresh);
        }
        let mut shape = Shape::open(cord.text.bytes(source), None, "patchline", id.depth()).ok_or(EditError::Stale)?;
        let style = self.style();
        let end = |name: &str, port: u32| Json::Array(vec![Json::text(name), Json::int(i64::from(port))]);
        shape.set(&style, "destination", &end(&cord.to.name, inlet));
        shape.set(&style, "source", &end(&cord.from.name, outlet));
        let fresh = max::reread_cord(shape.close().0, cord).ok_or(EditError::Stale)?;
        self.swap_cord(id, slot, fresh)
    }

    /// Counts the ports inside a Max subpatcher and writes the counts to its box. For Pd nothing is
    /// written, because Pd counts the ports itself.
    fn restate_ports(&mut self, id: &CanvasId, holder: Slot) -> Result<(), EditError> {
        if self.document.format.is_pd() {
            return Ok(());
        }
        let style = self.style();
        let inner = self.canvas(id)?.inner(holder).ok_or(EditError::Stale)?.clone();
        let ports = ports::from_inside(self.document.format, &inner);
        let object = self.object(id, holder)?;
        let known = object.ports().outlet_types.unwrap_or_default();
        let (Some(inlets), Some(outlets)) = (ports.inlets, ports.outlets) else {
            return Ok(());
        };
        let mut shape = object.shape().ok_or(EditError::Stale)?;
        shape.set(&style, "numinlets", &Json::int(i64::from(inlets)));
        shape.set(&style, "numoutlets", &Json::int(i64::from(outlets)));
        if outlets == 0 {
            shape.remove("outlettype");
        } else if known.len() != outlets as usize {
            let types = (0..outlets as usize).map(|n| Json::text(known.get(n).map_or("", String::as_str))).collect();
            shape.set(&style, "outlettype", &Json::Array(types));
        }
        self.finish_shape(id, holder, shape)
    }
}
