//! Edits YAML. A new entry is inserted below the line of its container, or at the end of the file.

use std::borrow::Cow;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Value};

use super::edit::{Fault, Field, Place, Splice, line_end, line_start, newline, object, previous_line_end};
use super::flow;
use super::tree::{Kind, Member, Node, position};

/// Maximum nesting depth of lists and maps. It is limited because the tree is built recursively.
const MAX_DEPTH: usize = 128;

pub fn parse(text: &str) -> Result<Option<Node>, Fault> {
    let mut builder = Builder {
        text,
        // The parser counts characters, the splices count bytes.
        offsets: text.char_indices().map(|(at, _)| at).chain([text.len()]).collect(),
        events: Parser::new_from_str(text),
    };
    let mut root = None;
    loop {
        match builder.next()? {
            (Event::StreamEnd, _) => return Ok(root.filter(|it: &Node| !(it.is_null() && it.span.is_empty()))),
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            (Event::DocumentEnd, span) => {
                // If the end is implicit, its span is empty, or is the start of the next document.
                if text.get(span.clone()).is_some_and(|it| it.starts_with("...")) {
                    return Err(Fault::at(
                        text,
                        span.start,
                        "the YAML document ends with `...`, which is not supported; remove this line",
                    ));
                }
            }
            (event, span) => {
                if root.is_some() {
                    return Err(Fault::at(text, span.start, "the file has more than one document"));
                }
                root = Some(builder.node(event, span, 0)?);
            }
        }
    }
}

struct Builder<'a> {
    text: &'a str,
    offsets: Vec<usize>,
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Range<usize>), Fault> {
        match self.events.next() {
            Some(Ok((event, Span { start, end }))) => Ok((event, self.offset(start.index())..self.offset(end.index()))),
            Some(Err(error)) => Err(Fault::at(self.text, self.offset(error.marker().index()), error.info())),
            None => Ok((Event::StreamEnd, self.text.len()..self.text.len())),
        }
    }

    fn offset(&self, characters: usize) -> usize {
        self.offsets.get(characters).copied().unwrap_or(self.text.len())
    }

    fn node(&mut self, event: Event<'a>, span: Range<usize>, depth: usize) -> Result<Node, Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::at(self.text, span.start, "lists and maps are nested too deeply"));
        }
        match event {
            Event::Scalar(value, style, ..) => Ok(Node { span, kind: Kind::Scalar(resolved(value, style)) }),
            // An alias is compared by the number of its anchor.
            Event::Alias(id) => Ok(Node { span, kind: Kind::Scalar(Value::String(format!("*{id}"))) }),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, end) => {
                            let end = if span.is_empty() { end.start } else { end.start + 1 };
                            return Ok(Node { span: span.start..end, kind: Kind::List(items) });
                        }
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut members = Vec::new();
                let is_block = span.is_empty();
                loop {
                    let (event, key_span) = self.next()?;
                    if event == Event::MappingEnd {
                        let end = if is_block { key_span.start } else { key_span.start + 1 };
                        return Ok(Node { span: span.start..end, kind: Kind::Map { members, is_block } });
                    }
                    let key = match self.node(event, key_span.clone(), depth + 1)?.value() {
                        Value::String(key) => key,
                        other @ (Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::Array(_)
                        | Value::Object(_)) => other.to_string(),
                    };
                    let (event, value_span) = self.next()?;
                    members.push(Member { key, key_span, node: self.node(event, value_span, depth + 1)? });
                }
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => Err(Fault::at(self.text, span.start, "the file ends too early")),
        }
    }
}

/// The value of a scalar by the core schema of YAML, for the types that an entry can contain.
fn resolved(text: Cow<'_, str>, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.into_owned());
    }
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        other => other.parse::<i64>().map_or_else(|_| Value::String(other.to_owned()), Value::from),
    }
}

