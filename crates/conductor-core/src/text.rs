//! Text from outside, made safe to look at.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character could move a cursor, hide, or turn the order of what stands beside it: controls (C0, C1, DEL), bidi controls,
/// zero-width characters and tags.
pub const fn is_deceptive(character: char) -> bool {
    matches!(character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        | '\u{2028}' | '\u{2029}' | '\u{e0000}'..='\u{e007f}')
}

/// Shows every deceptive character as `\u{..}`. What comes out is one line.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_deceptive(character) {
            // Writing into a string does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// The longest prefix of at most `bytes` bytes that ends between characters, marked when something is missing.
pub fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor_or_turns_the_line() {
        assert_eq!(escape("plain äöü 😀"), "plain äöü 😀");
        assert_eq!(
            escape("a\nb\u{1b}[2J\u{202e}c\u{200b}\u{e0041}\u{9b}\u{feff}"),
            "a\\u{a}b\\u{1b}[2J\\u{202e}c\\u{200b}\\u{e0041}\\u{9b}\\u{feff}"
        );
        for range in [0..0x20, 0x7f..0xa0, 0x200b..0x2010, 0x202a..0x202f, 0x2066..0x206a, 0xe0000..0xe0080] {
            for character in range.filter_map(char::from_u32) {
                assert!(!escape(&character.to_string()).contains(character));
            }
        }
    }
}
