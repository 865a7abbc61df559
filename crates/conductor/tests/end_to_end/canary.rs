//! Sends two secrets through every path of a running daemon: every door, every kind of answer, a
//! plugin that reads them, and a request that contains them. Then every sink is searched for them.
//! As a negative control, the same run without registered secrets finds them in each sink.
//!
//! Not here: the panic of a built-in tool, which needs a tool that panics (`integration/canary`).

use super::observe::{Stream, address_of, ask, token_row};
use super::plugins::until_it_is;
use super::secrets::set;
use super::studio::{Studio, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use conductor_daemon::doors::control::client::ClientError;
use conductor_testkit::http_client;
use conductor_testkit::line_client::modern;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::Stdio;

/// A secret with characters that each encoding writes differently.
const BIRD: &str = "canary-5d0e\"27/+q";
/// A secret that is valid wherever a name is required.
const BEE: &str = "canary.bee-83c1f0";

fn spellings() -> Vec<String> {
    let percent = |secret: &str| {
        let plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
        secret.bytes().map(|it| if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") }).collect()
    };
    let inside = |quoted: String| quoted[1..quoted.len() - 1].to_owned();
    [BIRD, BEE]
        .into_iter()
        .flat_map(|secret| {
            let json = inside(json!(secret).to_string());
            let twice = inside(json!(json).to_string());
            [
                secret.to_owned(),
                json,
                twice,
                STANDARD_NO_PAD.encode(secret),
                percent(secret),
                percent(secret).to_lowercase(),
            ]
        })
        .collect()
}

fn told(text: &str) -> Vec<String> {
    spellings().into_iter().filter(|it| text.contains(it.as_str())).collect()
}

/// Reads the secret from `note.txt`, and outputs the secret in every way that a plugin has.
const PARROT: &str = r#"
const secret = async () => (await files.read("note.txt", { encoding: "utf-8" })).trim();
export default { name: "parrot", version: "1.0.0", description: "Says it again.", tools: [
  { name: "parrot.say", description: "Says it again.", idempotent: true,
    inputSchema: { type: "object", properties: { how: { type: "string" } } },
    async handler({ how }) {
      const it = await secret();
      console.log(it, [[it]]); console.error({ [it]: it });
      switch (how) {
        case "throw": throw new Error(`it was ${it}`);
        case "throw deep": throw { code: "INTERNAL", message: it, [it]: [it] };
        case "write": await files.write("copy.txt", it); return "written";
        case "fetch": return (await fetch(`https://127.0.0.1:1/?q=${encodeURIComponent(it)}`, { method: "POST", body: it })).status;
        case "die": { const grow = (text) => grow(text + it); return grow(it); }
        case "forever": for (;;) {}
        default: return { list: [[[it], { [it]: [[it]] }]], text: `${it} ${encodeURIComponent(it)}` };
      }
    } },
  { name: "parrot.ask", description: "Asks first.", requiresApproval: true,
    inputSchema: { type: "object", properties: { word: { type: "string" } } }, handler({ word }) { return word; } },
] };
"#;

/// Received data, by sink.
type Sinks = BTreeMap<&'static str, String>;

struct Stage {
    studio: Studio,
    folder: tempfile::TempDir,
    address: SocketAddr,
    events: Stream,
    sinks: Sinks,
}

impl Stage {
    fn new(known: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("note.txt"), format!("{BIRD} {BEE}\n")).unwrap();
        let config = format!(
            "schema = 1\n[secrets]\nkey = \"file\"\n[audit]\ndetail = \"full\"\ncheckpoint_records = 20\n[logging]\nlevel = \"debug\"\n[retry]\nbase_ms = 1\ncap_ms = 1\n\
             [limits]\nasks_per_minute = 100\npending_per_principal = 30\n\
             {}[circuit]\nfailures = 1000\n\
             [tools.filesystem]\nroots = [{{ name = \"studio\", path = \"{}\", write = true }}]\n",
            token_row(),
            folder.path().display()
        );
        let mut studio = Studio::empty();
        std::fs::create_dir(studio.home().join("plugins")).unwrap();
        std::fs::write(studio.home().join("plugins/parrot.js"), PARROT).unwrap();
        std::fs::write(studio.config_file(), &config).unwrap();
        let ready = studio.up(&[]);
        let mut sinks = Sinks::new();
        if known {
            for (name, secret) in [("bird", BIRD), ("bee", BEE)] {
                let stored = set(&studio, name, secret, "--allow-key-file");
                assert!(stored.status.success(), "{}", text(&stored.stdout));
                sinks.entry("command line").or_default().push_str(&text(&stored.stdout));
            }
        }
        let address = address_of(&ready);
        let events = Stream::open(&studio, address, &folder.path().join("events"));
        let stage = Stage { studio, folder, address, events, sinks };
        // The event stream is already open, so it receives the event that the plugin is ready.
        let checked = stage.studio.run(&["--json", "plugins", "check", "parrot"]);
        let shown: Value = serde_json::from_slice(&checked.stdout).unwrap_or_else(|_| panic!("{checked:?}"));
        let row = format!(
            "[plugins.parrot]\nenabled = true\npin = {}\nfiles_read = [\"studio\"]\nfiles_write = [\"studio\"]\nnet = [\"127.0.0.1:1\"]\ncpu_ms = 300\n",
            shown["pin"]
        );
        stage.studio.save(&format!("{config}{row}"));
        stage.studio.accept();
        until_it_is(&stage.studio, "parrot", "ready");
        stage
    }

    fn hear(&mut self, sink: &'static str, said: &str) {
        let heard = self.sinks.entry(sink).or_default();
        heard.push_str(said);
        heard.push('\n');
    }

    /// Tool calls that contain the secrets, request them, or fail with them.
    fn calls() -> Vec<(&'static str, Value)> {
        let both = format!("{BIRD} {BEE}");
        let mut calls = vec![
            ("filesystem.read", json!({ "path": "note.txt" })),
            ("filesystem.read", json!({ "path": "note.txt", "encoding": "base64" })),
            ("filesystem.search", json!({ "pattern": "canary" })),
            ("filesystem.read", json!({ "path": BIRD, "offset": [[BEE]] })),
            ("filesystem.read", json!({ BIRD: { BEE: [[BIRD]] } })),
            ("filesystem.read", json!({ "path": format!("{BEE}/none") })),
            ("filesystem.write", json!({ "path": "x", "content": both })),
            ("filesystem.write", json!({ "path": BEE, "content": "empty" })),
            ("filesystem.write", json!({ "path": "y", "content": STANDARD_NO_PAD.encode(BIRD), "encoding": "base64" })),
            ("database.query", json!({ "sql": "SELECT ?1", "params": [BIRD] })),
            ("database.query", json!({ "sql": format!("SELECT nothing_of_{BEE}") })),
            ("database.execute", json!({ "sql": "CREATE TABLE t AS SELECT ?1 AS a", "params": [BIRD] })),
            (BEE, json!({ "nested": [[BIRD]] })),
            ("shell.exec", json!({ "argv": [BIRD] })),
            ("web.fetch", json!({ "url": format!("https://x.example/{BEE}") })),
            ("conductor_switch_mode", json!({ "mode": BEE })),
            (
                "conductor_create_mapping",
                json!({ "mode": BEE, "mapping": { "id": BEE, "trigger": { "type": "Note", "note": 36 }, "action": { "type": "Text", "text": BIRD } } }),
            ),
            ("create_patch", json!({ "format": "pd", "alias": BEE, "path": format!("{BEE}.pd") })),
            ("describe_object", json!({ "text": BEE })),
            ("live_new_set", json!({ "path": format!("{BEE}.als") })),
            ("parrot.ask", json!({ "word": both })),
            ("parrot.ask", json!({ "word": "nothing to hide" })),
        ];
        for how in ["return", "throw", "throw deep", "write", "fetch", "die", "forever"] {
            calls.push(("parrot.say", json!({ "how": how })));
        }
        calls
    }

    fn by_command_line(&mut self) {
        for (tool, arguments) in Self::calls() {
            let output = self.studio.run(&["--json", "call", tool, &arguments.to_string()]);
            self.hear("command line", &format!("{}{}", text(&output.stdout), text(&output.stderr)));
        }
        // These calls use the patch that one of the calls above has created.
        for (tool, arguments) in [
            ("save_patch", json!({ "patch_id": BEE })),
            (
                "add_max_object",
                json!({ "patch_id": BEE, "obj_type": "comment", "arguments": [BIRD], "position": [1, 1] }),
            ),
        ] {
            let output = self.studio.run(&["--json", "call", tool, &arguments.to_string()]);
            self.hear("command line", &format!("{}{}", text(&output.stdout), text(&output.stderr)));
        }
        for words in [
            vec!["approvals", "list"],
            vec!["plans", "list"],
            vec!["audit", "list"],
            vec!["plugins", "list"],
            vec!["mode", "set", BEE],
        ] {
            let output = self.studio.run(&words);
            self.hear("command line", &format!("{}{}", text(&output.stdout), text(&output.stderr)));
        }
    }

    fn by_control(&mut self) {
        for (method, params) in [
            (BEE, json!({})),
            ("pending.show", json!({ "id": BEE })),
            ("call", json!({ "tool": BIRD })),
            ("call", json!({ "tool": "conductor_switch_mode", "arguments": { "mode": BIRD } })),
            ("play", json!({ "port": BIRD, "events": "on:36" })),
        ] {
            let said = match self.studio.control().ask(method, params) {
                Ok(value) => value.to_string(),
                Err(ClientError::Refused(refused)) => format!("{} {}", refused.message, refused.data),
                Err(other) => panic!("{method}: {other:?}"),
            };
            self.hear("control", &said);
        }
    }

    /// Requests of every kind that an MCP client can make, with the secrets in them.
    fn requests() -> Vec<(&'static str, Value)> {
        let mut requests: Vec<(&str, Value)> = Self::calls()
            .into_iter()
            .map(|(tool, arguments)| {
                ("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": 7 } }))
            })
            .collect();
        requests.extend([
            ("tools/list", json!({ "cursor": BIRD })),
            ("resources/read", json!({ "uri": format!("patch://{BEE}") })),
            ("resources/read", json!({ "uri": format!("nothing://{BIRD}") })),
            ("resources/read", json!({ "uri": "conductor://status" })),
            ("prompts/get", json!({ "name": "build_patch", "arguments": { "goal": format!("{BIRD} {BEE}") } })),
            ("prompts/get", json!({ "name": "build_patch", "arguments": { BEE: BIRD } })),
            ("prompts/get", json!({ "name": BEE })),
            ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": BEE }, "argument": { "name": "goal", "value": BIRD } })),
            ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "explain_patch" }, "argument": { "name": BEE, "value": BIRD } })),
            ("completion/complete", json!({ "ref": { "type": "ref/resource", "uri": BIRD }, "argument": { "name": "id", "value": BEE } })),
        ]);
        requests
    }

    fn by_stdio(&mut self) {
        let mut proxy = self
            .studio
            .command()
            .args(["mcp", "start"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = proxy.stdin.take().unwrap();
        let mut lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        let client = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": BEE, "version": BIRD } });
        let mut requests = vec![
            ("initialize", client),
            ("logging/setLevel", json!({ "level": "debug" })),
            ("logging/setLevel", json!({ "level": BEE })),
            ("resources/subscribe", json!({ "uri": format!("patch://{BEE}") })),
            (BEE, json!({ "direct": BIRD })),
            ("filesystem.read", json!({ "path": "note.txt" })),
            ("filesystem.read", json!({ "path": BEE })),
            // The patch is watched, so the notification would contain its name.
            (
                "tools/call",
                json!({ "name": "add_max_object", "arguments": { "patch_id": BEE, "obj_type": "bng", "position": [9, 9] } }),
            ),
        ];
        requests.extend(Self::requests());
        for (n, (method, params)) in requests.into_iter().enumerate() {
            writeln!(to, "{}", json!({ "jsonrpc": "2.0", "id": n, "method": method, "params": params })).unwrap();
            loop {
                let line = lines.next().expect("the proxy did not answer").unwrap();
                let message: Value = serde_json::from_str(&line).unwrap();
                said.push((method, message.clone()));
                if message["id"] == n {
                    break;
                }
            }
            if n == 0 {
                writeln!(to, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
            }
        }
        drop(to);
        let ended = proxy.wait_with_output().unwrap();
        self.hear("stderr of the proxy", &text(&ended.stderr));
        for (method, message) in said {
            let sink = match (message["method"].as_str(), method) {
                (Some(_), _) => "stdio: notifications",
                (None, "tools/call") if message.get("error").is_some() => "stdio: protocol errors",
                (None, "tools/call") if message["result"]["isError"] == true => "stdio: errors of tools",
                (None, "tools/call") => "stdio: results of tools",
                (None, "resources/read") => "stdio: resources",
                (None, "prompts/get") => "stdio: prompts",
                (None, "completion/complete") => "stdio: completions",
                (None, _) => "stdio: the rest",
            };
            self.hear(sink, &message.to_string());
        }
    }

    fn by_http(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut requests = Self::requests();
        requests.push(("server/discover", json!({})));
        requests.push((BEE, json!({ "direct": BIRD })));
        for (n, (method, mut params)) in requests.into_iter().enumerate() {
            params["_meta"] = json!({ "progressToken": 7, "io.modelcontextprotocol/logLevel": "debug" });
            let body = json!({ "jsonrpc": "2.0", "id": n, "method": method, "params": modern(params) });
            let answer = runtime.block_on(http_client::post_modern(self.address, &body));
            self.hear("http: mcp", &format!("{} {}", answer.head, answer.body));
        }
        let address = self.address;
        let ask = |method: &str, path: &str, body: &str| {
            let answer = ask(address, method, path, body);
            format!("{} {}\n", answer.head, answer.body)
        };
        let mut plain = String::new();
        for (tool, arguments) in Self::calls() {
            let name = tool.replace('"', "%22").replace('/', "%2F");
            plain.push_str(&ask("POST", &format!("/tools/{name}"), &arguments.to_string()));
        }
        let mut audit = ask("GET", "/audit?limit=1000", "");
        for key in ["tool", "result", "principal", "since", "until", "limit", "after", BEE] {
            audit.push_str(&ask("GET", &format!("/audit?{key}={BEE}"), ""));
        }
        let watched = ask("GET", "/metrics", "") + &ask("GET", "/health", "") + &ask("GET", &format!("/{BEE}"), "");
        let listed = ask("GET", "/tools", "") + &ask("GET", "/openapi.json", "");
        self.hear("http: tools", &plain);
        self.hear("http: audit", &audit);
        self.hear("http: routes without data of calls", &(watched + &listed));
    }

    /// Stops the daemon and reads all files that it leaves.
    fn end(mut self) -> Sinks {
        self.studio.signal(rustix::process::Signal::TERM);
        let ended = self.studio.ended();
        self.hear("log", &text(&ended.stderr));
        let events = self.events.end();
        self.hear("events", &events);
        let home = self.studio.home().to_owned();
        for entry in walk(&home) {
            let inside = entry.strip_prefix(&home).unwrap().display().to_string();
            let sink = match inside.split('/').next().unwrap() {
                "audit" => "file: audit",
                "state" if inside.starts_with("state/plans") => "file: questions and plans",
                _ => "file: others of the home",
            };
            let bytes = std::fs::read(&entry).unwrap();
            self.hear(sink, &format!("{inside}\n{}", text(&bytes)));
        }
        for entry in walk(self.folder.path()) {
            if !entry.ends_with("note.txt") && !entry.ends_with("events") {
                let bytes = std::fs::read(&entry).unwrap();
                self.hear("file: granted folder", &format!("{} {}", entry.display(), text(&bytes)));
            }
        }
        std::mem::take(&mut self.sinks)
    }
}

/// Every regular file below a folder.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(walk(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

fn every_path(known: bool) -> Sinks {
    let mut stage = Stage::new(known);
    stage.by_command_line();
    stage.by_control();
    stage.by_stdio();
    stage.by_http();
    stage.end()
}

#[test]
fn a_secret_is_in_no_file_and_no_word_of_a_running_daemon() {
    let sinks = every_path(true);
    let leaks: Vec<String> = sinks
        .iter()
        .filter_map(|(sink, said)| {
            let spelled = told(said);
            let lines: Vec<&str> =
                said.lines().filter(|line| spelled.iter().any(|it| line.contains(it.as_str()))).collect();
            (!spelled.is_empty()).then(|| format!("{sink} contains {spelled:?}:\n{}", lines.join("\n")))
        })
        .collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n\n"));
    for sink in [
        "command line",
        "stdio: results of tools",
        "stdio: errors of tools",
        "stdio: prompts",
        "http: mcp",
        "http: tools",
        "log",
        "file: audit",
    ] {
        assert!(sinks[sink].contains("[secret:"), "{sink} contains no replaced secret: {}", sinks[sink]);
    }
    let events = &sinks["events"];
    for event in ["tool.start", "tool.complete", "approval.pending", "plugin.changed", "audit.checkpoint"] {
        assert!(events.contains(&format!("event: {event}\n")), "the event {event} was not received: {events}");
    }
    assert!(sinks["stdio: notifications"].contains("notifications/message"), "{}", sinks["stdio: notifications"]);
}

/// Sinks that by design contain no data of a call.
const SILENT: [&str; 2] = ["http: routes without data of calls", "stderr of the proxy"];

#[test]
fn what_nobody_declared_a_secret_is_in_every_sink() {
    for (sink, said) in every_path(false) {
        assert_eq!(told(&said).is_empty(), SILENT.contains(&sink), "{sink}: {said}");
    }
}
