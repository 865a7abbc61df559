//! The audit log of a running daemon: one owner of the files, many callers.
//!
//! A record is encoded, chained and written to the kernel by the caller itself, under one short
//! lock: handing it to a thread would cost a read more than the read (two thread switches against
//! one `write`). What waits for the disk is left to one thread, the keeper: it syncs once for all
//! who wait, rotates, signs checkpoints, copies, and gets the log up again after a failure. A call
//! with an effect goes on when the sync that covers its record has returned; a read goes on at once
//! and is synced within 100 ms.
//!
//! Never called from a device callback or the engine lane: the lock is short, but it is a lock. Not
//! here: what a record says and how a log is judged (`conductor_core::audit`), and the commands
//! that read logs (`cli::audit`).

mod copy;
pub mod files;
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
use conductor_core::principal::Principal;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, oneshot, watch};

use conductor_hosts::system::{Clock, Ids};
pub use open::{OpenError, Opened, accept};
use segments::{Segments, Waiter};
use syncer::Syncer;

/// Callers wait for a checkpoint at this many records without one. Below the lag at which the
/// verifier speaks of removed checkpoints (`MAX_LAG`), with room for the log's own records.
const MAX_UNANCHORED: u64 = 480;

/// Records that may wait for the disk at once; a further one waits before it is written.
const MAX_WAITERS: usize = 1024;

/// Upper bounds of the histogram of sync times.
pub const SYNC_BOUNDS_MS: [u64; 10] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000];

/// `[audit]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `detail = "full"`: the pipeline puts scrubbed arguments into records.
    pub full_detail: bool,
    /// `read_only_sync = "before_reply"`.
    pub reads_wait: bool,
    pub rotate_bytes: u64,
    pub checkpoint_records: u64,
    pub checkpoint_ms: u64,
    /// 0 keeps all.
    pub retention_days: u32,
    pub copy_to: Option<PathBuf>,
    pub copy_required: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            full_detail: false,
            reads_wait: false,
            rotate_bytes: 100 << 20,
            checkpoint_records: 256,
            checkpoint_ms: 60_000,
            retention_days: 0,
            copy_to: None,
            copy_required: false,
        }
    }
}

/// When a record counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When a sync that covers it has returned. Effects, and what a person decided.
    Synced,
    /// When the kernel has it: killing the daemon loses nothing, a power cut at most the last 100
    /// ms. Reads and refusals.
    Soon,
}

/// The log cannot be written; no call may run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    pub reason: Arc<str>,
}

impl Unavailable {
    fn new(reason: &str) -> Self {
        Self { reason: reason.into() }
    }
}

/// For `status`, `/health` and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub down: Option<Arc<str>>,
    pub head: Option<Head>,
    pub anchored_through: Option<Seq>,
    pub unanchored: u64,
    /// Why the second copy is behind, if it is.
    pub copy_fault: Option<String>,
    pub records: u64,
    pub syncs: u64,
    /// Milliseconds spent in syncs, all together.
    pub sync_ms: u64,
    /// Syncs that took at most [`SYNC_BOUNDS_MS`] of the same place; longer ones are in `syncs`
    /// only.
    pub sync_buckets: [u64; SYNC_BOUNDS_MS.len()],
    pub checkpoints: u64,
    /// Outcomes in memory that wait to be written.
    pub owed: usize,
}

#[derive(Debug, Default)]
struct Counters {
    syncs: AtomicU64,
    sync_ms: AtomicU64,
    sync_buckets: [AtomicU64; SYNC_BOUNDS_MS.len()],
    checkpoints: AtomicU64,
}

