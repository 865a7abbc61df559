//! Finds the places of items in the text of a TOML document, and computes the smallest replacements
//! that add, remove or change them.
//!
//! Writing the whole document would reformat other lines. Replacing single ranges keeps all other
//! bytes. Not here: the meaning of a row.

use super::write;
use serde_json::{Map, Value};
use std::ops::Range;
use toml_edit::{Document, InlineTable, Item, Table};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// A path such as `modes[2].mappings`. Parts that are numbers become indexes.
pub(crate) fn path(parts: &[&str]) -> Vec<Step> {
    let step = |part: &&str| part.parse().map_or_else(|_| Step::Key((*part).to_owned()), Step::Index);
    parts.iter().map(step).collect()
}

pub(crate) fn child(parent: &[Step], key: &str, index: Option<usize>) -> Vec<Step> {
    let mut out = parent.to_vec();
    out.push(Step::Key(key.to_owned()));
    out.extend(index.map(Step::Index));
    out
}

/// A header with its key-value lines. Comments and blank lines after the last key-value line belong
/// to the next header.
struct Section {
    path: Vec<Step>,
    /// Start of the header's line.
    start: usize,
    /// End of the line of the last key-value pair.
    end: usize,
    /// End of the header's line.
    body: usize,
}

/// The range of a value in a list, or of a key-value pair.
type Piece = Range<usize>;

enum Held<'d> {
    Table(&'d Table),
    Inline(&'d InlineTable),
    Other,
}

enum List<'d> {
    Absent,
    Sections(usize),
    Inline(&'d toml_edit::Array),
}

/// One replacement. All places refer to the original text.
pub(crate) struct Splice {
    pub at: Range<usize>,
    pub with: String,
}

pub(crate) fn splice(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|it| (it.at.start, it.at.end));
    let mut out = String::with_capacity(text.len() + 256);
    let mut cursor = 0;
    for splice in splices {
        out.push_str(text.get(cursor..splice.at.start).unwrap_or_default());
        out.push_str(&splice.with);
        cursor = cursor.max(splice.at.end);
    }
    out.push_str(text.get(cursor..).unwrap_or_default());
    out
}

pub(crate) struct Layout<'t> {
    text: &'t str,
    document: Document<&'t str>,
    /// All sections in the order of the text. The first is the root, which has no header.
    sections: Vec<Section>,
    newline: &'static str,
}

