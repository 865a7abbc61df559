//! Tests of the schema of the whole file and of the page that is made from it.

use conductor_core::config::{Class, load, reference, schema};
use serde_json::Value;
use std::path::Path;

/// Compares a generated text with the file in the repository. `CONDUCTOR_BLESS=1` rewrites the
/// file.
pub fn is_current(name: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    #[expect(clippy::disallowed_methods, reason = "a person asks for the file to be written")]
    if std::env::var_os("CONDUCTOR_BLESS").is_some() {
        std::fs::write(&path, content).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == content, "{name} is not current; write it with CONDUCTOR_BLESS=1");
}

#[test]
fn the_page_of_keys_is_the_code() {
    is_current("../../docs/configuration-reference.md", &reference::page());
}

#[test]
fn the_schema_file_is_the_code() {
    is_current("../../docs/config.schema.json", &reference::schema_text());
}

/// Every key of every table, with its path and its schema.
fn keys(schema: &Value, path: &str, out: &mut Vec<(String, Value)>) {
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        out.push((path.clone(), value.clone()));
        keys(value, &path, out);
    }
    for branch in schema["oneOf"].as_array().into_iter().flatten() {
        keys(branch, path, out);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            keys(&schema[inner], &format!("{path}.*"), out);
        }
    }
}

fn all_keys() -> Vec<(String, Value)> {
    let file = schema::file();
    let mut out = Vec::new();
    keys(file, "", &mut out);
    for (name, part) in file["$defs"].as_object().unwrap() {
        keys(part, name, &mut out);
    }
    out
}

#[test]
fn every_key_has_a_meaning_and_an_example() {
    let is_table = |it: &Value| {
        let value = if it["items"].is_object() { &it["items"] } else { it };
        let value = if value["additionalProperties"].is_object() { &value["additionalProperties"] } else { value };
        value["properties"].is_object()
    };
    // Two keys are left out: each `type` has its own paragraph, and an example of a `lut` with 128
    // entries would be too long for the page.
    let missing = |test: fn(&Value) -> bool| {
        let keys = all_keys().into_iter();
        let keys =
            keys.filter(|(path, it)| !path.ends_with(".type") && !path.ends_with(".lut") && !is_table(it) && !test(it));
        keys.map(|(path, _)| path).collect::<Vec<_>>()
    };
    assert!(all_keys().len() > 250, "only {} keys", all_keys().len());
    assert_eq!(missing(|it| it["description"].is_string()), Vec::<String>::new(), "keys without a meaning");
    let has_example = |it: &Value| !it["examples"].is_null() || !it["default"].is_null();
    assert_eq!(missing(has_example), Vec::<String>::new(), "keys without an example");
}

/// The schema and the reader agree about every file of the corpus of faults, and about the valid
/// files.
#[test]
fn editors_find_the_faults_that_a_schema_can_express() {
    let validator = jsonschema::validator_for(schema::file()).unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (mut refused, mut accepted) = (0, 0);
    for folder in ["config_faults", "config_fixtures"] {
        for entry in std::fs::read_dir(tests.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let Ok(table) = text.trim_start_matches('\u{feff}').parse::<toml::Table>() else { continue };
            let Ok(value) = serde_json::to_value(table) else { continue };
            let loaded = load(&text);
            let shape = loaded.errors().find(|it| it.class == Class::Shape);
            let fits = validator.is_valid(&value);
            assert_eq!(fits, shape.is_none(), "{}: {:?} {shape:?}", path.display(), validator.validate(&value).err());
            if fits { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(refused > 40 && accepted > 60, "only {refused} refused and {accepted} accepted files");
}

#[test]
fn every_example_of_a_key_is_accepted_by_its_schema() {
    let defs = schema::file()["$defs"].clone();
    for (path, mut schema) in all_keys() {
        let values: Vec<Value> = schema["examples"].as_array().cloned().unwrap_or_default();
        let default = schema.get("default").cloned();
        schema["$defs"] = defs.clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for value in values.iter().chain(&default) {
            assert!(validator.is_valid(value), "{path}: {value}");
        }
    }
}