impl Counters {
    fn synced(&self, took_ms: u64) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_ms.fetch_add(took_ms, Ordering::Relaxed);
        for (bucket, bound) in self.sync_buckets.iter().zip(SYNC_BOUNDS_MS) {
            bucket.fetch_add(u64::from(took_ms <= bound), Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
struct Shared {
    journal: Mutex<Segments>,
    signal: Mutex<Signal>,
    work: Condvar,
    /// Told whenever a checkpoint made room, or the log went down or up.
    room: Notify,
    permits: Semaphore,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    hasher: InputHasher,
    reads_wait: bool,
    counters: Counters,
    copy_fault: Mutex<Option<String>>,
    /// A place that remembers the last checkpoint has not answered yet: calls wait for it.
    held: watch::Sender<bool>,
    witness: Witness,
}

/// Is called with each checkpoint, from the keeper's thread.
#[derive(Default)]
struct Witness(OnceLock<Box<OnCheckpoint>>);

type OnCheckpoint = dyn Fn(Head, &str) + Send + Sync;

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Witness")
    }
}

impl Witness {
    fn tell(&self, head: Head, line: &str) {
        if let Some(tell) = self.0.get() {
            tell(head, line);
        }
    }
}

#[derive(Debug, Default)]
struct Signal {
    work: bool,
    stop: bool,
}

impl Shared {
    // A panic while the lock is held can only come from outside (a clock, a file); the journal is
    // changed after the bytes are written, so what it holds is still true.
    fn journal(&self) -> MutexGuard<'_, Segments> {
        self.journal.lock()
    }

    fn signal(&self, set: impl FnOnce(&mut Signal)) {
        set(&mut self.signal.lock());
        self.work.notify_one();
    }
}

/// A handle to the log; clones share it. The last one to go stops the keeper.
#[derive(Debug, Clone)]
pub struct AuditLog {
    shared: Arc<Shared>,
    _syncer: Arc<KeeperThread>,
}

impl AuditLog {
    /// Opens the log of a home: recovers what a crash left, refuses what was tampered with, and
    /// starts the keeper.
    pub fn open(
        home: &std::path::Path,
        files: Arc<dyn files::Files>,
        settings: Settings,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<(Self, Opened), OpenError> {
        let (keeper, opened) = open::open(home, files, settings, clock, ids)?;
        let shared = Arc::clone(&keeper.shared);
        let thread = KeeperThread::start(keeper).map_err(OpenError::Thread)?;
        Ok((Self { shared, _syncer: Arc::new(thread) }, opened))
    }

    /// Sets what is called with every checkpoint, and the line of the last one, once it is on disk.
    /// `tell` runs on the keeper's thread, must not wait, and must not hold this log: the last
    /// handle to go waits for that thread.
    pub fn on_checkpoint(&self, tell: impl Fn(Head, &str) + Send + Sync + 'static) {
        let _ = self.shared.witness.0.set(Box::new(tell));
    }

    /// Calls wait, until [`AuditLog::settle`], for a place that remembers the last checkpoint and
    /// has not answered yet.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    pub fn settle(&self) {
        self.shared.held.send_replace(false);
    }

    /// Outcomes in memory, for a log that takes the place of this one.
    pub fn take_owed(&self) -> Vec<(Stamp, Entry)> {
        std::mem::take(&mut self.shared.journal().owed).into()
    }

    /// Takes over outcomes that were kept while no log was open, and how many there were no room
    /// for.
    pub fn owe(&self, outcomes: Vec<(Stamp, Entry)>, lost: u64) {
        if outcomes.is_empty() && lost == 0 {
            return;
        }
        let mut journal = self.shared.journal();
        let (stamp, entry) =
            journal.recovery(Recovery::Resumed, json!({ "reason": "the log was not open", "outcomes_lost": lost }));
        journal.owed.push_back((stamp, entry));
        outcomes.into_iter().for_each(|(stamp, entry)| {
            journal.owe(stamp, entry);
        });
        drop(journal);
        self.shared.signal(|signal| signal.work = true);
    }

    /// Takes the log down until a person has looked: it is not what another place remembers.
    pub fn refuse(&self, reason: &str) {
        self.shared.journal().refuse(reason);
        self.shared.room.notify_waiters();
    }

