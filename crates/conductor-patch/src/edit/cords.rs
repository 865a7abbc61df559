//! Edits to cords: connect, disconnect, set midpoints.

use super::transaction::Transaction;
use super::{CordEnds, EditError, Outcome, WarningCode};
use crate::canvas::{Cord, End, Slot};
use crate::change::Piece;
use crate::chunk::Chunk;
use crate::document::CanvasId;
use crate::geometry::Point;
use crate::max::{self, Shape};
use crate::pd;
use crate::style::{Json, Style};

use std::sync::Arc;

impl Transaction<'_> {
    pub(super) fn connect(&mut self, id: &CanvasId, ends: &CordEnds, hidden: bool) -> Result<Outcome, EditError> {
        let (from, to) = (self.resolve(id, &ends.from)?, self.resolve(id, &ends.to)?);
        if self.canvas(id)?.find_cord(from, ends.outlet, to, ends.inlet).is_some() {
            return Ok(Outcome::Connected { already: true });
        }
        self.check_port(id, from, ends.outlet, true)?;
        self.check_port(id, to, ends.inlet, false)?;
        if hidden && self.document.format.is_pd() {
            return Err(EditError::Unsupported { what: "hiding a cord", why: "Pd has no hidden cords" });
        }
        self.draw(id, (from, ends.outlet), (to, ends.inlet), hidden)?;
        Ok(Outcome::Connected { already: false })
    }

    /// Adds a cord without checking whether its ports exist.
    pub(super) fn draw(
        &mut self,
        id: &CanvasId,
        from: (Slot, u32),
        to: (Slot, u32),
        hidden: bool,
    ) -> Result<(), EditError> {
        let from = End { slot: Some(from.0), name: self.cord_name(id, from.0)?, port: from.1 };
        let to = End { slot: Some(to.0), name: self.cord_name(id, to.0)?, port: to.1 };
        let cord = if self.document.format.is_pd() {
            pd::new_cord(from, to, self.style().newline)
        } else {
            self.print_cord(id, from, to, hidden)
        };
        let slot = self.canvas(id)?.next_cord_slot();
        self.insert(id, Piece::Cord { slot, cord: Arc::new(cord) }, None)
    }

    fn print_cord(&self, id: &CanvasId, from: End, to: End, hidden: bool) -> Cord {
        let end = |end: &End| Json::Array(vec![Json::text(&end.name), Json::int(i64::from(end.port))]);
        let mut members = vec![("destination".to_owned(), end(&to))];
        if hidden {
            members.push(("hidden".to_owned(), Json::int(1)));
        }
        members.push(("source".to_owned(), end(&from)));
        let mut printed = String::new();
        let line = Json::Object(vec![("patchline".to_owned(), Json::Object(members))]);
        self.document.style.print(&line, Style::item_level(id.depth()), &mut printed);
        Cord { text: Chunk::owned(printed), from, to, hidden, midpoints: [].into() }
    }

    /// The name by which a cord refers to a box; an error for boxes without a usable name.
    fn cord_name(&mut self, id: &CanvasId, slot: Slot) -> Result<Arc<str>, EditError> {
        let canvas = self.canvas(id)?;
        if self.document.format.is_pd() {
            return Ok(pd::name_of(canvas.index_of(slot).unwrap_or(0) as u32));
        }
        let face = canvas.face(slot).ok_or(EditError::Stale)?.clone();
        let label = face.facts.varname.clone().unwrap_or_else(|| face.key.clone()).to_string();
        let Some(name) = face.facts.id.clone() else {
            return Err(EditError::Unreachable { label, why: "the box has no id in the file" });
        };
        if face.key != name {
            let shares =
                canvas.faces().find(|(_, other)| other.facts.id.as_ref() == Some(&name)).map(|(first, _)| first);
            if shares != Some(slot) {
                return Err(EditError::Unreachable {
                    label,
                    why: "an earlier box has the same id and would get the cord",
                });
            }
            if canvas.faces().filter(|(_, other)| other.facts.id.as_ref() == Some(&name)).count() > 1 {
                self.warn(
                    WarningCode::DuplicateId,
                    format!("several boxes share the id {name}; the cord is connected to the first of them"),
                    Some(&label),
                );
            }
        }
        Ok(name)
    }

    fn check_port(&mut self, id: &CanvasId, slot: Slot, port: u32, out: bool) -> Result<(), EditError> {
        let object = self.object(id, slot)?;
        let label = object.label().to_owned();
        let facts = &object.face.facts;
        // If the file contains both port counts of the box, use these counts, because computing the
        // ports is slower.
        let (inlets, outlets, exact) = match (facts.inlets, facts.outlets) {
            (Some(inlets), Some(outlets)) => (Some(inlets), Some(outlets), true),
            _ => {
                let ports = object.ports();
                (ports.inlets, ports.outlets, ports.exact)
            }
        };
        let count = if out { outlets } else { inlets };
        match count {
            Some(count) if port < count => Ok(()),
            Some(_) if exact => Err(EditError::NoSuchPort {
                label,
                side: if out { "outlet" } else { "inlet" },
                port,
                inlets: inlets.unwrap_or(0),
                outlets: outlets.unwrap_or(0),
            }),
            Some(_) | None => {
                let side = if out { "outlet" } else { "inlet" };
                self.warn(
                    WarningCode::UnverifiedPorts,
                    format!("it is unknown whether {label} has {side} {port}"),
                    Some(&label),
                );
                Ok(())
            }
        }
    }

    fn find_cord(&self, id: &CanvasId, ends: &CordEnds) -> Result<Slot, EditError> {
        let (from, to) = (self.resolve(id, &ends.from)?, self.resolve(id, &ends.to)?);
        let found = self.canvas(id)?.find_cord(from, ends.outlet, to, ends.inlet);
        match found {
            Some(slot) => Ok(slot),
            None => Err(EditError::NotConnected {
                from: self.object(id, from)?.label().to_owned(),
                outlet: ends.outlet,
                to: self.object(id, to)?.label().to_owned(),
                inlet: ends.inlet,
            }),
        }
    }

    pub(super) fn disconnect(&mut self, id: &CanvasId, ends: &CordEnds) -> Result<Outcome, EditError> {
        let slot = self.find_cord(id, ends)?;
        self.take_out(id, slot, false)?;
        Ok(Outcome::Disconnected)
    }

    pub(super) fn set_midpoints(
        &mut self,
        id: &CanvasId,
        ends: &CordEnds,
        points: &[Point],
    ) -> Result<Outcome, EditError> {
        if self.document.format.is_pd() {
            return Err(EditError::Unsupported { what: "setting midpoints", why: "Pd draws straight cords" });
        }
        if points.len() > 256 {
            return Err(EditError::BadValue { what: "midpoints".to_owned(), why: "must have at most 256 points" });
        }
        let flat: Vec<f64> = points.iter().flat_map(|point| [point.x, point.y]).collect();
        if flat.iter().any(|v| !v.is_finite() || v.abs() > 1e6) {
            return Err(EditError::BadValue {
                what: "midpoints".to_owned(),
                why: "must have coordinates between -1000000 and 1000000",
            });
        }
        let slot = self.find_cord(id, ends)?;
        let style = self.style();
        let old = self.canvas(id)?.cord(slot).ok_or(EditError::Stale)?.clone();
        if old.midpoints.as_ref() != flat.as_slice() {
            let mut shape = Shape::open(old.text.bytes(&self.document.source), None, "patchline", id.depth())
                .ok_or(EditError::Stale)?;
            if flat.is_empty() {
                shape.remove("midpoints");
            } else {
                shape.set(&style, "midpoints", &Json::floats(&flat));
            }
            let fresh = max::reread_cord(shape.close().0, &old).ok_or(EditError::Stale)?;
            self.swap_cord(id, slot, fresh)?;
        }
        let now = self.canvas(id)?.cord(slot).ok_or(EditError::Stale)?;
        Ok(Outcome::MidpointsSet(
            now.midpoints.chunks_exact(2).filter_map(|pair| Some(Point::new(*pair.first()?, *pair.get(1)?))).collect(),
        ))
    }
}
