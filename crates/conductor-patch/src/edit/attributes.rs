//! Sets attributes: keys of a Max box, words in the text of a box, fields of a Pd box.

use super::boxes::{MAX_COORDINATE, automatic_width, bad, check_text, pd_word};
use super::transaction::Transaction;
use super::{EditError, Outcome, StoredIn, Target};
use crate::atoms::{self, Atom, Value};
use crate::canvas::Slot;
use crate::document::{BoxId, CanvasId, Format};
use crate::font;
use crate::geometry::{Point, Rect};
use crate::objects::{self, BOX_ATTRIBUTES};
use crate::pd;
use crate::style::Json;

/// Keys that cannot be set as attributes, and the alternative for each.
const RESERVED: &[(&str, &str)] = &[
    ("id", "the id is assigned when the box is added and cannot be changed"),
    ("maxclass", "use replace_object_text"),
    ("numinlets", "use replace_object_text"),
    ("numoutlets", "use replace_object_text"),
    ("outlettype", "use replace_object_text"),
    ("patcher", "use encapsulate_objects, or edit inside the subpatcher"),
    ("text", "use replace_object_text"),
];

impl Transaction<'_> {
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
            return Err(EditError::ReservedAttribute { name: name.to_owned(), instead });
        }
        if name.is_empty()
            || !atoms::printable(name, false)
            || name.contains(char::is_whitespace)
            || name.starts_with('@')
        {
            return Err(bad("attribute", "must be a name without spaces, control characters or a leading @"));
        }
        let value_atoms = value.atoms();
        if value_atoms.is_empty() {
            return Err(bad(name, "must have a value; an empty list is not a value"));
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
                    _ => return Err(bad("varname", "must be one word")),
                };
                self.set_varname(id, &Target::Box(BoxId(slot)), Some(&given))?;
                StoredIn::Box
            }
            "patching_rect" => {
                let rect = four_numbers(name, value_atoms)?;
                self.set_rect(id, &Target::Box(BoxId(slot)), Point::new(rect.x, rect.y), Some((rect.w, rect.h)))?;
                StoredIn::Box
            }
            "hidden" => {
                let on = match value_atoms {
                    [atom] if atom.number() == Some(0.0) => false,
                    [atom] if atom.number() == Some(1.0) => true,
                    _ => return Err(bad("hidden", "must be 0 or 1")),
                };
                self.set_hidden(id, &Target::Box(BoxId(slot)), on)?;
                StoredIn::Box
            }
            _ if self.document.format.is_pd() => {
                self.set_pd_field(id, slot, name, value_atoms)?;
                StoredIn::Text
            }
            _ => self.set_max_attribute(id, slot, name, value, allow_unknown)?,
        };
        let value = self.object(id, slot)?.attribute(name);
        Ok(Outcome::AttributeSet { old, value, stored_in })
    }

    pub(super) fn set_max_attribute(
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
        let own = class.is_some_and(|class| class.attributes.iter().any(|(attribute, _)| *attribute == name));
        let (_, _, in_text) = atoms::split(object.text());
        let is_object = object.maxclass() == "newobj";
        let in_text = is_object && in_text.iter().any(|(attribute, _)| *attribute == name);
        let present = object.keys().iter().any(|key| key == name);
        let common = BOX_ATTRIBUTES.contains(&name);
        if !common && !own && !present && !in_text && !allow_unknown {
            let own_names = class
                .map(|class| class.attributes.iter().map(|(name, _)| *name).collect::<Vec<_>>())
                .unwrap_or_default();
            let nearest = objects::nearest(name, own_names.into_iter().chain(BOX_ATTRIBUTES.iter().copied()));
            return Err(EditError::UnknownAttribute { class: class_name, name: name.to_owned(), nearest });
        }
        if is_object && (in_text || !(common || present)) {
            let words: Vec<String> = value.atoms().iter().map(Atom::in_text).collect();
            let text = with_text_attribute(object.text(), name, &words);
            check_text(&text, false)?;
            let (old_rect, old_text) = (object.rect(), object.text().to_owned());
            let size = object.font_size().unwrap_or(12.0);
            let widen = automatic_width("newobj", &old_text, size, old_rect);
            self.change_keys(id, slot, |shape, style| {
                shape.set(style, "text", &Json::text(&text));
                if widen {
                    shape.set(
                        style,
                        "patching_rect",
                        &Json::floats(&[old_rect.x, old_rect.y, font::object_width(&text, size), old_rect.h]),
                    );
                }
            })?;
            return Ok(StoredIn::Text);
        }
        let kind = class
            .and_then(|class| class.attributes.iter().find(|(attribute, _)| *attribute == name))
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

    pub(super) fn set_pd_field(
        &mut self,
        id: &CanvasId,
        slot: Slot,
        name: &str,
        value: &[Atom],
    ) -> Result<(), EditError> {
        let object = self.object(id, slot)?;
        let native = object.native_class().unwrap_or("obj");
        let class = object.pd_class().unwrap_or("obj");
        let [atom] = value else {
            return Err(bad(name, "must be one value"));
        };
        let style = self.style();
        let statement = object.face.before.bytes(&self.document.source);
        let (own, attached) = pd::own_statement(statement);
        let Some(at) = pd::gui_field(class, name) else {
            if name == "width" && object.view.canvas.inner(slot).is_none() && !matches!(native, "array" | "scalar") {
                let columns = atom
                    .number()
                    .filter(|n| *n >= 1.0 && *n <= 1000.0)
                    .ok_or_else(|| bad("width", "must be a number of characters from 1 to 1000"))?;
                let atoms: Vec<String> = pd::words(own)
                    .take_while(|word| *word != b",")
                    .map(|word| String::from_utf8_lossy(word).into_owned())
                    .collect();
                let mut printed = pd::print(&atoms, Some(columns as u32), &style);
                printed.extend_from_slice(attached);
                return self.finish_statement(id, slot, printed);
            }
            let fields: Vec<&str> = pd::gui_fields(class).map(Iterator::collect).unwrap_or_else(|| vec!["width"]);
            let nearest = objects::nearest(name, fields.into_iter());
            return Err(EditError::UnknownAttribute { class: class.to_owned(), name: name.to_owned(), nearest });
        };
        let word = match atom {
            Atom::Int(_) | Atom::Float(_) => pd_word(atom, false),
            Atom::Word(word) if word.is_empty() => "empty".to_owned(),
            // A label is one atom, so its spaces are escaped.
            Atom::Word(word) => pd::spell(&word.replace(' ', "\\ ")).concat(),
        };
        let mut atoms: Vec<String> = pd::words(own).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let first = if native == "obj" { 5 } else { 4 };
        let defaults: Vec<&str> = pd::gui_default(class).unwrap_or_default().split(' ').collect();
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
}

pub(super) fn four_numbers(what: &str, atoms: &[Atom]) -> Result<Rect, EditError> {
    let numbers: Vec<f64> = atoms.iter().filter_map(Atom::number).collect();
    match numbers.as_slice() {
        [x, y, w, h] if atoms.len() == 4 && numbers.iter().all(|n| n.abs() <= MAX_COORDINATE) => {
            Ok(Rect::new(*x, *y, *w, *h))
        }
        _ => Err(bad(what, "must be four numbers: x, y, width, height")),
    }
}

/// Returns the text of an object with one attribute set. An existing attribute keeps its place in
/// the text; a new attribute is appended.
pub(super) fn with_text_attribute(text: &str, name: &str, words: &[String]) -> String {
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
                // If the text contains the attribute several times, write the new value at the
                // first place and remove the others, because Max would use the last one.
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
