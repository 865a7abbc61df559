//! Compares a log with a second copy of it. Equal hashes of a record mean that all records before
//! it are equal too, so both are read in step, by number and hash.

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
        return Err(io::Error::new(io::ErrorKind::NotFound, "no segments in the copy"));
    }
    let mut own = Side { lines: Lines::over(segment_paths(files, own)?), last: None };
    let mut copy = Side { lines: Lines::over(paths), last: None };
    let (mut left, mut right) = (own.next(files)?, copy.next(files)?);
    let mut shared = 0_u64;
    let fault = loop {
        match (left, right) {
            (Next::Line(a, hash), Next::Line(b, other)) if a == b => {
                if hash != other {
                    break Some(Fault::new(Verdict::Forked, a, format!("{other}, by the copy"), hash.to_string()));
                }
                shared += 1;
                (left, right) = (own.next(files)?, copy.next(files)?);
            }
            (Next::Line(a, _), Next::Line(b, _)) if a < b => left = own.next(files)?,
            (Next::Line(..), Next::Line(..)) => right = copy.next(files)?,
            (_, Next::Bad) => {
                let at = copy.last.map_or(0, |seq| seq + 1);
                break Some(Fault::new(Verdict::Broken, at, "a whole record in the copy", "one that is not"));
            }
            // The log itself is verified already, and a copy that is behind is not a fault.
            (Next::Bad, _) | (_, Next::End) => break None,
            (Next::End, Next::Line(seq, _)) => {
                let found = own.last.map_or_else(|| "no records".to_owned(), |last| format!("an end at seq {last}"));
                break Some(Fault::new(Verdict::Truncated, seq, format!("seq {seq}, by the copy"), found));
            }
        }
    };
    let note = match copy.last {
        Some(last) => format!("the copy agrees on {shared} records and ends at seq {last}"),
        None => "the copy holds no records".to_owned(),
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
