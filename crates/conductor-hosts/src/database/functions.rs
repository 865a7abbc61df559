//! Replaces the SQL functions of SQLite whose work grows faster than their arguments. A replacement
//! does linear work, or checks the time limit while it runs.
//!
//! SQLite checks the time limit between the steps of a statement, but never inside a function. For
//! example, SQLite's own `instr` on a megabyte takes minutes. Not here: SQLite functions with
//! linear work.

use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Longest value in a query, in bytes. It also limits arguments and results of functions.
pub const LONGEST: i32 = 1 << 20;
/// Number of comparison steps between two checks of the time limit.
const CHECK_EVERY: usize = 1 << 16;

/// Returns true when the statement must end: its time limit has passed, or the caller cancelled.
pub type Over = Arc<dyn Fn() -> bool + Send + Sync>;

/// Replaces the functions on this connection.
pub fn replace_slow(connection: &Connection, over: &Over) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    let add = |name: &str, count: i32, work: fn(&Arguments<'_, '_>) -> Result<Value>| {
        let over = Arc::clone(over);
        connection.create_scalar_function(name, count, flags, move |context| {
            let arguments = Arguments { context, over: &over };
            arguments.check_time()?;
            // As in SQLite, the result is NULL if an argument is NULL.
            if (0..context.len()).any(|at| context.get_raw(at) == ValueRef::Null) {
                return Ok(Value::Null);
            }
            work(&arguments)
        })
    };
    add("instr", 2, instr)?;
    add("replace", 3, replace)?;
    add("like", 2, |it| matches(it, Kind::Like(None)))?;
    add("like", 3, |it| {
        let escape = it.text(2);
        let mut letters = escape.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => matches(it, Kind::Like(Some(letter))),
            _ => Err(failed("ESCAPE expression must be a single character")),
        }
    })?;
    add("glob", 2, |it| matches(it, Kind::Glob))?;
    add("trim", 2, |it| trim(it, true, true))?;
    add("ltrim", 2, |it| trim(it, true, false))?;
    add("rtrim", 2, |it| trim(it, false, true))?;
    add("unhex", 2, unhex)?;
    add("json_patch", 2, json_patch)
}

struct Arguments<'c, 'a> {
    context: &'c Context<'a>,
    over: &'c Over,
}

impl Arguments<'_, '_> {
    fn check_time(&self) -> Result<()> {
        if (self.over)() {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
            return Err(Error::SqliteFailure(code, None));
        }
        Ok(())
    }

    fn bytes(&self, at: usize) -> Cow<'_, [u8]> {
        match self.context.get_raw(at) {
            ValueRef::Null => Cow::Borrowed(&[]),
            ValueRef::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
            ValueRef::Real(number) => Cow::Owned(format!("{number:?}").into_bytes()),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cow::Borrowed(bytes),
        }
    }

    fn text(&self, at: usize) -> String {
        String::from_utf8_lossy(&self.bytes(at)).into_owned()
    }

    fn is_blob(&self, at: usize) -> bool {
        matches!(self.context.get_raw(at), ValueRef::Blob(_))
    }
}

fn failed(text: &str) -> Error {
    Error::UserFunctionError(text.into())
}

fn instr(it: &Arguments<'_, '_>) -> Result<Value> {
    let (text, part) = (it.bytes(0), it.bytes(1));
    let found = memmem::find(&text, &part).map_or(0, |at| {
        let before = text.get(..at).unwrap_or_default();
        let is_letter = |byte: &&u8| (**byte & 0xC0) != 0x80;
        1 + if it.is_blob(0) && it.is_blob(1) { at } else { before.iter().filter(is_letter).count() }
    });
    Ok(Value::Integer(found as i64))
}

fn replace(it: &Arguments<'_, '_>) -> Result<Value> {
    let (text, part, with) = (it.text(0), it.text(1), it.text(2));
    if part.is_empty() {
        return Ok(Value::Text(text));
    }
    let mut out = String::new();
    let mut from = 0;
    for at in memmem::find_iter(text.as_bytes(), part.as_bytes()) {
        out.push_str(text.get(from..at).unwrap_or_default());
        out.push_str(&with);
        from = at + part.len();
        if out.len() > LONGEST as usize {
            return Err(Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_TOOBIG), None));
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Ok(Value::Text(out))
}

fn trim(it: &Arguments<'_, '_>, left: bool, right: bool) -> Result<Value> {
    let (text, letters) = (it.text(0), it.text(1));
    let letters: HashSet<char> = letters.chars().collect();
    let mut rest = text.as_str();
    if left {
        rest = rest.trim_start_matches(|letter| letters.contains(&letter));
    }
    if right {
        rest = rest.trim_end_matches(|letter| letters.contains(&letter));
    }
    Ok(Value::Text(rest.to_owned()))
}

