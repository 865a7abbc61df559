//! JSON Schemas: restrictions on schemas, and validation of values.
//!
//! Values are not coerced, no defaults are filled in, and no keys are dropped. A value is valid, or
//! it is refused with the place and the constraint.

use std::sync::{Arc, OnceLock};

use conductor_core::error::Violation;
pub use conductor_core::text::cut;
use jsonschema::PatternOptions;
use serde_json::{Map, Value};

/// Maximum number of faults in one error: a model fixes the first few and calls again.
const MAX_VIOLATIONS: usize = 8;
/// Maximum size of a value that is shown in a fault, in bytes.
const SHOWN_BYTES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("{pointer}: $ref {target:?} points outside the document; only references that begin with #/ are allowed")]
    RemoteRef { pointer: String, target: String },
    #[error("the schema does not compile: {0}")]
    DoesNotCompile(String),
}

/// A schema as JSON text. A parsed tree needs ten times the memory, and most schemas are never
/// read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema(Arc<str>);

impl Schema {
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }
}

impl From<Value> for Schema {
    fn from(schema: Value) -> Self {
        Self(schema.to_string().into())
    }
}

impl serde::Serialize for Schema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl std::fmt::Display for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug)]
pub struct Validator {
    schema: Schema,
    /// `Some(None)` means that the schema does not compile, so no value is valid.
    compiled: OnceLock<Option<jsonschema::Validator>>,
}

impl Validator {
    pub fn compile(schema: &Schema) -> Result<Self, SchemaError> {
        let compiled = build(&schema.value())?;
        Ok(Self { schema: schema.clone(), compiled: OnceLock::from(Some(compiled)) })
    }

    /// Compiles at the first use. For built-in schemas: compiling all of them would slow down every
    /// start, and the tests compile them.
    pub fn later(schema: &Schema) -> Self {
        Self { schema: schema.clone(), compiled: OnceLock::new() }
    }

    fn compiled(&self) -> Option<&jsonschema::Validator> {
        self.compiled.get_or_init(|| build(&self.schema.value()).ok()).as_ref()
    }

    pub fn fits(&self, value: &Value) -> bool {
        self.compiled().is_some_and(|it| it.is_valid(value))
    }

    /// The first faults, each with a JSON pointer and the constraint in words.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        let Some(compiled) = self.compiled() else {
            return vec![Violation { path: String::new(), message: "the tool's schema does not compile".to_owned() }];
        };
        if compiled.is_valid(value) {
            return Vec::new();
        }
        compiled
            .iter_errors(value)
            .take(MAX_VIOLATIONS)
            .map(|fault| {
                let shown = cut(&fault.instance().to_string(), SHOWN_BYTES);
                Violation {
                    path: fault.instance_path().to_string(),
                    // The original message of the crate `jsonschema` contains the whole value,
                    // which may be a megabyte long.
                    message: cut(&fault.masked_with(shown).to_string(), 512),
                }
            })
            .collect()
    }
}

fn build(schema: &Value) -> Result<jsonschema::Validator, SchemaError> {
    if let Some((pointer, target)) = find_remote_ref(schema, &mut String::new()) {
        return Err(SchemaError::RemoteRef { pointer, target });
    }
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|fault| SchemaError::DoesNotCompile(cut(&fault.to_string(), 400)))
}

