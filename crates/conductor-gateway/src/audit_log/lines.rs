//! Reads the lines of a log from all its files, and finds the newest records that match a filter.
//!
//! Not here: verifying lines (`walk`), and displaying them.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{Disk, Files};
use super::layout::{Layout, segment_name, segments_in};
use conductor_core::error::AuditResult;
use conductor_core::policy::Pattern;
use conductor_core::timestamp::Timestamp;
use serde_json::Value;

const PIECE: usize = 256 * 1024;

/// The paths of the segments in a folder, in order. If `path` is a file, only that file.
pub fn segment_paths(files: &dyn Files, path: &Path) -> io::Result<VecDeque<PathBuf>> {
    if path.is_file() {
        return Ok(VecDeque::from([path.to_owned()]));
    }
    Ok(segments_in(files, path)?.into_iter().map(|number| path.join(segment_name(number))).collect())
}

#[derive(Debug)]
pub struct Lines {
    paths: VecDeque<PathBuf>,
    offset: u64,
    piece: Vec<u8>,
    at: usize,
}

impl Lines {
    pub fn over(paths: VecDeque<PathBuf>) -> Self {
        Self { paths, offset: 0, piece: Vec::new(), at: 0 }
    }

    /// The next complete line, without its newline. A last line without a newline is skipped: it is
    /// still being written, or a crash has cut it off.
    pub fn next_line(&mut self, files: &dyn Files) -> io::Result<Option<Vec<u8>>> {
        loop {
            let rest = self.piece.get(self.at..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest[..end].to_vec();
                self.at += end + 1;
                return Ok(Some(line));
            }
            let Some(path) = self.paths.front() else {
                return Ok(None);
            };
            let more = files.read_at(path, self.offset, PIECE)?;
            if more.is_empty() {
                self.paths.pop_front();
                self.offset = 0;
                self.piece.clear();
            } else {
                self.offset += more.len() as u64;
                self.piece.drain(..self.at);
                self.piece.extend_from_slice(&more);
            }
            self.at = 0;
        }
    }
}

/// Selects records of the log.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The name of a tool, or a prefix of names that ends in `*`.
    pub tool: Option<String>,
    /// The name of a principal, or a prefix of names that ends in `*`.
    pub principal: Option<String>,
    pub result: Option<AuditResult>,
    /// Start of the time range, inclusive.
    pub since: Option<Timestamp>,
    /// End of the time range, exclusive.
    pub until: Option<Timestamp>,
    /// Only records with a greater sequence number.
    pub after: Option<u64>,
    /// Only records with a smaller sequence number.
    pub before: Option<u64>,
    /// Only the records of this call.
    pub call: Option<String>,
}

impl Filter {
    pub fn takes(&self, record: &Value) -> bool {
        let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
        let fits = |wanted: &Option<String>, key| {
            wanted.as_ref().is_none_or(|wanted| Pattern::parse(wanted).matches(text(key)))
        };
        fits(&self.tool, "tool")
            && fits(&self.principal, "principal")
            && self.result.is_none_or(|result| text("result") == result.as_str())
            && self.after.is_none_or(|after| record.get("seq").and_then(Value::as_u64).is_some_and(|seq| seq > after))
            && self
                .before
                .is_none_or(|before| record.get("seq").and_then(Value::as_u64).is_some_and(|seq| seq < before))
            && self.call.as_ref().is_none_or(|call| text("call") == call)
            && within(record, self.since, self.until)
    }
}

/// Whether the time of a record is in the range; `since` is inclusive, `until` exclusive.
pub fn within(record: &Value, since: Option<Timestamp>, until: Option<Timestamp>) -> bool {
    if since.is_none() && until.is_none() {
        return true;
    }
    let at: Option<Timestamp> = record.get("ts").and_then(Value::as_str).and_then(|text| text.parse().ok());
    at.is_some_and(|at| since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until))
}

/// The newest records of a home that match the filter, oldest first.
pub fn newest(home: &Path, filter: &Filter, most: usize) -> io::Result<VecDeque<Value>> {
    let mut newest: VecDeque<Value> = VecDeque::new();
    let mut lines = Lines::over(segment_paths(&Disk, &Layout::of(home).audit)?);
    while let Some(line) = lines.next_line(&Disk)? {
        // Skip damaged lines: `audit verify` reports them.
        let Ok(record) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        if filter.takes(&record) {
            if newest.len() == most {
                newest.pop_front();
            }
            if most > 0 {
                newest.push_back(record);
            }
        }
    }
    Ok(newest)
}
