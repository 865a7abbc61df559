//! Built-in Sets, tracks and clips. A built-in track or clip is used if a document has none to
//! clone. The texts are in `skeleton.txt`.
//!
//! Not here: inserting a new track into a Set, which works like inserting a clone.

use crate::document::{Document, Family};
use crate::error::LiveError;
use crate::xml::escape;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

const NOTATION: &str = include_str!("skeleton.txt");

/// The gain of a closed send, as Live writes it.
pub(crate) const SILENCE: &str = "0.0003162277571";

// Parts can include other parts. The limit ends an accidental recursion.
const MAX_NESTING: usize = 16;

struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
}

fn element(name: &str) -> Element {
    Element { name: name.to_owned(), attributes: Vec::new(), children: Vec::new() }
}

fn valued(name: &str, value: &str) -> Element {
    with(element(name), "Value", value)
}

fn with(mut el: Element, key: &str, value: &str) -> Element {
    el.attributes.push((key.to_owned(), value.to_owned()));
    el
}

type Values = BTreeMap<String, String>;

/// Builds elements from the notation of `skeleton.txt` for one format family, and assigns ids.
struct Builder {
    parts: HashMap<&'static str, Vec<(usize, &'static str)>>,
    family: Family,
    next: u32,
    labels: HashMap<String, u32>,
}

impl Builder {
    fn new(family: Family) -> Builder {
        let mut parts: HashMap<&'static str, Vec<(usize, &'static str)>> = HashMap::new();
        let mut current = "";
        for line in NOTATION.lines() {
            if let Some(name) = line.strip_prefix("== ") {
                current = name;
                parts.insert(current, Vec::new());
            } else if let Some(lines) = parts.get_mut(current)
                && !line.trim().is_empty()
            {
                let depth = line.bytes().take_while(|b| *b == b'\t').count();
                lines.push((depth, &line[depth..]));
            }
        }
        Builder { parts, family, next: 1, labels: HashMap::new() }
    }

    fn id(&mut self, label: Option<&str>) -> String {
        if let Some(label) = label {
            if let Some(id) = self.labels.get(label) {
                return id.to_string();
            }
            self.labels.insert(label.to_owned(), self.next);
        }
        self.next += 1;
        (self.next - 1).to_string()
    }

    fn applies(&self, condition: &str) -> bool {
        let family = |text: &str| match text {
            "11" => Family::Live11,
            "12.0" => Family::Live12,
            _ => Family::Live12_1,
        };
        match (condition.strip_suffix('+'), condition.strip_prefix('-')) {
            (Some(from), _) => self.family >= family(from),
            (None, Some(to)) => self.family <= family(to),
            (None, None) => false,
        }
    }

    fn part(&mut self, name: &str, values: &Values, nesting: usize) -> Vec<Element> {
        let lines = self.parts.get(name).cloned().unwrap_or_default();
        if nesting > MAX_NESTING { Vec::new() } else { self.lines(&lines, values, nesting) }
    }

    /// Builds elements from the lines of one depth; deeper lines below a line are its children.
    fn lines(&mut self, lines: &[(usize, &'static str)], values: &Values, nesting: usize) -> Vec<Element> {
        let mut out = Vec::new();
        let mut rest = lines;
        while let Some(((depth, line), after)) = rest.split_first() {
            let inner = after.iter().take_while(|(d, _)| d > depth).count();
            let (below, following) = after.split_at(inner);
            rest = following;
            let mut line = *line;
            if let Some((condition, kept)) = line.strip_prefix('[').and_then(|l| l.split_once("] ")) {
                if !self.applies(condition) {
                    continue;
                }
                line = kept;
            }
            let line = fill(line, values);
            let first = out.len();
            self.line(&line, values, nesting, &mut out);
            if !below.is_empty() {
                let children = self.lines(below, values, nesting);
                if let Some(el) = out.get_mut(first) {
                    el.children.extend(children);
                }
            }
        }
        out
    }

    fn line(&mut self, line: &str, values: &Values, nesting: usize, out: &mut Vec<Element>) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let args: Vec<&str> = rest.split(' ').filter(|a| !a.is_empty()).collect();
        let arg = |n: usize| args.get(n).copied().unwrap_or_default();
        let label = args.iter().find_map(|a| a.strip_prefix('&'));
        if let Some(count) = word.strip_prefix('*') {
            let part = rest.trim_start_matches('@');
            for n in 0..count.parse().unwrap_or(0) {
                let mut inner = values.clone();
                inner.insert("n".into(), u32::to_string(&n));
                out.extend(self.part(part, &inner, nesting + 1));
            }
        } else if let Some(part) = word.strip_prefix('@') {
            let mut inner = values.clone();
            for (key, value) in rest.split(';').filter_map(|pair| pair.split_once('=')) {
                inner.insert(key.trim().to_owned(), value.trim().to_owned());
            }
            out.extend(self.part(part, &inner, nesting + 1));
        } else if let Some(name) = word.strip_prefix('~') {
            let mut range = element("MidiControllerRange");
            range.children = vec![valued("Min", arg(1)), valued("Max", arg(2))];
            let mut el = element(name);
            el.children = vec![valued("LomId", "0"), valued("Manual", arg(0)), range];
            el.children.push(self.target("AutomationTarget", "0", label));
            el.children.push(self.target("ModulationTarget", "0", None));
            out.push(el);
        } else if let Some(name) = word.strip_prefix('!') {
            let mut thresholds = element("MidiCCOnOffThresholds");
            thresholds.children = vec![valued("Min", "64"), valued("Max", "127")];
            let mut el = element(name);
            el.children = vec![valued("LomId", "0"), valued("Manual", arg(0))];
            el.children.push(self.target("AutomationTarget", "0", label));
            el.children.push(thresholds);
            out.push(el);
        } else if let Some(name) = word.strip_prefix('%') {
            let mut el = element(name);
            el.children = vec![valued("LomId", "0"), valued("Manual", arg(0))];
            el.children.push(self.target("AutomationTarget", "0", label));
            out.push(el);
        } else if let Some(name) = word.strip_prefix("^*") {
            let locks: Vec<&str> = arg(1).split(',').collect();
            for n in 0..arg(0).parse().unwrap_or(0) {
                let n = u32::to_string(&n);
                let lock = if locks.contains(&n.as_str()) { "1" } else { "0" };
                out.push(self.target(&format!("{name}.{n}"), lock, None));
            }
        } else if let Some(name) = word.strip_prefix('^') {
            out.push(self.target(name, arg(0), label));
        } else if let Some(name) = word.strip_prefix('#') {
            let id = self.id(None);
            out.push(with(element(name), "Id", &id));
        } else if let Some(value) = rest.strip_prefix('=') {
            let value = value.trim();
            let value = match value.strip_prefix('&') {
                Some(label) => self.id(Some(label)),
                None => value.to_owned(),
            };
            out.push(valued(word, &value));
        } else {
            let pairs = args.iter().filter_map(|a| a.split_once('='));
            out.push(pairs.fold(element(word), |el, (k, v)| with(el, k, v)));
        }
    }

    fn target(&mut self, name: &str, lock: &str, label: Option<&str>) -> Element {
        let id = self.id(label);
        let mut el = with(element(name), "Id", &id);
        el.children = vec![valued("LockEnvelope", lock)];
        el
    }
}

