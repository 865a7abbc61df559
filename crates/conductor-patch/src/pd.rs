//! The `.pd` format: reads statements into canvases, and writes new and changed statements.
//!
//! A statement keeps its bytes, including the white space before it. `#A` and `#X f` statements
//! belong to the box before them and are moved with it. Not here: inlet and outlet counts
//! (`objects`) and edits (`edit`).

use std::ops::Range;
use std::sync::Arc;

use crate::canvas::{Canvas, CanvasFacts, Cord, End, Face, Facts, Item, Mark};
use crate::chunk::{Chunk, Writer};
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::{Limits, OpenError};
use crate::geometry::Rect;
use crate::style::Style;

/// Files of older Pd versions wrap long statements: the line break is after the first atom that
/// ends beyond this column.
const WRAP: usize = 65;
/// Pd wraps the text of a box at this many characters unless the box states a width.
const COLUMNS: usize = 60;

/// Width and height of one character per font size. All Pd front ends use the same values.
const FONTS: [(u32, f64, f64); 6] =
    [(8, 5.0, 11.0), (10, 6.0, 13.0), (12, 7.0, 16.0), (16, 10.0, 19.0), (24, 14.0, 29.0), (36, 22.0, 44.0)];

/// Names of the creation arguments of the GUI boxes, in file order. They are the attributes of
/// these boxes.
const GUI_FIELDS: &[(&str, &str)] = &[
    ("bng", "size hold interrupt init send receive label label_x label_y font fontsize bgcolor fgcolor labelcolor"),
    ("tgl", "size init send receive label label_x label_y font fontsize bgcolor fgcolor labelcolor value nonzero"),
    (
        "nbx",
        "width height minimum maximum log init send receive label label_x label_y font fontsize bgcolor fgcolor labelcolor value log_height",
    ),
    (
        "hsl",
        "width height minimum maximum log init send receive label label_x label_y font fontsize bgcolor fgcolor labelcolor value steady",
    ),
    (
        "vsl",
        "width height minimum maximum log init send receive label label_x label_y font fontsize bgcolor fgcolor labelcolor value steady",
    ),
    (
        "hradio",
        "size change init number send receive label label_x label_y font fontsize bgcolor fgcolor labelcolor value",
    ),
    (
        "vradio",
        "size change init number send receive label label_x label_y font fontsize bgcolor fgcolor labelcolor value",
    ),
    ("vu", "width height receive label label_x label_y font fontsize bgcolor labelcolor scale"),
    ("cnv", "size width height send receive label label_x label_y font fontsize bgcolor labelcolor"),
    ("floatatom", "width minimum maximum label_position label receive send fontsize"),
    ("symbolatom", "width minimum maximum label_position label receive send fontsize"),
    ("listbox", "width minimum maximum label_position label receive send fontsize"),
];

/// Default arguments of the GUI boxes, in the order of their fields.
pub(crate) const GUI_DEFAULTS: &[(&str, &str)] = &[
    ("bng", "15 250 50 0 empty empty empty 17 7 0 10 #fcfcfc #000000 #000000"),
    ("tgl", "15 0 empty empty empty 17 7 0 10 #fcfcfc #000000 #000000 0 1"),
    ("nbx", "5 14 -1e+37 1e+37 0 0 empty empty empty 0 -8 0 10 #fcfcfc #000000 #000000 0 256"),
    ("hsl", "128 15 0 127 0 0 empty empty empty -2 -8 0 10 #fcfcfc #000000 #000000 0 1"),
    ("vsl", "15 128 0 127 0 0 empty empty empty 0 -9 0 10 #fcfcfc #000000 #000000 0 1"),
    ("hradio", "15 1 0 8 empty empty empty 0 -8 0 10 #fcfcfc #000000 #000000 0"),
    ("vradio", "15 1 0 8 empty empty empty 0 -8 0 10 #fcfcfc #000000 #000000 0"),
    ("vu", "15 120 empty empty -1 -8 0 10 #404040 #000000 1 0"),
    ("cnv", "15 100 60 empty empty empty 20 12 0 14 #e0e0e0 #404040 0"),
    ("floatatom", "5 0 0 0 - - - 0"),
    ("symbolatom", "10 0 0 0 - - - 0"),
    ("listbox", "20 0 0 0 - - - 0"),
];

