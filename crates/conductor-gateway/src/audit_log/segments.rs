//! The end of the log: the segment being written, the hash chain, and the callers that wait for a
//! sync. One lock protects all of it.
//!
//! Appending is a short, synchronous step: encode, hash, one `write`. Only [`Segments::repair`]
//! waits for the disk. It runs only at the start and while every call is refused. Not here: when to
//! sync, checkpoints, the link and the copy (`syncer`).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use conductor_core::audit::verify::MAX_UNSIGNED;
use conductor_core::audit::{Chain, Entry, EventName, Head, Recovery, Seq, Stamp};
use serde_json::json;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::files::{Files, LogFile, append_whole};
use super::layout::Layout;
use super::{Settings, UnavailableError};
use conductor_hosts::system::{Clock, Ids};

/// Maximum number of outcomes that are kept in memory while the log cannot be written.
const MAX_UNWRITTEN: usize = 256;
/// Maximum number of refusals (calls without an effect) among the outcomes in memory. The remaining
/// places are reserved for calls that ran.
const MAX_UNWRITTEN_REFUSALS: usize = 128;
const RETRY_MS: u64 = 1000;

fn did_nothing(entry: &Entry) -> bool {
    matches!(entry, Entry::Outcome(_, outcome) if outcome.attempts == 0)
}

#[derive(Debug)]
pub(super) struct Active {
    pub number: u32,
    pub file: Arc<dyn LogFile>,
    /// Number of bytes in valid lines.
    pub len: u64,
    /// Number of bytes that have been synced.
    pub durable_len: u64,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub seq: Seq,
    pub wake: oneshot::Sender<Result<Seq, UnavailableError>>,
    /// The outcome in this line. If the line is lost, the outcome must be written again, because
    /// the effect has happened.
    pub outcome: Option<(Stamp, Entry)>,
}

#[derive(Debug)]
pub(super) struct Down {
    pub reason: UnavailableError,
    pub since_ms: u64,
    /// The time of the next attempt to recover the log. `None` if only a person can recover it.
    pub retry_at_ms: Option<u64>,
    /// Whether a sync has failed. If so, the content of the segment on the disk is unknown, and no
    /// more records are written to it.
    pub sync_failed: bool,
    /// Whether the bytes of a failed write may still follow the valid lines.
    pub truncate_needed: bool,
}

/// The work of one sync.
#[derive(Debug)]
pub(super) struct SyncJob {
    pub files: Vec<Arc<dyn LogFile>>,
    pub directory: bool,
    pub target: Option<(Seq, conductor_core::digest::Digest)>,
    pub number: u32,
    pub len: u64,
    pub rotated: usize,
}

#[derive(Debug)]
pub(super) struct Segments {
    pub layout: Layout,
    pub files: Arc<dyn Files>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub settings: Settings,
    pub log_id: Uuid,

    pub chain: Chain,
    pub active: Option<Active>,
    /// The highest number of a segment that exists or existed.
    pub last_number: u32,
    /// Rotated segments that have not been synced since the rotation.
    pub rotated: Vec<Arc<dyn LogFile>>,
    pub directory_dirty: bool,
    pub durable: Option<Head>,
    /// The last record that a witness of the log must have. At the start of the daemon, this is the
    /// last record of the log.
    pub last_published: Option<Seq>,
    pub dirty_since_ms: Option<u64>,
    pub waiters: VecDeque<Waiter>,
    /// Ends of rotated segments that need a checkpoint.
    pub borders: VecDeque<Head>,
    pub anchored: Option<Seq>,
    pub down: Option<Down>,
    pub unwritten: VecDeque<(Stamp, Entry)>,
    pub unwritten_lost: u64,
    /// Outcomes in a segment whose sync failed, kept until the segment is read back.
    pub unconfirmed: Vec<(Seq, Stamp, Entry)>,
    pub records: u64,
    pub buffer: Vec<u8>,
}

impl Segments {
    pub fn head(&self) -> Option<Head> {
        self.chain.last().map(|(seq, hash)| Head { log_id: self.log_id, seq, hash })
    }

    /// Number of records that no checkpoint covers.
    pub fn unanchored(&self) -> u64 {
        self.chain.next_seq().saturating_sub(self.anchored.map_or(0, |seq| seq + 1))
    }

