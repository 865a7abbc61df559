//! Tests that the published JSON Schemas and the configuration reader accept the same values.

use crate::generate::{Dice, Maker, pointers};
use conductor_core::action::Action;
use conductor_core::config::{Class, Diagnostic, input, schema};
use conductor_core::mapping::{SourceKind, Target, TriggerKind};
use conductor_core::plan::Change;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn document() -> Map<String, Value> {
    schema::defs().clone()
}

/// The result of reading a value, as text for comparison, or its errors.
type Reading = Result<String, Vec<Diagnostic>>;

type Read = fn(&Value) -> Reading;

fn readers() -> [(&'static str, Read); 6] {
    [
        ("Trigger", |it| input::trigger(it, "").map(|it| format!("{it:?}"))),
        ("Action", |it| input::action(it, "").map(|it| format!("{it:?}"))),
        ("Mapping", |it| input::mapping(it, "").map(|it| format!("{it:?}"))),
        ("Continuous", |it| input::continuous(it, "").map(|it| format!("{it:?}"))),
        ("Matcher", |it| input::matcher(it, "").map(|it| format!("{it:?}"))),
        ("Change", |it| Change::read(it, "").map(|it| format!("{it:?}"))),
    ]
}

/// Checks that the schema and the reader agree on this value, except for rules that a schema cannot
/// express.
fn agree(name: &str, validator: &jsonschema::Validator, value: &Value, reading: &Reading) {
    let accepted = validator.is_valid(value);
    match reading {
        Ok(_) => assert!(accepted, "{name}: the reader accepts a value that the schema refuses: {value}"),
        Err(faults) => {
            let shape = faults.iter().find(|it| it.class == Class::Shape);
            if accepted {
                assert!(shape.is_none(), "{name}: the schema accepts {value}, but the reader reports {shape:?}");
            } else {
                assert!(!faults.is_empty(), "{name}: the reader refused a value without a fault: {value}");
            }
        }
    }
}

#[test]
fn whatever_the_schema_makes_the_reader_reads_and_the_other_way_round() {
    let defs = document();
    for (name, read) in readers() {
        let schema = schema::def(name).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let mut maker = Maker { defs: &defs, dice: Dice(7) };
        let mut accepted = 0;
        let mut refused_by_schema = 0;
        for _ in 0..700 {
            let mut value = maker.value(&schema, name, 0);
            assert!(validator.is_valid(&value), "the schema refuses a generated value: {value}");
            let reading = read(&value);
            accepted += usize::from(reading.is_ok());
            agree(name, &validator, &value, &reading);
            for _ in 0..3 {
                maker.damage(&mut value);
                refused_by_schema += usize::from(!validator.is_valid(&value));
                agree(name, &validator, &value, &read(&value));
            }
        }
        assert!(accepted > 150, "{name}: only {accepted} values were read, so this test proves little");
        assert!(refused_by_schema > 700, "{name}: only {refused_by_schema} values were damaged");
    }
}

/// Negative control of the test above: a schema with one changed bound must be detected.
#[test]
#[should_panic(expected = "accepts a value that the schema refuses")]
fn a_schema_that_says_less_is_noticed() {
    let defs = document();
    let mut schema = schema::def("Trigger").unwrap();
    schema["$defs"]["u7"]["maximum"] = json!(126);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut maker = Maker { defs: &defs, dice: Dice(7) };
    for _ in 0..1500 {
        let value = maker.value(&schema::def("Trigger").unwrap(), "Trigger", 0);
        agree("Trigger", &validator, &value, &input::trigger(&value, "").map(|_| String::new()));
    }
}

fn tags(def: &Value, key: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for branch in def["oneOf"].as_array().unwrap() {
        let tag = &branch["properties"][key];
        out.extend(tag["const"].as_str().map(str::to_owned));
        out.extend(tag["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    }
    out
}

#[test]
fn every_type_of_the_schema_is_a_type_of_ours() {
    let defs = document();
    let ours = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(tags(&defs["Trigger"], "type"), ours(TriggerKind::NAMES));
    assert_eq!(tags(&defs["Action"], "type"), ours(Action::NAMES));
    assert_eq!(tags(&defs["Source"], "type"), ours(SourceKind::NAMES));
    assert_eq!(tags(&defs["Target"], "type"), ours(Target::NAMES));
    assert_eq!(tags(&defs["Change"], "change_type"), ours(Change::NAMES));
}

/// Other values of the same type.
fn alternatives(value: &Value, key: &str, enums: &[Vec<String>]) -> Vec<Value> {
    match value {
        Value::Bool(it) => vec![json!(!it)],
        Value::Number(it) => match it.as_i64() {
            Some(it) => [1, -1, 7, -7, 32].iter().map(|by| json!(it + by)).collect(),
            None => [0.01, -0.01].iter().map(|by| json!(it.as_f64().unwrap() + by)).collect(),
        },
        Value::String(it) => {
            let beside = enums.iter().filter(|words| words.contains(it)).flatten();
            let mut out: Vec<Value> = beside.filter(|word| *word != it).map(|word| json!(word)).collect();
            out.push(json!(format!("{it}x")));
            out.push(json!(if key == "start" || key == "end" { "12:34" } else { "y" }));
            out
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

/// Collects every `enum` list in the schema.
fn collect_enums(schema: &Value, out: &mut Vec<Vec<String>>) {
    match schema {
        Value::Object(map) => {
            let words = map.get("enum").and_then(Value::as_array).into_iter().flatten();
            out.push(words.filter_map(Value::as_str).map(str::to_owned).collect());
            map.values().for_each(|it| collect_enums(it, out));
        }
        Value::Array(items) => items.iter().for_each(|it| collect_enums(it, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Properties in which two different values may have the same meaning.
const ALIASES: &[&str] = &["keys", "modifiers", "direction", "command"];

/// Every `TAG.property` of a tagged definition.
fn properties(defs: &Map<String, Value>, name: &str, key: &str) -> BTreeSet<String> {
    fn own(defs: &Map<String, Value>, schema: &Value, out: &mut BTreeSet<String>) {
        out.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
        if let Some(target) = schema["$ref"].as_str() {
            own(defs, &defs[target.trim_start_matches("#/$defs/")], out);
        }
    }
    let def = &defs[name];
    let mut out = BTreeSet::new();
    for branch in def["oneOf"].as_array().unwrap() {
        let mut names = BTreeSet::new();
        own(defs, branch, &mut names);
        own(defs, def, &mut names);
        names.remove(key);
        for tag in tags(&json!({ "oneOf": [branch] }), key) {
            out.extend(names.iter().map(|it| format!("{tag}.{it}")));
        }
    }
    out
}

/// The tag of the object that contains this place, and the property, as `TAG.property`.
fn owner(value: &Value, pointer: &str) -> Option<String> {
    let mut parts: Vec<&str> = pointer.split('/').collect();
    let mut property = None;
    while parts.len() > 1 {
        let last = parts.pop()?;
        if last.parse::<usize>().is_err() {
            property = Some(last);
        }
        let holder = value.pointer(&parts.join("/"))?;
        if let (Some(tag), Some(property)) = (holder.get("type").and_then(Value::as_str), property) {
            return Some(format!("{tag}.{property}"));
        }
    }
    None
}

#[test]
fn every_field_of_the_schema_changes_what_is_read() {
    let defs = document();
    let mut enums = Vec::new();
    collect_enums(&Value::Object(defs.clone()), &mut enums);
    let mut missing: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, read) in
        readers().into_iter().filter(|(name, _)| ["Trigger", "Action", "Continuous", "Matcher"].contains(name))
    {
        let schema = schema::def(name).unwrap();
        let mut maker = Maker { defs: &defs, dice: Dice(11) };
        let mut differed = BTreeSet::new();
        for _ in 0..900 {
            let value = maker.value(&schema, name, 3);
            let Ok(before) = read(&value) else { continue };
            let mut places = Vec::new();
            pointers(&value, String::new(), &mut places);
            for place in &places {
                let key = place.rsplit('/').find(|it| it.parse::<usize>().is_err()).unwrap_or_default();
                // Another `type` would need other keys. The other three keys are tested with whole
                // files.
                if key == "type" || ["/id", "/description", "/enabled"].contains(&place.as_str()) {
                    continue;
                }
                let leaf = value.pointer(place).unwrap();
                let options = alternatives(leaf, key, &enums);
                for _ in 0..options.len().min(6) {
                    let other = maker.dice.pick(&options);
                    let mut changed = value.clone();
                    *changed.pointer_mut(place).unwrap() = other.clone();
                    let Ok(after) = read(&changed) else { continue };
                    if before != after {
                        differed.extend(owner(&value, place));
                    } else {
                        assert!(
                            ALIASES.contains(&key),
                            "{place}: {leaf} and {other} are read as the same value: {value}"
                        );
                    }
                }
            }
        }
        let wanted: BTreeSet<String> = match name {
            "Trigger" => properties(&defs, "Trigger", "type"),
            "Action" => properties(&defs, "Action", "type"),
            "Matcher" => properties(&defs, "Matcher", "type"),
            _ => &properties(&defs, "Source", "type") | &properties(&defs, "Target", "type"),
        };
        // These properties are not leaves, or need other fields when they change, so they are not
        // varied here.
        let nested = |it: &String| {
            [
                "actions",
                "action",
                "then_action",
                "else_action",
                "condition",
                "zones",
                "transform",
                "velocity_map",
                "message_type",
            ]
            .iter()
            .any(|key| it.ends_with(&format!(".{key}")))
        };
        let left: BTreeSet<String> = wanted.difference(&differed).filter(|it| !nested(it)).cloned().collect();
        if !left.is_empty() {
            missing.insert(name, left);
        }
    }
    assert_eq!(missing, BTreeMap::new(), "changes of these fields never had an effect");
}

#[test]
fn a_definition_stands_on_its_own() {
    for name in schema::names() {
        let def = schema::def(name).unwrap();
        jsonschema::validator_for(&def).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
    let tool =
        schema::with_defs(json!({ "type": "object", "properties": { "trigger": { "$ref": "#/$defs/Trigger" } } }));
    let carried: Vec<&String> = tool["$defs"].as_object().unwrap().keys().collect();
    assert!(carried.iter().any(|it| *it == "Action"), "the definition of actions, which zones need, is missing");
    assert!(!carried.iter().any(|it| *it == "Target"), "an unused definition is included");
    assert_eq!(schema::def("Nonsense"), None);
}

#[test]
fn an_outline_names_every_type_and_accepts_what_the_full_schema_accepts() {
    let changes = json!({ "type": "array", "items": { "$ref": "#/$defs/Change" } });
    let full = schema::with_defs(json!({ "type": "object", "properties": { "changes": changes } }));
    let short = schema::with_outlined_defs(
        json!({ "type": "object", "properties": { "changes": changes } }),
        "conductor_create_mapping",
    );
    assert!(
        short.to_string().len() * 2 < full.to_string().len(),
        "the outline is not much shorter than the full schema"
    );
    assert_eq!(short["$defs"]["Trigger"]["description"], "as in conductor_create_mapping");
    assert_eq!(short["$defs"]["Trigger"]["properties"]["type"]["enum"], json!(TriggerKind::NAMES));
    assert_eq!(short["$defs"]["Action"]["properties"]["type"]["enum"], json!(Action::NAMES));
    let validator = jsonschema::validator_for(&short).unwrap();
    let defs = document();
    let mut maker = Maker { defs: &defs, dice: Dice(2) };
    for _ in 0..300 {
        let change = maker.value(&schema::def("Change").unwrap(), "Change", 2);
        assert!(validator.is_valid(&json!({ "changes": [change] })), "{change}");
    }
    assert!(!validator.is_valid(&json!({ "changes": [{ "change_type": "Nonsense" }] })));
}
