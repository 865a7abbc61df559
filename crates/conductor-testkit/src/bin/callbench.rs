//! One client for every server: the same echo call, servers interleaved, medians with ranges. Standard library only.
//!
//! `callbench [-n CALLS] [-r ROUNDS] NAME=unix:PATH NAME=stdio:PROGRAM,ARG,...[@TOOL,ARGUMENT]`. The first server is what the others are
//! compared with.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program of its own that measures real time"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const IN_FLIGHT: usize = 64;

struct Target {
    name: String,
    address: String,
    tool: String,
    argument: String,
}

impl Target {
    fn parse(word: &str) -> Option<Self> {
        let (name, rest) = word.split_once('=')?;
        let (address, how) = rest.split_once('@').unwrap_or((rest, "test_echo,text"));
        let (tool, argument) = how.split_once(',')?;
        Some(Self { name: name.into(), address: address.into(), tool: tool.into(), argument: argument.into() })
    }
}

enum Pipe {
    Socket(UnixStream),
    Child(ChildStdin),
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Socket(it) => it.write(bytes),
            Self::Child(it) => it.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Socket(it) => it.flush(),
            Self::Child(it) => it.flush(),
        }
    }
}

struct Server {
    write: Pipe,
    read: BufReader<Box<dyn Read>>,
    child: Option<Child>,
    line: String,
    /// From the start of the process, or of the connection, to the first reply.
    first: Duration,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Server {
    fn open(target: &Target) -> std::io::Result<Self> {
        let started = Instant::now();
        let (write, read, child): (Pipe, Box<dyn Read>, _) = match target.address.split_once(':') {
            Some(("unix", path)) => {
                let stream = UnixStream::connect(path)?;
                (Pipe::Socket(stream.try_clone()?), Box::new(stream), None)
            }
            Some(("stdio", command)) => {
                let mut words = command.split(',');
                let mut child = Command::new(words.next().unwrap_or_default())
                    .args(words)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()?;
                let gone = || std::io::Error::other("no pipe");
                let (stdin, stdout) = (child.stdin.take().ok_or_else(gone)?, child.stdout.take().ok_or_else(gone)?);
                (Pipe::Child(stdin), Box::new(stdout), Some(child))
            }
            _ => return Err(std::io::Error::other("unix:PATH or stdio:PROGRAM")),
        };
        let mut server = Self { write, read: BufReader::new(read), child, line: String::new(), first: Duration::ZERO };
        server.write.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\"init\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n")?;
        server.reply()?;
        server.first = started.elapsed();
        server.write.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(server)
    }

    /// The next line that answers something.
    fn reply(&mut self) -> std::io::Result<()> {
        loop {
            self.line.clear();
            if self.read.read_line(&mut self.line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if self.line.contains("\"result\"") {
                return Ok(());
            }
            if self.line.contains("\"error\"") {
                return Err(std::io::Error::other(self.line.clone()));
            }
        }
    }

    fn call(&mut self, target: &Target, id: usize) -> std::io::Result<()> {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{}\",\"arguments\":{{\"{}\":\"hello there\"}}}}}}\n",
            target.tool, target.argument
        );
        self.write.write_all(line.as_bytes())
    }

    fn rss_kib(&self) -> Option<u64> {
        let id = self.child.as_ref()?.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find(|it| it.starts_with("VmRSS"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}

#[derive(Default)]
struct Figures {
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    per_second: Vec<f64>,
    first_ms: Vec<f64>,
    rss_kib: Option<u64>,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn measure(target: &Target, calls: usize, figures: &mut Figures) -> std::io::Result<()> {
    let mut server = Server::open(target)?;
    figures.first_ms.push(server.first.as_secs_f64() * 1000.0);
    for id in 0..calls / 10 {
        server.call(target, id)?;
        server.reply()?;
    }
    let mut times = Vec::with_capacity(calls);
    for id in 0..calls {
        let started = Instant::now();
        server.call(target, 1_000_000 + id)?;
        server.reply()?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    figures.p50_us.push(median(&mut times));
    figures.p99_us.push(times.get(times.len() * 99 / 100).copied().unwrap_or(0.0));
    let many = calls * 4;
    let started = Instant::now();
    let (mut sent, mut answered) = (0, 0);
    while answered < many {
        while sent < many && sent - answered < IN_FLIGHT {
            server.call(target, 2_000_000 + sent)?;
            sent += 1;
        }
        server.reply()?;
        answered += 1;
    }
    figures.per_second.push(many as f64 / started.elapsed().as_secs_f64());
    figures.rss_kib = server.rss_kib();
    Ok(())
}

fn main() -> ExitCode {
    let mut calls = 2000;
    let mut rounds = 3;
    let mut targets = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-n" => calls = words.next().and_then(|it| it.parse().ok()).unwrap_or(calls),
            "-r" => rounds = words.next().and_then(|it| it.parse().ok()).unwrap_or(rounds),
            _ => targets.extend(Target::parse(&word)),
        }
    }
    if targets.is_empty() {
        eprintln!("callbench [-n CALLS] [-r ROUNDS] NAME=unix:PATH NAME=stdio:PROGRAM,ARG...[@TOOL,ARGUMENT]");
        return ExitCode::from(2);
    }
    let mut all: Vec<Figures> = targets.iter().map(|_| Figures::default()).collect();
    for round in 0..rounds {
        for (target, figures) in targets.iter().zip(&mut all) {
            if let Err(fault) = measure(target, calls, figures) {
                eprintln!("{} in round {}: {fault}", target.name, round + 1);
            }
        }
    }
    let base = all
        .first()
        .map(|it| (median(&mut it.p50_us.clone()), median(&mut it.per_second.clone())))
        .unwrap_or((1.0, 1.0));
    println!(
        "{:<20} {:>10} {:>10} {:>14} {:>12} {:>12} {:>10} {:>10}",
        "server", "p50 us", "p99 us", "64 at once/s", "first ms", "rss KiB", "p50 x", "rate x"
    );
    for (target, figures) in targets.iter().zip(&mut all) {
        let (p50, rate) = (median(&mut figures.p50_us), median(&mut figures.per_second));
        println!(
            "{:<20} {:>10.1} {:>10.1} {:>14.0} {:>12.1} {:>12} {:>10.2} {:>10.2}",
            target.name,
            p50,
            median(&mut figures.p99_us),
            rate,
            median(&mut figures.first_ms),
            figures.rss_kib.map_or("-".to_owned(), |it| it.to_string()),
            p50 / base.0,
            rate / base.1
        );
        let range =
            |values: &[f64]| format!("{:.1}..{:.1}", values.first().unwrap_or(&0.0), values.last().unwrap_or(&0.0));
        println!("{:<20} {:>21} {:>14}", "", range(&figures.p50_us), range(&figures.per_second));
    }
    ExitCode::SUCCESS
}
