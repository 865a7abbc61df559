//! Measures the start, the calls and the memory of a plugin, and compares them with a Node process
//! that runs the same file. Also measures the effect of another plugin that loops forever.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![expect(clippy::print_stdout, reason = "the figures are the result")]

use conductor_hosts::plugin::Limits;
use conductor_hosts::plugin::process::{Answers, Launch, LogLevel, NoAnswers, Process, Refusal};
use conductor_hosts::plugin::runner::Runner;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

const STARTS: usize = 31;
const CALLS: usize = 5000;

const PLUGIN: &str = "export default { name: 'x', version: '1', description: 'd', tools: [\n\
    { name: 'x.greet', description: 'd', inputSchema: { type: 'object' }, async handler({ who, notes }) { return { text: `Hello, ${who}!`, sum: notes.reduce((a, b) => a + b, 0) } } },\n\
    { name: 'x.read', description: 'd', inputSchema: { type: 'object' }, async handler() { return (await files.read('a')).length } },\n\
    { name: 'x.spin', description: 'd', inputSchema: { type: 'object' }, async handler() { for (;;) {} } }] }\n";

/// A minimal Node program that runs the same file: it reads one line and writes one line per call.
const HARNESS: &str = "import { createInterface } from 'node:readline';\nimport plugin from './plugin.mjs';\n\
    const tools = new Map(plugin.tools.map(it => [it.name, it]));\n\
    console.log(JSON.stringify({ tools: plugin.tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })) }));\n\
    for await (const line of createInterface({ input: process.stdin })) { const { tool, input } = JSON.parse(line); console.log(JSON.stringify({ done: await tools.get(tool).handler(input, {}) })) }\n";

/// Answers every file request with the same content.
struct OneFile;

impl Answers for OneFile {
    fn answer(&self, _: String, _: Value) -> BoxFuture<'static, Result<Value, Refusal>> {
        Box::pin(std::future::ready(Ok(json!({ "content": "aGVsbG8=" }))))
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

fn main() {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(run());
}

async fn run() {
    let input = json!({ "who": "Ada", "notes": [60, 64, 67] });
    println!("{:<28} {:>10} {:>10} {:>10} {:>10}", "", "p50", "p99", "per s", "own MB");
    ours(&input).await;
    match node() {
        Some(node) => beside(&node, &input).await,
        None => println!("node is not installed, so there is no comparison"),
    }
    neighbours(&input).await;
}

fn launch() -> Launch {
    let program = env!("CARGO_BIN_EXE_conductor").into();
    Launch { program, limits: Limits::default(), file: "x.js".into(), source: PLUGIN.as_bytes().into() }
}

fn runner(answers: Arc<dyn Answers>) -> Arc<Runner> {
    Runner::new(launch(), &json!({}), &json!({}), Arc::new(|_| Ok(())), answers)
}

async fn ours(input: &Value) {
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let started = Process::start(&launch()).await.unwrap();
        starts.push(begun.elapsed());
        drop(started);
    }
    row("conductor: start to declared", &mut starts, None, None);
    let runner = runner(Arc::new(OneFile));
    runner.warm().await.unwrap();
    let idle = own_mb(runner.pid().unwrap());
    let mut calls = Vec::new();
    let begun = Instant::now();
    for _ in 0..CALLS {
        let one = Instant::now();
        runner.call("x.greet", input).await.unwrap();
        calls.push(one.elapsed());
    }
    row("conductor: call", &mut calls, Some(begun.elapsed()), Some(idle));
    let mut calls = Vec::new();
    let begun = Instant::now();
    for _ in 0..CALLS {
        let one = Instant::now();
        runner.call("x.read", input).await.unwrap();
        calls.push(one.elapsed());
    }
    row("conductor: with a host call", &mut calls, Some(begun.elapsed()), None);
}

async fn beside(node: &std::path::Path, input: &Value) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plugin.mjs"), PLUGIN).unwrap();
    std::fs::write(folder.path().join("harness.mjs"), HARNESS).unwrap();
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let started = start_node(node, folder.path()).await;
        starts.push(begun.elapsed());
        drop(started);
    }
    row("node: start to declared", &mut starts, None, None);
    let (mut child, mut lines) = start_node(node, folder.path()).await;
    let idle = own_mb(child.id().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    let mut calls = Vec::new();
    let begun = Instant::now();
    for _ in 0..CALLS {
        let one = Instant::now();
        let line = format!("{}\n", json!({ "tool": "x.greet", "input": input }));
        stdin.write_all(line.as_bytes()).await.unwrap();
        let answer = lines.next_line().await.unwrap().unwrap();
        let _: Value = serde_json::from_str(&answer).unwrap();
        calls.push(one.elapsed());
    }
    row("node: call", &mut calls, Some(begun.elapsed()), Some(idle));
}

type Lines = tokio::io::Lines<BufReader<tokio::process::ChildStdout>>;

async fn start_node(node: &std::path::Path, folder: &std::path::Path) -> (Child, Lines) {
    let mut child = Command::new(node)
        .arg("harness.mjs")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap().expect("node ended before it declared its tools");
    (child, lines)
}

/// Measures calls to one plugin while another plugin is idle, and while it loops. The two cases
/// alternate, so that the load of the machine is the same for both.
async fn neighbours(input: &Value) {
    let (spinner, busy) = (runner(Arc::new(NoAnswers)), runner(Arc::new(NoAnswers)));
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    busy.warm().await.unwrap();
    for _ in 0..5 {
        alone.append(&mut some_calls(&busy, input).await);
        let spinning = tokio::spawn({
            let spinner = Arc::clone(&spinner);
            async move { spinner.call("x.spin", &json!({})).await }
        });
        while spinner.pid().is_none() {
            tokio::task::yield_now().await;
        }
        beside.append(&mut some_calls(&busy, input).await);
        let _ = spinning.await;
    }
    row("next to an idle plugin", &mut alone, None, None);
    row("next to a looping plugin", &mut beside, None, None);
}

async fn some_calls(runner: &Runner, input: &Value) -> Vec<Duration> {
    let begun = Instant::now();
    let mut calls = Vec::new();
    while begun.elapsed() < Duration::from_millis(800) {
        let one = Instant::now();
        runner.call("x.greet", input).await.unwrap();
        calls.push(one.elapsed());
    }
    calls
}

fn row(name: &str, times: &mut [Duration], all: Option<Duration>, mb: Option<f64>) {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).or(times.last()).copied().unwrap_or_default();
    let rate = all.map(|all| format!("{:.0}", times.len() as f64 / all.as_secs_f64())).unwrap_or_default();
    let mb = mb.map(|mb| format!("{mb:.1}")).unwrap_or_default();
    println!("{name:<28} {:>10} {:>10} {rate:>10} {mb:>10}", shown(at(50)), shown(at(99)));
}

fn shown(time: Duration) -> String {
    if time < Duration::from_millis(1) {
        format!("{} us", time.as_micros())
    } else {
        format!("{:.1} ms", time.as_secs_f64() * 1000.0)
    }
}

/// The private memory of a process. Pages of the program file are shared with the daemon.
fn own_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|it| it.starts_with("RssAnon:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn node() -> Option<std::path::PathBuf> {
    let found = std::process::Command::new("node").arg("--version").output().is_ok_and(|it| it.status.success());
    found.then(|| "node".into())
}
