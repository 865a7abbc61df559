//! One line of the log: writes and reads its exact bytes and its links in the hash chain.

use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::record::{Entry, Stamp};
use crate::digest::Digest;

/// Number of a record: 0, 1, 2 and so on, without gaps. The numbers continue from one segment to
/// the next.
pub type Seq = u64;

/// Every line ends in `,"hash":"sha256:<64 hex>"}`. The hash covers all bytes before this ending.
pub const SUFFIX_LEN: usize = 82;
const SUFFIX_HEAD: &[u8] = b",\"hash\":\"";
const SUFFIX_TAIL: &[u8] = b"\"}";

/// Length of the longest line. The writer shortens long texts, so that no line exceeds this length.
pub const MAX_LINE: usize = 256 * 1024;

/// The last record of a log. The next record contains the hash of this record. A running daemon
/// reports the head of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub log_id: Uuid,
    /// Number of the last record.
    pub seq: Seq,
    /// Hash of the last record.
    pub hash: Digest,
}

/// The number of the next record, and the hash of the record before it. A writer keeps the old
/// value until the bytes of a new record are in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chain {
    next: Seq,
    prev: Option<Digest>,
}

impl Chain {
    /// A chain without records.
    pub const fn start() -> Self {
        Self { next: 0, prev: None }
    }

    /// A chain that ends with this record.
    pub const fn after(seq: Seq, hash: Digest) -> Self {
        Self { next: seq + 1, prev: Some(hash) }
    }

    /// Number of the next record.
    pub const fn next_seq(&self) -> Seq {
        self.next
    }

    /// Sequence number and hash of the last record.
    pub fn last(&self) -> Option<(Seq, Digest)> {
        self.next.checked_sub(1).zip(self.prev)
    }

    /// Appends the line of the record, including its newline, to `out`. Returns its number.
    pub fn append(&mut self, stamp: &Stamp, entry: &Entry, out: &mut Vec<u8>) -> Seq {
        let start = out.len();
        let mut fields = Fields::begin(out, self.next);
        entry.write(stamp, &mut fields);
        let hash = fields.finish(start, self.prev);
        let seq = self.next;
        *self = Self::after(seq, hash);
        seq
    }
}

/// Writes the members of a line in the order of the calls; the order is part of the format.
#[derive(Debug)]
pub struct Fields<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Fields<'a> {
    /// Starts a line with its version and number.
    pub fn begin(out: &'a mut Vec<u8>, seq: Seq) -> Self {
        out.extend_from_slice(b"{\"v\":1");
        let mut fields = Self { out };
        fields.number("seq", seq);
        fields
    }

    fn key(&mut self, key: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Writes a text that needs no JSON escapes: a fixed word, a digest, a time or an id.
    pub fn plain(&mut self, key: &str, text: &[u8]) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(text);
        self.out.push(b'"');
    }

    /// Writes a text that may need escapes.
    pub fn text(&mut self, key: &str, text: &str) {
        self.json(key, &text);
    }

    /// Writes any JSON value.
    pub fn json<T: serde::Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        self.key(key);
        let mark = self.out.len();
        // Writing to memory cannot fail. If a value cannot be serialised, write `null`, so that the
        // line is complete.
        if serde_json::to_writer(&mut *self.out, value).is_err() {
            self.out.truncate(mark);
            self.out.extend_from_slice(b"null");
        }
    }

    /// Writes a whole number.
    pub fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes `null`.
    pub fn null(&mut self, key: &str) {
        self.key(key);
        self.out.extend_from_slice(b"null");
    }

    /// Ends the line that starts at byte `start` of the output, and returns its hash.
    pub fn finish(mut self, start: usize, prev: Option<Digest>) -> Digest {
        match prev {
            Some(prev) => self.plain("prev", &prev.to_text()),
            None => self.null("prev"),
        }
        let hash = Digest::from_bytes(Sha256::digest(&self.out[start..]).into());
        self.out.extend_from_slice(SUFFIX_HEAD);
        self.out.extend_from_slice(&hash.to_text());
        self.out.extend_from_slice(SUFFIX_TAIL);
        self.out.push(b'\n');
        hash
    }
}

