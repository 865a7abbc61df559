//! The verifier: segments and checkpoints in, one verdict out.
//!
//! It is fed bytes in pieces of any size and holds one line at most, so a log of any length is
//! verified in flat memory. It hashes the given bytes and never encodes a record again. Not here:
//! opening files and comparing two copies of a log.
//!
//! What it can promise: an edit by anyone without the signing key is found up to the last
//! checkpoint. A log that was put back to an earlier state together with its checkpoints is found
//! only by a checkpoint remembered elsewhere ([`super::memory`]). An attacker with key and files
//! can rewrite all records that have no second copy.

use std::fmt;

use ed25519_dalek::VerifyingKey;
use memchr::{memchr, memchr_iter};
use uuid::Uuid;

use super::checkpoint::{BadCheckpoint, Checkpoint};
use super::line::{self, Chain, Head, LineError, Links, MAX_LINE, Seq};
use super::record::EventName;
use crate::digest::Digest;
use crate::named_enum::named_enum;

/// A correct writer never has more unanchored records than this: it waits for a checkpoint.
pub const MAX_LAG: u64 = 512;

/// A log that was never signed has its first line at most: the writer signs that one before it
/// takes another record.
pub const MAX_UNSIGNED: u64 = 1;

named_enum! {
    /// The state of a log. In the order in which one is chosen when several apply.
    #[derive(PartialOrd, Ord)]
    pub enum Verdict {
        /// Segments or checkpoints are missing.
        Missing = "MISSING",
        /// A record was changed.
        Broken = "BROKEN",
        /// Two records claim the same place.
        Forked = "FORKED",
        /// The end is missing.
        Truncated = "TRUNCATED",
        /// The last line is incomplete.
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
    /// The verdict that this fault alone gives.
    pub verdict: Verdict,
    /// The first record it is about.
    pub seq: Seq,
    /// What a correct log has there.
    pub expected: String,
    /// What this log has there.
    pub found: String,
}

impl Fault {
    /// A fault at `seq`.
    pub fn new(verdict: Verdict, seq: Seq, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { verdict, seq, expected: expected.into(), found: found.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at seq {}: expected {}, found {}", self.verdict, self.seq, self.expected, self.found)
    }
}

/// Faults that a person has accepted; the signed checkpoints cover the record that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Of the `audit.accepted` event.
    pub seq: Seq,
    /// The accepted faults.
    pub faults: Vec<Fault>,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The state of the log.
    pub verdict: Verdict,
    /// Sorted: the fault that gave the verdict is first.
    pub faults: Vec<Fault>,
    /// Faults that a person has accepted.
    pub accepted: Vec<Accepted>,
    /// Records that hold.
    pub records: u64,
    /// Segments that were read.
    pub segments: u32,
    /// Where the log begins, when retention has removed segments before.
    pub begins_at: Option<(u32, Seq)>,
    /// The last record whose chain holds.
    pub last: Option<(Seq, Digest)>,
    /// Id of the log.
    pub log_id: Option<Uuid>,
    /// The last record that a valid checkpoint covers.
    pub anchored_through: Option<Seq>,
    /// Records after that; they rely on local storage only.
    pub unanchored: u64,
    /// Valid checkpoints.
    pub checkpoints: u64,
    /// The last segment: its number, the length of its good lines, and how many bytes follow them.
    pub last_segment: Option<(u32, u64)>,
    /// Bytes after the good lines of the last segment.
    pub tail_bytes: u64,
}

impl Report {
    /// Where the chain that holds ends.
    pub fn end(&self) -> Option<Head> {
        let (seq, hash) = self.last?;
        Some(Head { log_id: self.log_id?, seq, hash })
    }

    /// Adds a fault that the walk itself could not see.
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
        self.faults.sort_by_key(|fault| (fault.verdict, fault.seq));
        self.verdict = self.faults.first().map_or(Verdict::Intact, |fault| fault.verdict);
    }
}

/// The checkpoints and the head that a log is compared with.
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
    /// Line of the checkpoint file; the head of a running daemon comes after all of them.
    line: usize,
    signed: bool,
}

