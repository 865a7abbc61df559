//! The `.maxpat` format: reads a patcher into a canvas, and changes the members of one box or cord
//! in place.
//!
//! The file is read in one pass that stores byte ranges. Only the lists `boxes` and `lines` and
//! embedded patchers are parsed into objects. Not here: the `.amxd` frame (`amxd`), printing
//! (`style`) and edits (`edit`).

use std::ops::Range;
use std::sync::Arc;

use crate::canvas::{Canvas, CanvasFacts, Cord, End, Face, Facts, Item, Mark};
use crate::chunk::Chunk;
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::{Limits, OpenError};
use crate::geometry::Rect;
use crate::json::{self, JsonError, Kind, Scanner};
use crate::style::{Json, Style};

/// Reads the JSON text in the range `json` of `source` as a patch file.
pub(crate) fn read(source: &[u8], json: Range<usize>, limits: &Limits) -> Result<(Canvas, Vec<Diagnostic>), OpenError> {
    let text = source.get(..json.end).unwrap_or(source);
    if let Err(error) = std::str::from_utf8(text.get(json.start..).unwrap_or_default()) {
        let scanner = Scanner::new(text, 0);
        return Err(OpenError::Json(scanner.fail_at(json.start + error.valid_up_to(), "the text is not UTF-8")));
    }
    let mut reader = Reader { source: text, limits, taken: 0, diagnostics: Vec::new() };
    let mut scanner = Scanner::new(text, json.start);
    scanner.space();
    scanner.expect(b'{', "a patch file must start with {")?;
    let mut root = None;
    let mut more = scanner.first(b'}');
    while more {
        let key = scanner.key()?;
        let start = scanner.at;
        if text.get(key) == Some(b"patcher") && scanner.peek() == Some(b'{') {
            let canvas = reader.patcher(&mut scanner, 0)?;
            root = Some((start..scanner.at, canvas));
        } else {
            scanner.skip()?;
        }
        more = scanner.more(b'}')?;
    }
    let end = scanner.at;
    scanner.space();
    if scanner.at != json.end {
        return Err(OpenError::Json(scanner.fail("unexpected text after the patch")));
    }
    let Some((range, mut canvas)) = root else {
        return Err(OpenError::NotAPatch { missing: "patcher" });
    };
    // The bytes before and after the root patcher become text of the root canvas.
    let behind = Item::Text(Chunk::source(range.end, end.max(json.end)));
    let before = Item::Text(Chunk::source(json.start, range.start));
    canvas.items.splice(0, 0, vec![before]);
    let len = canvas.items.len();
    canvas.items.splice(len, 0, vec![behind]);
    if canvas.facts.app_version.is_none() {
        reader.diagnostics.push(Diagnostic::new(
            Severity::Info,
            "the file has no appversion: an old Max or a script wrote it".to_owned(),
        ));
    }
    Ok((canvas, reader.diagnostics))
}

/// Reads a patcher that an edit generated; its pieces own their bytes.
pub(crate) fn read_patcher(text: &[u8], limits: &Limits) -> Option<Canvas> {
    let mut reader = Reader { source: text, limits, taken: 0, diagnostics: Vec::new() };
    let mut canvas = reader.patcher(&mut Scanner::new(text, 0), 0).ok()?;
    canvas.own(text);
    Some(canvas)
}

struct Reader<'a> {
    source: &'a [u8],
    limits: &'a Limits,
    taken: usize,
    diagnostics: Vec<Diagnostic>,
}

/// A box with its embedded patcher.
type Element = (Face, Option<Arc<Canvas>>);

/// A patcher inside a box, and the range of its text.
type Embedded = Option<(Range<usize>, Arc<Canvas>)>;

/// The ranges of the items of a `boxes` or `lines` list. If the key occurs again, the earlier list
/// is converted to text.
#[derive(Clone)]
struct Section {
    items: Range<usize>,
    bytes: Range<usize>,
}