/// The members of a line that are needed to check the hash chain and to continue the log after a
/// restart. Other members are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Links<'a> {
    /// Format version; always 1.
    pub v: u64,
    /// Number of the record.
    pub seq: Seq,
    /// Kind of the record.
    pub phase: &'a str,
    /// Id of the call, the same in its intent and outcome.
    #[serde(default)]
    pub call: Option<&'a str>,
    /// Name of the event.
    #[serde(default)]
    pub event: Option<&'a str>,
    /// Id of the log; only in the first line of a segment.
    #[serde(default)]
    pub log_id: Option<&'a str>,
    /// Number of the segment; only in its first line.
    #[serde(default)]
    pub segment: Option<u32>,
    /// Number of the previous segment.
    #[serde(default)]
    pub prev_segment: Option<u32>,
    /// Hash of the previous record.
    pub prev: Option<&'a str>,
}

/// A fault in a single line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineError {
    /// The line does not end in a hash.
    Shape,
    /// The hash in the line is not the hash of its bytes.
    Hash {
        /// The hash that was computed from the bytes.
        expected: Digest,
        /// The hash that the line contains.
        found: Digest,
    },
    /// The line is not a record.
    Json(String),
}

/// Checks a line (without its newline) against its own hash, and reads its links.
pub fn read(line: &[u8]) -> Result<(Links<'_>, Digest), LineError> {
    let (body, hash) = split(line).ok_or(LineError::Shape)?;
    let expected = Digest::of(body);
    if expected != hash {
        return Err(LineError::Hash { expected, found: hash });
    }
    let json = |error: serde_json::Error| LineError::Json(error.to_string());
    let links = match call_links(body) {
        // Check that the whole line is JSON, without keeping the values.
        Some(links) => serde_json::from_slice::<IgnoredAny>(line).map(|_| links).map_err(json)?,
        None => serde_json::from_slice(line).map_err(json)?,
    };
    Ok((links, hash))
}

/// Reads the links of an intent or outcome from their fixed positions, which is much faster than
/// parsing JSON. Nearly all lines are intents or outcomes. Returns `None` for a line of any other
/// form; such a line is parsed as JSON.
fn call_links(body: &[u8]) -> Option<Links<'_>> {
    let text = std::str::from_utf8(body).ok()?;
    let rest = text.strip_prefix("{\"v\":1,\"seq\":")?;
    let (digits, rest) = rest.split_at_checked(rest.bytes().position(|byte| byte == b',')?)?;
    if digits.len() > 1 && digits.starts_with('0') || digits.starts_with('+') {
        return None;
    }
    let seq = digits.parse().ok()?;
    let (_, rest) = quoted(rest, ",\"id\":\"", 36)?;
    let (_, rest) = quoted(rest, ",\"ts\":\"", 24)?;
    let rest = rest.strip_prefix(",\"phase\":\"")?;
    let (phase, rest) = if let Some(rest) = rest.strip_prefix("outcome\"") {
        ("outcome", rest)
    } else {
        ("intent", rest.strip_prefix("intent\"")?)
    };
    let (call, rest) = quoted(rest, ",\"call\":\"", 36)?;
    let (_, end) = rest.split_at_checked(rest.len().checked_sub(PREV_LEN)?)?;
    let (prev, _) = quoted(end, ",\"prev\":\"", Digest::TEXT_LEN)?;
    let none = None;
    Some(Links {
        v: 1,
        seq,
        phase,
        call: Some(call),
        event: none,
        log_id: none,
        segment: None,
        prev_segment: None,
        prev: Some(prev),
    })
}

/// Length of `,"prev":"sha256:<64 hex>"` in bytes.
const PREV_LEN: usize = 9 + Digest::TEXT_LEN + 1;

fn quoted<'a>(text: &'a str, key: &str, len: usize) -> Option<(&'a str, &'a str)> {
    let (value, rest) = text.strip_prefix(key)?.split_at_checked(len)?;
    let plain = value.bytes().all(|byte| byte != b'"' && byte != b'\\');
    Some((value, rest.strip_prefix('"')?)).filter(|_| plain)
}

