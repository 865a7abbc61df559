//! Measures several servers with one client and the same kind of call. Rounds of different servers
//! alternate. Prints medians with ranges. Uses only the standard library.
//!
//! `callbench [-n CALLS] [-r ROUNDS] TARGET...` compares targets; the first target is the
//! reference. `callbench idle COUNT SOCKET PID` prints how much memory that many idle clients cost
//! a daemon.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a separate program that measures real time"
)]

mod server;

use server::{Server, Target, resident_kib};
use std::io;
use std::process::ExitCode;
use std::time::Instant;

const IN_FLIGHT: usize = 64;

/// The figures of one target, with one number per round.
#[derive(Default)]
struct Figures {
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    alone: Vec<f64>,
    alone_work_us: Vec<f64>,
    crowd: Vec<f64>,
    crowd_work_us: Vec<f64>,
    first_ms: Vec<f64>,
    resident_kib: Vec<f64>,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn measure(target: &Target, calls: usize, figures: &mut Figures) -> io::Result<()> {
    let mut server = Server::open(target)?;
    figures.first_ms.push(server.first.as_secs_f64() * 1000.0);
    for id in 0..calls / 10 {
        server.call(id)?;
        server.reply()?;
    }
    let mut times = Vec::with_capacity(calls);
    let (worked, started) = (server.worked_us(), Instant::now());
    for id in 0..calls {
        let sent = Instant::now();
        server.call(1_000_000 + id)?;
        server.reply()?;
        times.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    let each = |count: usize, worked: u64, server: &Server<'_>| (server.worked_us() - worked) as f64 / count as f64;
    figures.alone.push(calls as f64 / started.elapsed().as_secs_f64());
    figures.alone_work_us.push(each(calls, worked, &server));
    figures.p50_us.push(median(&mut times));
    figures.p99_us.push(times.get(times.len() * 99 / 100).copied().unwrap_or(0.0));

    server.widen(IN_FLIGHT)?;
    let many = calls * 4;
    let (worked, started) = (server.worked_us(), Instant::now());
    let (mut sent, mut answered) = (0, 0);
    while answered < many {
        while sent < many && sent - answered < IN_FLIGHT {
            server.call(2_000_000 + sent)?;
            sent += 1;
        }
        server.reply()?;
        answered += 1;
    }
    figures.crowd.push(many as f64 / started.elapsed().as_secs_f64());
    figures.crowd_work_us.push(each(many, worked, &server));
    figures.resident_kib.push(server.resident_kib() as f64);
    Ok(())
}

fn compare(targets: &[Target], calls: usize, rounds: usize) {
    let mut all: Vec<Figures> = targets.iter().map(|_| Figures::default()).collect();
    for round in 0..rounds {
        for (target, figures) in targets.iter().zip(&mut all) {
            if let Err(fault) = measure(target, calls, figures) {
                eprintln!("{} in round {}: {fault}", target.name, round + 1);
            }
        }
    }
    println!(
        "{:<22} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>7} {:>7}",
        "", "p50 us", "p99 us", "calls/s", "cpu us", "64: /s", "cpu us", "first ms", "MiB", "p50 x", "64 x"
    );
    let mut base = (1.0, 1.0);
    for (at, (target, f)) in targets.iter().zip(&mut all).enumerate() {
        let (p50, crowd) = (median(&mut f.p50_us), median(&mut f.crowd));
        if at == 0 {
            base = (p50, crowd);
        }
        println!(
            "{:<22} {p50:>9.0} {:>9.0} {:>9.0} {:>9.0} {crowd:>10.0} {:>9.0} {:>9.1} {:>9.1} {:>7.2} {:>7.2}",
            target.name,
            median(&mut f.p99_us),
            median(&mut f.alone),
            median(&mut f.alone_work_us),
            median(&mut f.crowd_work_us),
            median(&mut f.first_ms),
            median(&mut f.resident_kib) / 1024.0,
            p50 / base.0,
            crowd / base.1,
        );
        let range = |it: &[f64]| format!("{:.0}..{:.0}", it.first().unwrap_or(&0.0), it.last().unwrap_or(&0.0));
        println!("{:<22} {:>9} {:>19} {:>20}", "", range(&f.p50_us), range(&f.alone), range(&f.crowd));
    }
}

/// Prints the memory that connected but idle clients cost a daemon.
fn idle(count: usize, socket: &str, pid: u32) -> io::Result<()> {
    let target = Target::parse(&format!("idle=unix:{socket}@none")).ok_or(io::ErrorKind::InvalidInput)?;
    let gone = || io::Error::other("no such process");
    // Connect one client first: the first client makes the daemon load code, which is not a cost
    // per client.
    let mut clients = vec![Server::open(&target)?];
    let before = resident_kib(pid).ok_or_else(gone)?;
    for _ in 0..count {
        clients.push(Server::open(&target)?);
    }
    let grown = resident_kib(pid).ok_or_else(gone)?.saturating_sub(before);
    println!(
        "{count} idle line clients add {:.1} MiB, {} KiB each",
        grown as f64 / 1024.0,
        grown / count.max(1) as u64
    );
    Ok(())
}

fn main() -> ExitCode {
    let mut calls = 2000;
    let mut rounds = 3;
    let mut targets = Vec::new();
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if_eq("idle").is_some() {
        let (count, socket, pid) = (words.next(), words.next(), words.next());
        let number = |it: Option<String>| it.and_then(|it| it.parse().ok());
        let done = match (number(count), socket, number(pid)) {
            (Some(count), Some(socket), Some(pid)) => idle(count, &socket, u32::try_from(pid).unwrap_or_default()),
            _ => Err(io::Error::other("usage: callbench idle COUNT SOCKET PID")),
        };
        return done.map_or_else(
            |fault| {
                eprintln!("{fault}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    while let Some(word) = words.next() {
        match word.as_str() {
            "-n" => calls = words.next().and_then(|it| it.parse().ok()).unwrap_or(calls),
            "-r" => rounds = words.next().and_then(|it| it.parse().ok()).unwrap_or(rounds),
            _ => match Target::parse(&word) {
                Some(target) => targets.push(target),
                None => {
                    eprintln!("{word} is not a target such as NAME=unix:PATH@TOOL");
                    return ExitCode::from(2);
                }
            },
        }
    }
    compare(&targets, calls, rounds);
    ExitCode::SUCCESS
}
