//! Builds messages to Pd with all special characters escaped. An unescaped `;` would start a new
//! command to any receiver, such as `pd quit`, so every message is built here, atom by atom.
//!
//! Text in a *file* has up to two levels of escapes. Pd's message parser removes the first level,
//! and Pd removes the second level when it builds a box. The result is the *meaning* of an atom.

use conductor_core::error::{Code, ToolError};

/// Longest message in bytes.
const MOST_BYTES: usize = 4000;
/// Maximum number of atoms in one box.
const MOST_ATOMS: usize = 1000;
/// Longest atom in bytes. Pd splits an atom at 1000 bytes and reads the rest as another atom.
const MOST_ATOM_BYTES: usize = 900;

/// Messages to Pd, each ended by a semicolon.
#[derive(Debug, Default)]
pub struct Messages {
    text: String,
    /// How many of these messages Pd answers with the result of a search (`find`).
    pub finds: u64,
}

impl Messages {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds a message. All words are escaped.
    pub fn say(&mut self, receiver: &str, selector: &str, arguments: &[&str]) {
        self.word(receiver);
        for word in std::iter::once(&selector).chain(arguments) {
            self.text.push(' ');
            self.word(word);
        }
        self.text.push_str(";\n");
        if selector == "find" {
            self.finds += 1;
        }
    }

    /// Adds a message that ends with `atoms`. The atoms are already escaped as in a file.
    pub fn say_atoms(&mut self, receiver: &str, selector: &str, place: (i64, i64), atoms: &[String]) {
        self.word(receiver);
        self.text.push_str(&format!(" {selector} {} {}", place.0, place.1));
        for atom in atoms {
            self.text.push(' ');
            self.word(&unescaped(atom));
        }
        self.text.push_str(";\n");
    }

    fn word(&mut self, word: &str) {
        for letter in word.chars() {
            match letter {
                ';' | ',' | '$' | ' ' | '\\' => self.text.extend(['\\', letter]),
                // `check` refuses control characters. If one is here by mistake, a space replaces
                // it, so that it cannot end the message.
                control if control.is_control() => self.text.push_str("\\ "),
                plain => self.text.push(plain),
            }
        }
    }
}

/// Fails for atoms that Pd would misread. The atoms are escaped as in a file.
pub fn check(atoms: &[String]) -> Result<(), ToolError> {
    let refuse = |text: String| {
        Err(ToolError::new(Code::BadInput, text).hint("Use shorter text without control characters for a running Pd."))
    };
    if atoms.len() > MOST_ATOMS {
        return refuse(format!("the text has {} words; the limit for a running Pd is {MOST_ATOMS}", atoms.len()));
    }
    if atoms.iter().map(|it| it.len() * 2 + 1).sum::<usize>() + 64 > MOST_BYTES {
        return refuse(format!("the text is too long; with escapes, a running Pd accepts {MOST_BYTES} bytes"));
    }
    for atom in atoms {
        if atom.len() > MOST_ATOM_BYTES {
            return refuse(format!("a word of {} bytes is too long for Pd", atom.len()));
        }
        if atom.chars().any(char::is_control) {
            return refuse("control characters cannot be sent to Pd".to_owned());
        }
    }
    Ok(())
}

/// Removes one level of escapes.
pub fn unescaped(atom: &str) -> String {
    let mut out = String::with_capacity(atom.len());
    let mut letters = atom.chars();
    while let Some(letter) = letters.next() {
        out.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    out
}

/// The meaning of an atom that is escaped as in a file.
pub fn meant(atom: &str) -> String {
    let once = unescaped(atom);
    if once.contains('\\') { unescaped(&once) } else { once }
}

/// Whether two escaped atoms have the same meaning. Numbers are compared with a tolerance, because
/// Pd stores 32-bit floats and writes six digits.
pub fn alike(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if let (Ok(a), Ok(b)) = (a.parse::<f64>(), b.parse::<f64>()) {
        return a == b || (a - b).abs() <= a.abs().max(b.abs()) * 2e-6;
    }
    meant(a) == meant(b)
}

/// The text that a person would type into a box to get these atoms.
pub fn typed(atoms: &[String]) -> String {
    let mut text = String::new();
    for atom in atoms {
        if !text.is_empty() {
            text.push(' ');
        }
        let atom = unescaped(atom);
        if matches!(atom.as_str(), "," | ";") {
            text.push_str(&atom);
            continue;
        }
        let mut escaped = false;
        for letter in atom.chars() {
            if !escaped && matches!(letter, ',' | ';' | ' ') {
                text.push('\\');
            }
            escaped = letter == '\\' && !escaped;
            text.push(letter);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn atoms(text: &str) -> Vec<String> {
        text.split('|').map(str::to_owned).collect()
    }

    /// Splits text as Pd does: into messages at unescaped semicolons and commas, into atoms at
    /// unescaped white space.
    fn read(text: &str) -> Vec<Vec<String>> {
        let (mut messages, mut message, mut atom) = (Vec::new(), Vec::new(), String::new());
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => atom.extend(letters.next()),
                ';' | ',' => {
                    message.extend((!atom.is_empty()).then(|| std::mem::take(&mut atom)));
                    messages.push(std::mem::take(&mut message));
                }
                space if space.is_whitespace() => {
                    message.extend((!atom.is_empty()).then(|| std::mem::take(&mut atom)));
                }
                plain => atom.push(plain),
            }
        }
        messages
    }

    #[test]
    fn nothing_ends_a_message_but_its_own_end() {
        let mut out = Messages::default();
        out.say(".x1", "find", &["a; pd quit", "1"]);
        out.say_atoms(".x1", "obj", (10, -20), &atoms("f|\\$1|a\\ b|\\;|;|x;pd"));
        assert_eq!(out.finds, 1);
        assert_eq!(out.text(), ".x1 find a\\;\\ pd\\ quit 1;\n.x1 obj 10 -20 f \\$1 a\\ b \\; \\; x\\;pd;\n");
    }

    #[test]
    fn typing_and_meaning() {
        assert_eq!(typed(&atoms("set|\\$1|\\,|a\\ b|x\\\\\\,y")), "set $1 , a\\ b x\\,y");
        assert!(alike("a\\ b", "a\\\\\\ b"));
        assert!(alike("440.0", "440") && alike("0.333333333", "0.333333") && alike("1e+37", "1e37"));
        assert!(!alike("440", "441") && !alike("a", "b") && !alike("\\$1", "\\$2"));
    }

    #[test]
    fn what_pd_would_misread_is_refused() {
        for bad in [
            vec!["a\nb".to_owned()],
            vec!["a\0b".to_owned()],
            vec!["x".repeat(1000)],
            vec!["x".to_owned(); 1001],
            vec!["x".repeat(800); 4],
        ] {
            assert_eq!(check(&bad).map_err(|it| it.code), Err(Code::BadInput));
        }
        assert!(check(&atoms("osc~|440")).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_stays_one_message(words in prop::collection::vec("[ -~äß音;,$\\\\]{1,12}", 1..6)) {
            let mut out = Messages::default();
            out.say_atoms(".x1", "obj", (1, 2), &words);
            let read = read(out.text());
            prop_assert_eq!(read.len(), 1);
            let sent: Vec<String> = words.iter().map(|it| unescaped(it)).filter(|it| !it.is_empty()).collect();
            prop_assert_eq!(read[0].get(4..).unwrap_or_default(), &sent[..]);
        }
    }
}
