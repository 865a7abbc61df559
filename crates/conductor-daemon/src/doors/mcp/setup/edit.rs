//! Adds, updates or removes one entry of a configuration file, and keeps every other byte.
//!
//! A parser gives the places of keys and values; the change is then made in the text itself, so
//! comments, order, indentation and line ends stay. The result is parsed again and compared with
//! the expected value, so a layout that this code does not understand is refused and never
//! damaged. Not here: files and clients.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{flow, toml, yaml};

/// The formats of configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Strict JSON.
    Json,
    /// JSON with comments, but without trailing commas.
    CommentedJson,
    /// JSON with comments and trailing commas.
    Jsonc,
    Toml,
    Yaml,
}

/// A reason to refuse a file. Line and column start at 1; the column counts characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct Fault {
    pub line: usize,
    pub column: usize,
    pub reason: String,
}

impl Fault {
    pub fn at(text: &str, offset: usize, reason: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column, reason: reason.into() }
    }
}

/// The place of the entry `name` in the map `container` at the root of the file.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub container: &'a str,
    pub name: &'a str,
}

/// A field of the entry.
#[derive(Debug, Clone)]
pub struct Field {
    pub key: &'static str,
    pub value: Value,
    /// An update sets only required fields. A person may change the others.
    pub is_required: bool,
}

/// The fields of a new entry, as an object.
pub fn object(fields: &[Field]) -> Map<String, Value> {
    fields.iter().map(|it| (it.key.to_owned(), it.value.clone())).collect()
}

/// A range, and the text that replaces it. An empty range is an insertion.
pub type Splice = (Range<usize>, String);

/// Applies splices that do not overlap. If an insertion and a replacement start at the same byte,
/// the insertion comes first.
pub fn spliced(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|(range, _)| (range.start, range.end));
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in splices {
        result.push_str(text.get(done..range.start).unwrap_or_default());
        result.push_str(&new);
        done = range.end;
    }
    result.push_str(text.get(done..).unwrap_or_default());
    result
}

/// The line end that the text uses.
pub fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if at > 0 && text.as_bytes().get(at - 1) == Some(&b'\r') => "\r\n",
        Some(_) | None => "\n",
    }
}

/// The end of the line of `at`, before its line break.
pub fn line_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let length = rest.find('\n').unwrap_or(rest.len());
    at + rest.get(..length).unwrap_or_default().trim_end_matches('\r').len()
}

pub fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|it| it.rfind('\n')).map_or(0, |it| it + 1)
}

/// The start of the line break before the line of `at`, or 0 in the first line.
pub fn previous_line_end(text: &str, at: usize) -> usize {
    let start = line_start(text, at);
    let before = text.get(..start).unwrap_or_default();
    before.strip_suffix("\r\n").or_else(|| before.strip_suffix('\n')).unwrap_or(before).len()
}

/// The spaces and tabs before `at`, if nothing else is before it in its line.
pub fn own_line_indent(text: &str, at: usize) -> Option<&str> {
    text.get(line_start(text, at)..at).filter(|it| it.chars().all(|it| matches!(it, ' ' | '\t')))
}

impl Format {
    /// The value of the whole file; null for a file without a value.
    pub fn value(self, text: &str) -> Result<Value, Fault> {
        let (_, body) = without_bom(text);
        match self {
            Self::Json | Self::CommentedJson | Self::Jsonc => {
                Ok(flow::parse(body, self)?.map_or(Value::Null, |it| it.value()))
            }
            Self::Yaml => Ok(yaml::parse(body)?.map_or(Value::Null, |it| it.value())),
            Self::Toml => toml::value(body),
        }
    }

    pub fn find(self, text: &str, place: Place<'_>) -> Result<Option<Value>, Fault> {
        let mut whole = self.value(text)?;
        Ok(whole.get_mut(place.container).and_then(|it| it.get_mut(place.name)).map(Value::take))
    }

    /// Adds the entry, or updates the required fields of the present entry.
    pub fn set(self, text: &str, place: Place<'_>, fields: &[Field]) -> Result<String, Fault> {
        let (bom, body) = without_bom(text);
        let mut expected = self.value(body)?;
        let splices = match self {
            Self::Json | Self::CommentedJson | Self::Jsonc => flow::set(body, self, place, fields)?,
            Self::Yaml => yaml::set(body, place, fields)?,
            Self::Toml => toml::set(body, place, fields)?,
        };
        if expected.is_null() {
            expected = Value::Object(Map::new());
        }
        let container = member(&mut expected, place.container);
        if container.is_null() {
            *container = Value::Object(Map::new());
        }
        let entry = member(container, place.name);
        if let Value::Object(present) = entry {
            for it in fields.iter().filter(|it| it.is_required) {
                present.insert(it.key.to_owned(), it.value.clone());
            }
        } else {
            *entry = Value::Object(object(fields));
        }
        self.checked(bom, body, splices, &expected)
    }

    /// Removes the entry. With `drop_container`, a container that is then empty is removed too.
    pub fn unset(self, text: &str, place: Place<'_>, drop_container: bool) -> Result<String, Fault> {
        let (bom, body) = without_bom(text);
        let mut expected = self.value(body)?;
        let Some(Value::Object(container)) = expected.get_mut(place.container) else { return Ok(text.to_owned()) };
        if container.shift_remove(place.name).is_none() {
            return Ok(text.to_owned());
        }
        let drop_container = drop_container && container.is_empty();
        if drop_container && let Value::Object(root) = &mut expected {
            root.shift_remove(place.container);
        }
        let splices = match self {
            Self::Json | Self::CommentedJson | Self::Jsonc => flow::unset(body, self, place, drop_container)?,
            Self::Yaml => yaml::unset(body, place, drop_container)?,
            Self::Toml => toml::unset(body, place)?,
        };
        self.checked(bom, body, splices, &expected)
    }

    fn checked(self, bom: &str, body: &str, splices: Vec<Splice>, expected: &Value) -> Result<String, Fault> {
        let place = splices.first().map_or(0, |(range, _)| range.start);
        let after = spliced(body, splices);
        match self.value(&after) {
            Ok(value) if same(&value, expected) => Ok(format!("{bom}{after}")),
            Ok(_) | Err(_) => Err(Fault::at(body, place, "the layout at this place cannot be edited safely")),
        }
    }
}

/// The member of an object, created if it is absent. A value that is not an object is not changed;
/// the later comparison of the results then fails.
fn member<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    match value {
        Value::Object(members) => members.entry(key).or_insert(Value::Null),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => other,
    }
}

/// Whether both values are equal. A missing container or root equals an empty one.
fn same(left: &Value, right: &Value) -> bool {
    let is_nothing = |it: &Value| it.is_null() || it.as_object().is_some_and(Map::is_empty);
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.keys().chain(right.keys()).all(|key| match (left.get(key), right.get(key)) {
                (Some(left), Some(right)) => same(left, right),
                (Some(only), None) | (None, Some(only)) => is_nothing(only),
                (None, None) => true,
            })
        }
        (left, right) => left == right || (is_nothing(left) && is_nothing(right)),
    }
}

fn without_bom(text: &str) -> (&str, &str) {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.split_at(text.len() - body.len())
}

#[cfg(test)]
mod tests;
