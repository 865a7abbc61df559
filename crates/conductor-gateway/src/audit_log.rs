//! The audit log of a running daemon: one owner of the files, many callers.
//!
//! The caller encodes and chains its own record and writes it to the kernel, under one short lock.
//! A separate thread would need two thread switches, which cost more than the `write`. One thread,
//! the syncer, does all work that waits for the disk: it syncs once for all waiting callers,
//! rotates, signs checkpoints, copies, and recovers the log after a failure. A call with an effect
//! continues when the sync of its record has returned. A read continues immediately, unless
//! `read_only_sync` makes it wait, and its record is synced within 100 ms.
//!
//! Do not use the log in a device callback or on the engine thread, because a call to the log may
//! wait for its lock. Not here: the content of a record and the verification of a log
//! (`conductor_core::audit`), and the commands that read logs (`cli::audit`).

mod copy;
pub mod files;
pub mod follow;
pub mod keys;
pub mod layout;
pub mod lines;
pub mod memory;
mod open;
mod segments;
mod syncer;
pub mod walk;

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use conductor_core::audit::{
    CallFacts, Entry, EventName, Head, InputHash, InputHasher, OutcomeFacts, Recovery, Seq, Stamp,
};
use conductor_core::config::{self, ReadOnlySync};
use conductor_core::principal::Principal;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, oneshot, watch};

use crate::histogram::Histogram;
use conductor_hosts::system::{Clock, Ids};
pub use open::{OpenError, Opened, accept};
use segments::{Segments, Waiter};
use syncer::Syncer;

/// When this many records are not covered by a checkpoint, callers wait for the next checkpoint.
/// The limit is lower than `MAX_LAG`, at which the verifier reports removed checkpoints, to leave
/// space for the log's own records.
const MAX_UNANCHORED: u64 = 480;

/// Maximum number of records that wait for a sync at once. Further callers wait before they write.
const MAX_WAITERS: usize = 1024;

/// Upper bounds of the histogram of sync durations, in milliseconds.
const SYNC_BOUNDS_MS: [u64; 10] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000];

/// Settings of `[audit]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether `read_only_sync` is `before_reply`: the reply to a read waits for the sync of its
    /// record.
    pub reads_wait: bool,
    pub rotate_bytes: u64,
    pub checkpoint_records: u64,
    pub checkpoint_ms: u64,
    /// Number of days that a segment is kept; 0 keeps all segments.
    pub retention_days: u32,
    pub copy_to: Option<PathBuf>,
    pub copy_required: bool,
}

impl From<&config::Audit> for Settings {
    fn from(audit: &config::Audit) -> Self {
        Self {
            reads_wait: audit.read_only_sync == ReadOnlySync::BeforeReply,
            rotate_bytes: u64::from(audit.rotate_mb) << 20,
            checkpoint_records: audit.checkpoint_records.into(),
            checkpoint_ms: audit.checkpoint_ms.into(),
            retention_days: audit.retention_days,
            copy_to: audit.copy_to.as_ref().map(PathBuf::from),
            copy_required: audit.copy_required,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::from(&config::Audit::default())
    }
}

/// When a record counts as written to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The record is written when its sync has returned. Used for effects and a person's decisions.
    Synced,
    /// The record is written when the kernel has received it. Used for reads and refusals. A killed
    /// daemon loses no record; a power cut loses at most the last 100 ms. With
    /// [`Settings::reads_wait`], the same as `Synced`.
    Soon,
}

/// The log cannot be written, so no call may run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct UnavailableError {
    pub reason: Arc<str>,
}

impl UnavailableError {
    fn new(reason: &str) -> Self {
        Self { reason: reason.into() }
    }
}

/// The state of the log, for `status`, `/health` and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub down: Option<Arc<str>>,
    pub head: Option<Head>,
    pub anchored_through: Option<Seq>,
    pub unanchored: u64,
    /// The last failure to write the second copy of the log. `None` without a second copy, and
    /// after a success.
    pub copy_fault: Option<String>,
    pub records: u64,
    pub syncs: Histogram,
    pub checkpoints: u64,
    /// Number of outcomes that are kept in memory until they can be written.
    pub unwritten: usize,
}

