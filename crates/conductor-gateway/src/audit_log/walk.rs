//! Feeds a verifier from files, in pieces: a log of any length is walked in flat memory.

use std::io;
use std::path::Path;

use conductor_core::audit::Head;
use conductor_core::audit::memory::{Remembered, expects_memory, forgotten};
use conductor_core::audit::verify::{Anchors, Fault, Report, Seen, Verdict, Verifier};
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

/// The checkpoint file; an absent one is empty.
pub fn checkpoints(files: &dyn Files, layout: &Layout) -> io::Result<Vec<u8>> {
    or_empty(files.read_at(&layout.checkpoints(), 0, WHOLE))
}

pub fn or_empty(read: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Verifies a whole log, without a key by its chain alone. `head` is what the running daemon said,
/// and `remembered` what other places remembered, before this was called.
pub fn verify(
    files: &dyn Files,
    layout: &Layout,
    key: Option<&VerifyingKey>,
    head: Option<Head>,
    remembered: &[Remembered],
    seen: &mut dyn FnMut(&Seen<'_>),
) -> io::Result<Report> {
    // In this order, because a daemon may be writing: what is read later can only be further on
    // than what was read before.
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
    // The link survives a deleted segment, and a key that signed nothing yet was still made
    // together with a log.
    let linked = linked.filter(|linked| segments.last().is_none_or(|last| linked > last));
    if let Some(linked) = linked {
        let fault = Fault::new(
            Verdict::Missing,
            report.last.map_or(0, |(seq, _)| seq + 1),
            format!("segment {linked}"),
            "no such file",
        );
        report.verdict = Verdict::Missing;
        report.faults.insert(0, fault);
    } else if segments.is_empty() && unanchored {
        report.verdict = Verdict::Missing;
        report.faults.push(Fault::new(Verdict::Missing, 0, "a log", "no segment"));
    }
    let next = report.last.map_or(0, |(seq, _)| seq + 1);
    let lost = expected.then(|| forgotten(remembered, next)).flatten();
    let faults: Vec<Fault> = remembered.iter().filter_map(|it| it.fault(&signed, report.end())).collect();
    for fault in faults.into_iter().chain(lost) {
        report.add(fault);
    }
    Ok(report)
}
