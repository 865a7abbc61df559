//! Checks the declarations of a plugin before a person sees them. Computes the pin, a hash that
//! binds a person's approval to these declarations and the file.
//!
//! Not here: compiling the plugin's schemas and adding its tools to the catalog (`plugins` of the
//! gateway), and the approval.

use conductor_core::config::Plugin;
use conductor_core::digest::Digest;
use conductor_core::text::{escape, is_deceptive};
use serde_json::{Map, Value, json};

/// Prefixes of Conductor's own tool names.
pub const OURS: [&str; 8] = ["conductor", "live", "filesystem", "shell", "database", "web", "desktop", "plan"];

const MAX_DESCRIPTION: usize = 1024;
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
const MAX_REFS: usize = 32;
const MAX_TOOLS: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub name: String,
    pub version: String,
    pub description: String,
    pub config_schema: Option<Value>,
    pub tools: Vec<ToolText>,
    /// Digest of the file.
    pub code: Digest,
    pub pin: Digest,
    declared: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolText {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub input_schema: Value,
    pub requires_approval: bool,
    pub idempotent: bool,
}

impl Manifest {
    /// Checks the declarations. If there are errors, returns the first eight, for the plugin's
    /// author.
    pub fn check(declared: &Value, code: Digest) -> Result<Self, Vec<String>> {
        let mut checker = Checker { errors: Vec::new() };
        checker.texts("", declared);
        let name = checker.text(declared, "", "name", 32);
        if !is_name(&name) && checker.errors.is_empty() {
            checker.error(format!("name {name:?}: use 1-32 characters of a-z 0-9 _ -, starting with a letter"));
        } else if OURS.contains(&name.as_str()) {
            checker.error(format!("name {name:?} is reserved for Conductor's own tools: {}", OURS.join(", ")));
        }
        let version = checker.text(declared, "", "version", 64);
        let description = checker.text(declared, "", "description", MAX_DESCRIPTION);
        let config_schema = declared.get("configSchema").filter(|it| !it.is_null()).cloned();
        if let Some(schema) = &config_schema {
            checker.schema("configSchema", schema);
        }
        let listed = declared["tools"].as_array().map_or(&[][..], Vec::as_slice);
        if listed.is_empty() || listed.len() > MAX_TOOLS {
            checker.error(format!("a plugin has 1 to {MAX_TOOLS} tools, this one has {}", listed.len()));
        }
        let tools: Vec<ToolText> =
            listed.iter().enumerate().map(|(index, it)| checker.tool(&name, index, it)).collect();
        for (index, tool) in tools.iter().enumerate() {
            let same = |other: &ToolText| other.name.replace('.', "_") == tool.name.replace('.', "_");
            if tools.iter().take(index).any(same) {
                checker
                    .error(format!("tools[{index}].name {:?} is taken by an earlier tool (`.` equals `_`)", tool.name));
            }
        }
        let pin = pin(declared, code);
        if pin.is_none() {
            checker.error("a number in the declarations is too large".into());
        }
        match pin {
            Some(pin) if checker.errors.is_empty() => {
                Ok(Manifest { name, version, description, config_schema, tools, code, pin, declared: declared.clone() })
            }
            Some(_) | None => Err(checker.errors),
        }
    }

    /// The form that is stored with the pin. It keeps the approved tools available for comparison
    /// after the file has changed.
    pub fn to_json(&self) -> Value {
        json!({ "declared": self.declared, "code": self.code })
    }

    pub fn from_json(kept: &Value) -> Option<Self> {
        let code = kept["code"].as_str()?.parse().ok()?;
        Manifest::check(&kept["declared"], code).ok()
    }

    /// The facts that a person sees before the approval. `row` is the current configuration of the
    /// plugin.
    pub fn shown(&self, row: Option<&Plugin>) -> Value {
        let tool = |tool: &ToolText| {
            let said = row.and_then(|row| row.tools.get(&tool.name)).copied().unwrap_or_default();
            json!({
                "name": tool.name, "description": tool.description,
                "asks": said.requires_approval.unwrap_or(tool.requires_approval),
            })
        };
        json!({
            "name": self.name, "version": self.version, "description": self.description, "pin": self.pin,
            "tools": self.tools.iter().map(tool).collect::<Vec<_>>(), "secret_fields": self.secret_fields(),
            "row": row.map(Plugin::to_json),
        })
    }

