//! Measures the commands that read the audit log, on a log of ten million records: the start of the
//! daemon, `audit verify`, `audit tail` and a filtered `audit list`, each with its peak memory. For
//! comparison, `sha256sum`, `tail` and `grep` read the same files.
//!
//! The first argument sets another number of records. A record takes about 600 bytes on disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the real clock")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use conductor_core::audit::{CallFacts, OutcomeFacts};
use conductor_core::config::Audit;
use conductor_core::digest::Digest;
use conductor_core::error::AuditResult;
use conductor_core::policy::Tier;
use conductor_core::principal::Principal;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::audit_log::{AuditLog, Durability, Settings};
use conductor_hosts::system::{Clock, Ids, RandomIds, RealClock};

const ROUNDS: usize = 5;
/// One of this many records is about the tool that the measured `audit list` filters by.
const RARE: u64 = 100_000;

fn main() {
    let records = std::env::args().filter_map(|it| it.parse().ok()).next().unwrap_or(10_000_000);
    let home = tempfile::tempdir().expect("a folder");
    let start = Instant::now();
    write_log(home.path(), records);
    println!("{records} records, {:.0} MB, written in {:.0} s", size_mb(home.path()), start.elapsed().as_secs_f64());
    println!("{:<34} {:>12} {:>22} {:>14}", "", "median s", "range s", "peak MB");
    let segments: Vec<String> = segments(home.path());
    let newest = segments.last().expect("a segment").clone();
    let files: Vec<&str> = segments.iter().map(String::as_str).collect();
    let conductor = env!("CARGO_BIN_EXE_conductor");
    show("start of the daemon", (0..ROUNDS).map(|_| start_daemon(home.path())).collect());
    let ours = |words: &[&str]| commands(home.path(), conductor, words);
    let theirs = |program: &str, words: &[&str]| commands(home.path(), program, words);
    show("audit verify", ours(&["audit", "verify"]));
    show("  sha256sum of the same files", theirs("sha256sum", &files));
    show("audit tail", ours(&["audit", "tail", "--number", "10"]));
    show("  tail of the newest file", theirs("tail", &["-n", "10", &newest]));
    show("audit list --tool (one in 100,000)", ours(&["audit", "list", "--tool", "web.fetch"]));
    let words: Vec<&str> = ["-F", "web.fetch"].into_iter().chain(files.iter().copied()).collect();
    show("  grep for the same tool", theirs("grep", &words));
}

fn write_log(home: &Path, records: u64) {
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let settings = Settings::from(&Audit::default());
    let (log, _) = AuditLog::open(home, Arc::new(Disk), settings, clock, Arc::new(RandomIds)).expect("opens");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let outcome = OutcomeFacts {
        result: AuditResult::Ok,
        code: None,
        effect: None,
        attempts: 1,
        duration_ms: 3,
        output_bytes: 1000,
    };
    runtime.block_on(async {
        for at in 0..records {
            let tool = if at % RARE == RARE / 2 { "web.fetch" } else { "live_get_song_overview" };
            let facts = CallFacts {
                call: RandomIds.v4(),
                principal: Principal::socket(1000, "bench"),
                conn: Some("c1".into()),
                tool: tool.into(),
                tier: Some(Tier::ReadOnly),
                pin: Some(Digest::of(b"pin")),
                input_hash: log.input_hash(&serde_json::json!({ "track": 3 })),
                input: None,
                via: None,
                script: None,
                approval: None,
            };
            log.outcome(facts, outcome.clone(), Durability::Soon).await.expect("written");
        }
    });
    log.stop();
}

fn segments(home: &Path) -> Vec<String> {
    let files = std::fs::read_dir(home.join("audit")).expect("a log").map(|it| it.unwrap().path());
    let mut names: Vec<String> = files
        .filter(|it| it.is_file() && it.extension().is_some_and(|it| it == "jsonl" || it == "log"))
        .map(|it| it.to_str().unwrap().to_owned())
        .filter(|it| !it.contains("checkpoints"))
        .collect();
    names.sort();
    names
}

fn size_mb(home: &Path) -> f64 {
    segments(home).iter().map(|it| std::fs::metadata(it).unwrap().len()).sum::<u64>() as f64 / 1e6
}

/// Seconds, and peak memory in megabytes.
type Measured = (f64, f64);

fn start_daemon(home: &Path) -> Measured {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_conductor"))
        .args(["--json", "up", "--http", "127.0.0.1:0"])
        .env("CONDUCTOR_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let ready = start.elapsed().as_secs_f64();
    assert!(!line.is_empty(), "the daemon did not start");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    (ready, wait(child))
}

fn commands(home: &Path, program: &str, arguments: &[&str]) -> Vec<Measured> {
    let run = || {
        let start = Instant::now();
        let child = Command::new(program)
            .args(arguments)
            .env("CONDUCTOR_HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let peak = wait(child);
        (start.elapsed().as_secs_f64(), peak)
    };
    (0..ROUNDS).map(|_| run()).collect()
}

/// Waits for the end of the child, and returns its peak memory in megabytes.
fn wait(child: Child) -> f64 {
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both pointers are valid for the call, and a zeroed `rusage` is a valid value.
    let usage = unsafe {
        let ended = libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr());
        assert!(ended > 0 && status == 0, "the command failed with {status}");
        usage.assume_init()
    };
    usage.ru_maxrss as f64 / 1024.0
}

fn show(name: &str, mut rounds: Vec<Measured>) {
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let peak = rounds.iter().map(|it| it.1).fold(0.0, f64::max);
    let range = format!("{:.3} .. {:.3}", rounds[0].0, rounds[ROUNDS - 1].0);
    println!("{name:<34} {:>12.3} {range:>22} {peak:>14.1}", rounds[ROUNDS / 2].0);
}