    /// Whether records must wait for a checkpoint, because with more records the verifier would
    /// report removed checkpoints. An unsigned log may have only its first line.
    pub fn is_lagging(&self) -> bool {
        self.unanchored() >= if self.anchored.is_some() { super::MAX_UNANCHORED } else { MAX_UNSIGNED }
    }

    /// Whether `append` may be called now; otherwise the caller waits for a checkpoint. While the
    /// log is down, `append` may be called, because it fails without writing.
    pub fn has_room(&self) -> bool {
        !self.is_lagging() || self.down.is_some()
    }

    pub fn stamp(&self) -> Stamp {
        super::stamp(&*self.clock, &*self.ids)
    }

    /// Writes one record to the kernel. If that fails, the record is removed again and the log is
    /// marked as down.
    pub fn append(&mut self, stamp: &Stamp, entry: &Entry) -> Result<Seq, UnavailableError> {
        if let Some(down) = &self.down {
            return Err(down.reason.clone());
        }
        let Some(active) = &mut self.active else {
            return Err(UnavailableError::new("no segment is open"));
        };
        let mut chain = self.chain;
        self.buffer.clear();
        let seq = chain.append(stamp, entry, &mut self.buffer);
        if let Err(error) = append_whole(&*active.file, &self.buffer) {
            let truncate_needed = active.file.truncate(active.len).is_err();
            return Err(self.mark_down(&format!("the audit log cannot be written: {error}"), false, truncate_needed));
        }
        active.len += self.buffer.len() as u64;
        self.chain = chain;
        self.records += 1;
        if entry.is_published() {
            self.last_published = Some(seq);
        }
        if self.dirty_since_ms.is_none() {
            self.dirty_since_ms = Some(self.clock.now_ms());
        }
        Ok(seq)
    }

    pub fn mark_down(&mut self, reason: &str, sync_failed: bool, truncate_needed: bool) -> UnavailableError {
        let now = self.clock.now_ms();
        let refused = self.down.as_ref().filter(|_| self.is_refused());
        let reason = refused.map_or_else(|| UnavailableError::new(reason), |down| down.reason.clone());
        let since_ms = self.down.as_ref().map_or(now, |down| down.since_ms);
        let lasting = self.is_refused();
        let sync_failed = sync_failed || self.down.as_ref().is_some_and(|down| down.sync_failed);
        if sync_failed {
            // After a failed sync, wake the callers with an error. After a failed write, do not
            // wake them: their own records are in the kernel, and the next sync wakes them.
            self.fail_waiters(&reason);
        }
        let retry_at_ms = (!lasting).then_some(now + RETRY_MS);
        self.down = Some(Down { reason: reason.clone(), since_ms, retry_at_ms, sync_failed, truncate_needed });
        reason
    }

    fn is_refused(&self) -> bool {
        self.down.as_ref().is_some_and(|down| down.retry_at_ms.is_none())
    }

    /// Refuses all records until a person has checked the log.
    pub fn refuse(&mut self, reason: &str) {
        self.mark_down(reason, false, false);
        if let Some(down) = &mut self.down {
            down.retry_at_ms = None;
        }
    }

    /// Wakes all waiting callers with an error.
    fn fail_waiters(&mut self, reason: &UnavailableError) {
        for Waiter { seq, wake, outcome } in std::mem::take(&mut self.waiters) {
            self.unconfirmed.extend(outcome.map(|(stamp, entry)| (seq, stamp, entry)));
            let _ = wake.send(Err(reason.clone()));
        }
    }

    /// Closes the log when its syncer ends: nothing more is written, and all waiting callers are
    /// woken.
    pub fn close(&mut self, reason: &str) {
        let reason = self.mark_down(reason, false, false);
        self.fail_waiters(&reason);
        self.active = None;
    }

    /// Keeps the outcome of a finished call until the log can be written again. Returns false if
    /// the limit is reached.
    pub fn keep_for_retry(&mut self, stamp: Stamp, entry: Entry) -> bool {
        let most = if did_nothing(&entry) { MAX_UNWRITTEN_REFUSALS } else { MAX_UNWRITTEN };
        let room = self.unwritten.len() < most;
        if room {
            self.unwritten.push_back((stamp, entry));
        } else {
            self.unwritten_lost += 1;
        }
        room
    }

