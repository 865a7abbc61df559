//! Changes the text of a box and therefore its class. All keys and cords that remain valid are
//! kept.

use super::add::box_atoms;
use super::boxes::{CONTENT, automatic_width, bad, check_text, port_members};
use super::transaction::Transaction;
use super::{DroppedCord, EditError, Outcome, Target, WarningCode};
use crate::atoms;
use crate::canvas::Slot;
use crate::document::{BoxId, CanvasId, Format};
use crate::font;
use crate::objects::{self, BOX_ATTRIBUTES};
use crate::pd;
use crate::ports::Ports;
use crate::style::Json;

impl Transaction<'_> {
    pub(super) fn set_text(
        &mut self,
        id: &CanvasId,
        target: &Target,
        text: &str,
        allow_unknown: bool,
    ) -> Result<Outcome, EditError> {
        let slot = self.resolve(id, target)?;
        let object = self.object(id, slot)?;
        let old_text = object.text().to_owned();
        let content = CONTENT.contains(&object.maxclass());
        check_text(text, content)?;
        if !content && text.trim().is_empty() {
            return Err(bad("new_text", "an object box needs a class"));
        }
        let ports = if self.document.format.is_pd() {
            self.set_text_pd(id, slot, text, allow_unknown)?
        } else {
            self.set_text_max(id, slot, text, content, allow_unknown)?
        };
        let (kept, dropped) = match ports {
            Some(ports) => self.drop_lost_cords(id, slot, &ports)?,
            None => (self.canvas(id)?.cords_at(slot).len(), Vec::new()),
        };
        Ok(Outcome::TextSet { old_text, kept, dropped })
    }

    /// Changes the text of the box. Returns the new ports of the box if they may differ from the
    /// old ports.
    pub(super) fn set_text_max(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        text: &str,
        content: bool,
        allow_unknown: bool,
    ) -> Result<Option<Ports>, EditError> {
        let style = self.style();
        let object = self.object(id, slot)?;
        let label = object.label().to_owned();
        let mut shape = object.shape().ok_or(EditError::Stale)?;
        let old_class = object.class().to_owned();
        let (old_rect, old_maxclass, old_text) =
            (object.rect(), object.maxclass().to_owned(), object.text().to_owned());
        let size_of_font = object.font_size().unwrap_or(12.0);
        if content {
            shape.set(&style, "text", &Json::text(text));
            self.finish_shape(id, slot, shape)?;
            return Ok(None);
        }
        let text = text.trim();
        let class = atoms::tokens(text).first().copied().unwrap_or_default().to_owned();
        let same_class = class == old_class || resolves_alike(&class, &old_class);
        let inner = self.canvas(id)?.inner(slot).filter(|_| same_class).cloned();
        let had_inner = self.canvas(id)?.inner(slot).is_some();
        let plan = self.plan(id, &class, text, None, inner.as_ref(), allow_unknown || same_class)?;
        let mut ports = plan.ports.clone();
        let object = self.object(id, slot)?;
        if !ports.exact && same_class {
            // The table is not exact for this class, so the counts in the file are more reliable.
            ports = object.ports();
            if ports.inlets.is_none() || plan.ports.inlets.is_none() {
                self.warn(
                    WarningCode::UnverifiedPorts,
                    format!("the inlets and outlets of {class:?} could not be checked; those in the file were kept"),
                    Some(&label),
                );
            }
        } else if plan.unknown {
            self.warn(WarningCode::UnknownClass, format!("the class {class:?} is unknown"), Some(&label));
        }
        if plan.maxclass != old_maxclass {
            shape.set(&style, "maxclass", &Json::text(&plan.maxclass));
        }
        if plan.maxclass == "newobj" || CONTENT.contains(&plan.maxclass.as_str()) {
            let shown = if plan.maxclass == "newobj" {
                text
            } else {
                text.strip_prefix(class.as_str()).unwrap_or_default().trim()
            };
            shape.set(&style, "text", &Json::text(shown));
        } else {
            shape.remove("text");
        }
        if ports.exact {
            for (key, value) in port_members(&ports) {
                shape.set(&style, &key, &value);
            }
            if ports.outlets == Some(0) {
                shape.remove("outlettype");
            }
        } else {
            // Do not write a guessed count: Max determines the counts when it loads the file.
            ["numinlets", "numoutlets", "outlettype"].into_iter().for_each(|key| shape.remove(key));
        }
        if !same_class {
            let foreign: Vec<String> =
                shape.keys().filter(|key| is_foreign(key, &old_class, &class)).map(str::to_owned).collect();
            foreign.iter().for_each(|key| shape.remove(key));
        }
        let automatic = automatic_width(&old_maxclass, &old_text, size_of_font, old_rect);
        if automatic {
            let (w, h) = if plan.maxclass == "newobj" {
                (font::object_width(text, size_of_font), if old_maxclass == "newobj" { old_rect.h } else { 22.0 })
            } else {
                plan.size
            };
            shape.set(&style, "patching_rect", &Json::floats(&[old_rect.x, old_rect.y, w, h]));
        }
        if had_inner && inner.is_none() {
            shape.remove("patcher");
            self.warn(
                WarningCode::DroppedCords,
                "the embedded patcher of the old object was removed; undo restores it".to_owned(),
                Some(&label),
            );
        }
        let fresh = if plan.embedded && inner.is_none() {
            shape.dig(&style);
            Some(self.empty_patcher(id, &class)?)
        } else {
            None
        };
        self.finish_shape(id, slot, shape)?;
        if fresh.is_some() || (had_inner && inner.is_none()) {
            self.swap_inner(id, slot, fresh)?;
        }
        Ok(ports.exact.then_some(ports))
    }

    pub(super) fn set_text_pd(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        text: &str,
        allow_unknown: bool,
    ) -> Result<Option<Ports>, EditError> {
        let object = self.object(id, slot)?;
        let native = object.native_class().unwrap_or("obj");
        let (rect, columns, old_class) = (object.rect(), object.face.facts.columns, object.class().to_owned());
        let style = self.style();
        let mut atoms = vec!["#X".to_owned(), native.to_owned(), pd::coordinate(rect.x), pd::coordinate(rect.y)];
        match native {
            "msg" | "text" => {}
            "obj" => {
                let table = objects::table(Format::Pd);
                let class = atoms::tokens(text).first().copied().unwrap_or_default();
                if matches!(class, "pd") {
                    return Err(EditError::Unsupported {
                        what: "changing a box into a subpatch",
                        why: "add a `pd` box, or encapsulate objects",
                    });
                }
                let known =
                    table.class_of(text).is_some() || self.document.abstraction(class).is_some() || class == old_class;
                if !known && !allow_unknown {
                    return Err(EditError::UnknownClass { class: class.to_owned(), nearest: table.nearest(class) });
                }
            }
            "restore" => {
                if !text.trim().starts_with("pd") {
                    return Err(EditError::Unsupported {
                        what: "changing a subpatch into another object",
                        why: "the boxes inside would be lost; remove the subpatch and add a new box",
                    });
                }
            }
            _ => {
                return Err(EditError::Unsupported {
                    what: "setting the text of this box",
                    why: "number and symbol boxes have no text",
                });
            }
        }
        let (own, is_gui) = if native == "obj" { box_atoms(native, text) } else { (pd::spell(text), false) };
        atoms.extend(own);
        let object = self.object(id, slot)?;
        let in_after = native == "restore";
        let chunk = if in_after { &object.face.after } else { &object.face.before };
        let (_, attached) = pd::own_statement(chunk.bytes(&self.document.source));
        let mut printed = pd::print(&atoms, columns.filter(|_| native != "restore" && !is_gui), &style);
        printed.extend_from_slice(attached);
        self.finish_statement(id, slot, printed)?;
        if native == "restore" || matches!(native, "msg" | "text") {
            return Ok(None);
        }
        let ports = self.object(id, slot)?.ports();
        if !ports.exact {
            let label = self.object(id, slot)?.label().to_owned();
            self.warn(
                WarningCode::UnverifiedPorts,
                format!("the inlets and outlets of {text:?} are unknown"),
                Some(&label),
            );
        }
        Ok(ports.exact.then_some(ports))
    }

    pub(super) fn drop_lost_cords(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        ports: &Ports,
    ) -> Result<(usize, Vec<DroppedCord>), EditError> {
        let (mut kept, mut dropped) = (0, Vec::new());
        for cord_slot in self.canvas(id)?.cords_at(slot) {
            let view = self.view(id)?;
            let cord = self.canvas(id)?.cord(cord_slot).ok_or(EditError::Stale)?.clone();
            let label = |end: &crate::canvas::End| {
                end.slot
                    .and_then(|slot| view.get(BoxId(slot)))
                    .map_or_else(|| end.name.to_string(), |object| object.label().to_owned())
            };
            let lost_out = cord.from.slot == Some(slot) && ports.outlets.is_some_and(|count| cord.from.port >= count);
            let lost_in = cord.to.slot == Some(slot) && ports.inlets.is_some_and(|count| cord.to.port >= count);
            if !lost_out && !lost_in {
                kept += 1;
                continue;
            }
            let (side, port, count) = if lost_out {
                ("outlet", cord.from.port, ports.outlets)
            } else {
                ("inlet", cord.to.port, ports.inlets)
            };
            dropped.push(DroppedCord {
                from: label(&cord.from),
                outlet: cord.from.port,
                to: label(&cord.to),
                inlet: cord.to.port,
                reason: format!("the new object has no {side} {port} (number of {side}s: {})", count.unwrap_or(0)),
            });
            self.take_out(id, cord_slot, false)?;
        }
        if !dropped.is_empty() {
            let label = self.object(id, slot)?.label().to_owned();
            self.warn(
                WarningCode::DroppedCords,
                format!("cords that were removed because their ports no longer exist: {}", dropped.len()),
                Some(&label),
            );
        }
        Ok((kept, dropped))
    }
}

/// Whether two texts name the same class.
pub(super) fn resolves_alike(a: &str, b: &str) -> bool {
    let table = objects::table(Format::Maxpat);
    match (table.class(a), table.class(b)) {
        (Some(a), Some(b)) => a.name == b.name,
        _ => matches!((a, b), ("p", "patcher") | ("patcher", "p")),
    }
}

/// Whether a key belongs to the old class of a box and has no meaning for the new class.
pub(super) fn is_foreign(key: &str, old_class: &str, new_class: &str) -> bool {
    if matches!(key, "saved_object_attributes" | "saved_attribute_attributes" | "data") || key.starts_with("parameter_")
    {
        return true;
    }
    let has = |class: &str| {
        objects::table(Format::Maxpat)
            .class(class)
            .is_some_and(|class| class.ui.is_some() && class.attributes.iter().any(|(name, _)| *name == key))
    };
    has(old_class) && !has(new_class) && !BOX_ATTRIBUTES.contains(&key)
}