/// Position of a named field among the arguments of a GUI class.
pub(crate) fn gui_field(class: &str, name: &str) -> Option<usize> {
    gui_fields(class)?.position(|field| field == name)
}

/// Field names of a GUI class, in file order.
pub(crate) fn gui_fields(class: &str) -> Option<impl Iterator<Item = &'static str>> {
    GUI_FIELDS.iter().find(|(found, _)| *found == class).map(|(_, fields)| fields.split(' '))
}

pub(crate) fn gui_default(class: &str) -> Option<&'static str> {
    GUI_DEFAULTS.iter().find(|(found, _)| *found == class).map(|(_, arguments)| *arguments)
}

/// Reads a whole file.
pub(crate) fn read(source: &[u8], limits: &Limits) -> Result<(Canvas, Vec<Diagnostic>), OpenError> {
    let mut diagnostics = Vec::new();
    let mut open = vec![Level::default()];
    let mut rooted = false;
    let mut taken = 0usize;
    let mut at = 0;
    while let Some(end) = statement_end(source, at) {
        let range = at..end;
        at = end;
        let text = source.get(range.clone()).unwrap_or_default();
        let mut words = words(text);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let chunk = Chunk::source(range.start, range.end);
        let depth = open.len();
        let root_font = open.first().and_then(|root| root.facts.font_size);
        let Some(level) = open.last_mut() else { break };
        taken += 1;
        if taken > limits.max_items {
            return Err(OpenError::TooManyItems { limit: limits.max_items });
        }
        match (first, second) {
            (b"#N", b"canvas") if !rooted => {
                rooted = true;
                level.header(text);
                level.text(chunk);
            }
            (b"#N", b"canvas") => {
                if depth > limits.max_depth {
                    return Err(OpenError::TooDeep { limit: limits.max_depth, line: line_of(source, range.start) });
                }
                let mut inner =
                    Level { facts: CanvasFacts { font_size: root_font, ..CanvasFacts::default() }, ..Level::default() };
                inner.header(text);
                inner.text(chunk);
                open.push(inner);
            }
            (b"#X", b"restore") => {
                if depth < 2 {
                    level.items.push(Item::Text(chunk));
                    let mut diagnostic = Diagnostic::new(
                        Severity::Warning,
                        "`#X restore` has no open canvas; it is kept but ignored".to_owned(),
                    );
                    diagnostic.line = Some(line_of(source, range.start));
                    push(&mut diagnostics, diagnostic);
                    continue;
                }
                let inner = open.pop().unwrap_or_default().finish(&mut diagnostics);
                if let Some(outer) = open.last_mut() {
                    let font = outer.facts.font_size;
                    let facts = facts("restore", text, font, Some(&inner.facts));
                    outer
                        .add(Face { key: "".into(), before: Chunk::EMPTY, after: chunk, facts }, Some(Arc::new(inner)));
                }
            }
            (b"#X", b"declare") => level.text(chunk),
            (b"#X", b"connect") => level.connect(text, chunk),
            (b"#A", _) | (b"#X", b"f") if level.extend(range.end, text) => {}
            (b"#X", b"coords") => {
                level.coords(text);
                level.items.push(Item::Text(chunk));
            }
            (b"#X", word) => match kind_of(word) {
                Some(kind) => {
                    let facts = facts(kind, text, level.facts.font_size, None);
                    level.add(Face { key: "".into(), before: chunk, after: Chunk::EMPTY, facts }, None);
                }
                None => level.items.push(Item::Text(chunk)),
            },
            _ => level.items.push(Item::Text(chunk)),
        }
    }
    if !rooted {
        return Err(OpenError::NotAPatch { missing: "#N canvas" });
    }
    if open.len() > 1 {
        return Err(OpenError::Unclosed { canvases: open.len() - 1, line: line_of(source, source.len()) });
    }
    let mut root = open.pop().unwrap_or_default();
    let rest = source.get(at..).unwrap_or_default();
    if rest.iter().any(|b| !b.is_ascii_whitespace()) {
        let mut diagnostic =
            Diagnostic::new(Severity::Warning, "the text after the last semicolon is kept but ignored".to_owned());
        diagnostic.line = Some(line_of(source, at));
        diagnostics.push(diagnostic);
    }
    root.items.push(Item::Text(Chunk::source(at, source.len())));
    Ok((root.finish(&mut diagnostics), diagnostics))
}

