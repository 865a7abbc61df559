//! Removes, names, hides and moves boxes. Also contains functions that all edits to boxes share.

use super::transaction::Transaction;
use super::{EditError, Naming, Outcome, Target, WarningCode};
use crate::atoms::{self, Atom};
use crate::canvas::{Face, Facts, Slot};
use crate::chunk::Chunk;
use crate::document::{CanvasId, Format};
use crate::font;
use crate::geometry::{Point, Rect};
use crate::max::Shape;
use crate::objects;
use crate::pd;
use crate::ports::Ports;
use crate::style::{Json, Style};
use std::collections::HashMap;

/// Boxes whose text is content, not a class with arguments.
pub(super) const CONTENT: &[&str] = &["message", "comment", "textedit", "live.comment"];

/// Maximum length of a box's text in bytes; Max truncates longer symbols.
const MAX_TEXT: usize = 32_767;

/// Largest accepted coordinate: far larger than any window, and exact in a 32-bit float.
pub(super) const MAX_COORDINATE: f64 = 1e6;

impl Transaction<'_> {
    pub(super) fn remove(&mut self, id: &CanvasId, target: &Target) -> Result<Outcome, EditError> {
        let slot = self.resolve(id, target)?;
        let object = self.object(id, slot)?;
        let (key, label) = (object.key().to_owned(), object.label().to_owned());
        let (text, maxclass) = (object.text().to_owned(), object.maxclass().to_owned());
        let cords = self.canvas(id)?.cords_at(slot);
        for cord in &cords {
            self.take_out(id, *cord, false)?;
        }
        self.take_out(id, slot, true)?;
        Ok(Outcome::Removed { key, label, text, maxclass, cords: cords.len() })
    }

    /// Stores a changed `Shape` as the `Face` of its box.
    pub(super) fn finish_shape(&mut self, id: &CanvasId, slot: Slot, shape: Shape) -> Result<(), EditError> {
        let old = self.canvas(id)?.face(slot).ok_or(EditError::Stale)?.clone();
        let mut facts = shape.facts();
        if facts.rect.w <= 0.0 || facts.rect.h <= 0.0 {
            (facts.rect.w, facts.rect.h) = objects::default_size(Format::Maxpat, &facts.maxclass, &facts.text);
        }
        let (before, after) = shape.close();
        let face = Face {
            key: old.key.clone(),
            before: Chunk::owned(before),
            after: after.map_or(Chunk::EMPTY, Chunk::owned),
            facts,
        };
        self.swap_face(id, slot, face)
    }

    /// Stores a changed Pd statement as the `Face` of its box.
    pub(super) fn finish_statement(&mut self, id: &CanvasId, slot: Slot, text: Vec<u8>) -> Result<(), EditError> {
        let canvas = self.canvas(id)?;
        let old = canvas.face(slot).ok_or(EditError::Stale)?.clone();
        let inner = canvas.inner(slot).map(|inner| inner.facts.clone());
        let font = canvas.facts.font_size;
        let kind = old.facts.native.unwrap_or("obj");
        let facts = Facts { varname: old.facts.varname.clone(), ..pd::facts(kind, &text, font, inner.as_ref()) };
        let (before, after) =
            if inner.is_some() { (Chunk::EMPTY, Chunk::owned(text)) } else { (Chunk::owned(text), Chunk::EMPTY) };
        self.swap_face(id, slot, Face { key: old.key.clone(), before, after, facts })
    }

    pub(super) fn change_keys(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        change: impl FnOnce(&mut Shape, &Style),
    ) -> Result<(), EditError> {
        let style = self.style();
        let mut shape = self.object(id, slot)?.shape().ok_or(EditError::Stale)?;
        change(&mut shape, &style);
        self.finish_shape(id, slot, shape)
    }

    pub(super) fn check_name(&self, id: &CanvasId, name: &str, owner: Option<Slot>) -> Result<(), EditError> {
        if name.is_empty() || name.chars().count() > 256 || !atoms::printable(name, false) || name.contains('/') {
            return Err(bad("varname", "must have 1 to 256 characters, without control characters and `/`"));
        }
        let canvas = self.canvas(id)?;
        let holder = canvas.by_varname(name).iter().find(|slot| Some(**slot) != owner);
        match holder.and_then(|slot| canvas.face(*slot)) {
            Some(face) => Err(EditError::NameTaken { name: name.to_owned(), key: face.key.to_string() }),
            None => Ok(()),
        }
    }

    pub(super) fn put_name(&mut self, id: &CanvasId, slot: Slot, name: Option<&str>) -> Result<(), EditError> {
        if self.object(id, slot)?.varname() == name {
            return Ok(());
        }
        if self.document.format.is_pd() {
            // Pd files cannot store names; a side file stores them (`names`).
            let mut face = self.canvas(id)?.face(slot).ok_or(EditError::Stale)?.as_ref().clone();
            face.facts.varname = name.map(Into::into);
            return self.swap_face(id, slot, face);
        }
        self.change_keys(id, slot, |shape, style| match name {
            Some(name) => shape.set(style, "varname", &Json::text(name)),
            None => shape.remove("varname"),
        })
    }

    pub(super) fn set_varname(
        &mut self,
        id: &CanvasId,
        target: &Target,
        name: Option<&str>,
    ) -> Result<Outcome, EditError> {
        let slot = self.resolve(id, target)?;
        if let Some(name) = name {
            self.check_name(id, name, Some(slot))?;
        }
        let object = self.object(id, slot)?;
        let naming = Naming {
            index: object.index(),
            varname: name.map(str::to_owned),
            old_varname: object.varname().map(str::to_owned),
            maxclass: object.maxclass().to_owned(),
        };
        self.put_name(id, slot, name)?;
        Ok(Outcome::Named(vec![naming]))
    }

    pub(super) fn assign_varnames(&mut self, id: &CanvasId, list: &[(usize, String)]) -> Result<Outcome, EditError> {
        let canvas = self.canvas(id)?;
        let slots: Vec<Slot> = canvas.box_slots().collect();
        let mut chosen: HashMap<usize, Slot> = HashMap::new();
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (index, name) in list {
            let slot = *slots
                .get(*index)
                .ok_or(EditError::IndexOutOfRange { index: *index, last: slots.len().saturating_sub(1) })?;
            if chosen.insert(*index, slot).is_some() {
                return Err(EditError::BadValue {
                    what: format!("index {index}"),
                    why: "the same index is given twice",
                });
            }
            if names.insert(name, *index).is_some() {
                return Err(EditError::BadValue {
                    what: format!("varname {name:?}"),
                    why: "the same name is given twice",
                });
            }
        }
        let renamed: Vec<Slot> = chosen.values().copied().collect();
        for (_, name) in list {
            // A name of another box is free if that box is renamed in the same call.
            let holder = canvas.by_varname(name).iter().find(|slot| !renamed.contains(slot));
            if let Some(face) = holder.and_then(|slot| canvas.face(*slot)) {
                return Err(EditError::NameTaken { name: name.clone(), key: face.key.to_string() });
            }
            let free = canvas.by_varname(name).first().copied();
            self.check_name(id, name, free)?;
        }
        let mut namings = Vec::with_capacity(list.len());
        for (index, name) in list {
            let Some(slot) = chosen.get(index).copied() else {
                continue;
            };
            let object = self.object(id, slot)?;
            namings.push(Naming {
                index: *index,
                varname: Some(name.clone()),
                old_varname: object.varname().map(str::to_owned),
                maxclass: object.maxclass().to_owned(),
            });
            self.put_name(id, slot, Some(name))?;
        }
        Ok(Outcome::Named(namings))
    }

    pub(super) fn set_hidden(&mut self, id: &CanvasId, target: &Target, hidden: bool) -> Result<Outcome, EditError> {
        let slot = self.resolve(id, target)?;
        if self.document.format.is_pd() {
            return Err(EditError::Unsupported { what: "hiding a box", why: "Pd has no hidden boxes" });
        }
        let object = self.object(id, slot)?;
        if object.hidden() != hidden {
            self.change_keys(id, slot, |shape, style| {
                if hidden { shape.set(style, "hidden", &Json::int(1)) } else { shape.remove("hidden") }
            })?;
        }
        Ok(Outcome::HiddenSet(hidden))
    }

    pub(super) fn set_rect(
        &mut self,
        id: &CanvasId,
        target: &Target,
        position: Point,
        size: Option<(f64, f64)>,
    ) -> Result<Outcome, EditError> {
        let slot = self.resolve(id, target)?;
        check_point("position", position)?;
        let old = self.object(id, slot)?.rect();
        let (w, h) = size.unwrap_or((old.w, old.h));
        if !(w > 0.0 && h > 0.0 && w <= MAX_COORDINATE && h <= MAX_COORDINATE) {
            return Err(bad("size", "width and height must be above 0 and at most 1000000"));
        }
        let rect = Rect::new(position.x, position.y, w, h);
        if rect == old {
            return Ok(Outcome::Moved(old));
        }
        if self.document.format.is_pd() {
            self.set_rect_pd(id, slot, position, size.filter(|size| *size != (old.w, old.h)))?;
        } else {
            self.change_keys(id, slot, |shape, style| shape.set(style, "patching_rect", &Json::floats(&rect.array())))?;
        }
        Ok(Outcome::Moved(self.object(id, slot)?.rect()))
    }

    pub(super) fn set_rect_pd(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        position: Point,
        size: Option<(f64, f64)>,
    ) -> Result<(), EditError> {
        let object = self.object(id, slot)?;
        let native = object.native_class().unwrap_or("obj");
        if matches!(native, "array" | "scalar") {
            return Err(EditError::Unsupported {
                what: "moving an array or a scalar",
                why: "the canvas determines the position",
            });
        }
        let chunk = if object.view.canvas.inner(slot).is_some() { &object.face.after } else { &object.face.before };
        let text = chunk.bytes(&self.document.source);
        let moved = pd::replace_atom(text, 3, &pd::coordinate(position.y))
            .and_then(|text| pd::replace_atom(&text, 2, &pd::coordinate(position.x)));
        let rounded = position.x.fract() != 0.0 || position.y.fract() != 0.0;
        let (label, font) = (object.label().to_owned(), object.view.font_size());
        let class = object.pd_class().unwrap_or("obj");
        let sized_by = match class {
            "hsl" | "vsl" | "vu" | "cnv" => ["width", "height"].as_slice(),
            "bng" | "tgl" => ["size"].as_slice(),
            _ => [].as_slice(),
        };
        let has_inner = object.view.canvas.inner(slot).is_some();
        self.finish_statement(id, slot, moved.ok_or(EditError::Stale)?)?;
        if rounded {
            self.warn(WarningCode::Coerced, "Pd places boxes at whole pixels".to_owned(), Some(&label));
        }
        let Some((w, h)) = size else { return Ok(()) };
        if has_inner {
            self.warn(
                WarningCode::Coerced,
                "the size of a subpatch follows from its text; only its position was changed".to_owned(),
                Some(&label),
            );
        } else if sized_by.is_empty() {
            let columns = ((w - 4.0) / pd::cell(font).0).round().max(1.0);
            self.set_pd_field(id, slot, "width", &[Atom::Int(columns as i64)])?;
            self.warn(
                WarningCode::Coerced,
                "Pd stores the width in characters and determines the height itself".to_owned(),
                Some(&label),
            );
        } else {
            for (name, pixels) in sized_by.iter().zip([w, h]) {
                self.set_pd_field(id, slot, name, &[Atom::Int(pixels.round() as i64)])?;
            }
        }
        Ok(())
    }
}

