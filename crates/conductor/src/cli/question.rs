//! A question to a person: how it looks on any terminal, and how fast an answer may come.
//!
//! Not here: who may answer (`doors/control/person`), or what the answer does
//! (`pipeline/approval`).

use super::{Failure, out::Out};
use crate::doors::control::client::ClientError;
use conductor_core::pending::{Fact, Record};
use conductor_core::text::escape;
use serde_json::Value;
use std::fmt::Write as _;
use std::io;

/// Nobody reads a question faster.
const TOO_QUICK_US: u64 = 300_000;
/// What is said to a yes that does not count.
pub const TOO_QUICK: &str = "that was quicker than reading; y or n: ";

/// Room for labels, and the mark between them and text that is not ours. Such text is never printed
/// left of the mark.
const LABEL: usize = 10;
const MARK: &str = "| ";
/// Below this many columns a label has a line of its own.
const NARROW: usize = 32;
/// Wider lines are hard to read, and more of them would break when the window is made narrower.
const WIDEST: usize = 100;

/// The columns of the terminal behind a descriptor.
pub fn columns(terminal: impl std::os::fd::AsFd) -> usize {
    let found = rustix::termios::tcgetwinsize(terminal).map_or(0, |it| usize::from(it.ws_col));
    if found == 0 { 80 } else { found }
}

/// What is asked: every fact in its order, and the head of it (target, tool, tier) once more at the
/// end, where the answer is typed.
pub fn text(record: &Record, columns: usize) -> String {
    let mut text = format!("Approval {}\n", record.short);
    facts(&mut text, &record.facts, columns);
    let mut ours = vec![Fact { label: "state".into(), text: record.state.to_string() }];
    ours.extend(record.expires_at.map(|end| Fact { label: "until".into(), text: end.to_string() }));
    facts(&mut text, &ours, columns);
    let head = record.facts.iter().position(|it| it.label == "tier").map_or(0, |at| at + 1);
    text.push_str("In short:\n");
    facts(&mut text, record.facts.get(..head).unwrap_or_default(), columns);
    text
}

/// A list for a terminal; a row stays a row, whatever is in it.
pub fn list(out: &mut Out, rows: impl Iterator<Item = Fact>) -> io::Result<()> {
    let mut text = String::new();
    facts(&mut text, &rows.collect::<Vec<_>>(), columns(io::stdout()));
    out.text(&text)
}

/// Facts as lines of at most that many columns. Each line of a value begins with the mark, whatever
/// the value holds.
pub fn facts(out: &mut String, facts: &[Fact], columns: usize) {
    let columns = columns.clamp(8, WIDEST);
    let narrow = columns < NARROW;
    let indent = if narrow { 0 } else { LABEL + 3 };
    // A terminal breaks a line that fills its last column.
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

/// Runs of more than two blanks as their number, so that a value cannot move its text under our
/// own. Every other kind of blank is written out.
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

/// Pieces that fit. What is not ASCII counts as two columns, which is the most that any character
/// takes.
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

/// The record in an answer of the daemon.
pub fn record(answer: &Value) -> Result<Record, Failure> {
    let bytes = serde_json::to_vec(answer).map_err(io::Error::other)?;
    Record::from_json(&bytes).map_err(|fault| ClientError::Nonsense(fault.to_string()).into())
}

/// What was typed before the question stood there is no answer to it.
pub fn forget_what_was_typed() {
    use rustix::termios::{QueueSelector, tcflush};
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// What a line typed under a question means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// A yes that came before anyone could have read.
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

    /// Counted as a terminal that draws every wide character in two columns.
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