#[derive(Debug)]
struct Shared {
    segments: Mutex<Segments>,
    signal: Mutex<Signal>,
    work: Condvar,
    /// Notified when a checkpoint allows more records, or when the log becomes available or
    /// unavailable.
    room: Notify,
    permits: Semaphore,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    hasher: InputHasher,
    reads_wait: bool,
    syncs: Mutex<Histogram>,
    checkpoints: AtomicU64,
    copy_fault: Mutex<Option<String>>,
    /// Whether calls must wait, because one of the places that store the last checkpoint has not
    /// been read yet.
    held: watch::Sender<bool>,
    on_checkpoint: CheckpointCallback,
}

#[derive(Default)]
struct CheckpointCallback(OnceLock<Box<OnCheckpoint>>);

type OnCheckpoint = dyn Fn(Head, &str) + Send + Sync;

impl std::fmt::Debug for CheckpointCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CheckpointCallback")
    }
}

impl CheckpointCallback {
    fn call(&self, head: Head, line: &str) {
        if let Some(callback) = self.0.get() {
            callback(head, line);
        }
    }
}

#[derive(Debug, Default)]
struct Signal {
    work: bool,
    stop: bool,
}

impl Shared {
    fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock()
    }

    fn signal(&self, set: impl FnOnce(&mut Signal)) {
        set(&mut self.signal.lock());
        self.work.notify_one();
    }
}

/// A handle to the log; clones share it. Dropping the last handle stops the syncer.
#[derive(Debug, Clone)]
pub struct AuditLog {
    shared: Arc<Shared>,
    _syncer: Arc<SyncerThread>,
}

impl AuditLog {
    /// Opens the log of a home: recovers it after a crash, refuses a log that was tampered with,
    /// and starts the syncer.
    pub fn open(
        home: &std::path::Path,
        files: Arc<dyn files::Files>,
        settings: Settings,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<(Self, Opened), OpenError> {
        let (syncer, opened) = open::open(home, files, settings, clock, ids)?;
        let shared = Arc::clone(&syncer.shared);
        let thread = SyncerThread::start(syncer).map_err(OpenError::Thread)?;
        Ok((Self { shared, _syncer: Arc::new(thread) }, opened))
    }

    /// Sets the callback for checkpoints that are on the disk. It is called for each checkpoint,
    /// with the head of this checkpoint and the line of the newest one. It runs on the syncer's
    /// thread and must not block. It must not own this log, because dropping the last handle waits
    /// for that thread.
    pub fn on_checkpoint(&self, callback: impl Fn(Head, &str) + Send + Sync + 'static) {
        let _ = self.shared.on_checkpoint.0.set(Box::new(callback));
    }

    /// Makes calls wait until [`AuditLog::settle`], because one of the places that store the last
    /// checkpoint has not been read yet.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    pub fn settle(&self) {
        self.shared.held.send_replace(false);
    }

    /// Removes and returns the outcomes that are kept in memory, so that the log that replaces this
    /// log can write them.
    pub fn take_unwritten(&self) -> Vec<(Stamp, Entry)> {
        std::mem::take(&mut self.shared.segments().unwritten).into()
    }

    /// Adds outcomes that were kept in memory while no log was open. `lost` is the number of
    /// outcomes that were dropped because too many waited.
    pub fn keep_for_retry(&self, outcomes: Vec<(Stamp, Entry)>, lost: u64) {
        if outcomes.is_empty() && lost == 0 {
            return;
        }
        let mut segments = self.shared.segments();
        let (stamp, entry) =
            segments.recovery(Recovery::Resumed, json!({ "reason": "the log was not open", "outcomes_lost": lost }));
        segments.unwritten.push_back((stamp, entry));
        outcomes.into_iter().for_each(|(stamp, entry)| {
            segments.keep_for_retry(stamp, entry);
        });
        drop(segments);
        self.shared.signal(|signal| signal.work = true);
    }

    /// Refuses all records until a person has checked the log, because another place stores a
    /// checkpoint of a different log.
    pub fn refuse(&self, reason: &str) {
        self.shared.segments().refuse(reason);
        self.shared.room.notify_waiters();
    }

