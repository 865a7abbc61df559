//! Truncates a text so that its JSON form fits into a result.

use conductor_gateway::studio::Studio;

/// Bytes reserved for the other members of a result.
const REST: usize = 16 * 1024;

/// Bytes of JSON for all texts of one result.
pub fn room(studio: &Studio, tool_bytes: usize) -> usize {
    studio.settings().limits.result_bytes.min(tool_bytes).saturating_sub(REST)
}

/// The longest prefix whose JSON form has at most `room` bytes, and whether it is truncated.
pub fn fit(text: &str, room: usize) -> (&str, bool) {
    let mut used = 2;
    for (at, letter) in text.char_indices() {
        used += match letter {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\u{0}'..='\u{1f}' => 6,
            other => other.len_utf8(),
        };
        if used > room {
            return (text.get(..at).unwrap_or_default(), true);
        }
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_fits_is_as_long_as_it_may_be(text in "\\PC{0,40}[\\x00-\\x1f\"\\\\]{0,8}\\PC{0,9}", room in 2usize..200) {
            let written = |it: &str| serde_json::Value::from(it).to_string().len();
            let (kept, cut) = fit(&text, room);
            prop_assert!(written(kept) <= room && text.starts_with(kept));
            prop_assert_eq!(cut, written(&text) > room);
            if let (true, Some(next)) = (cut, text[kept.len()..].chars().next()) {
                let longer = written(&format!("{kept}{next}"));
                prop_assert!(longer > room);
            }
        }
    }
}
