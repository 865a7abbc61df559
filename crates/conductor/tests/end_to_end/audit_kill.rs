//! A writer under load is killed with SIGKILL at random times, many times: no acknowledged record
//! is lost, and the log is valid after each reopening.
//!
//! The writer is this same test binary, started as a child with a home in its environment.

use conductor_hosts::system::{Ids, RealClock, SeededIds};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::audit_files::{facts, good, verdict};
use conductor_core::audit::{EventName, Verdict};
use conductor_core::policy::Tier;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::audit_log::layout::Layout;
use conductor_gateway::audit_log::{AuditLog, Durability, Settings};
use serde_json::{Value, json};

const HOME: &str = "CONDUCTOR_KILL_HOME";
const SEED: &str = "CONDUCTOR_KILL_SEED";
const KILLS: u64 = 200;
/// Number of kills on one home before a new home is used.
const KILLS_PER_HOME: u64 = 25;

fn open(home: &Path, seed: u64) -> (AuditLog, usize) {
    let settings = Settings { rotate_bytes: 48 * 1024, ..Settings::default() };
    let ids = SeededIds::new(seed);
    let (log, opened) = AuditLog::open(home, Arc::new(Disk), settings, Arc::new(RealClock::new()), ids)
        .expect("the log could not be opened");
    assert_eq!(opened.down, None);
    (log, opened.unanswered.len())
}

/// Writes one line per acknowledgement: every line that the parent has read is a record that the
/// log must contain.
fn acknowledge(seq: u64, call: uuid::Uuid, phase: &str) {
    let line = format!("ack {seq} {call} {phase}\n");
    let mut out = std::io::stdout().lock();
    // The parent may have ended. The acknowledgement is not needed then.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

#[test]
#[ignore = "the child of killed_at_random_moments"]
#[expect(clippy::disallowed_methods, reason = "the child reads its home from the environment")]
fn writer() {
    let (Some(home), Some(seed)) = (std::env::var_os(HOME), std::env::var(SEED).ok()) else {
        return;
    };
    let seed: u64 = seed.parse().expect("a number");
    let (log, _) = open(Path::new(&home), seed);
    let outcome = good();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        log.event(None, None, EventName::DaemonStart, json!({}), Durability::Synced).await.expect("written");
        let tasks: Vec<_> = (0..6)
            .map(|n| {
                let (log, outcome) = (log.clone(), outcome.clone());
                tokio::spawn(async move {
                    let ids = SeededIds::new(seed ^ (n + 1));
                    // Runs until it is killed.
                    for _ in 0..u64::MAX {
                        let call = ids.v4();
                        if n % 2 == 0 {
                            let facts = facts(call, Tier::HardwareIo);
                            let seq = log.intent(facts.clone()).await.expect("written");
                            acknowledge(seq, call, "intent");
                            let seq = log.outcome(facts, outcome.clone(), Durability::Synced).await.expect("written");
                            acknowledge(seq, call, "outcome");
                        } else {
                            let facts = facts(call, Tier::ReadOnly);
                            let seq = log.outcome(facts, outcome.clone(), Durability::Soon).await.expect("written");
                            acknowledge(seq, call, "outcome");
                            tokio::task::yield_now().await;
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
}

type Promised = HashMap<u64, (String, String)>;

/// Starts a writer, kills it after `acks` lines of output, and reads the remaining lines. Returns
/// the number of acknowledgements.
fn write_and_kill(home: &Path, seed: u64, acks: u64, promised: &mut Promised) -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("own path"))
        .args(["--ignored", "--exact", "audit_kill::writer", "--nocapture", "--test-threads=1"])
        .env(HOME, home)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the writer could not be started");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut count = 0;
    let mut take = |lines: &mut std::io::Lines<BufReader<_>>| -> bool {
        let Some(Ok(line)) = lines.next() else {
            return false;
        };
        let words: Vec<&str> = line.split(' ').collect();
        // libtest prints its own output, and may share a line with the first acknowledgement.
        if let [.., "ack", seq, call, phase] = words[..] {
            promised.insert(seq.parse().expect("a number"), (call.to_owned(), phase.to_owned()));
            count += 1;
        }
        true
    };
    let mut seen = 0;
    while seen < acks {
        if !take(&mut lines) {
            let output = child.wait_with_output().expect("ended");
            panic!("the writer ended by itself: {}", String::from_utf8_lossy(&output.stderr));
        }
        seen += 1;
    }
    child.kill().expect("killed");
    while take(&mut lines) {}
    child.wait().expect("ended");
    count
}

fn check(home: &Path, promised: &Promised, context: &str) {
    let layout = Layout::of(home);
    let mut found: Promised = HashMap::new();
    for number in layout.segments(&Disk).expect("readable") {
        let text = std::fs::read_to_string(layout.segment(number)).expect("readable");
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).expect("a record");
            let word = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
            found.insert(record["seq"].as_u64().expect("a number"), (word("call"), word("phase")));
        }
    }
    for (seq, promise) in promised {
        assert_eq!(found.get(seq), Some(promise), "{context}: seq {seq}");
    }
}

#[test]
fn killed_at_random_moments() {
    let random = SeededIds::new(20);
    let (mut kills, mut promises, mut recovered, mut torn) = (0, 0, 0, 0);
    while kills < KILLS {
        let home = tempfile::tempdir().expect("a folder");
        let mut promised = HashMap::new();
        for _ in 0..KILLS_PER_HOME {
            let seed = random.next();
            promises += write_and_kill(home.path(), seed, 1 + random.next() % 120, &mut promised);
            kills += 1;
            let (before, faults) = verdict(home.path());
            assert!(matches!(before, Verdict::Intact | Verdict::Torn), "kill {kills}: {faults}");
            torn += u64::from(before == Verdict::Torn);
            if kills % 5 == 0 {
                let (log, unanswered) = open(home.path(), random.next());
                recovered += unanswered;
                log.stop();
                drop(log);
                let (after, faults) = verdict(home.path());
                assert_eq!(after, Verdict::Intact, "kill {kills}: {faults}");
                check(home.path(), &promised, &format!("kill {kills}"));
            }
        }
    }
    println!("{kills} kills, {promises} records found, {recovered} unfinished calls reported, {torn} torn ends");
    assert!(kills >= KILLS && promises > KILLS && recovered > 0);
}
