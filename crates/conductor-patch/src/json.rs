//! A JSON reader that stores byte ranges instead of values.
//!
//! Callers read the members that they know and skip the rest, so number spelling, key order,
//! unknown keys and spacing are preserved. `nan`, `inf`, `-nan` and `-inf`, which Max writes, are
//! accepted as numbers. Not here: the meaning of members (`max`) and printing (`style`).

use std::borrow::Cow;
use std::ops::Range;

/// Why the text is not JSON, with the position of the error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct JsonError {
    /// Byte offset from the start of the JSON text.
    pub offset: usize,
    /// 1-based line.
    pub line: usize,
    /// 1-based column in bytes.
    pub column: usize,
    /// Description of the error.
    pub what: &'static str,
}

/// Maximum nesting of values that are skipped. Embedded patchers have a separate, lower limit.
const MAX_NESTING: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    Word,
}

pub(crate) struct Scanner<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Scanner { bytes, at }
    }

    pub(crate) fn fail(&self, what: &'static str) -> JsonError {
        self.fail_at(self.at, what)
    }

    pub(crate) fn fail_at(&self, offset: usize, what: &'static str) -> JsonError {
        let before = self.bytes.get(..offset).unwrap_or(self.bytes);
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = offset - before.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1) + 1;
        JsonError { offset, line, column, what }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    pub(crate) fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), JsonError> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.fail(if self.at >= self.bytes.len() { "the text ends too early" } else { what }))
        }
    }

    /// Reads a string; the range excludes its quotes.
    pub(crate) fn string(&mut self) -> Result<Range<usize>, JsonError> {
        let open = self.at;
        self.expect(b'"', "expected a string")?;
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let mut at = 0;
        loop {
            // Most bytes need no check, so one search skips them together.
            let Some(step) =
                rest.get(at..).and_then(|tail| tail.iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20))
            else {
                return Err(self.fail_at(open, "a string is not closed"));
            };
            at += step;
            match rest.get(at) {
                Some(b'"') => {
                    self.at = start + at + 1;
                    return Ok(start..start + at);
                }
                Some(b'\\') => match rest.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                    Some(b'u') if rest.get(at + 2..at + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => {
                        at += 6
                    }
                    Some(_) | None => {
                        return Err(self.fail_at(start + at, "an escape sequence is not valid in JSON"));
                    }
                },
                // Some scripts write raw tabs; they are kept.
                Some(b'\t') => at += 1,
                Some(_) | None => {
                    return Err(self.fail_at(start + at, "a string contains a control character"));
                }
            }
        }
    }

    fn word(&mut self) -> Result<Kind, JsonError> {
        let start = self.at;
        while let Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'+' | b'-' | b'.') = self.peek() {
            self.at += 1;
        }
        let token = self.bytes.get(start..self.at).unwrap_or_default();
        match token {
            b"true" | b"false" | b"null" => Ok(Kind::Word),
            b"nan" | b"inf" | b"-nan" | b"-inf" => Ok(Kind::Number),
            _ if is_number(token) => Ok(Kind::Number),
            b"" if start >= self.bytes.len() => Err(self.fail_at(start, "the text ends too early")),
            _ => Err(self.fail_at(start, "not a JSON value")),
        }
    }

    /// Skips one value of any kind. A bounded vector replaces recursion, so deep nesting cannot
    /// overflow the stack.
    pub(crate) fn skip(&mut self) -> Result<(Range<usize>, Kind), JsonError> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'"') => {
                self.string()?;
                return Ok((start..self.at, Kind::String));
            }
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(_) | None => {
                let kind = self.word()?;
                return Ok((start..self.at, kind));
            }
        };
        let mut open: Vec<u8> = Vec::new();
        loop {
            // A value must start here.
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    if open.len() >= MAX_NESTING {
                        return Err(self.fail("the values are nested deeper than 512 levels"));
                    }
                    self.at += 1;
                    self.space();
                    let close = if bracket == b'{' { b'}' } else { b']' };
                    if self.peek() == Some(close) {
                        self.at += 1;
                    } else {
                        open.push(close);
                        if close == b'}' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'"') => {
                    self.string()?;
                }
                Some(_) | None => {
                    self.word()?;
                }
            }
            // A value has ended; close all brackets that end here.
            loop {
                let Some(close) = open.last().copied() else {
                    return Ok((start..self.at, kind));
                };
                self.space();
                if self.peek() == Some(close) {
                    self.at += 1;
                    open.pop();
                    continue;
                }
                self.expect(b',', "expected a comma or a closing bracket")?;
                self.space();
                if close == b'}' {
                    self.key()?;
                }
                break;
            }
        }
    }

    /// Reads a key and its colon, up to the value; the range excludes the quotes.
    pub(crate) fn key(&mut self) -> Result<Range<usize>, JsonError> {
        let key = self.string()?;
        self.space();
        self.expect(b':', "expected a colon")?;
        self.space();
        Ok(key)
    }

    /// Called after a value inside brackets: returns true when another value follows, false when
    /// `close` was read.
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, JsonError> {
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        self.expect(b',', "expected a comma or a closing bracket")?;
        self.space();
        Ok(true)
    }

    /// Called after an opening bracket. If `close` follows immediately, consumes it and returns
    /// false.
    pub(crate) fn first(&mut self, close: u8) -> bool {
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return false;
        }
        true
    }
}

