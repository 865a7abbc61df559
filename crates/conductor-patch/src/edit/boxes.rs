//! Edits of boxes: add, remove, text, attributes, names, places.

use std::collections::HashMap;
use std::sync::Arc;

use super::transaction::Transaction;
use super::{DroppedCord, EditError, Naming, NewBox, Outcome, StoredIn, Target, WarningCode};
use crate::atoms::{self, Atom, Value};
use crate::canvas::{Canvas, Face, Facts, Slot};
use crate::change::Piece;
use crate::chunk::Chunk;
use crate::document::{BoxId, CanvasId, Format, Limits};
use crate::font;
use crate::geometry::{Point, Rect};
use crate::max::Shape;
use crate::objects::{self, BOX_ATTRIBUTES};
use crate::pd;
use crate::ports::{self, Ports};
use crate::style::{Json, Style};

/// Boxes whose text is shown, not read as class and arguments.
const CONTENT: &[&str] = &["message", "comment", "textedit", "live.comment"];

/// Keys that follow from others or have an edit of their own.
const RESERVED: &[(&str, &str)] = &[
    ("id", "a key is given once, when the box is made"),
    ("maxclass", "replace_object_text"),
    ("numinlets", "replace_object_text"),
    ("numoutlets", "replace_object_text"),
    ("outlettype", "replace_object_text"),
    (
        "patcher",
        "encapsulate_objects, or edits inside the subpatcher",
    ),
    ("text", "replace_object_text"),
];

/// Longest text of a box; a longer symbol is cut by Max.
const MAX_TEXT: usize = 32_767;

/// Largest coordinate accepted; far beyond any window, and still exact in a float.
const MAX_COORDINATE: f64 = 1e6;

/// What a box is going to be.
struct Plan {
    maxclass: String,
    /// Text of the box; empty for most user interface objects.
    text: String,
    ports: Ports,
    embedded: bool,
    size: (f64, f64),
    unknown: bool,
}

/// Pd's statement and arguments for the Max names of common boxes, so that one request works on both.
fn pd_kind(class: &str) -> (&'static str, Option<&'static str>) {
    match class {
        "message" | "msg" => ("msg", None),
        "comment" | "text" => ("text", None),
        "flonum" | "number" | "floatatom" => ("floatatom", None),
        "symbolatom" | "textedit" => ("symbolatom", None),
        "listbox" => ("listbox", None),
        "toggle" => ("obj", Some("tgl")),
        "button" => ("obj", Some("bng")),
        "slider" => ("obj", Some("hsl")),
        _ => ("obj", None),
    }
}

