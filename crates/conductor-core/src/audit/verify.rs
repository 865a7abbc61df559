//! Verifies a log: reads its segments and checkpoints and returns one verdict.
//!
//! The verifier accepts bytes in pieces of any size and buffers at most one line, so its memory
//! does not grow with the log. It hashes the given bytes and never encodes a record again. Not
//! here: opening files, and comparing two copies of a log.
//!
//! Guarantees: every edit before the last checkpoint is detected, unless its author has the signing
//! key. A log that was rolled back together with its checkpoints is detected only with a checkpoint
//! that is stored elsewhere ([`super::memory`]). An attacker with the key and the files can rewrite
//! all records that have no second copy.

use std::fmt;

use ed25519_dalek::VerifyingKey;
use memchr::{memchr, memchr_iter};
use uuid::Uuid;

use super::checkpoint::{BadCheckpoint, Checkpoint};
use super::line::{self, Chain, Head, LineError, Links, MAX_LINE, Seq};
use super::record::EventName;
use crate::digest::Digest;
use crate::named_enum::named_enum;

/// Maximum number of records after the last checkpoint in a correct log. At this number, the writer
/// waits for a checkpoint.
pub const MAX_LAG: u64 = 512;

/// Maximum number of records in a correct log without a checkpoint. The writer signs the first
/// record before it accepts a second.
pub const MAX_UNSIGNED: u64 = 1;

named_enum! {
    /// The state of a log. If several verdicts apply, the first in this order is reported.
    #[derive(PartialOrd, Ord)]
    pub enum Verdict {
        /// Segments or checkpoints are missing.
        Missing = "MISSING",
        /// A record was changed.
        Broken = "BROKEN",
        /// A record differs from the record that a checkpoint or the running daemon reports for
        /// this place.
        Forked = "FORKED",
        /// The end of the log is missing.
        Truncated = "TRUNCATED",
        /// The last line is incomplete, or the last segment is empty.
        Torn = "TORN",
        /// Nothing is wrong.
        Intact = "INTACT",
    }
}

impl Verdict {
    /// Exit code of `conductor audit verify`.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Intact => 0,
            Self::Broken => 10,
            Self::Truncated => 11,
            Self::Forked => 12,
            Self::Missing => 13,
            Self::Torn => 14,
        }
    }
}

/// One deviation from a correct log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The verdict of a log that has only this fault.
    pub verdict: Verdict,
    /// The first record with this fault.
    pub seq: Seq,
    /// The content of a correct log at record `seq`.
    pub expected: String,
    /// The content of this log at record `seq`.
    pub found: String,
}

impl Fault {
    /// Creates a fault at record `seq`.
    pub fn new(verdict: Verdict, seq: Seq, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { verdict, seq, expected: expected.into(), found: found.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at seq {}: expected {}, found {}", self.verdict, self.seq, self.expected, self.found)
    }
}

/// Faults that a person has accepted. A signed checkpoint covers the record of the acceptance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Number of the `audit.accepted` event.
    pub seq: Seq,
    /// The accepted faults.
    pub faults: Vec<Fault>,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The state of the log.
    pub verdict: Verdict,
    /// All faults, sorted. The first fault decides the verdict.
    pub faults: Vec<Fault>,
    /// Faults that a person has accepted.
    pub accepted: Vec<Accepted>,
    /// Number of valid records.
    pub records: u64,
    /// Number of segments that were read.
    pub segments: u32,
    /// First segment and record, if retention has removed earlier segments.
    pub begins_at: Option<(u32, Seq)>,
    /// The last record with a valid chain.
    pub last: Option<(Seq, Digest)>,
    pub log_id: Option<Uuid>,
    /// The last record that a valid checkpoint covers.
    pub anchored_through: Option<Seq>,
    /// Number of records after `anchored_through`. No signature protects them.
    pub unanchored: u64,
    /// Number of valid checkpoints.
    pub checkpoints: u64,
    /// The last segment: its number, and the length of its valid lines in bytes.
    pub last_segment: Option<(u32, u64)>,
    /// Number of bytes after the valid lines of the last segment.
    pub tail_bytes: u64,
}

impl Report {
    /// The end of the valid chain.
    pub fn end(&self) -> Option<Head> {
        let (seq, hash) = self.last?;
        Some(Head { log_id: self.log_id?, seq, hash })
    }