fn is_number(token: &[u8]) -> bool {
    let mut rest = token.strip_prefix(b"-").unwrap_or(token);
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.first() == Some(&b'0')) {
        return false;
    }
    rest = rest.get(whole..).unwrap_or_default();
    if let Some(tail) = rest.strip_prefix(b".") {
        // Max 5 sometimes wrote `15.`, so the digits after the point are optional.
        rest = tail.get(digits(tail)..).unwrap_or_default();
    }
    if let [b'e' | b'E', tail @ ..] = rest {
        let tail = tail.strip_prefix(b"+").or_else(|| tail.strip_prefix(b"-")).unwrap_or(tail);
        let count = digits(tail);
        return count > 0 && count == tail.len();
    }
    rest.is_empty()
}

/// The value of a number token, including `nan` and the infinities.
pub(crate) fn number(token: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(token).ok()?;
    match text {
        "-nan" => Some(f64::NAN),
        _ => text.parse().ok(),
    }
}

/// Decodes the content of a string. A lone surrogate becomes U+FFFD in the result; the file is not
/// changed.
pub(crate) fn decode(raw: &[u8]) -> Cow<'_, str> {
    if !raw.contains(&b'\\') {
        return String::from_utf8_lossy(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        if *byte != b'\\' {
            out.push(*byte);
            at += 1;
            continue;
        }
        let plain = match raw.get(at + 1) {
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let (character, used) = unicode(raw, at);
                let mut buffer = [0; 4];
                out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                at += used;
                continue;
            }
            Some(other) => *other,
            None => b'\\',
        };
        out.push(plain);
        at += 2;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

fn unicode(raw: &[u8], at: usize) -> (char, usize) {
    let unit = |at: usize| -> Option<u32> {
        let hex = raw.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    match unit(at) {
        Some(high @ 0xd800..=0xdbff) => match unit(at + 6) {
            Some(low @ 0xdc00..=0xdfff) => {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
            }
            Some(_) | None => (char::REPLACEMENT_CHARACTER, 6),
        },
        Some(code) => (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
        None => (char::REPLACEMENT_CHARACTER, 2),
    }
}

/// Encodes a string with its quotes as Max does: with as few escapes as JSON allows.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Items of the array that starts at the first non-space byte; empty when the value is not an
/// array.
pub(crate) fn elements(array: &[u8]) -> Vec<(Range<usize>, Kind)> {
    let mut scanner = Scanner::new(array, 0);
    let mut found = Vec::new();
    scanner.space();
    if scanner.expect(b'[', "").is_err() || !scanner.first(b']') {
        return found;
    }
    loop {
        let Ok(value) = scanner.skip() else {
            return found;
        };
        found.push(value);
        match scanner.more(b']') {
            Ok(true) => {}
            Ok(false) | Err(_) => return found,
        }
    }
}

/// Key and value range of each member of the object that starts at the first non-space byte; empty
/// when the value is not an object.
pub(crate) fn members(object: &[u8]) -> Vec<(String, Range<usize>, Kind)> {
    let mut scanner = Scanner::new(object, 0);
    let mut found = Vec::new();
    scanner.space();
    if scanner.expect(b'{', "").is_err() || !scanner.first(b'}') {
        return found;
    }
    loop {
        let Ok(key) = scanner.key() else { return found };
        let Ok((range, kind)) = scanner.skip() else {
            return found;
        };
        found.push((decode(object.get(key).unwrap_or_default()).into_owned(), range, kind));
        match scanner.more(b'}') {
            Ok(true) => {}
            Ok(false) | Err(_) => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> Result<Kind, JsonError> {
        let mut scanner = Scanner::new(text.as_bytes(), 0);
        scanner.space();
        let (_, kind) = scanner.skip()?;
        scanner.space();
        if scanner.at == text.len() { Ok(kind) } else { Err(scanner.fail("unexpected text after the value")) }
    }

    #[test]
    fn accepts_what_max_writes_and_refuses_the_rest() {
        for good in
            ["{}", "[ ]", "[  1, 2.50, -3e+7 ]", "{\"a\" : [ nan, -inf ]}", "\"\\ud800\"", "15.", "[{\"a\":[[]]}]"]
        {
            assert!(whole(good).is_ok(), "{good}");
        }
        for bad in
            ["{", "[1,]", "{\"a\":}", "{\"a\" 1}", "01", "+1", "\"\\x\"", "\"a", "tru", "[1 2]", "\"\n\"", "{1:2}", ""]
        {
            assert!(whole(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = whole("{\n  \"a\": [1,\n  oops]\n}").unwrap_err();
        assert_eq!((error.line, error.column), (3, 3));
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(100_000);
        assert_eq!(whole(&deep).unwrap_err().what, "the values are nested deeper than 512 levels");
    }

    proptest! {
        #[test]
        fn strings_survive(text in any::<String>()) {
            let printed = encode(&text);
            let mut scanner = Scanner::new(printed.as_bytes(), 0);
            let range = scanner.string().unwrap();
            prop_assert_eq!(decode(&printed.as_bytes()[range]), text.as_str());
        }

        #[test]
        fn agrees_with_another_parser(text in "[\\[\\]{}:,\"a0-9.eE+\\- \\\\nt]{0,24}") {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            // This reader also accepts a number that ends with its decimal point, and numbers of
            // any size.
            if theirs.is_ok() {
                prop_assert!(whole(&text).is_ok());
            } else if whole(&text).is_ok() {
                prop_assert!(text.contains('.') || theirs.unwrap_err().to_string().contains("number out of range"));
            }
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut scanner = Scanner::new(&bytes, 0);
            let _ = scanner.skip();
            let _ = decode(&bytes);
            let _ = members(&bytes);
        }
    }
}
