//! Plugins as a person uses them: a file is copied to the folder, enabled at a terminal, and gives
//! tools for clients and pads.

use crate::studio::{BINARY, DEVICES, Studio, until};
use conductor_testkit::terminal::{Terminal, at_a_terminal};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

const COUNTER: &str = "export default { name: 'counter', version: '1.0.0', description: 'Counts.', tools: [{ name: 'counter.up', description: 'One more.',\n\
    inputSchema: { type: 'object', properties: { by: { type: 'integer' } } }, handler({ by }) { globalThis.n = (globalThis.n ?? 0) + (by ?? 1); return { n: globalThis.n } } }] }\n";

fn conductor(studio: &Studio, words: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.env("CONDUCTOR_HOME", studio.home()).args(words);
    command
}

/// Runs `conductor plugins enable NAME` at a terminal and answers its question. Input before the
/// question is discarded, so the answer is repeated until it is accepted, as a person would do.
pub fn enable(studio: &Studio, name: &str, answer: &str) -> (bool, String) {
    let mut terminal = Terminal::start(conductor(studio, &["plugins", "enable", name]));
    terminal.until("[y/N]");
    loop {
        terminal.type_in(&format!("{answer}\n"));
        if terminal.ended() {
            let (status, text) = terminal.end();
            return (status.success(), text.replace('\r', ""));
        }
    }
}

fn listed(studio: &Studio, name: &str) -> Value {
    let answer = studio.ask("plugins.list", json!({}));
    answer["plugins"].as_array().unwrap().iter().find(|it| it["name"] == name).cloned().unwrap_or(Value::Null)
}

pub fn until_it_is(studio: &Studio, name: &str, status: &str) -> Value {
    until(&format!("{name} is {status}"), || Some(listed(studio, name)).filter(|it| it["status"] == status))
}

#[test]
fn a_file_is_dropped_enabled_at_a_terminal_played_by_a_pad_and_refused_when_it_changes() {
    let mapping = "\n[[modes]]\nname = \"Default\"\n[[modes.mappings]]\nid = \"count\"\ntrigger = { type = \"Note\", note = 36, device = \"pads\" }\n\
                   action = { type = \"Plugin\", plugin = \"counter\", params = { by = 5 } }\n";
    let studio = Studio::start(&format!("{DEVICES}{mapping}"));
    let file = studio.home().join("plugins/counter.js");
    std::fs::write(&file, COUNTER).unwrap();
    let found = until_it_is(&studio, "counter", "disabled");
    assert_eq!(found["file"], "counter.js", "the daemon did not find the new file");
    assert_eq!(studio.refusal("call", json!({ "tool": "counter.up" }))["code"], "NOT_FOUND");

    // Without a terminal, enabling is refused.
    let refused = studio.run(&["plugins", "enable", "counter"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("terminal"), "{refused:?}");

    let (good, printed) = enable(&studio, "counter", "n");
    assert!(!good && printed.contains("nothing was changed"), "{printed}");
    let (good, printed) = enable(&studio, "counter", "y");
    assert!(good, "{printed}");
    for line in [
        "counter 1.0.0",
        "tool     counter.up (runs without asking)",
        "may      reach nothing outside its process",
        "pin      sha256:",
        "counter is ready",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(
        std::fs::read_to_string(studio.config_file())
            .unwrap()
            .contains("[plugins.counter]\nenabled = true\nfile = \"counter.js\"\npin = \"sha256:")
    );
    assert_eq!(studio.ask("call", json!({ "tool": "counter.up" })), json!({ "n": 1 }));

    // A pad calls the plugin by its name only, because it has one tool.
    let (code, said) = at_a_terminal(conductor(&studio, &["send", "pads hand", "on:36@100 off:36"]));
    assert_eq!(code, Some(0), "{said}");
    let count = || studio.ask("call", json!({ "tool": "counter.up", "arguments": { "by": 0 } }))["n"].as_i64();
    assert_eq!(until("the pad counted", || count().filter(|it| *it != 1)), 6);
    let audit = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    assert!(
        audit
            .lines()
            .any(|it| it.contains("\"principal\":\"mapping:Default/count\"") && it.contains("\"tool\":\"counter.up\"")),
        "the call of the pad is not in the audit log"
    );
    assert!(audit.contains("\"event\":\"plugin.enabled\""));

    std::fs::write(&file, COUNTER.replace("?? 1", "?? 2")).unwrap();
    until_it_is(&studio, "counter", "pin_mismatch");
    assert_eq!(studio.refusal("call", json!({ "tool": "counter.up" }))["code"], "PIN_MISMATCH");
    let (good, printed) = enable(&studio, "counter", "y");
    assert!(good && printed.contains("counter is ready"), "{printed}");
    assert_eq!(studio.ask("call", json!({ "tool": "counter.up" })), json!({ "n": 2 }));

    let (code, printed) = at_a_terminal(conductor(&studio, &["plugins", "disable", "counter"]));
    assert!(code == Some(0) && printed.contains("counter is disabled"), "{printed}");
    assert_eq!(studio.refusal("call", json!({ "tool": "counter.up" }))["code"], "NOT_FOUND");
}

/// The person approves one file, but the file has been replaced before it is loaded.
#[test]
fn a_file_that_changes_during_the_question_is_refused_as_changed() {
    // The file is replaced by another definition, or by bytes that cannot be loaded.
    for changed in [COUNTER.replace("One more.", "Two more."), "export default {".to_owned()] {
        let mut studio = Studio::empty();
        std::fs::write(studio.config_file(), DEVICES).unwrap();
        studio.up(&[]);
        let file = studio.home().join("plugins/counter.js");
        std::fs::write(&file, COUNTER).unwrap();
        until_it_is(&studio, "counter", "disabled");
        let mut terminal = Terminal::start(conductor(&studio, &["plugins", "enable", "counter"]));
        terminal.until("[y/N]");
        std::fs::write(&file, &changed).unwrap();
        while !terminal.ended() {
            terminal.type_in("y\n");
        }
        let (status, printed) = terminal.end();
        assert!(!status.success() && printed.contains("counter is pin_mismatch"), "{printed}");
        let refused = |studio: &Studio| {
            let refused = studio.refusal("call", json!({ "tool": "counter.up" }));
            assert_eq!(refused["code"], "PIN_MISMATCH", "{refused}");
            assert!(refused["message"].as_str().unwrap().contains("counter.js"), "{refused}");
        };
        refused(&studio);
        // The result is the same after a restart, so it does not depend on data in memory.
        studio.stop();
        studio.up(&[]);
        until_it_is(&studio, "counter", "pin_mismatch");
        refused(&studio);
        std::fs::write(&file, COUNTER).unwrap();
        until_it_is(&studio, "counter", "ready");
        assert_eq!(studio.ask("call", json!({ "tool": "counter.up" })), json!({ "n": 1 }));
    }
}

const GREET: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hello_greet","arguments":{"who":"Ada"}}}"#;
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"by-hand","version":"1"}}}"#;

