//! Exports calls in the plain format that other tools expect. The export has its own hash chain.

use conductor_core::digest::Digest;
use serde_json::{Map, Value, json};

#[derive(Debug, Default)]
pub(super) struct Chain {
    prev: Option<String>,
}

impl Chain {
    /// Converts the outcome record of a call to an entry. Returns `None` for other records. The
    /// member `hash` is the hex SHA-256 of the entry without `hash`.
    pub fn entry(&mut self, record: &Value) -> Option<String> {
        let member = |key: &str| record.get(key).cloned().unwrap_or(Value::Null);
        if record.get("phase").and_then(Value::as_str) != Some("outcome") {
            return None;
        }
        let result = match record.get("result").and_then(Value::as_str) {
            Some("ok") => "ok",
            Some("error" | "timeout" | "cancelled") => "error",
            Some(_) | None => "rejected",
        };
        let mut entry = Map::new();
        for (key, value) in [
            ("id", member("id")),
            ("timestamp", member("ts")),
            ("tool", member("tool")),
            ("inputHash", member("input_hash")),
            ("result", json!(result)),
            ("durationMs", member("duration_ms")),
            ("user", member("principal")),
            ("sessionId", member("conn")),
            ("prev", json!(self.prev)),
        ] {
            entry.insert(key.to_owned(), value);
        }
        let digest = Digest::of(Value::Object(entry.clone()).to_string().as_bytes()).to_string();
        let hash = digest.trim_start_matches("sha256:").to_owned();
        entry.insert("hash".to_owned(), json!(hash));
        self.prev = Some(hash);
        Some(Value::Object(entry).to_string())
    }
}
