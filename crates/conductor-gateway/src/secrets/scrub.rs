//! Replaces known secrets with `[secret:NAME]` in all data that is written, sent, shown or logged.
//!
//! The scrubber finds values as plain bytes, JSON-escaped, percent-encoded and in base64 (also
//! inside a longer base64 text). Values shorter than eight bytes are ignored, because they would
//! match everywhere. Not here: the places that write, send or log; each of them calls the scrubber.

use aho_corasick::{AhoCorasick, MatchKind};
use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use conductor_core::error::ToolError;
use parking_lot::Mutex;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use zeroize::Zeroizing;

const SHORTEST: usize = 8;

#[derive(Default)]
pub struct Scrubber {
    /// `None` until there is a secret, so that scrubbing costs nothing in a home without secrets.
    patterns: ArcSwapOption<Patterns>,
    /// Values and their names.
    known: Mutex<Vec<(Zeroizing<String>, String)>>,
}

struct Patterns {
    find: AhoCorasick,
    /// The replacement of each pattern.
    labels: Vec<String>,
}

impl Scrubber {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds values to search for. When a secret gets a new value, the old value is still replaced.
    pub fn learn<'a>(&self, values: impl IntoIterator<Item = (impl AsRef<str>, &'a str)>) {
        let mut known = self.known.lock();
        for (name, value) in values {
            if value.len() >= SHORTEST && !known.iter().any(|(it, _)| it.as_str() == value) {
                known.push((Zeroizing::new(value.to_owned()), name.as_ref().to_owned()));
            }
        }
        let mut forms: Vec<(Vec<u8>, String)> = Vec::new();
        for (value, name) in &*known {
            let label = format!("[secret:{name}]");
            for form in forms_of(value) {
                if form.len() >= SHORTEST && !forms.iter().any(|(it, _)| *it == form) {
                    forms.push((form, label.clone()));
                }
            }
        }
        let labels = forms.iter().map(|(_, label)| label.clone()).collect();
        let find = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms.iter().map(|(it, _)| it));
        // Compiling fails only for extremely large patterns. The old patterns stay in use then.
        if let Ok(find) = find {
            self.patterns.store((!forms.is_empty()).then(|| Arc::new(Patterns { find, labels })));
        }
    }

    /// Whether no secret is known.
    pub fn is_idle(&self) -> bool {
        self.patterns.load().is_none()
    }

    pub fn finds(&self, text: &[u8]) -> bool {
        self.patterns.load().as_ref().is_some_and(|it| it.find.is_match(text))
    }

    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &*self.patterns.load() {
            Some(patterns) if patterns.find.is_match(text) => {
                Cow::Owned(patterns.find.replace_all(text, &patterns.labels))
            }
            Some(_) | None => Cow::Borrowed(text),
        }
    }

    /// A message about an unknown name. In a home with secrets, the message does not repeat the
    /// name: a replaced name would confirm that the caller guessed a secret.
    pub fn unknown(&self, what: &str, name: &str) -> String {
        if self.is_idle() { format!("{what}: {name}") } else { what.to_owned() }
    }

    /// Number of bytes that must be read around a piece of a longer text, so that no secret is
    /// missed at its ends.
    pub fn longest(&self) -> usize {
        self.patterns.load().as_ref().map_or(0, |it| it.find.max_pattern_len())
    }

    /// A piece of `whole` with secrets replaced, including those that begin before it or end after
    /// it.
    pub fn piece<'t>(&self, whole: &'t [u8], piece: Range<usize>) -> Cow<'t, [u8]> {
        let plain = |range: Range<usize>| whole.get(range).unwrap_or_default();
        let Some(patterns) = &*self.patterns.load() else { return Cow::Borrowed(plain(piece)) };
        let mut clean: Option<Vec<u8>> = None;
        let mut from = piece.start;
        for found in patterns.find.find_iter(whole) {
            if found.end() <= piece.start || found.start() >= piece.end {
                continue;
            }
            let out = clean.get_or_insert_default();
            out.extend_from_slice(plain(from..found.start().max(from)));
            out.extend_from_slice(patterns.labels.get(found.pattern().as_usize()).map_or(&[][..], String::as_bytes));
            from = found.end();
        }
        match clean {
            None => Cow::Borrowed(plain(piece)),
            Some(mut out) => {
                out.extend_from_slice(plain(from..piece.end.max(from)));
                Cow::Owned(out)
            }
        }
    }

    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Scrubs a value at any depth: texts, names of members, and numbers that are secrets.
    pub fn value(&self, value: &mut Value) {
        if self.is_idle() {
            return;
        }
        match value {
            Value::String(text) => self.string(text),
            Value::Number(number) => {
                if let Cow::Owned(clean) = self.text(&number.to_string()) {
                    *value = Value::String(clean);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.value(it)),
            Value::Object(members) => {
                members.values_mut().for_each(|it| self.value(it));
                if members.keys().any(|it| self.finds(it.as_bytes())) {
                    let old = std::mem::take(members);
                    members.extend(old.into_iter().map(|(key, it)| (self.text(&key).into_owned(), it)));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Scrubs every text of an error.
    pub fn error(&self, error: &mut ToolError) {
        if self.is_idle() {
            return;
        }
        error.each_text(|text| self.string(text));
        error.extras.more.values_mut().for_each(|it| self.value(it));
    }
}

/// All encoded forms of a value that may be sent.
fn forms_of(value: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![value.as_bytes().to_vec()];
    let json = Value::String(value.to_owned()).to_string();
    forms.push(json.as_bytes().get(1..json.len() - 1).unwrap_or_default().to_vec());
    forms.push(value.escape_debug().to_string().into_bytes());
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        let mut percent = Vec::new();
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                percent.push(byte);
            } else {
                percent.extend([b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
            }
        }
        forms.push(percent);
    }
    // Base64 encodes groups of three bytes, so a value has three forms, depending on its offset.
    for ahead in 0..3_usize {
        let mut bytes = vec![0; ahead];
        bytes.extend_from_slice(value.as_bytes());
        // The characters at both ends also depend on the neighbouring bytes, so leave them out.
        let (from, until) = ((ahead * 8).div_ceil(6), bytes.len() * 8 / 6);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.extend(encoded.as_bytes().get(from..until).map(<[u8]>::to_vec));
        }
    }
    forms
}

/// Scrubs panic messages, which may contain a secret. The default hook would write them to stderr
/// unchanged.
pub fn on_panic(scrubber: &Arc<Scrubber>) {
    use std::io::Write as _;
    let scrubber = Arc::clone(scrubber);
    std::panic::set_hook(Box::new(move |panic| {
        let text = format!("{panic}\n");
        // A closed stderr is ignored.
        let _ = std::io::stderr().write_all(scrubber.text(&text).as_bytes());
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use conductor_core::error::{Code, Subject, Violation};
    use proptest::prelude::*;
    use serde_json::json;

    const CANARY: &str = "c4n\"ary/+wörd\\42";

    fn scrubber() -> Scrubber {
        let scrubber = Scrubber::default();
        scrubber.learn([("key", CANARY)]);
        scrubber
    }

    #[test]
    fn every_spelling_at_every_depth() {
        let scrubber = scrubber();
        let spellings = [
            CANARY.to_owned(),
            format!("x{CANARY}y"),
            json!(CANARY).to_string(),
            format!("{CANARY:?}"),
            STANDARD.encode(CANARY),
            STANDARD.encode(format!("user:{CANARY}")),
            STANDARD.encode(format!("us:{CANARY}x")),
            URL_SAFE_NO_PAD.encode(format!("u:{CANARY}")),
            "c4n%22ary%2F%2Bw%C3%B6rd%5C42".to_owned(),
            "c4n%22ary%2f%2bw%c3%b6rd%5c42".to_owned(),
        ];
        for spelling in &spellings {
            assert!(scrubber.text(spelling).contains("[secret:key]"), "{spelling}");
        }
        let mut value = json!({"a": [[{"b": [CANARY, {CANARY: spellings}]}]], "n": 1});
        scrubber.value(&mut value);
        let text = value.to_string();
        assert!(!text.contains("ary/+w") && !text.contains(&STANDARD.encode(CANARY)), "{text}");
        assert_eq!(text.matches("[secret:key]").count(), 12, "{text}");
        // Negative control: without a known secret nothing is replaced.
        let idle = Scrubber::default();
        assert!(idle.is_idle() && spellings.iter().all(|it| idle.text(it) == it.as_str()));
    }

    #[test]
    fn a_piece_is_clean_wherever_it_is_cut() {
        let scrubber = scrubber();
        let whole = format!("before {CANARY} between {} after", STANDARD.encode(CANARY));
        let whole = whole.as_bytes();
        for size in [1, 3, 7, 20, whole.len()] {
            let mut all = Vec::new();
            for from in (0..whole.len()).step_by(size) {
                let until = (from + size).min(whole.len());
                let start = from.saturating_sub(scrubber.longest());
                let end = (until + scrubber.longest()).min(whole.len());
                all.extend_from_slice(&scrubber.piece(&whole[start..end], from - start..until - start));
            }
            let without = |it: &str| it.replace("[secret:key]", "");
            let at_once = scrubber.text(std::str::from_utf8(whole).unwrap());
            assert_eq!(without(&String::from_utf8_lossy(&all)), without(&at_once), "in pieces of {size}");
        }
        assert_eq!(Scrubber::default().piece(whole, 0..6), &b"before"[..]);
    }

    #[test]
    fn a_number_can_be_a_secret_and_a_short_one_is_none() {
        let scrubber = Scrubber::default();
        scrubber.learn([("pin", "1234567890"), ("short", "abc")]);
        let mut value = json!([1234567890, "abc", 12]);
        scrubber.value(&mut value);
        assert_eq!(value, json!(["[secret:pin]", "abc", 12]));
        // A replaced secret may still be in use elsewhere, so both values are scrubbed.
        scrubber.learn([("pin", "0987654321")]);
        assert_eq!(scrubber.text("1234567890 0987654321"), "[secret:pin] [secret:pin]");
    }

    #[test]
    fn errors_are_clean_in_every_member() {
        let mut error = ToolError::new(Code::Internal, format!("at {CANARY}"))
            .hint(CANARY)
            .subject(Subject::Other(CANARY.into()))
            .cause(Code::Internal, CANARY)
            .did_you_mean(vec![CANARY.into()])
            .violations(vec![Violation { path: CANARY.into(), message: CANARY.into() }])
            .more("x", json!([[CANARY]]));
        scrubber().error(&mut error);
        let wire = error.to_wire().to_string();
        assert!(!wire.contains("ary/+w") && wire.matches("[secret:key]").count() >= 7, "{wire}");
    }

    proptest! {
        #[test]
        fn no_value_survives_in_any_text(value in "[ -~]{8,40}", before in "[ -~]{0,9}", after in "[ -~]{0,9}") {
            let scrubber = Scrubber::default();
            scrubber.learn([("s", value.as_str())]);
            let around = format!("{before}{value}{after}");
            prop_assert!(!scrubber.text(&around).contains(&value));
            let coded = STANDARD.encode(&around);
            let clean = scrubber.text(&coded).into_owned();
            prop_assert!(clean.contains("[secret:s]"), "{} {}", around, clean);
        }
    }
}
