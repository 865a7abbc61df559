//! Atoms: the numbers and words that box texts, messages and attribute values are made of.

use crate::style::float;

/// One number or word.
#[derive(Clone, Debug, PartialEq)]
pub enum Atom {
    /// A whole number.
    Int(i64),
    /// A number with a decimal point; in Max `440.` and `440` are different.
    Float(f64),
    /// A word.
    Word(String),
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One atom.
    One(Atom),
    /// Several atoms.
    Many(Vec<Atom>),
    /// A nested JSON value as written in the file. It can be read but not set.
    Json(String),
}

impl Value {
    /// The atoms of the value.
    pub fn atoms(&self) -> &[Atom] {
        match self {
            Value::One(atom) => std::slice::from_ref(atom),
            Value::Many(atoms) => atoms,
            Value::Json(_) => &[],
        }
    }

    pub(crate) fn from_atoms(mut atoms: Vec<Atom>) -> Value {
        match atoms.len() {
            1 => Value::One(atoms.remove(0)),
            _ => Value::Many(atoms),
        }
    }
}

impl From<i64> for Atom {
    fn from(value: i64) -> Atom {
        Atom::Int(value)
    }
}

impl From<f64> for Atom {
    fn from(value: f64) -> Atom {
        Atom::Float(value)
    }
}

impl From<&str> for Atom {
    fn from(value: &str) -> Atom {
        Atom::Word(value.to_owned())
    }
}

impl Atom {
    /// The value of a number; `None` for a word.
    pub fn number(&self) -> Option<f64> {
        match self {
            Atom::Int(n) => Some(*n as f64),
            Atom::Float(n) => Some(*n),
            Atom::Word(_) => None,
        }
    }

    /// The atom as written in the text of an object box.
    pub fn in_text(&self) -> String {
        match self {
            Atom::Int(n) => n.to_string(),
            Atom::Float(n) => short_float(*n),
            Atom::Word(word) => {
                let escaped = word.replace(',', "\\,").replace(';', "\\;");
                if word.is_empty() || word.chars().any(char::is_whitespace) {
                    format!("\"{}\"", word.replace('"', "\\\""))
                } else {
                    escaped
                }
            }
        }
    }

    /// The atom as written in a message or comment. Commas and semicolons are not escaped there.
    pub fn in_content(&self) -> String {
        match self {
            Atom::Int(_) | Atom::Float(_) => self.in_text(),
            Atom::Word(word) => word.clone(),
        }
    }

    /// Parses one token of a box text.
    pub fn read(token: &str) -> Atom {
        let looks_numeric = token.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
        if looks_numeric && let Ok(n) = token.parse::<i64>() {
            return Atom::Int(n);
        }
        if looks_numeric
            && token.contains(|c: char| c.is_ascii_digit())
            && let Ok(n) = token.parse::<f64>()
        {
            return Atom::Float(n);
        }
        Atom::Word(unquoted(token))
    }
}

fn short_float(value: f64) -> String {
    let text = float(value);
    // Max writes a whole float as `440.`.
    match text.strip_suffix(".0") {
        Some(whole) => format!("{whole}."),
        None => text,
    }
}

fn unquoted(token: &str) -> String {
    let inner = token.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    match inner {
        Some(inner) => inner.replace("\\\"", "\""),
        None => token.replace("\\,", ",").replace("\\;", ";"),
    }
}

/// Tokens of a box text. Text in double quotes is one token; a backslash makes the next character
/// part of the token.
pub fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = None;
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in text.char_indices() {
        let splits = character.is_whitespace() && !quoted && !escaped;
        if splits {
            if let Some(from) = start.take() {
                found.extend(text.get(from..at));
            }
        } else if start.is_none() {
            start = Some(at);
        }
        if character == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = character == '\\' && !escaped;
    }
    if let Some(from) = start {
        found.extend(text.get(from..));
    }
    found
}

/// An attribute in a box text: its name and the words after it.
pub(crate) type TextAttribute<'a> = (&'a str, Vec<&'a str>);

/// Splits a box text into class, arguments, and the attributes given as `@name value ...`.
pub(crate) fn split(text: &str) -> (&str, Vec<&str>, Vec<TextAttribute<'_>>) {
    let mut all = tokens(text).into_iter();
    let class = all.next().unwrap_or_default();
    let mut arguments = Vec::new();
    let mut attributes: Vec<TextAttribute<'_>> = Vec::new();
    for token in all {
        match token.strip_prefix('@') {
            Some(name) if !name.is_empty() => attributes.push((name, Vec::new())),
            Some(_) | None => match attributes.last_mut() {
                Some((_, values)) => values.push(token),
                None => arguments.push(token),
            },
        }
    }
    (class, arguments, attributes)
}

/// Whether a text has no control characters. If `content` is true, the text is not a class with
/// arguments, and tabs and line ends are allowed.
pub(crate) fn printable(text: &str, content: bool) -> bool {
    text.chars().all(|c| !c.is_control() || (content && matches!(c, '\t' | '\n' | '\r')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_are_spelled_as_max_tells_them_apart() {
        let cases: [(Atom, &str); 7] = [
            (440.into(), "440"),
            (440.0.into(), "440."),
            (0.1.into(), "0.1"),
            ("foo".into(), "foo"),
            ("two words".into(), "\"two words\""),
            ("a,b".into(), "a\\,b"),
            ((-3).into(), "-3"),
        ];
        for (atom, text) in cases {
            assert_eq!(atom.in_text(), text);
            assert_eq!(Atom::read(text), atom, "{text}");
        }
        assert_eq!(Atom::from("a,b").in_content(), "a,b");
        assert_eq!(Atom::read("-"), Atom::Word("-".to_owned()));
        assert_eq!(Atom::read("nan"), Atom::Word("nan".to_owned()));
    }

    #[test]
    fn tokens_respect_quotes_and_escapes() {
        assert_eq!(tokens("  a \"b c\" d\\ e  f"), ["a", "\"b c\"", "d\\ e", "f"]);
        let (class, arguments, attributes) = split("jit.matrix m 4 char @size 3 2 @adapt 1");
        assert_eq!((class, arguments), ("jit.matrix", vec!["m", "4", "char"]));
        assert_eq!(attributes, [("size", vec!["3", "2"]), ("adapt", vec!["1"])]);
    }
}
