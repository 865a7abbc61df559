//! An observer of a running daemon over HTTP: the log with every filter, and checkpoint events.

use super::studio::{Studio, text, until};
use conductor_testkit::http_client::{self, Answer, TOKEN};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};

/// A configuration row that accepts [`TOKEN`].
pub fn token_row() -> String {
    let hash = conductor_core::digest::Digest::of(TOKEN.as_bytes());
    format!("[[http.tokens]]\nname = \"ci\"\nhash = \"{hash}\"\nscopes = [\"call\", \"observe\"]\n")
}

pub fn address_of(ready: &Value) -> SocketAddr {
    let url = ready["http"].as_str().unwrap();
    url.trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap()
}

pub fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {TOKEN}");
    let request = http_client::request(address, method, path, &[("Authorization", &bearer)], body);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(http_client::send(address, &request))
}

/// A stream of events that another program writes to a file until the daemon ends.
pub struct Stream {
    program: Child,
    file: std::path::PathBuf,
}

impl Stream {
    /// Returns when the stream has received an event of a call, so it is known to be connected.
    pub fn open(studio: &Studio, address: SocketAddr, file: &Path) -> Self {
        let program = Command::new("curl")
            .args(["-sN", "-H", &format!("Authorization: Bearer {TOKEN}"), &format!("http://{address}/events")])
            .stdout(std::fs::File::create(file).unwrap())
            .spawn()
            .unwrap();
        let stream = Stream { program, file: file.to_owned() };
        until("the stream is connected", || {
            let call = studio.run(&["call", "conductor_get_status"]);
            assert!(call.status.success(), "{}", text(&call.stderr));
            (!stream.heard().is_empty()).then_some(())
        });
        stream
    }

