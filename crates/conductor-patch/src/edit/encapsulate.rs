//! Moves boxes into a new subpatcher and keeps their connections. If the order of messages may
//! change, a warning is added.

use std::collections::HashMap;
use std::sync::Arc;

use super::transaction::Transaction;
use super::{EditError, NewBox, Outcome, Target, WarningCode};
use crate::atoms::{self, Atom, Value};
use crate::canvas::{Canvas, Cord, End, Face, Slot};
use crate::change::Piece;
use crate::chunk::Chunk;
use crate::document::{BoxId, CanvasId};
use crate::geometry::{Point, Rect};
use crate::layout;
use crate::style::{Json, Style};

/// Inside the new subpatcher: the top-left corner of the moved boxes, the y of the inlets, and the
/// gap between the moved boxes and the outlets.
const CORNER: (f64, f64) = (50.0, 60.0);
const INLETS_AT: f64 = 15.0;
const OUTLETS_BELOW: f64 = 40.0;
/// Minimum distance between two inlets or outlets. Their order from left to right determines their
/// numbers.
const STEP: f64 = 45.0;

/// A box of the group, with its embedded patcher.
type Member = (Slot, Arc<Face>, Option<Arc<Canvas>>);

/// An inlet or outlet of the new subpatcher: the outlet that feeds it (`from`) and the inlets that
/// it feeds (`to`).
struct Gate {
    from: (Slot, u32),
    to: Vec<(Slot, u32)>,
    outside_x: f64,
    signal: bool,
}

