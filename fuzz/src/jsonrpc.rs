//! JSON-RPC lines: the lines do not depend on how the bytes are split into chunks, the SDK reads
//! the same request as we do, and an answer is one line.

use crate::outside::wire::{Incoming, Lines, read};
use crate::{SEEDED, split};
use rmcp::model::{ClientRequest, GetMeta};
use serde_json::{Value, to_value};

/// The lines of these chunks. `None` marks a line that is too long.
fn lines(chunks: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let mut lines = Lines::new(Vec::new(), 400);
    let mut found = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        if lines.ended {
            break;
        }
        // The seeded mistake: a carriage return at the end of a chunk is lost.
        let chunk: &[u8] = if SEEDED { chunk.strip_suffix(b"\r").unwrap_or(chunk) } else { chunk };
        lines.buffer.extend_from_slice(chunk);
        lines.ended = index + 1 == chunks.len();
        while let Some(line) = lines.next_line() {
            found.push(line.ok().map(|range| lines.buffer[range].to_vec()));
        }
    }
    found
}

pub fn check(data: &[u8]) {
    let (first, second) = split(data);
    let whole = lines(&[&[first, second].concat()]);
    let parts = lines(&[first, second]);
    // A line that is too long may be reported before its end is read.
    let same = whole.iter().zip(&parts).take_while(|(a, b)| a.is_some() && b.is_some()).all(|(a, b)| a == b);
    assert!(same && (whole.len() == parts.len() || parts.contains(&None)), "the lines depend on the chunks");
    for line in whole.into_iter().flatten() {
        match read(&line) {
            Err(error) => {
                let answer = error.to_line();
                assert!(answer.ends_with(b"\n") && memchr::memchr_iter(b'\n', &answer).count() == 1);
                assert!(serde_json::from_slice::<Value>(&answer).is_ok());
            }
            Ok(Some(Incoming::Request(_, request))) if !matches!(*request, ClientRequest::CustomRequest(_)) => {
                let Ok(theirs) = serde_json::from_slice::<ClientRequest>(&line) else { continue };
                assert_eq!(to_value(request.get_meta()).ok(), to_value(theirs.get_meta()).ok(), "_meta differs");
                assert_eq!(to_value(&*request).ok(), to_value(&theirs).ok(), "the SDK reads another request");
            }
            Ok(_) => {}
        }
    }
}
