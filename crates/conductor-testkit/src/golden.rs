//! Compares our results with recorded exchanges. Our result must contain all recorded keys and
//! values and the same error codes; messages are not compared. A list contains the intended
//! differences.
//!
//! This file does not use the crates under test: `conductor-set` must not depend on the product,
//! and includes this file as a module.

use serde_json::Value;
use std::cell::Cell;

/// An intended difference: the recorded file, the place in the result (`*` matches one segment),
/// and the reason.
pub type Row = (&'static str, &'static str, &'static str);

/// The intended differences that apply to every document.
pub const OF_DOCUMENTS: &[Row] = &[
    ("12", "!code", "a malformed id is BAD_INPUT, not SDK_REJECTED"),
    ("13", "!code", "a malformed id is BAD_INPUT, not SDK_REJECTED"),
    ("13", "!refused", "a trailing segment is refused"),
    ("16", "/clips/*/color", "a document stores a colour index; the colour is looked up in a table"),
    ("17", "/notes/*/releaseVelocity", "a default value is not shown"),
    ("17", "/notes/*/selected", "a document keeps no view state"),
    ("17", "!refused", "duration 0 is refused"),
    ("18", "/name", "new tracks are named by position"),
    ("18", "/clipSlotCount", "slots per track equal the scene count"),
    ("18", "/mixer/volume", "gain 1, not 0.85"),
    ("18", "/mixer/panning", "centre is 0, not 0.5"),
    ("18", "/mixer/sendCount", "a new track has as many sends as the Set has returns"),
    ("18", "/tracks/*/name", "new tracks are named by position"),
    ("19", "/session/*/name", "a new clip has no name"),
    ("20", "/name", "a document has its own parameter names"),
    ("20", "/min", "a document has its own parameter ranges"),
    ("20", "/max", "a document has its own parameter ranges"),
    ("20", "/defaultValue", "a document does not store default values"),
    ("20", "/params/*/name", "a document has its own parameter names"),
    ("20", "/params/*/defaultValue", "a document does not store default values"),
    ("21", "/clips/*/color", "a document stores a colour index; the colour is looked up in a table"),
    ("21", "/params/*/name", "a document has its own parameter names"),
    ("21", "/params/*/defaultValue", "a document does not store default values"),
    ("30", "/clips/*/color", "a document stores a colour index; the colour is looked up in a table"),
    ("30", "/params/*/name", "a document has its own parameter names"),
    ("30", "/params/*/defaultValue", "a document does not store default values"),
];

/// A list of intended differences. An unused entry is a fault too.
pub struct Deviations(Vec<(Row, Cell<bool>)>);

impl Deviations {
    /// [`OF_DOCUMENTS`] and further differences.
    pub fn with(more: &[Row]) -> Deviations {
        Deviations(OF_DOCUMENTS.iter().chain(more).map(|row| (*row, Cell::new(false))).collect())
    }

    pub fn allow(&self, file: &str, pointer: &str) -> bool {
        let fits = |pattern: &str| {
            let (a, b): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), pointer.split('/').collect());
            a.len() == b.len() && a.iter().zip(b).all(|(p, s)| *p == "*" || *p == s)
        };
        let found = self.0.iter().find(|((of, pattern, _), _)| file.starts_with(of) && fits(pattern));
        found.inspect(|(_, used)| used.set(true)).is_some()
    }

    pub fn unused(&self) -> Vec<Row> {
        self.0.iter().filter(|(_, used)| !used.get()).map(|(row, _)| *row).collect()
    }
}

/// Finds the places where `ours` is not a superset of `recorded`. Objects in lists are matched by
/// id, or by position if they have none; all other lists must be equal.
pub fn gaps(recorded: &Value, ours: &Value, at: &str, out: &mut Vec<String>) {
    match (recorded, ours) {
        (Value::Object(want), Value::Object(have)) => {
            for (key, value) in want {
                match have.get(key) {
                    Some(found) => gaps(value, found, &format!("{at}/{key}"), out),
                    None => out.push(format!("{at}/{key}")),
                }
            }
        }
        (Value::Array(want), Value::Array(have)) if want.iter().any(Value::is_object) => {
            let id =
                |v: &Value| ["id", "slotId", "clipId"].iter().find_map(|k| v.get(*k).filter(|v| !v.is_null()).cloned());
            for (n, value) in want.iter().enumerate() {
                let found = match id(value) {
                    Some(wanted) => have.iter().find(|v| id(v).as_ref() == Some(&wanted)),
                    None => have.get(n),
                };
                match found {
                    Some(found) => gaps(value, found, &format!("{at}/{n}"), out),
                    None => out.push(format!("{at}/{n}")),
                }
            }
        }
        (Value::Number(want), Value::Number(have)) if want.as_f64() == have.as_f64() => {}
        (want, have) if want == have => {}
        (_, _) => out.push(at.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_comparison_finds_what_is_missing() {
        let mut out = Vec::new();
        let theirs = json!({"a": 1, "b": [{"id": "x", "v": 2}], "c": [1, 2]});
        gaps(&theirs, &json!({"a": 1.0, "b": [{"id": "x", "v": 3}], "c": [1]}), "", &mut out);
        assert_eq!(out, ["/b/0/v", "/c"]);
        let list = Deviations::with(&[("99", "/b/*/v", "on purpose")]);
        assert!(list.allow("99_x.json", "/b/0/v") && !list.allow("99_x.json", "/c") && !list.allow("98", "/b/0/v"));
        assert_eq!(list.unused().len(), OF_DOCUMENTS.len(), "the number of unused entries is wrong");
    }
}
