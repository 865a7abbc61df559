//! Reads the log from a known record on, for a witness: a second place that receives the records.
//! The log itself is the queue. A witness that could not be reached continues after the last record
//! that it has.

use std::io;
use std::path::Path;

use conductor_core::audit::Seq;
use conductor_core::audit::line;
use conductor_core::cluster::witness::{LastRecord, is_published};
use conductor_core::digest::Digest;

use super::files::{Disk, Files as _};
use super::layout::Layout;
use super::walk;

/// Number of bytes of one read. Longer than any line.
const PIECE: usize = 2 * line::MAX_LINE;

/// A record to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub seq: Seq,
    pub hash: Digest,
    /// The line without its newline.
    pub line: Vec<u8>,
}

/// Why the log does not continue after the last record of the witness. A person must examine the
/// log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OtherLogError {
    #[error("record {0} of the log differs from the witness; run `conductor audit verify --witness`")]
    Differs(Seq),
    #[error("the log ends before record {0}, which the witness has; run `conductor audit verify --witness`")]
    Shorter(Seq),
}

/// A reader with its position in the log.
#[derive(Debug)]
pub struct Follower {
    layout: Layout,
    segment: u32,
    /// The end of the last line that was read.
    offset: u64,
    /// Bytes of the segment that are already in memory. `at` is the position of `offset` in them.
    piece: Vec<u8>,
    at: usize,
}

impl Follower {
    fn at(layout: Layout, segment: u32) -> Self {
        Self { layout, segment, offset: 0, piece: Vec::new(), at: 0 }
    }

    /// Starts after the last record that the witness has, or at the first record of the log. Blocks
    /// on disk I/O.
    pub fn after(home: &Path, last: Option<LastRecord>) -> io::Result<Result<Self, OtherLogError>> {
        let layout = Layout::of(home);
        let segments = layout.segments(&Disk)?;
        let first = segments.first().copied().unwrap_or(1);
        let Some(last) = last else { return Ok(Ok(Self::at(layout, first))) };
        let mut start = None;
        for number in segments.iter().rev() {
            let head = Disk.read_at(&layout.segment(*number), 0, PIECE)?;
            let line = head.split(|it| *it == b'\n').next().unwrap_or_default();
            match line::read(line) {
                Ok((links, _)) if links.seq <= last.seq => {
                    start = Some(*number);
                    break;
                }
                Ok(_) | Err(_) => {}
            }
        }
        // Retention has removed the record, so the oldest record that exists is next.
        let is_removed = start.is_none() && first > 1;
        let mut follower = Self::at(layout, start.unwrap_or(first));
        if is_removed {
            return Ok(Ok(follower));
        }
        while let Some((seq, hash, line)) = follower.peek()? {
            let length = line.len();
            follower.skip(length);
            if seq == last.seq {
                return Ok(if hash == last.hash { Ok(follower) } else { Err(OtherLogError::Differs(seq)) });
            }
            if seq > last.seq {
                return Ok(Err(OtherLogError::Differs(seq)));
            }
        }
        Ok(Err(OtherLogError::Shorter(last.seq)))
    }

    /// The next records to publish, at most `most`, and the last record that was read. Records
    /// after `durable` are not read, because a power cut could still remove them. Blocks on disk
    /// I/O.
    pub fn read(&mut self, durable: Seq, most: usize) -> io::Result<(Vec<Published>, Option<Seq>)> {
        let (mut found, mut through) = (Vec::new(), None);
        while found.len() < most {
            let Some((seq, hash, line)) = self.peek()? else { break };
            if seq > durable {
                break;
            }
            through = Some(seq);
            let line = line.to_vec();
            self.skip(line.len());
            if is_published(&line) {
                found.push(Published { seq, hash, line });
            }
        }
        Ok((found, through))
    }

    /// The next valid line. `None` at the end of the log, and before a damaged line.
    fn peek(&mut self) -> io::Result<Option<(Seq, Digest, &[u8])>> {
        loop {
            if newline(self.piece.get(self.at..).unwrap_or_default()).is_some() {
                break;
            }
            self.piece = Disk.read_at(&self.layout.segment(self.segment), self.offset, PIECE)?;
            self.at = 0;
            if newline(&self.piece).is_some() {
                break;
            }
            let Some(next) = self.layout.segments(&Disk)?.into_iter().find(|it| *it > self.segment) else {
                return Ok(None);
            };
            (self.segment, self.offset) = (next, 0);
            self.piece.clear();
        }
        let rest = self.piece.get(self.at..).unwrap_or_default();
        let line = newline(rest).and_then(|end| rest.get(..end)).unwrap_or_default();
        Ok(line::read(line).ok().map(|(links, hash)| (links.seq, hash, line)))
    }

    /// Moves past a line of this length and its newline.
    fn skip(&mut self, length: usize) {
        self.at += length + 1;
        self.offset += length as u64 + 1;
    }
}

fn newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|it| *it == b'\n')
}

/// The signed checkpoints after `last`, the last line that the witness has. Blocks on disk I/O.
pub fn checkpoints_after(home: &Path, last: Option<&[u8]>) -> io::Result<Vec<Vec<u8>>> {
    use conductor_core::audit::Checkpoint;
    let signed = walk::checkpoints(&Disk, &Layout::of(home))?;
    // A last line without a newline is still being written.
    let complete = signed.iter().rposition(|it| *it == b'\n').map_or(0, |end| end + 1);
    let lines: Vec<&[u8]> = signed[..complete].split(|it| *it == b'\n').filter(|it| !it.is_empty()).collect();
    let Some(last) = last else { return Ok(lines.into_iter().map(<[u8]>::to_vec).collect()) };
    let from = match lines.iter().position(|it| *it == last) {
        Some(at) => at + 1,
        // The file does not contain the line. Only checkpoints of later records are new.
        None => {
            let known = Checkpoint::unverified(last).map_or(0, |it| it.seq);
            let is_later = |it: &&[u8]| Checkpoint::unverified(it).is_some_and(|it| it.seq > known);
            lines.iter().position(is_later).unwrap_or(lines.len())
        }
    };
    Ok(lines.into_iter().skip(from).map(<[u8]>::to_vec).collect())
}
