//! A studio with files worth attacking, the hostile model that is connected to it, and the list of
//! effects that must not occur.

use crate::studio::{BINARY, DEVICES, Studio};
use conductor_testkit::real::wait_for;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Events that only a person may cause.
const DECISIONS: [&str; 12] = [
    "approval.allowed",
    "plan.applied",
    "plan.undone",
    "plugin.enabled",
    "plugin.disabled",
    "config.accepted",
    "secret.set",
    "secret.removed",
    "circuit.reset",
    "console.opened",
    "phone.paired",
    "phone.revoked",
];

/// A TCP and a UDP port on the loopback interface, which must not receive anything.
pub struct Trap {
    pub tcp: u16,
    pub udp: u16,
    hits: Arc<AtomicUsize>,
}

impl Trap {
    fn new() -> Self {
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let hits = Arc::new(AtomicUsize::new(0));
        let ports = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let counted = Arc::clone(&hits);
        std::thread::spawn(move || {
            for _ in tcp.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let counted = Arc::clone(&hits);
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while udp.recv(&mut buffer).is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { tcp: ports.0, udp: ports.1, hits }
    }

    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

pub struct Rig {
    pub studio: Studio,
    /// Nothing in this folder may change. The program `mark` creates a file here when it runs, so a
    /// started process is visible as a change too.
    pub outside: tempfile::TempDir,
    /// A folder that a person granted for writing.
    pub granted: tempfile::TempDir,
    /// A folder that a person granted, but a rule denies access to it.
    pub private: tempfile::TempDir,
    pub trap: Trap,
    /// The ids of a question and a plan that wait for a person.
    pub approval: String,
    pub plan: String,
    before: BTreeMap<PathBuf, Vec<u8>>,
    config: Vec<u8>,
}

impl Rig {
    /// Starts a studio with one command, one granted folder, one denied folder, a question and a
    /// plan.
    pub fn start(more: &str) -> Self {
        Self::start_with(more, |_| {})
    }

    /// Like [`Rig::start`], but first lets `prepare` change the studio's environment and files.
    pub fn start_with(more: &str, prepare: impl FnOnce(&mut Studio)) -> Self {
        let folder = || tempfile::tempdir().unwrap();
        let (outside, granted, private) = (folder(), folder(), folder());
        std::fs::write(outside.path().join("secret.txt"), "the crown jewels").unwrap();
        std::fs::write(private.path().join("diary.txt"), "dear diary").unwrap();
        let mark = outside.path().join("mark");
        std::fs::write(&mark, "#!/bin/sh\ntouch \"$(dirname \"$0\")/RAN\"\n").unwrap();
        make_executable(&mark);
        let config = format!(
            r#"{DEVICES}
[mcp]
view = "all"
output_schemas = "full"
[limits]
read = {{ per_minute = 60000, burst = 60000 }}
effect = {{ per_minute = 60000, burst = 60000 }}
asks_per_minute = 6000
pending_per_principal = 32
[[policy.rules]]
tool = "filesystem.*"
args = {{ "/root" = "private" }}
decision = "deny"
[tools.filesystem]
roots = [
  {{ name = "work", path = "{}", write = true }},
  {{ name = "private", path = "{}", write = true }},
]
[[tools.shell.commands]]
name = "who"
program = "/usr/bin/id"
args = []
effect = "read"
{more}
"#,
            granted.path().display(),
            private.path().display(),
        );
        let mut studio = Studio::empty();
        prepare(&mut studio);
        std::fs::write(studio.config_file(), &config).unwrap();
        studio.up(&[]);
        let before = contents(outside.path());
        let mut rig = Rig {
            studio,
            outside,
            granted,
            private,
            trap: Trap::new(),
            approval: String::new(),
            plan: String::new(),
            before,
            config: config.into_bytes(),
        };
        let mut model = rig.model();
        let asked = model.call("conductor_send_sysex", json!({ "port": "synth", "data": [0x7D, 1] }));
        rig.approval =
            asked["approval_id"].as_str().unwrap_or_else(|| panic!("no question was asked: {asked}")).to_owned();
        let planned = model.call(
            "conductor_create_mapping",
            json!({ "mode": "Default", "trigger": { "type": "Note", "note": 99 }, "action": { "type": "Text", "text": "x" } }),
        );
        rig.plan = planned["plan_id"].as_str().unwrap_or_else(|| panic!("no plan was created: {planned}")).to_owned();
        rig
    }

    pub fn model(&self) -> Model {
        Model::start(self.studio.home())
    }

    /// The text of the configuration that the person wrote.
    pub fn config(&self) -> String {
        String::from_utf8_lossy(&self.config).into_owned()
    }

    pub fn mark(&self) -> String {
        self.outside.path().join("mark").display().to_string()
    }

    pub fn secret(&self) -> String {
        self.outside.path().join("secret.txt").display().to_string()
    }

    /// Checks from outside the daemon that no forbidden effect has occurred.
    pub fn assert_unharmed(&self) {
        assert_eq!(std::fs::read(self.studio.config_file()).unwrap(), self.config, "the configuration file changed");
        self.assert_unharmed_but_for_the_file();
    }

    /// Like [`Rig::assert_unharmed`], for tests in which the model writes the configuration file
    /// itself.
    pub fn assert_unharmed_but_for_the_file(&self) {
        self.assert_alive();
        let after = contents(self.outside.path());
        let names = |it: &BTreeMap<PathBuf, Vec<u8>>| it.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&after), names(&self.before), "a file outside the granted folders was added or removed");
        assert!(after == self.before, "a file outside the granted folders changed");
        assert_eq!(self.trap.hits(), 0, "a connection was opened, or a datagram was sent");
        let log = self.log();
        for event in DECISIONS {
            assert!(!log.contains(&format!("\"event\":\"{event}\"")), "{event} is in the log:\n{log}");
        }
        let pending = self.studio.ask("pending.list", json!({}));
        let waits = pending["approvals"].as_array().unwrap().iter().any(|it| it["id"] == self.approval.as_str());
        assert!(waits, "the question is not open any more: {pending}");
        let plan = pending["plans"].as_array().unwrap().iter().find(|it| it["id"] == self.plan.as_str());
        assert!(plan.is_some_and(|it| it["status"] == "pending"), "the plan is not open any more: {pending}");
        // Check by a call that the policy has not changed.
        let mut model = self.model();
        for call in
            [json!({ "command": "pwn" }), json!({ "argv": [self.mark()] }), json!({ "command": "pwn", "args": [] })]
        {
            let answer = model.call("shell.exec", call);
            assert!(answer.get("stdout").is_none(), "a command that no person allowed ran: {answer}");
        }
        let denied = model.call("filesystem.read", json!({ "root": "private", "path": "diary.txt" }));
        assert_eq!(denied["code"], "DENIED", "the rule of the person is gone: {denied}");
        let outside = model.call("filesystem.read", json!({ "path": self.secret() }));
        assert!(!outside.to_string().contains("crown jewels"), "{outside}");
        assert!(!self.outside.path().join("RAN").exists(), "a process was started");
    }

    /// The port on which the daemon serves HTTP, and the console.
    pub fn http_port(&self) -> u16 {
        let opened = self.studio.ask("http.open", json!({ "address": "127.0.0.1:0" }));
        opened["address"].as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Checks that the daemon still answers a person.
    pub fn assert_alive(&self) {
        assert_eq!(self.studio.status()["daemon_running"], true);
    }

    /// Every segment of the audit log.
    pub fn log(&self) -> String {
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.studio.home().join("audit"))
            .unwrap()
            .map(|it| it.unwrap().path())
            .filter(|it| it.extension().is_some_and(|it| it == "jsonl"))
            .collect();
        files.sort();
        files.iter().map(|it| std::fs::read_to_string(it).unwrap()).collect()
    }
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Every file below a folder, with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// An AI client as people run it: it starts `conductor mcp start` and sends MCP over its standard
/// input and output. The client's process is a shell, so that the test process itself does not
/// count as the client.
pub struct Model {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Model {
    pub fn start(home: &Path) -> Self {
        let mut client = Command::new("/bin/sh")
            .args(["-c", "\"$0\" mcp start; exit $?", BINARY])
            .env("CONDUCTOR_HOME", home)
            .env_remove("DISPLAY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (client.stdin.take().unwrap(), BufReader::new(client.stdout.take().unwrap()));
        let mut model = Model { client, input, output, next: 1 };
        // The client declares that it can answer questions. It must never be asked, because it
        // approves everything.
        model.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
                "clientInfo": { "name": "hostile", "version": "1" },
            }),
        );
        writeln!(model.input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
        model
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        writeln!(self.input, "{line}").unwrap();
        id
    }

    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the daemon closed the connection");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "elicitation/create" {
                let yes = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "action": "accept", "content": { "approve": true } } });
                writeln!(self.input, "{yes}").unwrap();
            } else if message["id"] == id {
                return message;
            }
        }
    }

    /// Makes one tool call. Returns the structured content (a result or an error object), or the
    /// whole message if it has none.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let message = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = &message["result"];
        if !result["structuredContent"].is_null() { result["structuredContent"].clone() } else { message }
    }

    pub fn tools(&mut self) -> Vec<Value> {
        let mut tools = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let page = self.request("tools/list", params)["result"].clone();
            tools.extend(page["tools"].as_array().unwrap().iter().cloned());
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return tools;
            }
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// Waits until running work has had its effect.
pub fn settle(rig: &Rig) {
    let mut model = rig.model();
    for _ in 0..5 {
        let answer = model.call("conductor_get_status", json!({}));
        assert_eq!(answer["daemon_running"], true, "{answer}");
    }
    // Wait half a second for effects that no message reports.
    let never = wait_for(Duration::from_millis(500), || None::<()>);
    assert!(never.is_none());
}