    /// Adds a fault that was found outside the verifier.
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
        self.faults.sort_by_key(|fault| (fault.verdict, fault.seq));
        self.verdict = self.faults.first().map_or(Verdict::Intact, |fault| fault.verdict);
    }
}

/// The checkpoints, and the end of the log as reported by the running daemon. A log is compared
/// with both.
#[derive(Debug, Clone, Default)]
pub struct Anchors {
    good: Vec<Anchor>,
    bad: Vec<(usize, Fault)>,
    checkpoints: u64,
    latest: Option<Checkpoint>,
}

#[derive(Debug, Clone, Copy)]
struct Anchor {
    seq: Seq,
    hash: Digest,
    log_id: Uuid,
    /// Line number in the checkpoint file. For the end that the running daemon reports, a number
    /// above all lines.
    line: usize,
    signed: bool,
}

impl Anchors {
    /// Reads `checkpoints.jsonl`. Ignores a last line without a newline: a crash interrupted its
    /// write.
    pub fn read(bytes: &[u8], key: &VerifyingKey) -> Self {
        Self::read_from(bytes, key, 0)
    }

    /// Reads the checkpoints at record `first` or later, or else the last checkpoint before it. A
    /// daemon start verifies only the last segment, and skips older checkpoints because checking a
    /// signature is slow.
    pub fn read_from(bytes: &[u8], key: &VerifyingKey, first: Seq) -> Self {
        let mut anchors = Self::default();
        let mut rest = bytes;
        let mut index = 0;
        let mut earlier = None;
        while let Some(end) = memchr(b'\n', rest) {
            let line = &rest[..end];
            if Checkpoint::claims_less_than(line, first) {
                earlier = Some((index, line));
            } else {
                anchors.add(index, Checkpoint::read(line, key));
            }
            index += 1;
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        if let Some((index, line)) = earlier.filter(|_| anchors.good.is_empty()) {
            anchors.add(index, Checkpoint::read(line, key));
        }
        anchors
    }

    fn add(&mut self, index: usize, line: Result<Checkpoint, BadCheckpoint>) {
        match line {
            Ok(checkpoint) => {
                let Checkpoint { log_id, seq, hash, .. } = checkpoint;
                self.good.push(Anchor { seq, hash, log_id, line: index, signed: true });
                self.checkpoints += 1;
                if self.latest.is_none_or(|latest| latest.seq <= seq) {
                    self.latest = Some(checkpoint);
                }
            }
            Err(why) => {
                let seq = self.latest.map_or(0, |latest| latest.seq);
                let found = format!("line {} of checkpoints.jsonl, which {why}", index + 1);
                self.bad
                    .push((index, Fault::new(Verdict::Forked, seq, "a checkpoint that this log's key signed", found)));
            }
        }
    }

    /// The valid checkpoint with the highest record number.
    pub const fn latest(&self) -> Option<Checkpoint> {
        self.latest
    }

    /// Whether there are no checkpoints, valid or invalid.
    pub fn is_empty(&self) -> bool {
        self.good.is_empty() && self.bad.is_empty()
    }

    /// Adds the end of the log as reported by the running daemon. Request this end before reading
    /// the files, because the log can grow while the files are read.
    pub fn with_head(mut self, head: Option<Head>) -> Self {
        if let Some(Head { log_id, seq, hash }) = head {
            self.good.push(Anchor { seq, hash, log_id, line: usize::MAX, signed: false });
        }
        self
    }
}

/// A valid line, passed to the callback of [`Verifier::feed`].
#[derive(Debug)]
pub struct Seen<'a> {
    /// Number of the segment.
    pub segment: u32,
    /// The links of the record.
    pub links: Links<'a>,
    /// The line without its newline.
    pub line: &'a [u8],
}

#[derive(Debug)]
struct Bad {
    fault: Fault,
    newline: bool,
    nul: bool,
    bytes: u64,
}

#[derive(Debug)]
struct Restart {
    /// Absent if the fault that broke the chain is already in the list.
    fault: Option<Fault>,
}

/// The state of a verification.
#[derive(Debug, Default)]
pub struct Verifier {
    anchors: Vec<Anchor>,
    bad_anchors: Vec<(usize, Fault)>,
    checkpoints: u64,
    next_anchor: usize,
    /// Highest record that a signed checkpoint confirms, and the line of that checkpoint in its
    /// file.
    confirmed: Option<(Seq, usize)>,