impl<'t> Layout<'t> {
    pub fn new(text: &'t str) -> Option<Self> {
        let document = Document::parse(text).ok()?;
        let newline = match text.find('\n') {
            Some(at) if text.get(..at).is_some_and(|it| it.ends_with('\r')) => "\r\n",
            Some(_) | None => "\n",
        };
        let mut layout = Layout { text, document, sections: Vec::new(), newline };
        let mut sections = Vec::new();
        let root_end = layout.statements_end(layout.document.as_table()).unwrap_or(0);
        sections.push(Section { path: Vec::new(), start: 0, end: root_end, body: 0 });
        layout.collect(layout.document.as_table(), &[], &mut sections);
        sections.sort_by_key(|it| it.start);
        layout.sections = sections;
        Some(layout)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|it| it.rfind('\n')).map_or(0, |newline| newline + 1)
    }

    /// The place after the newline of the line that contains `at`, or the end of the text.
    fn line_end(&self, at: usize) -> usize {
        self.text.get(at..).and_then(|it| it.find('\n')).map_or(self.text.len(), |newline| at + newline + 1)
    }

    fn line(&self, start: usize) -> &'t str {
        self.text.get(start..self.line_end(start)).unwrap_or_default().trim()
    }

    fn indent(&self, at: usize) -> &'t str {
        let start = self.line_start(at);
        let line = self.text.get(start..self.line_end(start)).unwrap_or_default();
        line.get(..line.len() - line.trim_start_matches([' ', '\t']).len()).unwrap_or_default()
    }

    fn collect(&self, table: &Table, at: &[Step], out: &mut Vec<Section>) {
        for (key, item) in table {
            match item {
                Item::Table(it) => {
                    let at = child(at, key, None);
                    self.section(it, &at, out);
                    self.collect(it, &at, out);
                }
                Item::ArrayOfTables(elements) => {
                    for (index, it) in elements.iter().enumerate() {
                        let at = child(at, key, Some(index));
                        self.section(it, &at, out);
                        self.collect(it, &at, out);
                    }
                }
                Item::None | Item::Value(_) => {}
            }
        }
    }

    /// Adds the section of a table. A table without a header, from dotted keys or from deeper
    /// headers, has no section.
    fn section(&self, table: &Table, at: &[Step], out: &mut Vec<Section>) {
        if table.is_dotted() || table.is_implicit() {
            return;
        }
        let Some(header) = table.span() else { return };
        let start = self.line_start(header.start);
        let body = self.line_end(header.end);
        let end = self.statements_end(table).unwrap_or(body).max(body);
        out.push(Section { path: at.to_vec(), start, end, body });
    }

    fn statements_end(&self, table: &Table) -> Option<usize> {
        let ends = self.statements(table).into_iter().map(|it| self.line_end(it.end));
        ends.max()
    }

    /// The range of each key-value pair of this table, including dotted keys, in the order of the
    /// text.
    fn statements(&self, table: &Table) -> Vec<Piece> {
        let mut out = Vec::new();
        for (name, _) in table {
            let Some((key, item)) = table.get_key_value(name) else { continue };
            match item {
                Item::Value(it) => {
                    if let (Some(key), Some(value)) = (key.span(), it.span()) {
                        // Start at the line's first character: the key may be the last part of a
                        // dotted key.
                        let start = self.line_start(key.start);
                        out.push(start + self.indent(start).len()..value.end);
                    }
                }
                Item::Table(it) if it.is_dotted() => out.extend(self.statements(it)),
                Item::Table(_) | Item::ArrayOfTables(_) | Item::None => {}
            }
        }
        out.sort_by_key(|it| it.start);
        out
    }

    fn held(&self, at: &[Step]) -> Held<'_> {
        let mut now = Held::Table(self.document.as_table());
        let mut steps = at.iter();
        while let Some(Step::Key(key)) = steps.next() {
            let item = match now {
                Held::Table(table) => table.get(key),
                Held::Inline(table) => {
                    now = match (table.get(key), steps.next()) {
                        (Some(value), Some(Step::Index(index))) => {
                            let element = value.as_array().and_then(|it| it.get(*index));
                            element.and_then(toml_edit::Value::as_inline_table).map_or(Held::Other, Held::Inline)
                        }
                        (Some(value), None) => value.as_inline_table().map_or(Held::Other, Held::Inline),
                        (None, _) | (Some(_), Some(Step::Key(_))) => Held::Other,
                    };
                    continue;
                }
                Held::Other => None,
            };
            now = match item {
                Some(Item::Table(table)) => Held::Table(table),
                Some(Item::ArrayOfTables(elements)) => match steps.next() {
                    Some(Step::Index(index)) => elements.get(*index).map_or(Held::Other, Held::Table),
                    Some(Step::Key(_)) | None => Held::Other,
                },
                Some(Item::Value(toml_edit::Value::InlineTable(table))) => Held::Inline(table),
                Some(Item::Value(value)) => match (value.as_array(), steps.next()) {
                    (Some(array), Some(Step::Index(index))) => {
                        let element = array.get(*index).and_then(toml_edit::Value::as_inline_table);
                        element.map_or(Held::Other, Held::Inline)
                    }
                    (Some(_) | None, _) => Held::Other,
                },
                Some(Item::None) | None => Held::Other,
            };
        }
        now
    }

    fn list(&self, owner: &[Step], key: &str) -> List<'_> {
        let item = match self.held(owner) {
            Held::Table(table) => table.get(key),
            Held::Inline(table) => match table.get(key).and_then(toml_edit::Value::as_array) {
                Some(array) => return List::Inline(array),
                None => return List::Absent,
            },
            Held::Other => None,
        };
        match item {
            Some(Item::ArrayOfTables(elements)) => List::Sections(elements.len()),
            Some(Item::Value(value)) => value.as_array().map_or(List::Absent, List::Inline),
            Some(Item::Table(_) | Item::None) | None => List::Absent,
        }
    }

    fn sections_under(&self, at: &[Step]) -> impl Iterator<Item = (usize, &Section)> {
        self.sections.iter().enumerate().filter(move |(_, it)| !at.is_empty() && it.path.starts_with(at))
    }

    /// Start of the comments above a header, up to the first blank line.
    fn remarks_start(&self, index: usize) -> usize {
        let Some(section) = self.sections.get(index) else { return 0 };
        let floor = self.sections.get(index.wrapping_sub(1)).map_or(0, |it| it.end);
        let mut start = section.start;
        while start > floor {
            let above = self.line_start(start - 1);
            if above < floor || !self.line(above).starts_with('#') {
                break;
            }
            start = above;
        }
        start
    }

    /// The text of a row. A row that is written as sections includes the comments directly above
    /// it.
    pub fn source(&self, owner: &[Step], key: &str, index: usize) -> Option<Source> {
        match self.list(owner, key) {
            List::Absent => None,
            List::Inline(array) => {
                let span = array.get(index)?.span()?;
                Some(Source::Value(self.text.get(span)?.to_owned()))
            }
            List::Sections(_) => {
                let at = child(owner, key, Some(index));
                let parts = self.sections_under(&at).filter_map(|(i, it)| self.text.get(self.remarks_start(i)..it.end));
                let parts: Vec<String> = parts.map(|it| it.trim_end().to_owned()).collect();
                (!parts.is_empty()).then(|| Source::Sections(parts.join(&self.newline.repeat(2))))
            }
        }
    }

    pub fn remove_element(&self, owner: &[Step], key: &str, index: usize) -> Option<Vec<Splice>> {
        match self.list(owner, key) {
            List::Absent => None,
            List::Inline(array) => {
                let pieces: Vec<Piece> = array.iter().filter_map(toml_edit::Value::span).collect();
                Some(vec![self.remove_piece(&pieces, index)?])
            }
            List::Sections(_) => {
                let at = child(owner, key, Some(index));
                let splices: Vec<Splice> = self.sections_under(&at).map(|(i, _)| self.remove_section(i)).collect();
                (!splices.is_empty()).then_some(splices)
            }
        }
    }

    /// Removes a section, its comments and one blank line, so that the space between the remaining
    /// sections stays the same.
    fn remove_section(&self, index: usize) -> Splice {
        let mut start = self.remarks_start(index);
        let mut end = self.sections.get(index).map_or(start, |it| it.end);
        let above = self.line_start(start.saturating_sub(1));
        let floor = self.sections.get(index.wrapping_sub(1)).map_or(0, |it| it.end);
        if start > 0 && above >= floor && self.line(above).is_empty() {
            start = above;
        } else if start == 0 && end < self.text.len() && self.line(end).is_empty() {
            end = self.line_end(end);
        }
        Splice { at: start..end, with: String::new() }
    }

    /// The place of the comma after a list element, if there is a comma.
    fn comma_after(&self, end: usize) -> Option<usize> {
        let mut rest = self.text.get(end..)?.char_indices();
        while let Some((at, character)) = rest.next() {
            match character {
                ',' => return Some(end + at),
                '#' => while rest.next().is_some_and(|(_, it)| it != '\n') {},
                it if it.is_whitespace() => {}
                _ => return None,
            }
        }
        None
    }

    fn is_first_on_its_line(&self, at: usize) -> bool {
        self.text.get(self.line_start(at)..at).is_some_and(|it| it.trim().is_empty())
    }

    /// Whether only blanks and a comment follow on the line.
    fn is_last_on_its_line(&self, at: usize) -> bool {
        let rest = self.text.get(at..self.line_end(at)).unwrap_or_default().trim();
        (rest.is_empty() || rest.starts_with('#')) && self.line_end(at) < self.text.len()
    }

    fn remove_piece(&self, pieces: &[Piece], index: usize) -> Option<Splice> {
        let piece = pieces.get(index)?;
        let comma = self.comma_after(piece.end);
        let behind = comma.map_or(piece.end, |it| it + 1);
        if self.is_first_on_its_line(piece.start) && self.is_last_on_its_line(behind) {
            return Some(Splice { at: self.line_start(piece.start)..self.line_end(behind), with: String::new() });
        }
        if comma.is_some() {
            let blanks = self.text.get(behind..).unwrap_or_default();
            let end = behind + blanks.len() - blanks.trim_start_matches([' ', '\t']).len();
            return Some(Splice { at: piece.start..end, with: String::new() });
        }
        let before = index.checked_sub(1).and_then(|it| pieces.get(it)).and_then(|it| self.comma_after(it.end));
        let gap = before.and_then(|it| self.text.get(it..piece.start));
        let start = match (before, gap) {
            (Some(comma), Some(gap)) if !gap.contains('#') => comma,
            (Some(_) | None, _) => piece.start,
        };
        Some(Splice { at: start..piece.end, with: String::new() })
    }

    /// Inserts an element into a list or inline table. `open` is the place of the opening bracket.
    fn insert_piece(&self, open: usize, pieces: &[Piece], index: usize, with: &str) -> Vec<Splice> {
        let put = |at: usize, with: String| Splice { at: at..at, with };
        let Some(last) = pieces.last() else {
            // Insert directly before the closing bracket, after any comment.
            let close = self.closing(open);
            return vec![put(close, with.to_owned())];
        };
        if let Some(next) = pieces.get(index) {
            if self.is_first_on_its_line(next.start) {
                let start = self.line_start(next.start);
                return vec![put(start, format!("{}{with},{}", self.indent(next.start), self.newline))];
            }
            return vec![put(next.start, format!("{with}, "))];
        }
        let comma = self.comma_after(last.end);
        let behind = comma.map_or(last.end, |it| it + 1);
        if !self.is_first_on_its_line(last.start) || !self.is_last_on_its_line(behind) {
            return vec![put(last.end, format!(", {with}"))];
        }
        let trailing = if comma.is_some() { "," } else { "" };
        let line = format!("{}{with}{trailing}{}", self.indent(last.start), self.newline);
        let mut out = vec![put(self.line_end(behind), line)];
        if comma.is_none() {
            out.push(put(last.end, ",".to_owned()));
        }
        out
    }

    /// The place of the closing bracket of an empty list.
    fn closing(&self, open: usize) -> usize {
        let mut rest = self.text.get(open + 1..).unwrap_or_default().char_indices();
        while let Some((at, character)) = rest.next() {
            match character {
                '#' => while rest.next().is_some_and(|(_, it)| it != '\n') {},
                ']' | '}' => return open + 1 + at,
                _ => {}
            }
        }
        self.text.len()
    }

    /// Adds a row to the list `key` of `owner`, before the row at `position` or after the last row.
    pub fn insert_element(
        &self,
        owner: &[Step],
        key: &str,
        position: Option<usize>,
        new: &NewRow,
    ) -> Option<Vec<Splice>> {
        match self.list(owner, key) {
            List::Inline(array) => {
                let pieces: Vec<Piece> = array.iter().filter_map(toml_edit::Value::span).collect();
                let index = position.unwrap_or(pieces.len());
                Some(self.insert_piece(array.span()?.start, &pieces, index, &new.as_value(self.newline)?))
            }
            List::Sections(count) => {
                let before = position.filter(|it| *it < count);
                let sibling = child(owner, key, Some(before.unwrap_or(count.saturating_sub(1))));
                let (first, header) = self.sections_under(&sibling).next()?;
                let at = match before {
                    Some(_) => self.remarks_start(first),
                    None => self.sections_under(&sibling).map(|(_, it)| it.end).max()?,
                };
                let header_indent = self.indent(header.start);
                let body_indent = if header.end > header.body { self.indent(header.body) } else { header_indent };
                let block = new.as_sections(owner, key, (header_indent, body_indent), self.newline)?;
                Some(vec![self.insert_block(at, &block)])
            }
            List::Absent => match self.held(owner) {
                Held::Inline(table) => {
                    let value = format!("{} = [{}]", write::key(key), new.as_value(self.newline)?);
                    Some(self.insert_piece(table.span()?.start, &self.pairs(table), usize::MAX, &padded(table, &value)))
                }
                Held::Table(_) => {
                    // A new list of the root starts at the end of the file; a new list of a mode
                    // starts after the keys of the mode.
                    let own = self.sections.iter().find(|it| !owner.is_empty() && it.path == owner);
                    let at = own.map_or(self.text.len(), |it| it.end);
                    let block = new.as_sections(owner, key, ("", ""), self.newline)?;
                    Some(vec![self.insert_block(at, &block)])
                }
                Held::Other => None,
            },
        }
    }

    fn insert_block(&self, at: usize, block: &str) -> Splice {
        let newline = self.newline;
        let airy = self.sections.len() < 3 || self.text.contains("\n\n") || self.text.contains("\n\r\n");
        let before = self.text.get(..at).unwrap_or_default();
        let after = self.text.get(at..).unwrap_or_default();
        let mut with = String::new();
        if !before.is_empty() && !before.ends_with('\n') {
            with.push_str(newline);
        }
        let blank_before = before.is_empty() || self.line(self.line_start(at.saturating_sub(1))).is_empty();
        if airy && !blank_before {
            with.push_str(newline);
        }
        with.push_str(block);
        with.push_str(newline);
        if airy && !after.is_empty() && !self.line(at).is_empty() {
            with.push_str(newline);
        }
        Splice { at: at..at, with }
    }

    fn pairs(&self, table: &InlineTable) -> Vec<Piece> {
        let mut out = Vec::new();
        for (name, value) in table {
            let Some(key) = table.get_key_value(name).and_then(|(key, _)| key.span()) else { continue };
            match value {
                toml_edit::Value::InlineTable(it) if it.is_dotted() => {
                    out.extend(self.pairs(it).into_iter().map(|it| self.key_start(it.start)..it.end));
                }
                toml_edit::Value::InlineTable(_)
                | toml_edit::Value::Array(_)
                | toml_edit::Value::String(_)
                | toml_edit::Value::Integer(_)
                | toml_edit::Value::Float(_)
                | toml_edit::Value::Boolean(_)
                | toml_edit::Value::Datetime(_) => out.extend(value.span().map(|it| key.start..it.end)),
            }
        }
        out.sort_by_key(|it| it.start);
        out
    }

    /// The start of a dotted key, given the start of one of its parts.
    fn key_start(&self, part: usize) -> usize {
        let before = self.text.get(..part).unwrap_or_default();
        let key = before.rfind(['{', ',', '\n']).map_or(0, |it| it + 1);
        let gap = self.text.get(key..part).unwrap_or_default();
        key + gap.len() - gap.trim_start().len()
    }

    /// Sets one key of a row in any layout. If `first` is true, a new key is added as the first
    /// key.
    pub fn set_key(&self, row: &[Step], key: &str, value: &Value, first: bool) -> Option<Vec<Splice>> {
        let pair = write::pair(key, value);
        match self.held(row) {
            Held::Other => None,
            Held::Inline(table) => {
                let pieces = self.pairs(table);
                let Some(held) = table.get(key) else {
                    let index = if first { 0 } else { usize::MAX };
                    return Some(self.insert_piece(table.span()?.start, &pieces, index, &padded(table, &pair)));
                };
                if let Some(dotted) = held.as_inline_table().filter(|it| it.is_dotted()) {
                    let parts: Vec<Piece> =
                        self.pairs(dotted).into_iter().map(|it| self.key_start(it.start)..it.end).collect();
                    let (head, rest) = parts.split_first()?;
                    let mut out = vec![Splice { at: head.clone(), with: pair }];
                    for part in rest {
                        let index = pieces.iter().position(|it| it.end == part.end)?;
                        out.push(self.remove_piece(&pieces, index)?);
                    }
                    return Some(out);
                }
                Some(vec![Splice { at: held.span()?, with: write::value(value) }])
            }
            Held::Table(table) => {
                let own = self.sections.iter().find(|it| it.path == row)?;
                let indent = if own.end > own.body { self.indent(own.body) } else { self.indent(own.start) };
                let line = format!("{indent}{pair}{}", self.newline);
                let at = if first { own.body } else { own.end };
                // The last line of a file may have no newline.
                let glue = if at > 0 && self.text.as_bytes().get(at - 1) != Some(&b'\n') { self.newline } else { "" };
                let added = Splice { at: at..at, with: format!("{glue}{line}") };
                match table.get(key) {
                    None | Some(Item::None) => Some(vec![added]),
                    Some(Item::Value(held)) => Some(vec![Splice { at: held.span()?, with: write::value(value) }]),
                    Some(Item::Table(held)) if held.is_dotted() => {
                        let parts = self.statements(held);
                        let (head, rest) = parts.split_first()?;
                        let mut out = vec![Splice { at: head.clone(), with: pair }];
                        out.extend(rest.iter().map(|it| self.remove_lines(it)));
                        Some(out)
                    }
                    Some(Item::Table(_) | Item::ArrayOfTables(_)) => {
                        // Keep the comments above the removed sections, because their row still
                        // exists.
                        let gone = child(row, key, None);
                        let mut out: Vec<Splice> = self
                            .sections_under(&gone)
                            .map(|(_, it)| Splice { at: it.start..it.end, with: String::new() })
                            .collect();
                        out.push(added);
                        Some(out)
                    }
                }
            }
        }
    }

    fn remove_lines(&self, statement: &Piece) -> Splice {
        Splice { at: self.line_start(statement.start)..self.line_end(statement.end), with: String::new() }
    }

    pub fn remove_key(&self, row: &[Step], key: &str) -> Option<Vec<Splice>> {
        match self.held(row) {
            Held::Other => None,
            Held::Inline(table) => {
                let pieces = self.pairs(table);
                let held = table.get(key)?;
                let ends: Vec<usize> = match held.as_inline_table().filter(|it| it.is_dotted()) {
                    Some(dotted) => self.pairs(dotted).into_iter().map(|it| it.end).collect(),
                    None => vec![held.span()?.end],
                };
                let indexes = ends.iter().filter_map(|end| pieces.iter().position(|it| it.end == *end));
                indexes.map(|index| self.remove_piece(&pieces, index)).collect()
            }
            Held::Table(table) => match table.get_key_value(key)? {
                (_, Item::None) => None,
                (name, Item::Value(held)) => Some(vec![self.remove_lines(&(name.span()?.start..held.span()?.end))]),
                (_, Item::Table(held)) if held.is_dotted() => {
                    Some(self.statements(held).iter().map(|it| self.remove_lines(it)).collect())
                }
                (_, Item::Table(_) | Item::ArrayOfTables(_)) => {
                    Some(self.sections_under(&child(row, key, None)).map(|(i, _)| self.remove_section(i)).collect())
                }
            },
        }
    }
}

