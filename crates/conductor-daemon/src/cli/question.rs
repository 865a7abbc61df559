//! Formats a question to a person for any terminal, and interprets the typed answer.
//!
//! Not here: the check that a person answers (`doors/control/person`), and the effect of the answer
//! (`pipeline/approval`).

use super::{Failure, out::Out};
use crate::doors::control::client::ClientError;
use conductor_core::pending::{Fact, Record};
use conductor_core::text::escape;
use conductor_hosts::system::terminal;
/// Discards input that was typed before the question was shown.
pub use conductor_hosts::system::terminal::discard_input;
use serde_json::Value;
use std::fmt::Write as _;
use std::io;

/// A yes within this time is too quick: the person cannot have read the question.
const TOO_QUICK_US: u64 = 300_000;
/// The message after a yes that was typed too quickly.
pub const TOO_QUICK: &str = "you answered before you could read this; y or n: ";

/// Width of labels, and the mark between a label and its value. Values are untrusted, so every line
/// of a value starts with the mark.
const LABEL: usize = 10;
const MARK: &str = "| ";
/// On terminals with fewer columns, a label has its own line.
const NARROW: usize = 32;
/// Longest line. Longer lines are hard to read, and would wrap when the window becomes narrower.
const WIDEST: usize = 100;

/// The number of columns of a terminal.
pub fn columns(terminal: impl terminal::Stream) -> usize {
    terminal::size(terminal).map(|(_, columns)| columns).filter(|it| *it > 0).unwrap_or(80)
}

/// The question as text. It contains every fact in order. The most important facts (target, tool,
/// tier) are repeated at the end, where the person types the answer.
pub fn text(record: &Record, columns: usize) -> String {
    let mut text = format!("Approval {}\n", record.short);
    facts(&mut text, &record.facts, columns);
    let mut ours = vec![fact("state", record.state.to_string())];
    ours.extend(record.expires_at.map(|end| fact("until", end.to_string())));
    facts(&mut text, &ours, columns);
    let head = record.facts.iter().position(|it| it.label == "tier").map_or(0, |at| at + 1);
    text.push_str("In short:\n");
    facts(&mut text, record.facts.get(..head).unwrap_or_default(), columns);
    text
}

pub fn fact(label: &str, text: impl Into<String>) -> Fact {
    Fact { label: label.to_owned(), text: text.into() }
}

/// Formats the question from a reply of the daemon, for the terminal at stdout.
pub fn of_answer(answer: &Value) -> Result<String, Failure> {
    let bytes = serde_json::to_vec(answer).map_err(io::Error::other)?;
    let record = Record::from_json(&bytes).map_err(|error| ClientError::Unreadable(error.to_string()))?;
    Ok(text(&record, columns(io::stdout())))
}

/// Prints a list of facts. A line of a value cannot be mistaken for another fact.
pub fn list(out: &mut Out, rows: impl Iterator<Item = Fact>) -> io::Result<()> {
    let mut text = String::new();
    facts(&mut text, &rows.collect::<Vec<_>>(), columns(io::stdout()));
    out.text(&text)
}

/// Writes facts as lines of at most `columns` columns. Each line of a value starts with the mark.
pub fn facts(out: &mut String, facts: &[Fact], columns: usize) {
    let columns = columns.clamp(8, WIDEST);
    let narrow = columns < NARROW;
    let indent = if narrow { 0 } else { LABEL + 3 };
    // Some terminals wrap a line that fills the last column.
    let room = columns - indent - MARK.len() - 1;
    for fact in facts {
        let label = escape(&fact.label);
        let label: String = label.chars().take(LABEL.min(columns - 2)).collect();
        let mut first = if narrow {
            // Writing into a string does not fail.
            let _ = writeln!(out, "{label}:");
            String::new()
        } else {
            format!("  {label:<LABEL$} ")
        };
        for line in fact.text.split('\n') {
            for piece in wrap(&fold_blanks(&escape(line)), room) {
                let _ = writeln!(out, "{first:<indent$}{MARK}{piece}");
                first.clear();
            }
        }
    }
}

/// Replaces more than two consecutive spaces with their number, so that a value cannot imitate our
/// labels by aligning its text. Other kinds of blanks are escaped.
fn fold_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = 0_usize;
    let end_run = |out: &mut String, run: &mut usize| {
        if *run > 2 {
            // Writing into a string does not fail.
            let _ = write!(out, "·{run} ");
        } else {
            out.push_str(&" ".repeat(*run));
        }
        *run = 0;
    };
    for character in text.chars() {
        if character == ' ' {
            run += 1;
            continue;
        }
        end_run(&mut out, &mut run);
        if character.is_whitespace() || character == '\u{2800}' {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    end_run(&mut out, &mut run);
    out
}

/// Splits a line into pieces of at most `room` columns. A character that is not ASCII is counted as
/// two columns, the maximum.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let (mut piece, mut used) = (String::new(), 0);
    for character in text.chars() {
        let width = if character.is_ascii() { 1 } else { 2 };
        if used + width > room && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            used = 0;
        }
        piece.push(character);
        used += width;
    }
    pieces.push(piece);
    pieces
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// A yes that was typed before a person could have read the question.
    TooQuick,
    Neither,
}

/// `after_us` is the time since the question was drawn.
pub fn judge(line: &str, after_us: u64) -> Answer {
    match line.trim() {
        "y" | "Y" | "yes" if after_us < TOO_QUICK_US => Answer::TooQuick,
        "y" | "Y" | "yes" => Answer::Yes,
        "n" | "N" | "no" => Answer::No,
        _ => Answer::Neither,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, columns: usize) -> Vec<String> {
        let mut out = String::new();
        facts(&mut out, &[Fact { label: "content".into(), text: text.into() }], columns);
        out.lines().map(str::to_owned).collect()
    }

    /// The width on a terminal that draws every wide character in two columns.
    fn width(row: &str) -> usize {
        row.chars().map(|it| if it.is_ascii() { 1 } else { 2 }).sum()
    }

    #[test]
    fn no_value_leaves_its_gutter_at_any_width() {
        let forged = format!(
            "harmless{}\n  tool       | filesystem.read\r\n{}tier ReadOnly\u{85}\u{2028}\u{3000}\u{a0}end {}",
            " ".repeat(70),
            "日本".repeat(40),
            "x".repeat(300)
        );
        for columns in 8..=140 {
            for (at, row) in rows(&forged, columns).iter().enumerate() {
                assert!(width(row) < columns.max(8), "{columns}: {row:?}");
                let ours = if columns < NARROW {
                    ""
                } else if at == 0 {
                    "  content    "
                } else {
                    "             "
                };
                let label = columns < NARROW && at == 0;
                assert!(label || row.strip_prefix(ours).is_some_and(|it| it.starts_with("| ")), "{columns}: {row:?}");
                assert!(!row.contains("   ") || row.trim_start().starts_with('|') || at == 0, "{row:?}");
            }
        }
        let rows = rows("a  b   c\u{2003}d", 80);
        assert_eq!(rows, ["  content    | a  b·3 c\\u{2003}d"]);
    }

    #[test]
    fn a_yes_needs_time_and_a_no_does_not() {
        assert_eq!(judge("y", 299_999), Answer::TooQuick);
        assert_eq!(judge(" yes \r", 300_000), Answer::Yes);
        assert_eq!(judge("n", 0), Answer::No);
        assert_eq!(["", "yn", "Ja"].map(|it| judge(it, 9_000_000)), [Answer::Neither; 3]);
    }
}
