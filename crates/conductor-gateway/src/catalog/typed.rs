//! Builds a [`Definition`] from a function with typed arguments and a typed answer. Both schemas
//! come from the types; the documentation of a field is its description.
//!
//! Every struct becomes an object that accepts no further members. An optional field may be absent,
//! but is never null: in the arguments an `Option` or a field with `serde(default)`, in the answer
//! a field with `skip_serializing_if`. Other fields of type `Option` are nullable.
//!
//! Not here: validating arguments (`schema`) and the rules for published schemas (`lint`).

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use conductor_core::config::schema::with_defs;
use conductor_core::error::{Code, ToolError};
use conductor_core::policy::Tier;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Definition;
use crate::pipeline::call::{Content, Output};
use crate::pipeline::gate::Clearance;
use crate::studio::Studio;

/// The studio and one call.
pub struct Context {
    pub studio: Arc<Studio>,
    pub clearance: Clearance,
    /// The arguments before parsing, for hashes.
    pub arguments: Value,
}

/// The arguments of a tool without arguments.
#[derive(Debug, serde::Deserialize, JsonSchema)]
pub struct NoArgs {}

/// A tool that runs `run` with a clone of `state`.
pub fn tool<S, A, T, R, F>(name: &'static str, tier: Tier, toolset: &'static str, state: &S, run: F) -> Definition
where
    S: Clone + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema,
    T: Answer,
    R: Future<Output = Result<T, ToolError>> + Send + 'static,
    F: Fn(S, Context, A) -> R + Send + Sync + 'static,
{
    let state = state.clone();
    let handler = move |studio, clearance, arguments: Value| {
        let started = parse(&arguments).map(|args| run(state.clone(), Context { studio, clearance, arguments }, args));
        async move { started?.await?.into_output() }
    };
    Definition::new(name, tier, toolset, handler).input(arguments_schema::<A>()).output(T::schema())
}

/// The answer of a tool: every serialisable type with a schema, and [`Output`] for a tool that sets
/// its output schema by hand.
pub trait Answer {
    fn schema() -> Value;
    fn into_output(self) -> Result<Output, ToolError>;
}

impl<T: Serialize + JsonSchema> Answer for T {
    fn schema() -> Value {
        answer_schema::<T>()
    }

    fn into_output(self) -> Result<Output, ToolError> {
        serde_json::to_value(self)
            .map(Output::new)
            .map_err(|fault| ToolError::new(Code::Internal, format!("the result cannot be written: {fault}")))
    }
}

impl Answer for Output {
    fn schema() -> Value {
        json!({ "type": "object" })
    }

    fn into_output(self) -> Result<Output, ToolError> {
        Ok(self)
    }
}

/// An answer with content blocks, such as a picture.
pub struct WithContent<T> {
    pub answer: T,
    pub content: Vec<Content>,
}

impl<T: Answer> Answer for WithContent<T> {
    fn schema() -> Value {
        T::schema()
    }

    fn into_output(self) -> Result<Output, ToolError> {
        Ok(self.content.into_iter().fold(self.answer.into_output()?, Output::with))
    }
}

/// Turns a function of typed arguments into a hook of a [`Definition`]. The hook returns the
/// default for arguments of another type, because validation refuses them.
pub fn with_args<A: DeserializeOwned, T: Default>(hook: impl Fn(&A) -> T) -> impl Fn(&Value) -> T {
    move |arguments| parse(arguments).map(|args| hook(&args)).unwrap_or_default()
}

/// Parses arguments. An integer may be written as `2.0`, because JSON Schema allows that. Both
/// attempts read a reference, so that the parser of each type is compiled once.
pub fn parse<A: DeserializeOwned>(arguments: &Value) -> Result<A, ToolError> {
    A::deserialize(arguments)
        .or_else(|fault| A::deserialize(&whole_numbers(arguments.clone())).map_err(|_| fault))
        .map_err(|fault| ToolError::new(Code::BadInput, fault.to_string()))
}

fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, whole_numbers(value))).collect(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= 9e15 => json!(float as i64),
            Some(_) | None => Value::Number(number),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

/// The published input schema of `A`, with the definitions of the configuration that it refers to.
pub fn arguments_schema<A: JsonSchema>() -> Value {
    with_defs(published::<A>(SchemaSettings::draft2020_12().for_deserialize()))
}

/// The published schema of a successful answer.
pub fn answer_schema<T: JsonSchema>() -> Value {
    published::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn published<T: JsonSchema>(mut settings: SchemaSettings) -> Value {
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let is_answer = settings.contract.is_serialize();
    published_form(settings.into_generator().into_root_schema_for::<T>(), is_answer)
}

/// The part of [`published`] that does not depend on the type, so that it is compiled once.
fn published_form(mut schema: Schema, is_answer: bool) -> Value {
    let words = schema.ensure_object();
    words.retain(|word, _| word != "title" && word != "description");
    // The schema of a union has its members in the branches, so it gets no `properties`.
    if !words.contains_key("anyOf") {
        words.entry("properties").or_insert_with(|| json!({}));
    }
    RecursiveTransform(|schema: &mut Schema| {
        if let Some(words) = schema.as_object_mut() {
            tidy(words, is_answer);
        }
    })
    .transform(&mut schema);
    schema.to_value()
}

/// Gives a generated schema the form that all clients accept.
fn tidy(words: &mut Map<String, Value>, is_answer: bool) {
    // An absent list or text means the same as an empty one, so such a default is not useful.
    words.retain(|word, value| word != "default" || !["[]", "{}", "\"\""].contains(&value.to_string().as_str()));
    if let Some(names) = words.get("oneOf").and_then(names_of_variants) {
        words.remove("oneOf");
        words.insert("type".to_owned(), "string".into());
        words.insert("enum".to_owned(), names);
    }
    let optional = without_null(words);
    if matches!(words.get("type").and_then(Value::as_str), Some("integer" | "number")) {
        words.shift_remove("format");
        // The bounds of an unsigned type are useless to a reader of an answer.
        let bound = |word: &str| words.get(word).and_then(Value::as_u64);
        if is_answer && bound("minimum") == Some(0) && matches!(bound("maximum"), None | Some(0xFF | 0xFFFF)) {
            words.retain(|word, _| word != "minimum" && word != "maximum");
        }
    }
    // `writeOnly` is not needed: the schema of the answer does not contain such a member.
    words.shift_remove("writeOnly");
    if words.get("default") == Some(&Value::Null) {
        words.shift_remove("default");
    }
    if let Some(Value::String(text)) = words.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.ends_with('.') && !text.contains(". ") {
            text.pop();
        }
    }
    close(words);
    if optional {
        let description = words.shift_remove_entry("description");
        let inner = std::mem::take(words);
        words.insert("anyOf".to_owned(), json!([inner, { "type": "null" }]));
        words.extend(description);
    }
}

/// Closes an object, unless its schema allows further members. Removes null from its optional
/// members.
fn close(words: &mut Map<String, Value>) {
    if words.get("additionalProperties") == Some(&Value::Bool(true)) {
        words.shift_remove("additionalProperties");
    } else if words.contains_key("properties") {
        words.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    if let Some(Value::Array(required)) = words.get_mut("required") {
        // Flattened structs may have a member in common, so remove repeated names.
        let mut seen = HashSet::new();
        required.retain(|it| seen.insert(it.clone()));
    }
    let required = words.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = words.get_mut("properties") else { return };
    for (name, schema) in properties {
        if let Some(words) = schema.as_object_mut().filter(|_| !required.iter().any(|it| it == name)) {
            without_null(words);
            // An optional enum or union has a schema of two branches: its own schema, and null. Use
            // its own schema in place of both.
            let inner = words.get("anyOf").and_then(Value::as_array).and_then(|it| match it.as_slice() {
                [Value::Object(inner), null] if null["type"] == "null" && !inner.contains_key("type") => {
                    Some(inner.clone())
                }
                _ => None,
            });
            if let Some(inner) = inner {
                words.shift_remove("anyOf");
                for (word, value) in inner {
                    words.entry(word).or_insert(value);
                }
            }
        }
    }
}

/// Removes null from the types of a schema. Returns whether null was one of them.
fn without_null(words: &mut Map<String, Value>) -> bool {
    let Some(Value::Array(kinds)) = words.get_mut("type") else { return false };
    kinds.retain(|it| it != "null");
    let kind = kinds.pop().unwrap_or_default();
    words.insert("type".to_owned(), kind);
    if let Some(Value::Array(values)) = words.get_mut("enum") {
        values.retain(|it| !it.is_null());
    }
    true
}

/// The names of an enum whose variants are documented.
fn names_of_variants(branches: &Value) -> Option<Value> {
    let mut names = Vec::new();
    for branch in branches.as_array()? {
        match (branch.get("const"), branch.get("enum")) {
            (Some(name @ Value::String(_)), None) => names.push(name.clone()),
            (None, Some(Value::Array(several))) => names.extend(several.iter().cloned()),
            _ => return None,
        }
    }
    Some(Value::Array(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// How to sort.
    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        /// Smallest first.
        Up,
        Down,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(untagged)]
    enum Word {
        Number(f64),
        Text(String),
    }

    /// Not published.
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only the schema is tested")]
    struct Args {
        /// Name of the
        /// mode.
        #[schemars(length(min = 1, max = 64))]
        mode: String,
        /// First sentence. Second sentence.
        #[schemars(range(min = 1, max = 127))]
        note: Option<u8>,
        /// The order
        order: Option<Order>,
        /// Values
        words: Option<Vec<Word>>,
        /// One value
        word: Option<Word>,
        /// Whether to wait
        #[serde(default)]
        wait: bool,
        /// Names
        #[serde(default)]
        names: Vec<String>,
        /// A part
        #[serde(flatten)]
        part: Part,
        /// Any object
        title: Map<String, Value>,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Part {
        /// Seconds
        format: f64,
    }

    #[derive(Serialize, JsonSchema)]
    struct Reply {
        count: usize,
        level: u8,
        /// Nothing if it is empty
        name: Option<String>,
        order: Option<Order>,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        parts: Vec<Part>,
    }

    #[test]
    fn arguments_are_closed_described_and_never_null() {
        let word = json!([{ "type": "number" }, { "type": "string" }]);
        assert_eq!(
            arguments_schema::<Args>(),
            json!({
                "type": "object",
                "properties": {
                    "mode": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Name of the mode" },
                    "note": {
                        "type": "integer", "minimum": 1, "maximum": 127, "description": "First sentence. Second sentence.",
                    },
                    "order": { "type": "string", "enum": ["down", "up"], "description": "The order" },
                    "words": { "type": "array", "items": { "anyOf": word }, "description": "Values" },
                    "word": { "anyOf": word, "description": "One value" },
                    "wait": { "type": "boolean", "default": false, "description": "Whether to wait" },
                    "names": { "type": "array", "items": { "type": "string" }, "description": "Names" },
                    "format": { "type": "number", "description": "Seconds" },
                    "title": { "type": "object", "description": "Any object" },
                },
                "required": ["mode", "format", "title"],
                "additionalProperties": false,
            })
        );
        let none = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        assert_eq!(arguments_schema::<NoArgs>(), none);
    }

    #[test]
    fn an_answer_has_nullable_members_and_no_bounds_of_types() {
        let nullable = |schema: Value| json!([schema, { "type": "null" }]);
        assert_eq!(
            answer_schema::<Reply>(),
            json!({
                "type": "object",
                "properties": {
                    "count": { "type": "integer" },
                    "level": { "type": "integer" },
                    "name": { "anyOf": nullable(json!({ "type": "string" })), "description": "Nothing if it is empty" },
                    "order": {
                        "anyOf": nullable(json!({ "type": "string", "enum": ["down", "up"], "description": "How to sort" })),
                    },
                    "note": { "type": "string" },
                    "parts": { "type": "array", "items": {
                        "type": "object", "properties": { "format": { "type": "number", "description": "Seconds" } },
                        "required": ["format"], "additionalProperties": false,
                    } },
                },
                "required": ["count", "level", "name", "order", "parts"],
                "additionalProperties": false,
            })
        );
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only the schema is tested")]
    enum Found {
        All { count: usize },
        Some { part: Part, more: bool },
    }

    #[test]
    fn a_union_is_closed_in_its_branches() {
        let schema = answer_schema::<Found>();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&json!({ "count": 1 })), "{schema}");
        assert!(validator.is_valid(&json!({ "part": { "format": 1 }, "more": true })), "{schema}");
        assert!(!validator.is_valid(&json!({ "count": 1, "more": true })), "{schema}");
    }

    #[test]
    fn a_common_member_of_flattened_structs_is_required_once() {
        #[derive(Serialize, JsonSchema)]
        struct Both {
            #[serde(flatten)]
            part: Part,
            format: f64,
        }
        assert_eq!(answer_schema::<Both>()["required"], json!(["format"]));
    }

    #[test]
    fn a_member_that_is_never_written_is_only_in_the_arguments() {
        #[derive(Deserialize, Serialize, JsonSchema)]
        #[expect(dead_code, reason = "only the schema is tested")]
        struct Chosen {
            #[serde(skip_serializing)]
            selected: bool,
        }
        let member = json!({ "selected": { "type": "boolean" } });
        assert_eq!(arguments_schema::<Chosen>()["properties"], member);
        assert_eq!(answer_schema::<Chosen>()["properties"], json!({}));
    }

    #[test]
    fn an_integer_may_be_written_with_a_fraction_of_zero() {
        #[derive(Deserialize)]
        struct Counted {
            count: u8,
            value: Value,
        }
        let read: Counted = parse(&json!({ "count": 2.0, "value": "x" })).unwrap();
        assert_eq!((read.count, read.value), (2, json!("x")));
        let kept: Counted = parse(&json!({ "count": 2, "value": 3.0 })).unwrap();
        assert_eq!(kept.value, json!(3.0));
        assert!(parse::<Counted>(&json!({ "count": 2.5, "value": 0 })).is_err());
    }
}
