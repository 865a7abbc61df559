//! Edits JSON (plain, with comments, or with comments and trailing commas) and flow mappings
//! (`{ ... }`) in YAML.

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use super::edit::{
    Fault, Field, Format, Place, Splice, line_start, newline, object, own_line_indent, previous_line_end,
};
use super::tree::{Kind, Member, Node, position};

pub fn parse(text: &str, format: Format) -> Result<Option<Node>, Fault> {
    let options = ParseOptions {
        allow_comments: format != Format::Json,
        allow_trailing_commas: format == Format::Jsonc,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    match parse_to_ast(text, &CollectOptions::default(), &options) {
        Ok(parsed) => Ok(parsed.value.map(node)),
        Err(error) => Err(Fault::at(text, error.range().start, error.kind().to_string())),
    }
}

fn node(value: ast::Value<'_>) -> Node {
    match value {
        ast::Value::Object(it) => Node {
            span: it.range.start..it.range.end,
            kind: Kind::Map { members: it.properties.into_iter().map(member).collect(), is_block: false },
        },
        ast::Value::Array(it) => {
            Node { span: it.range.start..it.range.end, kind: Kind::List(it.elements.into_iter().map(node).collect()) }
        }
        ast::Value::StringLit(it) => scalar(it.range, Value::String(it.value.into_owned())),
        ast::Value::NumberLit(it) => {
            let number = serde_json::from_str(it.value).unwrap_or_else(|_| Value::String(it.value.to_owned()));
            scalar(it.range, number)
        }
        ast::Value::BooleanLit(it) => scalar(it.range, Value::Bool(it.value)),
        ast::Value::NullKeyword(it) => scalar(it.range, Value::Null),
    }
}

fn scalar(range: jsonc_parser::common::Range, value: Value) -> Node {
    Node { span: range.start..range.end, kind: Kind::Scalar(value) }
}

fn member(it: ast::ObjectProp<'_>) -> Member {
    let range = match &it.name {
        ast::ObjectPropName::String(name) => name.range,
        ast::ObjectPropName::Word(name) => name.range,
    };
    Member { key_span: range.start..range.end, key: it.name.into_string(), node: node(it.value) }
}

/// The style of new text, taken from the rest of the file.
pub struct Style {
    newline: &'static str,
    unit: String,
    comma: &'static str,
    colon: &'static str,
}

impl Style {
    fn of(text: &str, root: &Node) -> Self {
        let first = match &root.kind {
            Kind::Map { members, .. } => members.first(),
            Kind::List(_) | Kind::Scalar(_) => None,
        };
        let outer = own_line_indent(text, root.span.start).unwrap_or_default();
        let unit = first
            .and_then(|it| own_line_indent(text, it.key_span.start))
            .map_or("  ", |it| it.strip_prefix(outer).unwrap_or(it))
            .to_owned();
        let is_tight = first.is_some_and(|it| {
            text.get(it.key_span.end..it.node.span.start) == Some(":")
                && !text.get(root.span.clone()).unwrap_or_default().contains('\n')
        });
        let (comma, colon) = if is_tight { (",", ":") } else { (", ", ": ") };
        Self { newline: newline(text), unit, comma, colon }
    }

    /// The style for YAML flow mappings, which stay in one line.
    pub fn inline() -> Self {
        Self { newline: "\n", unit: String::new(), comma: ", ", colon: ": " }
    }

    /// A value as JSON. With an indentation, an object has one line per member.
    pub fn render(&self, value: &Value, indent: Option<&str>) -> String {
        match (value, indent) {
            (Value::Object(members), Some(indent)) if !members.is_empty() => {
                let inner = format!("{indent}{}", self.unit);
                let lines: Vec<String> = members
                    .iter()
                    .map(|(key, value)| format!("{inner}{}", self.pair(key, value, Some(&inner))))
                    .collect();
                let between = format!(",{}", self.newline);
                format!("{{{}{}{}{indent}}}", self.newline, lines.join(&between), self.newline)
            }
            (Value::Object(members), _) => {
                let pairs: Vec<String> = members.iter().map(|(key, value)| self.pair(key, value, None)).collect();
                format!("{{{}}}", pairs.join(self.comma))
            }
            (Value::Array(items), _) => {
                let items: Vec<String> = items.iter().map(|it| self.render(it, None)).collect();
                format!("[{}]", items.join(self.comma))
            }
            (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => value.to_string(),
        }
    }

    fn pair(&self, key: &str, value: &Value, indent: Option<&str>) -> String {
        format!("{}{}{}", Value::from(key), self.colon, self.render(value, indent))
    }
}

pub fn set(text: &str, format: Format, place: Place<'_>, fields: &[Field]) -> Result<Vec<Splice>, Fault> {
    let Some(root) = parse(text, format)? else {
        let style = Style { newline: newline(text), ..Style::inline() };
        let style = Style { unit: "  ".to_owned(), ..style };
        let whole = serde_json::json!({ place.container: { place.name: object(fields) } });
        return Ok(vec![(text.len()..text.len(), format!("{}{}", style.render(&whole, Some("")), style.newline))]);
    };
    let style = Style::of(text, &root);
    let in_root = root.members(text, "the file")?;
    let Some(container) = position(text, in_root, place.container)?.and_then(|it| in_root.get(it)) else {
        let value = serde_json::json!({ place.name: object(fields) });
        return Ok(append(text, &root, &[(place.container, value)], &style, own_lines(text, &root, None, &style)));
    };
    set_in(text, &container.node, place, fields, &style, Some(container))
}

/// Sets the entry in `map`. `container` is the member whose value is `map`; the entry of an empty
/// `map` is indented relative to it. Without `container`, everything stays in one line.
pub fn set_in(
    text: &str,
    map: &Node,
    place: Place<'_>,
    fields: &[Field],
    style: &Style,
    container: Option<&Member>,
) -> Result<Vec<Splice>, Fault> {
    let members = map.members(text, place.container)?;
    let lines = |map: &Node, member: Option<&Member>| container.and_then(|_| own_lines(text, map, member, style));
    let Some(entry) = position(text, members, place.name)?.and_then(|it| members.get(it)) else {
        let new = [(place.name, Value::Object(object(fields)))];
        return Ok(append(text, map, &new, style, lines(map, container)));
    };
    let present = entry.node.members(text, place.name)?;
    let (mut splices, mut missing) = (Vec::new(), Vec::new());
    for field in fields.iter().filter(|it| it.is_required) {
        match position(text, present, field.key)?.and_then(|it| present.get(it)) {
            Some(it) if it.node.value() == field.value => {}
            Some(it) => splices.push((it.node.span.clone(), style.render(&field.value, None))),
            None => missing.push((field.key, field.value.clone())),
        }
    }
    if !missing.is_empty() {
        splices.extend(append(text, &entry.node, &missing, style, lines(&entry.node, Some(entry))));
    }
    Ok(splices)
}

/// The indentation of members that have their own lines, or `None` if the map is in one line.
fn own_lines(text: &str, map: &Node, of: Option<&Member>, style: &Style) -> Option<String> {
    let members = match &map.kind {
        Kind::Map { members, .. } => members.as_slice(),
        Kind::List(_) | Kind::Scalar(_) => &[],
    };
    if members.is_empty() {
        let outer = match of {
            Some(of) => own_line_indent(text, of.key_span.start)?,
            None => own_line_indent(text, map.span.start).unwrap_or_default(),
        };
        return Some(format!("{outer}{}", style.unit));
    }
    members.iter().rev().find_map(|it| own_line_indent(text, it.key_span.start)).map(str::to_owned)
}

/// Adds members at the end of a JSON object or flow mapping. A comment that follows the last member
/// in its line stays with that member.
fn append(text: &str, map: &Node, new: &[(&str, Value)], style: &Style, indent: Option<String>) -> Vec<Splice> {
    let last = match &map.kind {
        Kind::Map { members, .. } => members.last(),
        Kind::List(_) | Kind::Scalar(_) => None,
    };
    let after = last.map_or(map.span.start + 1, |it| it.node.span.end);
    let comma = last.and_then(|_| comma_after(text, after));
    let at = comma.map_or(after, |it| it + 1);
    let mut splices = Vec::new();
    let Some(indent) = indent else {
        let pairs: Vec<String> = new.iter().map(|(key, value)| style.pair(key, value, None)).collect();
        let pairs = pairs.join(style.comma);
        let space = style.comma.trim_start_matches(',');
        let inserted = match (last, comma) {
            (None, _) => pairs,
            (Some(_), None) => format!("{}{pairs}", style.comma),
            (Some(_), Some(_)) => format!("{space}{pairs},"),
        };
        return vec![(at..at, inserted)];
    };
    let lines: Vec<String> = new
        .iter()
        .map(|(key, value)| format!("{}{indent}{}", style.newline, style.pair(key, value, Some(&indent))))
        .collect();
    let mut inserted = lines.join(",");
    if comma.is_some() {
        inserted.push(',');
    } else if last.is_some() {
        splices.push((after..after, ",".to_owned()));
    }
    match rest_of_line(text, at) {
        Some(end) => splices.push((end..end, inserted)),
        None => {
            let closing = text.get(line_start(text, map.span.start)..).unwrap_or_default();
            let outer: String = closing.chars().take_while(|it| matches!(it, ' ' | '\t')).collect();
            splices.push((at..at, format!("{inserted}{}{outer}", style.newline)));
        }
    }
    // Both insertions may be at the same position. The comma must come first.
    if let [(first, comma), (second, rest)] = splices.as_slice()
        && first == second
    {
        return vec![(first.clone(), format!("{comma}{rest}"))];
    }
    splices
}

/// The place of the comma that follows a value.
fn comma_after(text: &str, at: usize) -> Option<usize> {
    let at = skip_trivia(text, at);
    text.get(at..).is_some_and(|it| it.starts_with(',')).then_some(at)
}

fn skip_trivia(text: &str, mut at: usize) -> usize {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        let length = if trimmed.starts_with("//") {
            trimmed.find('\n').unwrap_or(trimmed.len())
        } else if trimmed.starts_with("/*") {
            trimmed.find("*/").map_or(trimmed.len(), |it| it + 2)
        } else {
            return at;
        };
        at += length;
    }
}

/// The end of the line of `at`, if only spaces and comments follow in this line.
fn rest_of_line(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = text.get(at..)?;
        let trimmed = rest.trim_start_matches([' ', '\t']);
        at += rest.len() - trimmed.len();
        if trimmed.starts_with(['\r', '\n']) {
            return Some(at);
        }
        if trimmed.starts_with("//") {
            return Some(at + trimmed.find(['\r', '\n']).unwrap_or(trimmed.len()));
        }
        let comment = trimmed.strip_prefix("/*").and_then(|it| it.find("*/")).map(|it| it + 4)?;
        if trimmed.get(..comment)?.contains('\n') {
            return None;
        }
        at += comment;
    }
}