    segment: Option<u32>,
    segments: u32,
    /// Number of valid lines in this segment so far.
    lines: u64,
    chain: Chain,
    log_id: Option<Uuid>,
    records: u64,
    carry: Vec<u8>,
    good_len: u64,

    begins_at: Option<(u32, Seq)>,
    removed_through: u32,
    faults: Vec<Fault>,
    /// Whether the chain is broken, so that the rest of this segment cannot be checked.
    lost: bool,
    bad: Option<Bad>,
    /// Set if the first line of a segment does not continue the chain, or the chain was broken
    /// before. Cleared if the second line records an acceptance.
    restart: Option<Restart>,
    accepted: Vec<Accepted>,
}

impl Verifier {
    /// Starts a verification at the first segment.
    pub fn new(anchors: Anchors) -> Self {
        let Anchors { mut good, bad, checkpoints, .. } = anchors;
        good.sort_by_key(|anchor| anchor.seq);
        Self { anchors: good, bad_anchors: bad, checkpoints, ..Self::default() }
    }

    /// Starts a verification at a later segment. That segment must begin with record `first_seq`,
    /// whose predecessor has the hash `prev`. A daemon uses this at its start to verify only the
    /// last segment; checkpoints before `first_seq` are not checked.
    pub fn resume(anchors: Anchors, previous_segment: u32, first_seq: Seq, prev: Option<Digest>) -> Self {
        let mut verifier = Self::new(anchors);
        verifier.segment = Some(previous_segment);
        verifier.lines = 1;
        if let (Some(seq), Some(hash)) = (first_seq.checked_sub(1), prev) {
            verifier.chain = Chain::after(seq, hash);
        }
        verifier.next_anchor = verifier.anchors.partition_point(|anchor| anchor.seq < first_seq);
        verifier
    }

    /// Starts a segment; the next bytes belong to it.
    pub fn begin_segment(&mut self, number: u32) {
        self.end_segment();
        match self.segment {
            Some(before) if number != before.wrapping_add(1) => {
                let fault = Fault::new(
                    Verdict::Missing,
                    self.chain.next_seq(),
                    format!("segment {}", u64::from(before) + 1),
                    format!("segment {number}"),
                );
                self.faults.push(fault);
                self.lost = true;
            }
            Some(before) if self.lines == 0 && !self.lost => {
                let fault = Fault::new(
                    Verdict::Broken,
                    self.chain.next_seq(),
                    "records",
                    format!("no records in segment {before}"),
                );
                self.faults.push(fault);
                self.lost = true;
            }
            Some(_) | None => {}
        }
        self.segment = Some(number);
        self.segments += 1;
        self.lines = 0;
        self.good_len = 0;
    }

    /// Ends a segment that is not the last one. Invalid bytes at its end are a fault: only the last
    /// segment may end in a torn line.
    fn end_segment(&mut self) {
        self.close_line();
        if let Some(bad) = self.bad.take() {
            self.faults.push(bad.fault);
            self.lost = true;
        }
        self.refuse_restart();
    }

    /// Reports bytes at the end of a segment that have no newline.
    fn close_line(&mut self) {
        if self.carry.is_empty() {
            return;
        }
        let carry = std::mem::take(&mut self.carry);
        let expected = "a line with its newline";
        self.note_bad(
            Fault::new(
                Verdict::Broken,
                self.chain.next_seq(),
                expected,
                format!("{} bytes without a newline", carry.len()),
            ),
            &carry,
        );
    }

    /// Reports a segment that does not continue the chain and was not accepted.
    fn refuse_restart(&mut self) {
        if let Some(Restart { fault }) = self.restart.take() {
            self.faults.extend(fault);
            self.lost = true;
        }
    }