fn over_stdio(studio: &Studio) -> Value {
    let mut command = studio.command();
    command.args(["mcp", "start"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut proxy = command.spawn().unwrap();
    let mut lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
    let mut stdin = proxy.stdin.take().unwrap();
    writeln!(stdin, "{HELLO}").unwrap();
    lines.next().unwrap().unwrap();
    writeln!(stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
    writeln!(stdin, "{GREET}").unwrap();
    let answer = lines.map(|it| serde_json::from_str::<Value>(&it.unwrap()).unwrap()).find(|it| it["id"] == 2).unwrap();
    drop(stdin);
    proxy.wait().unwrap();
    answer
}

fn over_http(studio: &Studio, url: &str) -> Value {
    let address: std::net::SocketAddr = url.trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap();
    let token = std::fs::read_to_string(studio.home().join("state/http.token")).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "hello_greet"),
    ];
    let params =
        conductor_testkit::line_client::modern(json!({ "name": "hello_greet", "arguments": { "who": "Ada" } }));
    let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    let request = conductor_testkit::http_client::request(address, "POST", "/mcp", &headers, &body.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(conductor_testkit::http_client::send(address, &request));
    answer.messages().into_iter().find(|it| it["id"] == 2).unwrap()
}

#[test]
fn a_new_plugin_works_as_it_is_written() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), DEVICES).unwrap();
    let http = studio.up(&[])["http"].as_str().unwrap().to_owned();
    let made = studio.run(&["plugins", "new", "hello"]);
    assert!(made.status.success(), "{made:?}");
    assert!(studio.home().join("plugins/conductor-plugin.d.ts").exists());
    assert!(!studio.run(&["plugins", "new", "hello"]).status.success(), "an existing file was overwritten");
    assert!(!studio.run(&["plugins", "new", "shell"]).status.success());
    let checked = studio.run(&["--json", "plugins", "check", "hello"]);
    let shown: Value = serde_json::from_slice(&checked.stdout).unwrap_or_else(|_| panic!("{checked:?}"));
    assert_eq!((&shown["name"], &shown["tools"][0]["name"]), (&json!("hello"), &json!("hello.greet")));
    let row = format!(
        "{DEVICES}\n[plugins.hello]\nenabled = true\npin = {}\nconfig = {{ greeting = \"Hi\" }}\n",
        shown["pin"]
    );
    studio.save(&row);
    studio.accept();
    let pid = until_it_is(&studio, "hello", "ready")["pid"].as_u64().unwrap();
    assert_eq!(over_stdio(&studio)["result"]["content"][0]["text"], "Hi, Ada!");
    assert_eq!(over_http(&studio, &http)["result"]["content"][0]["text"], "Hi, Ada!");
    let said = studio.run(&["call", "hello.greet", r#"{"who":"Ada"}"#]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("Hi, Ada!"), "{said:?}");
    let broken = studio.home().join("broken.js");
    std::fs::write(&broken, "export default {\n  name: 'b'\n  version: '1' }\n").unwrap();
    let checked = studio.run(&["plugins", "check", broken.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("broken.js:3:"), "{checked:?}");
    // A file that is too long for its process is refused. The command does not wait forever.
    std::fs::write(&broken, vec![b' '; 9 << 20]).unwrap();
    let checked = studio.run(&["plugins", "check", broken.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("the limit is"), "{checked:?}");

    // When the daemon is killed, its plugins end too: their pipe is closed.
    studio.signal(rustix::process::Signal::KILL);
    until("the plugin's process is gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |it| it.contains(") Z")).then_some(())
    });
}
