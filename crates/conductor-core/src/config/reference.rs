//! The page `docs/configuration-reference.md`: every key of the file with type, range, default,
//! example and meaning. The page is made from the JSON Schema of the file.
//!
//! Not here: an introduction for new users (`docs/configuration.md`).

use super::schema;
use serde_json::{Map, Value};

/// The schema of the file as text, as `conductor config schema` prints it.
pub fn schema_text() -> String {
    let text = serde_json::to_string_pretty(schema::file()).unwrap_or_default();
    text + "\n"
}

/// The text of the page.
pub fn page() -> String {
    let file = schema::file();
    let mut out = String::from(
        "# Configuration reference\n\n\
         Every key of `config.toml`. Generated from the code; do not edit. [configuration.md](configuration.md) \
         explains how to use the file. `conductor config schema` prints the same information as a JSON Schema.\n\n\
         If a key has an invalid value, Conductor reports the error and uses the default; all other keys keep their values. \
         If a row (`[[…]]`) has an invalid key, the row is disabled; all other rows work.\n\n\
         ## Keys at the beginning of the file\n",
    );
    table(&mut out, "", file);
    for (name, part) in file["$defs"].as_object().into_iter().flatten() {
        union(&mut out, name, part);
    }
    out
}

/// Adds a table and the tables inside it.
fn table(out: &mut String, path: &str, schema: &Value) {
    let keys = properties(schema);
    rows(out, keys.iter().filter(|(_, it)| inner_table(it).is_none()), schema);
    for (key, value) in keys {
        let Some((opening, closing, inner)) = inner_table(&value) else { continue };
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        let path = if closing.starts_with('.') { format!("{path}.<name>") } else { path };
        let closing = closing.trim_start_matches('.');
        out.push_str(&format!("\n## `{opening}{path}{closing}`\n"));
        let about = [&value, inner].map(|it| it["description"].as_str().unwrap_or_default());
        let about = if about[0] == about[1] { about[0].to_owned() } else { about.join(" ") };
        paragraph(out, about.trim());
        table(out, &path, inner);
    }
}

/// The schema of the table that a key contains, and the brackets of its header in the file.
fn inner_table(value: &Value) -> Option<(&'static str, &'static str, &Value)> {
    let has_keys = |it: &Value| it["properties"].is_object();
    match value {
        it if has_keys(it) => Some(("[", "]", it)),
        it if has_keys(&it["items"]) => Some(("[[", "]]", &it["items"])),
        it if has_keys(&it["additionalProperties"]) => Some(("[", ".]", &it["additionalProperties"])),
        _ => None,
    }
}

/// Adds a definition that rows refer to, such as a trigger.
fn union(out: &mut String, name: &str, part: &Value) {
    out.push_str(&format!("\n## {name}\n"));
    paragraph(out, part["description"].as_str().unwrap_or_default());
    let keys = properties(part);
    rows(out, keys.iter(), part);
    for branch in part["oneOf"].as_array().into_iter().flatten() {
        let tag = &branch["properties"]["type"];
        let names = tag["enum"].as_array().cloned().unwrap_or_else(|| vec![tag["const"].clone()]);
        let names: Vec<String> = names.iter().map(|it| format!("`type = {}`", written(it))).collect();
        out.push_str(&format!("\n### {}\n", names.join(" or ")));
        paragraph(out, branch["description"].as_str().unwrap_or_default());
        let keys = properties(branch);
        rows(out, keys.iter().filter(|(key, _)| key != "type"), branch);
    }
    for (key, value) in keys {
        if let Some((_, _, inner)) = inner_table(&value) {
            out.push_str(&format!("\n### {name}: `{key}`\n"));
            rows(out, properties(inner).iter(), inner);
        }
    }
}

fn properties(schema: &Value) -> Vec<(String, Value)> {
    schema["properties"].as_object().cloned().unwrap_or_else(Map::new).into_iter().collect()
}

fn paragraph(out: &mut String, text: &str) {
    if !text.is_empty() {
        out.push_str(&format!("\n{text}\n"));
    }
}

fn rows<'a>(out: &mut String, keys: impl Iterator<Item = &'a (String, Value)>, schema: &Value) {
    let is_required = |key: &str| schema["required"].as_array().into_iter().flatten().any(|it| it == key);
    let alternatives = schema["oneOf"].as_array().into_iter().flatten().filter_map(|it| it["required"].as_array());
    let alternatives: Vec<&Value> = alternatives.filter(|it| it.len() == 1).flatten().collect();
    let mut keys = keys.peekable();
    if keys.peek().is_some() {
        out.push_str("\n| key | value | default | example | meaning |\n|---|---|---|---|---|\n");
    }
    for (key, value) in keys {
        let default = match value.get("default") {
            Some(it) => format!("`{}`", written(it)),
            None if is_required(key) => "required".to_owned(),
            None if alternatives.iter().any(|it| *it == key) => "one of these is required".to_owned(),
            None => String::new(),
        };
        let example = value["examples"].get(0).map(|it| format!("`{}`", written(it))).unwrap_or_default();
        let about = value["description"].as_str().unwrap_or_default();
        let cells = [format!("`{key}`"), kind(value), default, example, about.to_owned()];
        out.push_str(&format!("| {} |\n", cells.map(|it| it.replace('|', "\\|")).join(" | ")));
    }
}

/// The type and the range of a value, as text.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(only) = schema.get("const") {
        return format!("`{}`", written(only));
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|it| format!("`{}`", written(it))).collect::<Vec<_>>().join(", ");
    }
    if let Some(forms) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
        return forms.iter().map(kind).collect::<Vec<_>>().join(", or ");
    }
    let range = |low: &str, high: &str| match (schema.get(low), schema.get(high)) {
        (Some(low), Some(high)) if low == high => format!(", exactly {low}"),
        (Some(low), Some(high)) => format!(", {low} to {high}"),
        (Some(low), None) => format!(", {low} or more"),
        (None, Some(high)) => format!(", at most {high}"),
        (None, None) => String::new(),
    };
    match schema["type"].as_str().unwrap_or_default() {
        "integer" => format!("whole number{}", range("minimum", "maximum")),
        "number" => format!("number{}", range("minimum", "maximum")),
        "boolean" => "`true`, `false`".to_owned(),
        "string" => match (schema["pattern"].as_str(), range("minLength", "maxLength")) {
            (Some(pattern), _) => format!("text that matches `{pattern}`"),
            (None, length) if length.is_empty() || length == ", 1 or more" => "text".to_owned(),
            (None, length) => format!("text{length} characters"),
        },
        "array" if schema["items"]["properties"].is_object() => "list of tables".to_owned(),
        "array" => {
            let length = range("minItems", "maxItems");
            let length = if length.is_empty() { length } else { format!("{length} entries") };
            format!("list{length}: {}", kind(&schema["items"]))
        }
        _ if schema["additionalProperties"].is_object() => {
            format!("table of names: {}", kind(&schema["additionalProperties"]))
        }
        _ => "table".to_owned(),
    }
}

/// A value in the notation of the file.
fn written(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let bare = |it: &str| it.chars().all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '-');
            let entries = map.iter().map(|(key, value)| {
                let key = if bare(key) { key.clone() } else { format!("{key:?}") };
                format!("{key} = {}", written(value))
            });
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}
