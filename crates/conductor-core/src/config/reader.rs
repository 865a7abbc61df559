//! Reads a [`Node`] into values and collects every fault. A reader does not stop at the first
//! fault.
//!
//! A reader also describes itself. While a description is recorded, the same functions record the
//! JSON Schema of the values that they would accept (see `describe`). So the schema cannot differ
//! from the reader.
//!
//! Not here: the keys of the file. The other files of this folder request keys. A key that no file
//! requests is unknown, and the requested keys are suggested for a misspelt key.

use super::form::Form;
use super::tree::{Entry, Kind, Node, Place};
use super::{Class, Severity, Surroundings};
use crate::digest::Digest;
use crate::event::{Axis, Button, OscArg, Side};
use crate::mapping::Scalar;
use crate::named_enum::{Named, named_enum};
use crate::script::NESTING_TOOLS;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Fault {
    pub severity: Severity,
    pub class: Class,
    pub message: String,
    pub help: Option<String>,
    pub path: String,
    pub place: Place,
}

enum Step<'t> {
    Key(&'t str),
    Index(usize),
}

/// The form of paths in diagnostics: `modes[0].name` for the file, or a JSON pointer for tool
/// input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paths {
    Dotted,
    Pointer,
}

/// Names that a row may refer to. If a list is `None`, its names are unknown and are not checked.
#[derive(Default)]
pub(crate) struct Names {
    pub modes: Option<Vec<String>>,
    pub devices: Option<Vec<DeviceName>>,
    pub rows: Option<RowIds>,
}

/// Ids of the rows whose state a feedback row can show.
pub(crate) struct RowIds {
    pub mappings: Vec<String>,
    pub continuous: Vec<String>,
}

pub(crate) struct DeviceName {
    pub alias: String,
    pub sends: bool,
    pub hears: bool,
    /// Names of the ports that this device creates.
    pub ports: Vec<String>,
}

/// The target of a `Shell` or `Launch` action.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    /// The words of a `Shell` command.
    Line(Vec<String>),
    /// The app of a `Launch` action.
    App(String),
}

pub(crate) struct CommandLine {
    pub start: Start,
    path: String,
    place: Place,
}

pub(crate) struct Reader<'t> {
    pub faults: Vec<Fault>,
    pub names: Names,
    pub surroundings: &'t Surroundings<'t>,
    /// Command lines of `Shell` and `Launch` actions. They are checked last, because the command
    /// templates are read later.
    pub commands: Vec<CommandLine>,
    path: Vec<Step<'t>>,
    prefix: String,
    paths: Paths,
    errors: usize,
    description: Option<Description>,
}

/// The state of a reader that records a description.
struct Description {
    /// The schema of the value that was read last.
    schema: Value,
    /// Name of the definition to describe. It is cleared when the reader of the definition begins,
    /// so that later uses of the name are recorded as references.
    name: Option<&'static str>,
    /// The index of the described variant of a tagged table, and the names of all variants.
    variant: usize,
    variants: &'static [&'static str],
}

/// A node without a value, for readers that record a description.
const NOTHING: Node = Node { place: None, kind: Kind::Null };
static PROBE: Node = NOTHING;
static PROBE_ENTRY: Entry = Entry { key: String::new(), key_place: None, node: NOTHING };

/// The JSON Schema of the values that `read` accepts. `read` must request every key, regardless of
/// the values of other keys.
pub(crate) fn describe<T>(read: impl Fn(&mut Reader<'static>, &'static Node) -> Option<T>) -> Value {
    describe_variant(None, 0, &read).0
}

/// The schemas of all variants of a tagged table, in the order of their names. `name` is the
/// definition that `read` begins with.
pub(crate) fn describe_variants<T>(
    name: &'static str,
    read: impl Fn(&mut Reader<'static>, &'static Node) -> Option<T>,
) -> Vec<Value> {
    let (first, variants) = describe_variant(Some(name), 0, &read);
    let others = (1..variants.len()).map(|it| describe_variant(Some(name), it, &read).0);
    std::iter::once(first).chain(others).collect()
}

fn describe_variant<T>(
    name: Option<&'static str>,
    variant: usize,
    read: &impl Fn(&mut Reader<'static>, &'static Node) -> Option<T>,
) -> (Value, &'static [&'static str]) {
    static NO_SURROUNDINGS: Surroundings<'static> =
        Surroundings { platform: None, ports: None, tools: None, plugins: None };
    let mut r = Reader::new(&NO_SURROUNDINGS, Paths::Dotted, "");
    r.description = Some(Description { schema: Value::Null, name, variant, variants: &[] });
    read(&mut r, &PROBE);
    r.description.map(|it| (it.schema, it.variants)).unwrap_or_default()
}

impl<'t> Reader<'t> {
    pub fn new(surroundings: &'t Surroundings<'t>, paths: Paths, prefix: &str) -> Self {
        Reader {
            faults: Vec::new(),
            names: Names::default(),
            surroundings,
            commands: Vec::new(),
            path: Vec::new(),
            prefix: prefix.to_owned(),
            paths,
            errors: 0,
            description: None,
        }
    }

    pub fn is_describing(&self) -> bool {
        self.description.is_some()
    }

    /// While a description is recorded, stores a schema and returns `None`, because there is no
    /// value to read.
    pub fn describe(&mut self, schema: impl FnOnce() -> Value) -> Option<()> {
        let Some(description) = &mut self.description else { return Some(()) };
        description.schema = schema();
        None
    }

    /// Begins the definition `name`. While another definition is described, stores a reference to
    /// `name` and returns `None`.
    pub fn define(&mut self, name: &'static str) -> Option<()> {
        let is_described = self.description.as_mut().is_some_and(|it| it.name.take_if(|it| *it == name).is_some());
        if is_described { Some(()) } else { self.describe(|| json!({ "$ref": format!("#/$defs/{name}") })) }
    }

