//! The JSON Schemas of the file and of the parts that tools publish. They are derived from the
//! readers: [`super::reader::describe`] runs a reader without a value.
//!
//! Not here: checking values. The readers check values, and they find more faults than a schema
//! can. `tool_schema.json` contains the definitions that only tools use.

use super::reader::{describe, describe_variants};
use super::{action, continuous, device, root, rows, tools, trigger};
use crate::action::CurveKind;
use crate::mapping::On;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Keys of a schema that do not restrict values.
const ANNOTATIONS: [&str; 3] = ["description", "default", "examples"];

/// The definitions for tools. They have no annotations and use short names for frequent forms,
/// because AI clients read them in every conversation.
static TOOL_DEFS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let short = short_forms();
    let forms = short.iter().map(|(name, form)| ((*name).to_owned(), shorten_parts(form, &short)));
    let parts = parts().into_iter().map(|(name, part)| (name.to_owned(), shorten(&plain(&part), &short)));
    let tools: Value = serde_json::from_str(include_str!("tool_schema.json")).unwrap_or_default();
    let tools = tools.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    forms.chain(parts).chain(tools).collect()
});

/// The definitions that tools publish.
pub fn defs() -> &'static Map<String, Value> {
    &TOOL_DEFS
}

/// The JSON Schema of the whole file, for editors and for the reference page.
pub fn file() -> &'static Value {
    &FILE
}

/// The default of a key, such as `limits.read.burst`; `*` is any name.
pub(crate) fn default_of(key: &str) -> Option<&'static Value> {
    let mut steps = key.split('.');
    let value = steps.try_fold(file(), |schema, step| match step {
        "*" => schema.get("additionalProperties"),
        _ => schema["properties"].get(step),
    });
    value?.get("default")
}

static FILE: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = describe(root::read);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Conductor configuration".into();
    let meanings = toml::from_str::<Value>(include_str!("meanings.toml")).unwrap_or_default();
    annotate(&mut schema, "file", &meanings);
    let parts = parts().into_iter().map(|(name, mut part)| {
        annotate(&mut part, name, &meanings);
        (name.to_owned(), part)
    });
    schema["$defs"] = parts.collect();
    schema
});

/// Adds the meanings and examples of keys that have no documentation comment: the keys of tables
/// that are not declared by `section!` or `row!`.
fn annotate(schema: &mut Value, path: &str, meanings: &Value) {
    let tag = &schema["properties"]["type"];
    let variant = tag["const"].as_str().or_else(|| tag["enum"].get(0)?.as_str());
    let variant = variant.map_or_else(|| path.to_owned(), |it| format!("{path}/{it}"));
    let about = meanings[&variant]["about"].as_str();
    if let Some(about) = about.filter(|_| schema.get("description").is_none()) {
        schema["description"] = about.into();
    }
    for (key, value) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let meaning = meanings[&variant].get(key).unwrap_or(&meanings[path][key]);
        if let Some(about) = meaning.get(0).filter(|_| value.get("description").is_none()) {
            value["description"] = about.clone();
        }
        if let Some(example) = meaning.get(1) {
            value["examples"] = json!([example]);
        }
        let path = if path == "file" { key.clone() } else { format!("{path}.{key}") };
        annotate(value, &path, meanings);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(inner).filter(|it| it.is_object()) {
            annotate(inner, path, meanings);
        }
    }
    for branch in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        annotate(branch, path, meanings);
    }
}

/// Definitions of the parts of a row, by name.
fn parts() -> Vec<(&'static str, Value)> {
    vec![
        ("Trigger", tagged(describe_variants("Trigger", trigger::read))),
        ("Condition", tagged(describe_variants("Condition", action::any_condition))),
        ("VelocityMap", tagged(describe_variants("VelocityMap", action::velocity_map))),
        ("Transform", tagged(describe_variants("Transform", action::transform))),
        ("Action", tagged(describe_variants("Action", action::read))),
        ("Source", tagged(describe_variants("Source", continuous::source))),
        ("Glue", tagged(describe_variants("Glue", continuous::glue))),
        ("Target", tagged(describe_variants("Target", continuous::target))),
        ("Continuous", tagged(describe_variants("Continuous", |r, it| rows::continuous(r, it).held))),
        ("Mapping", tagged(describe_variants("Mapping", |r, it| rows::mapping(r, it).held))),
        ("Matcher", tagged(describe_variants("Matcher", device::matcher))),
        ("FeedbackOut", tagged(describe_variants("FeedbackOut", device::feedback_out))),
        ("FeedbackFrom", tagged(describe_variants("FeedbackFrom", device::feedback_from))),
        ("Slot", tagged(describe_variants("Slot", |r, it| tools::slot(r, it, &[], None)))),
    ]
}

