//! The log without its thread: each test calls the syncer's step itself, so that time and failures
//! are deterministic.

pub mod memory;

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use conductor_core::audit::memory::Remembered;
use conductor_core::audit::verify::{Report, Verdict};
use conductor_core::audit::{CallFacts, Entry, OutcomeFacts};
use conductor_core::digest::Digest;
use conductor_core::error::AuditResult;
use conductor_core::policy::Tier;
use memory::{Memory, Trouble};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::files::Files;
use super::layout::Layout;
use super::memory as memory_of;
use super::*;
use conductor_hosts::system::{ManualClock, SeededIds};

fn home() -> &'static std::path::Path {
    std::path::Path::new("home")
}

/// A daemon's log with files in memory.
struct TestLog {
    files: Memory,
    time: Arc<ManualClock>,
    ids: Arc<SeededIds>,
    settings: Settings,
}

struct Running {
    syncer: Syncer,
    opened: Opened,
}

impl TestLog {
    fn new() -> Self {
        let ids = SeededIds::new(7);
        Self {
            files: Memory::default(),
            time: ManualClock::at_wall_ms(1_767_323_045_000),
            ids,
            settings: Settings::default(),
        }
    }

    fn open(&self) -> Result<Running, OpenError> {
        let files: Arc<dyn Files> = Arc::new(self.files.clone());
        let clock: Arc<dyn Clock> = self.time.clone();
        let (syncer, opened) = open::open(home(), files, self.settings.clone(), clock, self.ids.clone())?;
        Ok(Running { syncer, opened })
    }

    fn started(&self) -> Running {
        self.open().expect("not open")
    }

    fn verify(&self) -> Report {
        let layout = Layout::of(home());
        let key = keys::public_key(&self.files, &layout).expect("no key");
        walk::verify(&self.files, &layout, key.as_ref(), None, &self.recall(), &mut |_| {}).expect("not readable")
    }

    fn recall(&self) -> Vec<Remembered> {
        memory_of::recall(&self.files, &Layout::of(home()), self.settings.copy_to.as_deref()).expect("not readable")
    }

    fn accept(&self) {
        let (report, person) = (self.verify(), Principal::Person { uid: 1000 });
        let place = (home(), self.settings.copy_to.as_deref());
        let remembered = self.recall();
        accept(place, &self.files, &*self.time, &*self.ids, &person, (&report, &remembered)).expect("not accepted");
    }

    fn verdict(&self) -> Verdict {
        self.verify().verdict
    }