    /// Keeps the outcome of a call that did not wait for the log. Gives whether it will be written.
    pub fn keep_outcome(&self, call: CallFacts, outcome: OutcomeFacts) -> bool {
        let mut journal = self.shared.journal();
        let stamp = journal.stamp();
        let kept = journal.holds_outcome(call.call) || journal.owe(stamp, Entry::Outcome(call, outcome));
        drop(journal);
        self.shared.signal(|signal| signal.work = true);
        kept
    }

    /// Records that an effect is about to be tried. Only after this may a handler run.
    pub async fn intent(&self, call: CallFacts) -> Result<Seq, Unavailable> {
        self.shared.settled().await;
        self.append(Entry::Intent(call), Durability::Synced).await
    }

    /// Records how a call ended. When it cannot be written, it is kept in memory and written first
    /// once the log is up again; the caller still answers `AUDIT_UNAVAILABLE`.
    pub async fn outcome(
        &self,
        call: CallFacts,
        outcome: OutcomeFacts,
        durability: Durability,
    ) -> Result<Seq, Unavailable> {
        self.shared.settled().await;
        self.append(Entry::Outcome(call, outcome), durability).await
    }

    /// The same for a read when nothing has to be waited for; gives the facts back when something
    /// has.
    pub fn outcome_now(
        &self,
        call: CallFacts,
        outcome: OutcomeFacts,
    ) -> Result<Result<Seq, Unavailable>, Box<(CallFacts, OutcomeFacts)>> {
        let shared = &self.shared;
        let mut journal = shared.journal();
        if shared.reads_wait || *shared.held.borrow() || !journal.has_room() {
            return Err(Box::new((call, outcome)));
        }
        let stamp = journal.stamp();
        Ok(shared.write_now(&mut journal, stamp, Entry::Outcome(call, outcome), None))
    }

    pub async fn event(
        &self,
        principal: Option<Principal>,
        conn: Option<String>,
        event: EventName,
        detail: Value,
        durability: Durability,
    ) -> Result<Seq, Unavailable> {
        self.append(Entry::Event { principal, conn, event, detail }, durability).await
    }

    pub fn input_hash(&self, arguments: &Value) -> InputHash {
        self.shared.hasher.hash(arguments)
    }

    /// The end of the log, which `audit verify` holds the files against.
    pub fn head(&self) -> Option<Head> {
        self.shared.journal().head()
    }

    /// Whether a record could be written now; asked before a handler that writes no intent.
    pub fn check(&self) -> Result<(), Unavailable> {
        match &self.shared.journal().down {
            Some(down) => Err(down.reason.clone()),
            None => Ok(()),
        }
    }

    pub fn health(&self) -> Health {
        let copy_fault = self.shared.copy_fault.lock().clone();
        let journal = self.shared.journal();
        Health {
            down: journal.down.as_ref().map(|down| Arc::clone(&down.reason.reason)),
            head: journal.head(),
            anchored_through: journal.anchored,
            unanchored: journal.unanchored(),
            copy_fault,
            records: journal.records,
            syncs: self.shared.counters.syncs.load(Ordering::Relaxed),
            sync_ms: self.shared.counters.sync_ms.load(Ordering::Relaxed),
            sync_buckets: self.shared.counters.sync_buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed)),
            checkpoints: self.shared.counters.checkpoints.load(Ordering::Relaxed),
            owed: journal.owed.len(),
        }
    }

    /// Syncs, signs the end and stops the keeper; every later record is refused. Blocks for the
    /// time of two syncs.
    pub fn stop(&self) {
        self._syncer.stop();
    }

    async fn append(&self, entry: Entry, durability: Durability) -> Result<Seq, Unavailable> {
        self.shared.append(entry, durability).await
    }
}