impl Anchors {
    /// Reads `checkpoints.jsonl`. A last line without its newline is a write that a crash cut short
    /// and says nothing.
    pub fn read(bytes: &[u8], key: &VerifyingKey) -> Self {
        Self::read_from(bytes, key, 0)
    }

    /// Reads the checkpoints that speak of `first` or a later record, or else the last one before
    /// it; a start looks at the last segment only, and a signature costs more than a hundred
    /// hashes.
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
                let found = format!("line {} of the checkpoints, which {why}", index + 1);
                self.bad.push((index, Fault::new(Verdict::Forked, seq, "a checkpoint of this log's key", found)));
            }
        }
    }

    /// The valid checkpoint that reaches furthest.
    pub const fn latest(&self) -> Option<Checkpoint> {
        self.latest
    }

    /// Whether there is nothing to compare with.
    pub fn is_empty(&self) -> bool {
        self.good.is_empty() && self.bad.is_empty()
    }

    /// Adds the end of the log as reported by the running daemon. Ask the daemon before reading the
    /// files.
    pub fn with_head(mut self, head: Option<Head>) -> Self {
        if let Some(Head { log_id, seq, hash }) = head {
            self.good.push(Anchor { seq, hash, log_id, line: usize::MAX, signed: false });
        }
        self
    }
}

/// A line that holds, as it is walked over.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Number of the segment.
    pub segment: u32,
    /// Its links.
    pub links: Links<'a>,
    /// Without its newline.
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
    /// Absent when the fault that lost the chain is already listed.
    fault: Option<Fault>,
}

/// The state of a verification.
#[derive(Debug, Default)]
pub struct Verifier {
    anchors: Vec<Anchor>,
    bad_anchors: Vec<(usize, Fault)>,
    checkpoints: u64,
    next_anchor: usize,
    /// Highest signed anchor that the walk confirmed, and its line in the checkpoint file.
    confirmed: Option<(Seq, usize)>,

    segment: Option<u32>,
    segments: u32,
    /// Good lines in this segment so far.
    lines: u64,
    chain: Chain,
    log_id: Option<Uuid>,
    records: u64,
    carry: Vec<u8>,
    good_len: u64,

    begins_at: Option<(u32, Seq)>,
    removed_through: u32,
    faults: Vec<Fault>,
    /// The chain cannot be followed any further in this segment.
    lost: bool,
    bad: Option<Bad>,
    /// Set by the first line of a segment when it does not follow, or when the chain was lost
    /// before it. Forgiven if the second line is an acceptance.
    restart: Option<Restart>,
    accepted: Vec<Accepted>,
}

impl Verifier {
    /// Starts with the first segment.
    pub fn new(anchors: Anchors) -> Self {
        let Anchors { mut good, bad, checkpoints, .. } = anchors;
        good.sort_by_key(|anchor| anchor.seq);
        Self { anchors: good, bad_anchors: bad, checkpoints, ..Self::default() }
    }

    /// Starts the walk in the middle: the segment given next is trusted to follow `chain`. For the
    /// start of a daemon, which verifies the last segment only; older anchors are then out of
    /// sight.
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

    /// Announces the segment whose bytes follow.
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
                let fault =
                    Fault::new(Verdict::Broken, self.chain.next_seq(), "records", format!("none in segment {before}"));
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

    /// Bytes that ran into the end of a segment are a torn tail only in the last one.
    fn end_segment(&mut self) {
        self.close_line();
        if let Some(bad) = self.bad.take() {
            self.faults.push(bad.fault);
            self.lost = true;
        }
        self.refuse_restart();
    }

    /// The rest of a segment that has no newline.
    fn close_line(&mut self) {
        if self.carry.is_empty() {
            return;
        }
        let carry = std::mem::take(&mut self.carry);
        let expected = "a line with its newline";
        self.note_bad(
            Fault::new(Verdict::Broken, self.chain.next_seq(), expected, format!("{} bytes without one", carry.len())),
            &carry,
        );
    }

    /// A segment that does not follow and was not accepted.
    fn refuse_restart(&mut self) {
        if let Some(Restart { fault }) = self.restart.take() {
            self.faults.extend(fault);
            self.lost = true;
        }
    }