/// Combines the variants of a tagged table. Variants that differ only in their name share one
/// branch. Keys that all variants may have are listed once.
fn tagged(mut variants: Vec<Value>) -> Value {
    if variants.len() == 1 {
        return variants.swap_remove(0);
    }
    let mut branches: Vec<(Vec<Value>, Value)> = Vec::new();
    for mut variant in variants {
        let name = variant["properties"]["type"].take()["const"].take();
        match branches.iter_mut().find(|(_, branch)| *branch == variant) {
            Some((names, _)) => names.push(name),
            None => branches.push((vec![name], variant)),
        }
    }
    let common = common_keys(branches.iter().map(|(_, branch)| branch));
    let branches = branches.into_iter().map(|(mut names, mut branch)| {
        let tag = if names.len() == 1 { json!({ "const": names.swap_remove(0) }) } else { json!({ "enum": names }) };
        branch["properties"]["type"] = tag;
        if let Some(keys) = branch["properties"].as_object_mut() {
            keys.retain(|key, _| !common.contains_key(key));
        }
        branch
    });
    let branches: Vec<Value> = branches.collect();
    let mut schema = json!({ "type": "object", "required": ["type"], "unevaluatedProperties": false });
    if !common.is_empty() {
        schema["properties"] = Value::Object(common);
    }
    schema["oneOf"] = Value::Array(branches);
    schema
}

/// The optional keys that have the same schema in every branch.
fn common_keys<'a>(branches: impl Iterator<Item = &'a Value> + Clone) -> Map<String, Value> {
    let first = branches.clone().next().and_then(|it| it["properties"].as_object()).cloned().unwrap_or_default();
    let is_common = |key: &str, schema: &Value| {
        let is_required = |it: &Value| it["required"].as_array().into_iter().flatten().any(|it| it == key);
        branches.clone().all(|it| it["properties"].get(key) == Some(schema) && !is_required(it))
    };
    first.into_iter().filter(|(key, schema)| key != "type" && is_common(key, schema)).collect()
}

/// Frequent forms, with the names that tools publish.
fn short_forms() -> Vec<(&'static str, Value)> {
    vec![
        ("u7", describe(|r, it| r.u7(it))),
        ("u14", describe(|r, it| r.u14(it))),
        ("ch0", describe(|r, it| r.channel(it))),
        ("ms", describe(|r, it| r.ms(it))),
        ("ms0", describe(|r, it| r.ms_or_zero(it))),
        ("unit", describe(|r, it| r.unit(it))),
        ("s", describe(|r, it| r.filled(it))),
        ("id", describe(|r, it| r.id(it))),
        ("alias", describe(|r, it| r.alias(it))),
        ("name", describe(|r, it| r.name(it))),
        ("text", describe(|r, it| r.description(it))),
        ("osc", describe(|r, it| r.osc_address(it))),
        ("hhmm", describe(|r, it| r.time_of_day(it))),
        ("udp", describe(|r, it| r.udp_port(it))),
        ("pair", describe(|r, it| r.pair(it))),
        ("on", describe(|r, it| r.named::<On>(it))),
        ("encoder", describe(|r, it| r.word(it, trigger::ENCODER_MODES))),
        ("curve", describe(|r, it| r.named::<CurveKind>(it))),
        ("button", describe(|r, it| r.button(it))),
        ("axis", describe(|r, it| r.axis(it))),
        ("side", describe(|r, it| r.side(it))),
        ("scalar", describe(|r, it| r.scalar(it))),
        ("oscArg", describe(|r, it| r.osc_arg(it))),
    ]
}

/// A copy of the schema without annotations.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !ANNOTATIONS.contains(&key.as_str()));
            let plained = kept.map(|(key, value)| match value.as_object().filter(|_| key == "properties") {
                // The members of `properties` are keys of the file. Such a key can have the
                // name of an annotation, so keep all of them.
                Some(keys) => (key.clone(), keys.iter().map(|(key, value)| (key.clone(), plain(value))).collect()),
                None => (key.clone(), plain(value)),
            });
            Value::Object(plained.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Replaces every frequent form by a reference to its short name.
fn shorten(schema: &Value, short: &[(&str, Value)]) -> Value {
    match short.iter().find(|(_, form)| form == schema) {
        Some((name, _)) => json!({ "$ref": format!("#/$defs/{name}") }),
        None => shorten_parts(schema, short),
    }
}

fn shorten_parts(schema: &Value, short: &[(&str, Value)]) -> Value {
    match schema {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shorten(value, short))).collect(),
        Value::Array(items) => items.iter().map(|it| shorten(it, short)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
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
/// `published_by`, which publishes the full definitions. The calling tool still accepts complete
/// triggers and actions.
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
        // Keep the order of the document, so that every build publishes the same bytes.
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
