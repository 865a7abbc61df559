//! Measures the start time, the memory and the idle processor time of the daemon, and compares them
//! with an empty tokio daemon in the same run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const STARTS: usize = 21;
const IDLE: Duration = Duration::from_secs(10);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("empty") {
        return empty();
    }
    let me = std::env::current_exe().unwrap();
    println!(
        "{:<10} {:>14} {:>14} {:>10} {:>10} {:>10}",
        "", "ready p50 ms", "ready max ms", "RSS MB", "own MB", "idle %"
    );
    let conductor = std::path::Path::new(env!("CARGO_BIN_EXE_conductor"));
    for (name, program, arguments) in [
        ("empty", me.as_path(), &["empty"][..]),
        ("conductor", conductor, &["--json", "up", "--http", "127.0.0.1:0"][..]),
        // The demo also opens a patch and a Set.
        ("the demo", conductor, &["--json", "up", "--demo", "--http", "127.0.0.1:0"][..]),
    ] {
        let mut starts: Vec<f64> = (0..STARTS).map(|_| measured(program, arguments, |_| ()).0).collect();
        starts.sort_by(f64::total_cmp);
        let (_, (rss, own, idle)) = measured(program, arguments, |child| {
            let before = ticks(child.id());
            std::thread::sleep(IDLE);
            let used = ticks(child.id()) - before;
            // The kernel counts in hundredths of a second.
            (rss_mb(child.id(), "VmRSS:"), rss_mb(child.id(), "RssAnon:"), used as f64 / IDLE.as_secs_f64())
        });
        let (p50, max) = (starts[STARTS / 2], starts[STARTS - 1]);
        println!("{name:<10} {p50:>14.1} {max:>14.1} {rss:>10.1} {own:>10.1} {idle:>10.2}");
    }
}

/// Starts a daemon in a new home, waits for its first line, calls `look`, and kills the daemon.
/// Returns the milliseconds until the first line.
fn measured<T>(program: &std::path::Path, arguments: &[&str], look: impl FnOnce(&Child) -> T) -> (f64, T) {
    let home = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .env("CONDUCTOR_HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let ready = start.elapsed().as_secs_f64() * 1000.0;
    assert!(!line.is_empty(), "the daemon did not start");
    let seen = look(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    (ready, seen)
}

/// The smallest daemon on this runtime: two workers, one socket, one signal.
fn empty() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let home = std::env::var_os("CONDUCTOR_HOME").unwrap();
        let _socket = tokio::net::UnixListener::bind(std::path::Path::new(&home).join("s")).unwrap();
        println!("ready");
        tokio::signal::ctrl_c().await.unwrap();
    });
}

fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// `VmRSS` includes the shared pages of the program file; `RssAnon` includes only the private
/// memory of the process.
fn rss_mb(pid: u32, row: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|it| it.starts_with(row)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
