//! Makes text from outside safe to display.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character could move the cursor, be invisible, or change the order of the text around
/// it. These are control characters (C0, C1, DEL), line and paragraph separators, interlinear
/// marks, and the invisible characters with the Unicode property Default_Ignorable_Code_Point.
pub const fn is_deceptive(character: char) -> bool {
    matches!(character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
        || is_ignorable(character)
}

/// The property Default_Ignorable_Code_Point, from Unicode's DerivedCoreProperties.txt.
const fn is_ignorable(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Replaces every deceptive character with `\u{..}`, so that the result is one line.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_deceptive(character) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// The longest prefix of at most `bytes` bytes that ends between characters. After the prefix, a
/// shortened text has a `…`, which is not counted.
pub fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Keeps `characters` characters of a longer text: two thirds from its start and one third from its
/// end. Between them is a note with the number of characters that were left out.
pub fn middle(text: &str, characters: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= characters {
        return Cow::Borrowed(text);
    }
    let head: String = text.chars().take(characters - characters / 3).collect();
    let tail: String = text.chars().skip(count - characters / 3).collect();
    let between = count - characters;
    Cow::Owned(format!("{head} …[{between} characters]… {tail}"))
}

/// Replaces every deceptive character in compact JSON with a `\uXXXX` escape. Only strings can
/// contain such characters, so no value changes.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let hides = |it: char| is_deceptive(it) && !matches!(it, '\n' | '\r' | '\t');
    if !json.contains(hides) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if hides(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
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

    /// Tests all characters with the property in DerivedCoreProperties.txt, then the deceptive
    /// characters without the property.
    #[test]
    fn nothing_that_is_drawn_as_nothing_passes() {
        let table = "00AD 034F 061C 115F..1160 17B4..17B5 180B..180D 180E 180F 200B..200F 202A..202E 2060..2064 2065 2066..206F 3164 \
            FE00..FE0F FEFF FFA0 FFF0..FFF8 1BCA0..1BCA3 1D173..1D17A E0000 E0001 E0002..E001F E0020..E007F E0080..E00FF \
            E0100..E01EF E01F0..E0FFF 2028..2029 FFF9..FFFB 0000..001F 007F..009F";
        let number = |text: &str| u32::from_str_radix(text, 16).unwrap();
        let mut count = 0;
        for row in table.split_whitespace() {
            let (first, last) = row.split_once("..").unwrap_or((row, row));
            for character in (number(first)..=number(last)).filter_map(char::from_u32) {
                assert!(is_deceptive(character), "U+{:04X}", u32::from(character));
                assert!(!escape(&character.to_string()).contains(character));
                let json = serde_json::to_string(&format!("a{character}b")).unwrap();
                let escaped = escape_json(&json);
                assert!(!escaped.contains(character), "{escaped}");
                assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), format!("a{character}b"));
                count += 1;
            }
        }
        assert_eq!(count, 4174 + 2 + 3 + 32 + 33);
        assert!(!"äöü 😀 日本 ·|".contains(is_deceptive));
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        assert_eq!(middle("abc", 3), "abc");
        let long = format!("head{}tail", "x".repeat(100));
        let shown = middle(&long, 30);
        assert!(shown.starts_with("head") && shown.ends_with("tail") && shown.contains("…[78 characters]…"), "{shown}");
    }
}