    /// Verifies the next bytes of the segment and calls `seen` for each valid line.
    pub fn feed(&mut self, mut bytes: &[u8], seen: &mut dyn FnMut(&Seen<'_>)) {
        while !bytes.is_empty() {
            if self.bad.is_some() || (self.lost && self.lines > 0 && self.restart.is_none()) {
                self.skip(bytes);
                return;
            }
            let Some(end) = memchr(b'\n', bytes) else {
                self.carry.extend_from_slice(bytes);
                if self.carry.len() > MAX_LINE {
                    self.close_line();
                }
                return;
            };
            let (piece, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if self.carry.is_empty() {
                self.line(piece, seen);
            } else {
                let mut whole = std::mem::take(&mut self.carry);
                whole.extend_from_slice(piece);
                self.line(&whole, seen);
                whole.clear();
                // Keep the buffer for the next line.
                self.carry = whole;
            }
        }
    }

    fn skip(&mut self, bytes: &[u8]) {
        if let Some(bad) = &mut self.bad {
            bad.newline |= memchr(b'\n', bytes).is_some();
            bad.nul |= memchr(0, bytes).is_some();
            bad.bytes += bytes.len() as u64;
        }
    }

    fn note_bad(&mut self, fault: Fault, bytes: &[u8]) {
        self.bad = Some(Bad { fault, newline: false, nul: false, bytes: 0 });
        self.skip(bytes);
    }

    fn line(&mut self, line: &[u8], seen: &mut dyn FnMut(&Seen<'_>)) {
        let segment = self.segment.unwrap_or(1);
        let (links, hash) = match line::read(line) {
            Ok(read) => read,
            Err(why) => {
                let fault = self.line_fault(&why, line.len());
                self.note_bad(fault, line);
                self.skip(b"\n");
                return;
            }
        };
        let prev = links.prev.map(|text| Digest::from_text(text.as_bytes()));
        let unlinked = self.check_links(&links, prev, segment);
        if self.lines == 0 {
            if self.lost || unlinked.is_some() {
                self.restart = Some(Restart { fault: unlinked.filter(|_| !self.lost) });
                self.skip_anchors_before(links.seq);
            }
        } else if let Some(fault) = unlinked {
            self.note_bad(fault, line);
            self.skip(b"\n");
            return;
        }
        if self.lines == 1 {
            let accepts = links.event == Some(EventName::AuditAccepted.as_str()) && links.phase == "event";
            if accepts {
                self.accept(links.seq);
            } else if self.restart.is_some() {
                self.refuse_restart();
                return;
            }
        }
        self.lines += 1;
        self.records += 1;
        self.good_len += line.len() as u64 + 1;
        self.chain = Chain::after(links.seq, hash);
        if links.event == Some(EventName::AuditRotated.as_str()) {
            self.note_removed(line);
        }
        self.check_anchors(links.seq, hash);
        if self.restart.is_none() {
            seen(&Seen { segment, links, line });
        }
    }

    fn line_fault(&self, why: &LineError, len: usize) -> Fault {
        let (expected, found) = match why {
            LineError::Shape => {
                ("a line that ends in its hash".to_owned(), format!("{len} bytes that do not end in a hash"))
            }
            LineError::Hash { expected, found } => (expected.to_string(), found.to_string()),
            LineError::Json(why) => ("a record in JSON".to_owned(), why.clone()),
        };
        Fault::new(Verdict::Broken, self.chain.next_seq(), expected, found)
    }

    /// Returns a fault if the line does not continue the chain.
    fn check_links(&mut self, links: &Links<'_>, prev: Option<Option<Digest>>, segment: u32) -> Option<Fault> {
        let next = self.chain.next_seq();
        let broken = |expected: String, found: String| Some(Fault::new(Verdict::Broken, next, expected, found));
        if links.v != 1 {
            return broken("version 1".to_owned(), format!("version {}", links.v));
        }
        let heads = links.phase == "segment";
        if heads != (self.lines == 0) || (heads && links.segment != Some(segment)) {
            let expected =
                if self.lines == 0 { format!("the first line of segment {segment}") } else { "a record".to_owned() };
            return broken(expected, format!("{} {:?}", links.phase, links.segment));
        }
        if heads {
            let log_id = links.log_id.and_then(|text| Uuid::parse_str(text).ok());
            match (self.log_id, log_id) {
                (None, Some(_)) => self.log_id = log_id,
                (Some(known), Some(given)) if known == given => {}
                (known, _) => {
                    let known = known.map_or_else(|| "a log id".to_owned(), |it| format!("log {it}"));
                    return broken(
                        known,
                        links.log_id.map_or_else(|| "no log id".to_owned(), |it| format!("log {it}")),
                    );
                }
            }
            // If retention has removed earlier segments, a checkpoint must cover the last removed
            // record.
            if self.records == 0 && self.segments == 1 && segment > 1 && self.chain == Chain::start() {
                let anchored = links.seq.checked_sub(1).zip(prev.flatten());
                if let Some((seq, hash)) = anchored
                    && self.anchors.iter().any(|anchor| anchor.signed && (anchor.seq, anchor.hash) == (seq, hash))
                {
                    self.begins_at = Some((segment, links.seq));
                    self.next_anchor = self.anchors.partition_point(|anchor| anchor.seq < links.seq);
                    return None;
                }
                let found = format!("segment {segment} as the first one, without a checkpoint at its start");
                return Some(Fault::new(Verdict::Missing, next, "segment 1", found));
            }
        }
        if links.seq != next {
            return broken(format!("seq {next}"), format!("seq {}", links.seq));
        }
        let wanted = self.chain.last().map(|(_, hash)| hash);
        if prev != wanted.map(Some) {
            let name = |hash: Option<Digest>| hash.map_or_else(|| "null".to_owned(), |hash| hash.to_string());
            return broken(format!("prev {}", name(wanted)), format!("prev {}", name(prev.flatten())));
        }
        None
    }

    /// Skips the checkpoints before `seq`. If there are any, adds a fault, because their records
    /// are missing.
    fn skip_anchors_before(&mut self, seq: Seq) {
        let from = self.next_anchor;
        while self.anchors.get(self.next_anchor).is_some_and(|anchor| anchor.seq < seq) {
            self.next_anchor += 1;
        }
        if let Some(anchor) = self
            .next_anchor
            .checked_sub(1)
            .filter(|_| self.next_anchor > from && !self.lost)
            .and_then(|at| self.anchors.get(at))
        {
            let found = format!("a log that ends before seq {}", self.chain.next_seq());
            self.faults.push(Fault::new(
                Verdict::Truncated,
                self.chain.next_seq(),
                format!("records through seq {}", anchor.seq),
                found,
            ));
        }
    }

    fn accept(&mut self, seq: Seq) {
        let mut faults = std::mem::take(&mut self.faults);
        // If there are earlier faults, they already explain the gap.
        let gap = self.restart.take().and_then(|restart| restart.fault).filter(|_| faults.is_empty());
        faults.extend(gap);
        self.lost = false;
        if let Some((segment, first)) = self.begins_at
            && self.removed_through < segment.saturating_sub(1)
        {
            self.removed_through = segment.saturating_sub(1);
            faults.push(Fault::new(Verdict::Missing, first, format!("segments before {segment}"), "none"));
        }
        // Record the acceptance even if the records have no fault: the key may have been lost, so
        // that another key signed the earlier checkpoints.
        self.accepted.push(Accepted { seq, faults });
    }

    fn note_removed(&mut self, line: &[u8]) {
        let through = serde_json::from_slice::<serde_json::Value>(line)
            .ok()
            .and_then(|record| record.pointer("/detail/removed_through")?.as_u64())
            .and_then(|number| u32::try_from(number).ok());
        self.removed_through = self.removed_through.max(through.unwrap_or(0));
    }

    fn check_anchors(&mut self, seq: Seq, hash: Digest) {
        while let Some(anchor) = self.anchors.get(self.next_anchor).copied().filter(|anchor| anchor.seq <= seq) {
            self.next_anchor += 1;
            if anchor.seq < seq {
                continue;
            }
            if anchor.hash != hash || self.log_id.is_some_and(|id| id != anchor.log_id) {
                let who = if anchor.signed { "a checkpoint" } else { "the running daemon" };
                let expected = format!("{} of log {}, according to {who}", anchor.hash, anchor.log_id);
                self.faults.push(Fault::new(Verdict::Forked, seq, expected, hash.to_string()));
            } else if anchor.signed {
                self.confirmed = Some((seq, anchor.line));
            }
        }
    }

    /// Ends the verification.
    pub fn finish(mut self) -> Report {
        self.close_line();
        let next = self.chain.next_seq();
        let last = self.chain.last().filter(|_| self.records > 0);
        let tail_bytes = self.bad.as_ref().map_or(0, |bad| bad.bytes);
        self.classify_tail(next);
        self.refuse_restart();

        let latest = self.anchors.last().copied();
        if let Some(anchor) = latest.filter(|anchor| !self.lost && anchor.seq >= next) {
            let who = if anchor.signed { "a checkpoint" } else { "the running daemon" };
            if self.segments == 0 {
                self.faults.push(Fault::new(
                    Verdict::Missing,
                    0,
                    format!("a log through seq {}, according to {who}", anchor.seq),
                    "no segment",
                ));
            } else {
                let expected = format!("records through seq {}, according to {who}", anchor.seq);
                self.faults.push(Fault::new(
                    Verdict::Truncated,
                    next,
                    expected,
                    format!("a log that ends before seq {next}"),
                ));
            }
        }
        if let Some((segment, seq)) = self.begins_at
            && self.removed_through < segment.saturating_sub(1)
        {
            let expected = format!("segments before {segment}, or a record of their removal");
            self.faults.push(Fault::new(Verdict::Missing, seq, expected, "neither"));
        }

        let anchored_through = self.confirmed.map(|(seq, _)| seq);
        let first = self.begins_at.map_or(0, |(_, seq)| seq);
        let unanchored = last.map_or(0, |(seq, _)| match anchored_through {
            Some(anchor) => seq.saturating_sub(anchor),
            None => (seq + 1).saturating_sub(first),
        });
        // Use the record number of the last signed checkpoint, even if the log differs from that
        // checkpoint. The difference is reported separately as a fork.
        let said = self.anchors.iter().rev().find(|anchor| anchor.signed).map(|anchor| anchor.seq);
        let lag = last.map_or(0, |(seq, _)| said.map_or(unanchored, |anchor| seq.saturating_sub(anchor)));
        let most = if said.is_some() { MAX_LAG } else { MAX_UNSIGNED };
        // Invalid checkpoints are reported separately.
        let unsigned = said.is_none() && !self.bad_anchors.is_empty();
        if lag > most && !self.lost && !unsigned {
            let (at, expected, found) = match said {
                Some(seq) => {
                    let expected = format!("a checkpoint in the last {MAX_LAG} records");
                    (seq + 1, expected, format!("the last checkpoint at seq {seq}"))
                }
                None => (first, "a checkpoint of this log".to_owned(), "none".to_owned()),
            };
            self.faults.push(Fault::new(Verdict::Missing, at, expected, found));
        }

        // An acceptance is valid only if a checkpoint covers it, because anyone could append such a
        // record.
        let (accepted, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.accepted)
            .into_iter()
            .partition(|accepted| anchored_through.is_some_and(|seq| seq >= accepted.seq));
        let covered = self.confirmed.filter(|_| !accepted.is_empty()).map_or(0, |(_, line)| line);
        let mut faults: Vec<Fault> = open.into_iter().flat_map(|accepted| accepted.faults).chain(self.faults).collect();
        faults.extend(self.bad_anchors.into_iter().filter(|(line, _)| *line >= covered).map(|(_, fault)| fault));
        faults.sort_by_key(|fault| (fault.verdict, fault.seq));

        Report {
            verdict: faults.first().map_or(Verdict::Intact, |fault| fault.verdict),
            faults,
            accepted,
            records: self.records,
            segments: self.segments,
            begins_at: self.begins_at,
            last,
            log_id: self.log_id,
            anchored_through,
            unanchored,
            checkpoints: self.checkpoints,
            last_segment: self.segment.filter(|_| self.segments > 0).map(|number| (number, self.good_len)),
            tail_bytes,
        }
    }

    /// Decides what the bytes after the last valid line are: an interrupted write, a truncated log,
    /// or an edit.
    fn classify_tail(&mut self, next: Seq) {
        let anchored = self.anchors.last().is_some_and(|anchor| anchor.seq >= next);
        let empty = self.segments > 0 && self.lines == 0 && self.bad.is_none() && !self.lost;
        let bad = if empty {
            let fault = Fault::new(Verdict::Torn, next, "records", "an empty segment");
            Some(Bad { fault, newline: false, nul: false, bytes: 0 })
        } else {
            self.bad.take()
        };
        let Some(Bad { mut fault, newline, nul, .. }) = bad else {
            return;
        };
        fault.verdict = match (anchored, newline, nul) {
            (false, false, _) | (false, _, true) => Verdict::Torn,
            (true, false, false) => Verdict::Truncated,
            (true, true, _) | (true, _, true) | (false, true, false) => Verdict::Broken,
        };
        self.lost = fault.verdict == Verdict::Broken || self.lost;
        // `finish` reports a truncated log, together with the checkpoint.
        if fault.verdict != Verdict::Truncated {
            self.faults.push(fault);
        }
    }
}

/// The number of lines in `bytes`, for progress reports and tests.
pub fn count_lines(bytes: &[u8]) -> usize {
    memchr_iter(b'\n', bytes).count()
}

#[cfg(test)]
mod tests;