    /// Configuration fields whose values are secrets. They are never read from config.toml.
    pub fn secret_fields(&self) -> Vec<String> {
        let properties = self.config_schema.as_ref().and_then(|it| it["properties"].as_object());
        let secret = |schema: &Value| schema["secret"] == Value::Bool(true);
        properties.into_iter().flatten().filter(|(_, schema)| secret(schema)).map(|(key, _)| key.clone()).collect()
    }

    /// The schema of the fields in config.toml. Secret fields are removed from it, because they are
    /// not stored in that file.
    pub fn written_schema(&self) -> Option<Value> {
        let mut schema = self.config_schema.clone()?;
        let secret = self.secret_fields();
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.retain(|key, _| !secret.contains(key));
        }
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|key| !secret.iter().any(|it| key.as_str() == Some(it)));
        }
        Some(schema)
    }
}

/// Hash of the approved manifest and the file.
pub fn pin(declared: &Value, code: Digest) -> Option<Digest> {
    let mut pinned: Map<String, Value> = ["name", "version", "description", "configSchema", "tools"]
        .into_iter()
        .filter_map(|key| declared.get(key).map(|it| (key.to_owned(), it.clone())))
        .collect();
    pinned.insert("code".into(), json!(code));
    Digest::of_json(&Value::Object(pinned)).ok()
}

pub fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.starts_with(|it: char| it.is_ascii_lowercase())
        && text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'_' | b'-'))
}

struct Checker {
    errors: Vec<String>,
}

impl Checker {
    fn error(&mut self, text: String) {
        if self.errors.len() < 8 {
            self.errors.push(text);
        }
    }