pub fn set(text: &str, place: Place<'_>, fields: &[Field]) -> Result<Vec<Splice>, Fault> {
    let newline = newline(text);
    let whole = Map::from_iter([(place.container.to_owned(), entry_of(place, fields))]);
    let at_end = |indent: &str| {
        let lines = block(&whole, indent, newline);
        let is_new_line = text.is_empty() || text.ends_with('\n');
        let inserted = if is_new_line { format!("{lines}{newline}") } else { format!("{newline}{lines}") };
        vec![(text.len()..text.len(), inserted)]
    };
    let Some(root) = parse(text)? else { return Ok(at_end("")) };
    let members = root.members(text, "the file")?;
    if !root.is_block() {
        return match position(text, members, place.container)?.and_then(|it| members.get(it)) {
            Some(it) => flow::set_in(text, &it.node, place, fields, &flow::Style::inline(), None),
            None => Err(Fault::at(
                text,
                root.span.start,
                format!("the file is a flow mapping without {:?}; add this key by hand", place.container),
            )),
        };
    }
    let Some(container) = position(text, members, place.container)?.and_then(|it| members.get(it)) else {
        return Ok(at_end(&indent_of(text, root.span.start)));
    };
    if container.node.is_null() && container.node.span.is_empty() {
        let indent = format!("{}  ", indent_of(text, container.key_span.start));
        return Ok(vec![below(
            text,
            container,
            &Map::from_iter([(place.name.to_owned(), Value::Object(object(fields)))]),
            &indent,
        )]);
    }
    if !container.node.is_block() {
        return flow::set_in(text, &container.node, place, fields, &flow::Style::inline(), None);
    }
    let entries = container.node.members(text, place.container)?;
    let Some(entry) = position(text, entries, place.name)?.and_then(|it| entries.get(it)) else {
        let indent = indent_of(text, container.node.span.start);
        return Ok(vec![below(
            text,
            container,
            &Map::from_iter([(place.name.to_owned(), Value::Object(object(fields)))]),
            &indent,
        )]);
    };
    if !entry.node.is_block() {
        return flow::set_in(text, &container.node, place, fields, &flow::Style::inline(), None);
    }
    let present = entry.node.members(text, place.name)?;
    let (mut splices, mut missing) = (Vec::new(), Map::new());
    for field in fields.iter().filter(|it| it.is_required) {
        match position(text, present, field.key)?.and_then(|it| present.get(it)) {
            Some(it) if it.node.value() == field.value => {}
            Some(it) => {
                splices.push((after_colon(text, it)..end_of(text, &it.node), format!(" {}", scalar(&field.value))))
            }
            None => drop(missing.insert(field.key.to_owned(), field.value.clone())),
        }
    }
    if !missing.is_empty() {
        splices.push(below(text, entry, &missing, &indent_of(text, entry.node.span.start)));
    }
    Ok(splices)
}

fn entry_of(place: Place<'_>, fields: &[Field]) -> Value {
    Value::Object(Map::from_iter([(place.name.to_owned(), Value::Object(object(fields)))]))
}

/// Writes members as lines below the line of a key.
fn below(text: &str, key: &Member, members: &Map<String, Value>, indent: &str) -> Splice {
    let newline = newline(text);
    let at = line_end(text, key.key_span.end);
    (at..at, format!("{newline}{}", block(members, indent, newline)))
}

fn indent_of(text: &str, at: usize) -> String {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    line.chars().take_while(|it| *it == ' ').collect()
}

fn block(members: &Map<String, Value>, indent: &str, newline: &str) -> String {
    let lines: Vec<String> = members
        .iter()
        .map(|(key, value)| match value {
            Value::Object(inner) if !inner.is_empty() => {
                format!("{indent}{key}:{newline}{}", block(inner, &format!("{indent}  "), newline))
            }
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_)) => {
                format!("{indent}{key}: {}", scalar(other))
            }
        })
        .collect();
    lines.join(newline)
}

/// A value in one line. JSON is valid YAML; a simple word needs no quotes.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => flow::Style::inline().render(other, None),
    }
}

fn is_plain(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '/')
        && text.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '/' | '_' | '-' | '.'))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        )
}

fn after_colon(text: &str, member: &Member) -> usize {
    let end = member.key_span.end;
    text.get(end..).and_then(|it| it.find(':')).map_or(end, |it| end + it + 1)
}

/// The end of the last character of a value.
fn end_of(text: &str, node: &Node) -> usize {
    let last = match &node.kind {
        Kind::Map { members, is_block: true } => {
            members.last().map(|it| end_of(text, &it.node).max(after_colon(text, it)))
        }
        Kind::List(items) if !text.get(node.span.clone()).is_some_and(|it| it.starts_with('[')) => {
            items.last().map(|it| end_of(text, it))
        }
        Kind::Map { .. } | Kind::List(_) | Kind::Scalar(_) => None,
    };
    let end = last.unwrap_or(node.span.end);
    text.get(..end).map_or(end, |it| it.trim_end().len())
}

pub fn unset(text: &str, place: Place<'_>, drop_container: bool) -> Result<Vec<Splice>, Fault> {
    let Some(root) = parse(text)? else { return Ok(Vec::new()) };
    let members = root.members(text, "the file")?;
    let Some(index) = position(text, members, place.container)? else { return Ok(Vec::new()) };
    let Some(container) = members.get(index) else { return Ok(Vec::new()) };
    if drop_container && root.is_block() {
        return Ok(vec![lines_of(text, container)]);
    }
    if drop_container {
        return Ok(flow::cut(text, &root, members, index));
    }
    if !container.node.is_block() {
        return flow::unset_in(text, &container.node, place);
    }
    let entries = container.node.members(text, place.container)?;
    let Some(entry) = position(text, entries, place.name)?.and_then(|it| entries.get(it)) else {
        return Ok(Vec::new());
    };
    let mut splices = vec![lines_of(text, entry)];
    if entries.len() == 1 {
        let at = after_colon(text, container);
        splices.push((at..at, " {}".to_owned()));
    }
    Ok(splices)
}

/// All lines of a member, with one line break.
fn lines_of(text: &str, member: &Member) -> Splice {
    let end = line_end(text, end_of(text, &member.node).max(after_colon(text, member)));
    let start = previous_line_end(text, member.key_span.start);
    if line_start(text, member.key_span.start) > 0 {
        return (start..end, String::new());
    }
    let rest = text.get(end..).unwrap_or_default();
    let end = end + rest.len() - rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).unwrap_or(rest).len();
    (0..end, String::new())
}
