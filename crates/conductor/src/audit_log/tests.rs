//! The log without its thread: each test calls the keeper's step itself, so time and every failure are exact.

pub mod memory;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};

use conductor_core::audit::verify::{Report, Verdict};
use conductor_core::audit::{CallFacts, Entry, OutcomeFacts};
use conductor_core::digest::Digest;
use conductor_core::error::AuditResult;
use conductor_core::policy::Tier;
use conductor_core::timestamp::Timestamp;
use memory::{Memory, Trouble};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::files::Files;
use super::layout::Layout;
use super::*;

#[derive(Debug, Default)]
pub struct FakeTime(AtomicU64);

impl Clock for FakeTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_767_323_045_000 + self.monotonic_ms())
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl FakeTime {
    fn pass(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

/// A small generator (splitmix64): the same numbers in every run.
#[derive(Debug)]
pub struct Counted(AtomicU64);

impl From<u64> for Counted {
    fn from(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Counted {
    pub fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Ids for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }
}

fn home() -> &'static std::path::Path {
    std::path::Path::new("home")
}

/// A daemon's log on files in memory.
struct Desk {
    files: Memory,
    time: Arc<FakeTime>,
    ids: Arc<Counted>,
    settings: Settings,
}

struct Running {
    keeper: Keeper,
    opened: Opened,
}

impl Desk {
    fn new() -> Self {
        let ids = Arc::new(Counted(AtomicU64::new(7)));
        Self { files: Memory::default(), time: Arc::default(), ids, settings: Settings::default() }
    }

    fn open(&self) -> Result<Running, OpenError> {
        let files: Arc<dyn Files> = Arc::new(self.files.clone());
        let clock: Arc<dyn Clock> = self.time.clone();
        let (keeper, opened) = open::open(home(), files, self.settings.clone(), clock, self.ids.clone())?;
        Ok(Running { keeper, opened })
    }

    fn started(&self) -> Running {
        self.open().expect("opens")
    }

    fn verify(&self) -> Report {
        let layout = Layout::of(home());
        let key = keys::public_key(&self.files, &layout).expect("a key").expect("a key");
        walk::verify(&self.files, &layout, &key, None, &mut |_| {}).expect("readable")
    }

    fn verdict(&self) -> Verdict {
        self.verify().verdict
    }

    fn records(&self) -> Vec<Value> {
        let layout = Layout::of(home());
        let mut records = Vec::new();
        for number in layout.segments(&self.files).expect("readable") {
            let bytes = self.files.bytes(&layout.segment(number));
            records.extend(
                bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok()),
            );
        }
        records
    }

    fn count(&self, pointer: &str, value: &str) -> usize {
        self.records().iter().filter(|record| record.pointer(pointer).and_then(Value::as_str) == Some(value)).count()
    }
}

fn facts(n: u128) -> CallFacts {
    CallFacts {
        call: Uuid::from_u128(n),
        principal: Principal::socket(1000, "demo"),
        conn: None,
        tool: "filesystem.delete".into(),
        tier: Some(Tier::HardwareIo),
        pin: Some(Digest::of(b"pin")),
        input_hash: InputHasher::new(&[0; 32]).hash(&json!({})),
        input: None,
        via: None,
        approval: None,
    }
}

fn ended(n: u128) -> Entry {
    let outcome = OutcomeFacts {
        result: AuditResult::Ok,
        code: None,
        effect: None,
        attempts: 1,
        duration_ms: 3,
        output_bytes: 10,
    };
    Entry::Outcome(facts(n), outcome)
}

type Answer = Result<Seq, Unavailable>;

fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl Running {
    /// A record that does not wait for the disk.
    fn soon(&mut self, entry: Entry) -> Answer {
        let shared = Arc::clone(&self.keeper.shared);
        let mut future = pin!(shared.append(entry, Durability::Soon));
        loop {
            if let Some(answer) = poll(future.as_mut()) {
                return answer;
            }
            // It waits for a checkpoint.
            self.keeper.step();
        }
    }

    fn synced(&mut self, entry: Entry) -> Answer {
        let shared = Arc::clone(&self.keeper.shared);
        let mut future = pin!(shared.append(entry, Durability::Synced));
        for _ in 0..5 {
            if let Some(answer) = poll(future.as_mut()) {
                return answer;
            }
            self.keeper.step();
        }
        panic!("nobody was woken");
    }

    fn start_event(&mut self) {
        let (_, entry) = self.keeper.shared.journal().event(EventName::DaemonStart, json!({}));
        self.synced(entry).expect("written");
    }

    fn health(&self) -> Health {
        let journal = self.keeper.shared.journal();
        Health {
            down: journal.down.as_ref().map(|down| Arc::clone(&down.reason.reason)),
            head: journal.head(),
            anchored_through: journal.anchored,
            unanchored: journal.unanchored(),
            copy_fault: self.keeper.shared.copy_fault.lock().unwrap().clone(),
            records: journal.records,
            syncs: self.keeper.shared.counters.syncs.load(Ordering::Relaxed),
            sync_ms: 0,
            sync_buckets: [0; SYNC_BOUNDS_MS.len()],
            checkpoints: 0,
            owed: journal.owed.len(),
        }
    }

    fn stop(mut self) {
        self.keeper.stopping = true;
        self.keeper.step();
    }
}

#[test]
fn a_fresh_log_is_anchored_from_its_first_line() {
    let desk = Desk::new();
    let running = desk.started();
    assert!(running.opened.fresh);
    let report = desk.verify();
    assert_eq!((report.verdict, report.records, report.anchored_through), (Verdict::Intact, 1, Some(0)));
    assert_eq!(desk.files.read_link(&Layout::of(home()).link()).expect("a link"), "audit/000001.jsonl");
    desk.files.set_bytes(&Layout::of(home()).segment(1), Vec::new());
    assert_eq!(desk.verdict(), Verdict::Truncated);
}

#[test]
fn an_effect_waits_for_the_disk_and_a_read_does_not() {
    let desk = Desk::new();
    let mut running = desk.started();
    let syncs = running.health().syncs;
    let shared = Arc::clone(&running.keeper.shared);
    let mut intent = pin!(shared.append(Entry::Intent(facts(1)), Durability::Synced));
    assert!(poll(intent.as_mut()).is_none(), "not before the sync");
    assert!(running.soon(ended(2)).is_ok());
    running.keeper.step();
    assert!(matches!(poll(intent.as_mut()), Some(Ok(1))));
    assert_eq!(running.health().syncs, syncs + 1, "one sync for both");

    assert!(running.soon(ended(3)).is_ok());
    desk.time.pass(99);
    running.keeper.step();
    assert_eq!(running.health().syncs, syncs + 1);
    desk.time.pass(1);
    running.keeper.step();
    assert_eq!(running.health().syncs, syncs + 2, "a read is on the disk after 100 ms");
    assert_eq!(desk.verdict(), Verdict::Intact);
}

#[test]
fn many_waiters_share_one_sync() {
    let desk = Desk::new();
    let mut running = desk.started();
    let shared = Arc::clone(&running.keeper.shared);
    let mut calls: Vec<_> =
        (0..64).map(|n| Box::pin(shared.append(Entry::Intent(facts(n)), Durability::Synced))).collect();
    assert!(calls.iter_mut().all(|call| poll(call.as_mut()).is_none()));
    let syncs = running.health().syncs;
    running.keeper.step();
    assert_eq!(running.health().syncs, syncs + 1);
    assert!(calls.iter_mut().all(|call| matches!(poll(call.as_mut()), Some(Ok(_)))));
}

#[test]
fn reads_wait_when_told_to() {
    let mut desk = Desk::new();
    desk.settings.reads_wait = true;
    let mut running = desk.started();
    let shared = Arc::clone(&running.keeper.shared);
    let mut read = pin!(shared.append(ended(1), Durability::Soon));
    assert!(poll(read.as_mut()).is_none());
    running.keeper.step();
    assert!(poll(read.as_mut()).is_some());
}

#[test]
fn checkpoints_never_lag_so_far_that_they_look_removed() {
    let desk = Desk::new();
    let mut running = desk.started();
    for n in 0..2000 {
        running.soon(ended(n)).expect("written");
        assert!(running.health().unanchored <= super::MAX_UNANCHORED);
    }
    assert_eq!(desk.verdict(), Verdict::Intact);
    running.keeper.step();
    assert!(running.health().unanchored < 256);
    let before = running.health().anchored_through;
    running.soon(ended(1)).expect("written");
    desk.time.pass(60_000);
    running.keeper.step();
    assert!(running.health().anchored_through > before, "after a minute");
}

#[test]
fn rotation_links_the_files_and_the_border_is_anchored() {
    let mut desk = Desk::new();
    desk.settings.rotate_bytes = 2000;
    let mut running = desk.started();
    for n in 0..40 {
        running.soon(ended(n)).expect("written");
        running.keeper.step();
    }
    desk.time.pass(100);
    running.keeper.step();
    let report = desk.verify();
    assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
    assert!(report.segments > 5);
    assert_eq!(desk.count("/event", "audit.rotated"), report.segments as usize - 1);
    let target = desk.files.read_link(&Layout::of(home()).link()).expect("a link");
    assert_eq!(target, format!("audit/{:06}.jsonl", report.segments));
    assert!(report.checkpoints >= u64::from(report.segments), "one at each border");
}

#[test]
fn retention_removes_what_is_old_and_verify_says_where_it_begins() {
    let mut desk = Desk::new();
    desk.settings.rotate_bytes = 2000;
    desk.settings.retention_days = 1;
    let mut running = desk.started();
    for n in 0..40 {
        running.soon(ended(n)).expect("written");
        running.keeper.step();
    }
    desk.time.pass(100);
    running.keeper.step();
    let before = desk.verify().segments;
    desk.time.pass(2 * 86_400_000);
    running.soon(ended(99)).expect("written");
    running.keeper.step();
    running.keeper.step();
    let report = desk.verify();
    assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
    assert_eq!(report.begins_at.map(|(segment, _)| segment), Some(before), "all but the one being written");
    // Removed by hand, one more is missed.
    let desk2 = Desk::new();
    let mut running = desk2.started();
    for n in 0..40 {
        running.soon(ended(n)).expect("written");
    }
    running.keeper.shared.journal().rotate().expect("rotates");
    desk2.time.pass(100);
    running.stop();
    desk2.files.delete(&Layout::of(home()).segment(1));
    assert_eq!(desk2.verdict(), Verdict::Missing);
}

#[test]
fn a_torn_tail_is_set_aside() {
    for tail in [&b"{\"v\":1,\"se"[..], &[0; 500], b"\0\0\n\0"] {
        let desk = Desk::new();
        let mut running = desk.started();
        running.synced(ended(1)).expect("written");
        let path = Layout::of(home()).segment(1);
        let good = desk.files.bytes(&path);
        desk.files.set_bytes(&path, [&good[..], tail].concat());
        assert_eq!(desk.verdict(), Verdict::Torn);
        let running = desk.started();
        assert_eq!(running.opened.torn_bytes, Some(tail.len() as u64));
        assert_eq!(desk.files.bytes(&Layout::of(home()).audit.join("torn-2.bin")), tail);
        assert_eq!(desk.verdict(), Verdict::Intact);
        let records = desk.records();
        let record = records.iter().find(|record| record["event"] == "audit.torn").expect("a recovery record");
        assert_eq!(record["detail"]["bytes"], tail.len());
        assert_eq!(record["detail"]["hash"], Digest::of(tail).to_string());
    }
}

#[test]
fn every_byte_a_crash_can_stop_at() {
    let desk = Desk::new();
    let mut running = desk.started();
    running.synced(Entry::Intent(facts(1))).expect("written");
    let path = Layout::of(home()).segment(1);
    let before = desk.files.bytes(&path);
    running.soon(ended(1)).expect("written");
    let after = desk.files.bytes(&path);
    for cut in (before.len()..after.len()).step_by(7).chain([after.len() - 1]) {
        for zeros in [false, true] {
            let mut bytes = after[..cut].to_vec();
            if zeros {
                bytes.extend(std::iter::repeat_n(0, 4096));
            }
            desk.files.set_bytes(&path, bytes);
            let reopened = desk.started();
            assert_eq!(reopened.opened.unanswered.len(), 1, "the effect may have happened");
            assert_eq!(desk.verdict(), Verdict::Intact, "cut at {cut}");
            desk.files.set_bytes(&path, before.clone());
            desk.files.delete(&Layout::of(home()).checkpoints());
        }
    }
}

#[test]
fn a_begun_effect_is_reported_once() {
    let desk = Desk::new();
    let mut running = desk.started();
    running.start_event();
    running.synced(Entry::Intent(facts(1))).expect("written");
    running.synced(Entry::Intent(facts(2))).expect("written");
    running.synced(ended(1)).expect("written");
    let reopened = desk.started();
    let call = Uuid::from_u128(2).to_string();
    assert_eq!(reopened.opened.unanswered, [(call.clone(), "filesystem.delete".to_owned())]);
    assert_eq!(desk.count("/detail/call", &call), 1);
    // A crash before the start event does not report it again, nor does any later start.
    let mut again = desk.started();
    assert_eq!(again.opened.unanswered, []);
    again.start_event();
    assert_eq!(desk.started().opened.unanswered, []);
    assert_eq!(desk.verdict(), Verdict::Intact);
}

#[test]
fn a_begun_effect_is_found_over_rotations() {
    let mut desk = Desk::new();
    desk.settings.rotate_bytes = 1500;
    let mut running = desk.started();
    running.start_event();
    running.synced(Entry::Intent(facts(500))).expect("written");
    running.synced(Entry::Intent(facts(501))).expect("written");
    for n in 0..20 {
        running.synced(ended(n)).expect("written");
    }
    running.synced(ended(501)).expect("written");
    assert!(desk.verify().segments > 3);
    let calls: Vec<_> = desk.started().opened.unanswered.into_iter().map(|(call, _)| call).collect();
    assert_eq!(calls, [Uuid::from_u128(500).to_string()]);
}

#[test]
fn a_cut_or_forked_log_is_not_appended_to_until_accepted() {
    type Hurt = fn(&Memory, &std::path::Path);
    let hurts: [(Verdict, Hurt); 4] = [
        (Verdict::Truncated, |files, path| files.set_bytes(path, files.bytes(path)[..900].to_vec())),
        (Verdict::Truncated, |files, path| files.set_bytes(path, Vec::new())),
        (Verdict::Missing, |files, path| files.delete(path)),
        (Verdict::Broken, |files, path| {
            let mut bytes = files.bytes(path);
            bytes[1000] ^= 1;
            files.set_bytes(path, bytes);
        }),
    ];
    for (verdict, hurt) in hurts {
        let desk = Desk::new();
        let mut running = desk.started();
        for n in 0..6 {
            running.synced(ended(n)).expect("written");
        }
        running.stop();
        let layout = Layout::of(home());
        hurt(&desk.files, &layout.segment(1));
        let bytes = desk.files.bytes(&layout.segment(1));
        match desk.open() {
            Err(OpenError::Refused(report)) => assert_eq!(report.verdict, verdict),
            other => panic!("{verdict}: {:?}", other.map(|running| running.opened)),
        }
        assert_eq!(desk.files.bytes(&layout.segment(1)), bytes, "nothing was appended");
        let report = desk.verify();
        let person = Principal::Person { uid: 1000 };
        accept(home(), &desk.files, &*desk.time, &*desk.ids, &person, &report).expect("accepted");
        let verified = desk.verify();
        assert_eq!(verified.verdict, Verdict::Intact, "{verdict}: {:?}", verified.faults);
        assert_eq!(verified.accepted.len(), 1);
        let mut running = desk.started();
        running.synced(ended(9)).expect("written");
        assert_eq!(desk.verdict(), Verdict::Intact);
    }
}

#[test]
fn a_full_disk_refuses_and_recovers_and_the_owed_outcome_comes_first() {
    let desk = Desk::new();
    let mut running = desk.started();
    running.synced(Entry::Intent(facts(1))).expect("written");
    desk.files.trouble_in(1, Trouble::Short);
    assert!(running.synced(ended(1)).is_err(), "the effect has happened, its outcome waits");
    assert_eq!(running.health().owed, 1);
    assert!(running.soon(ended(2)).is_err(), "reads are refused too");
    assert!(running.health().down.is_some());
    for _ in 0..3 {
        desk.time.pass(1000);
        running.keeper.step();
        assert!(running.health().down.is_some());
    }
    desk.files.heal();
    running.keeper.step();
    assert!(running.health().down.is_some(), "not before its second is over");
    desk.time.pass(1000);
    running.keeper.step();
    assert!(running.health().down.is_none());
    running.synced(ended(3)).expect("written");
    assert_eq!(desk.verdict(), Verdict::Intact);
    let phases: Vec<String> =
        desk.records().iter().map(|r| r["phase"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(phases, ["segment", "intent", "recovery", "outcome", "outcome", "outcome"]);
    assert_eq!(desk.count("/call", &Uuid::from_u128(1).to_string()), 2);
}

#[test]
fn a_failed_sync_poisons_the_segment() {
    let desk = Desk::new();
    let mut running = desk.started();
    running.synced(ended(1)).expect("written");
    desk.files.trouble_in(2, Trouble::Once);
    assert!(running.synced(ended(2)).is_err());
    assert!(running.health().down.is_none(), "the next segment took over at once");
    running.synced(ended(3)).expect("written");
    let report = desk.verify();
    assert_eq!((report.verdict, report.segments), (Verdict::Intact, 2), "{:?}", report.faults);
    assert_eq!(desk.count("/event", "audit.poisoned"), 1);
    assert_eq!(
        desk.count("/call", &Uuid::from_u128(2).to_string()),
        1,
        "it could be read back, and is not written twice"
    );
}

#[test]
fn while_syncs_fail_nothing_runs() {
    let desk = Desk::new();
    let mut running = desk.started();
    desk.files.trouble_in(1, Trouble::Syncs);
    assert!(running.synced(Entry::Intent(facts(1))).is_err());
    assert!(running.soon(ended(2)).is_err());
    desk.time.pass(5000);
    running.keeper.step();
    assert!(running.health().down.is_some());
    desk.files.heal();
    desk.time.pass(1000);
    running.keeper.step();
    running.synced(ended(3)).expect("written");
    assert_eq!(desk.verdict(), Verdict::Intact, "{:?}", desk.verify().faults);
}

#[test]
fn a_log_that_cannot_be_written_at_start_opens_down() {
    let desk = Desk::new();
    // Keys are made first: three files of six operations each.
    desk.files.trouble_in(19, Trouble::FromNow);
    let mut running = desk.started();
    assert!(running.opened.down.is_some());
    assert!(running.soon(ended(1)).is_err());
    desk.files.heal();
    desk.time.pass(1000);
    running.keeper.step();
    running.synced(ended(2)).expect("written");
    assert_eq!(desk.verdict(), Verdict::Intact);
    assert_eq!(desk.count("/phase", "outcome"), 2);
}

#[test]
fn the_copy_has_the_same_bytes_and_its_failure_shows() {
    let mut desk = Desk::new();
    desk.settings.copy_to = Some("second".into());
    desk.settings.rotate_bytes = 2000;
    let mut running = desk.started();
    for n in 0..20 {
        running.synced(ended(n)).expect("written");
    }
    let layout = Layout::of(home());
    for number in layout.segments(&desk.files).expect("readable") {
        let name = layout::segment_name(number);
        assert_eq!(
            desk.files.bytes(&std::path::Path::new("second").join(name)),
            desk.files.bytes(&layout.segment(number))
        );
    }
    assert_eq!(running.health().copy_fault, None);
    // One that is longer than the log is evidence: it is left alone, and the log goes on.
    let last = layout::segment_name(desk.verify().segments);
    let copy = std::path::Path::new("second").join(last);
    let more = [desk.files.bytes(&copy), b"more".to_vec()].concat();
    desk.files.set_bytes(&copy, more.clone());
    let mut reopened = desk.started();
    desk.settings.copy_required = true;
    reopened.keeper.step();
    assert_eq!(desk.files.bytes(&copy), more);
    let mut strict = desk.started();
    assert!(strict.synced(Entry::Intent(facts(77))).is_err(), "a required copy blocks");
}

#[test]
fn a_lost_or_foreign_key_is_not_replaced_in_silence() {
    let desk = Desk::new();
    desk.started().stop();
    let layout = Layout::of(home());
    let public = desk.files.bytes(&layout.public_key());
    desk.files.set_bytes(&layout.public_key(), public.iter().rev().copied().collect());
    assert!(matches!(desk.open(), Err(OpenError::Key(_))));
    desk.files.set_bytes(&layout.public_key(), public);
    assert!(desk.open().is_ok());
    desk.files.delete(&layout.signing_key());
    assert!(matches!(desk.open(), Err(OpenError::Key(keys::KeyError::Gone))));
    desk.files.set_bytes(&layout.salt(), vec![1; 31]);
    assert!(matches!(desk.open(), Err(OpenError::Key(keys::KeyError::Damaged(..)))));
}

#[test]
fn while_checkpoints_cannot_be_written_the_log_stops_before_it_looks_tampered_with() {
    let desk = Desk::new();
    let mut running = desk.started();
    let layout = Layout::of(home());
    desk.files.refuse(Some(layout.checkpoints()));
    let mut written = 0;
    while running.soon(ended(written)).is_ok() {
        written += 1;
        running.keeper.step();
        assert!(written < 2000, "never went down");
    }
    for _ in 0..100 {
        desk.time.pass(1000);
        running.keeper.step();
        assert!(running.health().down.is_some());
    }
    assert_eq!(desk.verdict(), Verdict::Intact, "{:?}", desk.verify().faults);
    desk.files.refuse(None);
    desk.time.pass(2000);
    running.keeper.step();
    running.synced(ended(1)).expect("written");
    assert_eq!(desk.verdict(), Verdict::Intact);
}

#[test]
fn after_a_stop_nobody_waits_in_vain() {
    let desk = Desk::new();
    let files: Arc<dyn Files> = Arc::new(desk.files.clone());
    let (log, _) =
        AuditLog::open(home(), files, Settings::default(), desk.time.clone(), desk.ids.clone()).expect("opens");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    assert!(runtime.block_on(log.intent(facts(1))).is_ok(), "the thread syncs");
    log.stop();
    assert!(runtime.block_on(log.intent(facts(2))).is_err());
    assert!(log.check().is_err());
    let report = desk.verify();
    assert_eq!((report.verdict, report.unanchored), (Verdict::Intact, 0));
}

/// Runs a fixed piece of work with trouble at every single operation in turn.
#[test]
fn trouble_at_every_operation() {
    let work = |running: &mut Running, done: &mut Vec<Seq>| {
        for n in 0..4 {
            done.extend(running.synced(Entry::Intent(facts(n))).ok());
            done.extend(running.soon(ended(n)).ok());
        }
        running.keeper.step();
    };
    let operations = {
        let mut desk = Desk::new();
        desk.settings.rotate_bytes = 1500;
        let mut running = desk.started();
        let before = desk.files.operations();
        work(&mut running, &mut Vec::new());
        desk.files.operations() - before
    };
    assert!(operations > 20, "{operations}");
    for trouble in [Trouble::Once, Trouble::FromNow, Trouble::Short, Trouble::Syncs] {
        // A single failure is tried at every place; what lasts, at every third.
        let step = if trouble == Trouble::Once { 1 } else { 3 };
        for at in (1..=operations).step_by(step) {
            let mut desk = Desk::new();
            desk.settings.rotate_bytes = 1500;
            let mut running = desk.started();
            desk.files.trouble_in(at, trouble);
            let mut done = Vec::new();
            work(&mut running, &mut done);
            let seen = |desk: &Desk| {
                let seqs: Vec<Seq> = desk.records().iter().filter_map(|record| record["seq"].as_u64()).collect();
                done.iter().all(|seq| seqs.contains(seq))
            };
            desk.files.heal();
            // The daemon may go on in the same process, or be killed and started again.
            if at % 2 == 0 {
                desk.time.pass(1000);
                running.keeper.step();
                running.synced(ended(100)).expect("up again");
            } else {
                drop(running);
                desk.started().synced(ended(100)).expect("up again");
            }
            let report = desk.verify();
            assert_eq!(report.verdict, Verdict::Intact, "{trouble:?} at {at}: {:?}", report.faults);
            assert!(seen(&desk), "{trouble:?} at {at}: an acknowledged record is gone");
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Synced,
    Soon(u8),
    Pass(u64),
    Rotate,
    Restart,
    Kill,
    PowerCut,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Synced),
        4 => (1..40_u8).prop_map(Op::Soon),
        3 => (0..70_000_u64).prop_map(Op::Pass),
        1 => Just(Op::Rotate),
        2 => Just(Op::Restart),
        2 => Just(Op::Kill),
        2 => Just(Op::PowerCut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Any order of work, rotations, restarts, kills and power cuts leaves a log that is whole after the next start, and no record that
    /// was promised to be on the disk is ever gone.
    #[test]
    fn no_false_alarm_and_no_lost_promise(ops in prop::collection::vec(op(), 1..50), seed in any::<u64>()) {
        let mut desk = Desk::new();
        desk.settings.rotate_bytes = 4000;
        let random = Counted(AtomicU64::new(seed));
        let mut running = desk.started();
        let mut promised: Vec<u128> = Vec::new();
        let mut written: Vec<u128> = Vec::new();
        for (n, op) in (0_u128..).zip(ops) {
            match op {
                Op::Synced => {
                    prop_assert!(running.synced(ended(n)).is_ok());
                    promised.push(n);
                    promised.append(&mut written);
                }
                Op::Soon(count) => {
                    for _ in 0..count {
                        prop_assert!(running.soon(ended(n)).is_ok());
                    }
                    written.push(n);
                }
                Op::Pass(ms) => {
                    desk.time.pass(ms);
                    running.keeper.step();
                }
                Op::Rotate => {
                    running.keeper.shared.journal().rotate().expect("rotates");
                    running.keeper.step();
                }
                Op::Restart => {
                    running.stop();
                    prop_assert_eq!(desk.verdict(), Verdict::Intact);
                    running = desk.started();
                    promised.append(&mut written);
                }
                Op::Kill => {
                    prop_assert_eq!(desk.verdict(), Verdict::Intact, "killed");
                    running = desk.started();
                    promised.append(&mut written);
                }
                Op::PowerCut => {
                    desk.files.power_cut(|| random.next());
                    let found = desk.verify();
                    prop_assert!(matches!(found.verdict, Verdict::Intact | Verdict::Torn), "{:?}", found.faults);
                    written.clear();
                    running = desk.started();
                }
            }
        }
        running.stop();
        let report = desk.verify();
        prop_assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
        let calls: std::collections::HashSet<String> =
            desk.records().iter().filter_map(|record| Some(record["call"].as_str()?.to_owned())).collect();
        for n in promised {
            prop_assert!(calls.contains(&Uuid::from_u128(n).to_string()), "a promised record is gone");
        }
    }
}
