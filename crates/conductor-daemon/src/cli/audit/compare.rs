//! Compares a log with a second copy. If a record has the same hash in both, all earlier records
//! are equal too. Therefore only the numbers and hashes are compared, record by record.

use std::io;
use std::path::Path;

use conductor_core::audit::line::{self, LineError};
use conductor_core::audit::verify::{Fault, Verdict};
use conductor_core::digest::Digest;

use conductor_gateway::audit_log::files::Files;
use conductor_gateway::audit_log::lines::{Lines, segment_paths};

pub(super) struct Compared {
    pub fault: Option<Fault>,
    pub note: String,
}

pub(super) fn compare(files: &dyn Files, own: &Path, copy: &Path) -> io::Result<Compared> {
    let paths = segment_paths(files, copy)?;
    if paths.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the copy contains no segments"));
    }
    let mut own = Side { lines: Lines::over(segment_paths(files, own)?), last: None };
    let mut copy = Side { lines: Lines::over(paths), last: None };
    let (mut left, mut right) = (own.next(files)?, copy.next(files)?);
    let mut shared = 0_u64;
    let fault = loop {
        match (left, right) {
            (Next::Line(a, hash), Next::Line(b, other)) if a == b => {
                if hash != other {
                    break Some(Fault::new(Verdict::Forked, a, format!("{other} as in the copy"), hash.to_string()));
                }
                shared += 1;
                (left, right) = (own.next(files)?, copy.next(files)?);
            }
            (Next::Line(a, _), Next::Line(b, _)) if a < b => left = own.next(files)?,
            (Next::Line(..), Next::Line(..)) => right = copy.next(files)?,
            (_, Next::Bad) => {
                let at = copy.last.map_or(0, |seq| seq + 1);
                break Some(Fault::new(Verdict::Broken, at, "a valid record in the copy", "an invalid record"));
            }
            // The log itself is already verified. A copy with fewer records is not a fault.
            (Next::Bad, _) | (_, Next::End) => break None,
            (Next::End, Next::Line(seq, _)) => {
                let found = own
                    .last
                    .map_or_else(|| "no records".to_owned(), |last| format!("the end of the log at seq {last}"));
                break Some(Fault::new(Verdict::Truncated, seq, format!("seq {seq} as in the copy"), found));
            }
        }
    };
    let note = match copy.last {
        Some(last) => format!("the copy has {shared} equal records and ends at seq {last}"),
        None => "the copy contains no records".to_owned(),
    };
    Ok(Compared { fault, note })
}

#[derive(Clone, Copy)]
enum Next {
    Line(u64, Digest),
    Bad,
    End,
}

struct Side {
    lines: Lines,
    last: Option<u64>,
}

impl Side {
    fn next(&mut self, files: &dyn Files) -> io::Result<Next> {
        let Some(line) = self.lines.next_line(files)? else {
            return Ok(Next::End);
        };
        Ok(match line::read(&line) {
            Ok((links, hash)) => {
                self.last = Some(links.seq);
                Next::Line(links.seq, hash)
            }
            Err(LineError::Shape | LineError::Hash { .. } | LineError::Json(_)) => Next::Bad,
        })
    }
}
