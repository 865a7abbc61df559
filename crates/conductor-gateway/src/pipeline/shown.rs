//! Shortens long values for a question: keeps the start and the end, and adds length and hash.
//!
//! Not here: the target of a call, which is never shortened (`approval`), and how a terminal shows
//! a question (`cli/question`).

use conductor_core::digest::Digest;
use conductor_core::text::{escape, middle};
use serde_json::Value;

/// Number of lines that are shown at the start and at the end of a long fact, such as a difference.
const HEAD_LINES: usize = 24;
const TAIL_LINES: usize = 12;
/// Maximum length of a shown line or value, in characters.
const LONGEST_LINE: usize = 240;
/// Maximum size of arguments that are shown unchanged, in bytes.
const SHORT_ARGUMENTS: usize = 400;
/// Maximum number of members of the arguments that are shown.
const MOST_MEMBERS: usize = 16;

/// Shortens a text for a question: the lines in the middle of a long text are left out.
pub fn lines(text: &str) -> String {
    let all: Vec<&str> = text.split('\n').collect();
    let one = |line: &&str| middle(&escape(line), LONGEST_LINE).into_owned();
    if all.len() <= HEAD_LINES + TAIL_LINES {
        return all.iter().map(one).collect::<Vec<_>>().join("\n");
    }
    let (head, rest) = all.split_at(HEAD_LINES);
    let (between, tail) = rest.split_at(rest.len() - TAIL_LINES);
    let note =
        format!("…[{} more lines; --full shows them; whole text: {}]…", between.len(), Digest::of(text.as_bytes()));
    head.iter().map(one).chain([note]).chain(tail.iter().map(one)).collect::<Vec<_>>().join("\n")
}

/// Formats the arguments for a question, on one line. Long arguments get one line per member, short
/// members first.
pub fn arguments(canonical: &str) -> String {
    if canonical.len() <= SHORT_ARGUMENTS {
        return escape(canonical).into_owned();
    }
    let Ok(Value::Object(members)) = serde_json::from_str(canonical) else { return value(canonical) };
    let mut lines: Vec<String> = members.iter().map(|(key, it)| format!("{key}: {}", value(&it.to_string()))).collect();
    lines.sort_by_key(String::len);
    let left_out = lines.len().saturating_sub(MOST_MEMBERS);
    lines.truncate(MOST_MEMBERS);
    if left_out > 0 {
        lines.push(format!("…[{left_out} more members; --full shows them]…"));
    }
    lines.push(format!("{} bytes in all, {}", canonical.len(), Digest::of(canonical.as_bytes())));
    lines.join("\n")
}

fn value(json: &str) -> String {
    let shown = escape(json);
    if shown.chars().count() <= LONGEST_LINE {
        return shown.into_owned();
    }
    format!("{} ({} bytes, {})", middle(&shown, LONGEST_LINE), json.len(), Digest::of(json.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_ends_of_a_long_text_are_seen() {
        let text: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let shown = lines(&text);
        assert!(shown.starts_with("line 0\n") && shown.contains("line 99") && !shown.contains("line 50"), "{shown}");
        assert!(shown.contains("…[65 more lines; --full shows them; whole text: sha256:"), "{shown}");
        let wide = lines(&format!("head{}tail", "x".repeat(5000)));
        assert!(wide.starts_with("head") && wide.ends_with("tail") && wide.len() < 400, "{wide}");
    }

    #[test]
    fn a_long_member_does_not_hide_a_short_one() {
        let given = json!({ "content": "x".repeat(3000), "path": "notes.txt" });
        let shown = arguments(&given.to_string());
        assert!(shown.starts_with("path: \"notes.txt\"\ncontent: \"xxx"), "{shown}");
        assert!(shown.contains("(3002 bytes, sha256:"), "{shown}");
        assert_eq!(arguments(r#"{"a":1}"#), r#"{"a":1}"#);
    }
}