    /// Takes the next bytes of the segment and shows each good line.
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
            LineError::Shape => ("a line that ends in its hash".to_owned(), format!("{len} bytes that do not")),
            LineError::Hash { expected, found } => (expected.to_string(), found.to_string()),
            LineError::Json(why) => ("a record in JSON".to_owned(), why.clone()),
        };
        Fault::new(Verdict::Broken, self.chain.next_seq(), expected, found)
    }

    /// Whether the line follows the one before.
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
                (_, _) => {
                    return broken(format!("log {:?}", self.log_id), format!("log {:?}", links.log_id));
                }
            }
            // Retention has removed earlier segments: the log begins where a checkpoint ends the
            // removed part.
            if self.records == 0 && self.segments == 1 && segment > 1 && self.chain == Chain::start() {
                let anchored = links.seq.checked_sub(1).zip(prev.flatten());
                if let Some((seq, hash)) = anchored
                    && self.anchors.iter().any(|anchor| anchor.signed && (anchor.seq, anchor.hash) == (seq, hash))
                {
                    self.begins_at = Some((segment, links.seq));
                    self.next_anchor = self.anchors.partition_point(|anchor| anchor.seq < links.seq);
                    return None;
                }
                let found = format!("segment {segment} first, and no checkpoint at its border");
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

    /// A new segment that does not follow passes over anchors: the log ended before them.
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
            let found = format!("an end before seq {}", self.chain.next_seq());
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
        // Earlier faults already explain the gap.
        let gap = self.restart.take().and_then(|restart| restart.fault).filter(|_| faults.is_empty());
        faults.extend(gap);
        self.lost = false;
        if let Some((segment, first)) = self.begins_at
            && self.removed_through < segment.saturating_sub(1)
        {
            self.removed_through = segment.saturating_sub(1);
            faults.push(Fault::new(Verdict::Missing, first, format!("segments before {segment}"), "none"));
        }
        // Also without a fault of the records: the key may have been lost, and the checkpoints
        // before this one are of another.
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
                let expected = format!("{} of log {}, by {who}", anchor.hash, anchor.log_id);
                self.faults.push(Fault::new(Verdict::Forked, seq, expected, hash.to_string()));
            } else if anchor.signed {
                self.confirmed = Some((seq, anchor.line));
            }
        }
    }

    /// Ends the walk.
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
                    format!("a log through seq {}, by {who}", anchor.seq),
                    "no segment",
                ));
            } else {
                let expected = format!("records through seq {}, by {who}", anchor.seq);
                self.faults.push(Fault::new(Verdict::Truncated, next, expected, format!("an end before seq {next}")));
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
        // Compared with the last record of a checkpoint's own words, not of a confirmed one: a fork
        // has its own verdict.
        let said = self.anchors.iter().rev().find(|anchor| anchor.signed).map(|anchor| anchor.seq);
        let lag = last.map_or(0, |(seq, _)| said.map_or(unanchored, |anchor| seq.saturating_sub(anchor)));
        let most = if said.is_some() { MAX_LAG } else { MAX_UNSIGNED };
        // Checkpoints that are worth nothing have a verdict of their own.
        let unsigned = said.is_none() && !self.bad_anchors.is_empty();
        if lag > most && !self.lost && !unsigned {
            let (at, expected, found) = match said {
                Some(seq) => {
                    let expected = format!("a checkpoint in the last {MAX_LAG} records");
                    (seq + 1, expected, format!("the last one at seq {seq}"))
                }
                None => (first, "a checkpoint of this log".to_owned(), "none".to_owned()),
            };
            self.faults.push(Fault::new(Verdict::Missing, at, expected, found));
        }

        // An acceptance counts only under a checkpoint: anyone could append the words.
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

    /// What the bytes after the last good line are: a write that a crash cut short, a cut log, or
    /// an edit.
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
        // A cut is named once, with the checkpoint it falls short of.
        if fault.verdict != Verdict::Truncated {
            self.faults.push(fault);
        }
    }
}

/// How many lines `bytes` has; for progress and for tests.
pub fn count_lines(bytes: &[u8]) -> usize {
    memchr_iter(b'\n', bytes).count()
}

#[cfg(test)]
mod tests;
