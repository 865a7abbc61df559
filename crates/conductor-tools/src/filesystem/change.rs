//! Facts for the approver of a file change: the present content and the difference.

use super::{At, Encoding};
use conductor_core::digest::Digest;
use conductor_core::plan::diff;
use conductor_gateway::catalog::AskFacts;
use conductor_gateway::catalog::typed::parse;
use conductor_hosts::files::Files;
use serde_json::Value;
use std::fmt::Write as _;

/// Files with more bytes are not compared line by line.
const MOST_COMPARED: usize = 1 << 20;
/// Bytes per line of a hex dump.
const DUMPED: usize = 16;

/// The bytes that a write would store; `None` for a deletion or for invalid arguments.
fn wanted(arguments: &Value) -> Option<Vec<u8>> {
    let content = arguments.get("content")?.as_str()?;
    let encoding = arguments.get("encoding").map(|it| serde_json::from_value(it.clone()));
    let encoding = encoding.transpose().ok()?.unwrap_or_default();
    Encoding::read(encoding, content).ok()
}

/// The facts of a write or a deletion.
pub fn facts(files: &Files, arguments: &Value) -> AskFacts {
    let place = parse::<At>(arguments).ok().and_then(|at| at.place(files).ok());
    let present = place.and_then(|it| it.present().ok()).flatten();
    let old = present.as_ref().map(|it| it.bytes.as_slice());
    let new = wanted(arguments);
    let describe = |bytes: &[u8]| format!("{} bytes, {}", bytes.len(), Digest::of(bytes));
    let mut facts = Vec::new();
    facts.push(("now".to_owned(), old.map_or_else(|| "nothing is there".to_owned(), describe)));
    if let Some(new) = &new {
        facts.push(("then".to_owned(), describe(new)));
    }
    facts.push(("difference".to_owned(), difference(old.unwrap_or_default(), new.as_deref().unwrap_or_default())));
    AskFacts { facts, ..AskFacts::default() }
}

/// Removed and added lines; a hex dump for bytes that are not text.
fn difference(old: &[u8], new: &[u8]) -> String {
    if old == new {
        return "none: the content stays as it is".to_owned();
    }
    let (old_text, new_text) = (std::str::from_utf8(old), std::str::from_utf8(new));
    let small = old.len() <= MOST_COMPARED && new.len() <= MOST_COMPARED;
    match (old_text, new_text) {
        (Ok(old), Ok(new)) if small => diff::preview(old, new),
        (_, Ok(new)) => {
            let lines: Vec<String> = new.split('\n').map(|line| format!("+ {line}")).collect();
            format!("(the whole content is replaced)\n{}", lines.join("\n"))
        }
        (_, Err(_)) => {
            let mut out = "(not text; these bytes replace the whole content)".to_owned();
            for (at, row) in new.chunks(DUMPED).enumerate() {
                // Writing to a string cannot fail.
                let _ = write!(out, "\n{:08x} ", at * DUMPED);
                for byte in row {
                    let _ = write!(out, " {byte:02x}");
                }
                let letters: String =
                    row.iter().map(|it| if it.is_ascii_graphic() { char::from(*it) } else { '.' }).collect();
                let _ = write!(out, "  {letters}");
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_what_comes() {
        assert_eq!(difference(b"a\nb\n", b"a\nc\n"), "  a\n- b\n+ c\n  ");
        assert_eq!(difference(b"", b"x"), "- \n+ x");
        assert_eq!(difference(b"x", b"x"), "none: the content stays as it is");
        let dumped = difference(b"x", &[0xff, b'A', 0x1b]);
        assert!(dumped.ends_with("00000000  ff 41 1b  .A."), "{dumped}");
        let large = vec![b'y'; MOST_COMPARED + 1];
        assert!(difference(&large, b"one\ntwo").ends_with("+ one\n+ two"));
    }
}
