//! The bytes of a journal: one line of JSON per entry, each with a seal that covers the line and
//! all lines before it. A program that can write the file, but does not have the key, cannot
//! change, add or reorder lines.
//!
//! A program can remove lines from the end. The daemon therefore keeps the last seal in memory.
//! Each call also passes the pipeline, so a truncated journal grants no additional permission.

use super::{Journal, Line};
use crate::digest::Digest;

/// Writes the lines of one journal.
#[derive(Clone)]
pub struct Sealer {
    key: [u8; 32],
    last: Digest,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Sealer {
    /// A sealer for the first line. The seals depend on `name`, the name of the file, so that a
    /// renamed journal is refused.
    pub fn new(key: &[u8; 32], name: &str) -> Self {
        Self { key: *key, last: Digest::of(name.as_bytes()) }
    }

    /// The seal of the last line.
    pub fn last(&self) -> Digest {
        self.last
    }

    fn seal_of(&self, json: &[u8]) -> Digest {
        Digest::keyed(&self.key, &[self.last.as_bytes().as_slice(), json].concat())
    }

    /// The bytes of the next line, with its newline.
    pub fn write(&mut self, line: &Line) -> Result<Vec<u8>, serde_json::Error> {
        let json = serde_json::to_vec(line)?;
        self.last = self.seal_of(&json);
        let mut bytes = self.last.to_text().to_vec();
        bytes.push(b' ');
        bytes.extend_from_slice(&json);
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn read(&mut self, line: &[u8]) -> Option<Line> {
        let (seal, json) = line.split_at_checked(Digest::TEXT_LEN)?;
        let json = json.strip_prefix(b" ")?;
        let expected = self.seal_of(json);
        if Digest::from_text(seal)? != expected {
            return None;
        }
        self.last = expected;
        serde_json::from_slice(json).ok()
    }
}

/// The bytes are not the journal that the daemon wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal was changed by another program (line {line})")]
pub struct Damaged {
    /// Number of the first wrong line, from 1.
    pub line: usize,
}

/// Reads a journal. Returns the journal, the sealer for its next line, and the number of valid
/// bytes. An incomplete last line is left out: the daemon ended while it wrote the line, so no
/// effect depends on the line. `None` if there is no complete line.
pub fn read(key: &[u8; 32], name: &str, bytes: &[u8]) -> Result<Option<(Journal, Sealer, usize)>, Damaged> {
    let mut sealer = Sealer::new(key, name);
    let valid = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
    let mut journal: Option<Journal> = None;
    for (at, line) in bytes[..valid].split_inclusive(|it| *it == b'\n').enumerate() {
        let damaged = Damaged { line: at + 1 };
        let line = sealer.read(line.strip_suffix(b"\n").unwrap_or(line)).ok_or(damaged)?;
        match (&mut journal, line) {
            (None, Line::Begin(begin)) => journal = Some(Journal::new(begin)),
            (Some(journal), line) => journal.add(line).map_err(|_| damaged)?,
            (None, _) => return Err(damaged),
        }
    }
    Ok(journal.map(|journal| (journal, sealer, valid)))
}