    /// Whether the outcome of this call is in memory and will be written.
    pub fn holds_outcome(&self, call: Uuid) -> bool {
        let of = |entry: &Entry| matches!(entry, Entry::Outcome(facts, _) if facts.call == call);
        self.unwritten.iter().any(|(_, entry)| of(entry))
            || self.unconfirmed.iter().any(|(_, _, entry)| of(entry))
            || self.waiters.iter().filter_map(|waiter| waiter.outcome.as_ref()).any(|(_, entry)| of(entry))
    }

    pub fn wants_rotation(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.len >= self.settings.rotate_bytes)
    }

    pub fn sync_job(&self) -> Option<SyncJob> {
        let active = self.active.as_ref()?;
        let mut files = self.rotated.clone();
        files.push(Arc::clone(&active.file));
        Some(SyncJob {
            files,
            directory: self.directory_dirty,
            target: self.chain.last(),
            number: active.number,
            len: active.len,
            rotated: self.rotated.len(),
        })
    }

    /// Records a successful sync and returns the waiters that it covers.
    pub fn synced(&mut self, job: &SyncJob) -> Vec<Waiter> {
        self.rotated.drain(..job.rotated.min(self.rotated.len()));
        self.directory_dirty = self.directory_dirty && !job.directory;
        if let Some((seq, hash)) = job.target {
            self.durable = Some(Head { log_id: self.log_id, seq, hash });
        }
        if let Some(active) = self.active.as_mut().filter(|active| active.number == job.number) {
            active.durable_len = active.durable_len.max(job.len);
        }
        if self.chain.last() == job.target {
            self.dirty_since_ms = None;
        } else {
            self.dirty_since_ms = Some(self.clock.now_ms());
        }
        let synced =
            self.waiters.iter().take_while(|waiter| job.target.is_some_and(|(seq, _)| waiter.seq <= seq)).count();
        self.waiters.drain(..synced).collect()
    }

    /// Starts the next segment. The old segment keeps its records and still needs its last sync.
    pub fn rotate(&mut self) -> io::Result<()> {
        let border = self.head();
        let from = self.active.as_ref().map(|active| active.number);
        let event = self.event(EventName::AuditRotated, json!({"from": from, "records": self.chain.next_seq()}));
        let (active, chain) = self.start_segment(&[event])?;
        self.adopt(active, chain, border);
        Ok(())
    }

    fn adopt(&mut self, active: Active, chain: Chain, border: Option<Head>) {
        self.borders.extend(border);
        self.last_number = active.number;
        self.rotated.extend(self.active.replace(active).map(|old| old.file));
        self.records += chain.next_seq() - self.chain.next_seq();
        self.chain = chain;
        self.directory_dirty = true;
        if self.dirty_since_ms.is_none() {
            self.dirty_since_ms = Some(self.clock.now_ms());
        }
    }

    pub fn event(&self, event: EventName, detail: serde_json::Value) -> (Stamp, Entry) {
        (self.stamp(), Entry::Event { principal: None, conn: None, event, detail })
    }

    pub fn recovery(&self, event: Recovery, detail: serde_json::Value) -> (Stamp, Entry) {
        (self.stamp(), Entry::Recovery { event, detail })
    }

    /// Writes the first lines of a new segment. Does not change `self`.
    fn start_segment(&self, entries: &[(Stamp, Entry)]) -> io::Result<(Active, Chain)> {
        let number = self.last_number + 1;
        let path = self.layout.segment(number);
        let file = match self.files.create(&path) {
            // An earlier attempt failed after creating the file. The file contains no accepted
            // record.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = self.files.open(&path)?;
                file.truncate(0)?;
                file
            }
            file => file?,
        };
        let mut chain = self.chain;
        let mut bytes = Vec::new();
        let prev_segment = (self.last_number > 0).then_some(self.last_number);
        chain.append(&self.stamp(), &Entry::Segment { log_id: self.log_id, segment: number, prev_segment }, &mut bytes);
        for (stamp, entry) in entries {
            chain.append(stamp, entry, &mut bytes);
        }
        if let Err(error) = append_whole(&*file, &bytes) {
            // Remove a partial first line. Otherwise the next start would report an incomplete
            // segment.
            let _ = file.truncate(0);
            let _ = self.files.remove(&path);
            return Err(error);
        }
        Ok((Active { number, file, len: bytes.len() as u64, durable_len: 0 }, chain))
    }

    /// Tries to write again, starting with a record of the failure and the unwritten outcomes, and
    /// syncs. After a failure the log is down.
    pub fn repair(&mut self) -> io::Result<()> {
        if self.is_refused() {
            return Err(io::Error::other("the audit log accepts no records until a person has checked it"));
        }
        let now = self.clock.now_ms();
        let result = self.try_repair(now);
        if let Err(error) = &result {
            let sync_failed = self.down.as_ref().is_some_and(|down| down.sync_failed);
            self.mark_down(&format!("the audit log cannot be written: {error}"), sync_failed, true);
        }
        result
    }

    fn try_repair(&mut self, now_ms: u64) -> io::Result<()> {
        let sync_failed = self.down.as_ref().is_some_and(|down| down.sync_failed);
        if sync_failed {
            self.read_back()?;
        }
        if let Some(active) = &self.active
            && self.down.as_ref().is_some_and(|down| down.truncate_needed)
        {
            active.file.truncate(active.len)?;
        }
        let mut entries = Vec::new();
        if let Some(down) = &self.down {
            let event = if down.sync_failed { Recovery::Poisoned } else { Recovery::Resumed };
            let detail = json!({
                "reason": &*down.reason.reason,
                "down_ms": now_ms.saturating_sub(down.since_ms),
                "outcomes_lost": self.unwritten_lost,
            });
            entries.push(self.recovery(event, detail));
        }
        entries.extend(self.unwritten.iter().cloned());

        if let Some(active) = self.active.as_mut().filter(|_| !sync_failed) {
            let mut chain = self.chain;
            let mut bytes = Vec::new();
            for (stamp, entry) in &entries {
                chain.append(stamp, entry, &mut bytes);
            }
            append_whole(&*active.file, &bytes)?;
            active.file.sync()?;
            active.len += bytes.len() as u64;
            active.durable_len = active.len;
            self.chain = chain;
            self.records += entries.len() as u64;
        } else {
            let border = self.head();
            let (mut active, chain) = self.start_segment(&entries)?;
            let kept = active.file.sync().and_then(|()| self.files.sync_dir(&self.layout.audit));
            if let Err(error) = kept {
                let _ = active.file.truncate(0);
                let _ = self.files.remove(&self.layout.segment(active.number));
                return Err(error);
            }
            active.durable_len = active.len;
            // The old file was read back. Another sync of the old file would prove nothing, because
            // the kernel reports a failure only once.
            self.active = None;
            self.adopt(active, chain, border);
            self.directory_dirty = false;
        }
        self.rotated.clear();
        self.durable = self.head();
        self.dirty_since_ms = None;
        self.unwritten.clear();
        self.unwritten_lost = 0;
        self.down = None;
        Ok(())
    }

    /// Called after a failed sync. Keeps the lines that can be read and truncates the rest.
    fn read_back(&mut self) -> io::Result<()> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let path = self.layout.segment(active.number);
        let bytes = self.files.read_at(&path, active.durable_len, super::files::WHOLE)?;
        let mut chain = match self.durable {
            Some(head) if active.durable_len > 0 => Chain::after(head.seq, head.hash),
            // Nothing in this segment was synced yet, so its first line is accepted unchecked.
            Some(_) | None => Chain::start(),
        };
        let from_start = active.durable_len == 0;
        let mut good = active.durable_len;
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let Some(whole) = line.strip_suffix(b"\n") else {
                break;
            };
            let Ok((links, hash)) = conductor_core::audit::line::read(whole) else {
                break;
            };
            if links.seq != chain.next_seq() && !(from_start && index == 0) {
                break;
            }
            chain = Chain::after(links.seq, hash);
            good += line.len() as u64;
        }
        if good < active.len {
            active.file.truncate(good)?;
            active.len = good;
            if good == 0 {
                // The first line is not complete: reuse the segment number.
                self.last_number = self.last_number.saturating_sub(1);
                self.chain = self.durable.map_or(Chain::start(), |head| Chain::after(head.seq, head.hash));
                self.active = None;
            } else {
                self.chain = chain;
            }
        }
        let next = self.chain.next_seq();
        for (seq, stamp, entry) in std::mem::take(&mut self.unconfirmed) {
            if seq >= next {
                self.keep_for_retry(stamp, entry);
            }
        }
        Ok(())
    }
}