    /// Refuses characters that hide, reverse or move the text around them, because people and
    /// models read these texts.
    fn texts(&mut self, place: &str, value: &Value) {
        match value {
            Value::String(text) => {
                if let Some(bad) = text.chars().find(|it| is_deceptive(*it)) {
                    self.error(format!("{place}: the character U+{:04X} is not allowed in any text", u32::from(bad)));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.texts(&format!("{place}/{index}"), item);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    if key.contains(is_deceptive) {
                        self.error(format!(
                            "{place}: the key {:?} contains a character that is not allowed in any text",
                            escape(key)
                        ));
                    }
                    self.texts(&format!("{place}/{}", escape(key)), member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&mut self, of: &Value, place: &str, key: &str, most: usize) -> String {
        match of[key].as_str() {
            Some(text) if (1..=most).contains(&text.chars().count()) => text.to_owned(),
            Some(text) => {
                self.error(format!("{place}{key} has {} characters; 1 to {most} are allowed", text.chars().count()));
                String::new()
            }
            None => {
                self.error(format!("{place}{key} is missing or not a string"));
                String::new()
            }
        }
    }

    fn flag(&mut self, of: &Value, place: &str, key: &str) -> bool {
        match of.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.error(format!("{place}{key} is neither true nor false"));
                false
            }
        }
    }

    fn tool(&mut self, plugin: &str, index: usize, tool: &Value) -> ToolText {
        let place = format!("tools[{index}].");
        let name = self.text(tool, &place, "name", 64);
        if !name.strip_prefix(plugin).is_some_and(|rest| rest.len() > 1 && rest.starts_with('.')) && !name.is_empty() {
            self.error(format!("{place}name {name:?} does not begin with \"{plugin}.\""));
        }
        let description = self.text(tool, &place, "description", MAX_DESCRIPTION);
        let title = tool.get("title").filter(|it| !it.is_null()).map(|_| self.text(tool, &place, "title", 128));
        let mut input_schema = tool.get("inputSchema").cloned().unwrap_or(Value::Null);
        match input_schema.as_object_mut() {
            // Unknown arguments are refused, unless the author's schema allows them.
            Some(schema) => {
                schema.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            None => self.error(format!("{place}inputSchema is missing or not an object")),
        }
        self.schema(&format!("{place}inputSchema"), &input_schema);
        ToolText {
            requires_approval: self.flag(tool, &place, "requiresApproval"),
            idempotent: self.flag(tool, &place, "idempotent"),
            name,
            title,
            description,
            input_schema,
        }
    }

    fn schema(&mut self, place: &str, schema: &Value) {
        let bytes = schema.to_string().len();
        if bytes > MAX_SCHEMA_BYTES {
            self.error(format!("{place} has {bytes} bytes; the limit is {MAX_SCHEMA_BYTES}"));
        }
        let refs = count_refs(schema);
        if refs > MAX_REFS {
            self.error(format!("{place} has {refs} references; the limit is {MAX_REFS}"));
        }
    }
}

fn count_refs(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.iter().map(|(key, it)| usize::from(key == "$ref") + count_refs(it)).sum(),
        Value::Array(items) => items.iter().map(count_refs).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Value {
        json!({
            "name": "weather", "version": "1.0.0", "description": "Weather for open-air shows.",
            "configSchema": { "type": "object", "required": ["units", "key"], "properties": {
                "units": { "type": "string" }, "key": { "type": "string", "secret": true },
            } },
            "tools": [{ "name": "weather.now", "description": "The weather now.", "inputSchema": { "type": "object", "properties": {} } }]
        })
    }

    fn code() -> Digest {
        Digest::of(b"code")
    }

    fn fault(edit: impl FnOnce(&mut Value)) -> String {
        let mut declared = declared();
        edit(&mut declared);
        Manifest::check(&declared, code()).expect_err("no fault").join("; ")
    }

    #[test]
    fn a_sound_plugin_is_read_and_comes_back_from_what_is_kept() {
        let manifest = Manifest::check(&declared(), code()).unwrap();
        assert_eq!(manifest.tools[0].input_schema["additionalProperties"], json!(false));
        assert_eq!(manifest.secret_fields(), ["key"]);
        assert_eq!(manifest.written_schema().unwrap()["required"], json!(["units"]));
        assert_eq!(Manifest::from_json(&manifest.to_json()), Some(manifest));
    }

    #[test]
    fn whatever_is_shown_or_run_is_in_the_pin() {
        let sound = pin(&declared(), code());
        assert_ne!(sound, pin(&declared(), Digest::of(b"other code")));
        for (pointer, value) in [
            ("/name", json!("weathers")),
            ("/version", json!("1.0.1")),
            ("/description", json!("Weather for open-air shows!")),
            ("/configSchema/required", json!([])),
            ("/tools/0/description", json!("The weather.")),
            ("/tools/0/inputSchema/properties", json!({ "a": {} })),
        ] {
            let mut other = declared();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_ne!(sound, pin(&other, code()), "{pointer}");
        }
    }

    #[test]
    fn poisoned_texts_are_named() {
        for bad in ["\u{200b}", "\u{202e}", "\u{e0041}", "\u{1b}[2J", "a\nb"] {
            let told = fault(|it| it["tools"][0]["description"] = json!(format!("Reads {bad} it")));
            assert!(told.starts_with("/tools/0/description: the character U+"), "{told}");
        }
        assert!(
            fault(|it| it["tools"][0]["inputSchema"]["properties"]["a\u{200b}"] = json!({}))
                .contains("is not allowed in any text")
        );
    }

    #[test]
    fn names_that_are_ours_or_nobodys_are_refused() {
        for name in OURS {
            assert!(fault(|it| it["name"] = json!(name)).contains("Conductor's own"), "{name}");
        }
        for name in ["", "Weather", "9a", "a b", "a.b"] {
            fault(|it| it["name"] = json!(name));
        }
        for name in ["filesystem.read", "weather", "weather.", "weathers.now", "conductor_get_status"] {
            assert!(fault(|it| it["tools"][0]["name"] = json!(name)).contains("begin with"), "{name}");
        }
        let twice = fault(|it| {
            let mut second = it["tools"][0].clone();
            second["name"] = json!("weather.n_w");
            it["tools"][0]["name"] = json!("weather.n.w");
            it["tools"].as_array_mut().unwrap().push(second);
        });
        assert!(twice.contains("taken by an earlier tool"), "{twice}");
    }

    #[test]
    fn sizes_are_bounded() {
        assert!(fault(|it| it["tools"][0]["description"] = json!("x".repeat(1025))).contains("1025 characters"));
        assert!(fault(|it| it["tools"][0]["inputSchema"]["x"] = json!("x".repeat(70_000))).contains("bytes"));
        let many: Vec<Value> = (0..33).map(|_| json!({ "$ref": "#/a" })).collect();
        assert!(fault(|it| it["tools"][0]["inputSchema"]["anyOf"] = json!(many)).contains("33 references"));
        assert!(fault(|it| it["tools"] = json!([])).contains("1 to 64 tools"));
        assert!(fault(|it| it["tools"][0]["requiresApproval"] = json!("yes")).contains("neither true nor false"));
    }
}
