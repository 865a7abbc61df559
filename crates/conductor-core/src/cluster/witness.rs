//! The witness of an audit log: copies of its records and checkpoints on a server that the rig can
//! add to, but not change. Decides what is published, and compares a log with its witness.
//!
//! An attacker who controls a rig can replace its log, its checkpoints and its keys, but cannot
//! remove the messages that the rig published before. The hash of each record covers all earlier
//! records, so one equal hash proves that everything before it is equal too.

use serde::Deserialize;
use std::collections::BTreeMap;
use uuid::Uuid;

use crate::audit::checkpoint::Checkpoint;
use crate::audit::line::{self, Head, Seq};
use crate::audit::verify::{Fault, Verdict};
use crate::digest::Digest;

/// Whether a record of the log is published: every record except the outcome of a read or of a call
/// to an unknown tool.
pub fn is_published(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        phase: &'a str,
        #[serde(default)]
        tier: Option<&'a str>,
    }
    match serde_json::from_slice::<Kind<'_>>(line) {
        Ok(Kind { phase: "outcome", tier }) => tier.is_some_and(|it| it != "ReadOnly"),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// The id of the message of a record. The server stores each id once.
pub fn record_id(seq: Seq, hash: Digest) -> String {
    format!("{seq}/{hash}")
}

/// The id of the message of a checkpoint.
pub fn checkpoint_id(line: &[u8]) -> String {
    format!("checkpoint/{}", Digest::of(line))
}

/// The last record in the witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRecord {
    /// Number of the record.
    pub seq: Seq,
    /// Hash of the record.
    pub hash: Digest,
}

impl LastRecord {
    /// Reads a published record.
    pub fn read(line: &[u8]) -> Option<Self> {
        line::read(line).ok().map(|(links, hash)| Self { seq: links.seq, hash })
    }
}

/// The content of a witness, read from its first message to its last.
#[derive(Debug, Clone, Default)]
pub struct Witness {
    /// Number and hash of each record, with the source of the hash.
    claims: BTreeMap<Seq, (Digest, &'static str)>,
    records: u64,
    checkpoints: u64,
    duplicates: u64,
    last: Option<Seq>,
    log_id: Option<Uuid>,
    faults: Vec<Fault>,
}

impl Witness {
    /// Adds the next record.
    pub fn record(&mut self, line: &[u8]) {
        let Ok((links, hash)) = line::read(line) else {
            let expected = "a record with a valid hash in the witness";
            self.faults.push(Fault::new(Verdict::Broken, self.last.map_or(0, |it| it + 1), expected, "other bytes"));
            return;
        };
        self.records += 1;
        if let Some(log_id) = links.log_id.and_then(|it| Uuid::parse_str(it).ok()) {
            self.log(log_id, links.seq);
        }
        if self.last.is_some_and(|last| links.seq <= last) {
            self.duplicates += 1;
        }
        self.last = self.last.max(Some(links.seq));
        self.claim(links.seq, hash, "the witness");
        // The record also contains the hash of the previous record, which may be an unpublished
        // read.
        let prev = links.prev.and_then(|it| Digest::from_text(it.as_bytes()));
        if let Some((seq, prev)) = links.seq.checked_sub(1).zip(prev) {
            self.claim(seq, prev, "the next record in the witness");
        }
    }

    /// Adds the next checkpoint. Its signature is not checked, because the rig's key may have been
    /// replaced. For each record, the hash that the server received first is the correct one.
    pub fn checkpoint(&mut self, line: &[u8]) {
        let Some(Checkpoint { log_id, seq, hash, .. }) = Checkpoint::unverified(line.trim_ascii_end()) else {
            let expected = "a checkpoint in the witness";
            self.faults.push(Fault::new(Verdict::Broken, self.last.unwrap_or(0), expected, "other bytes"));
            return;
        };
        self.checkpoints += 1;
        self.log(log_id, seq);
        self.claim(seq, hash, "a checkpoint in the witness");
    }

    fn log(&mut self, log_id: Uuid, seq: Seq) {
        match self.log_id {
            Some(known) if known != log_id => {
                let (expected, found) = (format!("log {known} in the witness"), format!("log {log_id}"));
                self.faults.push(Fault::new(Verdict::Forked, seq, expected, found));
            }
            Some(_) => {}
            None => self.log_id = Some(log_id),
        }
    }

    fn claim(&mut self, seq: Seq, hash: Digest, source: &'static str) {
        match self.claims.get(&seq) {
            Some((known, _)) if *known != hash => {
                let expected = format!("{known}, which was published first");
                self.faults.push(Fault::new(Verdict::Forked, seq, expected, format!("{hash} in {source}")));
            }
            Some(_) => {}
            None => drop(self.claims.insert(seq, (hash, source))),
        }
    }