fn push(diagnostics: &mut Vec<Diagnostic>, diagnostic: Diagnostic) {
    if diagnostics.len() < 200 {
        diagnostics.push(diagnostic);
    }
}

fn line_of(source: &[u8], offset: usize) -> usize {
    source.get(..offset).unwrap_or(source).iter().filter(|b| **b == b'\n').count() + 1
}

fn statement_end(source: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += source.get(at..)?.iter().position(|b| *b == b';' || *b == b'\\')?;
        if source.get(at) == Some(&b';') {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// A canvas that is being parsed.
#[derive(Default)]
struct Level {
    items: Vec<Item>,
    boxes: Vec<(Face, Option<Arc<Canvas>>)>,
    cords: Vec<Cord>,
    facts: CanvasFacts,
    /// Position of the first box: after the header and the declarations.
    start: usize,
}

impl Level {
    fn header(&mut self, text: &[u8]) {
        let tail: Vec<&[u8]> = words(text).skip(6).take(2).collect();
        match tail.as_slice() {
            [font] => self.facts.font_size = number(font),
            [name, _] => self.facts.name = Some(show_word(name).into()),
            _ => {}
        }
    }

    fn text(&mut self, chunk: Chunk) {
        self.items.push(Item::Text(chunk));
        self.start = self.items.len();
    }

    fn add(&mut self, face: Face, inner: Option<Arc<Canvas>>) {
        self.items.push(Item::Box(self.boxes.len() as u32));
        self.boxes.push((face, inner));
    }

    /// Appends a statement to the box before it. Returns false if the item before it is not a box.
    fn extend(&mut self, end: usize, text: &[u8]) -> bool {
        let (Some(Item::Box(_)), Some((face, inner))) = (self.items.last(), self.boxes.last_mut()) else {
            return false;
        };
        let chunk = if inner.is_some() { &mut face.after } else { &mut face.before };
        let Chunk::Source { end: last, .. } = chunk else {
            return false;
        };
        *last = end as u32;
        let mut parts = words(text);
        if parts.next() == Some(b"#X") {
            face.facts.columns = parts.nth(1).and_then(number).map(|n| n.clamp(0.0, 1000.0) as u32);
            let font = self.facts.font_size;
            face.facts.rect = measure(&face.facts, font);
        }
        true
    }

    fn connect(&mut self, text: &[u8], chunk: Chunk) {
        let parts: Vec<&[u8]> = words(text).skip(2).take(4).collect();
        let [from, outlet, to, inlet] = parts.as_slice() else {
            self.items.push(Item::Text(chunk));
            return;
        };
        let end = |name: &[u8], port: &[u8]| End {
            slot: None,
            name: String::from_utf8_lossy(name).into(),
            port: number(port).map_or(u32::MAX, |n| n as u32),
        };
        self.items.push(Item::Cord(self.cords.len() as u32));
        self.cords.push(Cord {
            text: chunk,
            from: end(from, outlet),
            to: end(to, inlet),
            hidden: false,
            midpoints: [].into(),
        });
    }

    fn coords(&mut self, text: &[u8]) {
        let values: Vec<f64> = words(text).skip(2).map(|word| number(word).unwrap_or(0.0)).take(9).collect();
        if let [_, _, _, _, w, h, flags, rest @ ..] = values.as_slice()
            && (*flags as i64) & 1 == 1
        {
            self.facts.graph =
                Some(Rect::new(rest.first().copied().unwrap_or(0.0), rest.get(1).copied().unwrap_or(0.0), *w, *h));
        }
    }

    fn finish(mut self, diagnostics: &mut Vec<Diagnostic>) -> Canvas {
        let count = self.boxes.len() as u32;
        for (n, (face, _)) in self.boxes.iter_mut().enumerate() {
            face.key = format!("~{}", n + 1).into();
        }
        for cord in &mut self.cords {
            for end in [&mut cord.from, &mut cord.to] {
                end.slot = end.name.parse::<u32>().ok().filter(|slot| *slot < count);
                if end.slot.is_none() {
                    let mut diagnostic = Diagnostic::new(
                        Severity::Warning,
                        format!(
                            "a cord is connected to the missing box {}; the cord is kept and marked as dangling",
                            end.name
                        ),
                    );
                    diagnostic.subject = Some(end.name.to_string());
                    push(diagnostics, diagnostic);
                }
            }
        }
        // Pd connects a cord as soon as it reads the statement, so new cords must be written after
        // all boxes.
        let behind_boxes =
            self.items.iter().rposition(|item| matches!(item, Item::Box(_))).map_or(self.start, |at| at + 1);
        let behind_cords =
            self.items.iter().rposition(|item| matches!(item, Item::Cord(_))).map_or(0, |at| at + 1).max(behind_boxes);
        self.items.insert(behind_cords, Item::Mark(Mark::Lines));
        self.items.insert(behind_boxes, Item::Mark(Mark::Boxes));
        Canvas::assemble(self.items, self.boxes, self.cords, self.facts)
    }
}

fn kind_of(word: &[u8]) -> Option<&'static str> {
    ["obj", "msg", "text", "floatatom", "symbolatom", "listbox", "array", "scalar"]
        .into_iter()
        .find(|kind| kind.as_bytes() == word)
}

/// Atoms of a statement without its semicolon; an unescaped comma is a separate atom.
pub(crate) fn words(statement: &[u8]) -> impl Iterator<Item = &[u8]> {
    spans(statement).filter_map(|span| statement.get(span))
}

/// Ranges of the atoms of the first statement in `text`.
pub(crate) fn spans(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while text.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        let start = at;
        match text.get(at) {
            None | Some(b';') => return None,
            Some(b',') => {
                at += 1;
                return Some(start..at);
            }
            Some(_) => {}
        }
        while let Some(byte) = text.get(at) {
            match byte {
                b'\\' => at += 2,
                b';' | b',' => break,
                space if space.is_ascii_whitespace() => break,
                _ => at += 1,
            }
        }
        at = at.min(text.len());
        Some(start..at)
    })
}