/// Decodes hexadecimal digits. Ignored characters may be between pairs of digits, not inside a
/// pair.
fn unhex(it: &Arguments<'_, '_>) -> Result<Value> {
    let (text, ignored) = (it.text(0), it.text(1));
    let ignored: HashSet<char> = ignored.chars().collect();
    let (mut out, mut half) = (Vec::new(), None);
    for letter in text.chars() {
        half = match (letter.to_digit(16), half) {
            (Some(digit), None) => Some(digit),
            (Some(digit), Some(first)) => {
                out.push((first * 16 + digit) as u8);
                None
            }
            (None, None) if ignored.contains(&letter) => None,
            (None, _) => return Ok(Value::Null),
        };
    }
    Ok(if half.is_none() { Value::Blob(out) } else { Value::Null })
}

/// Merges two values as in RFC 7396 (JSON Merge Patch).
fn json_patch(it: &Arguments<'_, '_>) -> Result<Value> {
    fn merge(target: &mut serde_json::Value, patch: serde_json::Value) {
        let serde_json::Value::Object(members) = patch else {
            *target = patch;
            return;
        };
        if !target.is_object() {
            *target = serde_json::Value::Object(serde_json::Map::new());
        }
        let serde_json::Value::Object(into) = target else { return };
        let mut removed = HashSet::new();
        for (key, value) in members {
            if value.is_null() {
                removed.insert(key);
            } else {
                merge(into.entry(key).or_insert(serde_json::Value::Null), value);
            }
        }
        into.retain(|key, _| !removed.contains(key));
    }
    let read = |at| serde_json::from_str(&it.text(at)).map_err(|_| failed("malformed JSON"));
    let (mut target, patch) = (read(0)?, read(1)?);
    merge(&mut target, patch);
    Ok(Value::Text(target.to_string()))
}

#[derive(Clone, Copy)]
enum Kind {
    /// Contains the escape character of the pattern, if there is one.
    Like(Option<char>),
    Glob,
}

enum Piece {
    Many,
    One,
    Letter(char),
    Set { not: bool, ranges: Vec<(char, char)> },
}

/// Compares a text with a pattern. SQLite passes the pattern as the first argument.
fn matches(it: &Arguments<'_, '_>, kind: Kind) -> Result<Value> {
    let Some(pieces) = pieces(&it.text(0), kind) else { return Ok(Value::Integer(0)) };
    let text = it.text(1);
    let fold = |letter: char| if matches!(kind, Kind::Like(_)) { letter.to_ascii_lowercase() } else { letter };
    let fits = |piece: &Piece, letter: char| match piece {
        Piece::Many => false,
        Piece::One => true,
        Piece::Letter(wanted) => fold(*wanted) == fold(letter),
        Piece::Set { not, ranges } => ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter)) != *not,
    };
    let (mut at, mut rest) = (0, text.chars());
    // Where to continue after a mismatch: the index of the piece after the last `%`, and the text
    // after the characters that this `%` has matched.
    let mut back: Option<(usize, std::str::Chars<'_>)> = None;
    let mut steps = 0;
    loop {
        steps += 1;
        if steps % CHECK_EVERY == 0 {
            it.check_time()?;
        }
        if let Some(Piece::Many) = pieces.get(at) {
            at += 1;
            back = Some((at, rest.clone()));
            continue;
        }
        let mut ahead = rest.clone();
        let Some(letter) = ahead.next() else { break };
        if pieces.get(at).is_some_and(|piece| fits(piece, letter)) {
            at += 1;
            rest = ahead;
            continue;
        }
        let Some((after, swallowed)) = &mut back else { return Ok(Value::Integer(0)) };
        swallowed.next();
        (at, rest) = (*after, swallowed.clone());
    }
    let left = pieces.get(at..).unwrap_or_default();
    Ok(Value::Integer(i64::from(left.iter().all(|it| matches!(it, Piece::Many)))))
}

