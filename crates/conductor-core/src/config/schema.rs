//! The JSON Schemas that tools publish. They describe the format that the other files of this
//! folder read; a test compares them.
//!
//! Not here: checking values. The readers do that, and they find more faults than a schema can.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("schema.json")).unwrap_or(Value::Null));

fn defs() -> &'static Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    DOCUMENT.get("$defs").and_then(Value::as_object).unwrap_or(&NONE)
}

/// The names of all definitions.
pub fn names() -> impl Iterator<Item = &'static str> {
    defs().keys().map(String::as_str)
}

/// A definition together with `$defs` of everything that it refers to.
pub fn def(name: &str) -> Option<Value> {
    defs().get(name).map(|it| with_defs(it.clone()))
}

/// Adds `$defs` to a schema that contains `{"$ref": "#/$defs/NAME"}`. References start at the root
/// of a schema, so call this on the whole input schema of a tool, not on one of its properties.
pub fn with_defs(schema: Value) -> Value {
    complete(schema, &[])
}

/// Like [`with_defs`], but triggers and actions list only their types and refer to the tool
/// `published_by`, which publishes them in full. The tool still accepts complete triggers and
/// actions.
pub fn with_outlined_defs(schema: Value, published_by: &str) -> Value {
    let outlines = ["Trigger", "Action"].map(|name| (name, outline(name, published_by)));
    complete(schema, &outlines)
}

/// Every `type` of a tagged definition, in the order of the document.
pub fn type_names(name: &str) -> Vec<&'static str> {
    let branches = defs().get(name).and_then(|it| it.get("oneOf")).and_then(Value::as_array);
    let tags = branches.into_iter().flatten().filter_map(|it| it.pointer("/properties/type"));
    tags.flat_map(|tag| {
        let one = tag.get("const").and_then(Value::as_str);
        let many = tag.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        one.into_iter().chain(many)
    })
    .collect()
}

fn outline(name: &str, published_by: &str) -> Value {
    json!({
        "type": "object",
        "required": ["type"],
        "description": format!("as in {published_by}"),
        "properties": { "type": { "enum": type_names(name) } }
    })
}

fn complete(mut schema: Value, outlines: &[(&str, Value)]) -> Value {
    let mut used = BTreeSet::new();
    collect(&schema, outlines, &mut used);
    if let Some(object) = schema.as_object_mut()
        && !used.is_empty()
    {
        // Keep the order of the document, so that two builds publish the same bytes.
        let kept = defs().iter().filter(|(name, _)| used.contains(name.as_str()));
        let shown = kept.map(|(name, def)| (name.clone(), outlined(name, outlines).unwrap_or(def).clone()));
        object.insert("$defs".to_owned(), shown.collect());
    }
    schema
}

fn outlined<'o>(name: &str, outlines: &'o [(&str, Value)]) -> Option<&'o Value> {
    outlines.iter().find(|(outlined, _)| *outlined == name).map(|(_, outline)| outline)
}

fn collect(schema: &Value, outlines: &[(&str, Value)], used: &mut BTreeSet<&'static str>) {
    match schema {
        Value::Object(map) => {
            let target = map.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix("#/$defs/"));
            if let Some((name, def)) = target.and_then(|it| defs().get_key_value(it))
                && used.insert(name)
            {
                collect(outlined(name, outlines).unwrap_or(def), outlines, used);
            }
            map.values().for_each(|it| collect(it, outlines, used));
        }
        Value::Array(items) => items.iter().for_each(|it| collect(it, outlines, used)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
