//! The JSON Schemas that tools publish. They say in JSON what the files beside this one read; a test holds the two together.
//!
//! Not here: checking a value. Values are read, and reading tells more than a schema can.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("schema.json")).unwrap_or(Value::Null));

fn defs() -> &'static Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    DOCUMENT.get("$defs").and_then(Value::as_object).unwrap_or(&NONE)
}

/// Every definition there is.
pub fn names() -> impl Iterator<Item = &'static str> {
    defs().keys().map(String::as_str)
}

/// A definition that stands on its own: beside its keys it carries `$defs` with everything it refers to.
pub fn def(name: &str) -> Option<Value> {
    defs().get(name).map(|it| with_defs(it.clone()))
}

/// Completes a schema that refers to definitions by `{"$ref": "#/$defs/NAME"}`. References are resolved from the root of a schema,
/// so this is called on the whole input schema of a tool, not on one of its properties.
pub fn with_defs(mut schema: Value) -> Value {
    let mut used = BTreeSet::new();
    collect(&schema, &mut used);
    if let Some(object) = schema.as_object_mut()
        && !used.is_empty()
    {
        // In the order of the document, so that two builds publish the same bytes.
        let kept = defs().iter().filter(|(name, _)| used.contains(name.as_str()));
        object.insert("$defs".to_owned(), kept.map(|(name, def)| (name.clone(), def.clone())).collect());
    }
    schema
}

fn collect(schema: &Value, used: &mut BTreeSet<&'static str>) {
    match schema {
        Value::Object(map) => {
            let target = map.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix("#/$defs/"));
            if let Some((name, def)) = target.and_then(|it| defs().get_key_value(it))
                && used.insert(name)
            {
                collect(def, used);
            }
            map.values().for_each(|it| collect(it, used));
        }
        Value::Array(items) => items.iter().for_each(|it| collect(it, used)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
