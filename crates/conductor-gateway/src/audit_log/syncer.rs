//! All work of the log except appending: syncs, rotation, checkpoints, the link, the copy,
//! retention and recovery.
//!
//! One thread owns a syncer and calls [`Syncer::step`] whenever work is due. The lock on the
//! segments is never held during a sync, so reads are recorded while an effect waits for the disk.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use conductor_core::audit::{Checkpoint, EventName, Head};
use conductor_core::timestamp::Timestamp;
use ed25519_dalek::SigningKey;
use serde_json::json;

use super::Shared;
use super::copy::Copy;
use super::files::{Files, LogFile, append_whole};
use super::layout::{Layout, segment_name};
use super::segments::Waiter;
use super::{keys, memory};

/// Time after which reads and refusals are synced to the disk.
const SOON_MS: u64 = 100;
const RETRY_MS: u64 = 1000;
const DAY_MS: u64 = 86_400_000;

pub(super) struct Syncer {
    pub shared: Arc<Shared>,
    pub layout: Layout,
    pub files: Arc<dyn Files>,
    pub signing: SigningKey,
    /// Whether a new key is not saved yet. The key is saved when the log has records, before the
    /// first checkpoint is signed.
    pub unsaved_key: bool,
    pub checkpoints: Option<Arc<dyn LogFile>>,
    pub checkpoints_len: u64,
    pub checkpointed_ms: u64,
    pub checkpoint_retry_ms: u64,
    pub rotate_retry_ms: u64,
    pub linked: Option<u32>,
    pub copy: Option<Copy>,
    pub retention_checked: Option<Timestamp>,
    pub stopping: bool,
}

