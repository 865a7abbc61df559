//! A client process that uses a public SDK and executes the commands of a test. The programs are
//! `clients/python_client.py` and `clients/typescript_client.mjs`.
//!
//! Not here: the MCP inspector, which is a new process for every call.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp_process::clients;
use crate::real::Killed;

/// Maximum wait for an answer from the client, in real time. No test asserts on it.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Puppet {
    child: Killed,
    wishes: Option<ChildStdin>,
    answers: Receiver<Value>,
    /// The protocol version that the client reports, or null.
    pub version: Value,
}

impl Puppet {
    /// Starts the client and waits until it is connected.
    pub fn start<S: AsRef<std::ffi::OsStr>>(program: &Path, arguments: &[S]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(clients())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client did not start");
        let (sender, answers) = channel();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap_or(Value::String(line))).is_err() {
                    return;
                }
            }
        });
        let wishes = child.stdin.take();
        let mut puppet = Self { child: Killed(child), wishes, answers, version: Value::Null };
        puppet.version = puppet.answer()["version"].clone();
        puppet
    }

    fn answer(&self) -> Value {
        self.answers.recv_timeout(PATIENCE).expect("the client did not answer in time")
    }

    pub fn ask(&mut self, wish: &Value) -> Value {
        let wishes = self.wishes.as_mut().expect("the input of the client is closed");
        writeln!(wishes, "{wish}").expect("the client does not read its input");
        self.answer()
    }

    pub fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.ask(&json!({ "do": "call", "name": name, "arguments": arguments }))
    }

    pub fn tools(&mut self) -> Vec<String> {
        let listed = self.ask(&json!({ "do": "list" }));
        listed["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }
}
