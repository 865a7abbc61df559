//! The exchanges that the product's first documents show, sent as written over the direct dialect, answer in the documented shape.
//!
//! `seeds.json` holds the documents' own examples: request, documented result, and what had to be named before it can be asked.

use conductor::daemon::home::Home;
use conductor::daemon::log::Log;
use conductor::daemon::{Daemon, Options};
use conductor::outside::{RandomIds, RealClock};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const CONFIG: &str = r#"
schema = 1
[[devices]]
alias = "pads"
loopback = true
[[devices]]
alias = "other"
loopback = true
[[modes]]
name = "Default"
color = "blue"
[[modes.mappings]]
trigger = { type = "Note", note = 36 }
action = { type = "Keystroke", keys = ["cmd", "c"] }
[[modes]]
name = "DJ"
color = "purple"
[[modes]]
name = "Performance"
"#;

/// Every member the document shows is there, and of the same kind. More members may stand beside it.
fn fits(documented: &Value, got: &Value, at: &str) -> Result<(), String> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match (documented, got) {
        (Value::Object(members), Value::Object(there)) => {
            for (name, member) in members {
                let found = there.get(name).ok_or_else(|| format!("{at}/{name} is missing"))?;
                fits(member, found, &format!("{at}/{name}"))?;
            }
            Ok(())
        }
        (Value::Array(items), Value::Array(there)) => match (items.first(), there.first()) {
            (Some(item), Some(found)) => fits(item, found, &format!("{at}/0")),
            (Some(_) | None, _) => Ok(()),
        },
        // A time that has not come yet.
        (Value::Number(_), Value::Null) if at.ends_with("last_event_at") => Ok(()),
        (documented, got) if kind(documented) == kind(got) => Ok(()),
        (documented, got) => Err(format!("{at} is a {} and not a {}", kind(got), kind(documented))),
    }
}

struct Wire {
    stream: BufReader<UnixStream>,
}

impl Wire {
    fn say(&mut self, line: &str) -> Value {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.stream.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

#[test]
fn every_documented_exchange_has_its_documented_shape() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), CONFIG).unwrap();
    let clock = Arc::new(RealClock::new());
    let daemon = Daemon::start(Options {
        home: Home::at(home.path()),
        clock: clock.clone(),
        ids: Arc::new(RandomIds),
        log: Log::new(clock, Box::new(std::io::sink())),
        first_config: "",
        extra_devices: Vec::new(),
    })
    .unwrap();
    daemon.block_on(daemon.handle().ready()).unwrap();
    let mut wire = Wire { stream: BufReader::new(UnixStream::connect(home.path().join("mcp.sock")).unwrap()) };
    let exchanges: Vec<Value> = serde_json::from_str(include_str!("seeds.json")).unwrap();
    for exchange in &exchanges {
        let request = exchange["request"].to_string();
        let answer = wire.say(&request);
        let wanted = match exchange.get("error_code") {
            Some(code) => json!({ "error": { "code": 0, "message": "" }, "id": exchange["request"]["id"] })
                .pointer("/error")
                .map(|it| {
                    assert_eq!(&answer["error"]["code"], code, "{request}: {answer}");
                    json!({ "error": it })
                }),
            None => Some(json!({ "result": exchange["result"] })),
        };
        if let Err(fault) = fits(&wanted.unwrap(), &answer, "") {
            panic!("{request}\n{fault}\n{answer}");
        }
        assert_eq!(answer["id"], exchange["request"]["id"]);
        assert_eq!(answer["jsonrpc"], "2.0");
    }
    daemon.stop();
}

#[test]
fn the_checker_finds_a_missing_and_a_wrong_member() {
    assert!(fits(&json!({ "a": { "b": 1 } }), &json!({ "a": {} }), "").is_err());
    assert!(fits(&json!({ "a": "x" }), &json!({ "a": 1 }), "").is_err());
    assert!(fits(&json!({ "a": [{ "b": true }] }), &json!({ "a": [{ "b": false, "c": 1 }] }), "").is_ok());
}
