//! The console's page in Debian's chromium against the built binary. Each story is a script in
//! `conductor-testkit/clients/console/stories`. The script drives the browser, and asks this test
//! for everything outside the page: a person at a terminal, an AI client, a hand on the pads, and
//! the files of the home.

use crate::studio::{BINARY, Studio};
use conductor_core::digest::Digest;
use conductor_testkit::foreign_client::Puppet;
use conductor_testkit::mcp_process::{clients, node};
use conductor_testkit::real;
use conductor_testkit::terminal::at_a_terminal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longest wait for an answer of the client, in real time. No test asserts on it.
const PATIENCE: Duration = Duration::from_secs(90);

/// An AI client in its own thread, so that a call can wait for a decision in the page.
struct AiClient {
    wishes: std::sync::mpsc::Sender<Value>,
    answers: Receiver<Value>,
}

impl AiClient {
    fn start(node: &Path, studio: &Studio, name: &str) -> Self {
        let (wishes, heard) = channel::<Value>();
        let (sender, answers) = channel();
        let home = studio.home().to_str().unwrap().to_owned();
        let words =
            ["typescript_client.mjs", "--sdk", "2", "--era", "modern", "--name", name, "stdio", BINARY, "--home"];
        let words: Vec<String> =
            words.into_iter().map(str::to_owned).chain([home, "mcp".into(), "start".into()]).collect();
        let node = node.to_owned();
        std::thread::spawn(move || {
            let mut puppet = Puppet::start(&node, &words);
            while let Ok(wish) = heard.recv() {
                if sender.send(puppet.ask(&wish)).is_err() {
                    return;
                }
            }
        });
        AiClient { wishes, answers }
    }
}

/// A studio with a person, AI clients and a browser, for one story.
pub struct Stage {
    pub studio: Studio,
    pub url: String,
    node: PathBuf,
    ai: BTreeMap<String, AiClient>,
}

impl Stage {
    /// The demo studio with more configuration. `None`, with a note, if a program is missing.
    pub fn open(more: &str) -> Option<Self> {
        let node = node()?;
        if !Path::new("/usr/bin/chromium").exists() {
            real::skip("chromium is not installed");
            return None;
        }
        let mut studio = Studio::empty();
        let mut mcp = studio.up(&["--demo"])["http"].as_str().unwrap().to_owned();
        if !more.is_empty() {
            // The demo has written its files. Start the daemon again with more configuration.
            studio.stop();
            let demo = std::fs::read_to_string(studio.config_file()).unwrap();
            std::fs::write(studio.config_file(), format!("{demo}{more}")).unwrap();
            studio.up(&[])["http"].as_str().unwrap().clone_into(&mut mcp);
        }
        let url = mcp.trim_end_matches("/mcp").to_owned();
        Some(Stage { studio, url, node, ai: BTreeMap::new() })
    }

    /// Runs a command as a person, at a separate terminal.
    pub fn person(&self, words: &[String]) -> (Option<i32>, String) {
        let mut command = Command::new(BINARY);
        command.env("CONDUCTOR_HOME", self.studio.home()).args(words);
        at_a_terminal(command)
    }

    /// The one-time link that `conductor console` prints.
    fn link(&self) -> String {
        let (code, said) = self.person(&["console".to_owned()]);
        assert_eq!(code, Some(0), "{said}");
        let start = said.find("http://").unwrap_or_else(|| panic!("no link in {said}"));
        said[start..].split_whitespace().next().unwrap().to_owned()
    }

    fn client(&mut self, name: &str) -> &AiClient {
        let (node, studio) = (&self.node, &self.studio);
        self.ai.entry(name.to_owned()).or_insert_with(|| AiClient::start(node, studio, name))
    }

    /// Carries out one request of the story.
    fn perform(&mut self, wish: &Value) -> Value {
        let text = |key: &str| wish[key].as_str().unwrap_or_default().to_owned();
        match text("do").as_str() {
            "link" => json!(self.link()),
            "person" => {
                let words: Vec<String> = serde_json::from_value(wish["words"].clone()).unwrap();
                let (code, said) = self.person(&words);
                json!({ "code": code, "text": said })
            }
            "call" => {
                let wish_of_client = json!({ "do": "call", "name": text("tool"), "arguments": wish["arguments"] });
                self.client(&text("client")).wishes.send(wish_of_client).unwrap();
                Value::Null
            }
            "answer" => self.client(&text("client")).answers.recv_timeout(PATIENCE).expect("the client did not answer"),
            "control" => self.studio.ask(&text("method"), wish["params"].clone()),
            "enable" => {
                let name = text("plugin");
                crate::plugins::until_it_is(&self.studio, &name, "disabled");
                let (done, said) = crate::plugins::enable(&self.studio, &name, "y");
                assert!(done, "{said}");
                Value::Null
            }
            "read" => json!(std::fs::read_to_string(self.studio.home().join(text("path"))).unwrap()),
            "write" => {
                std::fs::write(self.studio.home().join(text("path")), text("text")).unwrap();
                Value::Null
            }
            "save" => {
                self.studio.save(&text("text"));
                Value::Null
            }
            "stop" => {
                self.studio.stop();
                Value::Null
            }
            "load" => json!(self.load(Duration::from_secs(wish["seconds"].as_u64().unwrap()))),
            other => panic!("the story requests {other:?}, which is unknown"),
        }
    }

