//! Edits TOML. A new entry is a table at the end of the file.

use serde_json::{Map, Value};
use toml_edit::{Document, Item, TableLike};

use super::edit::{Fault, Field, Place, Splice, line_end, line_start, newline};
use super::flow::Style;

fn parse(text: &str) -> Result<Document<&str>, Fault> {
    Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |it| it.start);
        Fault::at(text, at, error.message())
    })
}

pub fn value(text: &str) -> Result<Value, Fault> {
    Ok(table(parse(text)?.as_table()))
}

fn table(it: &dyn TableLike) -> Value {
    it.iter().map(|(key, item)| (key.to_owned(), of_item(item))).collect::<Map<_, _>>().into()
}

fn of_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(it) => of_value(it),
        Item::Table(it) => table(it),
        Item::ArrayOfTables(it) => it.iter().map(|it| table(it)).collect(),
    }
}

fn of_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(it) => Value::from(it.value().as_str()),
        toml_edit::Value::Integer(it) => Value::from(*it.value()),
        toml_edit::Value::Float(it) => Value::from(*it.value()),
        toml_edit::Value::Boolean(it) => Value::from(*it.value()),
        toml_edit::Value::Datetime(it) => Value::from(it.value().to_string()),
        toml_edit::Value::Array(it) => it.iter().map(of_value).collect(),
        toml_edit::Value::InlineTable(it) => table(it),
    }
}

pub fn set(text: &str, place: Place<'_>, fields: &[Field]) -> Result<Vec<Splice>, Fault> {
    let document = parse(text)?;
    let start_of = |item: &Item| item.span().map_or(0, |it| it.start);
    let container = document.get(place.container);
    match container {
        None | Some(Item::Table(_)) => {}
        Some(other @ (Item::Value(_) | Item::ArrayOfTables(_) | Item::None)) => {
            let reason = format!("{0} must be written as tables like [{0}.NAME]", place.container);
            return Err(Fault::at(text, start_of(other), reason));
        }
    }
    let Some(entry) = container.and_then(|it| it.get(place.name)) else {
        let newline = newline(text);
        let lines: Vec<String> =
            [format!("[{}.{}]", place.container, place.name)].into_iter().chain(fields.iter().map(pair)).collect();
        let before = match text {
            "" => String::new(),
            _ if text.ends_with('\n') => newline.to_owned(),
            _ => newline.repeat(2),
        };
        return Ok(vec![(text.len()..text.len(), format!("{before}{}{newline}", lines.join(newline)))]);
    };
    let Some(present) = entry.as_table_like() else {
        return Err(Fault::at(text, start_of(entry), format!("the entry {} is not a table", place.name)));
    };
    let mut splices = Vec::new();
    let mut missing = Vec::new();
    for field in fields.iter().filter(|it| it.is_required) {
        match present.get(field.key) {
            Some(it) if of_item(it) == field.value => {}
            Some(it) => match (it.as_value(), it.span()) {
                (Some(_), Some(span)) => splices.push((span, Style::inline().render(&field.value, None))),
                (_, _) => return Err(Fault::at(text, start_of(it), format!("the field {} is a table", field.key))),
            },
            None => missing.push(pair(field)),
        }
    }
    if missing.is_empty() {
        return Ok(splices);
    }
    match (entry, entry.span()) {
        (Item::Table(it), Some(header)) if !it.is_dotted() => {
            let (newline, at) = (newline(text), line_end(text, header.end));
            splices.push((at..at, missing.iter().map(|it| format!("{newline}{it}")).collect()));
        }
        (Item::Value(_), Some(braces)) => {
            let comma = if present.is_empty() { " " } else { "," };
            splices.push((braces.start + 1..braces.start + 1, format!(" {}{comma}", missing.join(", "))));
        }
        (_, span) => {
            return Err(Fault::at(
                text,
                span.map_or(0, |it| it.start),
                format!("the entry {} uses dotted keys; remove it by hand", place.name),
            ));
        }
    }
    Ok(splices)
}

fn pair(field: &Field) -> String {
    // The strings and arrays of an entry have the same form in JSON and TOML.
    format!("{} = {}", field.key, Style::inline().render(&field.value, None))
}

pub fn unset(text: &str, place: Place<'_>) -> Result<Vec<Splice>, Fault> {
    let document = parse(text)?;
    let Some(container) = document.get(place.container).and_then(Item::as_table_like) else { return Ok(Vec::new()) };
    let Some(entry) = container.get(place.name) else { return Ok(Vec::new()) };
    let dotted = || {
        let at = container.key(place.name).and_then(|it| it.span()).map_or(0, |it| it.start);
        Fault::at(text, at, format!("the entry {} uses dotted keys; remove it by hand", place.name))
    };
    match entry {
        Item::Table(it) if !it.is_dotted() => {
            let mut blocks = Vec::new();
            blocks_of(text, it, &mut blocks);
            if blocks.is_empty() { Err(dotted()) } else { Ok(blocks) }
        }
        Item::Value(it)
            if container.key(place.name).is_some() && document.get(place.container).is_some_and(Item::is_table) =>
        {
            let key = container.key(place.name).and_then(|it| it.span()).map(|it| it.start);
            match (key, it.span()) {
                (Some(key), Some(value)) => Ok(vec![whole_lines(text, key, value.end)]),
                (_, _) => Err(dotted()),
            }
        }
        Item::None | Item::Value(_) | Item::Table(_) | Item::ArrayOfTables(_) => Err(dotted()),
    }
}

/// The lines of a table and its subtables, which may be in different parts of the file.
fn blocks_of(text: &str, it: &toml_edit::Table, blocks: &mut Vec<Splice>) {
    if let Some(header) = it.span().filter(|it| text.get(it.clone()).is_some_and(|it| it.starts_with('['))) {
        let ends = it.iter().filter_map(|(_, item)| item.as_value().and_then(toml_edit::Value::span)).map(|it| it.end);
        let end = ends.fold(header.end, usize::max);
        let (range, nothing) = whole_lines(text, header.start, end);
        let before = text.get(..range.start).unwrap_or_default();
        // An entry is separated by one empty line, which is removed with it.
        let blank = if before.ends_with("\r\n\r\n") { 2 } else { usize::from(before.ends_with("\n\n")) };
        blocks.push((range.start - blank..range.end, nothing));
    }
    for (_, item) in it.iter() {
        if let Item::Table(inner) = item {
            blocks_of(text, inner, blocks);
        }
    }
}

fn whole_lines(text: &str, start: usize, end: usize) -> Splice {
    let end = line_end(text, end);
    let rest = text.get(end..).unwrap_or_default();
    let rest_length = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).unwrap_or(rest).len();
    (line_start(text, start)..end + rest.len() - rest_length, String::new())
}
