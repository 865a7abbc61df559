//! Writes the results of commands to stdout and their errors to stderr.
//!
//! Names of modes, tracks and files are untrusted, so every line is escaped here. Therefore no name
//! can move the cursor or hide text. Escaped JSON is still valid JSON.

use super::{Failure, Verdict};
use conductor_core::text::{escape, escape_json};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write};

pub struct Out {
    json: bool,
    stdout: BufWriter<Stdout>,
}

impl Out {
    pub fn new(json: bool) -> Self {
        Out { json, stdout: BufWriter::new(io::stdout()) }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes one line of the result for people, or several lines with line breaks between them.
    pub fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{}", plain(&text.to_string()))
    }

    /// Writes complete lines, each with its line break.
    pub fn text(&mut self, lines: &str) -> io::Result<()> {
        self.stdout.write_all(plain(lines).as_bytes())
    }

    /// Writes an unescaped control sequence, to draw on a terminal.
    pub fn control(&mut self, sequence: &'static str) -> io::Result<()> {
        self.stdout.write_all(sequence.as_bytes())
    }

    /// Writes the result for programs, as JSON on one line.
    pub fn value(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.stdout, "{}", escape_json(&value.to_string()))
    }

    /// Writes the result of a tool, which is JSON for programs and for people.
    pub fn data(&mut self, value: &Value) -> io::Result<()> {
        if self.json {
            return self.value(value);
        }
        writeln!(self.stdout, "{}", escape_json(&serde_json::to_string_pretty(value)?))
    }

    /// Writes a result, as JSON or with the function `text`. Always returns `Verdict::Good`, so
    /// that it can be the last call of a command.
    pub fn show(
        &mut self,
        value: &Value,
        text: impl FnOnce(&mut Self, &Value) -> io::Result<()>,
    ) -> Result<Verdict, Failure> {
        if self.json {
            self.value(value)?
        } else {
            text(self, value)?
        }
        Ok(Verdict::Good)
    }

    /// The writer for results that are written in pieces.
    pub fn writer(&mut self) -> &mut dyn Write {
        &mut self.stdout
    }

    pub fn finish(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// Reports why a command failed.
    pub fn fail(&mut self, failure: &Failure) {
        // Errors in these writes are ignored, because they cannot be reported.
        if self.json {
            let _ = self.value(&failure.to_wire());
            let _ = self.finish();
            return;
        }
        let _ = self.finish();
        let mut stderr = io::stderr().lock();
        let _ = writeln!(stderr, "conductor: {}", plain(&failure.to_string()));
        if let Some(hint) = failure.hint() {
            let _ = writeln!(stderr, "  {}", plain(hint));
        }
    }
}

/// Escapes every control character, except tabs, line breaks, and carriage returns before a line
/// break.
pub fn plain(lines: &str) -> String {
    let line = |line: &str| {
        let (line, end) = line.strip_suffix('\r').map_or((line, ""), |line| (line, "\r"));
        let cells: Vec<_> = line.split('\t').map(escape).collect();
        cells.join("\t") + end
    };
    lines.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