    /// Plays 1,000 events a second on the pads. Returns how many were sent.
    #[expect(clippy::disallowed_methods, reason = "the rate of a load is a rate in real time; nothing asserts on it")]
    fn load(&self, time: Duration) -> u64 {
        let mut control = self.studio.control();
        let (started, mut sent) = (std::time::Instant::now(), 0_u64);
        while started.elapsed() < time {
            let messages: Vec<[u8; 3]> =
                (0..10_u8).map(|at| if at % 2 == 0 { [0x90, 36 + at, 100] } else { [0x80, 35 + at, 0] }).collect();
            control.ask("play", json!({ "port": "pads hand", "messages": messages })).unwrap();
            sent += 10;
            let due = Duration::from_millis(sent);
            std::thread::park_timeout(due.saturating_sub(started.elapsed()));
        }
        sent
    }

    /// Runs a story until it ends. A failure shows the story's stderr.
    pub fn tell(&mut self, story: &str, arguments: &[&str]) {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new(&self.node)
            .args(["console/story.mjs", story, &self.url])
            .args(arguments)
            .env("CONSOLE_PROFILE", profile.path())
            .current_dir(clients())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = child.stdin.take().unwrap();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let wish: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            let answer = self.perform(&wish);
            writeln!(answers, "{}", json!({ "value": answer })).unwrap();
        }
        assert!(child.wait().unwrap().success(), "the story {story} failed");
    }
}

fn tell(story: &str) {
    tell_with(story, "");
}

fn tell_with(story: &str, more: &str) {
    if let Some(mut stage) = Stage::open(more) {
        stage.tell(story, &[]);
    }
}

#[test]
fn a_plan_is_approved_and_undone_and_a_call_is_denied_with_a_reason() {
    tell("decide");
}

#[test]
fn an_event_is_watched_explained_and_learned() {
    tell("play");
}

#[test]
fn a_patch_follows_its_edits_and_is_undone_from_the_page() {
    tell("documents");
}

#[test]
fn a_tampered_log_is_found_by_the_page() {
    tell("log");
}

#[test]
fn only_a_link_of_a_person_opens_the_page() {
    tell("doors");
}

#[test]
fn names_are_text_and_nothing_else() {
    tell_with("names", include_str!("../../../conductor-testkit/clients/console/names.toml"));
}

#[test]
fn every_view_can_be_used_without_a_mouse_and_read_by_a_screen_reader() {
    tell("access");
}

#[test]
fn the_first_hour_works_as_written() {
    tell("first_hour");
}

/// Writes `docs/images`; `make screenshots` runs it.
#[test]
#[ignore = "writes files of the repository"]
fn screenshots_of_every_view() {
    if let Some(mut stage) = Stage::open("") {
        stage.tell("screenshots", &[images().to_str().unwrap()]);
    }
    if let Some(mut stage) = Stage::open("") {
        stage.tell("first_hour", &[images().to_str().unwrap()]);
    }
    super::phone::take_pictures();
}

/// Reports the behaviour of page and daemon under load; `make bench` runs it.
#[test]
#[ignore = "takes more than a minute and needs a quiet machine"]
fn a_thousand_events_a_second() {
    tell("bench");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn images() -> PathBuf {
    repository().join("docs/images")
}

#[test]
fn the_set_of_screenshots_is_complete() {
    for view in ["now", "approvals", "mappings", "why", "patches", "sets", "calls", "health", "connect", "tools"] {
        for width in ["1440", "390"] {
            for theme in ["light", "dark"] {
                let file = images().join(format!("{view}-{width}-{theme}.png"));
                assert!(file.exists(), "{} is missing; run make screenshots", file.display());
            }
        }
    }
    for view in ["phone", "phone-pair", "phone-plan"] {
        for theme in ["light", "dark"] {
            let file = images().join(format!("{view}-390-{theme}.png"));
            assert!(file.exists(), "{} is missing; run make screenshots", file.display());
        }
    }
    for page in ["README.md", "docs/console.md", "docs/first-hour.md", "docs/team.md"] {
        let text = std::fs::read_to_string(repository().join(page)).unwrap();
        let pictures: Vec<&str> =
            text.split("images/").skip(1).filter_map(|it| it.split(['"', ')', ' ']).next()).collect();
        assert!(!pictures.is_empty(), "{page} shows no picture of the console");
        for picture in pictures {
            assert!(images().join(picture).exists(), "{page} shows {picture}, which is missing");
        }
    }
}

#[test]
fn vendored_files_are_those_of_the_list() {
    let folder = repository().join("console/vendor");
    let list: Value = serde_json::from_slice(&std::fs::read(folder.join("vendor.json")).unwrap()).unwrap();
    let listed = list["files"].as_object().unwrap();
    let licences = std::fs::read_to_string(folder.join("LICENSES.txt")).unwrap();
    for (name, entry) in listed {
        let digest = Digest::of(&std::fs::read(folder.join(name)).unwrap()).to_string();
        assert_eq!(digest, format!("sha256:{}", entry["sha256"].as_str().unwrap()), "{name} was changed");
        for package in entry["packages"].as_array().unwrap() {
            let line = format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
            assert!(licences.contains(&line), "{line} has no licence text");
        }
    }
    for file in std::fs::read_dir(&folder).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        let known = name == "vendor.json" || name == "LICENSES.txt" || name.ends_with(".d.ts");
        assert!(known || listed.contains_key(&name), "{name} is not in vendor.json");
    }
}

/// Runs a check of the page that needs no daemon.
fn check(words: &[&str]) {
    let Some(node) = node() else { return };
    let done = Command::new(node).args(words).current_dir(clients()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
}

#[test]
fn the_page_is_small() {
    check(&["console/weight.mjs"]);
}

#[test]
fn the_page_uses_the_routes_as_the_contract_describes_them() {
    if !clients().join("node_modules/typescript").exists() {
        real::skip("typescript is not installed; run crates/conductor-testkit/clients/install");
        return;
    }
    check(&["node_modules/typescript/bin/tsc", "--project", "console/jsconfig.json"]);
}
