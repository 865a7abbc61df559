//! Writes the results of commands to stdout and their errors to stderr. With `--json`, errors are
//! JSON on stdout.
//!
//! Names of modes, tracks and files are untrusted, so every line is escaped here. Therefore no name
//! can move the cursor or hide text. Escaped JSON is still valid JSON.

use super::{Failure, Verdict};
use anstyle::{AnsiColor, Style};
use conductor_core::text::{escape, escape_json};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On terminals, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorChoice {
    /// Applies NO_COLOR: it turns `Auto` into `Never`.
    pub fn within(self, no_color: bool) -> Self {
        if self == ColorChoice::Auto && no_color { ColorChoice::Never } else { self }
    }

    fn applies_to(self, stream: &impl IsTerminal) -> bool {
        match self {
            ColorChoice::Auto => stream.is_terminal(),
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        }
    }
}

/// The meaning of a text, shown as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    /// Needs attention, but is not a failure.
    Note,
    Bad,
    /// A name that the reader looks for.
    Strong,
    Faint,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Tone::Plain => Style::new(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Note => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Strong => Style::new().bold(),
            Tone::Faint => Style::new().dimmed(),
        }
    }

    /// A cell of a table with this tone.
    pub fn cell(self, text: impl Display) -> Cell {
        Cell { text: escape(&text.to_string()).into(), tone: self }
    }
}

/// A cell of a table without a colour.
pub fn cell(text: impl Display) -> Cell {
    Tone::Plain.cell(text)
}

/// One cell of a table. Its text is escaped.
pub struct Cell {
    text: String,
    tone: Tone,
}

pub struct Out {
    json: bool,
    color: ColorChoice,
    stdout: BufWriter<Stdout>,
}

impl Out {
    pub fn new(json: bool, color: ColorChoice) -> Self {
        Out { json, color, stdout: BufWriter::new(io::stdout()) }
    }

    /// Writes rows with aligned columns. The last cell of a row is not padded.
    pub fn table(&mut self, rows: &[Vec<Cell>]) -> io::Result<()> {
        let colored = self.color.applies_to(&io::stdout());
        for line in lines(rows, colored) {
            writeln!(self.stdout, "{line}")?;
        }
        Ok(())
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes one line of the result for people, or several lines with line breaks between them.
    pub fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{}", plain(&text.to_string()))
    }

    /// Writes text without adding a line break.
    pub fn text(&mut self, lines: &str) -> io::Result<()> {
        self.stdout.write_all(plain(lines).as_bytes())
    }

    /// Writes fixed text without escaping it, such as a control sequence for the terminal.
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
        let style = if self.color.applies_to(&io::stderr()) { Tone::Bad.style() } else { Style::new() };
        let mut stderr = io::stderr().lock();
        let _ = writeln!(stderr, "{style}conductor:{style:#} {}", plain(&failure.to_string()));
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

/// The lines of a table. Two spaces are between columns.
fn lines(rows: &[Vec<Cell>], colored: bool) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let padded = rows.iter().filter(|row| row.len() > column + 1);
        padded.filter_map(|row| row.get(column)).map(|it| it.text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<Cell>| {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let is_last = at + 1 == row.len();
            let style = if colored { cell.tone.style() } else { Style::new() };
            let padding = if is_last { 0 } else { width.saturating_sub(cell.text.chars().count()) + 2 };
            line.push_str(&format!("{style}{}{style:#}{:padding$}", cell.text, ""));
        }
        line.truncate(line.trim_end().len());
        line
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_untrusted_text_cannot_colour() {
        let rows = [
            vec![Tone::Good.cell("ok"), cell("home"), cell("/a\u{1b}[31mb")],
            vec![Tone::Bad.cell("bad"), cell("realtime"), cell("x")],
            vec![cell(""), cell(""), cell("a cure")],
            vec![cell("one long cell does not widen the others")],
        ];
        let plain = lines(&rows, false);
        assert_eq!(plain[0], "ok   home      /a\\u{1b}[31mb");
        assert_eq!(plain[1], "bad  realtime  x");
        assert_eq!(plain[2], "               a cure");
        let colored = lines(&rows, true);
        assert_eq!(colored[0], "\u{1b}[32mok\u{1b}[0m   home      /a\\u{1b}[31mb");
        assert!(colored[1].starts_with("\u{1b}[1m\u{1b}[31mbad\u{1b}[0m  realtime"), "{:?}", colored[1]);
    }

    #[test]
    fn no_color_is_overruled_by_a_choice() {
        assert_eq!(ColorChoice::Auto.within(true), ColorChoice::Never);
        assert_eq!(ColorChoice::Auto.within(false), ColorChoice::Auto);
        assert_eq!(ColorChoice::Always.within(true), ColorChoice::Always);
    }
}