    /// Keeps the outcome of a call that did not wait for the log. Returns whether the outcome will
    /// be written.
    pub fn keep_outcome(&self, call: CallFacts, outcome: OutcomeFacts) -> bool {
        let mut segments = self.shared.segments();
        let stamp = segments.stamp();
        let kept = segments.holds_outcome(call.call) || segments.keep_for_retry(stamp, Entry::Outcome(call, outcome));
        drop(segments);
        self.shared.signal(|signal| signal.work = true);
        kept
    }

    /// Records that an effect is about to be attempted. A handler may run only after this call has
    /// returned.
    pub async fn intent(&self, call: CallFacts) -> Result<Seq, UnavailableError> {
        self.shared.settled().await;
        self.append(Entry::Intent(call), Durability::Synced).await
    }

    /// Records the outcome of a call. A record that cannot be written is kept in memory and written
    /// first when the log is up again; the caller still returns `AUDIT_UNAVAILABLE`.
    pub async fn outcome(
        &self,
        call: CallFacts,
        outcome: OutcomeFacts,
        durability: Durability,
    ) -> Result<Seq, UnavailableError> {
        self.shared.settled().await;
        self.append(Entry::Outcome(call, outcome), durability).await
    }

    /// Records the outcome of a read without waiting. If that is not possible, returns the facts to
    /// the caller.
    pub fn outcome_now(
        &self,
        call: CallFacts,
        outcome: OutcomeFacts,
    ) -> Result<Result<Seq, UnavailableError>, Box<(CallFacts, OutcomeFacts)>> {
        let shared = &self.shared;
        let mut segments = shared.segments();
        if shared.reads_wait || *shared.held.borrow() || !segments.has_room() {
            return Err(Box::new((call, outcome)));
        }
        let stamp = segments.stamp();
        Ok(shared.write_now(&mut segments, stamp, Entry::Outcome(call, outcome), None))
    }

    pub async fn event(
        &self,
        principal: Option<Principal>,
        conn: Option<String>,
        event: EventName,
        detail: Value,
        durability: Durability,
    ) -> Result<Seq, UnavailableError> {
        self.append(Entry::Event { principal, conn, event, detail }, durability).await
    }

    pub fn input_hash(&self, arguments: &Value) -> InputHash {
        self.shared.hasher.hash(arguments)
    }

    /// The end of the log, which `audit verify` compares with the files.
    pub fn head(&self) -> Option<Head> {
        self.shared.segments().head()
    }

    /// The last record that is on the disk.
    pub fn durable(&self) -> Option<Head> {
        self.shared.segments().durable
    }

    /// The last record that a witness of the log must have.
    pub fn last_published(&self) -> Option<Seq> {
        self.shared.segments().last_published
    }

    /// Whether a record can be written now. The pipeline checks this before it runs a tool without
    /// an intent record.
    pub fn check(&self) -> Result<(), UnavailableError> {
        match &self.shared.segments().down {
            Some(down) => Err(down.reason.clone()),
            None => Ok(()),
        }
    }

    pub fn health(&self) -> Health {
        self.shared.health()
    }

    /// Syncs, signs the end of the log and stops the syncer. Every later record is refused. Blocks
    /// on disk I/O.
    pub fn stop(&self) {
        self._syncer.stop();
    }

    async fn append(&self, entry: Entry, durability: Durability) -> Result<Seq, UnavailableError> {
        self.shared.append(entry, durability).await
    }
}

impl Shared {
    fn health(&self) -> Health {
        let copy_fault = self.copy_fault.lock().clone();
        let segments = self.segments();
        Health {
            down: segments.down.as_ref().map(|down| Arc::clone(&down.reason.reason)),
            head: segments.head(),
            anchored_through: segments.anchored,
            unanchored: segments.unanchored(),
            copy_fault,
            records: segments.records,
            syncs: self.syncs.lock().clone(),
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
            unwritten: segments.unwritten.len(),
        }
    }

    async fn settled(&self) {
        if *self.held.borrow() {
            // The sender exists as long as `self`, so `wait_for` does not fail.
            let _ = self.held.subscribe().wait_for(|held| !held).await;
        }
    }