impl std::fmt::Debug for Syncer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Syncer").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Syncer {
    /// Does the work that is due. Returns the milliseconds until the next work, or `None` if
    /// nothing is due until a new record arrives.
    pub fn step(&mut self) -> Option<u64> {
        let now = self.shared.clock.now_ms();
        self.recover(now);
        self.write_unwritten();
        self.rotate(now);
        self.sync(now);
        self.relink();
        self.checkpoint(now);
        self.retain();
        self.next_due(now)
    }

    fn next_due(&self, now: u64) -> Option<u64> {
        let segments = self.shared.segments();
        if let Some(down) = &segments.down {
            return down.retry_at_ms.map(|at| at.saturating_sub(now));
        }
        if !segments.waiters.is_empty() || !segments.unwritten.is_empty() {
            return Some(0);
        }
        let soon = segments.dirty_since_ms.map(|since| since + SOON_MS);
        let checkpoint = (segments.unanchored() > 0)
            .then(|| (self.checkpointed_ms + segments.settings.checkpoint_ms).max(self.checkpoint_retry_ms));
        let full = (segments.unanchored() >= segments.settings.checkpoint_records).then_some(self.checkpoint_retry_ms);
        let rotate = segments.wants_rotation().then_some(self.rotate_retry_ms);
        let copy = self.copy.as_ref().and_then(Copy::retry_at_ms);
        [soon, checkpoint, full, rotate, copy].into_iter().flatten().min().map(|due| due.saturating_sub(now))
    }

    fn recover(&mut self, now: u64) {
        let (due, lagging) = {
            let segments = self.shared.segments();
            let retry_at_ms = segments.down.as_ref().and_then(|down| down.retry_at_ms);
            (retry_at_ms.is_some_and(|at| now >= at), segments.is_lagging())
        };
        if !due {
            return;
        }
        // Write the missing checkpoints before recovery, because each recovery appends a record,
        // which needs a checkpoint too.
        if lagging {
            self.checkpoint(now);
        }
        let copied = match self.copy.as_ref().is_some_and(Copy::is_required) {
            true => self.copy(now),
            false => Ok(()),
        };
        let mut segments = self.shared.segments();
        if let Err(error) = copied {
            segments.mark_down(&copy_fault(&error), false, true);
        } else if segments.is_lagging() {
            segments.mark_down("the audit log's checkpoints cannot be written", false, true);
        } else if segments.repair().is_ok() {
            drop(segments);
            self.shared.room.notify_waiters();
        }
    }

    /// Writes outcomes that were kept in memory. While the log is down, its recovery writes them.
    fn write_unwritten(&mut self) {
        let mut segments = self.shared.segments();
        while segments.down.is_none()
            && !segments.is_lagging()
            && let Some((stamp, entry)) = segments.unwritten.pop_front()
        {
            if segments.append(&stamp, &entry).is_err() {
                segments.unwritten.push_front((stamp, entry));
            } else {
                // The time 0 makes the sync due immediately.
                segments.dirty_since_ms = Some(0);
            }
        }
    }

    fn rotate(&mut self, now: u64) {
        let mut segments = self.shared.segments();
        if segments.down.is_none()
            && segments.wants_rotation()
            && now >= self.rotate_retry_ms
            && segments.rotate().is_err()
        {
            // The rotation failed, so the old segment continues to accept records beyond its size
            // limit.
            self.rotate_retry_ms = now + RETRY_MS;
        }
    }

    fn sync(&mut self, now: u64) {
        let job = {
            let segments = self.shared.segments();
            let soon = segments.dirty_since_ms.is_some_and(|since| now >= since + SOON_MS);
            let full = segments.unanchored() >= segments.settings.checkpoint_records;
            let due = !segments.waiters.is_empty() || soon || full || !segments.rotated.is_empty() || self.stopping;
            let sync_failed = segments.down.as_ref().is_some_and(|down| down.sync_failed);
            if sync_failed || !due || segments.dirty_since_ms.is_none() {
                return;
            }
            segments.sync_job()
        };
        let Some(job) = job else { return };
        let started = self.shared.clock.now_ms();
        let mut done = job.files.iter().try_for_each(|file| file.sync());
        if done.is_ok() && job.directory {
            done = self.files.sync_dir(&self.layout.audit);
        }
        let took_ms = self.shared.clock.now_ms().saturating_sub(started);
        self.shared.syncs.lock().add(took_ms * 1000);

        let mut segments = self.shared.segments();
        let synced = match done {
            Ok(()) => segments.synced(&job),
            Err(error) => {
                segments.mark_down(&format!("the audit log could not be synced to the disk: {error}"), true, false);
                // Repair now, because calls are waiting. The next segment may be on intact disk
                // blocks.
                let _ = segments.repair();
                drop(segments);
                self.shared.room.notify_waiters();
                return;
            }
        };
        drop(segments);
        if self.copy.as_ref().is_some_and(Copy::is_required) {
            self.copy_then_wake(now, synced);
        } else {
            wake(synced);
            // A failure of the copy is visible in the state of the log, and the next sync retries.
            let _ = self.copy(now);
        }
    }

    fn copy(&mut self, now: u64) -> io::Result<()> {
        let Some(copy) = &mut self.copy else {
            return Ok(());
        };
        let (number, len) = {
            let segments = self.shared.segments();
            match &segments.active {
                Some(active) => (active.number, active.durable_len),
                None => return Ok(()),
            }
        };
        let done = copy.catch_up(&*self.files, &self.layout, number, len, now);
        let fault = done.as_ref().err().map(ToString::to_string);
        *self.shared.copy_fault.lock() = fault;
        done
    }

    fn copy_then_wake(&mut self, now: u64, synced: Vec<Waiter>) {
        match self.copy(now) {
            Ok(()) => wake(synced),
            Err(error) => {
                let reason = {
                    let mut segments = self.shared.segments();
                    segments.mark_down(&copy_fault(&error), false, false)
                };
                for waiter in synced {
                    let _ = waiter.wake.send(Err(reason.clone()));
                }
            }
        }
    }

    /// Points the link `audit.log` at the segment being written, after the segment's name is on the
    /// disk.
    fn relink(&mut self) {
        let number = {
            let segments = self.shared.segments();
            if segments.directory_dirty {
                return;
            }
            segments.active.as_ref().map(|active| active.number)
        };
        let Some(number) = number.filter(|number| self.linked != Some(*number)) else {
            return;
        };
        let temp = self.layout.home.join(".audit.log.new");
        let _ = self.files.remove(&temp);
        let linked = self
            .files
            .link(&format!("audit/{}", segment_name(number)), &temp)
            .and_then(|()| self.files.rename(&temp, &self.layout.link()));
        // No record depends on the link, so a failure is ignored; the next step retries.
        if linked.is_ok() {
            self.linked = Some(number);
        }
    }

    fn checkpoint(&mut self, now: u64) {
        let mut due = VecDeque::new();
        {
            let segments = self.shared.segments();
            let Some(durable) = segments.durable else {
                return;
            };
            due.extend(segments.borders.iter().filter(|border| border.seq <= durable.seq).copied());
            let ahead = segments.anchored.is_none_or(|anchored| durable.seq > anchored);
            let many = segments.unanchored() >= segments.settings.checkpoint_records;
            let late = now >= self.checkpointed_ms + segments.settings.checkpoint_ms;
            let first = segments.anchored.is_none();
            // Write checkpoints even while the log is down. Otherwise the outcomes that are written
            // after the recovery would increase the lag.
            if ahead
                && (many || late || first || self.stopping || segments.down.is_some())
                && due.back() != Some(&durable)
            {
                due.push_back(durable);
            }
        }
        if due.is_empty() {
            return;
        }
        if now < self.checkpoint_retry_ms {
            self.stop_before_lag("the audit log's checkpoints cannot be written");
            return;
        }
        match self.write_checkpoints(&due) {
            Ok(line) => {
                self.checkpointed_ms = now;
                let mut segments = self.shared.segments();
                let last = due.back().map(|head| head.seq);
                segments.anchored = segments.anchored.max(last);
                segments.borders.retain(|border| last.is_none_or(|seq| border.seq > seq));
                drop(segments);
                self.shared.checkpoints.fetch_add(due.len() as u64, Ordering::Relaxed);
                self.shared.room.notify_waiters();
                if let Some(head) = due.back() {
                    self.remember(*head, &line);
                }
                due.iter().for_each(|head| self.shared.on_checkpoint.call(*head, &line));
            }
            Err(error) => {
                self.checkpoint_retry_ms = now + RETRY_MS;
                self.stop_before_lag(&format!("the audit log's checkpoints cannot be written: {error}"));
            }
        }
    }

    /// Marks the log as down if too many records have no checkpoint. If more records were appended,
    /// the verifier would report removed checkpoints.
    fn stop_before_lag(&self, reason: &str) {
        let mut segments = self.shared.segments();
        if segments.is_lagging() && segments.down.is_none() {
            segments.mark_down(reason, false, false);
            drop(segments);
            self.shared.room.notify_waiters();
        }
    }

    /// Stores the checkpoint in other places, so that restoring the log and its checkpoints to an
    /// earlier state is detected. A place that fails is retried with the next checkpoint.
    fn remember(&self, head: Head, line: &str) {
        let _ = memory::advance_state(&*self.files, &self.layout, head, line);
        let Some(copy) = &self.copy else { return };
        if let Err(error) = memory::advance_copy(&*self.files, copy.dir(), head, line) {
            let mut fault = self.shared.copy_fault.lock();
            fault.get_or_insert_with(|| error.to_string());
        }
    }

    /// Writes a checkpoint for each of `heads`. Returns the line of the last checkpoint.
    fn write_checkpoints(&mut self, heads: &VecDeque<Head>) -> io::Result<String> {
        if self.unsaved_key {
            keys::save(&*self.files, &self.layout, &self.signing)?;
            self.unsaved_key = false;
        }
        let ts = self.shared.clock.timestamp();
        let lines: Vec<String> = heads.iter().map(|head| Checkpoint::at(*head, ts).sign(&self.signing)).collect();
        let last = lines.last().cloned().unwrap_or_default();
        let lines = lines.concat();
        let path = self.layout.checkpoints();
        let file = match &self.checkpoints {
            Some(file) => Arc::clone(file),
            None => {
                let file = match self.files.create(&path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.files.open(&path)?,
                    file => file?,
                };
                self.files.sync_dir(&self.layout.state)?;
                self.checkpoints_len = file.size()?;
                self.checkpoints = Some(Arc::clone(&file));
                file
            }
        };
        let written = append_whole(&*file, lines.as_bytes()).and_then(|()| file.sync());
        if written.is_err() {
            // Remove a partial line. Together with the next line it would form an invalid
            // checkpoint.
            let _ = file.truncate(self.checkpoints_len);
            self.checkpoints = None;
        } else {
            self.checkpoints_len += lines.len() as u64;
        }
        written.map(|()| last)
    }

    /// Removes whole segments whose last record is older than `retention_days`, oldest first. A
    /// record of the removal is on the disk before the first file is removed.
    fn retain(&mut self) {
        let now = self.shared.clock.timestamp();
        let (days, active) = {
            let segments = self.shared.segments();
            if segments.down.is_some() {
                return;
            }
            (segments.settings.retention_days, segments.active.as_ref().map(|active| active.number))
        };
        let recent = self.retention_checked.is_some_and(|checked| now.millis_since(checked) < DAY_MS / 24);
        if days == 0 || recent {
            return;
        }
        self.retention_checked = Some(now);
        // Ignore a failure, because the next check follows in an hour.
        let _ = self.try_retain(now, u64::from(days) * DAY_MS, active);
    }

    fn try_retain(&mut self, now: Timestamp, keep_ms: u64, active: Option<u32>) -> io::Result<()> {
        let mut through = None;
        for number in self.layout.segments(&*self.files)? {
            if active.is_none_or(|active| number >= active) {
                break;
            }
            let Some(last) = self.last_record_time(number)? else {
                break;
            };
            if now.millis_since(last) <= keep_ms {
                break;
            }
            through = Some(number);
        }
        let Some(through) = through else {
            return Ok(());
        };
        let recorded = {
            let mut segments = self.shared.segments();
            // Verification will start at the first kept segment, so the end of the segment before
            // it needs a checkpoint.
            if !segments.borders.is_empty() {
                return Ok(());
            }
            let (stamp, entry) = segments.event(EventName::AuditRotated, json!({"removed_through": through}));
            let seq = segments.append(&stamp, &entry).map_err(|error| io::Error::other(error.to_string()))?;
            // The time 0 makes the sync due immediately.
            segments.dirty_since_ms = Some(0);
            seq
        };
        // Soon after the start, the clock may be below this limit, and the sync would not be due.
        self.sync(self.shared.clock.now_ms().max(SOON_MS));
        let durable = self.shared.segments().durable;
        if durable.is_none_or(|head| head.seq < recorded) {
            return Ok(());
        }
        for number in self.layout.segments(&*self.files)?.into_iter().filter(|number| *number <= through) {
            self.files.remove(&self.layout.segment(number))?;
        }
        self.files.sync_dir(&self.layout.audit)
    }

    fn last_record_time(&self, number: u32) -> io::Result<Option<Timestamp>> {
        let path = self.layout.segment(number);
        let size = self.files.open(&path)?.size()?;
        let from = size.saturating_sub(conductor_core::audit::line::MAX_LINE as u64);
        let bytes = self.files.read_at(&path, from, super::files::WHOLE)?;
        let last = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let record: Option<serde_json::Value> = serde_json::from_slice(last).ok();
        Ok(record.and_then(|record| record.get("ts")?.as_str()?.parse().ok()))
    }
}

fn copy_fault(error: &io::Error) -> String {
    format!("the required copy of the audit log cannot be written: {error}")
}

fn wake(synced: Vec<Waiter>) {
    for Waiter { seq, wake, .. } in synced {
        // A cancelled caller no longer waits; its record stays in the log.
        let _ = wake.send(Ok(seq));
    }
}