    fn records(&self) -> Vec<Value> {
        let layout = Layout::of(home());
        let mut records = Vec::new();
        for number in layout.segments(&self.files).expect("not readable") {
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
        script: None,
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

type Answer = Result<Seq, UnavailableError>;

fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl Running {
    /// Writes a record that does not wait for the disk.
    fn soon(&mut self, entry: Entry) -> Answer {
        let shared = Arc::clone(&self.syncer.shared);
        let mut future = pin!(shared.append(entry, Durability::Soon));
        loop {
            if let Some(answer) = poll(future.as_mut()) {
                return answer;
            }
            // The future waits for a checkpoint, which this step writes.
            self.syncer.step();
        }
    }

    fn synced(&mut self, entry: Entry) -> Answer {
        let shared = Arc::clone(&self.syncer.shared);
        let mut future = pin!(shared.append(entry, Durability::Synced));
        for _ in 0..5 {
            if let Some(answer) = poll(future.as_mut()) {
                return answer;
            }
            self.syncer.step();
        }
        panic!("the caller was not woken within five steps");
    }

    fn start_event(&mut self) {
        let (_, entry) = self.syncer.shared.segments().event(EventName::DaemonStart, json!({}));
        self.synced(entry).expect("not written");
    }

    fn health(&self) -> Health {
        self.syncer.shared.health()
    }

    fn syncs(&self) -> u64 {
        self.health().syncs.count()
    }

    fn stop(mut self) {
        self.syncer.stopping = true;
        self.syncer.step();
    }
}

#[test]
fn a_fresh_log_is_anchored_from_its_first_line() {
    let log = TestLog::new();
    let running = log.started();
    assert!(running.opened.fresh);
    let report = log.verify();
    assert_eq!((report.verdict, report.records, report.anchored_through), (Verdict::Intact, 1, Some(0)));
    assert_eq!(log.files.read_link(&Layout::of(home()).link()).expect("no link"), "audit/000001.jsonl");
    log.files.set_bytes(&Layout::of(home()).segment(1), Vec::new());
    assert_eq!(log.verdict(), Verdict::Truncated);
}

#[test]
fn an_effect_waits_for_the_disk_and_a_read_does_not() {
    let log = TestLog::new();
    let mut running = log.started();
    let syncs = running.syncs();
    let shared = Arc::clone(&running.syncer.shared);
    let mut intent = pin!(shared.append(Entry::Intent(facts(1)), Durability::Synced));
    assert!(poll(intent.as_mut()).is_none(), "the intent did not wait for the sync");
    assert!(running.soon(ended(2)).is_ok());
    running.syncer.step();
    assert!(matches!(poll(intent.as_mut()), Some(Ok(1))));
    assert_eq!(running.syncs(), syncs + 1, "the two records did not share one sync");

    assert!(running.soon(ended(3)).is_ok());
    log.time.advance(Duration::from_millis(99));
    running.syncer.step();
    assert_eq!(running.syncs(), syncs + 1);
    log.time.advance(Duration::from_millis(1));
    running.syncer.step();
    assert_eq!(running.syncs(), syncs + 2, "the read was not synced after 100 ms");
    assert_eq!(log.verdict(), Verdict::Intact);
}

#[test]
fn many_waiters_share_one_sync() {
    let log = TestLog::new();
    let mut running = log.started();
    let shared = Arc::clone(&running.syncer.shared);
    let mut calls: Vec<_> =
        (0..64).map(|n| Box::pin(shared.append(Entry::Intent(facts(n)), Durability::Synced))).collect();
    assert!(calls.iter_mut().all(|call| poll(call.as_mut()).is_none()));
    let syncs = running.syncs();
    running.syncer.step();
    assert_eq!(running.syncs(), syncs + 1);
    assert!(calls.iter_mut().all(|call| matches!(poll(call.as_mut()), Some(Ok(_)))));
}

#[test]
fn reads_wait_when_told_to() {
    let mut log = TestLog::new();
    log.settings.reads_wait = true;
    let mut running = log.started();
    let shared = Arc::clone(&running.syncer.shared);
    let mut read = pin!(shared.append(ended(1), Durability::Soon));
    assert!(poll(read.as_mut()).is_none());
    running.syncer.step();
    assert!(poll(read.as_mut()).is_some());
}

#[test]
fn checkpoints_never_lag_so_far_that_they_look_removed() {
    let log = TestLog::new();
    let mut running = log.started();
    for n in 0..2000 {
        running.soon(ended(n)).expect("not written");
        assert!(running.health().unanchored <= super::MAX_UNANCHORED);
    }
    assert_eq!(log.verdict(), Verdict::Intact);
    running.syncer.step();
    assert!(running.health().unanchored < 256);
    let before = running.health().anchored_through;
    running.soon(ended(1)).expect("not written");
    log.time.advance(Duration::from_millis(60_000));
    running.syncer.step();
    assert!(running.health().anchored_through > before, "no checkpoint was written after a minute");
}

#[test]
fn rotation_links_the_files_and_the_border_is_anchored() {
    let mut log = TestLog::new();
    log.settings.rotate_bytes = 2000;
    let mut running = log.started();
    for n in 0..40 {
        running.soon(ended(n)).expect("not written");
        running.syncer.step();
    }
    log.time.advance(Duration::from_millis(100));
    running.syncer.step();
    let report = log.verify();
    assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
    assert!(report.segments > 5);
    assert_eq!(log.count("/event", "audit.rotated"), report.segments as usize - 1);
    let target = log.files.read_link(&Layout::of(home()).link()).expect("no link");
    assert_eq!(target, format!("audit/{:06}.jsonl", report.segments));
    assert!(report.checkpoints >= u64::from(report.segments), "a segment border has no checkpoint");
}

#[test]
fn retention_removes_what_is_old_and_verify_says_where_it_begins() {
    let mut log = TestLog::new();
    log.settings.rotate_bytes = 2000;
    log.settings.retention_days = 1;
    let mut running = log.started();
    for n in 0..40 {
        running.soon(ended(n)).expect("not written");
        running.syncer.step();
    }
    log.time.advance(Duration::from_millis(100));
    running.syncer.step();
    let before = log.verify().segments;
    log.time.advance(Duration::from_millis(2 * 86_400_000));
    running.soon(ended(99)).expect("not written");
    running.syncer.step();
    running.syncer.step();
    let report = log.verify();
    assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
    assert_eq!(
        report.begins_at.map(|(segment, _)| segment),
        Some(before),
        "the log does not begin at the active segment"
    );
    // A segment that is deleted without a record of the removal is reported as missing.
    let desk2 = TestLog::new();
    let mut running = desk2.started();
    for n in 0..40 {
        running.soon(ended(n)).expect("not written");
    }
    running.syncer.shared.segments().rotate().expect("does not rotate");
    desk2.time.advance(Duration::from_millis(100));
    running.stop();
    desk2.files.delete(&Layout::of(home()).segment(1));
    assert_eq!(desk2.verdict(), Verdict::Missing);
}

#[test]
fn a_torn_tail_is_set_aside() {
    for tail in [&b"{\"v\":1,\"se"[..], &[0; 500], b"\0\0\n\0"] {
        let log = TestLog::new();
        let mut running = log.started();
        running.synced(ended(1)).expect("not written");
        let path = Layout::of(home()).segment(1);
        let good = log.files.bytes(&path);
        log.files.set_bytes(&path, [&good[..], tail].concat());
        assert_eq!(log.verdict(), Verdict::Torn);
        let running = log.started();
        assert_eq!(running.opened.torn_bytes, Some(tail.len() as u64));
        assert_eq!(log.files.bytes(&Layout::of(home()).audit.join("torn-2.bin")), tail);
        assert_eq!(log.verdict(), Verdict::Intact);
        let records = log.records();
        let record = records.iter().find(|record| record["event"] == "audit.torn").expect("no recovery record");
        assert_eq!(record["detail"]["bytes"], tail.len());
        assert_eq!(record["detail"]["hash"], Digest::of(tail).to_string());
    }
}

#[test]
fn every_byte_a_crash_can_stop_at() {
    let log = TestLog::new();
    let mut running = log.started();
    running.synced(Entry::Intent(facts(1))).expect("not written");
    let path = Layout::of(home()).segment(1);
    let before = log.files.bytes(&path);
    let copied = log.copied();
    running.soon(ended(1)).expect("not written");
    let after = log.files.bytes(&path);
    for cut in (before.len()..after.len()).step_by(7).chain([after.len() - 1]) {
        for zeros in [false, true] {
            let mut bytes = after[..cut].to_vec();
            if zeros {
                bytes.extend(std::iter::repeat_n(0, 4096));
            }
            log.files.set_bytes(&path, bytes);
            let reopened = log.started();
            assert_eq!(reopened.opened.unanswered.len(), 1, "the effect without an outcome was not reported");
            assert_eq!(log.verdict(), Verdict::Intact, "cut at {cut}");
            log.put_back(&copied, true);
        }
    }
}

#[test]
fn a_begun_effect_is_reported_once() {
    let log = TestLog::new();
    let mut running = log.started();
    running.start_event();
    running.synced(Entry::Intent(facts(1))).expect("not written");
    running.synced(Entry::Intent(facts(2))).expect("not written");
    running.synced(ended(1)).expect("not written");
    let reopened = log.started();
    let call = Uuid::from_u128(2).to_string();
    assert_eq!(reopened.opened.unanswered, [(call.clone(), "filesystem.delete".to_owned())]);
    assert_eq!(log.count("/detail/call", &call), 1);
    // After a crash before the start event, the call is not reported again, neither now nor at
    // later starts.
    let mut again = log.started();
    assert_eq!(again.opened.unanswered, []);
    again.start_event();
    assert_eq!(log.started().opened.unanswered, []);
    assert_eq!(log.verdict(), Verdict::Intact);
}

#[test]
fn a_begun_effect_is_found_over_rotations() {
    let mut log = TestLog::new();
    log.settings.rotate_bytes = 1500;
    let mut running = log.started();
    running.start_event();
    running.synced(Entry::Intent(facts(500))).expect("not written");
    running.synced(Entry::Intent(facts(501))).expect("not written");
    for n in 0..20 {
        running.synced(ended(n)).expect("not written");
    }
    running.synced(ended(501)).expect("not written");
    assert!(log.verify().segments > 3);
    let calls: Vec<_> = log.started().opened.unanswered.into_iter().map(|(call, _)| call).collect();
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
        let log = TestLog::new();
        let mut running = log.started();
        for n in 0..6 {
            running.synced(ended(n)).expect("not written");
        }
        running.stop();
        let layout = Layout::of(home());
        hurt(&log.files, &layout.segment(1));
        let bytes = log.files.bytes(&layout.segment(1));
        match log.open() {
            Err(OpenError::Refused(report)) => assert_eq!(report.verdict, verdict),
            other => panic!("{verdict}: {:?}", other.map(|running| running.opened)),
        }
        assert_eq!(log.files.bytes(&layout.segment(1)), bytes, "a log that was refused has changed");
        log.accept();
        let verified = log.verify();
        assert_eq!(verified.verdict, Verdict::Intact, "{verdict}: {:?}", verified.faults);
        assert_eq!(verified.accepted.len(), 1);
        let mut running = log.started();
        running.synced(ended(9)).expect("not written");
        assert_eq!(log.verdict(), Verdict::Intact);
    }
}

#[test]
fn a_full_disk_refuses_and_recovers_and_the_owed_outcome_comes_first() {
    let log = TestLog::new();
    let mut running = log.started();
    running.synced(Entry::Intent(facts(1))).expect("not written");
    log.files.trouble_in(1, Trouble::Short);
    assert!(running.synced(ended(1)).is_err(), "an outcome was accepted, although the disk is full");
    assert_eq!(running.health().unwritten, 1);
    assert!(running.soon(ended(2)).is_err(), "a read was accepted while the log was down");
    assert!(running.health().down.is_some());
    for _ in 0..3 {
        log.time.advance(Duration::from_millis(1000));
        running.syncer.step();
        assert!(running.health().down.is_some());
    }
    log.files.heal();
    running.syncer.step();
    assert!(running.health().down.is_some(), "the log was up again before a second had passed");
    log.time.advance(Duration::from_millis(1000));
    running.syncer.step();
    assert!(running.health().down.is_none());
    running.synced(ended(3)).expect("not written");
    assert_eq!(log.verdict(), Verdict::Intact);
    let phases: Vec<String> =
        log.records().iter().map(|r| r["phase"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(phases, ["segment", "intent", "recovery", "outcome", "outcome", "outcome"]);
    assert_eq!(log.count("/call", &Uuid::from_u128(1).to_string()), 2);
}

#[test]
fn a_failed_sync_poisons_the_segment() {
    let log = TestLog::new();
    let mut running = log.started();
    running.synced(ended(1)).expect("not written");
    log.files.trouble_in(2, Trouble::Once);
    assert!(running.synced(ended(2)).is_err());
    assert!(running.health().down.is_none(), "the log did not continue in the next segment");
    running.synced(ended(3)).expect("not written");
    let report = log.verify();
    assert_eq!((report.verdict, report.segments), (Verdict::Intact, 2), "{:?}", report.faults);
    assert_eq!(log.count("/event", "audit.poisoned"), 1);
    assert_eq!(
        log.count("/call", &Uuid::from_u128(2).to_string()),
        1,
        "an outcome that was read back was written twice"
    );
}

#[test]
fn while_syncs_fail_nothing_runs() {
    let log = TestLog::new();
    let mut running = log.started();
    log.files.trouble_in(1, Trouble::Syncs);
    assert!(running.synced(Entry::Intent(facts(1))).is_err());
    assert!(running.soon(ended(2)).is_err());
    log.time.advance(Duration::from_millis(5000));
    running.syncer.step();
    assert!(running.health().down.is_some());
    log.files.heal();
    log.time.advance(Duration::from_millis(1000));
    running.syncer.step();
    running.synced(ended(3)).expect("not written");
    assert_eq!(log.verdict(), Verdict::Intact, "{:?}", log.verify().faults);
}

#[test]
fn a_log_that_cannot_be_written_at_start_opens_down() {
    let log = TestLog::new();
    // The salt is created first, in six operations.
    log.files.trouble_in(7, Trouble::FromNow);
    let mut running = log.started();
    assert!(running.opened.down.is_some());
    assert!(running.soon(ended(1)).is_err());
    log.files.heal();
    log.time.advance(Duration::from_millis(1000));
    running.syncer.step();
    running.synced(ended(2)).expect("not written");
    assert_eq!(log.verdict(), Verdict::Intact);
    assert_eq!(log.count("/phase", "outcome"), 2);
}

#[test]
fn the_copy_has_the_same_bytes_and_its_failure_shows() {
    let mut log = TestLog::new();
    log.settings.copy_to = Some("second".into());
    log.settings.rotate_bytes = 2000;
    let mut running = log.started();
    for n in 0..20 {
        running.synced(ended(n)).expect("not written");
    }
    let layout = Layout::of(home());
    for number in layout.segments(&log.files).expect("not readable") {
        let name = layout::segment_name(number);
        assert_eq!(
            log.files.bytes(&std::path::Path::new("second").join(name)),
            log.files.bytes(&layout.segment(number))
        );
    }
    assert_eq!(running.health().copy_fault, None);
    // A copy that is longer than the log is evidence: it is not changed, and the log continues.
    let last = layout::segment_name(log.verify().segments);
    let copy = std::path::Path::new("second").join(last);
    let more = [log.files.bytes(&copy), b"more".to_vec()].concat();
    log.files.set_bytes(&copy, more.clone());
    let mut reopened = log.started();
    log.settings.copy_required = true;
    reopened.syncer.step();
    assert_eq!(log.files.bytes(&copy), more);
    // The cause stays visible although the next attempt is not due yet.
    for n in 20..22 {
        reopened.synced(ended(n)).expect("not written");
        let fault = reopened.health().copy_fault.expect("no fault");
        assert!(fault.contains("differs between the copy and the log"), "{fault}");
    }
    let mut strict = log.started();
    assert!(strict.synced(Entry::Intent(facts(77))).is_err(), "a record was accepted without the required copy");
}

#[test]
fn a_lost_or_foreign_key_is_not_replaced_in_silence() {
    let log = TestLog::new();
    log.started().stop();
    let layout = Layout::of(home());
    let public = log.files.bytes(&layout.public_key());
    log.files.set_bytes(&layout.public_key(), public.iter().rev().copied().collect());
    assert!(matches!(log.open(), Err(OpenError::Key(_))));
    log.files.set_bytes(&layout.public_key(), public);
    assert!(log.open().is_ok());
    log.files.delete(&layout.signing_key());
    assert!(matches!(log.open(), Err(OpenError::Key(keys::KeyError::Gone))));
    log.files.set_bytes(&layout.salt(), vec![1; 31]);
    assert!(matches!(log.open(), Err(OpenError::Key(keys::KeyError::Damaged(..)))));
}

#[test]
fn while_checkpoints_cannot_be_written_the_log_stops_before_it_looks_tampered_with() {
    let log = TestLog::new();
    let mut running = log.started();
    let layout = Layout::of(home());
    log.files.refuse(Some(layout.checkpoints()));
    let mut written = 0;
    while running.soon(ended(written)).is_ok() {
        written += 1;
        running.syncer.step();
        assert!(written < 2000, "the log never went down");
    }
    for _ in 0..100 {
        log.time.advance(Duration::from_millis(1000));
        running.syncer.step();
        assert!(running.health().down.is_some());
    }
    assert_eq!(log.verdict(), Verdict::Intact, "{:?}", log.verify().faults);
    log.files.refuse(None);
    log.time.advance(Duration::from_millis(2000));
    running.syncer.step();
    running.synced(ended(1)).expect("not written");
    assert_eq!(log.verdict(), Verdict::Intact);
}

#[test]
fn after_a_stop_nobody_waits_in_vain() {
    let files_in_memory = TestLog::new();
    let files: Arc<dyn Files> = Arc::new(files_in_memory.files.clone());
    let (log, _) =
        AuditLog::open(home(), files, Settings::default(), files_in_memory.time.clone(), files_in_memory.ids.clone())
            .expect("not open");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("no runtime");
    assert!(runtime.block_on(log.intent(facts(1))).is_ok(), "the intent was not written");
    log.stop();
    assert!(runtime.block_on(log.intent(facts(2))).is_err());
    assert!(log.check().is_err());
    let report = files_in_memory.verify();
    assert_eq!((report.verdict, report.unanchored), (Verdict::Intact, 0));
}

/// Runs the same work several times, each time with a failure at another operation.
#[test]
fn trouble_at_every_operation() {
    let work = |running: &mut Running, done: &mut Vec<Seq>| {
        for n in 0..4 {
            done.extend(running.synced(Entry::Intent(facts(n))).ok());
            done.extend(running.soon(ended(n)).ok());
        }
        running.syncer.step();
    };
    let operations = {
        let mut log = TestLog::new();
        log.settings.rotate_bytes = 1500;
        let mut running = log.started();
        let before = log.files.operations();
        work(&mut running, &mut Vec::new());
        log.files.operations() - before
    };
    assert!(operations > 20, "{operations}");
    for trouble in [Trouble::Once, Trouble::FromNow, Trouble::Short, Trouble::Syncs] {
        // A single failure is tested at every operation, a lasting failure at every third.
        let step = if trouble == Trouble::Once { 1 } else { 3 };
        for at in (1..=operations).step_by(step) {
            let mut log = TestLog::new();
            log.settings.rotate_bytes = 1500;
            let mut running = log.started();
            log.files.trouble_in(at, trouble);
            let mut done = Vec::new();
            work(&mut running, &mut done);
            let seen = |log: &TestLog| {
                let seqs: Vec<Seq> = log.records().iter().filter_map(|record| record["seq"].as_u64()).collect();
                done.iter().all(|seq| seqs.contains(seq))
            };
            log.files.heal();
            // The daemon continues in the same process, or is killed and started again.
            if at % 2 == 0 {
                log.time.advance(Duration::from_millis(1000));
                running.syncer.step();
                running.synced(ended(100)).expect("still down");
            } else {
                drop(running);
                log.started().synced(ended(100)).expect("still down");
            }
            let report = log.verify();
            assert_eq!(report.verdict, Verdict::Intact, "{trouble:?} at {at}: {:?}", report.faults);
            assert!(seen(&log), "{trouble:?} at {at}: an acknowledged record is lost");
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

    /// After any sequence of work, rotations, restarts, kills and power cuts, the log is valid at
    /// the next start. No record that was reported as synced is lost.
    #[test]
    fn no_false_alarm_and_no_lost_promise(ops in prop::collection::vec(op(), 1..50), seed in any::<u64>()) {
        let mut log = TestLog::new();
        log.settings.rotate_bytes = 4000;
        let random = SeededIds::new(seed);
        let mut running = log.started();
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
                    log.time.advance(Duration::from_millis(ms));
                    running.syncer.step();
                }
                Op::Rotate => {
                    running.syncer.shared.segments().rotate().expect("does not rotate");
                    running.syncer.step();
                }
                Op::Restart => {
                    running.stop();
                    prop_assert_eq!(log.verdict(), Verdict::Intact);
                    running = log.started();
                    promised.append(&mut written);
                }
                Op::Kill => {
                    prop_assert_eq!(log.verdict(), Verdict::Intact, "killed");
                    running = log.started();
                    promised.append(&mut written);
                }
                Op::PowerCut => {
                    log.files.power_cut(|| random.next());
                    let found = log.verify();
                    prop_assert!(matches!(found.verdict, Verdict::Intact | Verdict::Torn), "{:?}", found.faults);
                    written.clear();
                    running = log.started();
                }
            }
        }
        running.stop();
        let report = log.verify();
        prop_assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
        let calls: std::collections::HashSet<String> =
            log.records().iter().filter_map(|record| Some(record["call"].as_str()?.to_owned())).collect();
        for n in promised {
            prop_assert!(calls.contains(&Uuid::from_u128(n).to_string()), "an acknowledged record is lost");
        }
    }
}

type Copied = (Vec<(std::path::PathBuf, Vec<u8>)>, Vec<u8>, Vec<u8>);

impl TestLog {
    /// Segments, checkpoints and stored last checkpoint, as in a copy of the home.
    fn copied(&self) -> Copied {
        let layout = Layout::of(home());
        let numbers = layout.segments(&self.files).expect("not readable");
        let segments = numbers.iter().map(|it| (layout.segment(*it), self.files.bytes(&layout.segment(*it))));
        let state = self.files.bytes(&layout.state.join("audit.last"));
        (segments.collect(), self.files.bytes(&layout.checkpoints()), state)
    }

    fn put_back(&self, copied: &Copied, with_memory: bool) {
        let layout = Layout::of(home());
        for number in layout.segments(&self.files).expect("not readable") {
            self.files.delete(&layout.segment(number));
        }
        copied.0.iter().for_each(|(path, bytes)| self.files.set_bytes(path, bytes.clone()));
        self.files.set_bytes(&layout.checkpoints(), copied.1.clone());
        if with_memory {
            self.files.set_bytes(&layout.state.join("audit.last"), copied.2.clone());
        }
    }

    fn refused(&self) -> Option<Verdict> {
        match self.open() {
            Err(OpenError::Refused(report)) => Some(report.verdict),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        }
    }
}

fn work(log: &TestLog, from: u128) {
    let mut running = log.started();
    for n in from..from + 5 {
        running.synced(ended(n)).expect("not written");
    }
    running.stop();
}

#[test]
fn a_log_that_is_gone_is_not_a_new_log() {
    let layout = Layout::of(home());
    let files = [layout.segment(1), layout.checkpoints(), layout.link()];
    let memories = [layout.state.join("audit.last"), layout.public_key(), layout.signing_key()];
    // Delete the log and some of the three other files. Test every combination in which at least
    // one of these three files is left.
    for survivors in 1..8_usize {
        let log = TestLog::new();
        work(&log, 0);
        files.iter().for_each(|path| log.files.delete(path));
        let gone = memories.iter().enumerate().filter(|(n, _)| survivors >> n & 1 == 0);
        gone.for_each(|(_, path)| log.files.delete(path));
        match log.open() {
            Err(OpenError::Refused(report)) => assert_eq!(report.verdict, Verdict::Missing, "{survivors:03b}"),
            Err(OpenError::Key(keys::KeyError::Gone)) => assert_eq!(survivors & 6, 2, "the signing key is left too"),
            other => panic!("{survivors:03b}: {:?}", other.map(|it| it.opened)),
        }
        log.accept();
        assert_eq!(log.verdict(), Verdict::Intact, "{survivors:03b}: {:?}", log.verify().faults);
        work(&log, 100);
        assert_eq!(log.verdict(), Verdict::Intact, "{survivors:03b}");
        assert_eq!(log.count("/event", "audit.accepted"), 1);
    }
}

#[test]
fn a_log_put_back_with_its_checkpoints_is_found_by_what_remembers_more() {
    for with_copy in [false, true] {
        let mut log = TestLog::new();
        log.settings.copy_to = with_copy.then(|| "second".into());
        work(&log, 0);
        let old = log.copied();
        work(&log, 100);
        log.put_back(&old, with_copy);
        assert_eq!(log.verdict(), Verdict::Truncated);
        for _ in 0..2 {
            assert_eq!(log.refused(), Some(Verdict::Truncated), "the log was not refused");
        }
        log.accept();
        assert_eq!(log.verdict(), Verdict::Intact, "{:?}", log.verify().faults);
        let accepted = log.records().into_iter().find(|it| it["event"] == "audit.accepted").expect("no record");
        assert_eq!(
            (&accepted["detail"]["verdict"], &accepted["principal"]),
            (&"TRUNCATED".into(), &"person:1000".into())
        );
        assert!(log.started().synced(ended(300)).is_ok());
    }
    // A rollback of the log together with all places that store its last checkpoint is not
    // detected. The help text of `audit verify` states this.
    let log = TestLog::new();
    work(&log, 0);
    let old = log.copied();
    work(&log, 100);
    log.put_back(&old, true);
    assert_eq!(log.refused(), None);
}

#[test]
fn a_shortened_or_missing_checkpoint_file_is_found() {
    let layout = Layout::of(home());
    let without_last = |bytes: Vec<u8>| {
        let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes[..end].to_vec()
    };
    for cut in [without_last, |_| Vec::new()] {
        let log = TestLog::new();
        work(&log, 0);
        log.files.set_bytes(&layout.checkpoints(), cut(log.files.bytes(&layout.checkpoints())));
        assert_eq!(log.refused(), Some(Verdict::Missing));
        assert_eq!(log.verdict(), Verdict::Missing);
        log.accept();
        assert_eq!((log.refused(), log.verdict()), (None, Verdict::Intact), "{:?}", log.verify().faults);
    }
    // All files of the log in `state/` are deleted, including the stored last checkpoint.
    let log = TestLog::new();
    work(&log, 0);
    for path in [layout.checkpoints(), layout.public_key(), layout.salt(), layout.state.join("audit.last")] {
        log.files.delete(&path);
    }
    assert_eq!(log.refused(), Some(Verdict::Missing));
}

#[test]
fn a_memory_that_was_removed_is_found_once_the_log_says_that_there_is_one() {
    let last = Layout::of(home()).state.join("audit.last");
    for says in [false, true] {
        let log = TestLog::new();
        let mut running = log.started();
        let (_, start) = running.syncer.shared.segments().event(EventName::DaemonStart, json!({ "remembered": says }));
        running.synced(start).expect("not written");
        running.stop();
        log.files.delete(&last);
        // The log of an earlier version names no place for the last checkpoint, so its absence is
        // not reported. Opening the log creates the place.
        let wanted = says.then_some(Verdict::Missing);
        assert_eq!((log.verdict() != Verdict::Intact, log.refused()), (says, wanted));
        if says {
            log.accept();
        }
        assert_eq!((log.refused(), log.verdict()), (None, Verdict::Intact), "{:?}", log.verify().faults);
        work(&log, 50);
        assert!(!log.files.bytes(&last).is_empty());
    }
}

#[test]
fn a_crash_anywhere_in_the_first_start_is_no_alarm() {
    let operations = {
        let log = TestLog::new();
        drop(log.started());
        log.files.operations()
    };
    assert!(operations > 20, "{operations}");
    for at in 1..=operations {
        for cut in [false, true] {
            let log = TestLog::new();
            // From this operation on nothing is written to the disk, as if the daemon had been
            // killed.
            log.files.trouble_in(at, Trouble::FromNow);
            drop(log.open());
            log.files.heal();
            if cut {
                log.files.power_cut(|| 0);
            }
            let opened = log.open();
            let mut running = opened.unwrap_or_else(|fault| panic!("killed at {at}, power cut {cut}: {fault}"));
            running.synced(ended(1)).expect("not written");
            running.stop();
            assert_eq!(log.verdict(), Verdict::Intact, "killed at {at}: {:?}", log.verify().faults);
        }
    }
}

#[test]
fn rotation_and_retention_with_memories_are_no_alarm() {
    let mut log = TestLog::new();
    log.settings.rotate_bytes = 1500;
    log.settings.retention_days = 1;
    log.settings.copy_to = Some("second".into());
    for round in 0..4_u128 {
        work(&log, round * 100);
        log.time.advance(Duration::from_millis(2 * 86_400_000));
        assert_eq!(log.refused(), None, "round {round}");
        assert_eq!(log.verdict(), Verdict::Intact, "round {round}: {:?}", log.verify().faults);
    }
    assert!(log.verify().begins_at.is_some(), "no segment was removed");
}

#[test]
fn a_second_copy_that_returns_with_a_later_memory_keeps_it() {
    let mut log = TestLog::new();
    log.settings.copy_to = Some("second".into());
    work(&log, 0);
    let memory = std::path::Path::new("second").join("audit.last");
    let old = log.copied();
    work(&log, 100);
    let later = log.files.bytes(&memory);
    // The disk of the second copy is not mounted while the log is rolled back and gets new records.
    log.files.delete(&memory);
    log.put_back(&old, true);
    let mut running = log.started();
    log.files.set_bytes(&memory, later.clone());
    running.synced(ended(200)).expect("not written");
    log.time.advance(Duration::from_millis(60_000));
    running.syncer.step();
    assert_eq!(log.files.bytes(&memory), later, "the later checkpoint in the second copy was replaced");
    drop(running);
    assert!(log.refused().is_some());
}

#[test]
fn a_call_that_does_not_wait_is_written_once_and_first() {
    let log = TestLog::new();
    let mut running = log.started();
    let keep = |running: &Running, n: u128| {
        let Entry::Outcome(facts, outcome) = ended(n) else { unreachable!() };
        let mut segments = running.syncer.shared.segments();
        let stamp = segments.stamp();
        segments.holds_outcome(facts.call) || segments.keep_for_retry(stamp, Entry::Outcome(facts, outcome))
    };
    // The log is up, so the syncer writes the outcome in its next step.
    assert!(keep(&running, 1) && keep(&running, 1));
    running.syncer.step();
    assert_eq!(log.count("/call", &Uuid::from_u128(1).to_string()), 1);
    // The log is down. Refused calls must not use the places that are reserved for calls that ran.
    log.files.trouble_in(1, Trouble::FromNow);
    for n in 1000..1400 {
        let Entry::Outcome(facts, outcome) = ended(n) else { unreachable!() };
        let refused = OutcomeFacts { attempts: 0, ..outcome };
        assert!(running.soon(Entry::Outcome(facts, refused)).is_err());
    }
    assert_eq!(running.health().unwritten, 128);
    assert!(keep(&running, 2) && keep(&running, 2));
    log.files.heal();
    log.time.advance(Duration::from_millis(1000));
    running.syncer.step();
    running.synced(ended(3)).expect("not written");
    assert_eq!(log.count("/call", &Uuid::from_u128(2).to_string()), 1);
    let lost = log.records().iter().find_map(|it| it.pointer("/detail/outcomes_lost")?.as_u64());
    assert_eq!(lost, Some(400 - 128));
    assert_eq!(log.verdict(), Verdict::Intact);
}

#[test]
fn a_refused_log_stays_down_whatever_the_disk_does() {
    let log = TestLog::new();
    let mut running = log.started();
    running.syncer.shared.segments().refuse("another place remembers more");
    for _ in 0..3 {
        log.time.advance(Duration::from_millis(5000));
        running.syncer.step();
        assert_eq!(running.synced(ended(1)).unwrap_err().to_string(), "another place remembers more");
    }
}
