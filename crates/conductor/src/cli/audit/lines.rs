//! The lines of a log over all its files, one at a time.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::audit_log::files::{Disk, Files};
use crate::audit_log::layout::{Layout, segment_name, segments_in};

const PIECE: usize = 256 * 1024;

/// Segments of a folder in order; a file stands for itself.
pub(super) fn segment_paths(files: &dyn Files, path: &Path) -> io::Result<VecDeque<PathBuf>> {
    if path.is_file() {
        return Ok(VecDeque::from([path.to_owned()]));
    }
    Ok(segments_in(files, path)?.into_iter().map(|number| path.join(segment_name(number))).collect())
}

pub(super) struct Lines {
    paths: VecDeque<PathBuf>,
    offset: u64,
    piece: Vec<u8>,
    at: usize,
}

impl Lines {
    pub fn over(paths: VecDeque<PathBuf>) -> Self {
        Self { paths, offset: 0, piece: Vec::new(), at: 0 }
    }

    /// The next whole line, without its newline. A rest without one is left out: it is being written, or torn.
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

/// Follows the end of the log over rotations. The caller says when to look.
#[derive(Debug)]
pub struct Tail {
    layout: Layout,
    number: u32,
    offset: u64,
    shown: Option<u64>,
}

impl Tail {
    /// Begins at the present end.
    pub fn at_end(home: &Path) -> io::Result<Self> {
        let layout = Layout::of(home);
        let number = layout.segments(&Disk)?.last().copied().unwrap_or(1);
        let offset = match Disk.open(&layout.segment(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            file => file?.size()?,
        };
        Ok(Self { layout, number, offset, shown: None })
    }

    /// Records up to this one were shown already.
    pub fn skip_through(&mut self, seq: Option<u64>) {
        self.shown = seq;
    }

    /// Shows what was added since the last look.
    pub fn poll(&mut self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        loop {
            let read = Disk.read_at(&self.layout.segment(self.number), self.offset, usize::MAX);
            let bytes = match read {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                bytes => bytes?,
            };
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.offset += whole as u64;
            for line in bytes[..whole].split(|byte| *byte == b'\n') {
                let Ok(record) = serde_json::from_slice::<Value>(line) else { continue };
                if record["seq"].as_u64() > self.shown {
                    super::show(&record, json, out)?;
                }
            }
            if self.layout.segments(&Disk)?.last().is_none_or(|last| *last <= self.number) {
                return Ok(());
            }
            self.number += 1;
            self.offset = 0;
        }
    }
}