/// Replaces each `$key` by its value; if several keys match, the longest one is used.
fn fill(line: &str, values: &Values) -> String {
    let mut out = line.to_owned();
    for (key, value) in values.iter().rev() {
        out = out.replace(&format!("${key}"), value);
    }
    out
}

fn print(el: &Element, unit: &str, newline: &str, depth: usize, out: &mut String) {
    let indent = unit.repeat(depth);
    let _ = write!(out, "{indent}<{}", el.name);
    for (key, value) in &el.attributes {
        let _ = write!(out, " {key}=\"{}\"", escape(value, false));
    }
    if el.children.is_empty() {
        out.push_str(" />");
        return;
    }
    out.push('>');
    for child in &el.children {
        out.push_str(newline);
        print(child, unit, newline, depth + 1, out);
    }
    let _ = write!(out, "{newline}{indent}</{}>", el.name);
}

fn values(family: Family, pairs: &[(&str, &str)]) -> Values {
    let panel = if family >= Family::Live12_1 {
        "SelectedToolPanel=7 SelectedTransformationName= SelectedGeneratorName="
    } else {
        ""
    };
    let main = if family >= Family::Live12 { "Main" } else { "Master" };
    let fixed = [("panel", panel), ("main", main), ("enabled", "true")];
    fixed.iter().chain(pairs).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// One part as text; the first line is not indented.
fn text(part: &str, doc: &Document, pairs: &[(&str, &str)]) -> String {
    let family = doc.schema.family;
    let mut out = String::new();
    for el in Builder::new(family).part(part, &values(family, pairs), 0) {
        print(&el, &doc.unit, doc.newline, 0, &mut out);
    }
    out
}

/// A `MidiTrack` or `AudioTrack` without clips and devices. The caller then adds the slots and
/// sends that the Set needs.
pub(crate) fn track(tag: &str, doc: &Document) -> String {
    let part = if tag == "MidiTrack" { "midi" } else { "audio" };
    text(part, doc, &[("id", "0"), ("name", ""), ("color", "12"), ("sends", "0"), ("slots", "0")])
}

/// An empty session slot.
pub(crate) fn slot(n: usize, doc: &Document) -> String {
    text("slot", doc, &[("n", &n.to_string())])
}

/// A closed send.
pub(crate) fn send(n: usize, doc: &Document) -> String {
    text("send", doc, &[("n", &n.to_string())])
}

/// A MIDI clip without notes, four beats long.
pub(crate) fn midi_clip(doc: &Document) -> String {
    text("clip", doc, &[])
}

impl Document {
    /// A new Set of the Live 12.0 format: one MIDI and one audio track, two return tracks, eight
    /// scenes, 120 beats per minute.
    ///
    /// The Set has every element that the public Sets of this format share. It was not tested in
    /// Live, so callers must warn the person.
    ///
    /// # Errors
    /// Returns an error only if this crate has a bug.
    pub fn new_set() -> Result<Document, LiveError> {
        let family = Family::Live12;
        let mut builder = Builder::new(family);
        let values = values(family, &[("sends", "2"), ("slots", "8")]);
        let mut roots = builder.part("set", &values, 0);
        let next = builder.next.to_string();
        // The next free id is known only after all ids are assigned.
        if let Some(el) = roots.first_mut().and_then(|r| r.children.first_mut()).and_then(|s| s.children.first_mut()) {
            *el = valued("NextPointeeId", &next);
        }
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        for el in &roots {
            print(el, "\t", "\n", 0, &mut xml);
        }
        xml.push('\n');
        Document::from_xml(xml)
    }
}