/// Parses a pattern. Returns `None` for a pattern that no text can match.
fn pieces(pattern: &str, kind: Kind) -> Option<Vec<Piece>> {
    let mut letters = pattern.chars().peekable();
    let mut out = Vec::new();
    while let Some(letter) = letters.next() {
        out.push(match (kind, letter) {
            (Kind::Like(Some(escape)), _) if letter == escape => Piece::Letter(letters.next()?),
            (Kind::Like(_), '%') | (Kind::Glob, '*') => Piece::Many,
            (Kind::Like(_), '_') | (Kind::Glob, '?') => Piece::One,
            (Kind::Glob, '[') => {
                let not = letters.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                // A closing bracket at the start of a set is a character of the set.
                while let Some(from) = letters.next() {
                    if from == ']' && !ranges.is_empty() {
                        break;
                    }
                    let to = if letters.next_if_eq(&'-').is_none() {
                        from
                    } else if letters.peek() == Some(&']') {
                        ranges.push(('-', '-'));
                        from
                    } else {
                        letters.next()?
                    };
                    ranges.push((from, to));
                    letters.peek()?;
                }
                Piece::Set { not, ranges }
            }
            (Kind::Like(_) | Kind::Glob, letter) => Piece::Letter(letter),
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(connection: &Connection, expression: &str) -> Value {
        connection.query_row(&format!("SELECT {expression}"), [], |row| row.get(0)).unwrap_or_else(|fault| {
            panic!("{expression}: {fault}");
        })
    }

    /// Compares the replacements with SQLite's own functions.
    #[test]
    fn they_answer_as_sqlite_does() {
        let (plain, ours) = (Connection::open_in_memory().unwrap(), Connection::open_in_memory().unwrap());
        replace_slow(&ours, &(Arc::new(|| false) as Over)).unwrap();
        let expressions = [
            "instr('abcabc', 'ca')",
            "instr('äöü', 'ü')",
            "instr(x'c3a4c3b6', x'c3b6')",
            "instr('abc', '')",
            "instr(NULL, 'a')",
            "instr(12345, 34)",
            "instr('abc', 'x')",
            "instr('äb', x'62')",
            "replace('aXbXc', 'X', '--')",
            "replace('abc', '', 'x')",
            "replace('aaa', 'aa', 'b')",
            "replace(NULL, 'a', 'b')",
            "replace(121, 1, 9)",
            "replace('abc', 'b', '')",
            "trim('xxaxbxx', 'x')",
            "ltrim('xyxa', 'xy')",
            "rtrim('axyx', 'xy')",
            "trim('äaä', 'ä')",
            "trim('abc', '')",
            "hex(unhex('41-42', '-'))",
            "unhex('4-1', '-')",
            "unhex('4', '-')",
            "hex(unhex('', '-'))",
            "json_patch('{\"a\":1,\"b\":2}', '{\"a\":null,\"c\":{\"d\":1}}')",
            "json_patch('[1]', '{\"a\":{\"b\":null}}')",
            "json_patch('{\"a\":{\"x\":1,\"y\":2}}', '{\"a\":{\"x\":null}}')",
            "json_patch('1', '[2]')",
            "'Abc' LIKE 'a%'",
            "'abc' LIKE '_b_'",
            "'abc' LIKE 'abcd%'",
            "'' LIKE '%'",
            "'' LIKE ''",
            "'a' LIKE ''",
            "'a%c' LIKE 'a\\%c' ESCAPE '\\'",
            "'abc' LIKE 'a\\%c' ESCAPE '\\'",
            "'abc' LIKE 'abc\\' ESCAPE '\\'",
            "'ÄB' LIKE 'äb'",
            "'mississippi' LIKE '%iss%ip%'",
            "'mississippi' LIKE '%iss%ipx%'",
            "'aXbXc' LIKE 'a%x%C'",
            "12 LIKE '1%'",
            "NULL LIKE 'a'",
            "'abc' GLOB 'a*'",
            "'Abc' GLOB 'a*'",
            "'abc' GLOB '?b?'",
            "'abc' GLOB '[a-c]bc'",
            "'abc' GLOB '[^a-c]bc'",
            "']bc' GLOB '[]]bc'",
            "'-bc' GLOB '[a-]bc'",
            "'abc' GLOB '[abc'",
            "'a*c' GLOB 'a[*]c'",
            "'^' GLOB '[^]'",
            "'b' GLOB '[^]a]'",
            "'aaaaab' GLOB '*a*a*b'",
        ];
        for expression in expressions {
            assert_eq!(answers(&ours, expression), answers(&plain, expression), "{expression}");
        }
    }

    /// SQLite's own functions need minutes for each of these expressions.
    #[test]
    fn hard_cases_are_quick_or_end_when_time_is_over() {
        let ours = Connection::open_in_memory().unwrap();
        replace_slow(&ours, &(Arc::new(|| false) as Over)).unwrap();
        let long = "replace(hex(zeroblob(500000)), '0', 'a')";
        let half = "replace(hex(zeroblob(250000)), '0', 'a') || 'b'";
        for expression in [
            format!("instr({long}, {half})"),
            format!("length(replace({long}, {half}, 'x'))"),
            format!("length(trim({long}, replace(hex(zeroblob(400000)), '0', 'b') || 'a'))"),
        ] {
            assert!(matches!(answers(&ours, &expression), Value::Integer(_)), "{expression}");
        }
        let looks = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let over: Over = Arc::new(move || counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= 8);
        replace_slow(&ours, &over).unwrap();
        for operator in ["LIKE", "GLOB"] {
            looks.store(0, std::sync::atomic::Ordering::SeqCst);
            let many = if operator == "LIKE" { '%' } else { '*' };
            let pattern = format!("{many}{}b{many}", "a".repeat(5000));
            let sql = format!("SELECT hex(zeroblob(400000)) {operator} replace('{pattern}', 'a', '0')");
            let ended = ours.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap_err();
            assert_eq!(
                ended.sqlite_error_code(),
                Some(rusqlite::ErrorCode::OperationInterrupted),
                "{operator}: {ended}"
            );
        }
    }
}