fn number(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse::<f64>().ok().filter(|n| n.is_finite())
}

/// An atom as Pd shows it in a box.
fn show_word(word: &[u8]) -> String {
    match word {
        b"\\," => return ",".to_owned(),
        b"\\;" => return ";".to_owned(),
        _ => {}
    }
    let text = String::from_utf8_lossy(word);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match rest.next() {
            Some('$') => out.push('$'),
            Some('\\') => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    out
}

/// Text of a box as Pd shows it: atoms are joined by spaces; commas and semicolons follow their
/// word without a space.
fn show<'a>(words: impl Iterator<Item = &'a [u8]>) -> String {
    let mut out = String::new();
    for word in words {
        let shown = show_word(word);
        if !out.is_empty() && shown != "," && shown != ";" {
            out.push(' ');
        }
        out.push_str(&shown);
    }
    out
}

/// Converts a text, as a person types it into a box, to atoms as written in a file.
pub(crate) fn spell(text: &str) -> Vec<String> {
    let mut atoms = Vec::new();
    let mut atom = String::new();
    let mut rest = text.chars().peekable();
    let finish = |atom: &mut String, atoms: &mut Vec<String>| {
        if !atom.is_empty() {
            atoms.push(std::mem::take(atom));
        }
    };
    while let Some(character) = rest.next() {
        match character {
            ',' | ';' => {
                finish(&mut atom, &mut atoms);
                atoms.push(format!("\\{character}"));
            }
            space if space.is_whitespace() => finish(&mut atom, &mut atoms),
            '$' if rest.peek().is_some_and(char::is_ascii_digit) => atom.push_str("\\$"),
            '\\' => match rest.peek() {
                Some(',' | ';' | ' ') => {
                    atom.push('\\');
                    atom.extend(rest.next());
                }
                Some(_) | None => atom.push_str("\\\\"),
            },
            other => atom.push(other),
        }
    }
    finish(&mut atom, &mut atoms);
    atoms
}