    /// Ends reading the witness, and starts the comparison with the log.
    pub fn compare(self) -> Comparison {
        Comparison { witness: self, equal: 0, unpublished: 0, gap: None, first: None, is_forked: false }
    }
}

/// A comparison of a log with its witness.
#[derive(Debug)]
pub struct Comparison {
    witness: Witness,
    equal: u64,
    unpublished: u64,
    gap: Option<Seq>,
    first: Option<Seq>,
    is_forked: bool,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The differences. Empty if the log and the witness agree.
    pub faults: Vec<Fault>,
    /// Number of records in the witness.
    pub records: u64,
    /// Number of checkpoints in the witness.
    pub checkpoints: u64,
    /// Number of records that were published twice or out of order.
    pub duplicates: u64,
    /// Number of records with the same hash in the log and in the witness.
    pub equal: u64,
    /// Number of records after the last record in the witness, without those that are never
    /// published.
    pub unpublished: u64,
    /// The last record in the witness.
    pub last: Option<Seq>,
}

impl Comparison {
    /// Compares the next valid line of the log.
    pub fn line(&mut self, seq: Seq, hash: Digest, line: &[u8]) {
        self.first.get_or_insert(seq);
        match self.witness.claims.remove(&seq) {
            Some((known, _)) if known == hash => self.equal += 1,
            Some((known, source)) => {
                // After the first different hash, all later hashes differ too. Report only the
                // first one.
                if !self.is_forked {
                    let expected = format!("{known}, according to {source}");
                    self.witness.faults.push(Fault::new(Verdict::Forked, seq, expected, hash.to_string()));
                }
                self.is_forked = true;
            }
            None if !is_published(line) => {}
            None if self.witness.last.is_some_and(|last| seq < last) => {
                self.gap.get_or_insert(seq);
            }
            None => self.unpublished += 1,
        }
    }

