//! Adds a box. The class and the arguments determine the ports and the size of the box. The box is
//! written in the format of the file.

use super::boxes::{CONTENT, MAX_COORDINATE, bad, check_point, check_text, pd_word, port_members};
use super::transaction::Transaction;
use super::{EditError, NewBox, Outcome, Target, WarningCode};
use crate::atoms::{self, Atom};
use crate::canvas::{Canvas, Face, Slot};
use crate::change::Piece;
use crate::chunk::Chunk;
use crate::document::{BoxId, CanvasId, Format, Limits};
use crate::font;
use crate::geometry::Rect;
use crate::max::Shape;
use crate::objects;
use crate::pd;
use crate::ports::{self, Ports};
use crate::style::{Json, Style};
use std::sync::Arc;

/// The facts of a box to be added.
pub(super) struct Plan {
    pub(super) maxclass: String,
    /// Text of the box; empty for most user interface objects.
    pub(super) text: String,
    pub(super) ports: Ports,
    pub(super) embedded: bool,
    pub(super) size: (f64, f64),
    pub(super) unknown: bool,
}

/// Maps the Max name of a common box to the kind of Pd statement and its first word, so that one
/// request works in both formats.
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
            return Err(bad("size", "width and height must be above 0 and at most 1000000"));
        }
        if let Some(name) = &new.varname {
            self.check_name(id, name, None)?;
        }
        let slot = if self.document.format.is_pd() { self.add_pd(id, new)? } else { self.add_max(id, new)? };
        self.remember_handle(new, slot);
        for (name, value) in &new.attributes {
            self.set_attribute(id, &Target::Box(BoxId(slot)), name, value, new.allow_unknown)?;
        }
        let canvas = self.canvas(id)?;
        // Usually the new box is the last one, so its index is known without a search.
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

    /// Derives the facts from the class and its arguments; refuses unknown classes.
    pub(super) fn plan(
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
                return Err(EditError::UnknownClass { class: class.to_owned(), nearest: objects::nearest_gen(class) });
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
            return Err(EditError::UnknownClass { class: class.to_owned(), nearest: table.nearest(class) });
        }
        let ui = entry.and_then(|entry| entry.ui);
        let maxclass = ui.unwrap_or("newobj").to_owned();
        let text = if ui.is_none() || CONTENT.contains(&maxclass.as_str()) { text.to_owned() } else { String::new() };
        let embedded = matches!(class, "patcher" | "p") || (class == "bpatcher" && file.is_none());
        let ports = match (inner, embedded) {
            (Some(_), _) | (None, false) => ports::expected(&view, &maxclass, None, &text, inner, file),
            // A new, empty patcher has no inlets or outlets.
            (None, true) => Ports::exact(0, 0, Some(Vec::new()), ports::Basis::Structure),
        };
        let size = objects::default_size(Format::Maxpat, &maxclass, &text);
        Ok(Plan { maxclass, text, ports, embedded, size, unknown: !known })
    }

    pub(super) fn add_max(&mut self, id: &CanvasId, new: &NewBox) -> Result<Slot, EditError> {
        let class = atoms::tokens(&new.class).first().copied().unwrap_or_default().to_owned();
        if class.is_empty() {
            return Err(bad("obj_type", "must name a class"));
        }
        let content = CONTENT.contains(&class.as_str());
        let mut text = if content {
            new.class.trim().strip_prefix(class.as_str()).unwrap_or_default().trim().to_owned()
        } else {
            new.class.trim().to_owned()
        };
        for argument in &new.arguments {
            let word = if content { argument.in_content() } else { argument.in_text() };
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word);
        }
        check_text(&text, content)?;
        let file = (class == "bpatcher").then(|| new.attributes.iter().find(|(name, _)| name == "name")).flatten();
        let file = file.and_then(|(_, value)| value.atoms().first().map(Atom::in_content));
        let plan = self.plan(id, &class, &text, file.as_deref(), None, new.allow_unknown)?;
        if plan.maxclass != "newobj" && !content && (!new.arguments.is_empty() || atoms::tokens(&new.class).len() > 1) {
            return Err(bad("arguments", "a user interface object accepts attributes, but no arguments"));
        }
        let label = new.varname.as_deref();
        if plan.unknown {
            self.warn(
                WarningCode::UnknownClass,
                format!(
                    "the class {class:?} is unknown; Max determines its inlets and outlets when it loads the patch"
                ),
                label,
            );
        }
        let (w, h) = new.size.unwrap_or(plan.size);
        let rect = Rect::new(new.position.x, new.position.y, w, h);
        let canvas = self.canvas(id)?;
        let key: Arc<str> = format!("obj-{}", canvas.highest + 1).into();
        let mut members =
            vec![("id".to_owned(), Json::text(&key)), ("maxclass".to_owned(), Json::text(&plan.maxclass))];
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
        style.print(&Json::Object(vec![("box".to_owned(), Json::Object(members))]), level, &mut printed);
        let mut shape = Shape::open(printed.as_bytes(), None, "box", id.depth()).ok_or(EditError::Stale)?;
        let inner = if plan.embedded {
            shape.dig(&style);
            Some(Arc::new(self.empty_patcher(id, &class)?))
        } else {
            None
        };
        let facts = shape.facts();
        let (before, after) = shape.close();
        let face = Face { key, before: Chunk::owned(before), after: after.map_or(Chunk::EMPTY, Chunk::owned), facts };
        // Insert the box in front of the boxes that it covers. If the box covers no other box,
        // append it so that no index changes.
        let in_front_of = self.first_covered(id, &rect)?;
        if in_front_of.is_some() {
            let key = face.key.clone();
            self.warn(
                WarningCode::Overlap,
                "the new box overlaps other boxes and was put in front of them".to_owned(),
                Some(label.unwrap_or(&key)),
            );
        }
        let slot = self.canvas(id)?.next_box_slot();
        self.insert(id, Piece::Box { slot, face: Arc::new(face), inner }, in_front_of)?;
        Ok(slot)
    }

    /// The frontmost box that a rectangle covers.
    pub(super) fn first_covered(&mut self, id: &CanvasId, rect: &Rect) -> Result<Option<Slot>, EditError> {
        let canvas = crate::change::canvas_mut(&mut self.document.root, id).ok_or(EditError::CanvasGone)?;
        let near = canvas.grid().near(rect);
        let covered: Vec<Slot> = near
            .into_iter()
            .filter(|slot| {
                canvas.face(*slot).is_some_and(|face| face.facts.rect.overlaps(rect) && !face.facts.background)
            })
            .collect();
        Ok(match covered.as_slice() {
            [] => None,
            [only] => Some(*only),
            several => canvas.box_slots().find(|slot| several.contains(slot)),
        })
    }

    pub(super) fn empty_patcher(&self, id: &CanvasId, class: &str) -> Result<Canvas, EditError> {
        let namespace = if crate::document::GEN_CLASSES.contains(&class) { "dsp.gen" } else { "box" };
        let version = self.document.root.facts.app_version.as_deref().unwrap_or("9.0.0");
        let mut numbers = version.split('.').map(|part| part.parse::<i64>().unwrap_or(0));
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
            ("rect".to_owned(), Json::floats(&[100.0, 100.0, 640.0, 480.0])),
            ("gridsize".to_owned(), Json::floats(&[15.0, 15.0])),
            ("boxes".to_owned(), Json::Array(Vec::new())),
            ("lines".to_owned(), Json::Array(Vec::new())),
        ];
        let mut text = String::new();
        self.document.style.print(&Json::Object(members), Style::item_level(id.depth()) + 2, &mut text);
        crate::max::read_patcher(text.as_bytes(), &Limits::default()).ok_or(EditError::Stale)
    }

    pub(super) fn add_pd(&mut self, id: &CanvasId, new: &NewBox) -> Result<Slot, EditError> {
        let words = atoms::tokens(&new.class);
        let class = words.first().copied().unwrap_or_default().to_owned();
        if class.is_empty() {
            return Err(bad("obj_type", "must name a class"));
        }
        let (kind, renamed) = pd_kind(&class);
        let content = matches!(kind, "msg" | "text");
        let mut text = match (kind, renamed) {
            ("obj", Some(renamed)) => renamed.to_owned(),
            ("obj", None) => new.class.trim().to_owned(),
            _ => new.class.trim().strip_prefix(class.as_str()).unwrap_or_default().trim().to_owned(),
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
            let known = table.class_of(&text).is_some() || self.document.abstraction(&class).is_some();
            if !known && !new.allow_unknown {
                return Err(EditError::UnknownClass { class, nearest: table.nearest(&new.class) });
            }
            if !known {
                self.warn(WarningCode::UnknownClass, format!("the class {class:?} is unknown"), new.varname.as_deref());
            }
        }
        let style = self.style();
        let place = [pd::coordinate(new.position.x), pd::coordinate(new.position.y)];
        let font = self.canvas(id)?.facts.font_size;
        let slot = self.canvas(id)?.next_box_slot();
        let key: Arc<str> = format!("~{}", self.canvas(id)?.highest + 1).into();
        let columns = new
            .size
            .filter(|_| kind != "obj" || pd::gui_default(&class).is_none())
            .map(|(w, _)| ((w - 4.0) / pd::cell(font).0).round().max(1.0) as u32);
        let (before, after, inner, mut facts) = if is_sub {
            let name = atoms::tokens(&text).get(1).copied().unwrap_or_default().to_owned();
            let mut header: Vec<String> = ["#N", "canvas", "100", "100", "450", "300"].map(str::to_owned).to_vec();
            let shown = pd::spell(&name);
            header.push(shown.first().cloned().unwrap_or_else(|| "(subpatch)".to_owned()));
            header.push("0".to_owned());
            let mut restore: Vec<String> = vec!["#X".to_owned(), "restore".to_owned()];
            restore.extend(place);
            restore.push("pd".to_owned());
            restore.extend(shown);
            let header = pd::print(&header, None, &style);
            let restore = pd::print(&restore, None, &style);
            let inner = pd::empty_canvas(header, font);
            let facts = pd::facts("restore", &restore, font, Some(&inner.facts));
            (Chunk::EMPTY, Chunk::owned(restore), Some(Arc::new(inner)), facts)
        } else {
            let mut atoms = vec!["#X".to_owned(), kind.to_owned()];
            atoms.extend(place);
            let (own, is_gui) = box_atoms(kind, &text);
            atoms.extend(own);
            let printed = pd::print(&atoms, columns.filter(|_| !is_gui), &style);
            let facts = pd::facts(kind_word(kind), &printed, font, None);
            (Chunk::owned(printed), Chunk::EMPTY, None, facts)
        };
        facts.varname = new.varname.as_deref().map(Into::into);
        let face = Face { key, before, after, facts };
        self.insert(id, Piece::Box { slot, face: Arc::new(face), inner }, None)?;
        Ok(slot)
    }
}

/// The atoms of a box with this text, and whether the box is a user interface object. For such
/// objects Pd writes every field; omitted fields get their default values.
pub(super) fn box_atoms(kind: &str, text: &str) -> (Vec<String>, bool) {
    let given = pd::spell(text);
    let gui = match kind {
        "obj" => objects::table(Format::Pd).class_of(text).map(|(class, _)| class.name),
        _ => Some(kind),
    };
    let Some(defaults) = gui.and_then(pd::gui_default) else { return (given, false) };
    let (first, rest) = given.split_at_checked(usize::from(kind == "obj")).unwrap_or_default();
    let fields = defaults.split(' ').enumerate();
    let fields = fields.map(|(n, usual)| rest.get(n).cloned().unwrap_or_else(|| usual.to_owned()));
    (first.iter().cloned().chain(fields).collect(), true)
}

pub(super) fn kind_word(kind: &str) -> &'static str {
    ["msg", "text", "floatatom", "symbolatom", "listbox"].into_iter().find(|found| *found == kind).unwrap_or("obj")
}