    async fn append(&self, entry: Entry, durability: Durability) -> Result<Seq, UnavailableError> {
        let stamp = stamp(&*self.clock, &*self.ids);
        let waits = match durability {
            Durability::Synced => true,
            Durability::Soon => self.reads_wait,
        };
        if !waits {
            return self.write(stamp, entry, None).await;
        }
        // The semaphore is never closed, so `acquire` does not fail.
        let _permit = self.permits.acquire().await;
        let (wake, woken) = oneshot::channel();
        self.write(stamp, entry, Some(wake)).await?;
        woken.await.unwrap_or_else(|_| Err(UnavailableError::new("the audit log was stopped")))
    }

    async fn write(
        &self,
        stamp: Stamp,
        entry: Entry,
        mut wake: Option<oneshot::Sender<Result<Seq, UnavailableError>>>,
    ) -> Result<Seq, UnavailableError> {
        loop {
            let room = self.room.notified();
            {
                let mut segments = self.segments();
                if segments.has_room() {
                    return self.write_now(&mut segments, stamp, entry, wake.take());
                }
            }
            // No notification is missed: `room` was created before the lock was acquired, so it
            // receives every later `notify_waiters`.
            self.signal(|signal| signal.work = true);
            room.await;
        }
    }

    fn write_now(
        &self,
        segments: &mut Segments,
        stamp: Stamp,
        entry: Entry,
        wake: Option<oneshot::Sender<Result<Seq, UnavailableError>>>,
    ) -> Result<Seq, UnavailableError> {
        let was_clean = segments.dirty_since_ms.is_none();
        let limit = segments.settings.checkpoint_records;
        let written = segments.append(&stamp, &entry);
        let outcome = matches!(entry, Entry::Outcome(..));
        match written {
            Ok(seq) => {
                let waits = wake.is_some();
                if let Some(wake) = wake {
                    let outcome = outcome.then_some((stamp, entry));
                    segments.waiters.push_back(Waiter { seq, wake, outcome });
                }
                // Waking the syncer is a system call. Wake it only for a waiter, for the first read
                // in 100 ms, for a checkpoint and for a rotation.
                if waits || was_clean || segments.unanchored() == limit || segments.wants_rotation() {
                    self.signal(|signal| signal.work = true);
                }
                Ok(seq)
            }
            Err(unavailable) => {
                if outcome {
                    segments.keep_for_retry(stamp, entry);
                }
                self.signal(|signal| signal.work = true);
                Err(unavailable)
            }
        }
    }
}

#[derive(Debug)]
struct SyncerThread {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SyncerThread {
    fn start(mut syncer: Syncer) -> std::io::Result<Self> {
        let shared = Arc::clone(&syncer.shared);
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| run(&mut syncer)));
            let why = if ended.is_ok() { "the audit log was stopped" } else { "the audit thread failed" };
            syncer.shared.segments().close(why);
            syncer.shared.room.notify_waiters();
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    fn stop(&self) {
        self.shared.signal(|signal| signal.stop = true);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // If the syncer panicked, the next open recovers the log.
            let _ = thread.join();
        }
    }
}

impl Drop for SyncerThread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(syncer: &mut Syncer) {
    let shared = Arc::clone(&syncer.shared);
    loop {
        let due = syncer.step();
        let mut signal = shared.signal.lock();
        if !signal.work && !signal.stop {
            match due {
                Some(0) => {}
                Some(ms) => drop(shared.work.wait_for(&mut signal, Duration::from_millis(ms))),
                None => shared.work.wait(&mut signal),
            }
        }
        signal.work = false;
        if signal.stop {
            drop(signal);
            syncer.stopping = true;
            syncer.step();
            return;
        }
    }
}

/// The end of a log as JSON, for reports and events.
pub fn head_value(head: &Head) -> Value {
    json!({ "log_id": head.log_id.to_string(), "seq": head.seq, "hash": head.hash })
}

/// The id and time of a new record.
pub fn stamp(clock: &dyn Clock, ids: &dyn Ids) -> Stamp {
    let ts = clock.timestamp();
    Stamp { id: ids.v7(ts.as_millis()), ts }
}

#[cfg(test)]
pub(crate) mod tests;