impl Shared {
    async fn settled(&self) {
        if *self.held.borrow() {
            // The sender lives as long as this does.
            let _ = self.held.subscribe().wait_for(|held| !held).await;
        }
    }

    async fn append(&self, entry: Entry, durability: Durability) -> Result<Seq, Unavailable> {
        let stamp = stamp(&*self.clock, &*self.ids);
        let waits = match durability {
            Durability::Synced => true,
            Durability::Soon => self.reads_wait,
        };
        if !waits {
            return self.write(stamp, entry, None).await;
        }
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let (wake, woken) = oneshot::channel();
        self.write(stamp, entry, Some(wake)).await?;
        woken.await.unwrap_or_else(|_| Err(Unavailable::new("the audit log was stopped")))
    }

    async fn write(
        &self,
        stamp: Stamp,
        entry: Entry,
        mut wake: Option<oneshot::Sender<Result<Seq, Unavailable>>>,
    ) -> Result<Seq, Unavailable> {
        loop {
            let room = self.room.notified();
            {
                let mut journal = self.journal();
                if journal.has_room() {
                    return self.write_now(&mut journal, stamp, entry, wake.take());
                }
            }
            // The notice cannot be missed: `room` was made before the lock was taken, and takes
            // every later `notify_waiters`.
            self.signal(|signal| signal.work = true);
            room.await;
        }
    }

    fn write_now(
        &self,
        journal: &mut Segments,
        stamp: Stamp,
        entry: Entry,
        wake: Option<oneshot::Sender<Result<Seq, Unavailable>>>,
    ) -> Result<Seq, Unavailable> {
        let was_clean = journal.dirty_since_ms.is_none();
        let limit = journal.settings.checkpoint_records;
        let written = journal.append(&stamp, &entry);
        let outcome = matches!(entry, Entry::Outcome(..));
        match written {
            Ok(seq) => {
                let waits = wake.is_some();
                if let Some(wake) = wake {
                    let outcome = outcome.then_some((stamp, entry));
                    journal.waiters.push_back(Waiter { seq, wake, outcome });
                }
                // A wake-up is a system call; one per 100 ms of reads, one per waiter and one per
                // checkpoint is enough.
                if waits || was_clean || journal.unanchored() == limit || journal.wants_rotation() {
                    self.signal(|signal| signal.work = true);
                }
                Ok(seq)
            }
            Err(unavailable) => {
                if outcome {
                    journal.owe(stamp, entry);
                }
                self.signal(|signal| signal.work = true);
                Err(unavailable)
            }
        }
    }
}

/// The thread of the keeper, and the way to end it.
#[derive(Debug)]
struct KeeperThread {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl KeeperThread {
    fn start(mut keeper: Syncer) -> std::io::Result<Self> {
        let shared = Arc::clone(&keeper.shared);
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| run(&mut keeper)));
            let why = if ended.is_ok() { "the audit log was stopped" } else { "the audit thread failed" };
            keeper.shared.journal().close(why);
            keeper.shared.room.notify_waiters();
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    fn stop(&self) {
        self.shared.signal(|signal| signal.stop = true);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A keeper that panicked has nothing more to say; the next open recovers.
            let _ = thread.join();
        }
    }
}

impl Drop for KeeperThread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(keeper: &mut Syncer) {
    let shared = Arc::clone(&keeper.shared);
    loop {
        let due = keeper.step();
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
            keeper.stopping = true;
            keeper.step();
            return;
        }
    }
}

/// The end of a log, as reports and events show it.
pub fn head_value(head: &Head) -> Value {
    json!({ "log_id": head.log_id.to_string(), "seq": head.seq, "hash": head.hash })
}

/// Id and time of a record made now.
pub fn stamp(clock: &dyn Clock, ids: &dyn Ids) -> Stamp {
    let ts = clock.timestamp();
    Stamp { id: ids.v7(ts.as_millis()), ts }
}

#[cfg(test)]
pub(crate) mod tests;
