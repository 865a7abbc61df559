//! The streams from and to Pd. Tcl: the commands do not depend on how the bytes are split into
//! chunks. FUDI: a written message contains exactly the given words, whatever characters they have,
//! and never becomes two messages.

use crate::outside::fudi::{Messages, alike, unescaped};
use crate::outside::tcl::{Reader, Word};
use crate::{SEEDED, split};

fn tcl(chunks: &[&[u8]]) -> Vec<Word> {
    let mut reader = Reader::default();
    let mut words = Vec::new();
    for chunk in chunks {
        reader.feed(chunk, |it| words.push(it));
    }
    words
}

/// Splits a text into messages as Pd does: a backslash escapes one character, white space ends an
/// atom, an unescaped semicolon or comma ends a message.
fn fudi(text: &str) -> Vec<Vec<String>> {
    let (mut messages, mut atoms, mut atom) = (Vec::new(), Vec::new(), None::<String>);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => atom.get_or_insert_default().extend(letters.next()),
            ';' | ',' => {
                atoms.extend(atom.take());
                messages.push(std::mem::take(&mut atoms));
            }
            ' ' | '\t' | '\n' | '\r' => atoms.extend(atom.take()),
            plain => atom.get_or_insert_default().push(plain),
        }
    }
    atoms.extend(atom);
    messages.extend((!atoms.is_empty()).then_some(atoms));
    messages
}

pub fn check(data: &[u8]) {
    let (first, second) = split(data);
    assert_eq!(tcl(&[&[first, second].concat()]), tcl(&[first, second]), "the commands depend on the chunks");
    let Ok(text) = std::str::from_utf8(data) else { return };
    let words: Vec<&str> = text.split('|').filter(|it| !it.is_empty()).take(8).collect();
    let [receiver, selector, arguments @ ..] = &words[..] else { return };
    let mut messages = Messages::default();
    messages.say(receiver, selector, arguments);
    let mut written = messages.text().to_owned();
    // The seeded mistake: a semicolon after a dollar sign is not escaped.
    if SEEDED {
        written = written.replace("\\$\\;", "\\$;");
    }
    // A control character is replaced by a space.
    let plain = |it: &str| it.chars().map(|it| if it.is_control() { ' ' } else { it }).collect::<String>();
    let expected: Vec<String> = words.iter().map(|it| plain(it)).collect();
    assert_eq!(fudi(&written), [expected], "the message was read differently: {written:?}");
    assert!(alike(receiver, receiver));
    assert!(unescaped(text).len() <= text.len());
}
