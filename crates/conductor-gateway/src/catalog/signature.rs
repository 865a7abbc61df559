//! Renders JSON Schemas as compact signatures, for people and models: `{note: 0..127, device?:
//! string}`. A signature costs about a fifth of the tokens of its schema.
//!
//! Not here: validation. A signature leaves out lengths and patterns.

use serde_json::{Map, Value};

use super::schema::cut;

/// How much of a schema is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Nested objects up to [`SHORT_DEPTH`], and only the names of the variants of a union.
    Short,
    /// Everything.
    Full,
}

/// Nested objects are shown to this depth in a short signature.
const SHORT_DEPTH: usize = 2;
/// Depth limit for schemas that refer to themselves, such as an action that contains actions.
const FULL_DEPTH: usize = 6;
/// A longer enum is truncated in a short signature.
const SHORT_ENUM: usize = 12;
/// Maximum length of the signature in an error message, in bytes.
const SHAPE_BYTES: usize = 900;

/// The arguments of a tool, such as `{mode: string, position?: int}`.
pub fn of(schema: &Value, detail: Detail) -> String {
    Renderer { root: schema, detail }.render(schema, 0, &[])
}

/// The signature of the innermost part of the arguments that contains the fault at `path`, a JSON
/// pointer. If the part has several variants, only the variant that the caller chose is shown.
pub fn at_fault(schema: &Value, arguments: &Value, path: &str) -> String {
    let renderer = Renderer { root: schema, detail: Detail::Full };
    let (mut node, mut value) = (schema, Some(arguments));
    let (mut shown, mut place) = ((schema, value), String::new());
    let mut here = String::new();
    for key in path.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        let inside = renderer.variant(node, value).unwrap_or(renderer.resolved(node));
        let next = match key.parse::<usize>() {
            Ok(_) if inside.get("items").is_some() => inside.get("items"),
            Ok(_) | Err(_) => inside
                .get("properties")
                .and_then(|it| it.get(&key))
                .or_else(|| renderer.resolved(node).get("properties").and_then(|it| it.get(&key))),
        };
        let Some(next) = next else { break };
        value = value.and_then(|it| it.get(&key).or_else(|| it.get(key.parse::<usize>().ok()?)));
        node = next;
        here = format!("{here}/{key}");
        let part = renderer.resolved(node);
        if part.get("properties").is_some() || renderer.branches(part).is_some() {
            (shown, place) = ((node, value), here.clone());
        }
    }
    let (node, value) = shown;
    let place = if place.is_empty() { "The arguments" } else { &place };
    match (renderer.variant(node, value), renderer.branches(renderer.resolved(node))) {
        (Some(variant), _) => {
            let common = renderer.resolved(node).get("properties").and_then(Value::as_object);
            let members = renderer.members(variant, common, 1, &[]);
            cut(&format!("{place} must have the form {members}"), SHAPE_BYTES)
        }
        (None, Some(branches)) => {
            let names: Vec<String> = branches.iter().flat_map(tags).collect();
            if names.is_empty() {
                return cut(&format!("{place} must have the form {}", renderer.render(node, 0, &[])), SHAPE_BYTES);
            }
            cut(&format!("{place} must have a type: {}", names.join(", ")), SHAPE_BYTES)
        }
        (None, None) => cut(&format!("{place} must have the form {}", renderer.render(node, 0, &[])), SHAPE_BYTES),
    }
}

/// The values of the member that distinguishes the variants of a union.
fn tags(branch: &Value) -> Vec<String> {
    let Some(properties) = branch.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let tag = properties.get("type").or_else(|| properties.get("op"));
    let text = |it: &Value| it.as_str().map(str::to_owned);
    match tag {
        Some(tag) => match (tag.get("const"), tag.get("enum").and_then(Value::as_array)) {
            (Some(name), _) => text(name).into_iter().collect(),
            (None, Some(names)) => names.iter().filter_map(text).collect(),
            (None, None) => Vec::new(),
        },
        None => Vec::new(),
    }
}

struct Renderer<'a> {
    root: &'a Value,
    detail: Detail,
}