impl Reader<'_> {
    fn take(&mut self) -> Result<(), OpenError> {
        self.taken += 1;
        if self.taken > self.limits.max_items {
            return Err(OpenError::TooManyItems { limit: self.limits.max_items });
        }
        Ok(())
    }

    fn note(&mut self, scanner: &Scanner<'_>, offset: Option<usize>, message: String, subject: Option<&str>) {
        // Limit the number of diagnostics for a file with very many faults.
        if self.diagnostics.len() < 200 {
            let mut diagnostic = Diagnostic::new(Severity::Warning, message);
            diagnostic.line = offset.map(|offset| scanner.fail_at(offset, "").line);
            diagnostic.subject = subject.map(str::to_owned);
            self.diagnostics.push(diagnostic);
        }
    }

    fn patcher(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Result<Canvas, OpenError> {
        if depth > self.limits.max_depth {
            return Err(OpenError::TooDeep { limit: self.limits.max_depth, line: scanner.fail("").line });
        }
        let mut text_from = scanner.at;
        scanner.expect(b'{', "a patcher must be an object")?;
        let mut items = Vec::new();
        let mut boxes: Vec<(Face, Option<Arc<Canvas>>)> = Vec::new();
        let mut cords: Vec<Cord> = Vec::new();
        let mut offsets = Vec::new();
        let mut facts = CanvasFacts::default();
        let (mut box_section, mut line_section): (Option<Section>, Option<Section>) = (None, None);
        let mut end_of_value = scanner.at;
        let mut more = scanner.first(b'}');
        while more {
            let key = scanner.key()?;
            let key = self.source.get(key).unwrap_or_default();
            let list = scanner.peek() == Some(b'[');
            if list && (key == b"boxes" || key == b"lines") {
                let is_boxes = key == b"boxes";
                if is_boxes {
                    if let Some(old) = box_section.take() {
                        demote(&mut items, &old, &mut line_section);
                        boxes.clear();
                        offsets.clear();
                    }
                } else if let Some(old) = line_section.take() {
                    demote(&mut items, &old, &mut box_section);
                    cords.clear();
                }
                scanner.at += 1;
                items.push(Item::Text(Chunk::source(text_from, scanner.at)));
                let first_item = items.len();
                let mut gap = scanner.at;
                let mut again = scanner.first(b']');
                while again {
                    items.push(Item::Text(Chunk::source(gap, scanner.at)));
                    let element = scanner.at;
                    if is_boxes {
                        self.take()?;
                        match self.element(scanner, depth)? {
                            Some(found) => {
                                items.push(Item::Box(boxes.len() as u32));
                                offsets.push(element);
                                boxes.push(found);
                            }
                            None => {
                                self.note(
                                    scanner,
                                    Some(element),
                                    "an entry of `boxes` contains no box; it is kept but not shown".to_owned(),
                                    None,
                                );
                                items.push(Item::Text(Chunk::source(element, scanner.at)));
                            }
                        }
                    } else {
                        self.take()?;
                        match self.line(scanner)? {
                            Some(cord) => {
                                items.push(Item::Cord(cords.len() as u32));
                                cords.push(cord);
                            }
                            None => {
                                self.note(
                                    scanner,
                                    Some(element),
                                    "an entry of `lines` contains no patchline; it is kept but not shown".to_owned(),
                                    None,
                                );
                                items.push(Item::Text(Chunk::source(element, scanner.at)));
                            }
                        }
                    }
                    gap = scanner.at;
                    again = scanner.more(b']')?;
                }
                items.push(Item::Mark(if is_boxes { Mark::Boxes } else { Mark::Lines }));
                items.push(Item::Text(Chunk::source(gap, scanner.at - 1)));
                let section = Section {
                    items: first_item..items.len(),
                    bytes: gap_start(&items, first_item, gap)..scanner.at - 1,
                };
                if is_boxes {
                    box_section = Some(section);
                } else {
                    line_section = Some(section);
                }
                text_from = scanner.at - 1;
            } else {
                let (range, kind) = scanner.skip()?;
                let value = self.source.get(range).unwrap_or_default();
                self.patcher_fact(&mut facts, key, value, kind);
            }
            end_of_value = scanner.at;
            more = scanner.more(b'}')?;
        }
        items.push(Item::Text(Chunk::source(text_from, end_of_value)));
        items.push(Item::Mark(Mark::Members));
        items.push(Item::Text(Chunk::source(end_of_value, scanner.at)));
        self.settle(scanner, &mut boxes, &mut cords, &offsets);
        Ok(Canvas::assemble(items, boxes, cords, facts))
    }

    fn patcher_fact(&self, facts: &mut CanvasFacts, key: &[u8], value: &[u8], kind: Kind) {
        match key {
            b"classnamespace" if kind == Kind::String => facts.namespace = Some(string(value).into()),
            b"openinpresentation" => facts.open_in_presentation = json::number(value).is_some_and(|n| n != 0.0),
            b"default_fontsize" => facts.font_size = json::number(value).filter(|n| n.is_finite()),
            b"appversion" => {
                let part = |name: &str| {
                    let found = json::members(value).into_iter().rev().find(|(key, _, _)| key == name);
                    found.and_then(|(_, range, _)| json::number(value.get(range)?)).filter(|n| n.is_finite())
                };
                if let (Some(major), Some(minor), Some(revision)) = (part("major"), part("minor"), part("revision")) {
                    facts.app_version = Some(format!("{major}.{minor}.{revision}"));
                }
            }
            b"bgcolor" | b"editing_bgcolor" => facts.background = color(value),
            _ => {}
        }
    }

    /// One entry of `boxes`: `{ "box" : { ... } }`.
    fn element(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Result<Option<Element>, OpenError> {
        let start = scanner.at;
        if scanner.peek() != Some(b'{') {
            scanner.skip()?;
            return Ok(None);
        }
        scanner.at += 1;
        let mut found: Option<(Facts, Embedded)> = None;
        let mut more = scanner.first(b'}');
        while more {
            let key = scanner.key()?;
            if self.source.get(key) == Some(b"box") && scanner.peek() == Some(b'{') {
                found = Some(self.inside_of_box(scanner, depth)?);
            } else {
                scanner.skip()?;
            }
            more = scanner.more(b'}')?;
        }
        let end = scanner.at;
        let Some((facts, inner)) = found else {
            return Ok(None);
        };
        let (before, after, inner) = match inner {
            Some((range, canvas)) => (Chunk::source(start, range.start), Chunk::source(range.end, end), Some(canvas)),
            None => (Chunk::source(start, end), Chunk::EMPTY, None),
        };
        Ok(Some((Face { key: "".into(), before, after, facts }, inner)))
    }

    fn inside_of_box(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Result<(Facts, Embedded), OpenError> {
        scanner.at += 1;
        let mut facts = Facts::default();
        let mut inner = None;
        let mut more = scanner.first(b'}');
        while more {
            let key = scanner.key()?;
            let start = scanner.at;
            if self.source.get(key.clone()) == Some(b"patcher") && scanner.peek() == Some(b'{') {
                let canvas = self.patcher(scanner, depth + 1)?;
                inner = Some((start..scanner.at, Arc::new(canvas)));
            } else {
                let (range, kind) = scanner.skip()?;
                box_fact(
                    &mut facts,
                    self.source.get(key).unwrap_or_default(),
                    self.source.get(range).unwrap_or_default(),
                    kind,
                );
            }
            more = scanner.more(b'}')?;
        }
        Ok((facts, inner))
    }

    /// One entry of `lines`: `{ "patchline" : { ... } }`.
    fn line(&mut self, scanner: &mut Scanner<'_>) -> Result<Option<Cord>, JsonError> {
        let start = scanner.at;
        let found = cord(scanner)?;
        Ok(found.map(|cord| Cord { text: Chunk::source(start, scanner.at), ..cord }))
    }

    /// Assigns a key to every box and resolves the ends of every cord.
    fn settle(
        &mut self,
        scanner: &Scanner<'_>,
        boxes: &mut [(Face, Option<Arc<Canvas>>)],
        cords: &mut [Cord],
        offsets: &[usize],
    ) {
        let mut first: std::collections::HashMap<Arc<str>, u32> = std::collections::HashMap::new();
        let mut twice: std::collections::HashSet<Arc<str>> = std::collections::HashSet::new();
        for (slot, (face, _)) in boxes.iter().enumerate() {
            let Some(id) = &face.facts.id else { continue };
            if first.contains_key(id) {
                if twice.insert(id.clone()) {
                    let offset = offsets.get(slot).copied();
                    self.note(
                        scanner,
                        offset,
                        format!("two boxes share the id {id}: cords are connected to the first box"),
                        Some(id),
                    );
                }
            } else {
                first.insert(id.clone(), slot as u32);
            }
        }
        let mut next = 1;
        for (slot, (face, _)) in boxes.iter_mut().enumerate() {
            let offset = offsets.get(slot).copied();
            match &face.facts.id {
                Some(id) if !twice.contains(id) && !id.contains('/') => face.key = id.clone(),
                Some(_) | None => {
                    let mut key: Arc<str> = format!("~{next}").into();
                    while first.contains_key(&key) {
                        next += 1;
                        key = format!("~{next}").into();
                    }
                    next += 1;
                    face.key = key;
                }
            }
            if face.facts.id.is_none() {
                self.note(
                    scanner,
                    offset,
                    "the box has no id: no cord can be connected to it".to_owned(),
                    Some(&face.key.clone()),
                );
            }
            if face.facts.maxclass.is_empty() {
                self.note(scanner, offset, "the box has no maxclass".to_owned(), Some(&face.key.clone()));
            }
            if face.facts.inlets.is_none() || face.facts.outlets.is_none() {
                self.note(scanner, offset, "the box has no inlet or outlet count".to_owned(), Some(&face.key.clone()));
            }
            if face.facts.rect.w <= 0.0 || face.facts.rect.h <= 0.0 {
                self.note(scanner, offset, "the patching_rect has no size".to_owned(), Some(&face.key.clone()));
                let size = crate::objects::default_size(crate::Format::Maxpat, &face.facts.maxclass, &face.facts.text);
                (face.facts.rect.w, face.facts.rect.h) = size;
            }
        }
        for cord in cords {
            for end in [&mut cord.from, &mut cord.to] {
                end.slot = first.get(&end.name).copied();
                if end.slot.is_none() {
                    let name = end.name.clone();
                    self.note(
                        scanner,
                        None,
                        format!(
                            "a cord is connected to the missing box {name:?}; the cord is kept and marked as dangling"
                        ),
                        Some(&name),
                    );
                }
            }
            let count = |slot: Option<u32>, out: bool| {
                let facts = &boxes.get(slot? as usize)?.0.facts;
                if out { facts.outlets } else { facts.inlets }
            };
            for (end, out) in [(&cord.from, true), (&cord.to, false)] {
                if count(end.slot, out).is_some_and(|count| end.port >= count) {
                    let (side, port, name) = (if out { "outlet" } else { "inlet" }, end.port, end.name.clone());
                    self.note(
                        scanner,
                        None,
                        format!("a cord is connected to {side} {port} of {name}, which has fewer {side}s; the cord is marked as dangling"),
                        Some(&name),
                    );
                }
            }
        }
    }
}

fn gap_start(items: &[Item], first_item: usize, fallback: usize) -> usize {
    match items.get(first_item) {
        Some(Item::Text(Chunk::Source { start, .. })) => *start as usize,
        Some(Item::Text(Chunk::Owned(_)) | Item::Mark(_) | Item::Box(_) | Item::Cord(_)) | None => fallback,
    }
}

/// Converts the earlier list to text when its key occurs again: only the last list is valid.
fn demote(items: &mut Vec<Item>, old: &Section, other: &mut Option<Section>) {
    let text = Item::Text(Chunk::source(old.bytes.start, old.bytes.end));
    let removed = old.items.len();
    items.splice(old.items.clone(), [text]);
    if let Some(other) = other
        && other.items.start >= old.items.end
    {
        let shift = removed - 1;
        other.items = other.items.start - shift..other.items.end - shift;
    }
}

fn string(value: &[u8]) -> String {
    json::decode(value.get(1..value.len().saturating_sub(1)).unwrap_or_default()).into_owned()
}

fn finite(value: &[u8]) -> Option<f64> {
    json::number(value).filter(|n| n.is_finite())
}

fn floats(array: &[u8]) -> Vec<f64> {
    json::elements(array).into_iter().filter_map(|(range, _)| finite(array.get(range)?)).collect()
}

fn rect(array: &[u8]) -> Option<Rect> {
    // Every box has a rectangle, so parse it without allocating a list.
    let mut numbers = [0.0; 4];
    let mut count = 0;
    let mut scanner = Scanner::new(array, 0);
    scanner.expect(b'[', "").ok()?;
    let mut more = scanner.first(b']');
    while more && count < 4 {
        let (range, _) = scanner.skip().ok()?;
        *numbers.get_mut(count)? = finite(array.get(range)?)?;
        count += 1;
        more = scanner.more(b']').ok()?;
    }
    let [x, y, w, h] = numbers;
    match count {
        4 => Some(Rect::new(x, y, w, h)),
        2 | 3 => Some(Rect::new(x, y, 0.0, 0.0)),
        _ => None,
    }
}

/// Parses four colour components, or three with full opacity.
pub(crate) fn color(array: &[u8]) -> Option<[f64; 4]> {
    match floats(array).as_slice() {
        [r, g, b, a, ..] => Some([*r, *g, *b, *a]),
        [r, g, b] => Some([*r, *g, *b, 1.0]),
        _ => None,
    }
}

/// Reads one member of a box into its facts. A later duplicate overwrites an earlier one.
fn box_fact(facts: &mut Facts, key: &[u8], value: &[u8], kind: Kind) {
    let count = || finite(value).filter(|n| *n >= 0.0 && *n <= 65_535.0).map(|n| n as u32);
    let on = || finite(value).is_some_and(|n| n != 0.0) || value == b"true";
    match key {
        b"id" if kind == Kind::String => facts.id = Some(string(value).into()),
        b"id" if kind == Kind::Number => facts.id = Some(String::from_utf8_lossy(value).into()),
        b"varname" if kind == Kind::String => {
            facts.varname = Some(string(value).into()).filter(|name: &Arc<str>| !name.is_empty())
        }
        b"maxclass" if kind == Kind::String => facts.maxclass = string(value).into(),
        b"text" if kind == Kind::String => facts.text = string(value).into(),
        b"patching_rect" => facts.rect = rect(value).unwrap_or_default(),
        b"presentation_rect" => facts.presentation_rect = rect(value),
        b"presentation" => facts.presentation = on(),
        b"hidden" => facts.hidden = on(),
        b"background" => facts.background = on(),
        b"numinlets" => facts.inlets = count(),
        b"numoutlets" => facts.outlets = count(),
        b"fontsize" => facts.font_size = finite(value),
        b"drawfirstin" => facts.first_inlet_hidden = !on(),
        _ => {}
    }
}

/// Reads an entry of `lines`; `None` if it contains no patchline. The caller sets the range of its
/// text.
fn cord(scanner: &mut Scanner<'_>) -> Result<Option<Cord>, JsonError> {
    if scanner.peek() != Some(b'{') {
        scanner.skip()?;
        return Ok(None);
    }
    scanner.at += 1;
    let mut found = None;
    let mut more = scanner.first(b'}');
    while more {
        let key = scanner.key()?;
        if scanner.bytes.get(key) == Some(b"patchline") && scanner.peek() == Some(b'{') {
            found = Some(patchline(scanner)?);
        } else {
            scanner.skip()?;
        }
        more = scanner.more(b'}')?;
    }
    Ok(found)
}

fn patchline(scanner: &mut Scanner<'_>) -> Result<Cord, JsonError> {
    let missing = || End { slot: None, name: "".into(), port: 0 };
    let mut cord = Cord { text: Chunk::EMPTY, from: missing(), to: missing(), hidden: false, midpoints: [].into() };
    scanner.at += 1;
    let mut more = scanner.first(b'}');
    while more {
        let key = scanner.key()?;
        let (range, kind) = scanner.skip()?;
        let value = scanner.bytes.get(range).unwrap_or_default();
        match scanner.bytes.get(key) {
            Some(b"source") => cord.from = end(value),
            Some(b"destination") => cord.to = end(value),
            Some(b"hidden") => cord.hidden = finite(value).is_some_and(|n| n != 0.0),
            Some(b"midpoints") if kind == Kind::Array => {
                let points = floats(value);
                // `floats` skips values that are not numbers: some scripts write `[ null ]` for a
                // straight cord. An x without its y is dropped.
                cord.midpoints = points.get(..points.len() & !1).unwrap_or_default().into();
            }
            Some(_) | None => {}
        }
        more = scanner.more(b'}')?;
    }
    Ok(cord)
}

fn end(value: &[u8]) -> End {
    let mut end = End { slot: None, name: "".into(), port: 0 };
    let mut scanner = Scanner::new(value, 0);
    if scanner.expect(b'[', "").is_err() || !scanner.first(b']') {
        return end;
    }
    if let Ok((range, kind)) = scanner.skip() {
        let raw = value.get(range).unwrap_or_default();
        end.name = if kind == Kind::String { string(raw).into() } else { String::from_utf8_lossy(raw).into() };
    }
    if scanner.more(b']') == Ok(true)
        && let Ok((range, _)) = scanner.skip()
    {
        // A negative port is invalid; the largest number makes the cord dangling.
        end.port =
            finite(value.get(range).unwrap_or_default()).map_or(0, |n| if n < 0.0 { u32::MAX } else { n as u32 });
    }
    end
}

/// The text of one box or cord, parsed so that its members can be changed.
///
/// A placeholder replaces an embedded patcher, so that the cost does not depend on the patcher's
/// size.
pub(crate) struct Shape {
    buffer: Vec<u8>,
    hole: Option<usize>,
    members: Vec<Member>,
    /// Position after the opening brace of the inner object.
    open: usize,
    level: usize,
}

struct Member {
    key: String,
    key_at: usize,
    value: Range<usize>,
    kind: Kind,
}

const PLACEHOLDER: &[u8] = b"null";

impl Shape {
    /// `wrapper` is `box` or `patchline`; `depth` is the depth of the canvas that contains the
    /// item.
    pub(crate) fn open(before: &[u8], after: Option<&[u8]>, wrapper: &str, depth: usize) -> Option<Shape> {
        let mut buffer = before.to_vec();
        let hole = after.map(|after| {
            let at = buffer.len();
            buffer.extend_from_slice(PLACEHOLDER);
            buffer.extend_from_slice(after);
            at
        });
        let mut shape = Shape { buffer, hole, members: Vec::new(), open: 0, level: Style::item_level(depth) + 2 };
        shape.scan(wrapper)?;
        Some(shape)
    }

    fn scan(&mut self, wrapper: &str) -> Option<()> {
        let (_, range, _) = json::members(&self.buffer)
            .into_iter()
            .rev()
            .find(|(key, _, kind)| key == wrapper && *kind == Kind::Object)?;
        self.open = range.start + 1;
        self.rescan()
    }

    fn rescan(&mut self) -> Option<()> {
        let mut scanner = Scanner::new(&self.buffer, self.open);
        let mut members = Vec::new();
        let mut more = scanner.first(b'}');
        while more {
            let key_at = scanner.at;
            let key = scanner.key().ok()?;
            let (value, kind) = scanner.skip().ok()?;
            members.push(Member { key: json::decode(self.buffer.get(key)?).into_owned(), key_at, value, kind });
            more = scanner.more(b'}').ok()?;
        }
        self.members = members;
        Some(())
    }

    fn splice(&mut self, range: Range<usize>, bytes: &[u8]) {
        if let Some(hole) = &mut self.hole
            && range.end <= *hole
        {
            *hole = *hole - range.len() + bytes.len();
        }
        self.buffer.splice(range, bytes.iter().copied());
        let _ = self.rescan();
    }

    pub(crate) fn get(&self, key: &str) -> Option<(&[u8], Kind)> {
        let member = self.members.iter().rev().find(|member| member.key == key)?;
        Some((self.buffer.get(member.value.clone())?, member.kind))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.key.as_str())
    }

    /// Sets a member in the style of the file. An existing member is replaced in place; a new one
    /// is inserted in alphabetical order.
    pub(crate) fn set(&mut self, style: &Style, key: &str, value: &Json) {
        if let Some(at) = self.members.iter().rposition(|member| member.key == key) {
            self.overwrite(style, at, value);
            return;
        }
        let printed = style.member(key, value, self.level);
        let is_object = matches!(value, Json::Object(_));
        if let Some(next) = self.members.iter().find(|member| member.key.as_str() > key) {
            let at = next.key_at;
            let separator = style.next_member(self.level, is_object);
            self.splice(at..at, format!("{printed}{separator}").as_bytes());
        } else if let Some(last) = self.members.last() {
            let at = last.value.end;
            let separator = style.next_member(self.level, last.kind == Kind::Object);
            self.splice(at..at, format!("{separator}{printed}").as_bytes());
        } else {
            let mut object = String::new();
            style.print(
                &Json::Object(vec![(key.to_owned(), value.clone())]),
                self.level.saturating_sub(1),
                &mut object,
            );
            // Replace the empty object, including both braces.
            let close = self
                .buffer
                .get(self.open..)
                .and_then(|rest| rest.iter().position(|b| *b == b'}'))
                .map_or(self.open, |p| self.open + p + 1);
            self.splice(self.open - 1..close, object.as_bytes());
        }
    }

    fn overwrite(&mut self, style: &Style, at: usize, value: &Json) {
        let Some(member) = self.members.get(at) else {
            return;
        };
        let range = member.value.clone();
        let old = self.buffer.get(range.clone()).unwrap_or_default();
        if let Json::Array(items) = value
            && member.kind == Kind::Array
        {
            // For a list of the same length, write only the items that differ. Unchanged numbers
            // keep their spelling.
            let parts = json::elements(old);
            let scalars: Vec<&str> = items
                .iter()
                .filter_map(|item| if let Json::Scalar(text) = item { Some(text.as_str()) } else { None })
                .collect();
            if parts.len() == items.len() && scalars.len() == items.len() {
                for (part, text) in parts.into_iter().zip(scalars).rev() {
                    let span = range.start + part.0.start..range.start + part.0.end;
                    let spelled = self.buffer.get(span.clone()).unwrap_or_default();
                    let same = spelled == text.as_bytes()
                        || (part.1 == Kind::Number && json::number(spelled) == json::number(text.as_bytes()));
                    if !same {
                        self.splice(span, text.as_bytes());
                    }
                }
                return;
            }
        }
        let mut printed = String::new();
        style.print(value, self.level, &mut printed);
        if old != printed.as_bytes() {
            self.splice(range, printed.as_bytes());
        }
    }

    /// Removes every member with this key.
    pub(crate) fn remove(&mut self, key: &str) {
        while let Some(at) = self.members.iter().rposition(|member| member.key == key) {
            let Some(member) = self.members.get(at) else {
                return;
            };
            if let Some(next) = self.members.get(at + 1) {
                let range = member.key_at..next.key_at;
                self.drop_range(range);
            } else if let Some(previous) = at.checked_sub(1).and_then(|p| self.members.get(p)) {
                let range = previous.value.end..member.value.end;
                self.drop_range(range);
            } else {
                let range = member.key_at..member.value.end;
                self.drop_range(range);
            }
        }
    }

    fn drop_range(&mut self, range: Range<usize>) {
        if self.hole.is_some_and(|hole| range.contains(&hole)) {
            self.hole = None;
        }
        self.splice(range, b"");
    }

    /// Inserts a placeholder for an embedded patcher as the member `patcher`.
    pub(crate) fn dig(&mut self, style: &Style) {
        let marker = Json::Object(vec![]);
        self.remove("patcher");
        self.set(style, "patcher", &marker);
        if let Some(member) = self.members.iter().rfind(|member| member.key == "patcher") {
            let range = member.value.clone();
            let at = range.start;
            self.splice(range, PLACEHOLDER);
            self.hole = Some(at);
        }
    }

    /// The bytes before and after the embedded patcher; the second is `None` without an embedded
    /// patcher.
    pub(crate) fn close(self) -> (Vec<u8>, Option<Vec<u8>>) {
        match self.hole {
            Some(hole) => {
                let mut before = self.buffer;
                let after = before.split_off((hole + PLACEHOLDER.len()).min(before.len()));
                before.truncate(hole);
                (before, Some(after))
            }
            None => (self.buffer, None),
        }
    }

    /// Facts of the box according to its current members.
    pub(crate) fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        for member in &self.members {
            box_fact(
                &mut facts,
                member.key.as_bytes(),
                self.buffer.get(member.value.clone()).unwrap_or_default(),
                member.kind,
            );
        }
        facts
    }
}

/// Reads a cord from text that an edit generated.
pub(crate) fn reread_cord(text: Vec<u8>, old: &Cord) -> Option<Cord> {
    let mut fresh = cord(&mut Scanner::new(&text, 0)).ok()??;
    fresh.from.slot = old.from.slot;
    fresh.to.slot = old.to.slot;
    fresh.text = Chunk::owned(text);
    Some(fresh)
}