pub(super) fn bad(what: &str, why: &'static str) -> EditError {
    EditError::BadValue { what: what.to_owned(), why }
}

pub(super) fn check_point(what: &str, point: Point) -> Result<(), EditError> {
    let fine = |v: f64| v.is_finite() && v.abs() <= MAX_COORDINATE;
    if fine(point.x) && fine(point.y) {
        Ok(())
    } else {
        Err(bad(what, "must be two numbers between -1000000 and 1000000"))
    }
}

pub(super) fn check_text(text: &str, content: bool) -> Result<(), EditError> {
    if text.len() > MAX_TEXT {
        return Err(bad("text", "must have at most 32767 bytes"));
    }
    if !atoms::printable(text, content) {
        return Err(bad("text", "control characters are not allowed"));
    }
    Ok(())
}

pub(super) fn port_members(ports: &Ports) -> Vec<(String, Json)> {
    let (true, Some(inlets), Some(outlets)) = (ports.exact, ports.inlets, ports.outlets) else {
        return Vec::new();
    };
    let mut members = vec![
        ("numinlets".to_owned(), Json::int(i64::from(inlets))),
        ("numoutlets".to_owned(), Json::int(i64::from(outlets))),
    ];
    if let Some(types) = ports.outlet_types.as_ref().filter(|_| outlets > 0) {
        members.push(("outlettype".to_owned(), Json::Array(types.iter().map(|kind| Json::text(kind)).collect())));
    }
    members
}

/// Whether the width of a box follows from its text, so that a new text may change it.
pub(super) fn automatic_width(maxclass: &str, text: &str, font_size: f64, rect: Rect) -> bool {
    if maxclass == "newobj" {
        return (font::object_width(text, font_size) - rect.w).abs() < 0.75;
    }
    objects::table(Format::Maxpat)
        .class(maxclass)
        .and_then(|class| class.size)
        .is_some_and(|(w, h)| (w, h) == (rect.w, rect.h))
}

pub(super) fn pd_word(atom: &Atom, content: bool) -> String {
    match atom {
        Atom::Int(n) => n.to_string(),
        Atom::Float(n) => format!("{n}"),
        Atom::Word(word) if content => word.clone(),
        // Escapes the characters that would end the atom.
        Atom::Word(word) => word.replace('\\', "").replace(' ', "\\ ").replace(',', "\\,").replace(';', "\\;"),
    }
}
