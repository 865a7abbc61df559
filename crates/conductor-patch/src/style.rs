//! Detects the JSON style of a `.maxpat` file, and writes edited parts in the same style.
//!
//! Not here: reading (`json`) and the keys of a box (`max`).

use crate::json;

/// The JSON styles of known files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// Max 5 to 9.0: `"key" : value`, tabs before an object value, `}` newline `, ` between items.
    Classic,
    /// Max 9.1: lists of scalars on one line.
    Inline,
    /// Scripts: one list item per line.
    Expanded,
    /// The whole file on one line.
    Minified,
}

/// The style of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    dialect: Dialect,
    unit: &'static str,
    colon: &'static str,
    pub(crate) newline: &'static str,
    /// Pd: whether long statements are wrapped, as in files of older Pd versions.
    pub(crate) wraps: bool,
}

/// A value to print.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    /// A scalar in its final spelling.
    Scalar(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn text(text: &str) -> Json {
        Json::Scalar(json::encode(text))
    }

    pub(crate) fn int(value: i64) -> Json {
        Json::Scalar(value.to_string())
    }

    pub(crate) fn float(value: f64) -> Json {
        Json::Scalar(float(value))
    }

    pub(crate) fn floats(values: &[f64]) -> Json {
        Json::Array(values.iter().map(|v| Json::float(*v)).collect())
    }
}

/// A float as Max writes it: the shortest form that parses to the same value, always with a decimal
/// point or an exponent.
pub(crate) fn float(value: f64) -> String {
    let text = format!("{value:?}");
    // For extreme values `Debug` prints an exponent, sometimes without a point. JSON accepts
    // numbers with and without a point.
    if value.is_finite() { text } else { "0.0".to_owned() }
}

impl Style {
    /// The style of new files: Max 9.1.
    pub(crate) fn modern() -> Style {
        Style { dialect: Dialect::Inline, unit: "    ", colon: ": ", newline: "\n", wraps: false }
    }