pub fn unset(text: &str, format: Format, place: Place<'_>, drop_container: bool) -> Result<Vec<Splice>, Fault> {
    let Some(root) = parse(text, format)? else { return Ok(Vec::new()) };
    let members = root.members(text, "the file")?;
    let Some(index) = position(text, members, place.container)? else { return Ok(Vec::new()) };
    if drop_container {
        return Ok(cut(text, &root, members, index));
    }
    match members.get(index) {
        Some(container) => unset_in(text, &container.node, place),
        None => Ok(Vec::new()),
    }
}

pub fn unset_in(text: &str, map: &Node, place: Place<'_>) -> Result<Vec<Splice>, Fault> {
    let members = map.members(text, place.container)?;
    Ok(position(text, members, place.name)?.map(|it| cut(text, map, members, it)).unwrap_or_default())
}

/// Removes a member and one comma.
pub fn cut(text: &str, map: &Node, members: &[Member], index: usize) -> Vec<Splice> {
    let Some(member) = members.get(index) else { return Vec::new() };
    let (mut start, mut end) = (member.key_span.start, member.node.span.end);
    let comma = comma_after(text, end);
    let previous = index.checked_sub(1).and_then(|it| members.get(it));
    let mut splices = Vec::new();
    if let Some(comma) = comma {
        end = comma + 1;
    } else if let Some(comma) = previous.and_then(|it| comma_after(text, it.node.span.end)) {
        if text.get(comma + 1..start).is_some_and(|it| !it.contains('\n') && it.trim().is_empty()) {
            start = comma;
        } else {
            splices.push((comma..comma + 1, String::new()));
        }
    }
    if own_line_indent(text, start).is_some() {
        start = previous_line_end(text, start);
    } else if comma.is_some() && index + 1 < members.len() {
        let rest = text.get(end..).unwrap_or_default();
        end += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }
    let inside = map.span.start + 1..map.span.end.saturating_sub(1);
    let around = [inside.start..start.max(inside.start), end.min(inside.end)..inside.end];
    if members.len() == 1 && around.into_iter().all(|it| text.get(it).is_some_and(|it| it.trim().is_empty())) {
        return vec![(inside, String::new())];
    }
    splices.push((start..end, String::new()));
    splices
}
