//! One worked example for each built-in tool, for `conductor_find_tools` and `conductor tools`.
//!
//! A test executes all examples in the demo studio, in the order of the file.

use std::sync::OnceLock;

use serde_json::{Map, Value};

/// The name of each tool with the arguments of its example, in an order in which they can run.
pub fn all() -> &'static [(String, Map<String, Value>)] {
    static EXAMPLES: OnceLock<Vec<(String, Map<String, Value>)>> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        let rows: Map<String, Value> = serde_json::from_str(include_str!("examples.json")).unwrap_or_default();
        let row = |(name, arguments): (String, Value)| match arguments {
            Value::Object(arguments) => Some((name, arguments)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        };
        rows.into_iter().filter_map(row).collect()
    })
}

/// The arguments of the example of a tool.
pub fn of(name: &str) -> Option<Map<String, Value>> {
    all().iter().find(|(tool, _)| tool == name).map(|(_, arguments)| arguments.clone())
}