/// A key-value pair for an inline table. If the table is empty, there are blanks around the pair.
fn padded(table: &InlineTable, pair: &str) -> String {
    if table.is_empty() { format!(" {pair} ") } else { pair.to_owned() }
}

/// The old text of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Sections(String),
    Value(String),
}

/// A row to insert: its keys, or its old text.
pub(crate) enum NewRow<'a> {
    Keys(&'a Map<String, Value>),
    Text(Source),
}

impl NewRow<'_> {
    fn as_value(&self, newline: &str) -> Option<String> {
        match self {
            NewRow::Keys(keys) => {
                let pairs = write::lines(keys).join(", ");
                Some(format!("{{ {pairs} }}"))
            }
            NewRow::Text(Source::Value(text)) => Some(with_newlines(text, newline)),
            NewRow::Text(Source::Sections(_)) => None,
        }
    }

    fn as_sections(&self, owner: &[Step], key: &str, indents: (&str, &str), newline: &str) -> Option<String> {
        match self {
            NewRow::Keys(keys) => {
                let names = owner.iter().filter_map(|step| match step {
                    Step::Key(key) => Some(write::key(key)),
                    Step::Index(_) => None,
                });
                let names: Vec<String> = names.chain(std::iter::once(write::key(key))).collect();
                let header = format!("{}[[{}]]", indents.0, names.join("."));
                let lines = write::lines(keys).into_iter().map(|it| format!("{}{it}", indents.1));
                Some(std::iter::once(header).chain(lines).collect::<Vec<_>>().join(newline))
            }
            NewRow::Text(Source::Sections(text)) => Some(with_newlines(text, newline)),
            NewRow::Text(Source::Value(_)) => None,
        }
    }
}

fn with_newlines(text: &str, newline: &str) -> String {
    let unix = text.replace("\r\n", "\n");
    if newline == "\n" { unix } else { unix.replace('\n', newline) }
}
