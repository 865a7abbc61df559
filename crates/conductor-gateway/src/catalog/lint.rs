//! Rules for tools, so that no client drops a tool or the whole list.
//!
//! Registration refuses tools that cannot work. These rules are about the limits of real clients. A
//! test checks the whole catalog, and every plugin is checked when it is loaded.

use super::mcp_methods::MCP_METHODS;
use conductor_core::policy::Tier;
use conductor_core::script::NESTING_TOOLS;
use serde_json::{Map, Value};

use super::schema::ROOT_COMBINATORS;
use super::{Annotations, Catalog, Source, Tool};

const MAX_DEPTH: usize = 12;
const MAX_SUBSCHEMAS: usize = 512;
const MAX_PLUGIN_SUBSCHEMAS: usize = 256;
const MAX_DESCRIPTION: usize = 1024;

/// A rule that a tool can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    InputIsClosedObject,
    InputRootHasNoCombinator,
    OutputRootIsObject,
    OutputTakesToolError,
    NoBareBoolean,
    NoRemoteRef,
    NoEmptySchema,
    NoTypeArray,
    NameShape,
    NameIsNotAMethod,
    DescriptionLength,
    Depth,
    Subschemas,
    Annotations,
}

impl Rule {
    /// How the author of a plugin can fix the fault.
    pub const fn advice(self) -> &'static str {
        match self {
            Rule::InputIsClosedObject => "must be an object with additionalProperties: false",
            Rule::InputRootHasNoCombinator => "must not be at the root of an input schema",
            Rule::OutputRootIsObject => "must be an object",
            Rule::OutputTakesToolError => "must allow an error object",
            Rule::NoBareBoolean => "must be an object, not true or false",
            Rule::NoRemoteRef => "may only refer to places in the same schema, as #/...",
            Rule::NoEmptySchema => "must not be empty: some clients refuse an empty schema",
            Rule::NoTypeArray => "must have one type, not a list of types",
            Rule::NameShape => "must be 1-64 characters of A-Z a-z 0-9 _ . -",
            Rule::NameIsNotAMethod => "is the name of a protocol method",
            Rule::DescriptionLength => "are too few or too many for a description (1 to 1024)",
            Rule::Depth => "is nested too deeply",
            Rule::Subschemas => "has too many parts",
            Rule::Annotations => "has hints that contradict its tier",
        }
    }
}

pub fn lint_catalog(catalog: &Catalog) -> Vec<(String, Rule, String)> {
    catalog
        .tools()
        .flat_map(|tool| lint(tool).into_iter().map(|(rule, place)| (tool.name.to_string(), rule, place)))
        .collect()
}

/// Every broken rule, with the place inside the definition.
pub fn lint(tool: &Tool) -> Vec<(Rule, String)> {
    let mut faults = Vec::new();
    lint_name(&tool.name, &mut faults);
    let length = tool.description.chars().count();
    if length == 0 || length > MAX_DESCRIPTION {
        faults.push((Rule::DescriptionLength, format!("{length} characters")));
    }
    let output = tool.output_schema.value();
    lint_input(&tool.published_schema.value(), &mut faults);
    lint_output(&output, &mut faults);
    let most = match tool.source {
        Source::Builtin => MAX_SUBSCHEMAS,
        Source::Plugin { .. } => MAX_PLUGIN_SUBSCHEMAS,
    };
    lint_schema("inputSchema", &tool.input_schema.value(), most, &mut faults);
    lint_schema("outputSchema", &output, most, &mut faults);
    lint_annotations(tool.tier, tool.annotations, tool, &mut faults);
    faults
}

/// The arguments without a description, as paths such as `messages/note`. The rule is only for
/// built-in tools. `$defs` belong to the configuration and are described there.
pub fn undescribed(tool: &Tool) -> Vec<String> {
    fn visit(schema: &Value, place: &str, found: &mut Vec<String>) {
        for (name, argument) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let place = format!("{place}{name}");
            if argument.get("description").is_none() {
                found.push(place.clone());
            }
            visit(argument, &format!("{place}/"), found);
        }
        let branches = ["anyOf", "oneOf", "allOf", "prefixItems"].iter().filter_map(|it| schema.get(it)?.as_array());
        for inner in branches.flatten().chain(schema.get("items")) {
            visit(inner, place, found);
        }
    }
    let mut found = Vec::new();
    visit(&tool.published_schema.value(), "", &mut found);
    found
}

fn lint_name(name: &str, faults: &mut Vec<(Rule, String)>) {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if !fits {
        faults.push((Rule::NameShape, name.to_owned()));
    }
    if MCP_METHODS.contains(&name) || name.starts_with("conductor.") || name.starts_with("notifications/") {
        faults.push((Rule::NameIsNotAMethod, name.to_owned()));
    }
}

