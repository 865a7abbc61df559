//! Copies of the last checkpoint that are stored outside the log's folder. They prove that the log
//! once contained all records up to this checkpoint. With a copy, Conductor detects a log that was
//! rolled back together with its checkpoint file.
//!
//! A copy is stored only after the same line is on the disk in the checkpoint file, and no line is
//! ever removed from that file. So the checkpoint file contains the line of every copy, even after
//! a crash, a rotation or the removal of old segments. Not here: reading and writing the copies.

use std::fmt;

use ed25519_dalek::VerifyingKey;
use serde_json::Value;
use uuid::Uuid;

use super::checkpoint::Checkpoint;
use super::line::{Head, Seq};
use super::record::EventName;
use super::verify::{Fault, Seen, Verdict};

/// Whether this record of a daemon start reports that `state/` had a copy of a checkpoint.
/// Conductor never removes that copy, so it must still exist.
pub fn expects_memory(seen: &Seen<'_>) -> bool {
    seen.links.event == Some(EventName::DaemonStart.as_str())
        && serde_json::from_slice::<Value>(seen.line).is_ok_and(|it| it["detail"]["remembered"] == true)
}

/// Returns a fault if `state/` has no copy of the last checkpoint.
pub fn forgotten(remembered: &[Remembered], next: Seq) -> Option<Fault> {
    let known = remembered.iter().any(|it| it.place == Place::State);
    (!known).then(|| Fault::new(Verdict::Missing, next, "the last checkpoint in state/audit.last", "no such file"))
}

/// Where a copy is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The folder `state/` in Conductor's home.
    State,
    /// The folder that `copy_to` in `[audit]` names.
    Copy,
    /// The system's keychain.
    Keychain,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "state/audit.last",
            Self::Copy => "the second copy",
            Self::Keychain => "the OS keychain",
        })
    }
}

/// A copy of one line of `checkpoints.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The place of this copy.
    pub place: Place,
    line: String,
}

impl Remembered {
    /// Creates a copy from its text; `None` if the text is blank.
    pub fn new(place: Place, text: &str) -> Option<Self> {
        let line = text.trim_ascii();
        (!line.is_empty()).then(|| Self { place, line: line.to_owned() })
    }

    /// The checkpoint, if this key signed it.
    pub fn checkpoint(&self, key: &VerifyingKey) -> Option<Checkpoint> {
        Checkpoint::read(self.line.as_bytes(), key).ok()
    }

    /// Whether a checkpoint at `seq` may replace this copy. The checkpoint must belong to the same
    /// log and must not be earlier than this copy.
    pub fn is_before(&self, log_id: Uuid, seq: Seq) -> bool {
        Checkpoint::claim(self.line.as_bytes()).is_some_and(|(log, remembered)| log == log_id && remembered <= seq)
    }

    /// Compares a log that ends at `end` with this copy and returns the fault, if any.
    pub fn fault(&self, checkpoints: &[u8], end: Option<Head>) -> Option<Fault> {
        let whole = checkpoints.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if checkpoints[..whole].split(|byte| *byte == b'\n').any(|line| line == self.line.as_bytes()) {
            return None;
        }
        let place = self.place;
        let Some((log_id, seq)) = Checkpoint::claim(self.line.as_bytes()) else {
            let found = format!("text in {place} that is not a checkpoint");
            return Some(Fault::new(Verdict::Forked, 0, "the last checkpoint of this log", found));
        };
        Some(if let Some(end) = end {
            if end.log_id != log_id {
                let expected = format!("log {log_id} through seq {seq}, according to {place}");
                Fault::new(Verdict::Forked, 0, expected, format!("log {}", end.log_id))
            } else if seq > end.seq {
                let next = end.seq + 1;
                let expected = format!("records through seq {seq}, according to {place}");
                Fault::new(Verdict::Truncated, next, expected, format!("a log that ends before seq {next}"))
            } else {
                let expected = format!("the checkpoint at seq {seq}, according to {place}");
                Fault::new(Verdict::Missing, seq, expected, "no such line in state/checkpoints.jsonl")
            }
        } else {
            Fault::new(Verdict::Missing, 0, format!("a log through seq {seq}, according to {place}"), "no record")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::timestamp::Timestamp;
    use ed25519_dalek::SigningKey;

    const LOG: Uuid = Uuid::from_u128(5);

    fn line(seq: Seq) -> String {
        let head = Head { log_id: LOG, seq, hash: Digest::of(&seq.to_le_bytes()) };
        Checkpoint::at(head, Timestamp::from_millis(0)).sign(&SigningKey::from_bytes(&[1; 32]))
    }

    fn end(seq: Seq, log_id: Uuid) -> Option<Head> {
        Some(Head { log_id, seq, hash: Digest::of(b"") })
    }

    #[test]
    fn a_memory_that_the_checkpoint_file_holds_is_no_fault() {
        let memory = Remembered::new(Place::State, &line(7)).expect("a line");
        let file = [line(3), line(7), line(9)].concat();
        // The checkpoint file contains the line of this copy, so there is no fault, even if
        // retention or a rotation removed the records before the checkpoint.
        assert_eq!(memory.fault(file.as_bytes(), end(40, LOG)), None);
        assert_eq!(Remembered::new(Place::State, " \n"), None);
    }

    #[test]
    fn what_a_memory_finds() {
        let memory = Remembered::new(Place::Keychain, &line(7)).expect("a line");
        let verdict = |file: &str, end| memory.fault(file.as_bytes(), end).map(|it| it.verdict);
        assert_eq!(verdict(&line(3), end(4, LOG)), Some(Verdict::Truncated));
        assert_eq!(verdict("", None), Some(Verdict::Missing));
        assert_eq!(
            verdict(&line(3), end(9, LOG)),
            Some(Verdict::Missing),
            "a shortened checkpoint file was not detected"
        );
        assert_eq!(
            verdict(&line(3), end(9, Uuid::from_u128(6))),
            Some(Verdict::Forked),
            "another log was not detected"
        );
        assert_eq!(
            verdict(line(7).trim_end(), end(9, LOG)),
            Some(Verdict::Missing),
            "a line without its newline was accepted"
        );
        let junk = Remembered::new(Place::Copy, "junk").expect("a line");
        assert_eq!(junk.fault(b"", end(9, LOG)).map(|it| it.verdict), Some(Verdict::Forked));
    }

    #[test]
    fn a_memory_only_moves_forward_on_its_own_log() {
        let memory = Remembered::new(Place::Copy, &line(7)).expect("a line");
        assert!(memory.is_before(LOG, 7) && memory.is_before(LOG, 8));
        assert!(!memory.is_before(LOG, 6) && !memory.is_before(Uuid::from_u128(6), 8));
    }
}
