//! Where results go. The one place of the command line that writes to stdout and stderr.
//!
//! Names of modes, tracks and files come from elsewhere, so every line is escaped here: no output
//! moves the cursor or hides a part of itself. JSON stays JSON.

use super::Failure;
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

    /// One line of the result for people, or several with line breaks between them.
    pub fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{}", plain(&text.to_string()))
    }

    /// Whole lines that end themselves.
    pub fn text(&mut self, lines: &str) -> io::Result<()> {
        self.stdout.write_all(plain(lines).as_bytes())
    }

    /// A control sequence of our own, to draw on a terminal.
    pub fn control(&mut self, sequence: &'static str) -> io::Result<()> {
        self.stdout.write_all(sequence.as_bytes())
    }

    /// The result for programs, on one line.
    pub fn value(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.stdout, "{}", escape_json(&value.to_string()))
    }

    /// A tool's result: data, for people too.
    pub fn data(&mut self, value: &Value) -> io::Result<()> {
        if self.json {
            return self.value(value);
        }
        writeln!(self.stdout, "{}", escape_json(&serde_json::to_string_pretty(value)?))
    }

    /// Shows a result either way.
    pub fn show(&mut self, value: &Value, text: impl FnOnce(&mut Self, &Value) -> io::Result<()>) -> io::Result<()> {
        if self.json { self.value(value) } else { text(self, value) }
    }

    /// For results that are written as they are found.
    pub fn writer(&mut self) -> &mut dyn Write {
        &mut self.stdout
    }

    pub fn finish(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// Says why a command failed. What was written before stays.
    pub fn fail(&mut self, failure: &Failure) {
        // Nowhere is left to report that these writes fail.
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

/// Lines without a character that deceives. Tabs and the line ends of other systems are harmless.
pub fn plain(lines: &str) -> String {
    let line = |line: &str| {
        let (line, end) = line.strip_suffix('\r').map_or((line, ""), |line| (line, "\r"));
        let cells: Vec<_> = line.split('\t').map(escape).collect();
        cells.join("\t") + end
    };
    lines.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
