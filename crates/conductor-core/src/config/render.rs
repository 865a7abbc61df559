//! Formats a diagnostic for people: the line, a caret under the fault, and a suggested correction.
//!
//! Not here: colours and terminals.

use super::{Diagnostic, Severity};
use serde_json::{Value, json};
use std::ops::Range;

/// Converts byte offsets in a text to lines and columns.
pub(crate) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    /// Line and column, both 1-based. The column counts characters and ignores a byte order mark.
    pub fn place(&self, offset: usize) -> (u32, u32) {
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or(0);
        let before = self.text.get(start..offset).unwrap_or_default();
        let column = before.chars().filter(|it| *it != '\u{feff}').count() + 1;
        (u32::try_from(line + 1).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }
}

impl Diagnostic {
    /// Formats the diagnostic with its line and a caret. `text` must be the text in which the fault
    /// was found.
    pub fn render(&self, text: &str, file_name: &str) -> String {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error | Severity::Fatal => "error",
        };
        let number = if self.line > 0 { self.line.to_string() } else { String::new() };
        let margin = " ".repeat(number.len());
        let mut out = format!("{severity}: {}\n", self.message);
        if self.line > 0 {
            let (line, caret) = line_and_caret(text, &self.span);
            out.push_str(&format!("{margin}--> {file_name}:{}:{}\n", self.line, self.column));
            out.push_str(&format!("{margin} |\n{number} | {line}\n{margin} | {caret}\n"));
        } else {
            out.push_str(&format!("{margin}--> {file_name}: {}\n", self.path));
        }
        if let Some(help) = &self.help {
            out.push_str(&format!("{margin} = help: {help}\n"));
        }
        out
    }

    /// The JSON form in the results of tools. A fault in the input of a tool has no line; its
    /// `path` is a JSON pointer.
    pub fn to_json(&self) -> Value {
        let placed = self.line > 0;
        json!({
            "severity": self.severity.as_str(),
            "message": self.message,
            "help": self.help,
            "path": self.path,
            "line": placed.then_some(self.line),
            "column": placed.then_some(self.column),
        })
    }

    /// One line, for lists of errors.
    pub fn summary(&self) -> String {
        let place = if self.line == 0 { self.path.clone() } else { format!("{}:{}", self.line, self.column) };
        let help = self.help.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        if place.is_empty() { format!("{}{help}", self.message) } else { format!("{place}: {}{help}", self.message) }
    }
}

fn line_and_caret(text: &str, span: &Range<usize>) -> (String, String) {
    let at = span.start.min(text.len());
    let start = text.get(..at).and_then(|it| it.rfind('\n')).map_or(0, |newline| newline + 1);
    let end = text.get(at..).and_then(|it| it.find('\n')).map_or(text.len(), |newline| at + newline);
    let line = text.get(start..end).unwrap_or_default().trim_end_matches('\r');
    let before = text.get(start..at).unwrap_or_default();
    let marked = text.get(at..span.end.clamp(at, end)).unwrap_or_default().trim_end_matches('\r');
    // Keep tabs in the margin, so that the caret has the right column for any tab width of the
    // terminal.
    let margin = before.chars().filter(|it| *it != '\u{feff}').map(|it| if it == '\t' { '\t' } else { ' ' });
    let caret = margin.chain(std::iter::repeat_n('^', marked.chars().count().max(1))).collect();
    (line.trim_start_matches('\u{feff}').to_owned(), caret)
}
