//! Measures the cost of the audit log, and compares it with a plain log that appends each record
//! and calls `fdatasync`, and with SQLite, which commits one row for each call with
//! `synchronous=FULL`.
//!
//! Prints the median and the range over the rounds. Every round measures all three, because the
//! cost of a sync depends on the load of the disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the real clock")]

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use conductor_core::audit::{CallFacts, OutcomeFacts, Verdict};
use conductor_core::digest::Digest;
use conductor_core::error::AuditResult;
use conductor_core::policy::Tier;
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::audit_log::layout::Layout;
use conductor_gateway::audit_log::{AuditLog, Durability, Settings, keys, walk};
use conductor_hosts::system::{Clock, Ids, RandomIds, RealClock};
use sha2::{Digest as _, Sha256};

fn facts(log: &AuditLog) -> CallFacts {
    CallFacts {
        call: RandomIds.v4(),
        principal: Principal::socket(1000, "bench"),
        conn: Some("c1".into()),
        tool: "live_get_song_overview".into(),
        tier: Some(Tier::ReadOnly),
        pin: Some(Digest::of(b"pin")),
        input_hash: log.input_hash(&serde_json::json!({"track": 3, "detail": "full"})),
        input: None,
        via: None,
        script: None,
        approval: None,
    }
}

const OUTCOME: OutcomeFacts =
    OutcomeFacts { result: AuditResult::Ok, code: None, effect: None, attempts: 1, duration_ms: 3, output_bytes: 1000 };

/// Numbers of concurrent calls.
const CALLERS: [u64; 3] = [1, 16, 64];

fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn show(name: &str, mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    println!(
        "{name:<58} {median:>10.0}/s   ({:.0} .. {:.0}, {} rounds)",
        rates[0],
        rates[rates.len() - 1],
        rates.len()
    );
    median
}

async fn reads(log: &AuditLog, count: u64) -> f64 {
    let log = log.clone();
    let started = Instant::now();
    let task = tokio::spawn(async move {
        for _ in 0..count {
            log.outcome(facts(&log), OUTCOME, Durability::Soon).await.expect("written");
        }
    });
    task.await.expect("no panic");
    rate(count, started.elapsed())
}

async fn effects(log: &AuditLog, callers: u64, each: u64) -> f64 {
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let log = log.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    let facts = facts(&log);
                    log.intent(facts.clone()).await.expect("written");
                    log.outcome(facts, OUTCOME, Durability::Synced).await.expect("written");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    rate(callers * each, started.elapsed())
}

/// A table in SQLite, with one connection for all callers, as most programs use it.
fn sqlite(path: &std::path::Path) -> Mutex<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(path).expect("opens");
    let set_up = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS calls (line TEXT);";
    connection.execute_batch(set_up).expect("created");
    Mutex::new(connection)
}

fn rows(table: &Mutex<rusqlite::Connection>, callers: u64, each: u64) -> f64 {
    let line = "x".repeat(560);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| {
                for _ in 0..each {
                    let connection = table.lock().expect("no panic");
                    let mut insert = connection.prepare_cached("INSERT INTO calls VALUES (?1)").expect("prepared");
                    insert.execute([&line]).expect("committed");
                }
            });
        }
    });
    rate(callers * each, started.elapsed())
}

fn plain(path: &std::path::Path, count: u64, sync: bool) -> f64 {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("opens");
    let line = [b'x'; 560];
    let started = Instant::now();
    for _ in 0..count {
        file.write_all(&line).expect("written");
        if sync {
            file.sync_data().expect("synced");
        }
    }
    rate(count, started.elapsed())
}

/// Measures the processor time of a record: the record is encoded but not written.
fn plain_encode(log: &AuditLog) -> Vec<f64> {
    let mut chain = conductor_core::audit::Chain::start();
    let mut line = Vec::new();
    (0..5)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..40_000 {
                line.clear();
                let ts = Timestamp::from_millis(1_767_323_045_000);
                let stamp = conductor_core::audit::Stamp { id: RandomIds.v7(ts.as_millis()), ts };
                chain.append(&stamp, &conductor_core::audit::Entry::Outcome(facts(log), OUTCOME), &mut line);
            }
            rate(40_000, started.elapsed())
        })
        .collect()
}

fn main() {
    let home = tempfile::tempdir().expect("a folder");
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let settings = Settings::default();
    let (log, _) = AuditLog::open(home.path(), Arc::new(Disk), settings, clock, Arc::new(RandomIds)).expect("opens");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    // Use two files: in a shared file, the first sync would also write the data that was appended
    // without a sync.
    let (other, synced) = (home.path().join("plain"), home.path().join("plain-synced"));

    let table = sqlite(&home.path().join("rows.db"));
    let [mut read, mut written, mut bare] = [const { Vec::new() }; 3];
    let [mut effect, mut row] = [const { [const { Vec::new() }; CALLERS.len()] }; 2];
    for _ in 0..7 {
        read.push(runtime.block_on(reads(&log, 40_000)));
        written.push(plain(&other, 40_000, false));
        for (nth, callers) in CALLERS.into_iter().enumerate() {
            let syncs = log.health().syncs.count();
            effect[nth].push(runtime.block_on(effects(&log, callers, 50)));
            let synced = log.health().syncs.count() - syncs;
            assert!(callers > 1 || synced >= 100, "only {synced} syncs for the 100 records of a single caller");
            row[nth].push(rows(&table, callers, 50));
        }
        bare.push(plain(&synced, 100, true));
    }
    let alone = plain_encode(&log);
    show("only encoding: facts, hashes and line, nothing written", alone);
    show("reads: chained, written before the answer, 1 caller", read);
    show("plain append without sync", written);
    show("plain append + fdatasync for each record", bare);
    for ((callers, effect), row) in CALLERS.into_iter().zip(effect).zip(row) {
        let ours = show(&format!("calls with an effect: intent and outcome synced, {callers} callers"), effect);
        let theirs = show(&format!("SQLite: one row committed for each call, {callers} callers"), row);
        println!("{callers} callers: {:.2} times as many calls as SQLite", ours / theirs);
    }
    log.stop();

    let layout = Layout::of(home.path());
    let key = keys::public_key(&Disk, &layout).expect("a key").expect("a key");
    let (mut verified, mut hashed) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let started = Instant::now();
        let report = walk::verify(&Disk, &layout, Some(&key), None, &[], &mut |_| {}).expect("readable");
        assert_eq!(report.verdict, Verdict::Intact, "{:?}", report.faults);
        verified.push(rate(report.records, started.elapsed()));
        let started = Instant::now();
        for number in layout.segments(&Disk).expect("readable") {
            let mut hash = Sha256::new();
            let mut file = std::fs::File::open(layout.segment(number)).expect("opens");
            let mut piece = vec![0; 1 << 20];
            loop {
                let read = file.read(&mut piece).expect("readable");
                if read == 0 {
                    break;
                }
                hash.update(&piece[..read]);
            }
            std::hint::black_box(hash.finalize());
        }
        hashed.push(rate(report.records, started.elapsed()));
    }
    let verified = show("audit verify", verified);
    let hashed = show("SHA-256 of the same files", hashed);
    println!("verify takes {:.2}x the time of the plain hash", hashed / verified);
}
