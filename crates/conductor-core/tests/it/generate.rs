//! Generates values from a JSON Schema, and makes small changes to them. Everything is derived from
//! one seed, so a failure can be reproduced.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A splitmix generator. It returns the same numbers on every machine.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ (it >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        match self.below(6) {
            0 => low,
            1 => high,
            _ => low + (self.next() % (high - low + 1) as u64) as i64,
        }
    }
}

pub struct Maker<'a> {
    pub defs: &'a Map<String, Value>,
    pub dice: Dice,
}

/// Texts that are valid for this key, so that most values also pass the rules that a schema cannot
/// express.
fn likely(key: &str) -> &'static [&'static str] {
    match key {
        "keys" => &["c", "cmd", "shift", "return", "esc", "f5", "x", " "],
        "command" => &["ls -l", "say 'a b'", "git log"],
        "pattern" => &["Mikro", "^Key(Step|Lab)", "a.c"],
        "address" => &["/a", "/live/{play,stop}", "/x/*"],
        "arguments" | "params" => &["a", "$velocity"],
        _ => &["a", "pads", "Session", "x y"],
    }
}

impl Maker<'_> {
    /// Generates a value. `key` is the name of its property.
    pub fn value(&mut self, schema: &Value, key: &str, depth: usize) -> Value {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str)
            && schema.as_object().is_some_and(|it| it.len() == 1)
        {
            let def = self.defs[target.trim_start_matches("#/$defs/")].clone();
            return self.value(&def, key, depth);
        }
        if let Some(it) = schema.get("const") {
            return it.clone();
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return self.dice.pick(words).clone();
        }
        let kind = schema.get("type").and_then(Value::as_str);
        if kind == Some("object") {
            return self.object(schema, key, depth);
        }
        if let Some(choices) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array) {
            let choice = self.dice.pick(choices).clone();
            return self.value(&choice, key, depth);
        }
        match kind {
            Some("boolean") => json!(self.dice.chance(50)),
            Some("integer") => {
                let low = schema.get("minimum").and_then(Value::as_i64).unwrap_or(-1000);
                let high = schema.get("maximum").and_then(Value::as_i64).unwrap_or(1000);
                let number = self.dice.between(low, high);
                if self.dice.chance(5) { json!(number as f64) } else { json!(number) }
            }
            Some("number") => {
                let low = schema.get("minimum").and_then(Value::as_f64).unwrap_or(-1000.0);
                let high = schema.get("maximum").and_then(Value::as_f64).unwrap_or(1000.0);
                let part = self.dice.below(101) as f64 / 100.0;
                let number = low + (high - low) * part;
                if number.fract() == 0.0 && self.dice.chance(50) { json!(number as i64) } else { json!(number) }
            }
            Some("string") => self.text(schema, key),
            Some("array") => self.array(schema, key, depth),
            other => panic!("the generator does not support {other:?} in {schema}"),
        }
    }

    fn text(&mut self, schema: &Value, key: &str) -> Value {
        let pattern = schema.get("pattern").and_then(Value::as_str);
        let text = match pattern {
            None | Some("^/") => (*self.dice.pick(likely(key))).to_owned(),
            Some("^([01][0-9]|2[0-3]):[0-5][0-9]$") => {
                format!("{:02}:{:02}", self.dice.below(24), self.dice.below(60))
            }
            Some(it) if it.starts_with("^[a-z][a-z0-9_-]") => {
                format!("row-{}", self.dice.below(30))
            }
            Some("^(0x)?[0-9A-Fa-f]{2}$") => format!("{:02X}", self.dice.below(256)),
            Some(other) => panic!("the generator does not support the pattern {other}"),
        };
        json!(text)
    }

    fn array(&mut self, schema: &Value, key: &str, depth: usize) -> Value {
        let low = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
        let high = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(3) as usize;
        let high = high.min(low + 2);
        let unique = schema.get("uniqueItems") == Some(&json!(true));
        let length = low + self.dice.below(high - low + 1);
        let items = schema.get("items").cloned().unwrap_or(json!({ "type": "integer" }));
        let mut out: Vec<Value> = Vec::new();
        let mut tries = 0;
        while out.len() < length && tries < 200 {
            tries += 1;
            let item = self.value(&items, key, depth + 1);
            if !unique || !out.iter().any(|it| it == &item || it.as_f64().is_some_and(|it| Some(it) == item.as_f64())) {
                out.push(item);
            }
        }
        Value::Array(out)
    }

    fn object(&mut self, schema: &Value, key: &str, depth: usize) -> Value {
        let mut properties = Map::new();
        let mut required = BTreeSet::new();
        let mut excluded = BTreeSet::new();
        self.flatten(schema, depth, &mut properties, &mut required, &mut excluded);
        let mut out = Map::new();
        if properties.is_empty() {
            for name in ["one", "two"] {
                if self.dice.chance(40) {
                    let text = *self.dice.pick(likely(key));
                    out.insert(name.to_owned(), json!(text));
                }
            }
        }
        for (name, property) in properties {
            let optional = !excluded.contains(&name) && self.dice.chance(30);
            if required.contains(&name) || optional {
                let made = self.value(&property, &name, depth + 1);
                out.insert(name, made);
            }
        }
        if self.dice.chance(60) {
            self.mend(&mut out);
        }
        Value::Object(out)
    }

    /// Changes the object so that it follows rules that random values rarely satisfy.
    fn mend(&mut self, object: &mut Map<String, Value>) {
        let small = json!(self.dice.below(128));
        let text = |object: &Map<String, Value>, key: &str| {
            object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        if text(object, "type") == "SendMidi" {
            let (needed, optional): (&[&str], &[&str]) = match text(object, "message_type").as_str() {
                "NoteOn" => (&["note"], &["velocity", "duration_ms"]),
                "NoteOff" => (&["note"], &["velocity_map"]),
                "CC" => (&["controller", "value"], &[]),
                "ProgramChange" => (&["program"], &[]),
                "PitchBend" => (&["pitch"], &[]),
                _ => (&["pressure"], &["note"]),
            };
            let always = ["type", "message_type", "port", "channel"];
            object.retain(|key, _| {
                always.contains(&key.as_str()) || needed.contains(&key.as_str()) || optional.contains(&key.as_str())
            });
            for key in needed {
                object.entry(*key).or_insert(small.clone());
            }
        }
        if text(object, "type") == "VolumeControl" {
            object.insert("operation".to_owned(), json!("Set"));
            object.insert("value".to_owned(), json!(self.dice.below(101)));
        }
        if text(object, "mode") == "nrpn_inc_dec" {
            object.insert("cc".to_owned(), json!(96));
            object.entry("parameter").or_insert(small);
        }
    }

    /// Collects the allowed, required and excluded properties of one branch of a tagged object.
    fn flatten(
        &mut self,
        schema: &Value,
        depth: usize,
        properties: &mut Map<String, Value>,
        required: &mut BTreeSet<String>,
        excluded: &mut BTreeSet<String>,
    ) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            properties.insert(name.clone(), property.clone());
        }
        let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        required.extend(names.filter_map(Value::as_str).map(str::to_owned));
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let def = self.defs[target.trim_start_matches("#/$defs/")].clone();
            self.flatten(&def, depth, properties, required, excluded);
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            let choice = self.dice.pick(choices).clone();
            self.flatten(&choice, depth, properties, required, excluded);
        }
        let Some(choices) = schema.get("oneOf").and_then(Value::as_array) else { return };
        // Limit the depth of trees: from depth 6 on, only branches without nested actions and
        // conditions are selected.
        let flat = |it: &&Value| {
            depth < 6 || !it.to_string().contains("$defs/Action") && !it.to_string().contains("$defs/Condition")
        };
        let open: Vec<&Value> = choices.iter().filter(flat).collect();
        let choice = (*self.dice.pick(&open)).clone();
        let only_required = |it: &Value| it.as_object().is_some_and(|it| it.len() == 1 && it.contains_key("required"));
        if choices.iter().all(only_required) {
            for other in choices.iter().filter(|it| **it != choice) {
                let names = other["required"].as_array().into_iter().flatten();
                excluded.extend(names.filter_map(Value::as_str).map(str::to_owned));
            }
        }
        self.flatten(&choice, depth, properties, required, excluded);
    }

    /// Changes one place of a value. The result is often invalid, but not always.
    pub fn damage(&mut self, value: &mut Value) {
        let mut places = Vec::new();
        pointers(value, String::new(), &mut places);
        let place = self.dice.pick(&places).clone();
        let Some(at) = value.pointer_mut(&place) else { return };
        let choice = self.dice.below(8);
        match at {
            Value::Object(map) => {
                let names: Vec<String> = map.keys().cloned().collect();
                match choice {
                    0..=2 if !names.is_empty() => {
                        map.remove(self.dice.pick(&names));
                    }
                    3 | 4 if !names.is_empty() => {
                        let name = self.dice.pick(&names).clone();
                        if let Some(held) = map.remove(&name) {
                            map.insert(format!("{name}x"), held);
                        }
                    }
                    5 => {
                        map.insert("surprise".to_owned(), json!(1));
                    }
                    6 => *at = json!("a text"),
                    _ => *at = json!([]),
                }
            }
            Value::Array(items) => match choice {
                0 => items.clear(),
                1 | 2 => {
                    let twin = items.first().cloned().unwrap_or(json!(1));
                    items.push(twin);
                }
                3 => {
                    items.pop();
                }
                4 => items.extend(vec![json!(1); 200]),
                5 => *at = json!({}),
                _ => items.push(json!(null)),
            },
            Value::Number(_) | Value::String(_) | Value::Bool(_) | Value::Null => {
                let options = [
                    json!(-1),
                    json!(0),
                    json!(128),
                    json!(16384),
                    json!(70000),
                    json!(0.5),
                    json!(1e300),
                    json!(true),
                    json!(null),
                    json!(""),
                    json!("/"),
                    json!("nonsense"),
                    json!("A B"),
                    json!("x".repeat(2000)),
                    json!([1]),
                    json!({}),
                    json!(24),
                    json!(36.0),
                ];
                *at = self.dice.pick(&options).clone();
            }
        }
    }
}

/// The JSON pointers of all places in a value, including the value itself.
pub fn pointers(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, held) in map {
                pointers(held, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), out);
            }
        }
        Value::Array(items) => {
            for (index, held) in items.iter().enumerate() {
                pointers(held, format!("{at}/{index}"), out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    out.push(at);
}