fn find_remote_ref(schema: &Value, pointer: &mut String) -> Option<(String, String)> {
    let here = pointer.len();
    let mut inside = |key: &str, value: &Value| {
        pointer.push('/');
        pointer.push_str(key);
        let found = find_remote_ref(value, pointer);
        pointer.truncate(here);
        found
    };
    match schema {
        Value::Object(members) => {
            for word in ["$ref", "$dynamicRef"] {
                if let Some(Value::String(target)) = members.get(word)
                    && !(target == "#" || target.starts_with("#/"))
                {
                    return Some((format!("{pointer}/{word}"), target.clone()));
                }
            }
            members.iter().find_map(|(key, value)| inside(key, value))
        }
        Value::Array(items) => items.iter().enumerate().find_map(|(index, value)| inside(&index.to_string(), value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Keywords that make several model APIs refuse a whole session if they are at the root.
pub const ROOT_COMBINATORS: [&str; 7] = ["anyOf", "oneOf", "allOf", "not", "if", "then", "else"];

/// The copy of an input schema for clients. Removed constraints are in the tool's description, and
/// are still validated.
pub fn published(mut schema: Value) -> Value {
    if let Value::Object(members) = &mut schema {
        members.retain(|word, _| !ROOT_COMBINATORS.contains(&word.as_str()));
    }
    schema
}

/// Constraints that a model rarely needs. A call that breaks one is refused with the constraint.
const RARE_CONSTRAINTS: [&str; 7] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "format"];
/// Larger bounds of numbers are left out. Most of them are limits of the integer type, and
/// validation reports the others.
const HUGE: f64 = 32_768.0;

/// The copy of a published schema for lists that a model reads: without constraints that validation
/// reports anyway, and without definitions that nothing refers to.
pub fn lean(mut schema: Value) -> Value {
    strip(&mut schema);
    let text = schema.to_string();
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        definitions.retain(|name, _| text.contains(&format!("#/$defs/{name}\"")));
    }
    schema
}

fn strip(schema: &mut Value) {
    let Value::Object(words) = schema else { return };
    words.retain(|word, value| match word.as_str() {
        word if RARE_CONSTRAINTS.contains(&word) => false,
        // Validation refuses unknown members anyway, and defaults apply even if the schema does not
        // show them.
        "additionalProperties" => *value != Value::Bool(false),
        "default" => false,
        "minimum" | "maximum" => value.as_f64().is_none_or(|it| it.abs() < HUGE) && *value != 0,
        _ => true,
    });
    for (word, value) in words.iter_mut() {
        match (word.as_str(), value) {
            ("description", Value::String(text)) => {
                if let Some(end) = text.find(". ") {
                    text.truncate(end);
                }
            }
            ("properties" | "$defs" | "patternProperties", Value::Object(named)) => {
                named.values_mut().for_each(strip);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(items)) => {
                items.iter_mut().for_each(strip);
            }
            ("items" | "additionalProperties", inner) => strip(inner),
            _ => {}
        }
    }
}

/// Adds the error object as another branch of a success schema: one widespread SDK also validates
/// failed results, and would throw instead of showing the hint.
pub fn with_error_branch(success: Value) -> Value {
    let mut success = success;
    let mut definitions = match success.as_object_mut().and_then(|members| members.remove("$defs")) {
        Some(Value::Object(definitions)) => definitions,
        Some(_) | None => Map::new(),
    };
    definitions.insert(
        "ToolError".to_owned(),
        serde_json::json!({
            "type": "object",
            "properties": { "code": { "type": "string" }, "message": { "type": "string" }, "hint": { "type": "string" } },
            "required": ["code", "message", "hint"]
        }),
    );
    serde_json::json!({ "type": "object", "anyOf": [success, { "$ref": "#/$defs/ToolError" }], "$defs": definitions })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[cfg(unix)]
    mod references;

    fn violations(schema: Value, value: Value) -> Vec<(String, String)> {
        let validator = Validator::compile(&schema.into()).expect("does not compile");
        validator.violations(&value).into_iter().map(|it| (it.path, it.message)).collect()
    }

    #[test]
    fn a_fault_names_its_place_and_its_constraint() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["mode"],
            "properties": { "mode": { "type": "string", "minLength": 1 }, "rows": { "type": "array", "items": { "type": "integer" } } }
        });
        assert_eq!(
            violations(schema.clone(), json!({ "mode": "", "rows": [1, "x"] })),
            [
                ("/mode".to_owned(), "\"\" is shorter than 1 character".to_owned()),
                ("/rows/1".to_owned(), "\"x\" is not of type \"integer\"".to_owned()),
            ]
        );
        let missing = violations(schema, json!({ "mod": 1 }));
        assert_eq!(missing.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["", ""]);
        assert!(missing.iter().any(|it| it.1.contains("mode")) && missing.iter().any(|it| it.1.contains("mod")));
    }

    #[test]
    fn formats_are_enforced() {
        for (format, good, bad) in [
            ("uuid", "5e0c8b1e-0000-4000-8000-000000000001", "5e0c8b1e"),
            ("date-time", "2026-01-02T03:04:05.000Z", "yesterday"),
            ("uri", "https://example.org/x", "no scheme"),
        ] {
            let schema = json!({ "type": "string", "format": format });
            assert_eq!(violations(schema.clone(), json!(good)), []);
            assert_eq!(violations(schema, json!(bad)).len(), 1, "{format}");
        }
    }

    #[test]
    fn what_could_reach_out_or_run_long_does_not_load() {
        for target in ["file:///etc/passwd", "http://example.org/s.json", "other.json#/a", "#anchor"] {
            let fault =
                Validator::compile(&json!({ "properties": { "a": { "$ref": target } } }).into()).expect_err(target);
            assert_eq!(fault, SchemaError::RemoteRef { pointer: "/properties/a/$ref".into(), target: target.into() });
        }
        for pattern in ["(?=a)b", r"(a)\1", "(?<!a)b"] {
            let fault = Validator::compile(&json!({ "type": "string", "pattern": pattern }).into());
            assert!(matches!(fault, Err(SchemaError::DoesNotCompile(_))), "{pattern}");
        }
        // This pattern is slow only with a backtracking engine; here it compiles and returns
        // quickly.
        let bomb = Validator::compile(&json!({ "type": "string", "pattern": "^(a+)+$" }).into()).expect("not compiled");
        assert!(!bomb.fits(&json!(format!("{}!", "a".repeat(50_000)))));
        // Negative control: with a backtracking engine, each letter doubles the number of steps.
        let steps = |letters: usize| {
            let (mut steps, text) = (0, format!("{}!", "a".repeat(letters)));
            assert!(!backtrack(text.as_bytes(), &mut steps));
            steps
        };
        assert_eq!((steps(20) / steps(10), steps(22) > 4_000_000), (1024, true));
    }

    /// Matches `^(a+)+$` by backtracking: after each run of the letter, tries the end or another
    /// run.
    fn backtrack(text: &[u8], steps: &mut u64) -> bool {
        *steps += 1;
        let run = text.iter().take_while(|it| **it == b'a').count();
        (1..=run).rev().any(|taken| taken == text.len() || backtrack(&text[taken..], steps))
    }

    #[test]
    fn a_large_value_is_cut_and_faults_are_counted() {
        let schema = json!({ "type": "array", "items": { "type": "integer" } });
        let found = violations(schema, Value::Array(vec![json!("ü".repeat(10_000)); 20]));
        assert_eq!(found.len(), MAX_VIOLATIONS);
        assert!(found.iter().all(|it| it.1.len() < 200), "{found:?}");
    }

    #[test]
    fn the_published_copy_has_no_root_combinator_and_the_error_branch_resolves() {
        let schema =
            json!({ "type": "object", "oneOf": [{ "required": ["a"] }], "properties": { "a": { "anyOf": [] } } });
        assert_eq!(published(schema), json!({ "type": "object", "properties": { "a": { "anyOf": [] } } }));
        let output = with_error_branch(json!({
            "type": "object", "properties": { "n": { "$ref": "#/$defs/N" } }, "required": ["n"], "$defs": { "N": { "type": "integer" } }
        }));
        let validator = Validator::compile(&output.into()).expect("does not compile");
        assert!(validator.fits(&json!({ "n": 1 })));
        assert!(validator.fits(&json!({ "code": "TIMEOUT", "message": "m", "hint": "h" })));
        assert!(!validator.fits(&json!({ "n": "x" })));
    }

    proptest! {
        #[test]
        fn cutting_keeps_characters_whole(text in "\\PC{0,80}", bytes in 0usize..90) {
            let short = cut(&text, bytes);
            prop_assert!(short.len() <= bytes + '…'.len_utf8());
            prop_assert!(text.starts_with(short.trim_end_matches('…')) || text.contains('…'));
        }
    }
}

#[cfg(test)]
mod lazy {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_compiled_later_judges_as_one_compiled_now() {
        let schema =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "additionalProperties": false })
                .into();
        let (now, later) = (Validator::compile(&schema).unwrap(), Validator::later(&schema));
        for value in [json!({ "n": 1 }), json!({ "n": "x" }), json!({ "m": 1 })] {
            assert_eq!(now.violations(&value), later.violations(&value));
            assert_eq!(now.fits(&value), later.fits(&value));
        }
    }

    #[test]
    fn nothing_fits_a_schema_that_does_not_compile() {
        let broken = Validator::later(&json!({ "$ref": "file:///etc/passwd" }).into());
        assert!(!broken.fits(&json!({})));
        assert_eq!(broken.violations(&json!({})).len(), 1);
    }
}
