//! The skills: every example on every page runs against the demo studio, through the socket of AI
//! clients, and the MCP inspector reads the pages.

use crate::plugins::{enable, until_it_is};
use crate::studio::{BINARY, Studio};
use conductor_daemon::skills::{self, Skill};
use conductor_testkit::mcp_process::{inspector, node};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The fenced blocks of a page: the info string and the text of each.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let mut lines = page.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix("```") {
            found.push((words, lines.by_ref().take_while(|it| *it != "```").collect::<Vec<_>>().join("\n")));
        }
    }
    found
}

struct Example {
    tool: String,
    arguments: Value,
    answer: Option<Value>,
}

fn examples(page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    for (words, text) in blocks(page) {
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        match words {
            "call" => {
                let (tool, arguments) = text.split_once(' ').expect("a call block without arguments");
                found.push(Example { tool: tool.to_owned(), arguments: parsed(arguments), answer: None });
            }
            "answer" => {
                found.last_mut().expect("an answer block without a call before it").answer = Some(parsed(&text))
            }
            other => assert!(other.starts_with("js plugin="), "no test runs this block: {other}"),
        }
    }
    found
}

/// Whether an answer contains everything that the page shows. The answer may have more members and
/// items.
fn shows(actual: &Value, shown: &Value) -> bool {
    match (actual, shown) {
        (Value::Object(actual), Value::Object(shown)) => {
            shown.iter().all(|(key, shown)| actual.get(key).is_some_and(|actual| shows(actual, shown)))
        }
        (Value::Array(actual), Value::Array(shown)) if shown.is_empty() => actual.is_empty(),
        (Value::Array(actual), Value::Array(shown)) => {
            shown.iter().all(|shown| actual.iter().any(|actual| shows(actual, shown)))
        }
        (Value::Number(actual), Value::Number(shown)) => actual.as_f64() == shown.as_f64(),
        (actual, shown) => actual == shown,
    }
}

#[test]
fn every_example_of_every_skill_runs() {
    for skill in &skills::ALL {
        let examples = examples(skill.text);
        assert!(!examples.is_empty(), "{} has no example", skill.name());
        assert!(examples.iter().any(|it| it.answer.is_some()), "no example of {} has an answer", skill.name());
        let mut studio = Studio::empty();
        studio.up(&["--demo"]);
        for (words, source) in blocks(skill.text) {
            if let Some(name) = words.strip_prefix("js plugin=") {
                std::fs::write(studio.home().join(format!("plugins/{name}.js")), source).unwrap();
                until_it_is(&studio, name, "disabled");
                let (good, printed) = enable(&studio, name, "y");
                assert!(good, "{printed}");
                until_it_is(&studio, name, "ready");
            }
        }
        let socket = UnixStream::connect(studio.home().join("mcp.sock")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut lines = BufReader::new(&socket).lines();
        for (id, Example { tool, arguments, answer }) in examples.into_iter().enumerate() {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": tool, "params": arguments });
            writeln!(&socket, "{request}").unwrap();
            let reply = loop {
                let line: Value = serde_json::from_str(&lines.next().expect("an answer").unwrap()).unwrap();
                if line["id"] == id {
                    break line;
                }
            };
            assert!(reply.get("error").is_none(), "{}: {tool} {arguments}\n{reply}", skill.name());
            let shown = answer.unwrap_or(json!({}));
            assert!(
                shows(&reply["result"], &shown),
                "{}: {tool}\nshown {shown}\ngot {}",
                skill.name(),
                reply["result"]
            );
        }
    }
}

#[test]
fn a_page_that_shows_a_wrong_answer_is_noticed() {
    let actual = json!({ "a": [{ "b": 1, "c": 2 }, { "b": 3 }], "d": 1.0, "e": [] });
    for (shown, good) in [
        (json!({ "a": [{ "b": 3 }], "d": 1 }), true),
        (json!({ "e": [] }), true),
        (json!({ "a": [] }), false),
        (json!({ "a": [{ "b": 2 }] }), false),
        (json!({ "f": null }), false),
    ] {
        assert_eq!(shows(&actual, &shown), good, "{shown}");
    }
}

#[test]
fn the_inspector_lists_and_reads_a_skill() {
    let Some(node) = node() else { return };
    let mut studio = Studio::empty();
    studio.up(&["--demo"]);
    let home = studio.home().to_str().unwrap().to_owned();
    for era in ["modern", "legacy"] {
        let ask = |words: &[&str]| -> Value {
            let mut all = vec![BINARY, "--home", &home, "mcp", "start", "--protocol-era", era, "--format", "json"];
            all.extend_from_slice(words);
            let output = inspector(&node, &all, studio.home());
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let said: Value = serde_json::from_str(&text)
                .unwrap_or_else(|_| panic!("{words:?}: {text}{}", String::from_utf8_lossy(&output.stderr)));
            said["result"].clone()
        };
        let skill: &Skill = skills::ALL.first().unwrap();
        let uri = skill.uri();
        let read = ask(&["--method", "resources/read", "--uri", &uri]);
        assert_eq!(read["contents"][0]["text"], skill.text);
        // `integration/line_door` tests these methods in the legacy era.
        if era == "modern" {
            let listed = ask(&["--method", "skills/list"]);
            let names: Vec<&str> = listed["skills"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["frontmatter"]["name"].as_str().unwrap())
                .collect();
            assert_eq!(names, skills::ALL.iter().map(Skill::name).collect::<Vec<_>>());
            let got = ask(&["--method", "skills/get", "--uri", &uri]);
            assert!(got.to_string().contains(&skill.digest()), "{got}");
        }
    }
}
