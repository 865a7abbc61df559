//! Short notation for schemas: a name that ends in `*` is required in an input, a name that ends in
//! `?` is optional in a body, and a word in place of a schema names a shared kind.

use serde_json::{Map, Value, json};

/// A closed input object.
pub fn input(properties: Value) -> Value {
    closed(properties, |name| match name.strip_suffix('*') {
        Some(name) => (name.to_owned(), true),
        None => (name.to_owned(), false),
    })
}

/// The input of a tool that edits, with the optional revision that the edit was planned for.
pub fn edit_input(mut properties: Value) -> Value {
    properties["expected_revision"] = json!({
        "type": "integer",
        "description": "Fail with STALE_REFERENCE and change nothing if the patch has another revision",
    });
    input(properties)
}

/// A body that is not about one patch.
pub fn plain(properties: Value) -> Value {
    closed(properties, |name| match name.strip_suffix('?') {
        Some(name) => (name.to_owned(), false),
        None => (name.to_owned(), true),
    })
}

/// A body about one patch.
pub fn body(mut properties: Value) -> Value {
    properties["patch_id"] = json!("text");
    properties["revision"] = json!("int");
    plain(properties)
}

/// The body of an edit.
pub fn edit_body(mut properties: Value) -> Value {
    properties["status"] = json!({ "const": "success" });
    properties["success"] = json!({ "const": true });
    properties["warnings"] = json!([{ "code": "text", "message": "text", "subject?": "text" }]);
    body(properties)
}

fn closed(properties: Value, read: fn(&str) -> (String, bool)) -> Value {
    let mut named = Map::new();
    let mut required = Vec::new();
    if let Value::Object(properties) = properties {
        for (name, kind) in properties {
            let (name, needed) = read(&name);
            if needed {
                required.push(Value::from(name.clone()));
            }
            named.insert(name, expand(kind, read));
        }
    }
    json!({ "type": "object", "properties": named, "required": required, "additionalProperties": false })
}

/// Expands the notation: a word is a kind, a list with one kind is an array of that kind, and an
/// object without any schema keyword is a closed object. Everything else is already a schema.
fn expand(kind: Value, read: fn(&str) -> (String, bool)) -> Value {
    match kind {
        Value::String(word) => named(&word),
        Value::Array(mut items) => {
            json!({ "type": "array", "items": expand(items.pop().unwrap_or(json!("text")), read) })
        }
        Value::Object(members) => {
            let words = ["type", "enum", "const", "anyOf", "$ref"];
            // A body may have a member named `type`. The `type` of a schema is always a type name.
            let is_schema = words.iter().any(|it| members.contains_key(*it))
                && members.get("type").is_none_or(|it| {
                    it.as_str().is_some_and(|it| {
                        ["object", "array", "string", "number", "integer", "boolean", "null"].contains(&it)
                    })
                });
            if is_schema { Value::Object(members) } else { closed(Value::Object(members), read) }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => kind,
    }
}

fn named(word: &str) -> Value {
    let atom = || json!({ "anyOf": [{ "type": "number" }, { "type": "string" }] });
    let value = || {
        json!({ "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "boolean" },
            { "type": "array", "items": atom(), "maxItems": 4096 }] })
    };
    match word {
        "id" => json!({ "type": "string", "minLength": 1, "maxLength": 512,
            "description": "Id from list_active_patches; for a subpatcher: the parent's id, a slash and the key of its box" }),
        "ref" => json!({ "type": "string", "minLength": 1, "maxLength": 512,
            "description": "The object: its varname, its id, or #index@revision" }),
        "name" => json!({ "type": "string", "minLength": 1, "maxLength": 256 }),
        "long" => json!({ "type": "string", "maxLength": 32767 }),
        "path" => json!({ "type": "string", "minLength": 1, "maxLength": 4096,
            "description": "Absolute, from ~/, or relative to the patches folder of the Conductor home" }),
        "text" => json!({ "type": "string" }),
        "bool" => json!({ "type": "boolean" }),
        "flag" => json!({ "type": "boolean", "default": false }),
        "int" => json!({ "type": "integer" }),
        "num" => json!({ "type": "number" }),
        "count" => json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }),
        "port" => json!({ "type": "integer", "minimum": 0, "maximum": 4095, "description": "Counted from 0" }),
        "offset" => json!({ "type": "integer", "minimum": 0, "default": 0 }),
        "limit" => json!({ "type": "integer", "minimum": 1, "maximum": 10000, "default": 2000 }),
        "steps" => json!({ "type": "integer", "minimum": 1, "maximum": 200, "default": 1 }),
        "side" => json!({ "enum": ["inlet", "outlet"] }),
        "host" => json!({ "enum": ["document", "pd", "max"], "default": "document" }),
        "family" => json!({ "enum": ["max", "pd"], "default": "max" }),
        "point" => json!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 }),
        "rect" => json!({ "type": "array", "items": { "type": "number" }, "minItems": 4, "maxItems": 4 }),
        "xy" => json!({ "type": "object", "properties": { "x": { "type": "number" }, "y": { "type": "number" } },
            "required": ["x", "y"], "additionalProperties": false }),
        "place" => json!({ "anyOf": [named("xy"), { "type": "null" }] }),
        "nub" => json!({ "type": "object", "properties": { "varname": named("ref"), "side": named("side"),
            "index": { "type": "integer", "minimum": 0, "maximum": 4095 } },
            "required": ["varname", "side", "index"], "additionalProperties": false }),
        "refs" => {
            json!({ "type": "array", "items": { "type": "string", "minLength": 1, "maxLength": 512 }, "minItems": 1,
            "maxItems": 2000 })
        }
        "atoms" => json!({ "type": "array", "items": atom(), "maxItems": 1024 }),
        "value" => value(),
        "attrs" => json!({ "anyOf": [{ "type": "object", "additionalProperties": value() },
            { "type": "string", "maxLength": 32767, "description": "That object as JSON text" }] }),
        "midpoints" => json!({ "type": "array", "maxItems": 256, "items": named("xy") }),
        // No value matches a misspelled kind, so that tests find it.
        other => json!({ "const": format!("no kind {other}") }),
    }
}

/// An object in `get_objects_in_patch`; some modes leave members out.
pub fn object() -> Value {
    plain(json!({
        "index?": "int", "id": "text", "varname?": "text", "maxclass?": "text", "native_class?": "text", "text?": "text",
        "position?": "point", "size?": "point", "presentation?": "rect", "hidden?": "bool", "subpatch_id?": "text", "patch_id?": "text",
    }))
}

/// The members of `get_patch_info`.
pub fn info() -> Value {
    json!({
        "display_name": "text", "patcher_name": "text", "file_path?": "text", "group?": "text", "host": "text", "has_patcher_ref": "bool",
        "format": "text", "style": "text", "app_version?": "text", "object_count": "int", "patchline_count": "int",
        "subpatcher_count": "int", "dirty": "bool",
        "capabilities": { "type": "object", "additionalProperties": { "type": "string" } },
    })
}

/// [`info`] of a patch that was just opened, with warnings about its file.
pub fn opened() -> Value {
    let mut properties = info();
    properties["diagnostics"] = json!([{ "severity": "text", "message": "text", "line?": "int", "subject?": "text" }]);
    body(properties)
}

/// The four arguments that name a cord.
pub fn cord(mut more: Value) -> Value {
    let ends =
        json!({ "patch_id*": "id", "src_varname*": "ref", "outlet*": "port", "dst_varname*": "ref", "inlet*": "port" });
    if let (Value::Object(all), Value::Object(ends)) = (&mut more, ends) {
        all.extend(ends);
    }
    edit_input(more)
}
