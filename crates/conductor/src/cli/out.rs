//! Where results go. The one place of the command line that writes to stdout and stderr.

use super::Failure;
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

    /// One line of the result for people.
    pub fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{text}")
    }

    /// Whole lines that end themselves.
    pub fn text(&mut self, lines: &str) -> io::Result<()> {
        self.stdout.write_all(lines.as_bytes())
    }

    /// The result for programs, on one line.
    pub fn value(&mut self, value: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.stdout, value)?;
        self.stdout.write_all(b"\n")
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
        let _ = writeln!(stderr, "conductor: {failure}");
        if let Some(hint) = failure.hint() {
            let _ = writeln!(stderr, "  {hint}");
        }
    }
}