    /// While a description is recorded, stores that a value may have the form of `one` or of
    /// `other`, and returns `None`.
    pub fn describe_either<A, B>(
        &mut self,
        one: impl FnOnce(&mut Self) -> Option<A>,
        other: impl FnOnce(&mut Self) -> Option<B>,
    ) -> Option<()> {
        let one = self.described(one);
        let other = self.described(other);
        self.describe(|| json!({ "oneOf": [one, other] }))
    }

    /// The schema of the values that `read` accepts. `None` if no description is recorded.
    fn described<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Value> {
        self.description.as_ref()?;
        read(self);
        self.description.as_mut().map(|it| it.schema.take())
    }

    /// Number of errors so far. An item is valid if reading it does not change this number.
    pub fn errors(&self) -> usize {
        self.errors
    }

    pub fn under<T>(&mut self, key: &'t str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(Step::Key(key));
        let read = read(self);
        self.path.pop();
        read
    }

    pub fn each<T>(&mut self, items: &'t [Node], mut read: impl FnMut(&mut Self, &'t Node) -> Option<T>) -> Vec<T> {
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Index(index));
            out.extend(read(self, item));
            self.path.pop();
        }
        out
    }

    pub fn at_index<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(Step::Index(index));
        let read = read(self);
        self.path.pop();
        read
    }

    fn path(&self) -> String {
        let mut out = self.prefix.clone();
        for step in &self.path {
            match (step, self.paths) {
                (Step::Key(key), Paths::Dotted) => {
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.push_str(key);
                }
                (Step::Index(index), Paths::Dotted) => out.push_str(&format!("[{index}]")),
                (Step::Key(key), Paths::Pointer) => {
                    out.push('/');
                    out.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
                (Step::Index(index), Paths::Pointer) => out.push_str(&format!("/{index}")),
            }
        }
        out
    }

    /// The name of the value being read, for messages.
    fn subject(&self) -> String {
        match self.path.last() {
            Some(Step::Key(key)) => format!("`{key}`"),
            Some(Step::Index(index)) => {
                let list = self.path.iter().rev().find_map(|step| match step {
                    Step::Key(key) => Some(*key),
                    Step::Index(_) => None,
                });
                list.map_or_else(|| format!("entry {index}"), |key| format!("entry {index} of `{key}`"))
            }
            None => "the value".to_owned(),
        }
    }

    pub fn fault(&mut self, severity: Severity, class: Class, place: &Place, message: String, help: Option<String>) {
        if severity >= Severity::Error {
            self.errors += 1;
        }
        self.faults.push(Fault { severity, class, message, help, path: self.path(), place: place.clone() });
    }

    pub fn note_command(&mut self, place: &Place, start: Start) {
        self.commands.push(CommandLine { start, path: self.path(), place: place.clone() });
    }

    /// Adds a warning at the place of the command line.
    pub fn warn_of_command(&mut self, line: CommandLine, message: String, help: String) {
        let CommandLine { path, place, .. } = line;
        let (severity, class) = (Severity::Warning, Class::Rule);
        self.faults.push(Fault { severity, class, message, help: Some(help), path, place });
    }

    /// Reports an error that the JSON schema also finds.
    pub fn shape(&mut self, node: &Node, message: String) {
        self.fault(Severity::Error, Class::Shape, &node.place, message, None);
    }

    pub fn shape_help(&mut self, place: &Place, message: String, help: Option<String>) {
        self.fault(Severity::Error, Class::Shape, place, message, help);
    }

    /// Reports an error that the JSON schema cannot find.
    pub fn rule(&mut self, place: &Place, message: String) {
        self.fault(Severity::Error, Class::Rule, place, message, None);
    }

    pub fn rule_help(&mut self, place: &Place, message: String, help: String) {
        self.fault(Severity::Error, Class::Rule, place, message, Some(help));
    }

    /// Reports a value that the JSON schema accepts but a rule refuses.
    pub fn reject<T>(&mut self, node: &Node, message: impl Into<String>, help: impl Into<String>) -> Option<T> {
        self.rule_help(&node.place, message.into(), help.into());
        None
    }

    pub fn warn(&mut self, place: &Place, message: String, help: Option<String>) {
        self.fault(Severity::Warning, Class::Rule, place, message, help);
    }

    fn expected(&mut self, node: &Node, wanted: &str) {
        let message = format!("{} must be {wanted}, found {}", self.subject(), found(node));
        self.shape(node, message);
    }

    pub fn table(&mut self, node: &'t Node) -> Option<Fields<'t>> {
        if let Kind::Table(entries) = &node.kind {
            return Some(Fields { entries, place: node.place.clone(), asked: Vec::with_capacity(8), keys: None });
        }
        if self.is_describing() {
            return Some(Fields { entries: &[], place: None, asked: Vec::new(), keys: Some(DescribedKeys::default()) });
        }
        self.expected(node, "a table");
        None
    }

    pub fn list(&mut self, node: &'t Node, min: usize, max: usize) -> Option<&'t [Node]> {
        self.describe(|| json!({ "type": "array" }))?;
        let Some(items) = node.items() else {
            let message = format!("{} must be a list, found {}", self.subject(), found(node));
            let header = match self.path.last() {
                Some(Step::Key(key)) if node.entries().is_some() => {
                    Some(format!("each entry begins with its own [[…{key}]]"))
                }
                Some(Step::Key(_) | Step::Index(_)) | None => None,
            };
            self.shape_help(&node.place, message, header);
            return None;
        };
        if items.len() < min || items.len() > max {
            let wanted = if max == usize::MAX {
                format!("at least {min}")
            } else if min == max {
                format!("exactly {min}")
            } else if min == 0 {
                format!("at most {max}")
            } else {
                format!("{min} to {max}")
            };
            let message = format!("{} must have {wanted} entries, found {}", self.subject(), items.len());
            self.shape(node, message);
            return None;
        }
        Some(items)
    }

    /// A list of `min` to `max` entries. An entry with a fault is left out.
    pub fn list_of<T>(
        &mut self,
        node: &'t Node,
        min: usize,
        max: usize,
        mut read: impl FnMut(&mut Self, &'t Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.describe_list(min, max, false, &mut read)?;
        let items = self.list(node, min, max)?;
        Some(self.each(items, read))
    }

    fn describe_list<T>(
        &mut self,
        min: usize,
        max: usize,
        is_set: bool,
        read: &mut impl FnMut(&mut Self, &'t Node) -> Option<T>,
    ) -> Option<()> {
        let Some(items) = self.described(|r| read(r, &PROBE)) else { return Some(()) };
        let mut schema = limited(json!({ "type": "array", "items": items }), ("minItems", min), ("maxItems", max));
        if is_set {
            schema["uniqueItems"] = true.into();
        }
        self.describe(|| schema)
    }

    /// A table whose keys are names. An entry with a fault is left out.
    pub fn map_of<T>(
        &mut self,
        node: &'t Node,
        mut read: impl FnMut(&mut Self, &'t Entry) -> Option<T>,
    ) -> Option<BTreeMap<String, T>> {
        let entries = self.entries_of(node, |r, entry| Some((entry.key.clone(), read(r, entry)?)))?;
        Some(entries.into_iter().collect())
    }

    /// Like `map_of`, but in the order of the file.
    pub fn entries_of<T>(
        &mut self,
        node: &'t Node,
        mut read: impl FnMut(&mut Self, &'t Entry) -> Option<T>,
    ) -> Option<Vec<T>> {
        let values = self.described(|r| read(r, &PROBE_ENTRY));
        self.describe(|| json!({ "type": "object", "additionalProperties": values }))?;
        self.table(node)?;
        let entries = node.entries().unwrap_or_default();
        Some(entries.iter().filter_map(|entry| self.under(&entry.key, |r| read(r, entry))).collect())
    }

    /// A list without duplicates. Values are compared after they are read, so two different names
    /// of the same value are duplicates.
    pub fn set<T: PartialEq>(
        &mut self,
        node: &'t Node,
        min: usize,
        max: usize,
        mut read: impl FnMut(&mut Self, &'t Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.describe_list(min, max, true, &mut read)?;
        let items = self.list(node, min, max)?;
        let before = self.errors;
        let values = self.each(items, read);
        if self.errors != before {
            return None;
        }
        for (index, (item, value)) in items.iter().zip(&values).enumerate() {
            let earlier = items.iter().zip(&values).take(index);
            let twin = earlier.into_iter().find(|(_, other)| *other == value);
            if let Some((other, _)) = twin {
                let class = if same_json(other, item) { Class::Shape } else { Class::Rule };
                let message = self.at_index(index, |r| format!("{} is duplicated", r.subject()));
                self.at_index(index, |r| r.fault(Severity::Error, class, &item.place, message, None));
            }
        }
        (self.errors == before).then_some(values)
    }

    pub fn boolean(&mut self, node: &'t Node) -> Option<bool> {
        self.describe(|| json!({ "type": "boolean" }))?;
        if let Kind::Bool(it) = node.kind {
            return Some(it);
        }
        self.expected(node, "true or false");
        None
    }

    /// A whole number. `36.0` is accepted, as in JSON Schema.
    pub fn whole<T: TryFrom<i64>>(&mut self, node: &'t Node, min: i64, max: i64) -> Option<T> {
        self.describe(|| json!({ "type": "integer", "minimum": min, "maximum": max }))?;
        let Some(number) = as_whole(node) else {
            self.expected(node, &format!("a whole number from {min} to {max}"));
            return None;
        };
        let within = number.filter(|it| (min..=max).contains(it));
        if within.is_none() {
            self.expected(node, &format!("from {min} to {max}"));
        }
        within.and_then(|it| T::try_from(it).ok())
    }

    /// A whole number. The limits are checked here and are not in the JSON schema.
    pub fn bounded(&mut self, node: &'t Node, min: i64, max: i64) -> Option<i64> {
        self.describe(|| json!({ "type": "integer" }))?;
        let Some(number) = as_whole(node) else {
            self.expected(node, "a whole number");
            return None;
        };
        let within = number.filter(|it| (min..=max).contains(it));
        if within.is_none() {
            let message = format!("{} must be from {min} to {max}, found {}", self.subject(), found(node));
            self.rule(&node.place, message);
        }
        within
    }

    /// A whole number of at least 0. A number above `i64::MAX` becomes `i64::MAX`.
    pub fn at_least_zero(&mut self, node: &'t Node) -> Option<i64> {
        self.describe(|| json!({ "type": "integer", "minimum": 0 }))?;
        let Some(number) = as_whole(node) else {
            self.expected(node, "a whole number from 0");
            return None;
        };
        let huge = matches!(node.kind, Kind::Float(it) if it > 0.0);
        match number {
            Some(it) if it >= 0 => Some(it),
            None if huge => Some(i64::MAX),
            Some(_) | None => {
                self.expected(node, "0 or more");
                None
            }
        }
    }

    pub fn u7(&mut self, node: &'t Node) -> Option<u8> {
        self.whole(node, 0, 127)
    }

    pub fn u14(&mut self, node: &'t Node) -> Option<u16> {
        self.whole(node, 0, 16383)
    }

    pub fn channel(&mut self, node: &'t Node) -> Option<u8> {
        self.whole(node, 0, 15)
    }

    pub fn udp_port(&mut self, node: &'t Node) -> Option<u16> {
        self.whole(node, 1, 65_535)
    }

    pub fn ms(&mut self, node: &'t Node) -> Option<u32> {
        self.whole(node, 1, 60_000)
    }

    pub fn ms_or_zero(&mut self, node: &'t Node) -> Option<u32> {
        self.whole(node, 0, 60_000)
    }

    pub fn number(&mut self, node: &'t Node, min: f64, max: f64) -> Option<f64> {
        self.describe(|| json!({ "type": "number", "minimum": short(min), "maximum": short(max) }))?;
        let number = self.finite(node)?;
        if number < min || number > max {
            self.expected(node, &format!("from {min} to {max}"));
            return None;
        }
        Some(number)
    }

    pub fn finite(&mut self, node: &'t Node) -> Option<f64> {
        self.describe(|| json!({ "type": "number" }))?;
        let number = match node.kind {
            Kind::Int(it) => it as f64,
            Kind::Float(it) if it.is_finite() => it,
            Kind::Float(_)
            | Kind::Null
            | Kind::Bool(_)
            | Kind::Text(_)
            | Kind::Date(_)
            | Kind::List(_)
            | Kind::Table(_) => {
                self.expected(node, "a number");
                return None;
            }
        };
        Some(number)
    }

    pub fn unit(&mut self, node: &'t Node) -> Option<f64> {
        self.number(node, 0.0, 1.0)
    }

    /// Two numbers; the first must not be greater than the second.
    pub fn pair(&mut self, node: &'t Node) -> Option<(f64, f64)> {
        let values = self.list_of(node, 2, 2, |r, item| r.finite(item))?;
        let &[low, high] = values.as_slice() else { return None };
        if low > high {
            let message = format!("{} must have the smaller number first, found {low} and {high}", self.subject());
            self.rule(&node.place, message);
            return None;
        }
        Some((low, high))
    }

    pub fn u7_pair(&mut self, node: &'t Node) -> Option<(u8, u8)> {
        let values = self.list_of(node, 2, 2, |r, item| r.u7(item))?;
        let &[low, high] = values.as_slice() else { return None };
        self.ascending(&node.place, u16::from(low), u16::from(high))?;
        Some((low, high))
    }

    pub fn ascending(&mut self, place: &Place, low: u16, high: u16) -> Option<()> {
        if low > high {
            let message = format!("the range is empty: {low} is above {high}");
            self.rule_help(place, message, "write the smaller number first".to_owned());
            return None;
        }
        Some(())
    }

    pub fn text(&mut self, node: &'t Node, min: usize, max: usize) -> Option<String> {
        self.describe(|| limited(json!({ "type": "string" }), ("minLength", min), ("maxLength", max)))?;
        let Some(text) = node.text() else {
            self.expected(node, "a text in quotes");
            return None;
        };
        let length = text.chars().count();
        if length < min {
            let message = format!("{} must not be empty", self.subject());
            self.shape(node, message);
            return None;
        }
        if length > max {
            let message = format!("{} must have at most {max} characters, found {length}", self.subject());
            self.shape(node, message);
            return None;
        }
        Some(text.to_owned())
    }

    pub fn filled(&mut self, node: &'t Node) -> Option<String> {
        self.text(node, 1, usize::MAX)
    }

    pub fn name(&mut self, node: &'t Node) -> Option<String> {
        self.text(node, 1, 64)
    }

    pub fn description(&mut self, node: &'t Node) -> Option<String> {
        self.text(node, 0, 1024)
    }

    /// A lower-case word of at most `max` characters.
    fn slug(&mut self, node: &'t Node, max: usize) -> Option<String> {
        self.describe(|| json!({ "type": "string", "pattern": format!("^[a-z][a-z0-9_-]{{0,{}}}$", max - 1) }))?;
        let text = self.filled(node)?;
        if is_slug(&text, max) {
            return Some(text);
        }
        let message = format!(
            "{} must begin with a-z and contain only a-z, 0-9, `_` and `-`, at most {max} characters, found {}",
            self.subject(),
            found(node)
        );
        let cure = to_slug(&text, max).map(|it| format!("for example \"{it}\""));
        self.shape_help(&node.place, message, cure);
        None
    }

    pub fn id(&mut self, node: &'t Node) -> Option<String> {
        self.slug(node, 64)
    }

    pub fn alias(&mut self, node: &'t Node) -> Option<String> {
        self.slug(node, 32)
    }

    /// An alias that no earlier entry has.
    pub fn unique_alias(&mut self, node: &'t Node, seen: &mut BTreeSet<String>, what: &str) -> Option<String> {
        let name = self.alias(node)?;
        if !seen.insert(name.clone()) {
            self.rule(&node.place, format!("there is already a {what} \"{name}\""));
            return None;
        }
        Some(name)
    }

    pub fn digest(&mut self, node: &'t Node, help: Option<&str>) -> Option<Digest> {
        self.describe(|| json!({ "type": "string", "minLength": 1 }))?;
        let digest = self.filled(node)?.parse().ok();
        if digest.is_none() {
            let message = format!("{} must be `sha256:` and 64 lower-case hex digits", self.subject());
            self.fault(Severity::Error, Class::Rule, &node.place, message, help.map(str::to_owned));
        }
        digest
    }

    pub fn osc_address(&mut self, node: &'t Node) -> Option<String> {
        self.describe(|| json!({ "type": "string", "pattern": "^/", "maxLength": 256 }))?;
        let text = self.text(node, 0, 256)?;
        if text.starts_with('/') {
            return Some(text);
        }
        let message = format!("{} must begin with `/`, found {}", self.subject(), found(node));
        self.shape(node, message);
        None
    }

    /// A time of day, as minutes after midnight.
    pub fn time_of_day(&mut self, node: &'t Node) -> Option<u16> {
        self.describe(|| json!({ "type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$" }))?;
        let text = self.filled(node)?;
        let minutes = minutes(&text);
        if minutes.is_none() {
            let message =
                format!("{} must be a time from \"00:00\" to \"23:59\", found {}", self.subject(), found(node));
            self.shape(node, message);
        }
        minutes
    }

    pub fn word<T: Copy>(&mut self, node: &'t Node, words: &[(&str, T)]) -> Option<T> {
        self.describe(|| json!({ "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>() }))?;
        let Some(text) = node.text() else {
            let list = listed(words.iter().map(|(word, _)| *word));
            self.expected(node, &format!("one of {list}"));
            return None;
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.unknown_word(node, text, &names);
        None
    }

    /// The name of a variant.
    pub fn named<T: Named>(&mut self, node: &'t Node) -> Option<T> {
        self.word(node, T::NAMED)
    }

    pub fn unknown_word(&mut self, node: &Node, text: &str, names: &[&str]) {
        let message = format!("{} is \"{text}\", which does not exist", self.subject());
        let help = nearest(text, names.iter().copied())
            .map(|it| format!("did you mean \"{it}\"?"))
            .or_else(|| Some(format!("it can be {}", listed(names.iter().copied()))));
        self.shape_help(&node.place, message, help);
    }

    /// A value that may be written as a number or as a name, such as a button.
    fn numbered<T>(
        &mut self,
        node: &'t Node,
        from_id: fn(i64) -> Option<T>,
        from_name: fn(&str) -> Option<T>,
        names: &[&str],
        ids: (u8, u8),
    ) -> Option<T> {
        let number = || json!({ "type": "integer", "minimum": ids.0, "maximum": ids.1 });
        self.describe(|| json!({ "oneOf": [number(), { "enum": names }] }))?;
        if let Some(text) = node.text() {
            let found = from_name(text);
            if found.is_none() {
                self.unknown_word(node, text, names);
            }
            return found;
        }
        let found = as_whole(node).flatten().and_then(from_id);
        if found.is_none() {
            self.expected(node, &format!("a name or a number from {} to {}", ids.0, ids.1));
        }
        found
    }

    pub fn button(&mut self, node: &'t Node) -> Option<Button> {
        let names: Vec<&str> = Button::ALL.iter().map(|it| it.name()).collect();
        self.numbered(node, Button::from_id, Button::from_name, &names, (128, 146))
    }

    pub fn axis(&mut self, node: &'t Node) -> Option<Axis> {
        let names: Vec<&str> = Axis::ALL.iter().map(|it| it.name()).collect();
        self.numbered(node, Axis::from_id, Axis::from_name, &names, (128, 131))
    }

    pub fn side(&mut self, node: &'t Node) -> Option<Side> {
        let names: Vec<&str> = Side::ALL.iter().map(|it| it.name()).collect();
        self.numbered(node, Side::from_id, Side::from_name, &names, (132, 133))
    }

    pub fn scalar(&mut self, node: &'t Node) -> Option<Scalar> {
        self.describe(|| json!({ "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "boolean" }] }))?;
        match &node.kind {
            Kind::Int(_) | Kind::Float(_) => self.finite(node).map(Scalar::Number),
            Kind::Text(it) => Some(Scalar::Text(it.clone())),
            Kind::Bool(it) => Some(Scalar::Bool(*it)),
            Kind::Null | Kind::Date(_) | Kind::List(_) | Kind::Table(_) => {
                self.expected(node, "a number, a text, true or false");
                None
            }
        }
    }

    /// An OSC argument. Without a `type`, a whole number is sent as int32 and any other number as
    /// float32.
    pub fn osc_arg(&mut self, node: &'t Node) -> Option<OscArg> {
        let plain = self.described(|r| r.scalar(node));
        if plain.is_none() && node.entries().is_none() {
            return match (self.scalar(node)?, &node.kind) {
                (Scalar::Text(it), _) => Some(OscArg::Text(it)),
                (Scalar::Bool(it), _) => Some(OscArg::Bool(it)),
                (Scalar::Number(_), Kind::Int(_)) => self.int32(node),
                (Scalar::Number(it), _) => self.float32(node, it),
            };
        }
        let mut fields = self.table(node)?;
        let typed = fields.need(self, "type", Reader::named);
        let held = fields.need(self, "value", |r, it| r.scalar(it).map(|scalar| (it, scalar)));
        fields.finish(self);
        if let Some((plain, description)) = plain.zip(self.description.as_mut()) {
            description.schema = json!({ "oneOf": [plain, description.schema.take()] });
        }
        let (place, scalar) = held?;
        let mismatch = |r: &mut Self, wanted: &str| {
            r.rule(&place.place, format!("`value` must be {wanted} to fit its `type`, found {}", found(place)));
            None
        };
        match (typed?, scalar) {
            (Typed::Int, Scalar::Number(_)) => self.under("value", |r| r.int32(place)),
            (Typed::Float, Scalar::Number(it)) => self.under("value", |r| r.float32(place, it)),
            (Typed::Text, Scalar::Text(it)) => Some(OscArg::Text(it)),
            (Typed::Bool, Scalar::Bool(it)) => Some(OscArg::Bool(it)),
            (Typed::Int, Scalar::Text(_) | Scalar::Bool(_)) => mismatch(self, "a whole number"),
            (Typed::Float, Scalar::Text(_) | Scalar::Bool(_)) => mismatch(self, "a number"),
            (Typed::Text, Scalar::Number(_) | Scalar::Bool(_)) => mismatch(self, "a text"),
            (Typed::Bool, Scalar::Number(_) | Scalar::Text(_)) => mismatch(self, "true or false"),
        }
    }

    fn int32(&mut self, node: &'t Node) -> Option<OscArg> {
        let number = as_whole(node).flatten().and_then(|it| i32::try_from(it).ok());
        if number.is_none() {
            let message = format!("{} is not a 32-bit whole number: {}", self.subject(), found(node));
            self.rule_help(
                &node.place,
                message,
                "OSC carries whole numbers in 32 bits; use { type = \"float\", value = … }".into(),
            );
        }
        number.map(OscArg::Int)
    }

    fn float32(&mut self, node: &'t Node, number: f64) -> Option<OscArg> {
        let narrow = number as f32;
        if narrow.is_finite() {
            return Some(OscArg::Float(narrow));
        }
        let message = format!("{} does not fit a 32-bit float: {}", self.subject(), found(node));
        self.rule(&node.place, message);
        None
    }

    /// Any JSON object, for arguments that the receiving tool checks.
    pub fn object(&mut self, node: &'t Node) -> Option<serde_json::Map<String, serde_json::Value>> {
        self.describe(|| json!({ "type": "object" }))?;
        if node.entries().is_none() {
            self.expected(node, "a table");
            return None;
        }
        let before = self.errors;
        self.json_only(node);
        (self.errors == before).then(|| node.to_map())
    }

    /// Refuses values that JSON cannot represent: dates, infinities and NaN.
    fn json_only(&mut self, node: &'t Node) {
        match &node.kind {
            Kind::Null => self.rule(&node.place, "null cannot be written in the file; leave the key out".into()),
            Kind::Date(it) => {
                let help = format!("write it in quotes: \"{it}\"");
                self.rule_help(&node.place, "arguments are sent as JSON, which has no dates".into(), help);
            }
            Kind::Float(it) if !it.is_finite() => {
                self.rule(&node.place, format!("arguments are sent as JSON, which has no {it}"));
            }
            Kind::List(items) => {
                self.each(items, |r, item| {
                    r.json_only(item);
                    Some(())
                });
            }
            Kind::Table(entries) => {
                for entry in entries {
                    self.under(&entry.key, |r| r.json_only(&entry.node));
                }
            }
            Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Text(_) => {}
        }
    }

    pub fn mode_name(&mut self, node: &'t Node) -> Option<String> {
        let name = self.name(node)?;
        let Some(modes) = &self.names.modes else { return Some(name) };
        if modes.contains(&name) {
            return Some(name);
        }
        let help = suggestion(&name, modes, "modes are");
        self.reject(node, format!("there is no mode \"{name}\""), help)
    }

    /// An alias, or `raw:<port>` for a port without a device.
    pub fn device_name(&mut self, node: &'t Node) -> Option<String> {
        let name = self.filled(node)?;
        if name.strip_prefix("raw:").is_some_and(|port| !port.is_empty()) {
            return Some(name);
        }
        let Some(devices) = &self.names.devices else { return Some(name) };
        if devices.iter().any(|it| it.alias == name) {
            return Some(name);
        }
        let help = suggestion(&name, devices.iter().map(|it| &it.alias), "devices are");
        self.reject(node, format!("there is no device \"{name}\""), help)
    }

    /// A device that must have an input.
    pub fn heard_device(&mut self, node: &'t Node) -> Option<String> {
        let name = self.device_name(node)?;
        self.hears(node, &name);
        Some(name)
    }

    fn hears(&mut self, node: &Node, name: &str) {
        let device = self.names.devices.iter().flatten().find(|it| it.alias == name);
        if device.is_some_and(|it| !it.hears) {
            let message = format!("device \"{name}\" has direction Output: nothing is received from it");
            self.warn(&node.place, message, Some("set its direction to Input or Bidirectional".to_owned()));
        }
    }

    /// A device with lights; it must have an output.
    pub fn lit_device(&mut self, node: &'t Node) -> Option<String> {
        let name = self.device_name(node)?;
        self.sends(node, name)
    }

    fn sends(&mut self, node: &'t Node, name: String) -> Option<String> {
        let device = self.names.devices.iter().flatten().find(|it| it.alias == name);
        if device.is_none_or(|it| it.sends) {
            return Some(name);
        }
        let message = format!("device \"{name}\" has direction Input: nothing can be sent to it");
        self.reject(node, message, "set its direction to Output or Bidirectional")
    }

    /// A device alias, or the exact name of a port.
    pub fn port_name(&mut self, node: &'t Node, must_send: bool) -> Option<String> {
        let name = self.filled(node)?;
        let Some(devices) = &self.names.devices else { return Some(name) };
        if devices.iter().any(|it| it.alias == name) {
            if must_send {
                return self.sends(node, name);
            }
            self.hears(node, &name);
            return Some(name);
        }
        if name.starts_with("raw:") || devices.iter().any(|it| it.ports.contains(&name)) {
            return Some(name);
        }
        let aliases = devices.iter().map(|it| it.alias.as_str());
        if let Some(ports) = self.surroundings.ports {
            if ports.contains(&name) {
                return Some(name);
            }
            // Keep the row, because the port may be plugged in later.
            let help = suggestion(&name, aliases.chain(ports.iter().map(String::as_str)), "ports are");
            self.warn(&node.place, format!("there is no device or port \"{name}\" now"), Some(help));
            return Some(name);
        }
        // Without a list of ports, an unknown name may be a disconnected port. Warn only if the
        // name looks like a misspelt alias.
        if let Some(near) = nearest(&name, aliases) {
            let message = format!("\"{name}\" is not a device alias and is used as the exact name of a port");
            let help = format!("did you mean \"{near}\"?");
            self.warn(&node.place, message, Some(help));
        }
        Some(name)
    }

    pub fn tool_name(&mut self, node: &'t Node) -> Option<String> {
        let name = self.text(node, 1, 128)?;
        if NESTING_TOOLS.contains(&name.replace('.', "_").as_str()) {
            let help = "call the other tool directly";
            return self.reject(node, format!("a mapping cannot call \"{name}\", which calls other tools"), help);
        }
        let Some(tools) = self.surroundings.tools else { return Some(name) };
        if tools.contains(&name) {
            return Some(name);
        }
        let help = suggestion(&name, tools, "tools are");
        self.reject(node, format!("there is no tool \"{name}\""), help)
    }
}

named_enum! {
    /// Type of an OSC argument that is written as a table.
    enum Typed {
        Int = "int",
        Float = "float",
        Text = "string",
        Bool = "bool",
    }
}

/// The keys of one table. Each requested key becomes a known key; `finish` reports the unknown
/// keys.
pub(crate) struct Fields<'t> {
    entries: &'t [Entry],
    pub place: Place,
    asked: Vec<&'static str>,
    keys: Option<DescribedKeys>,
}

/// The keys of a table in a description.
#[derive(Default)]
struct DescribedKeys {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
    /// Keys of which exactly one is required.
    exactly_one: &'static [&'static str],
    is_tagged: bool,
}

impl<'t> Fields<'t> {
    pub fn node(&mut self, key: &'static str) -> Option<&'t Node> {
        self.asked.push(key);
        self.peek(key)
    }

    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// The place of a key, or of the table if the key is missing.
    pub fn key_place(&self, key: &str) -> Place {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.and_then(|entry| entry.key_place.clone()).or_else(|| self.place.clone())
    }

    /// The value of a key. Unlike [`Fields::node`], this function does not make the key a known
    /// key.
    pub fn peek(&self, key: &str) -> Option<&'t Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The entries whose keys were not requested.
    pub fn unknown(&self) -> impl Iterator<Item = &'t Entry> {
        self.entries.iter().filter(|entry| !self.asked.contains(&entry.key.as_str()))
    }

    /// Reads a key. `base` is used if the key is missing or has a fault.
    pub fn over<F: Form>(&mut self, reader: &mut Reader<'t>, key: &'static str, base: F::Out, form: &F) -> F::Out {
        if let Some(keys) = &mut self.keys {
            keys.properties.insert(key.to_owned(), form.schema_over(&base));
            return base;
        }
        match self.node(key) {
            Some(node) => reader.under(key, |r| form.read_over(r, node, base)),
            None => base,
        }
    }

    /// Reads a key with a default, or a required key.
    pub fn over_or_need<F: Form>(
        &mut self,
        reader: &mut Reader<'t>,
        key: &'static str,
        default: Option<F::Out>,
        form: &F,
    ) -> Option<F::Out> {
        match default {
            Some(base) => Some(self.over(reader, key, base, form)),
            None => self.need(reader, key, |r, it| form.read(r, it)),
        }
    }

    /// Reads an optional key. Returns `None` if the key is missing, or if its value has a fault.
    /// The fault is reported.
    pub fn opt<T>(
        &mut self,
        reader: &mut Reader<'t>,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'t>, &'t Node) -> Option<T>,
    ) -> Option<T> {
        if let Some(keys) = &mut self.keys {
            let schema = reader.described(|r| read(r, &PROBE));
            keys.properties.insert(key.to_owned(), schema.unwrap_or_default());
            return None;
        }
        let node = self.node(key)?;
        reader.under(key, |r| read(r, node))
    }

    pub fn or<T: Serialize>(
        &mut self,
        reader: &mut Reader<'t>,
        key: &'static str,
        default: T,
        read: impl FnOnce(&mut Reader<'t>, &'t Node) -> Option<T>,
    ) -> T {
        let value = self.opt(reader, key, read);
        if let Some(schema) = self.keys.as_mut().and_then(|it| it.properties.get_mut(key)) {
            schema["default"] = json!(default);
        }
        value.unwrap_or(default)
    }

    pub fn or_default<T: Default>(
        &mut self,
        reader: &mut Reader<'t>,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'t>, &'t Node) -> Option<T>,
    ) -> T {
        self.opt(reader, key, read).unwrap_or_default()
    }

    pub fn need<T>(
        &mut self,
        reader: &mut Reader<'t>,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'t>, &'t Node) -> Option<T>,
    ) -> Option<T> {
        if let Some(keys) = &mut self.keys {
            keys.required.push(key);
        } else if !self.has(key) {
            self.asked.push(key);
            // A misspelt required key is reported once, by `finish`, with a suggestion.
            if self.misspelling_of(key).is_none() {
                reader.shape_help(&self.place, format!("`{key}` is missing"), None);
            }
            return None;
        }
        self.opt(reader, key, read)
    }

    fn misspelling_of(&self, key: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| !self.asked.contains(&entry.key.as_str()) && distance_is_small(&entry.key, key))
    }

    /// Reads the `type` (or `change_type`), which decides what other keys are allowed. If the type
    /// has a fault, the other keys cannot be checked.
    pub fn tag(
        &mut self,
        reader: &mut Reader<'t>,
        key: &'static str,
        names: &'static [&'static str],
    ) -> Option<&'static str> {
        if let Some((keys, description)) = self.keys.as_mut().zip(reader.description.as_mut()) {
            keys.is_tagged = true;
            description.variants = names;
            let name = names.get(description.variant).copied();
            keys.properties.insert(key.to_owned(), json!({ "const": name }));
            return name;
        }
        let Some(node) = self.node(key) else {
            let help = format!("it can be {}", listed(names.iter().copied()));
            reader.shape_help(&self.place, format!("`{key}` is missing"), Some(help));
            return None;
        };
        reader.under(key, |r| {
            let text = r.filled(node)?;
            let found = names.iter().copied().find(|name| *name == text);
            if found.is_none() {
                r.unknown_word(node, &text, names);
            }
            found
        })
    }

    /// Refuses a `key` that the schema allows but that has no meaning here.
    pub fn refuse(&self, reader: &mut Reader<'_>, key: &'static str, because: &str) {
        if self.has(key) {
            let place = self.key_place(key);
            reader.under(key, |r| r.rule(&place, format!("`{key}` {because}")));
        }
    }

    /// While a description is recorded, stores that exactly one of these keys is required.
    pub fn exactly_one(&mut self, names: &'static [&'static str]) {
        if let Some(keys) = &mut self.keys {
            keys.exactly_one = names;
        }
    }

    pub fn finish(self, reader: &mut Reader<'t>) {
        if let Some(keys) = self.keys {
            let _ = reader.describe(|| keys.schema());
            return;
        }
        for entry in self.unknown() {
            let free = self.asked.iter().copied().filter(|it| !self.has(it));
            let near = nearest(&entry.key, free).or_else(|| nearest(&entry.key, self.asked.iter().copied()));
            let help = near
                .map(|it| format!("did you mean `{it}`?"))
                .or_else(|| Some(format!("known keys are {}", self.asked.join(", "))));
            reader.under(&entry.key, |r| {
                r.shape_help(&entry.key_place, format!("unknown key `{}`", entry.key), help);
            });
        }
    }
}

impl DescribedKeys {
    /// The schema of the table. For a variant of a tagged table, the schema is incomplete: the
    /// caller of [`describe_variants`] combines the variants.
    fn schema(self) -> Value {
        let mut schema = json!({});
        if !self.is_tagged {
            schema = json!({ "type": "object", "additionalProperties": false });
        }
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema["properties"] = Value::Object(self.properties);
        if !self.exactly_one.is_empty() {
            schema["oneOf"] = self.exactly_one.iter().map(|key| json!({ "required": [key] })).collect();
        }
        schema
    }
}

/// Adds each limit that restricts the value: a minimum above 0, a maximum below `usize::MAX`.
fn limited(mut schema: Value, (least, min): (&str, usize), (most, max): (&str, usize)) -> Value {
    if min > 0 {
        schema[least] = min.into();
    }
    if max < usize::MAX {
        schema[most] = max.into();
    }
    schema
}

/// Writes 1 instead of 1.0, as in a hand-written schema.
fn short(number: f64) -> Value {
    if number.fract() == 0.0 { json!(number as i64) } else { json!(number) }
}

/// The whole number in a node. `Some(None)` if the number does not fit into `i64`, `None` if the
/// value is not a whole number.
fn as_whole(node: &Node) -> Option<Option<i64>> {
    match node.kind {
        Kind::Int(it) => Some(Some(it)),
        Kind::Float(it) if it.is_finite() && it.fract() == 0.0 => {
            // 2^63 has an exact f64 value, so the comparison is exact.
            let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&it);
            Some(fits.then_some(it as i64))
        }
        Kind::Float(_)
        | Kind::Null
        | Kind::Bool(_)
        | Kind::Text(_)
        | Kind::Date(_)
        | Kind::List(_)
        | Kind::Table(_) => None,
    }
}

/// Whether two values are equal in JSON Schema, which compares numbers by value.
fn same_json(a: &Node, b: &Node) -> bool {
    match (as_whole(a).flatten(), as_whole(b).flatten()) {
        (Some(a), Some(b)) => a == b,
        (Some(_), None) | (None, Some(_)) | (None, None) => a.kind == b.kind,
    }
}

/// The value as shown in messages. A long text is shortened; of a list or a table only the kind is
/// shown.
fn found(node: &Node) -> String {
    match &node.kind {
        Kind::Int(it) => it.to_string(),
        Kind::Float(it) => it.to_string(),
        Kind::Bool(it) => it.to_string(),
        Kind::Date(it) => it.clone(),
        Kind::Text(it) => {
            let mut short: String = it.chars().take(40).collect();
            if short.len() < it.len() {
                short.push('…');
            }
            format!("{short:?}")
        }
        Kind::Null | Kind::List(_) | Kind::Table(_) => node.kind_name().to_owned(),
    }
}

pub(crate) fn is_slug(text: &str, max: usize) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|it| it.is_ascii_lowercase())
        && characters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_' || it == '-')
        && text.len() <= max
}

fn to_slug(text: &str, max: usize) -> Option<String> {
    let slug: String = text
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() || it == '_' { it.to_ascii_lowercase() } else { '-' })
        .skip_while(|it| !it.is_ascii_lowercase())
        .take(max)
        .collect();
    (!slug.is_empty()).then_some(slug)
}

fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let two_digits =
        |part: &str| (part.len() == 2 && part.bytes().all(|it| it.is_ascii_digit())).then(|| part.parse::<u16>().ok());
    let (hours, minutes) = (two_digits(hours)??, two_digits(minutes)??);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.len() > 24 {
        let shown: Vec<&str> = names.iter().copied().take(24).collect();
        return format!("{}, and {} more", shown.join(", "), names.len() - 24);
    }
    names.join(", ")
}

/// A hint for an unknown name: the most similar known name, or `what` and all known names.
pub(crate) fn suggestion<T: AsRef<str>>(name: &str, known: impl IntoIterator<Item = T>, what: &str) -> String {
    let known: Vec<T> = known.into_iter().collect();
    let names = || known.iter().map(AsRef::as_ref);
    match nearest(name, names()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if known.is_empty() => "none are defined".to_owned(),
        None => format!("{what} {}", listed(names())),
    }
}

fn distance_is_small(a: &str, b: &str) -> bool {
    let longest = a.chars().count().max(b.chars().count());
    distance(a, b) <= (longest / 3).max(1)
}

/// The known word most similar to `word`, if it is similar enough.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .filter(|it| *it != word && it.chars().count().abs_diff(word.chars().count()) <= 3)
        .map(|it| (distance(word, it), it))
        .filter(|(_, it)| distance_is_small(word, it))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, it)| it)
}

/// Number of edits between two words. Two swapped letters are one edit; case is ignored.
fn distance(a: &str, b: &str) -> usize {
    let folded = |text: &str| text.chars().take(64).flat_map(char::to_lowercase).collect::<String>();
    strsim::osa_distance(&folded(a), &folded(b))
}