fn lint_input(schema: &Value, faults: &mut Vec<(Rule, String)>) {
    if schema.get("type") != Some(&Value::from("object"))
        || schema.get("additionalProperties") != Some(&Value::Bool(false))
    {
        faults.push((Rule::InputIsClosedObject, "inputSchema".to_owned()));
    }
    for word in ROOT_COMBINATORS {
        if schema.get(word).is_some() {
            faults.push((Rule::InputRootHasNoCombinator, word.to_owned()));
        }
    }
}

fn lint_output(schema: &Value, faults: &mut Vec<(Rule, String)>) {
    if schema.get("type") != Some(&Value::from("object")) {
        faults.push((Rule::OutputRootIsObject, "outputSchema".to_owned()));
    }
    let takes =
        schema.get("anyOf").and_then(Value::as_array).is_some_and(|branches| {
            branches.iter().any(|it| it.get("$ref") == Some(&Value::from("#/$defs/ToolError")))
        }) && schema.pointer("/$defs/ToolError").is_some();
    if !takes {
        faults.push((Rule::OutputTakesToolError, "outputSchema".to_owned()));
    }
}

fn lint_annotations(tier: Tier, given: Annotations, tool: &Tool, faults: &mut Vec<(Rule, String)>) {
    let read_only = tier == Tier::ReadOnly;
    let holds = given.read_only == read_only
        && match tier {
            Tier::ReadOnly => !given.destructive && given.idempotent && !given.open_world,
            // A tool of any tier may declare itself destructive, for example a tool that deletes. A
            // tool that runs other tools may be open-world, because one of them may be.
            Tier::Stateful => {
                let nests = NESTING_TOOLS.contains(&tool.safe_name());
                given.idempotent == tool.idempotent && (!given.open_world || nests)
            }
            Tier::ConfigChange => !given.idempotent && !given.open_world,
            Tier::HardwareIo => given.idempotent == tool.idempotent,
        };
    if !holds {
        faults.push((Rule::Annotations, format!("{tier}: {given:?}")));
    }
}

struct Walk<'a> {
    place: String,
    count: usize,
    too_deep: bool,
    faults: &'a mut Vec<(Rule, String)>,
}

fn lint_schema(root: &str, schema: &Value, most: usize, faults: &mut Vec<(Rule, String)>) {
    let mut walk = Walk { place: root.to_owned(), count: 0, too_deep: false, faults };
    walk.schema(schema, 1);
    let (count, too_deep) = (walk.count, walk.too_deep);
    if too_deep {
        faults.push((Rule::Depth, format!("{root} is deeper than {MAX_DEPTH}")));
    }
    if count > most {
        faults.push((Rule::Subschemas, format!("{root} has {count} subschemas, at most {most}")));
    }
}

impl Walk<'_> {
    fn inside(&mut self, part: &str, visit: impl FnOnce(&mut Self)) {
        let here = self.place.len();
        self.place.push('/');
        self.place.push_str(part);
        visit(self);
        self.place.truncate(here);
    }

    fn fault(&mut self, rule: Rule) {
        let place = self.place.clone();
        self.faults.push((rule, place));
    }

    fn schema(&mut self, schema: &Value, depth: usize) {
        self.count += 1;
        if depth > MAX_DEPTH {
            self.too_deep = true;
            return;
        }
        let Value::Object(words) = schema else { return self.fault(Rule::NoBareBoolean) };
        if words.is_empty() {
            self.fault(Rule::NoEmptySchema);
        }
        if matches!(words.get("type"), Some(Value::Array(_))) {
            self.fault(Rule::NoTypeArray);
        }
        if words.get("$ref").and_then(Value::as_str).is_some_and(|target| !target.starts_with("#/")) {
            self.fault(Rule::NoRemoteRef);
        }
        for (word, value) in words {
            self.keyword(word, value, depth);
        }
    }

    fn keyword(&mut self, word: &str, value: &Value, depth: usize) {
        match (word, value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(named),
            ) => {
                self.inside(word, |walk| walk.named(named, depth));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(items)) => {
                self.inside(word, |walk| {
                    for (index, item) in items.iter().enumerate() {
                        walk.inside(&index.to_string(), |walk| walk.schema(item, depth + 1));
                    }
                });
            }
            // A boolean is a valid value of these keywords; `false` forbids further members.
            ("additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" | "items", Value::Bool(_)) => {}
            (
                "items"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "additionalProperties"
                | "propertyNames"
                | "unevaluatedProperties"
                | "unevaluatedItems",
                schema,
            ) => self.inside(word, |walk| walk.schema(schema, depth + 1)),
            _ => {}
        }
    }

    fn named(&mut self, named: &Map<String, Value>, depth: usize) {
        for (name, schema) in named {
            self.inside(name, |walk| walk.schema(schema, depth + 1));
        }
    }
}
