//! A tree for both the TOML of the file and the JSON of a tool call, so that the same code reads
//! them.
//!
//! Not here: the meaning of keys. A node has a value and, if it is from a file, its place in the
//! text.

use serde_json::{Map, Number, Value};
use std::ops::Range;

/// Byte range in the text; absent for JSON.
pub type Place = Option<Range<usize>>;

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub place: Place,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Occurs only in JSON.
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// Occurs only in TOML. Contains the text as written.
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    pub key_place: Place,
    pub node: Node,
}

impl Node {
    pub fn entries(&self) -> Option<&[Entry]> {
        if let Kind::Table(entries) = &self.kind { Some(entries) } else { None }
    }

    pub fn items(&self) -> Option<&[Node]> {
        if let Kind::List(items) = &self.kind { Some(items) } else { None }
    }

    pub fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The name of the kind for messages, in plain words.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "true or false",
            Kind::Int(_) => "a whole number",
            Kind::Float(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::Date(_) => "a date",
            Kind::List(_) => "a list",
            Kind::Table(_) => "a table",
        }
    }

    /// Converts to JSON. Dates become text; `inf` and `nan` become null, because JSON cannot
    /// represent them.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(it) => Value::Bool(*it),
            Kind::Int(it) => Value::from(*it),
            Kind::Float(it) => Number::from_f64(*it).map_or(Value::Null, Value::Number),
            Kind::Text(it) | Kind::Date(it) => Value::String(it.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Kind::Table(_) => Value::Object(self.to_map()),
        }
    }

    /// Converts a table to JSON. Empty for any other value.
    pub fn to_map(&self) -> Map<String, Value> {
        self.entries().unwrap_or_default().iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect()
    }

    pub fn from_json(value: &Value) -> Node {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(it) => Kind::Bool(*it),
            Value::Number(it) => it.as_i64().map_or_else(|| Kind::Float(it.as_f64().unwrap_or(f64::NAN)), Kind::Int),
            Value::String(it) => Kind::Text(it.clone()),
            Value::Array(items) => Kind::List(items.iter().map(Node::from_json).collect()),
            Value::Object(map) => Kind::Table(
                map.iter()
                    .map(|(key, value)| Entry { key: key.clone(), key_place: None, node: Node::from_json(value) })
                    .collect(),
            ),
        };
        Node { place: None, kind }
    }

    /// Builds a tree. `shift` is added to every place: it is the length of a byte order mark that
    /// was removed before parsing.
    pub fn from_toml<S: AsRef<str>>(document: &toml_edit::Document<S>, shift: usize) -> Node {
        let mut root = table(document.as_table(), shift);
        root.place = Some(shift..shift);
        root
    }
}

fn shifted(span: Place, shift: usize) -> Place {
    span.map(|it| it.start + shift..it.end + shift)
}

fn item(item: &toml_edit::Item, shift: usize) -> Node {
    match item {
        toml_edit::Item::None => Node { place: None, kind: Kind::Null },
        toml_edit::Item::Value(it) => value(it, shift),
        toml_edit::Item::Table(it) => table(it, shift),
        toml_edit::Item::ArrayOfTables(it) => Node {
            place: shifted(it.span(), shift),
            kind: Kind::List(it.iter().map(|element| table(element, shift)).collect()),
        },
    }
}

fn table(it: &toml_edit::Table, shift: usize) -> Node {
    let entries = it.iter().filter_map(|(name, _)| {
        let (key, held) = it.get_key_value(name)?;
        Some(Entry { key: name.to_owned(), key_place: shifted(key.span(), shift), node: item(held, shift) })
    });
    Node { place: shifted(it.span(), shift), kind: Kind::Table(entries.collect()) }
}

fn value(it: &toml_edit::Value, shift: usize) -> Node {
    let kind = match it {
        toml_edit::Value::String(it) => Kind::Text(it.value().clone()),
        toml_edit::Value::Integer(it) => Kind::Int(*it.value()),
        toml_edit::Value::Float(it) => Kind::Float(*it.value()),
        toml_edit::Value::Boolean(it) => Kind::Bool(*it.value()),
        toml_edit::Value::Datetime(it) => Kind::Date(it.value().to_string()),
        toml_edit::Value::Array(it) => Kind::List(it.iter().map(|element| value(element, shift)).collect()),
        toml_edit::Value::InlineTable(it) => {
            let entries = it.iter().filter_map(|(name, _)| {
                let (key, held) = it.get_key_value(name)?;
                Some(Entry { key: name.to_owned(), key_place: shifted(key.span(), shift), node: item(held, shift) })
            });
            Kind::Table(entries.collect())
        }
    };
    Node { place: shifted(it.span(), shift), kind }
}