impl<'a> Renderer<'a> {
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
        target.and_then(|it| self.root.pointer(it)).unwrap_or(schema)
    }

    fn branches(&self, schema: &'a Value) -> Option<&'a Vec<Value>> {
        ["oneOf", "anyOf"].iter().find_map(|it| schema.get(it)?.as_array())
    }

    /// The variant of a union that the value chooses with its tag.
    fn variant(&self, schema: &'a Value, value: Option<&Value>) -> Option<&'a Value> {
        let chosen = value.and_then(|it| it.get("type").or_else(|| it.get("op"))).and_then(Value::as_str)?;
        self.branches(self.resolved(schema))?
            .iter()
            .map(|it| self.resolved(it))
            .find(|it| tags(it).iter().any(|tag| tag == chosen))
    }

    fn render(&self, schema: &'a Value, depth: usize, seen: &[&str]) -> String {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.rsplit('/').next());
        if let Some(name) = name {
            let deepest = match self.detail {
                Detail::Short => SHORT_DEPTH - 1,
                Detail::Full => FULL_DEPTH,
            };
            let target = self.resolved(schema);
            let is_plain = target.get("properties").is_none() && self.branches(target).is_none();
            if !is_plain && (seen.contains(&name) || depth >= deepest) {
                return name.to_owned();
            }
            let seen: Vec<&str> = seen.iter().copied().chain([name]).collect();
            return self.render(target, depth, &seen);
        }
        if let Some(fixed) = schema.get("const") {
            return fixed.to_string();
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let most = if self.detail == Detail::Short { SHORT_ENUM } else { usize::MAX };
            let mut names: Vec<String> = values.iter().take(most).map(Value::to_string).collect();
            if values.len() > most {
                names.push("…".to_owned());
            }
            return names.join("|");
        }
        if let Some(branches) = self.branches(schema) {
            return self.union(schema, branches, depth, seen);
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("integer") => range(schema, "int"),
            Some("number") => range(schema, "number"),
            Some("array") => match schema.get("items") {
                Some(items) => {
                    let item = self.render(items, depth, seen);
                    if item.contains(['|', ' ']) && !item.starts_with('{') {
                        format!("({item})[]")
                    } else {
                        format!("{item}[]")
                    }
                }
                None => "array".to_owned(),
            },
            Some("object") | None if schema.get("properties").is_some() => self.members(schema, None, depth, seen),
            Some("object") => match schema.get("additionalProperties") {
                Some(inner @ Value::Object(_)) => format!("{{[name]: {}}}", self.render(inner, depth + 1, seen)),
                Some(_) | None => "object".to_owned(),
            },
            Some(kind) => kind.to_owned(),
            None => "any".to_owned(),
        }
    }

    fn union(&self, schema: &'a Value, branches: &'a [Value], depth: usize, seen: &[&str]) -> String {
        let common = schema.get("properties").and_then(Value::as_object);
        let is_tagged = branches.iter().all(|it| !tags(self.resolved(it)).is_empty());
        if is_tagged && self.detail == Detail::Short {
            let names: Vec<String> = branches.iter().flat_map(|it| tags(self.resolved(it))).collect();
            let shown: Vec<&str> = names.iter().take(SHORT_ENUM).map(String::as_str).collect();
            let more = if names.len() > SHORT_ENUM { "|…" } else { "" };
            return format!("{{type: {}{more}, …}}", shown.join("|"));
        }
        let parts = branches.iter().map(|it| {
            let it = self.resolved(it);
            if it.get("properties").is_some() {
                self.members(it, common, depth, seen)
            } else {
                self.render(it, depth, seen)
            }
        });
        parts.collect::<Vec<_>>().join(" | ")
    }

    fn members(
        &self,
        schema: &'a Value,
        common: Option<&'a Map<String, Value>>,
        depth: usize,
        seen: &[&str],
    ) -> String {
        if self.detail == Detail::Short && depth >= SHORT_DEPTH {
            return "object".to_owned();
        }
        let required = schema.get("required").and_then(Value::as_array);
        let own = schema.get("properties").and_then(Value::as_object);
        let members = own.into_iter().flatten().chain(common.into_iter().flatten()).map(|(name, member)| {
            let is_required =
                name == "type" || name == "op" || required.is_some_and(|it| it.iter().any(|it| it == name.as_str()));
            format!("{name}{}: {}", if is_required { "" } else { "?" }, self.render(member, depth + 1, seen))
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
    }
}

/// A number with its bounds, such as `0..127`.
fn range(schema: &Value, kind: &str) -> String {
    // Bounds that only repeat the range of the integer type are left out.
    let bound = |word: &str| schema.get(word).filter(|it| it.as_f64().is_some_and(|it| it.abs() < 1e9));
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!("{least}..{most}"),
        (Some(least), None) if *least != 0 => format!("{kind} >= {least}"),
        (None, Some(most)) => format!("{kind} <= {most}"),
        (Some(_), None) | (None, None) => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "mode": { "type": "string", "minLength": 1 },
                "trigger": { "$ref": "#/$defs/Trigger" },
                "positions": { "type": "array", "items": { "type": "number" } },
                "kind": { "enum": ["a", "b"] },
            },
            "required": ["mode", "trigger"],
            "$defs": {
                "Trigger": {
                    "type": "object", "required": ["type"], "properties": { "device": { "type": "string" } },
                    "oneOf": [
                        { "properties": { "type": { "const": "Note" }, "note": { "$ref": "#/$defs/u7" } }, "required": ["note"] },
                        { "properties": { "type": { "const": "Both" }, "of": { "$ref": "#/$defs/Trigger" } } },
                    ],
                },
                "u7": { "type": "integer", "minimum": 0, "maximum": 127 },
            },
        })
    }

    #[test]
    fn a_signature_is_short_or_complete() {
        assert_eq!(
            of(&schema(), Detail::Short),
            r#"{mode: string, trigger: Trigger, positions?: number[], kind?: "a"|"b"}"#
        );
        assert_eq!(
            of(&schema(), Detail::Full),
            r#"{mode: string, trigger: {type: "Note", note: 0..127, device?: string} | {type: "Both", of?: Trigger, device?: string}, positions?: number[], kind?: "a"|"b"}"#
        );
    }

    #[test]
    fn an_error_teaches_the_part_that_is_wrong() {
        let note = json!({ "mode": "A", "trigger": { "type": "Note", "note": 300 } });
        assert_eq!(
            at_fault(&schema(), &note, "/trigger/note"),
            r#"/trigger must have the form {type: "Note", note: 0..127, device?: string}"#
        );
        let unknown = json!({ "mode": "A", "trigger": { "type": "Knob" } });
        assert_eq!(at_fault(&schema(), &unknown, "/trigger/type"), "/trigger must have a type: Note, Both");
        assert!(at_fault(&schema(), &json!({}), "").starts_with("The arguments must have the form {mode: string"));
        assert!(at_fault(&schema(), &json!({ "mode": 1 }), "/mode").starts_with("The arguments must have"));
    }
}