    pub fn heard(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    /// The data of the events with this name.
    fn of(&self, name: &str) -> Vec<Value> {
        let heard = self.heard();
        // The last event may be incomplete.
        let whole = heard.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
        let events = whole.split("\n\n").filter(|it| it.lines().any(|it| it == format!("event: {name}")));
        let data = events.filter_map(|it| it.lines().find_map(|it| it.strip_prefix("data: ")));
        data.map(|it| serde_json::from_str(it).unwrap()).collect()
    }

    /// Waits for the end of the stream after the daemon has ended.
    pub fn end(&mut self) -> String {
        self.program.wait().unwrap();
        self.heard()
    }
}

#[test]
fn every_checkpoint_is_told_to_those_who_observe() {
    let mut studio = Studio::empty();
    let config = format!("schema = 1\n[audit]\ncheckpoint_records = 3\n{}", token_row());
    std::fs::write(studio.config_file(), config).unwrap();
    let address = address_of(&studio.up(&[]));
    let folder = tempfile::tempdir().unwrap();
    let mut stream = Stream::open(&studio, address, &folder.path().join("events"));
    until("three checkpoint events arrived", || {
        assert_eq!(ask(address, "POST", "/tools/conductor_list_modes", "{}").status, 200);
        (stream.of("audit.checkpoint").len() >= 3).then_some(())
    });
    studio.stop();
    stream.end();
    let told = stream.of("audit.checkpoint");
    let signed = std::fs::read_to_string(studio.home().join("state/checkpoints.jsonl")).unwrap();
    let signed: Vec<Value> = signed.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    for checkpoint in &told {
        let mut members: Vec<&String> = checkpoint.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(members, ["hash", "log_id", "seq"]);
        let same = |it: &&Value| ["hash", "log_id", "seq"].iter().all(|key| it[*key] == checkpoint[*key]);
        assert!(signed.iter().any(|it| same(&it)), "{checkpoint} is not among {signed:?}");
    }
    assert!(told.windows(2).all(|pair| pair[0]["seq"].as_u64() < pair[1]["seq"].as_u64()), "{told:?}");
}

fn records(address: SocketAddr, query: &str) -> Vec<Value> {
    let answer = ask(address, "GET", &format!("/audit{query}"), "");
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    answer.json()["records"].as_array().unwrap().clone()
}

#[test]
fn the_log_is_read_by_every_filter_there_is() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), format!("schema = 1\n{}", token_row())).unwrap();
    let address = address_of(&studio.up(&[]));
    for (path, body, status) in [
        ("/tools/conductor_list_modes", "{}", 200),
        ("/tools/conductor_get_status", "{}", 200),
        ("/tools/conductor_switch_mode", "{\"mode\":\"nowhere\"}", 404),
        ("/tools/conductor_switch_mode", "{\"mode\":1}", 400),
        ("/tools/made_up", "{}", 404),
    ] {
        assert_eq!(ask(address, "POST", path, body).status, status, "{path} {body}");
    }
    assert!(studio.run(&["call", "conductor_list_modes"]).status.success());
    assert!(studio.run(&["call", "conductor_list_modes"]).status.success());

    // The answer contains the records of the file, newest first.
    let file = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    let all: Vec<Value> = file.lines().rev().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(records(address, "?limit=1000"), all);
    assert_eq!(records(address, ""), all, "the default limit left out records");
    let middle = &all[all.len() / 2];
    let (time, seq) = (middle["ts"].as_str().unwrap(), middle["seq"].as_u64().unwrap());
    let text = |record: &Value, key: &str| record[key].as_str().unwrap_or_default().to_owned();
    type Wanted<'a> = Box<dyn Fn(&Value) -> bool + 'a>;
    let filters: Vec<(String, Wanted<'_>)> = vec![
        ("tool=conductor_list_modes".into(), Box::new(|it| text(it, "tool") == "conductor_list_modes")),
        ("tool=conductor_*".into(), Box::new(|it| text(it, "tool").starts_with("conductor_"))),
        ("tool=made_up".into(), Box::new(|it| text(it, "tool") == "made_up")),
        ("result=ok".into(), Box::new(|it| it["result"] == "ok")),
        ("result=invalid".into(), Box::new(|it| it["result"] == "invalid")),
        ("principal=http:ci".into(), Box::new(|it| it["principal"] == "http:ci")),
        ("principal=cli%3A*".into(), Box::new(|it| text(it, "principal").starts_with("cli:"))),
        // All times have the same format, so they can be compared as text.
        (format!("since={time}"), Box::new(|it| text(it, "ts").as_str() >= time)),
        (format!("until={}", time.replace(':', "%3A")), Box::new(|it| text(it, "ts").as_str() < time)),
        (format!("after={seq}"), Box::new(|it| it["seq"].as_u64().unwrap() > seq)),
        (
            "tool=conductor_list_modes&principal=http:ci&result=ok".into(),
            Box::new(|it| text(it, "tool") == "conductor_list_modes" && it["principal"] == "http:ci"),
        ),
    ];
    for (query, wanted) in &filters {
        let expected: Vec<Value> = all.iter().filter(|it| wanted(it)).cloned().collect();
        assert!(!expected.is_empty() && expected.len() < all.len(), "{query} must match some records, but not all");
        assert_eq!(records(address, &format!("?{query}")), expected, "{query}");
        // The limit applies after the filter: the newest record that matches is returned.
        assert_eq!(records(address, &format!("?{query}&limit=1")), expected[..1], "{query}");
    }
    assert_eq!(records(address, "?tool=nobody"), Vec::<Value>::new());
    assert_eq!(records(address, "?limit=3"), all[..3]);
    for refused in ["limit=0", "limit=1001", "limit=x", "result=fine", "since=yesterday", "until=", "after=-1", "tol=x"]
    {
        let answer = ask(address, "GET", &format!("/audit?{refused}"), "");
        let key = refused.split('=').next().unwrap();
        assert_eq!(answer.status, 400, "{refused}");
        assert!(answer.json()["error"].as_str().unwrap().contains(key), "{refused}: {}", answer.body);
    }
    assert_eq!(ask(address, "POST", "/audit", &json!({}).to_string()).status, 405);
}