/// Formats a statement as a new line, wrapped in the style of the file.
pub(crate) fn print(atoms: &[String], columns: Option<u32>, style: &Style) -> Vec<u8> {
    let newline = style.newline;
    let mut out = newline.to_owned();
    let mut column = 0;
    for (n, atom) in atoms.iter().enumerate() {
        if n > 0 {
            if style.wraps && column > WRAP {
                out.push_str(newline);
                column = 0;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(atom);
        column += atom.chars().count();
    }
    if let Some(columns) = columns {
        out.push_str(&format!(", f {columns}"));
    }
    out.push(';');
    out.into_bytes()
}

/// The facts of a box statement.
pub(crate) fn facts(kind: &'static str, text: &[u8], font: Option<f64>, inner: Option<&CanvasFacts>) -> Facts {
    let mut parts = words(text).skip(2);
    let mut facts = Facts { native: Some(kind), ..Facts::default() };
    let placed = !matches!(kind, "array" | "scalar");
    if placed {
        facts.rect.x = parts.next().and_then(number).unwrap_or(0.0);
        facts.rect.y = parts.next().and_then(number).unwrap_or(0.0);
    }
    let mut body: Vec<&[u8]> = parts.collect();
    let attached = own_statement(text).1;
    let mut at = 0;
    while let Some(end) = statement_end(attached, at) {
        let mut parts = words(attached.get(at..end).unwrap_or_default());
        if (parts.next(), parts.next()) == (Some(b"#X"), Some(b"f")) {
            facts.columns = parts.next().and_then(number).map(|n| n.clamp(0.0, 1000.0) as u32);
        }
        at = end;
    }
    if let Some(comma) = body.iter().position(|word| *word == b",") {
        if let Some([f, columns]) = body.get(comma + 1..)
            && *f == b"f"
        {
            facts.columns = number(columns).map(|n| n.clamp(0.0, 1000.0) as u32);
        }
        body.truncate(comma);
    }
    let shown = show(body.iter().copied());
    facts.maxclass = match kind {
        "msg" | "listbox" => "message",
        "text" => "comment",
        "floatatom" => "flonum",
        "symbolatom" => "textedit",
        "restore" => "patcher",
        "array" | "scalar" => kind,
        _ => "newobj",
    }
    .into();
    if matches!(kind, "floatatom" | "symbolatom" | "listbox") {
        facts.columns = body.first().and_then(|word| number(word)).map(|n| n.clamp(0.0, 1000.0) as u32);
    } else {
        facts.text = shown.into();
    }
    if placed {
        facts.rect = measure(&facts, font);
        if let Some(graph) = inner.and_then(|inner| inner.graph) {
            (facts.rect.w, facts.rect.h) = (graph.w.abs(), graph.h.abs());
        }
    }
    facts
}

/// Width and height of a character at a font size. If Pd does not have this size, the next smaller
/// one is used.
pub(crate) fn cell(font: Option<f64>) -> (f64, f64) {
    let size = font.unwrap_or(12.0);
    FONTS.iter().rev().find(|(found, _, _)| f64::from(*found) <= size).map_or((5.0, 11.0), |(_, w, h)| (*w, *h))
}

/// Lines of a text as Pd wraps it in a box: at the last space that fits, else in the middle of a
/// word.
pub(crate) fn wrapped(text: &str, columns: Option<u32>) -> Vec<String> {
    let limit = columns.filter(|n| *n > 0).map_or(COLUMNS, |n| n as usize);
    let letters: Vec<char> = text.chars().collect();
    let mut lines = Vec::new();
    // The loop slices the text instead of copying it, so its cost is linear.
    let mut rest = letters.as_slice();
    while rest.len() > limit {
        let (cut, skip) = match rest.iter().take(limit + 1).rposition(|c| *c == ' ') {
            Some(at) if at > 0 => (at, 1),
            Some(_) | None => (limit, 0),
        };
        let (line, tail) = rest.split_at(cut);
        lines.push(line.iter().collect());
        rest = tail.get(skip..).unwrap_or_default();
    }
    lines.push(rest.iter().collect());
    lines
}

/// The rectangle that Pd draws for a box.
pub(crate) fn measure(facts: &Facts, font: Option<f64>) -> Rect {
    let (x, y) = (facts.rect.x, facts.rect.y);
    let (w, h) = match facts.native {
        Some("floatatom" | "symbolatom" | "listbox") => {
            let size = cell(font);
            (f64::from(facts.columns.unwrap_or(5).max(1)) * size.0 + 2.0, size.1 + 4.0)
        }
        Some("obj") => match gui_size(&facts.text) {
            Some(size) => size,
            None => text_size(facts, font),
        },
        Some(_) | None => text_size(facts, font),
    };
    Rect::new(x, y, w, h)
}

fn text_size(facts: &Facts, font: Option<f64>) -> (f64, f64) {
    let size = cell(font);
    let lines = wrapped(&facts.text, facts.columns);
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0).max(3);
    let columns = match facts.columns {
        Some(columns) if columns > 0 => columns as usize,
        Some(_) | None => longest,
    };
    (columns as f64 * size.0 + 4.0, lines.len() as f64 * size.1 + 5.0)
}

fn gui_size(text: &str) -> Option<(f64, f64)> {
    let mut parts = text.split(' ');
    let class = parts.next()?;
    let given: Vec<&str> = parts.collect();
    let defaults: Vec<&str> = gui_default(class)?.split(' ').collect();
    let value = |name: &str| {
        let at = gui_field(class, name)?;
        given.get(at).or_else(|| defaults.get(at))?.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)
    };
    match class {
        "bng" | "tgl" => value("size").map(|size| (size, size)),
        "nbx" => {
            let (columns, height, font) = (value("width")?, value("height")?, value("fontsize")?);
            // The width of a digit is 31/36 of the font size. To the left of the digits is a
            // triangle that is half as wide as the box is high.
            Some(((columns * (font * 31.0 / 36.0)).floor().max(1.0) + (height / 2.0).floor() + 4.0, height))
        }
        "hradio" => Some((value("size")? * value("number")?, value("size")?)),
        "vradio" => Some((value("size")?, value("size")? * value("number")?)),
        "hsl" | "vsl" | "vu" | "cnv" => Some((value("width")?, value("height")?)),
        _ => None,
    }
}

