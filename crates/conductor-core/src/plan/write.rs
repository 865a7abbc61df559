//! Writes JSON values as TOML: each value on one line, in a plain style.
//!
//! Not here: the place of the text in the file.

use serde_json::{Map, Value};

/// A value on one line. A line break inside a text is written as an escape, so the newline style of
/// the file cannot change the text. `null` has no TOML form; it is refused when a change is read.
pub(crate) fn value(it: &Value) -> String {
    match it {
        Value::Null => "\"\"".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Number(it) => match it.as_i64() {
            Some(whole) => whole.to_string(),
            None => toml_edit::Value::from(it.as_f64().unwrap_or_default()).to_string(),
        },
        Value::String(it) => text(it),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let pairs: Vec<String> = map.iter().map(|(name, held)| pair(name, held)).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

pub(crate) fn pair(name: &str, held: &Value) -> String {
    format!("{} = {}", key(name), value(held))
}

pub(crate) fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
    if bare { name.to_owned() } else { text(name) }
}

fn text(it: &str) -> String {
    let mut out = String::with_capacity(it.len() + 2);
    out.push('"');
    for character in it.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other if other.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(other))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The lines of a row: the id first, then the other keys in their given order.
pub(crate) fn lines(row: &Map<String, Value>) -> Vec<String> {
    let first = row.iter().filter(|(name, _)| *name == "id");
    let rest = row.iter().filter(|(name, _)| *name != "id");
    first.chain(rest).map(|(name, held)| pair(name, held)).collect()
}
