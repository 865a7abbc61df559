//! Counts tokens with the vocabulary o200k, as many models do.

use std::sync::OnceLock;

use serde_json::{Value, json};
use tiktoken_rs::{CoreBPE, o200k_base};

/// Number of tokens of a text.
pub fn count(text: &str) -> usize {
    static VOCABULARY: OnceLock<CoreBPE> = OnceLock::new();
    VOCABULARY.get_or_init(|| o200k_base().expect("the package has no vocabulary")).encode_ordinary(text).len()
}

/// Number of tokens of the part of a listed tool that a model sees: name, description and input
/// schema.
pub fn of_tool(entry: &Value) -> usize {
    let seen = json!({
        "name": entry["name"], "description": entry["description"], "inputSchema": entry["inputSchema"],
    });
    count(&seen.to_string())
}