impl Transaction<'_> {
    pub(super) fn encapsulate(
        &mut self,
        id: &CanvasId,
        targets: &[Target],
        name: &str,
        varname: Option<&str>,
    ) -> Result<Outcome, EditError> {
        if name.trim().is_empty() || !atoms::printable(name, false) || name.chars().count() > 256 {
            return Err(EditError::BadValue {
                what: "name".to_owned(),
                why: "must have 1 to 256 printable characters",
            });
        }
        let mut chosen = Vec::new();
        for target in targets {
            let slot = self.resolve(id, target)?;
            if !chosen.contains(&slot) {
                chosen.push(slot);
            }
        }
        if chosen.is_empty() {
            return Err(EditError::BadValue { what: "varnames".to_owned(), why: "must name at least one box" });
        }
        for slot in &chosen {
            if super::inlets::is_gate(self.object(id, *slot)?.class()) {
                return Err(EditError::BadValue {
                    what: self.object(id, *slot)?.label().to_owned(),
                    why: "an inlet or outlet cannot be moved into a subpatcher",
                });
            }
        }
        let canvas = self.canvas(id)?;
        let group: Vec<Slot> = canvas.box_slots().filter(|slot| chosen.contains(slot)).collect();
        let (inlets, outlets, inside, gone) = self.sort_cords(id, &group)?;
        self.warn_about(id, &group, &inlets, &outlets)?;

        let canvas = self.canvas(id)?;
        let mut bounds: Option<Rect> = None;
        let mut members = Vec::new();
        for slot in &group {
            let entry = canvas.entry(*slot).ok_or(EditError::Stale)?;
            let rect = entry.face.facts.rect;
            bounds = Some(bounds.map_or(rect, |bounds| bounds.union(&rect)));
            members.push((*slot, entry.face.clone(), entry.inner.clone()));
        }
        let bounds = bounds.ok_or(EditError::Stale)?;
        let label = |slot: Slot| {
            canvas
                .face(slot)
                .map(|face| face.facts.varname.clone().unwrap_or_else(|| face.key.clone()).to_string())
                .unwrap_or_default()
        };
        let inlet_names = inlets.iter().map(|gate| (label(gate.from.0), gate.from.1)).collect();
        let outlet_names = outlets.iter().map(|gate| (label(gate.from.0), gate.from.1)).collect();
        let kept: Vec<Arc<Cord>> = inside.iter().filter_map(|slot| canvas.cord(*slot).cloned()).collect();

        let passing: Vec<Slot> = group.iter().flat_map(|slot| canvas.cords_at(*slot)).collect();
        for cord in passing.iter().chain(&gone) {
            if self.canvas(id)?.cord(*cord).is_some() {
                self.take_out(id, *cord, false)?;
            }
        }
        for slot in &group {
            self.take_out(id, *slot, true)?;
        }

        let class = if self.document.format.is_pd() { "pd" } else { "p" };
        let holder = NewBox {
            class: class.to_owned(),
            arguments: vec![Atom::Word(name.trim().to_owned())],
            position: Point::new(bounds.x, bounds.y),
            varname: varname.map(str::to_owned),
            ..NewBox::default()
        };
        let Outcome::Added { id: holder_id, key, .. } = self.add(id, &holder)? else {
            return Err(EditError::Stale);
        };
        let inner = id.inside(holder_id.0);

        let moved = self.move_in(&inner, &members, CORNER.0 - bounds.x, CORNER.1 - bounds.y)?;
        let place = |slot: Slot| moved.get(&slot).copied().ok_or(EditError::Stale);
        for cord in kept {
            let end = |end: &End| -> Result<End, EditError> {
                Ok(End { slot: Some(place(end.slot.ok_or(EditError::Stale)?)?), ..end.clone() })
            };
            let fresh = Cord {
                text: self.deeper(&cord.text),
                from: end(&cord.from)?,
                to: end(&cord.to)?,
                ..cord.as_ref().clone()
            };
            let slot = self.canvas(&inner)?.next_cord_slot();
            self.insert(&inner, Piece::Cord { slot, cord: Arc::new(fresh) }, None)?;
        }
        let bottom = bounds.h + CORNER.1 + OUTLETS_BELOW;
        let inlet_slots = self.make_gates(&inner, &inlets, true, INLETS_AT, &moved)?;
        let outlet_slots = self.make_gates(&inner, &outlets, false, bottom, &moved)?;
        for (gate, slot) in inlets.iter().zip(&inlet_slots) {
            for (to, inlet) in &gate.to {
                self.draw(&inner, (*slot, 0), (place(*to)?, *inlet), false)?;
            }
        }
        for (gate, slot) in outlets.iter().zip(&outlet_slots) {
            self.draw(&inner, (place(gate.from.0)?, gate.from.1), (*slot, 0), false)?;
        }
        self.state_ports(id, holder_id.0, inlets.len(), &outlets)?;
        for (number, gate) in inlets.iter().enumerate() {
            self.draw(id, gate.from, (holder_id.0, number as u32), false)?;
        }
        for (number, gate) in outlets.iter().enumerate() {
            for to in &gate.to {
                self.draw(id, (holder_id.0, number as u32), *to, false)?;
            }
        }
        Ok(Outcome::Encapsulated { id: holder_id, key, canvas: inner, inlets: inlet_names, outlets: outlet_names })
    }

    /// Sorts cords by their relation to the group: entering it, leaving it, inside it, or with a
    /// missing end.
    #[expect(clippy::type_complexity, reason = "four lists that are used once, right after the call")]
    fn sort_cords(
        &self,
        id: &CanvasId,
        group: &[Slot],
    ) -> Result<(Vec<Gate>, Vec<Gate>, Vec<Slot>, Vec<Slot>), EditError> {
        let view = self.view(id)?;
        let canvas = self.canvas(id)?;
        let (mut inlets, mut outlets): (Vec<Gate>, Vec<Gate>) = (Vec::new(), Vec::new());
        let (mut inside, mut gone) = (Vec::new(), Vec::new());
        let touching: std::collections::HashSet<Slot> = group.iter().flat_map(|slot| canvas.cords_at(*slot)).collect();
        for slot in canvas.cord_slots().filter(|slot| touching.contains(slot)) {
            let Some(cord) = canvas.cord(slot) else {
                continue;
            };
            let (Some(from), Some(to)) = (cord.from.slot, cord.to.slot) else {
                gone.push(slot);
                continue;
            };
            let ends = ((from, cord.from.port), (to, cord.to.port));
            let list = match (group.contains(&from), group.contains(&to)) {
                (true, true) => {
                    inside.push(slot);
                    continue;
                }
                (false, true) => &mut inlets,
                (true, false) => &mut outlets,
                (false, false) => continue,
            };
            let leaving = group.contains(&from);
            let outside = if leaving {
                view.get(BoxId(to)).and_then(|object| layout::nub(&object, false, cord.to.port))
            } else {
                view.get(BoxId(from)).and_then(|object| layout::nub(&object, true, cord.from.port))
            };
            let outside_x = outside.map_or(0.0, |point| point.x);
            match list.iter_mut().find(|gate| gate.from == ends.0) {
                Some(gate) => {
                    gate.to.push(ends.1);
                    gate.outside_x = gate.outside_x.min(outside_x);
                }
                None => {
                    let types = view.get(BoxId(from)).and_then(|object| object.ports().outlet_types);
                    let signal = types
                        .and_then(|types| types.get(cord.from.port as usize).map(|kind| kind.contains("signal")))
                        .unwrap_or(false);
                    list.push(Gate { from: ends.0, to: vec![ends.1], outside_x, signal });
                }
            }
        }
        inlets.sort_by(|a, b| a.outside_x.total_cmp(&b.outside_x));
        outlets.sort_by(|a, b| a.outside_x.total_cmp(&b.outside_x));
        Ok((inlets, outlets, inside, gone))
    }

    fn warn_about(
        &mut self,
        id: &CanvasId,
        group: &[Slot],
        inlets: &[Gate],
        outlets: &[Gate],
    ) -> Result<(), EditError> {
        let canvas = self.canvas(id)?;
        let feeds = |from: (Slot, u32), inside: bool| {
            canvas.cords_at(from.0).into_iter().filter_map(|slot| canvas.cord(slot)).any(|cord| {
                cord.from.slot == Some(from.0)
                    && cord.from.port == from.1
                    && cord.to.slot.is_some_and(|to| group.contains(&to) == inside)
            })
        };
        let mixed =
            inlets.iter().any(|gate| feeds(gate.from, false)) || outlets.iter().any(|gate| feeds(gate.from, true));
        let shown: Vec<String> = group
            .iter()
            .filter_map(|slot| canvas.face(*slot))
            .filter(|face| face.facts.presentation)
            .map(|face| face.key.to_string())
            .collect();
        let broken = group
            .iter()
            .flat_map(|slot| canvas.cords_at(*slot))
            .filter_map(|slot| canvas.cord(slot))
            .filter(|cord| cord.from.slot.is_none() || cord.to.slot.is_none())
            .count();
        if mixed {
            self.warn(
                WarningCode::OrderMayChange,
                "one outlet feeds boxes in both patchers; the order of its messages may change".to_owned(),
                None,
            );
        }
        for key in shown {
            self.warn(
                WarningCode::PresentationLost,
                "the box is no longer in the presentation of this patcher".to_owned(),
                Some(&key),
            );
        }
        if broken > 0 {
            self.warn(
                WarningCode::DanglingCord,
                format!("cords without a box at one end were removed: {broken}"),
                None,
            );
        }
        Ok(())
    }

    fn move_in(
        &mut self,
        inner: &CanvasId,
        members: &[Member],
        dx: f64,
        dy: f64,
    ) -> Result<HashMap<Slot, Slot>, EditError> {
        let mut moved = HashMap::new();
        for (old, face, content) in members {
            let slot = self.canvas(inner)?.next_box_slot();
            let face =
                Face { before: self.deeper(&face.before), after: self.deeper(&face.after), ..face.as_ref().clone() };
            // Pd keys are renumbered, because the new canvas may already use the old number.
            let face =
                if self.document.format.is_pd() { Face { key: format!("~{}", slot + 1).into(), ..face } } else { face };
            let rect = face.facts.rect;
            self.insert(inner, Piece::Box { slot, face: Arc::new(face), inner: content.clone() }, None)?;
            self.set_rect(inner, &Target::Box(BoxId(slot)), Point::new(rect.x + dx, rect.y + dy), None)?;
            moved.insert(*old, slot);
        }
        Ok(moved)
    }

    /// The same text, indented as in a patcher one level deeper.
    fn deeper(&self, chunk: &Chunk) -> Chunk {
        if self.document.format.is_pd() || chunk.len() == 0 {
            return chunk.clone();
        }
        let style = self.style();
        Chunk::owned(style.deeper(chunk.bytes(&self.document.source), 4))
    }

    fn make_gates(
        &mut self,
        inner: &CanvasId,
        gates: &[Gate],
        is_inlet: bool,
        y: f64,
        moved: &HashMap<Slot, Slot>,
    ) -> Result<Vec<Slot>, EditError> {
        let is_pd = self.document.format.is_pd();
        let mut slots = Vec::new();
        let mut least = CORNER.0;
        for (number, gate) in gates.iter().enumerate() {
            let view = self.view(inner)?;
            let near = if is_inlet { gate.to.first() } else { Some(&gate.from) };
            let object = near.and_then(|(slot, port)| Some((view.get(BoxId(*moved.get(slot)?))?, *port)));
            let wanted = object
                .and_then(|(object, port)| layout::nub(&object, !is_inlet, port))
                .map_or(least, |point| point.x - layout::first_nub(is_pd));
            let x = wanted.max(least).round();
            least = x + STEP;
            let class = match (is_inlet, is_pd && gate.signal) {
                (true, false) => "inlet",
                (true, true) => "inlet~",
                (false, false) => "outlet",
                (false, true) => "outlet~",
            };
            let mut new = NewBox { class: class.to_owned(), position: Point::new(x, y), ..NewBox::default() };
            if !is_pd {
                new.attributes = vec![
                    ("comment".to_owned(), Value::One(Atom::Word(String::new()))),
                    ("index".to_owned(), Value::One(Atom::Int(number as i64 + 1))),
                ];
                new.allow_unknown = true;
            }
            let Outcome::Added { id, .. } = self.add(inner, &new)? else {
                return Err(EditError::Stale);
            };
            slots.push(id.0);
        }
        Ok(slots)
    }

    /// Writes the port counts of the new box into a Max file. For Pd nothing is written, because Pd
    /// counts the ports itself.
    fn state_ports(&mut self, id: &CanvasId, slot: Slot, inlets: usize, outlets: &[Gate]) -> Result<(), EditError> {
        if self.document.format.is_pd() {
            return Ok(());
        }
        let style: Style = self.style();
        let mut shape = self.object(id, slot)?.shape().ok_or(EditError::Stale)?;
        shape.set(&style, "numinlets", &Json::int(inlets as i64));
        shape.set(&style, "numoutlets", &Json::int(outlets.len() as i64));
        if !outlets.is_empty() {
            let types = outlets.iter().map(|gate| Json::text(if gate.signal { "signal" } else { "" })).collect();
            shape.set(&style, "outlettype", &Json::Array(types));
        }
        self.finish_shape(id, slot, shape)
    }
}
