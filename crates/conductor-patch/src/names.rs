//! Names of Pd boxes. A `.pd` file cannot store names, so a side file `<file>.conductor.json`
//! stores them. When both files are opened, the names are matched to the boxes. Not here: reading
//! or writing the side file.

use std::sync::Arc;

use crate::Format;
use crate::canvas::{Canvas, Face};
use crate::change::{self, Change};
use crate::document::{CanvasId, Document, read_value};
use crate::json::{self, Kind};
use crate::style::{Json, Style};
use crate::{Atom, Value};

/// A name for which no box was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Unmatched {
    /// The unmatched name.
    pub name: String,
    /// The text of the box when the name was stored.
    pub text: String,
}

/// Why a side file was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamesError {
    /// The text is not JSON, or does not have the expected members.
    #[error("not a names file: expected {{\"version\":1,\"names\":[...]}}")]
    Shape,
}

impl Document {
    /// Content of the side file for this document. `None` if no box has a name, or if the
    /// document's own format can store names.
    pub fn names_file(&self) -> Option<String> {
        if self.format != Format::Pd {
            return None;
        }
        let mut names = Vec::new();
        self.walk(&mut |view| {
            let path = index_path(self, view.id());
            for (index, object) in view.boxes().enumerate() {
                let Some(name) = object.varname() else {
                    continue;
                };
                names.push(Json::Object(vec![
                    ("name".to_owned(), Json::text(name)),
                    ("canvas".to_owned(), Json::text(&path)),
                    ("index".to_owned(), Json::int(index as i64)),
                    ("text".to_owned(), Json::text(object.text())),
                    ("x".to_owned(), Json::float(object.rect().x)),
                    ("y".to_owned(), Json::float(object.rect().y)),
                ]));
            }
        });
        if names.is_empty() {
            return None;
        }
        let mut out = String::new();
        Style::modern().print(
            &Json::Object(vec![("version".to_owned(), Json::int(1)), ("names".to_owned(), Json::Array(names))]),
            0,
            &mut out,
        );
        out.push('\n');
        Some(out)
    }

    /// Assigns the names of a side file to the boxes: by text and position, else by text and index.
    /// Returns the names without a box.
    pub fn take_names(&mut self, text: &str) -> Result<Vec<Unmatched>, NamesError> {
        let file = text.as_bytes();
        let members = json::members(file);
        let member = |name: &str| members.iter().rev().find(|(key, _, _)| key == name);
        let (Some((_, version, _)), Some((_, list, Kind::Array))) = (member("version"), member("names")) else {
            return Err(NamesError::Shape);
        };
        if file.get(version.clone()) != Some(b"1") {
            return Err(NamesError::Shape);
        }
        let list = file.get(list.clone()).unwrap_or_default();
        let mut unmatched = Vec::new();
        for (range, _) in json::elements(list) {
            let entry = list.get(range).unwrap_or_default();
            let fields = json::members(entry);
            let field = |name: &str| {
                fields
                    .iter()
                    .rev()
                    .find(|(key, _, _)| key == name)
                    .and_then(|(_, range, kind)| Some(read_value(entry.get(range.clone())?, *kind)))
            };
            let word = |name: &str| match field(name) {
                Some(Value::One(Atom::Word(word))) => word,
                Some(_) | None => String::new(),
            };
            let number = |name: &str| field(name).and_then(|value| value.atoms().first().and_then(Atom::number));
            let (name, shown) = (word("name"), word("text"));
            let place = (number("x").unwrap_or(f64::NAN), number("y").unwrap_or(f64::NAN));
            let found = canvas_by_indices(self, &word("canvas")).and_then(|id| {
                let canvas = self.canvas_at(&id)?;
                let slot = pick(canvas, &shown, place, number("index").map(|n| n as usize))?;
                Some((id, slot, canvas.face(slot)?.clone()))
            });
            match found {
                Some((id, slot, face)) if !name.is_empty() => {
                    let facts = crate::canvas::Facts { varname: Some(name.as_str().into()), ..face.facts.clone() };
                    let face = Face { facts, ..face.as_ref().clone() };
                    // The box was just found, so the change cannot fail.
                    let _ = change::make(&mut self.root, Change::Face { canvas: id, slot, new: Arc::new(face) });
                }
                Some(_) | None => unmatched.push(Unmatched { name, text: shown }),
            }
        }
        Ok(unmatched)
    }
}

fn pick(canvas: &Canvas, text: &str, place: (f64, f64), index: Option<usize>) -> Option<u32> {
    let unnamed = |face: &Face| face.facts.varname.is_none() && face.facts.text.as_ref() == text;
    let by_place = canvas.faces().find(|(_, face)| unnamed(face) && (face.facts.rect.x, face.facts.rect.y) == place);
    let by_index = || canvas.faces().nth(index?).filter(|(_, face)| unnamed(face));
    by_place.or_else(by_index).map(|(slot, _)| slot)
}

fn index_path(document: &Document, id: &CanvasId) -> String {
    let mut path = Vec::new();
    let mut canvas = document.root.as_ref();
    for slot in &id.0 {
        path.push(canvas.index_of(*slot).unwrap_or(0).to_string());
        match canvas.inner(*slot) {
            Some(inner) => canvas = inner,
            None => break,
        }
    }
    path.join("/")
}

fn canvas_by_indices(document: &Document, path: &str) -> Option<CanvasId> {
    let mut id = CanvasId::ROOT;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let slot = document.canvas_at(&id)?.box_slots().nth(part.parse().ok()?)?;
        id = id.inside(slot);
    }
    document.canvas_at(&id).map(|_| id)
}