    /// Ends the comparison. `end` is the end of the log.
    pub fn finish(self, end: Option<Head>) -> Compared {
        let Self { witness, equal, unpublished, gap, first, is_forked } = self;
        let Witness { claims, records, checkpoints, duplicates, last, log_id, mut faults } = witness;
        let newest = claims.last_key_value().map(|(seq, _)| *seq);
        match (end, newest) {
            (None, Some(newest)) => {
                let expected = format!("a log through seq {newest}, according to the witness");
                faults.push(Fault::new(Verdict::Missing, 0, expected, "no log"));
            }
            (Some(end), Some(newest)) if newest > end.seq => {
                let expected = format!("records through seq {newest}, according to the witness");
                let found = format!("a log that ends at seq {}", end.seq);
                faults.push(Fault::new(Verdict::Truncated, end.seq + 1, expected, found));
            }
            (_, _) => {}
        }
        if let (Some(end), Some(log_id)) = (end, log_id.filter(|_| !is_forked))
            && end.log_id != log_id
        {
            let (expected, found) = (format!("log {log_id}, according to the witness"), format!("log {}", end.log_id));
            faults.push(Fault::new(Verdict::Forked, first.unwrap_or(0), expected, found));
        }
        if let Some(seq) = gap.filter(|_| !is_forked) {
            faults.push(Fault::new(Verdict::Missing, seq, "this record in the witness", "a gap"));
        }
        faults.sort_by_key(|it| (it.verdict, it.seq));
        Compared { faults, records, checkpoints, duplicates, equal, unpublished, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::line::Chain;
    use crate::audit::record::tests::{call, stamp};
    use crate::audit::record::{CallFacts, Entry, EventName, OutcomeFacts};
    use crate::error::AuditResult;
    use crate::policy::Tier;
    use crate::timestamp::Timestamp;
    use ed25519_dalek::SigningKey;
    use proptest::prelude::*;
    use serde_json::json;

    /// The id of a log, and the lines of its `count` records. `salt` changes the events up to
    /// record `salt`.
    fn log(id: u128, count: u64, salt: u64) -> (Uuid, Vec<Vec<u8>>) {
        let log_id = Uuid::from_u128(id);
        let mut chain = Chain::start();
        let mut lines = Vec::new();
        for n in 0..count {
            let mut out = Vec::new();
            let entry = match n % 4 {
                0 if n == 0 => Entry::Segment { log_id, segment: 1, prev_segment: None },
                0 | 1 => Entry::Intent(call("shell.exec")),
                2 => {
                    let facts = CallFacts { tier: Some(Tier::ReadOnly), ..call("conductor_get_status") };
                    let outcome = OutcomeFacts {
                        result: AuditResult::Ok,
                        code: None,
                        effect: None,
                        attempts: 1,
                        duration_ms: 1,
                        output_bytes: 1,
                    };
                    Entry::Outcome(facts, outcome)
                }
                3 => {
                    let detail = json!({ "n": n, "salt": if n > salt { 0 } else { salt } });
                    Entry::Event { principal: None, conn: None, event: EventName::DaemonStart, detail }
                }
                4.. => unreachable!(),
            };
            chain.append(&stamp(n), &entry, &mut out);
            lines.push(out.trim_ascii_end().to_vec());
            assert_eq!(entry.is_published(), is_published(lines.last().unwrap()), "{entry:?}");
        }
        (log_id, lines)
    }

    fn witness(lines: &[Vec<u8>]) -> Witness {
        let mut witness = Witness::default();
        lines.iter().filter(|it| is_published(it)).for_each(|it| witness.record(it));
        witness
    }

    fn compare(witness: Witness, log_id: Uuid, lines: &[Vec<u8>]) -> Compared {
        let mut comparison = witness.compare();
        let mut end = None;
        for line in lines {
            let (links, hash) = line::read(line).unwrap();
            comparison.line(links.seq, hash, line);
            end = Some(Head { log_id, seq: links.seq, hash });
        }
        comparison.finish(end)
    }

    fn verdict(compared: &Compared) -> Option<Verdict> {
        compared.faults.first().map(|it| it.verdict)
    }

    #[test]
    fn reads_are_not_published_and_everything_else_is() {
        let (_, lines) = log(1, 8, 0);
        let published: Vec<bool> = lines.iter().map(|it| is_published(it)).collect();
        assert_eq!(published, [true, true, false, true, true, true, false, true]);
    }

    #[test]
    fn deletion_truncation_rollback_and_fork_are_found() {
        let (id, lines) = log(1, 40, 0);
        let fine = compare(witness(&lines), id, &lines);
        assert_eq!((verdict(&fine), fine.duplicates, fine.unpublished), (None, 0, 0));
        // The log is ahead of the witness.
        let ahead = compare(witness(&lines[..30]), id, &lines);
        assert_eq!((verdict(&ahead), ahead.unpublished), (None, 7));
        // The log was deleted, truncated or replaced.
        assert_eq!(verdict(&compare(witness(&lines), id, &[])), Some(Verdict::Missing));
        assert_eq!(verdict(&compare(witness(&lines), id, &lines[..20])), Some(Verdict::Truncated));
        let (other, forked) = log(2, 40, 0);
        assert_eq!(verdict(&compare(witness(&lines), other, &forked)), Some(Verdict::Forked));
        // The log was rolled back and then continued.
        let (_, continued) = log(1, 40, 19);
        assert_eq!(verdict(&compare(witness(&lines), id, &continued)), Some(Verdict::Forked));
        // The witness has a gap, or a duplicate.
        let mut gap = Witness::default();
        lines
            .iter()
            .filter(|it| is_published(it))
            .enumerate()
            .filter(|(n, _)| *n != 9 && *n != 10)
            .for_each(|(_, it)| gap.record(it));
        assert_eq!(verdict(&compare(gap, id, &lines)), Some(Verdict::Missing));
        let mut twice = witness(&lines);
        twice.record(&lines[39]);
        assert_eq!(compare(twice, id, &lines).duplicates, 1);
    }

    #[test]
    fn a_checkpoint_alone_reveals_a_replaced_log() {
        let (id, lines) = log(1, 12, 0);
        let (links, hash) = line::read(&lines[10]).unwrap();
        let head = Head { log_id: id, seq: links.seq, hash };
        let signed = Checkpoint::at(head, Timestamp::from_millis(1)).sign(&SigningKey::from_bytes(&[1; 32]));
        let told = || {
            let mut witness = Witness::default();
            witness.checkpoint(signed.as_bytes());
            witness
        };
        assert_eq!(verdict(&compare(told(), id, &lines)), None);
        let (other, forked) = log(2, 12, 0);
        assert_eq!(verdict(&compare(told(), other, &forked)), Some(Verdict::Forked));
        assert_eq!(verdict(&compare(told(), id, &lines[..5])), Some(Verdict::Truncated));
    }

    proptest! {
        #[test]
        fn a_log_agrees_with_every_prefix_of_its_witness_and_a_shorter_log_never_does(
            count in 2_u64..60, seen in 1_usize..60, kept in 0_usize..60,
        ) {
            let (id, lines) = log(1, count, 0);
            let seen = seen.min(lines.len());
            let last = lines[..seen].iter().rposition(|it| is_published(it)).unwrap();
            prop_assert_eq!(verdict(&compare(witness(&lines[..seen]), id, &lines)), None);
            let kept = kept.min(lines.len());
            let shorter = compare(witness(&lines[..seen]), id, &lines[..kept]);
            prop_assert_eq!(verdict(&shorter).is_none(), kept > last);
        }

        #[test]
        fn no_bytes_panic(records: Vec<Vec<u8>>, checkpoints: Vec<Vec<u8>>) {
            let mut witness = Witness::default();
            records.iter().for_each(|it| witness.record(it));
            checkpoints.iter().for_each(|it| witness.checkpoint(it));
            let faults = witness.compare().finish(None).faults.len();
            prop_assert_eq!(faults, records.len() + checkpoints.len());
        }
    }
}
