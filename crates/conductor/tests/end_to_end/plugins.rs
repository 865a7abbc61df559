//! Plugins as a person meets them: a file dropped into the folder, a yes at a terminal, tools for clients and pads.

use crate::studio::{BINARY, DEVICES, Studio, until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

const COUNTER: &str = "export default { name: 'counter', version: '1.0.0', description: 'Counts.', tools: [{ name: 'counter.up', description: 'One more.',\n\
    inputSchema: { type: 'object', properties: { by: { type: 'integer' } } }, handler({ by }) { globalThis.n = (globalThis.n ?? 0) + (by ?? 1); return { n: globalThis.n } } }] }\n";

/// Runs a command at a terminal of its own; once it asks, answers. Gives everything it printed.
fn at_a_terminal(studio: &Studio, arguments: &str, answer: Option<&str>) -> (bool, String) {
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &format!("{BINARY} {arguments}"), "/dev/null"])
        .env("CONDUCTOR_HOME", studio.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut printed = Vec::new();
    if let Some(answer) = answer {
        while !printed.ends_with(b"[y/N]") {
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "it asks: {}", String::from_utf8_lossy(&printed));
            printed.push(byte[0]);
        }
    }
    // What is typed before the question stands there is thrown away, and nobody tells when that was: the answer is typed until it is heard.
    let typing = answer.map(|answer| {
        let line = format!("{answer}\n");
        std::thread::spawn(move || {
            while stdin.write_all(line.as_bytes()).is_ok() {
                std::thread::park_timeout(std::time::Duration::from_millis(50));
            }
        })
    });
    stdout.read_to_end(&mut printed).unwrap();
    drop(stdout);
    if let Some(typing) = typing {
        typing.thread().unpark();
    }
    let good = child.wait().unwrap().success();
    (good, String::from_utf8_lossy(&printed).replace('\r', ""))
}

fn listed(studio: &Studio, name: &str) -> Value {
    let answer = studio.ask("plugins.list", json!({}));
    answer["plugins"].as_array().unwrap().iter().find(|it| it["name"] == name).cloned().unwrap_or(Value::Null)
}

fn until_it_is(studio: &Studio, name: &str, status: &str) -> Value {
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
    assert_eq!(found["file"], "counter.js", "noticed while the daemon runs");
    assert_eq!(studio.refusal("call", json!({ "tool": "counter.up" }))["code"], "NOT_FOUND");

    // Without a terminal nobody enables anything.
    let refused = studio.run(&["plugins", "enable", "counter"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("terminal"), "{refused:?}");

    let (good, printed) = at_a_terminal(&studio, "plugins enable counter", Some("n"));
    assert!(!good && printed.contains("nothing was changed"), "{printed}");
    let (good, printed) = at_a_terminal(&studio, "plugins enable counter", Some("y"));
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

    // A pad, by the plugin's name alone: it has one tool.
    studio.hand().play(&[0x90, 36, 100]);
    let count = || studio.ask("call", json!({ "tool": "counter.up", "arguments": { "by": 0 } }))["n"].as_i64();
    assert_eq!(until("the pad counted", || count().filter(|it| *it != 1)), 6);
    let audit = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    assert!(
        audit
            .lines()
            .any(|it| it.contains("\"principal\":\"mapping:Default/count\"") && it.contains("\"tool\":\"counter.up\"")),
        "through the pipeline"
    );
    assert!(audit.contains("\"event\":\"plugin.enabled\""));

    std::fs::write(&file, COUNTER.replace("?? 1", "?? 2")).unwrap();
    until_it_is(&studio, "counter", "pin_mismatch");
    assert_eq!(studio.refusal("call", json!({ "tool": "counter.up" }))["code"], "PIN_MISMATCH");
    let (good, printed) = at_a_terminal(&studio, "plugins enable counter", Some("y"));
    assert!(good && printed.contains("counter is ready"), "{printed}");
    assert_eq!(studio.ask("call", json!({ "tool": "counter.up" })), json!({ "n": 2 }));

    let (good, printed) = at_a_terminal(&studio, "plugins disable counter", None);
    assert!(good && printed.contains("counter is disabled"), "{printed}");
    assert_eq!(studio.refusal("call", json!({ "tool": "counter.up" }))["code"], "NOT_FOUND");
}

#[test]
fn a_new_plugin_works_as_it_is_written() {
    let studio = Studio::start(DEVICES);
    let made = studio.run(&["plugins", "new", "hello"]);
    assert!(made.status.success(), "{made:?}");
    assert!(studio.home().join("plugins/conductor-plugin.d.ts").exists());
    assert!(!studio.run(&["plugins", "new", "hello"]).status.success(), "what is there is not written over");
    assert!(!studio.run(&["plugins", "new", "shell"]).status.success());
    let checked = studio.run(&["--json", "plugins", "check", "hello"]);
    let shown: Value = serde_json::from_slice(&checked.stdout).unwrap_or_else(|_| panic!("{checked:?}"));
    assert_eq!((&shown["name"], &shown["tools"][0]["name"]), (&json!("hello"), &json!("hello.greet")));
    let row = format!(
        "{DEVICES}\n[plugins.hello]\nenabled = true\npin = {}\nconfig = {{ greeting = \"Hi\" }}\n",
        shown["pin"]
    );
    studio.save(&row);
    until_it_is(&studio, "hello", "ready");
    let said = studio.run(&["call", "hello.greet", r#"{"who":"Ada"}"#]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("Hi, Ada!"), "{said:?}");
    let broken = studio.home().join("broken.js");
    std::fs::write(&broken, "export default {\n  name: 'b'\n  version: '1' }\n").unwrap();
    let checked = studio.run(&["plugins", "check", broken.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("broken.js:3:"), "{checked:?}");
}