/// Replaces atom `n` of the first statement in `text`.
pub(crate) fn replace_atom(text: &[u8], n: usize, atom: &str) -> Option<Vec<u8>> {
    let span = spans(text).nth(n)?;
    let mut out = text.to_vec();
    out.splice(span, atom.bytes());
    Some(out)
}

/// Splits a box chunk into its own statement and the `#A` statements that follow it.
pub(crate) fn own_statement(text: &[u8]) -> (&[u8], &[u8]) {
    let end = statement_end(text, 0).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}

/// At most `most` saved values of an array statement with its `#A` data, evenly spaced.
pub(crate) fn array_values(text: &[u8], most: usize) -> Vec<f64> {
    let mut values: Vec<f64> = Vec::new();
    let mut at = statement_end(text, 0).unwrap_or(text.len());
    while let Some(end) = statement_end(text, at) {
        let mut parts = words(text.get(at..end).unwrap_or_default());
        if parts.next() == Some(b"#A") {
            values.extend(parts.skip(1).map(|word| number(word).unwrap_or(0.0)));
        }
        at = end;
    }
    let step = values.len().div_ceil(most.max(1)).max(1);
    values.into_iter().step_by(step).collect()
}

/// A coordinate as Pd writes it.
pub(crate) fn coordinate(value: f64) -> String {
    format!("{}", value.round().clamp(-1e9, 1e9) as i64)
}

pub(crate) fn write_cord(writer: &mut Writer<'_>, source: &[u8], cord: &Cord, numbers: &[u32]) {
    let now =
        |end: &End| end.slot.and_then(|slot| numbers.get(slot as usize).copied()).filter(|number| *number != u32::MAX);
    let stale = |end: &End| now(end).filter(|number| end.name.parse::<u32>() != Ok(*number));
    let (from, to) = (stale(&cord.from), stale(&cord.to));
    if from.is_none() && to.is_none() {
        writer.chunk(&cord.text);
        return;
    }
    let mut text = cord.text.bytes(source).to_vec();
    for (atom, number) in [(4, to), (2, from)] {
        if let Some(number) = number
            && let Some(changed) = replace_atom(&text, atom, &number.to_string())
        {
            text = changed;
        }
    }
    writer.raw(&text);
}

/// An empty subpatch with the given header.
pub(crate) fn empty_canvas(header: Vec<u8>, font: Option<f64>) -> Canvas {
    let mut level = Level { facts: CanvasFacts { font_size: font, ..CanvasFacts::default() }, ..Level::default() };
    level.header(&header);
    level.text(Chunk::owned(header));
    level.finish(&mut Vec::new())
}

/// A new cord with its statement.
pub(crate) fn new_cord(from: End, to: End, newline: &str) -> Cord {
    let text = format!("{newline}#X connect {} {} {} {};", from.name, from.port, to.name, to.port);
    Cord { text: Chunk::owned(text), from, to, hidden: false, midpoints: [].into() }
}

pub(crate) fn name_of(index: u32) -> Arc<str> {
    index.to_string().into()
}
