//! Reads the segments of a log in pieces for a verifier, so that memory use does not depend on
//! their size.

use std::io;
use std::path::Path;

use conductor_core::audit::memory::{Remembered, expects_memory, forgotten};
use conductor_core::audit::verify::{Anchors, Fault, Report, Seen, Verdict, Verifier};
use conductor_core::audit::{Head, Seq};
use ed25519_dalek::VerifyingKey;

use super::files::{Files, WHOLE};
use super::layout::Layout;

const PIECE: usize = 1 << 20;

/// Calls `take` with the bytes of a file from `offset` on.
pub fn pieces(files: &dyn Files, path: &Path, mut offset: u64, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    loop {
        let piece = files.read_at(path, offset, PIECE)?;
        if piece.is_empty() {
            return Ok(());
        }
        offset += piece.len() as u64;
        take(&piece);
    }
}

pub fn feed(
    files: &dyn Files,
    layout: &Layout,
    verifier: &mut Verifier,
    number: u32,
    seen: &mut dyn FnMut(&Seen<'_>),
) -> io::Result<()> {
    verifier.begin_segment(number);
    pieces(files, &layout.segment(number), 0, &mut |piece| verifier.feed(piece, seen))
}

/// The content of the checkpoint file; empty if the file is missing.
pub fn checkpoints(files: &dyn Files, layout: &Layout) -> io::Result<Vec<u8>> {
    or_empty(files.read_at(&layout.checkpoints(), 0, WHOLE))
}

pub fn or_empty(read: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Verifies a whole log; without a key, only its chain. Before this call, read `head` from the
/// running daemon, and `remembered` from the places that store the last checkpoint.
pub fn verify(
    files: &dyn Files,
    layout: &Layout,
    key: Option<&VerifyingKey>,
    head: Option<Head>,
    remembered: &[Remembered],
    seen: &mut dyn FnMut(&Seen<'_>),
) -> io::Result<Report> {
    // A daemon may be writing the log. With this order of reads, each later read returns the same
    // or a later state.
    let linked = layout.linked(files);
    let signed = checkpoints(files, layout)?;
    let anchors = key.map_or_else(Anchors::default, |key| Anchors::read(&signed, key)).with_head(head);
    let unanchored = anchors.is_empty();
    let mut verifier = Verifier::new(anchors);
    let segments = layout.segments(files)?;
    let mut expected = false;
    for number in &segments {
        feed(files, layout, &mut verifier, *number, &mut |record| {
            expected |= expects_memory(record);
            seen(record);
        })?;
    }
    let mut report = verifier.finish();
    let link_is_ahead = add_missing_segment(&mut report, linked, segments.last().copied());
    if !link_is_ahead && segments.is_empty() && unanchored {
        // Without a checkpoint or a head to compare with, the verifier accepts an empty log.
        report.verdict = Verdict::Missing;
        report.faults.push(Fault::new(Verdict::Missing, 0, "a log", "no segment"));
    }
    add_memory_faults(&mut report, remembered, expected, &signed);
    Ok(report)
}

/// Reports a missing segment if the link points to a later segment than the last, because the link
/// remains when a segment is deleted. Returns whether a segment is missing.
pub fn add_missing_segment(report: &mut Report, linked: Option<u32>, last: Option<u32>) -> bool {
    let Some(linked) = linked.filter(|linked| last.is_none_or(|last| *linked > last)) else { return false };
    let fault = Fault::new(Verdict::Missing, next_seq(report), format!("segment {linked}"), "no such file");
    report.verdict = Verdict::Missing;
    report.faults.insert(0, fault);
    true
}

/// Reports differences between the log and the checkpoints stored in other places. `expected` is
/// true if the log names such a place.
pub fn add_memory_faults(report: &mut Report, remembered: &[Remembered], expected: bool, signed: &[u8]) {
    let lost = expected.then(|| forgotten(remembered, next_seq(report))).flatten();
    let faults: Vec<Fault> = remembered.iter().filter_map(|it| it.fault(signed, report.end())).collect();
    for fault in faults.into_iter().chain(lost) {
        report.add(fault);
    }
}

fn next_seq(report: &Report) -> Seq {
    report.last.map_or(0, |(seq, _)| seq + 1)
}
