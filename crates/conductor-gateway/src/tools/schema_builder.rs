//! Short notation for JSON Schemas of arguments and results. Every object is closed; a name that
//! ends in `?` is optional.
//!
//! Not here: validating a value (`schema`).

use serde_json::{Map, Value, json};

pub fn object(properties: Value) -> Value {
    let mut required = Vec::new();
    let mut named = Map::new();
    if let Value::Object(members) = properties {
        for (name, schema) in members {
            match name.strip_suffix('?') {
                Some(name) => {
                    named.insert(name.to_owned(), schema);
                }
                None => {
                    required.push(Value::from(name.clone()));
                    named.insert(name, schema);
                }
            }
        }
    }
    let mut made = json!({ "type": "object", "properties": named, "additionalProperties": false });
    if !required.is_empty() {
        made["required"] = Value::Array(required);
    }
    made
}

pub fn said(description: &'static str, mut schema: Value) -> Value {
    if let Value::Object(members) = &mut schema {
        members.insert("description".to_owned(), Value::from(description));
    }
    schema
}

pub fn text() -> Value {
    json!({ "type": "string" })
}

pub fn number() -> Value {
    json!({ "type": "number" })
}

pub fn integer() -> Value {
    json!({ "type": "integer" })
}

pub fn boolean() -> Value {
    json!({ "type": "boolean" })
}

pub fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

pub fn nullable(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}