/// The hashed part of a line, and the hash at its end.
pub fn split(line: &[u8]) -> Option<(&[u8], Digest)> {
    let (body, suffix) = line.split_at_checked(line.len().checked_sub(SUFFIX_LEN)?)?;
    let text = suffix.strip_prefix(SUFFIX_HEAD)?.strip_suffix(SUFFIX_TAIL)?;
    Some((body, Digest::from_text(text)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::record::InputHasher;
    use serde_json::json;

    /// The test vector in the specification of the format.
    const VECTOR: [&str; 2] = [
        r#"{"v":1,"seq":0,"ts":"2026-01-02T03:04:05.000Z","phase":"segment","log_id":"5e0c8b1e-0000-4000-8000-000000000001","segment":1,"prev_segment":null,"prev":null,"hash":"sha256:cbf0b0519410fafdc40c900c21ead3dad8fb3a32a53f909b0abfd438c1f35225"}"#,
        r#"{"v":1,"seq":1,"ts":"2026-01-02T03:04:06.000Z","phase":"intent","call":"c1","principal":"socket:1000/demo","tool":"filesystem.delete","input_hash":"hmac-sha256:14b28605323ec0a24080d8645afe82be12ba51d2e9cdaa9903a055c51bb61c7e","prev":"sha256:cbf0b0519410fafdc40c900c21ead3dad8fb3a32a53f909b0abfd438c1f35225","hash":"sha256:9fd07b700ea8eaf7f0e4a23543f5789f50240ba7f14105b533f65e12e1fdaf1f"}"#,
    ];

    #[test]
    fn the_vector_is_written_byte_for_byte() {
        let mut out = Vec::new();
        let mut fields = Fields::begin(&mut out, 0);
        fields.plain("ts", b"2026-01-02T03:04:05.000Z");
        fields.plain("phase", b"segment");
        fields.plain("log_id", b"5e0c8b1e-0000-4000-8000-000000000001");
        fields.number("segment", 1);
        fields.null("prev_segment");
        let hash = fields.finish(0, None);

        let salt: [u8; 32] = std::array::from_fn(|n| n as u8);
        let input = InputHasher::new(&salt).hash(&json!({"root": "studio", "path": "old/take1.pd"}));
        let start = out.len();
        let mut fields = Fields::begin(&mut out, 1);
        fields.plain("ts", b"2026-01-02T03:04:06.000Z");
        fields.plain("phase", b"intent");
        fields.plain("call", b"c1");
        fields.text("principal", "socket:1000/demo");
        fields.text("tool", "filesystem.delete");
        fields.text("input_hash", &input.to_string());
        fields.finish(start, Some(hash));
        assert_eq!(String::from_utf8_lossy(&out), format!("{}\n{}\n", VECTOR[0], VECTOR[1]));
    }

    #[test]
    fn the_vector_is_read_back() {
        let (links, first) = read(VECTOR[0].as_bytes()).expect("not a valid line");
        assert_eq!((links.seq, links.segment, links.prev, links.phase), (0, Some(1), None, "segment"));
        let (links, _) = read(VECTOR[1].as_bytes()).expect("not a valid line");
        assert_eq!((links.seq, links.call, links.prev), (1, Some("c1"), Some(first.to_string().as_str())));
    }

    /// Both readers must return the same result for our own lines. The fast reader must not accept
    /// a line that the JSON reader refuses.
    #[test]
    fn reading_by_place_and_by_name_agree() {
        use crate::audit::record::tests::{call, stamp};
        let mut chain = Chain::after(41, Digest::of(b""));
        let mut out = Vec::new();
        chain.append(&stamp(1), &Entry::Intent(call("tool\u{1b}\",\"prev\":\"")), &mut out);
        let line = out.trim_ascii_end();
        let (body, _) = split(line).expect("a hash");
        let by_name: Links<'_> = serde_json::from_slice(line).expect("not JSON");
        assert_eq!(call_links(body), Some(by_name));
        let text = std::str::from_utf8(body).expect("not UTF-8");
        for hurt in [
            text.replace("\"seq\":42", "\"seq\":042"),
            text.replace("\"seq\":42", "\"seq\":+42"),
            text.replace("\"seq\":42", "\"seq\":4.2"),
            text.replace("\"v\":1", "\"v\":2"),
            text.replace("intent", "event"),
            text.replace("\"prev\":\"sha256", "\"prevs\":\"sha25"),
        ] {
            assert_ne!(hurt, text);
            assert_eq!(call_links(hurt.as_bytes()), None, "{hurt}");
        }
        // A correct hash over bytes that are not JSON is still refused.
        let mut forged = body.to_vec();
        let at = text.find(",\"principal\"").expect("a principal");
        forged.insert(at, b',');
        let hash = Digest::of(&forged);
        forged.extend_from_slice(SUFFIX_HEAD);
        forged.extend_from_slice(&hash.to_text());
        forged.extend_from_slice(SUFFIX_TAIL);
        assert!(matches!(read(&forged), Err(LineError::Json(_))));
    }

    #[test]
    fn every_flipped_bit_of_a_line_is_a_fault() {
        let line = VECTOR[1].as_bytes();
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut bad = line.to_vec();
                bad[at] ^= 1 << bit;
                assert!(read(&bad).is_err(), "byte {at} bit {bit}");
            }
        }
        for cut in 0..line.len() {
            assert!(read(&line[..cut]).is_err(), "cut at {cut}");
        }
    }
}