impl Transaction<'_> {
    pub(super) fn add(&mut self, id: &CanvasId, new: &NewBox) -> Result<Outcome, EditError> {
        check_point("position", new.position)?;
        if let Some((w, h)) = new.size
            && !(w > 0.0 && h > 0.0 && w <= MAX_COORDINATE && h <= MAX_COORDINATE)
        {
            return Err(bad("size", "width and height must be above 0"));
        }
        if let Some(name) = &new.varname {
            self.check_name(id, name, None)?;
        }
        let slot = if self.document.format.is_pd() {
            self.add_pd(id, new)?
        } else {
            self.add_max(id, new)?
        };
        self.remember_handle(new, slot);
        for (name, value) in &new.attributes {
            self.set_attribute(
                id,
                &Target::Box(BoxId(slot)),
                name,
                value,
                new.allow_unknown,
            )?;
        }
        let canvas = self.canvas(id)?;
        // A box at the end, the usual case, needs no counting.
        let index = if canvas
            .items
            .get(canvas.position_of_box(slot).unwrap_or(0) + 1)
            .is_some_and(|item| matches!(item, crate::canvas::Item::Mark(_)))
        {
            canvas.box_count - 1
        } else {
            canvas.index_of(slot).unwrap_or(0)
        };
        let object = self.object(id, slot)?;
        Ok(Outcome::Added {
            id: BoxId(slot),
            key: object.key().to_owned(),
            index,
            text: object.text().to_owned(),
            rect: object.rect(),
            ports: object.ports(),
        })
    }

    /// Works out what a class and its arguments make, and refuses what nothing knows.
    fn plan(
        &self,
        id: &CanvasId,
        class: &str,
        text: &str,
        file: Option<&str>,
        inner: Option<&Arc<Canvas>>,
        allow_unknown: bool,
    ) -> Result<Plan, EditError> {
        let view = self.view(id)?;
        let table = objects::table(Format::Maxpat);
        if view.is_gen() {
            let known = objects::is_gen_operator(class) || table.gen_count(class).is_some();
            if !known && !allow_unknown {
                return Err(EditError::UnknownClass {
                    class: class.to_owned(),
                    nearest: objects::nearest_gen(class),
                });
            }
            let ports = ports::expected(&view, "newobj", None, text, None, None);
            return Ok(Plan {
                maxclass: "newobj".to_owned(),
                text: text.to_owned(),
                ports,
                embedded: false,
                size: (font::object_width(text, 12.0), 22.0),
                unknown: !known,
            });
        }
        let entry = table.class(class);
        let known = entry.is_some() || self.document.abstraction(class).is_some();
        if !known && !allow_unknown {
            return Err(EditError::UnknownClass {
                class: class.to_owned(),
                nearest: table.nearest(class),
            });
        }
        let ui = entry.and_then(|entry| entry.ui);
        let maxclass = ui.unwrap_or("newobj").to_owned();
        let text = if ui.is_none() || CONTENT.contains(&maxclass.as_str()) {
            text.to_owned()
        } else {
            String::new()
        };
        let embedded = matches!(class, "patcher" | "p") || (class == "bpatcher" && file.is_none());
        let ports = match (inner, embedded) {
            (Some(_), _) | (None, false) => {
                ports::expected(&view, &maxclass, None, &text, inner, file)
            }
            // A new, empty patcher has no way in or out.
            (None, true) => Ports {
                inlets: Some(0),
                outlets: Some(0),
                outlet_types: Some(Vec::new()),
                basis: ports::Basis::Structure,
                exact: true,
            },
        };
        let size = objects::default_size(Format::Maxpat, &maxclass, &text);
        Ok(Plan {
            maxclass,
            text,
            ports,
            embedded,
            size,
            unknown: !known,
        })
    }

    fn add_max(&mut self, id: &CanvasId, new: &NewBox) -> Result<Slot, EditError> {
        let class = atoms::tokens(&new.class)
            .first()
            .copied()
            .unwrap_or_default()
            .to_owned();
        if class.is_empty() {
            return Err(bad("obj_type", "a class is needed"));
        }
        let content = CONTENT.contains(&class.as_str());
        let mut text = if content {
            new.class
                .trim()
                .strip_prefix(class.as_str())
                .unwrap_or_default()
                .trim()
                .to_owned()
        } else {
            new.class.trim().to_owned()
        };
        for argument in &new.arguments {
            let word = if content {
                argument.in_content()
            } else {
                argument.in_text()
            };
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word);
        }
        check_text(&text, content)?;
        let file = (class == "bpatcher")
            .then(|| new.attributes.iter().find(|(name, _)| name == "name"))
            .flatten();
        let file = file.and_then(|(_, value)| value.atoms().first().map(Atom::in_content));
        let plan = self.plan(id, &class, &text, file.as_deref(), None, new.allow_unknown)?;
        if plan.maxclass != "newobj"
            && !content
            && (!new.arguments.is_empty() || atoms::tokens(&new.class).len() > 1)
        {
            return Err(bad(
                "arguments",
                "a user interface object takes attributes, not arguments",
            ));
        }
        let label = new.varname.as_deref();
        if plan.unknown {
            self.warn(WarningCode::UnknownClass, format!("nothing knows the class {class:?}; its inlets and outlets are left for Max to find"), label);
        }
        let (w, h) = new.size.unwrap_or(plan.size);
        let rect = Rect::new(new.position.x, new.position.y, w, h);
        let canvas = self.canvas(id)?;
        let key: Arc<str> = format!("obj-{}", canvas.highest + 1).into();
        let mut members = vec![
            ("id".to_owned(), Json::text(&key)),
            ("maxclass".to_owned(), Json::text(&plan.maxclass)),
        ];
        members.extend(port_members(&plan.ports));
        members.push(("patching_rect".to_owned(), Json::floats(&rect.array())));
        if plan.maxclass == "newobj" || content {
            members.push(("text".to_owned(), Json::text(&plan.text)));
        }
        if let Some(name) = &new.varname {
            members.push(("varname".to_owned(), Json::text(name)));
        }
        let style = self.style();
        let level = Style::item_level(id.depth());
        let mut printed = String::new();
        style.print(
            &Json::Object(vec![("box".to_owned(), Json::Object(members))]),
            level,
            &mut printed,
        );
        let mut shape =
            Shape::open(printed.as_bytes(), None, "box", id.depth()).ok_or(EditError::Stale)?;
        let inner = if plan.embedded {
            shape.dig(&style);
            Some(Arc::new(self.empty_patcher(id, &class)?))
        } else {
            None
        };
        let facts = shape.facts();
        let (before, after) = shape.close();
        let face = Face {
            key,
            before: Chunk::owned(before),
            after: after.map_or(Chunk::EMPTY, Chunk::owned),
            facts,
        };
        // In front of what it covers; else last, so that no index shifts.
        let in_front_of = self.first_covered(id, &rect)?;
        if in_front_of.is_some() {
            let key = face.key.clone();
            self.warn(
                WarningCode::Overlap,
                "the new box lies on other boxes and was put in front of them".to_owned(),
                Some(label.unwrap_or(&key)),
            );
        }
        let slot = self.canvas(id)?.next_box_slot();
        self.insert(
            id,
            Piece::Box {
                slot,
                face: Arc::new(face),
                inner,
            },
            in_front_of,
        )?;
        Ok(slot)
    }

    /// The frontmost box that a rectangle covers.
    fn first_covered(&mut self, id: &CanvasId, rect: &Rect) -> Result<Option<Slot>, EditError> {
        let canvas =
            crate::change::canvas_mut(&mut self.document.root, id).ok_or(EditError::CanvasGone)?;
        let near = canvas.grid().near(rect);
        let covered: Vec<Slot> = near
            .into_iter()
            .filter(|slot| {
                canvas
                    .face(*slot)
                    .is_some_and(|face| face.facts.rect.overlaps(rect) && !face.facts.background)
            })
            .collect();
        Ok(match covered.as_slice() {
            [] => None,
            [only] => Some(*only),
            several => canvas.box_slots().find(|slot| several.contains(slot)),
        })
    }

    fn empty_patcher(&self, id: &CanvasId, class: &str) -> Result<Canvas, EditError> {
        let namespace = if crate::document::GEN_CLASSES.contains(&class) {
            "dsp.gen"
        } else {
            "box"
        };
        let version = self
            .document
            .root
            .facts
            .app_version
            .as_deref()
            .unwrap_or("9.0.0");
        let mut numbers = version
            .split('.')
            .map(|part| part.parse::<i64>().unwrap_or(0));
        let mut number = || Json::int(numbers.next().unwrap_or(0));
        let app = vec![
            ("major".to_owned(), number()),
            ("minor".to_owned(), number()),
            ("revision".to_owned(), number()),
            ("architecture".to_owned(), Json::text("x64")),
            ("modernui".to_owned(), Json::int(1)),
        ];
        let members = vec![
            ("fileversion".to_owned(), Json::int(1)),
            ("appversion".to_owned(), Json::Object(app)),
            ("classnamespace".to_owned(), Json::text(namespace)),
            (
                "rect".to_owned(),
                Json::floats(&[100.0, 100.0, 640.0, 480.0]),
            ),
            ("gridsize".to_owned(), Json::floats(&[15.0, 15.0])),
            ("boxes".to_owned(), Json::Array(Vec::new())),
            ("lines".to_owned(), Json::Array(Vec::new())),
        ];
        let mut text = String::new();
        self.document.style.print(
            &Json::Object(members),
            Style::item_level(id.depth()) + 2,
            &mut text,
        );
        crate::max::read_patcher(text.as_bytes(), &Limits::default()).ok_or(EditError::Stale)
    }

    fn add_pd(&mut self, id: &CanvasId, new: &NewBox) -> Result<Slot, EditError> {
        let words = atoms::tokens(&new.class);
        let class = words.first().copied().unwrap_or_default().to_owned();
        if class.is_empty() {
            return Err(bad("obj_type", "a class is needed"));
        }
        let (kind, renamed) = pd_kind(&class);
        let content = matches!(kind, "msg" | "text");
        let mut text = match (kind, renamed) {
            ("obj", Some(renamed)) => renamed.to_owned(),
            ("obj", None) => new.class.trim().to_owned(),
            _ => new
                .class
                .trim()
                .strip_prefix(class.as_str())
                .unwrap_or_default()
                .trim()
                .to_owned(),
        };
        for argument in &new.arguments {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&pd_word(argument, content));
        }
        check_text(&text, content)?;
        let is_sub = kind == "obj" && matches!(class.as_str(), "pd" | "patcher" | "p");
        if kind == "obj" && !is_sub {
            let table = objects::table(Format::Pd);
            let known =
                table.class_of(&text).is_some() || self.document.abstraction(&class).is_some();
            if !known && !new.allow_unknown {
                return Err(EditError::UnknownClass {
                    class,
                    nearest: table.nearest(&new.class),
                });
            }
            if !known {
                self.warn(
                    WarningCode::UnknownClass,
                    format!("nothing knows the class {class:?}"),
                    new.varname.as_deref(),
                );
            }
        }
        let style = self.style();
        let place = [
            pd::coordinate(new.position.x),
            pd::coordinate(new.position.y),
        ];
        let font = self.canvas(id)?.facts.font_size;
        let slot = self.canvas(id)?.next_box_slot();
        let key: Arc<str> = format!("~{}", self.canvas(id)?.highest + 1).into();
        let columns = new
            .size
            .filter(|_| kind != "obj" || pd::gui_default(&class).is_none())
            .map(|(w, _)| ((w - 4.0) / pd::cell(font).0).round().max(1.0) as u32);
        let (before, after, inner, mut facts) = if is_sub {
            let name = atoms::tokens(&text)
                .get(1)
                .copied()
                .unwrap_or_default()
                .to_owned();
            let mut header: Vec<String> = ["#N", "canvas", "100", "100", "450", "300"]
                .map(str::to_owned)
                .to_vec();
            let shown = pd::spell(&name);
            header.push(
                shown
                    .first()
                    .cloned()
                    .unwrap_or_else(|| "(subpatch)".to_owned()),
            );
            header.push("0".to_owned());
            let mut restore: Vec<String> = vec!["#X".to_owned(), "restore".to_owned()];
            restore.extend(place);
            restore.push("pd".to_owned());
            restore.extend(shown);
            let header = pd::print(&header, None, &style);
            let restore = pd::print(&restore, None, &style);
            let inner = pd::empty_canvas(header, font);
            let facts = pd::facts("restore", &restore, font, Some(&inner.facts));
            (
                Chunk::EMPTY,
                Chunk::owned(restore),
                Some(Arc::new(inner)),
                facts,
            )
        } else {
            let mut atoms = vec!["#X".to_owned(), kind.to_owned()];
            atoms.extend(place);
            let given = pd::spell(&text);
            let gui = if kind == "obj" {
                objects::table(Format::Pd)
                    .class_of(&text)
                    .map(|(class, _)| class.name)
            } else {
                Some(kind)
            };
            let defaults = gui.and_then(pd::gui_default);
            match defaults {
                Some(defaults) => {
                    // Pd writes every field of a GUI box; what is not given has its usual value.
                    let first = if kind == "obj" {
                        given.get(..1).unwrap_or_default().to_vec()
                    } else {
                        Vec::new()
                    };
                    let rest = given.get(first.len()..).unwrap_or_default();
                    atoms.extend(first);
                    atoms.extend(defaults.split(' ').enumerate().map(|(n, usual)| {
                        rest.get(n).cloned().unwrap_or_else(|| usual.to_owned())
                    }));
                }
                None => atoms.extend(given),
            }
            let printed = pd::print(&atoms, columns.filter(|_| defaults.is_none()), &style);
            let facts = pd::facts(kind_word(kind), &printed, font, None);
            (Chunk::owned(printed), Chunk::EMPTY, None, facts)
        };
        facts.varname = new.varname.as_deref().map(Into::into);
        let face = Face {
            key,
            before,
            after,
            facts,
        };
        self.insert(
            id,
            Piece::Box {
                slot,
                face: Arc::new(face),
                inner,
            },
            None,
        )?;
        Ok(slot)
    }

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
        Ok(Outcome::Removed {
            key,
            label,
            text,
            maxclass,
            cords: cords.len(),
        })
    }

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
        Ok(Outcome::TextSet {
            old_text,
            kept,
            dropped,
        })
    }

    /// Changes the box; gives its new ports when they may differ from the old ones.
    fn set_text_max(
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
        let (old_rect, old_maxclass, old_text) = (
            object.rect(),
            object.maxclass().to_owned(),
            object.text().to_owned(),
        );
        let size_of_font = object
            .face
            .facts
            .font_size
            .or(object.view.font_size())
            .unwrap_or(12.0);
        if content {
            shape.set(&style, "text", &Json::text(text));
            self.finish_shape(id, slot, shape)?;
            return Ok(None);
        }
        let text = text.trim();
        let class = atoms::tokens(text)
            .first()
            .copied()
            .unwrap_or_default()
            .to_owned();
        let same_class = class == old_class || resolves_alike(&class, &old_class);
        let inner = self.canvas(id)?.inner(slot).filter(|_| same_class).cloned();
        let had_inner = self.canvas(id)?.inner(slot).is_some();
        let plan = self.plan(
            id,
            &class,
            text,
            None,
            inner.as_ref(),
            allow_unknown || same_class,
        )?;
        let mut ports = plan.ports.clone();
        let object = self.object(id, slot)?;
        if !ports.exact && same_class {
            // Nothing better is known than what the file states for this class.
            ports = object.ports();
            if ports.inlets.is_none() || plan.ports.inlets.is_none() {
                self.warn(WarningCode::UnverifiedPorts, format!("the inlets and outlets of {class:?} could not be checked; those in the file were kept"), Some(&label));
            }
        } else if plan.unknown {
            self.warn(
                WarningCode::UnknownClass,
                format!("nothing knows the class {class:?}"),
                Some(&label),
            );
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
            // Never a guessed count in a file: Max finds them on load.
            ["numinlets", "numoutlets", "outlettype"]
                .into_iter()
                .for_each(|key| shape.remove(key));
        }
        if !same_class {
            let foreign: Vec<String> = shape
                .keys()
                .filter(|key| is_foreign(key, &old_class, &class))
                .map(str::to_owned)
                .collect();
            foreign.iter().for_each(|key| shape.remove(key));
        }
        let automatic = automatic_width(&old_maxclass, &old_text, size_of_font, old_rect);
        if automatic {
            let (w, h) = if plan.maxclass == "newobj" {
                (
                    font::object_width(text, size_of_font),
                    if old_maxclass == "newobj" {
                        old_rect.h
                    } else {
                        22.0
                    },
                )
            } else {
                plan.size
            };
            shape.set(
                &style,
                "patching_rect",
                &Json::floats(&[old_rect.x, old_rect.y, w, h]),
            );
        }
        if had_inner && inner.is_none() {
            shape.remove("patcher");
            self.warn(
                WarningCode::DroppedCords,
                "the embedded patcher of the old object is gone; undo brings it back".to_owned(),
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

    fn set_text_pd(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        text: &str,
        allow_unknown: bool,
    ) -> Result<Option<Ports>, EditError> {
        let object = self.object(id, slot)?;
        let native = object.native_class().unwrap_or("obj");
        let (rect, columns, old_class) = (
            object.rect(),
            object.face.facts.columns,
            object.class().to_owned(),
        );
        let style = self.style();
        let mut atoms = vec![
            "#X".to_owned(),
            native.to_owned(),
            pd::coordinate(rect.x),
            pd::coordinate(rect.y),
        ];
        match native {
            "msg" | "text" => {}
            "obj" => {
                let table = objects::table(Format::Pd);
                let class = atoms::tokens(text).first().copied().unwrap_or_default();
                if matches!(class, "pd") {
                    return Err(EditError::Unsupported {
                        what: "turning a box into a subpatch",
                        why: "add a `pd` box, or encapsulate objects",
                    });
                }
                let known = table.class_of(text).is_some()
                    || self.document.abstraction(class).is_some()
                    || class == old_class;
                if !known && !allow_unknown {
                    return Err(EditError::UnknownClass {
                        class: class.to_owned(),
                        nearest: table.nearest(class),
                    });
                }
            }
            "restore" => {
                if !text.trim().starts_with("pd") {
                    return Err(EditError::Unsupported {
                        what: "turning a subpatch into another object",
                        why: "its inside would be lost; remove it and add a new box",
                    });
                }
            }
            _ => {
                return Err(EditError::Unsupported {
                    what: "text",
                    why: "number and symbol boxes have none",
                });
            }
        }
        atoms.extend(pd::spell(text));
        let object = self.object(id, slot)?;
        let in_after = native == "restore";
        let chunk = if in_after {
            &object.face.after
        } else {
            &object.face.before
        };
        let (_, attached) = pd::own_statement(chunk.bytes(&self.document.source));
        let mut printed = pd::print(&atoms, columns.filter(|_| native != "restore"), &style);
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
                format!("the inlets and outlets of {text:?} are not known"),
                Some(&label),
            );
        }
        Ok(ports.exact.then_some(ports))
    }

    fn drop_lost_cords(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        ports: &Ports,
    ) -> Result<(usize, Vec<DroppedCord>), EditError> {
        let (mut kept, mut dropped) = (0, Vec::new());
        for cord_slot in self.canvas(id)?.cords_at(slot) {
            let view = self.view(id)?;
            let cord = self
                .canvas(id)?
                .cord(cord_slot)
                .ok_or(EditError::Stale)?
                .clone();
            let label = |end: &crate::canvas::End| {
                end.slot
                    .and_then(|slot| view.get(BoxId(slot)))
                    .map_or_else(|| end.name.to_string(), |object| object.label().to_owned())
            };
            let lost_out = cord.from.slot == Some(slot)
                && ports.outlets.is_some_and(|count| cord.from.port >= count);
            let lost_in = cord.to.slot == Some(slot)
                && ports.inlets.is_some_and(|count| cord.to.port >= count);
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
                reason: format!(
                    "the new object has {} {side}s, there is no {side} {port}",
                    count.unwrap_or(0)
                ),
            });
            self.take_out(id, cord_slot, false)?;
        }
        if !dropped.is_empty() {
            let label = self.object(id, slot)?.label().to_owned();
            self.warn(
                WarningCode::DroppedCords,
                format!(
                    "{} cords were removed because their ports are gone",
                    dropped.len()
                ),
                Some(&label),
            );
        }
        Ok((kept, dropped))
    }

    /// Puts a changed shape back as the face of its box.
    pub(super) fn finish_shape(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        shape: Shape,
    ) -> Result<(), EditError> {
        let old = self.canvas(id)?.face(slot).ok_or(EditError::Stale)?.clone();
        let mut facts = shape.facts();
        if facts.rect.w <= 0.0 || facts.rect.h <= 0.0 {
            (facts.rect.w, facts.rect.h) =
                objects::default_size(Format::Maxpat, &facts.maxclass, &facts.text);
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

    /// Puts a changed Pd statement back as the face of its box.
    fn finish_statement(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        text: Vec<u8>,
    ) -> Result<(), EditError> {
        let canvas = self.canvas(id)?;
        let old = canvas.face(slot).ok_or(EditError::Stale)?.clone();
        let inner = canvas.inner(slot).map(|inner| inner.facts.clone());
        let font = canvas.facts.font_size;
        let kind = old.facts.native.unwrap_or("obj");
        let facts = Facts {
            varname: old.facts.varname.clone(),
            ..pd::facts(kind, &text, font, inner.as_ref())
        };
        let (before, after) = if inner.is_some() {
            (Chunk::EMPTY, Chunk::owned(text))
        } else {
            (Chunk::owned(text), Chunk::EMPTY)
        };
        self.swap_face(
            id,
            slot,
            Face {
                key: old.key.clone(),
                before,
                after,
                facts,
            },
        )
    }

    fn change_keys(
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

    pub(super) fn set_attribute(
        &mut self,
        id: &CanvasId,
        target: &Target,
        name: &str,
        value: &Value,
        allow_unknown: bool,
    ) -> Result<Outcome, EditError> {
        let slot = self.resolve(id, target)?;
        if let Some((_, instead)) = RESERVED.iter().find(|(reserved, _)| *reserved == name) {
            return Err(EditError::ReservedAttribute {
                name: name.to_owned(),
                instead,
            });
        }
        if name.is_empty()
            || !atoms::printable(name, false)
            || name.contains(char::is_whitespace)
            || name.starts_with('@')
        {
            return Err(bad(
                "attribute",
                "a name without spaces, control characters or a leading @",
            ));
        }
        let value_atoms = value.atoms();
        if value_atoms.is_empty() {
            return Err(bad(name, "a value is needed; an empty list is none"));
        }
        for atom in value_atoms {
            match atom {
                Atom::Word(word) if !atoms::printable(word, true) => {
                    return Err(bad(name, "control characters are not allowed"));
                }
                Atom::Float(number) if !number.is_finite() => {
                    return Err(bad(name, "a number must be finite"));
                }
                Atom::Word(_) | Atom::Float(_) | Atom::Int(_) => {}
            }
        }
        let old = self.object(id, slot)?.attribute(name);
        let stored_in = match name {
            "varname" => {
                let given = match value_atoms {
                    [Atom::Word(word)] => word.clone(),
                    _ => return Err(bad("varname", "one word is needed")),
                };
                self.set_varname(id, &Target::Box(BoxId(slot)), Some(&given))?;
                StoredIn::Box
            }
            "patching_rect" => {
                let rect = four_numbers(name, value_atoms)?;
                self.set_rect(
                    id,
                    &Target::Box(BoxId(slot)),
                    Point::new(rect.x, rect.y),
                    Some((rect.w, rect.h)),
                )?;
                StoredIn::Box
            }
            "hidden" => {
                let on = value_atoms
                    .first()
                    .and_then(Atom::number)
                    .ok_or_else(|| bad("hidden", "0 or 1 is needed"))?;
                self.set_hidden(id, &Target::Box(BoxId(slot)), on != 0.0)?;
                StoredIn::Box
            }
            _ if self.document.format.is_pd() => {
                self.set_pd_field(id, slot, name, value_atoms)?;
                StoredIn::Text
            }
            _ => self.set_max_attribute(id, slot, name, value, allow_unknown)?,
        };
        let value = self.object(id, slot)?.attribute(name);
        Ok(Outcome::AttributeSet {
            old,
            value,
            stored_in,
        })
    }

    fn set_max_attribute(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        name: &str,
        value: &Value,
        allow_unknown: bool,
    ) -> Result<StoredIn, EditError> {
        if name == "presentation_rect" {
            four_numbers(name, value.atoms())?;
        }
        let object = self.object(id, slot)?;
        let class_name = object.class().to_owned();
        let class = objects::table(Format::Maxpat).class(&class_name);
        let own = class.is_some_and(|class| {
            class
                .attributes
                .iter()
                .any(|(attribute, _)| *attribute == name)
        });
        let (_, _, in_text) = atoms::split(object.text());
        let is_object = object.maxclass() == "newobj";
        let in_text = is_object && in_text.iter().any(|(attribute, _)| *attribute == name);
        let present = object.keys().iter().any(|key| key == name);
        let common = BOX_ATTRIBUTES.contains(&name);
        if !common && !own && !present && !in_text && !allow_unknown {
            let own_names = class
                .map(|class| {
                    class
                        .attributes
                        .iter()
                        .map(|(name, _)| *name)
                        .collect::<Vec<_>>()
                })
                .unwrap_or_default();
            let nearest = objects::nearest(
                name,
                own_names.into_iter().chain(BOX_ATTRIBUTES.iter().copied()),
            );
            return Err(EditError::UnknownAttribute {
                class: class_name,
                name: name.to_owned(),
                nearest,
            });
        }
        if is_object && (in_text || !(common || present)) {
            let words: Vec<String> = value.atoms().iter().map(Atom::in_text).collect();
            let text = with_text_attribute(object.text(), name, &words);
            check_text(&text, false)?;
            let (old_rect, old_text) = (object.rect(), object.text().to_owned());
            let size = object
                .face
                .facts
                .font_size
                .or(object.view.font_size())
                .unwrap_or(12.0);
            let widen = automatic_width("newobj", &old_text, size, old_rect);
            self.change_keys(id, slot, |shape, style| {
                shape.set(style, "text", &Json::text(&text));
                if widen {
                    shape.set(
                        style,
                        "patching_rect",
                        &Json::floats(&[
                            old_rect.x,
                            old_rect.y,
                            font::object_width(&text, size),
                            old_rect.h,
                        ]),
                    );
                }
            })?;
            return Ok(StoredIn::Text);
        }
        let kind = class
            .and_then(|class| {
                class
                    .attributes
                    .iter()
                    .find(|(attribute, _)| *attribute == name)
            })
            .map(|(_, kind)| *kind);
        let float_kind = kind.is_some_and(|kind| kind.starts_with("float"))
            || name.ends_with("rect")
            || name.ends_with("color")
            || name == "fontsize";
        let spell = |atom: &Atom| match atom {
            Atom::Int(n) if float_kind => Json::float(*n as f64),
            Atom::Int(n) => Json::int(*n),
            Atom::Float(n) => Json::float(*n),
            Atom::Word(word) => Json::text(word),
        };
        let printed = match value {
            Value::One(atom) => spell(atom),
            Value::Many(atoms) => Json::Array(atoms.iter().map(spell).collect()),
            Value::Json(_) => return Err(bad(name, "nested values cannot be set")),
        };
        self.change_keys(id, slot, |shape, style| shape.set(style, name, &printed))?;
        Ok(StoredIn::Box)
    }

    fn set_pd_field(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        name: &str,
        value: &[Atom],
    ) -> Result<(), EditError> {
        let object = self.object(id, slot)?;
        let native = object.native_class().unwrap_or("obj");
        let class = if native == "obj" {
            objects::table(Format::Pd)
                .class_of(object.text())
                .map_or("obj", |(class, _)| class.name)
        } else {
            native
        };
        let [atom] = value else {
            return Err(bad(name, "one value is needed"));
        };
        let style = self.style();
        let statement = object.face.before.bytes(&self.document.source);
        let (own, attached) = pd::own_statement(statement);
        let Some(at) = pd::gui_field(class, name) else {
            if name == "width"
                && object.view.canvas.inner(slot).is_none()
                && !matches!(native, "array" | "scalar")
            {
                let columns = atom
                    .number()
                    .filter(|n| *n >= 1.0 && *n <= 1000.0)
                    .ok_or_else(|| {
                        bad("width", "a number of characters from 1 to 1000 is needed")
                    })?;
                let atoms: Vec<String> = pd::words(own)
                    .take_while(|word| *word != b",")
                    .map(|word| String::from_utf8_lossy(word).into_owned())
                    .collect();
                let mut printed = pd::print(&atoms, Some(columns as u32), &style);
                printed.extend_from_slice(attached);
                return self.finish_statement(id, slot, printed);
            }
            let fields: Vec<&str> = pd::gui_fields(class)
                .map(Iterator::collect)
                .unwrap_or_else(|| vec!["width"]);
            let nearest = objects::nearest(name, fields.into_iter());
            return Err(EditError::UnknownAttribute {
                class: class.to_owned(),
                name: name.to_owned(),
                nearest,
            });
        };
        let word = match atom {
            Atom::Int(_) | Atom::Float(_) => pd_word(atom, false),
            Atom::Word(word) if word.is_empty() => "empty".to_owned(),
            // A label is one atom: its spaces are escaped.
            Atom::Word(word) => pd::spell(&word.replace(' ', "\\ ")).concat(),
        };
        let mut atoms: Vec<String> = pd::words(own)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let first = if native == "obj" { 5 } else { 4 };
        let defaults: Vec<&str> = pd::gui_default(class)
            .unwrap_or_default()
            .split(' ')
            .collect();
        while atoms.len() <= first + at {
            let usual = defaults.get(atoms.len() - first).copied().unwrap_or("0");
            atoms.push(usual.to_owned());
        }
        if let Some(place) = atoms.get_mut(first + at) {
            *place = word;
        }
        let mut printed = pd::print(&atoms, None, &style);
        printed.extend_from_slice(attached);
        self.finish_statement(id, slot, printed)
    }

    fn check_name(&self, id: &CanvasId, name: &str, owner: Option<Slot>) -> Result<(), EditError> {
        if name.is_empty()
            || name.chars().count() > 256
            || !atoms::printable(name, false)
            || name.contains('/')
        {
            return Err(bad(
                "varname",
                "1 to 256 characters, without control characters and `/`",
            ));
        }
        let canvas = self.canvas(id)?;
        let holder = canvas
            .by_varname(name)
            .iter()
            .find(|slot| Some(**slot) != owner);
        match holder.and_then(|slot| canvas.face(*slot)) {
            Some(face) => Err(EditError::NameTaken {
                name: name.to_owned(),
                key: face.key.to_string(),
            }),
            None => Ok(()),
        }
    }

    fn put_name(&mut self, id: &CanvasId, slot: Slot, name: Option<&str>) -> Result<(), EditError> {
        if self.object(id, slot)?.varname() == name {
            return Ok(());
        }
        if self.document.format.is_pd() {
            // Pd files have no names; they live beside the file (`names`).
            let mut face = self
                .canvas(id)?
                .face(slot)
                .ok_or(EditError::Stale)?
                .as_ref()
                .clone();
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

    pub(super) fn assign_varnames(
        &mut self,
        id: &CanvasId,
        list: &[(usize, String)],
    ) -> Result<Outcome, EditError> {
        let canvas = self.canvas(id)?;
        let slots: Vec<Slot> = canvas.box_slots().collect();
        let mut chosen: HashMap<usize, Slot> = HashMap::new();
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (index, name) in list {
            let slot = *slots.get(*index).ok_or(EditError::IndexOutOfRange {
                index: *index,
                last: slots.len().saturating_sub(1),
            })?;
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
            // A name that its holder gives up in the same call is free.
            let holder = canvas
                .by_varname(name)
                .iter()
                .find(|slot| !renamed.contains(slot));
            if let Some(face) = holder.and_then(|slot| canvas.face(*slot)) {
                return Err(EditError::NameTaken {
                    name: name.clone(),
                    key: face.key.to_string(),
                });
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

    pub(super) fn set_hidden(
        &mut self,
        id: &CanvasId,
        target: &Target,
        hidden: bool,
    ) -> Result<Outcome, EditError> {
        let slot = self.resolve(id, target)?;
        if self.document.format.is_pd() {
            return Err(EditError::Unsupported {
                what: "hiding a box",
                why: "Pd has no hidden boxes",
            });
        }
        let object = self.object(id, slot)?;
        if object.hidden() != hidden {
            self.change_keys(id, slot, |shape, style| {
                if hidden {
                    shape.set(style, "hidden", &Json::int(1))
                } else {
                    shape.remove("hidden")
                }
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
            return Err(bad("size", "width and height must be above 0"));
        }
        let rect = Rect::new(position.x, position.y, w, h);
        if rect == old {
            return Ok(Outcome::Moved(old));
        }
        if self.document.format.is_pd() {
            self.set_rect_pd(
                id,
                slot,
                position,
                size.filter(|size| *size != (old.w, old.h)),
            )?;
        } else {
            self.change_keys(id, slot, |shape, style| {
                shape.set(style, "patching_rect", &Json::floats(&rect.array()))
            })?;
        }
        Ok(Outcome::Moved(self.object(id, slot)?.rect()))
    }

    fn set_rect_pd(
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
                why: "its canvas places it",
            });
        }
        let chunk = if object.view.canvas.inner(slot).is_some() {
            &object.face.after
        } else {
            &object.face.before
        };
        let text = chunk.bytes(&self.document.source);
        let moved = pd::replace_atom(text, 3, &pd::coordinate(position.y))
            .and_then(|text| pd::replace_atom(&text, 2, &pd::coordinate(position.x)));
        let rounded = position.x.fract() != 0.0 || position.y.fract() != 0.0;
        let (label, font) = (object.label().to_owned(), object.view.font_size());
        let class = if native == "obj" {
            objects::table(Format::Pd)
                .class_of(object.text())
                .map_or("obj", |(class, _)| class.name)
        } else {
            native
        };
        let sized_by = match class {
            "hsl" | "vsl" | "vu" | "cnv" => ["width", "height"].as_slice(),
            "bng" | "tgl" => ["size"].as_slice(),
            _ => [].as_slice(),
        };
        let has_inner = object.view.canvas.inner(slot).is_some();
        self.finish_statement(id, slot, moved.ok_or(EditError::Stale)?)?;
        if rounded {
            self.warn(
                WarningCode::Coerced,
                "Pd places boxes at whole pixels".to_owned(),
                Some(&label),
            );
        }
        let Some((w, h)) = size else { return Ok(()) };
        if has_inner {
            self.warn(
                WarningCode::Coerced,
                "a subpatch has the size of its text; only the place was changed".to_owned(),
                Some(&label),
            );
        } else if sized_by.is_empty() {
            let columns = ((w - 4.0) / pd::cell(font).0).round().max(1.0);
            self.set_pd_field(id, slot, "width", &[Atom::Int(columns as i64)])?;
            self.warn(
                WarningCode::Coerced,
                "Pd gives boxes a width in characters and a height of its own".to_owned(),
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

fn bad(what: &str, why: &'static str) -> EditError {
    EditError::BadValue {
        what: what.to_owned(),
        why,
    }
}

fn check_point(what: &str, point: Point) -> Result<(), EditError> {
    let fine = |v: f64| v.is_finite() && v.abs() <= MAX_COORDINATE;
    if fine(point.x) && fine(point.y) {
        Ok(())
    } else {
        Err(bad(
            what,
            "two numbers between -1000000 and 1000000 are needed",
        ))
    }
}

fn check_text(text: &str, content: bool) -> Result<(), EditError> {
    if text.len() > MAX_TEXT {
        return Err(bad("text", "at most 32767 bytes"));
    }
    if !atoms::printable(text, content) {
        return Err(bad("text", "control characters are not allowed"));
    }
    Ok(())
}

fn four_numbers(what: &str, atoms: &[Atom]) -> Result<Rect, EditError> {
    let numbers: Vec<f64> = atoms.iter().filter_map(Atom::number).collect();
    match numbers.as_slice() {
        [x, y, w, h] if atoms.len() == 4 && numbers.iter().all(|n| n.abs() <= MAX_COORDINATE) => {
            Ok(Rect::new(*x, *y, *w, *h))
        }
        _ => Err(bad(what, "four numbers are needed: x, y, width, height")),
    }
}

fn port_members(ports: &Ports) -> Vec<(String, Json)> {
    let (true, Some(inlets), Some(outlets)) = (ports.exact, ports.inlets, ports.outlets) else {
        return Vec::new();
    };
    let mut members = vec![
        ("numinlets".to_owned(), Json::int(i64::from(inlets))),
        ("numoutlets".to_owned(), Json::int(i64::from(outlets))),
    ];
    if let Some(types) = ports.outlet_types.as_ref().filter(|_| outlets > 0) {
        members.push((
            "outlettype".to_owned(),
            Json::Array(types.iter().map(|kind| Json::text(kind)).collect()),
        ));
    }
    members
}

/// Whether two spellings name the same class.
fn resolves_alike(a: &str, b: &str) -> bool {
    let table = objects::table(Format::Maxpat);
    match (table.class(a), table.class(b)) {
        (Some(a), Some(b)) => a.name == b.name,
        _ => matches!((a, b), ("p", "patcher") | ("patcher", "p")),
    }
}

/// Keys of a box that belong to its old class and mean nothing to the new one.
fn is_foreign(key: &str, old_class: &str, new_class: &str) -> bool {
    if matches!(
        key,
        "saved_object_attributes" | "saved_attribute_attributes" | "data"
    ) || key.starts_with("parameter_")
    {
        return true;
    }
    let has = |class: &str| {
        objects::table(Format::Maxpat)
            .class(class)
            .is_some_and(|class| {
                class.ui.is_some() && class.attributes.iter().any(|(name, _)| *name == key)
            })
    };
    has(old_class) && !has(new_class) && !BOX_ATTRIBUTES.contains(&key)
}

/// Whether a box is as wide as its text makes it, so that a new text may change its width.
fn automatic_width(maxclass: &str, text: &str, font_size: f64, rect: Rect) -> bool {
    if maxclass == "newobj" {
        return (font::object_width(text, font_size) - rect.w).abs() < 0.75;
    }
    objects::table(Format::Maxpat)
        .class(maxclass)
        .and_then(|class| class.size)
        .is_some_and(|(w, h)| (w, h) == (rect.w, rect.h))
}

/// The text of an object with an attribute set: in place when it is there, else appended.
fn with_text_attribute(text: &str, name: &str, words: &[String]) -> String {
    let tokens = atoms::tokens(text);
    let is_attribute = |token: &str| token.len() > 1 && token.starts_with('@');
    let wanted = format!("@{name}");
    let mut out: Vec<String> = Vec::new();
    let mut skipping = false;
    let mut found = false;
    for token in tokens {
        if is_attribute(token) {
            skipping = false;
            if token == wanted {
                // A repeated attribute collapses into one: the last one counted.
                if !found {
                    out.push(wanted.clone());
                    out.extend(words.iter().cloned());
                }
                (found, skipping) = (true, true);
                continue;
            }
        }
        if !skipping {
            out.push(token.to_owned());
        }
    }
    if !found {
        return format!("{text} {wanted} {}", words.join(" "));
    }
    out.join(" ")
}

fn pd_word(atom: &Atom, content: bool) -> String {
    match atom {
        Atom::Int(n) => n.to_string(),
        Atom::Float(n) => format!("{n}"),
        Atom::Word(word) if content => word.clone(),
        // One atom stays one atom: what would end it is escaped.
        Atom::Word(word) => word
            .replace('\\', "")
            .replace(' ', "\\ ")
            .replace(',', "\\,")
            .replace(';', "\\;"),
    }
}

fn kind_word(kind: &str) -> &'static str {
    ["msg", "text", "floatatom", "symbolatom", "listbox"]
        .into_iter()
        .find(|found| *found == kind)
        .unwrap_or("obj")
}