    /// The style of a `.pd` file: its line ends, and whether it breaks long statements.
    pub(crate) fn detect_pd(source: &[u8]) -> Style {
        let newline = if source.windows(2).any(|pair| pair == b"\r\n") { "\r\n" } else { "\n" };
        let mut broken = false;
        let mut long = false;
        for line in source.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            // Ignore array data: every Pd version wraps it.
            let statement = !line.starts_with(b"#A");
            long |= statement && line.len() > 90 && line.starts_with(b"#X");
            broken |= statement && !line.is_empty() && !line.ends_with(b";") && line.starts_with(b"#X");
        }
        Style { newline, wraps: broken && !long, ..Style::modern() }
    }

    pub(crate) fn detect(json: &[u8]) -> Style {
        let head = json.get(..json.len().min(4096)).unwrap_or_default();
        let head = String::from_utf8_lossy(head);
        let newline = match head.find('\n') {
            Some(at) if head.get(..at).is_some_and(|line| line.ends_with('\r')) => "\r\n",
            Some(_) => "\n",
            None => {
                return Style {
                    dialect: Dialect::Minified,
                    unit: "",
                    colon: if head.contains("\": ") { ": " } else { ":" },
                    newline: "",
                    wraps: false,
                };
            }
        };
        let unit = match head.lines().nth(1) {
            Some(line) if line.starts_with('\t') => "\t",
            Some(line) if line.starts_with("    ") => "    ",
            Some(line) if line.starts_with("  ") => "  ",
            Some(_) | None => "\t",
        };
        if head.contains("\" : ") {
            return Style { dialect: Dialect::Classic, unit, colon: " : ", newline, wraps: false };
        }
        let inline = head.lines().any(|line| line.contains("\": [ ") && line.contains(']'));
        Style {
            dialect: if inline { Dialect::Inline } else { Dialect::Expanded },
            unit,
            colon: ": ",
            newline,
            wraps: false,
        }
    }

    /// Name of the style in `get_patch_info`.
    pub(crate) fn name(&self) -> &'static str {
        match (self.dialect, self.unit) {
            (Dialect::Classic, _) => "tabs",
            (Dialect::Inline, _) => "4 spaces inline",
            (Dialect::Expanded, "\t") => "tab compact",
            (Dialect::Expanded, "  ") => "2 spaces",
            (Dialect::Expanded, _) => "4 spaces",
            (Dialect::Minified, _) => "minified",
        }
    }

    fn line(&self, level: usize) -> String {
        match self.dialect {
            Dialect::Minified => String::new(),
            Dialect::Classic | Dialect::Inline | Dialect::Expanded => {
                format!("{}{}", self.newline, self.unit.repeat(level))
            }
        }
    }

    pub(crate) fn comma(&self) -> &'static str {
        if self.dialect == Dialect::Minified && self.colon == ": " { ", " } else { "," }
    }

    /// Text between `[` and the first item of a list of objects at `level`.
    pub(crate) fn lead(&self, level: usize) -> String {
        match self.dialect {
            Dialect::Classic => format!(" {}", self.unit.repeat(level)),
            Dialect::Inline | Dialect::Expanded | Dialect::Minified => self.line(level),
        }
    }

    /// Text between two items of a list of objects.
    pub(crate) fn between(&self, level: usize) -> String {
        match self.dialect {
            Dialect::Classic => format!("{}, {}", self.newline, self.unit.repeat(level)),
            Dialect::Inline | Dialect::Expanded | Dialect::Minified => {
                format!("{}{}", self.comma(), self.line(level))
            }
        }
    }

    /// Text between the last item of a list of objects and `]`.
    pub(crate) fn close(&self, level: usize) -> String {
        match self.dialect {
            Dialect::Classic => format!("{} ", self.newline),
            Dialect::Inline | Dialect::Expanded | Dialect::Minified => self.line(level.saturating_sub(1)),
        }
    }

    /// Text inside the brackets of an empty list.
    pub(crate) fn nothing(&self) -> &'static str {
        match self.dialect {
            Dialect::Classic => "  ",
            Dialect::Inline | Dialect::Expanded | Dialect::Minified => "",
        }
    }

    /// Text between a member and the member before it. `after_object` is true if the value of the
    /// earlier member is an object.
    pub(crate) fn next_member(&self, level: usize, after_object: bool) -> String {
        let break_before = if after_object && self.dialect == Dialect::Classic { self.newline } else { "" };
        format!("{break_before}{}{}", self.comma(), self.line(level))
    }

    /// A key with its colon; in the classic dialect, additional tabs precede an object value.
    pub(crate) fn member(&self, key: &str, value: &Json, level: usize) -> String {
        let mut out = String::new();
        out.push_str(&json::encode(key));
        out.push_str(self.colon);
        if self.dialect == Dialect::Classic && matches!(value, Json::Object(_)) {
            out.push_str(&self.unit.repeat(level));
        }
        self.print(value, level, &mut out);
        out
    }

    /// Prints a value whose line has the indentation `level`.
    pub(crate) fn print(&self, value: &Json, level: usize, out: &mut String) {
        match value {
            Json::Scalar(text) => out.push_str(text),
            Json::Array(items) => self.print_array(items, level, out),
            Json::Object(members) => self.print_object(members, level, out),
        }
    }

    fn print_array(&self, items: &[Json], level: usize, out: &mut String) {
        let of_objects = items.iter().any(|item| matches!(item, Json::Object(_)));
        out.push('[');
        if items.is_empty() {
            out.push_str(self.nothing());
        } else if of_objects || self.dialect == Dialect::Expanded || self.dialect == Dialect::Minified {
            for (n, item) in items.iter().enumerate() {
                out.push_str(&if n == 0 { self.lead(level + 1) } else { self.between(level + 1) });
                self.print(item, level + 1, out);
            }
            out.push_str(&self.close(level + 1));
        } else {
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n == 0 { " " } else { ", " });
                self.print(item, level, out);
            }
            out.push(' ');
        }
        out.push(']');
    }

    fn print_object(&self, members: &[(String, Json)], level: usize, out: &mut String) {
        out.push('{');
        let mut after_object = false;
        for (n, (key, value)) in members.iter().enumerate() {
            out.push_str(&if n == 0 { self.line(level + 1) } else { self.next_member(level + 1, after_object) });
            out.push_str(&self.member(key, value, level + 1));
            after_object = matches!(value, Json::Object(_));
        }
        if self.dialect == Dialect::Classic && (after_object || members.is_empty()) {
            out.push_str(self.newline);
        }
        if !members.is_empty() || self.dialect == Dialect::Classic {
            out.push_str(&self.line(level));
        }
        out.push('}');
    }

    /// Indents a printed value by `levels` more levels. Raw tabs and line ends occur only between
    /// values, so strings are not changed.
    pub(crate) fn deeper(&self, text: &[u8], levels: usize) -> Vec<u8> {
        let more = self.unit.repeat(levels);
        let classic = self.dialect == Dialect::Classic;
        let mut out = Vec::with_capacity(text.len() + 64);
        let mut previous = 0;
        for (at, byte) in text.iter().enumerate() {
            out.push(*byte);
            let next = text.get(at + 1).copied().unwrap_or(0);
            let line_starts = *byte == b'\n' && !matches!(next, b'\n' | b'\r' | b',' | 0);
            // In the classic dialect, an object after its key is also indented.
            let object_starts = classic && *byte == b' ' && previous == b':' && next == b'\t';
            if line_starts || object_starts {
                out.extend_from_slice(more.as_bytes());
            }
            previous = *byte;
        }
        out
    }

    /// The indentation level of the items of `boxes` and `lines` in a patcher `depth` levels below
    /// the root.
    pub(crate) fn item_level(depth: usize) -> usize {
        3 + 4 * depth
    }
}
