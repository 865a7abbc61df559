//! The audit log on a small file system that becomes full, and later has free space again.
//!
//! A child process of this test binary does the work in a separate mount namespace. If no namespace
//! can be created, the test reports that it is skipped.

use conductor_hosts::system::{Ids, RealClock, SeededIds};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::audit_files::{facts, good, verdict};
use conductor_core::audit::Verdict;
use conductor_core::policy::Tier;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::audit_log::{AuditLog, Durability, Settings};
use conductor_testkit::real::skip;
use conductor_testkit::stranger::DirectClient;
use serde_json::{Value, json};

const HOME: &str = "CONDUCTOR_FULL_HOME";

#[test]
#[ignore = "the child of refuses_when_full_and_works_again"]
#[expect(clippy::disallowed_methods, reason = "the child reads its home from the environment")]
fn fill() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let home = Path::new(&home);
    let ballast = home.join("ballast");
    std::fs::write(&ballast, vec![1; 400_000]).expect("no space for the ballast");
    let ids = SeededIds::new(1);
    let (log, _) = AuditLog::open(home, Arc::new(Disk), Settings::default(), Arc::new(RealClock::new()), ids.clone())
        .expect("the log could not be opened");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut written = 0_u64;
        while log.outcome(facts(ids.v4(), Tier::ReadOnly), good(), Durability::Soon).await.is_ok() {
            written += 1;
            assert!(written < 10_000, "the disk of 1 MB was not filled");
        }
        assert!(written > 100, "{written}");
        assert!(
            log.intent(facts(ids.v4(), Tier::ReadOnly)).await.is_err(),
            "an intent was accepted while the log cannot be written"
        );
        assert!(log.check().is_err());
        std::fs::remove_file(&ballast).expect("removed");
        let up = async {
            while log.check().is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), up).await.expect("the log did not become writable again");
        log.intent(facts(ids.v4(), Tier::ReadOnly)).await.expect("written");
        assert_eq!(log.health().unwritten, 0, "the outcome that did not fit is still not written");
    });
    log.stop();
    let (found, faults) = verdict(home);
    assert_eq!(found, Verdict::Intact, "{faults}");
}

struct Daemon<'a> {
    child: std::process::Child,
    home: &'a Path,
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Daemon<'a> {
    fn start(home: &'a Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_conductor"))
            .args(["--json", "up", "--http", "127.0.0.1:0"])
            .env("CONDUCTOR_HOME", home)
            .env_remove("DISPLAY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon could not be started");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("its word");
        assert!(!line.is_empty(), "the daemon did not start");
        Daemon { child, home }
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let stream = UnixStream::connect(self.home.join("mcp.sock")).expect("a socket");
        DirectClient::over(stream).call(tool, arguments)
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        let output = command.args(words).env("CONDUCTOR_HOME", self.home).stdin(Stdio::null()).output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    fn until(&self, what: &str, tool: &str, holds: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..2000 {
            let answer = self.call(tool, &json!({}));
            if holds(&answer) {
                return answer;
            }
            #[expect(clippy::disallowed_methods, reason = "polls another process; no assertion depends on the time")]
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the wait timed out; expected: {what}");
    }
}

fn fill_up(path: &Path) {
    let mut file = std::fs::File::create(path).expect("created");
    while file.write_all(&[1; 4096]).is_ok() {}
}

#[test]
#[ignore = "the child of a_daemon_on_a_full_disk"]
#[expect(clippy::disallowed_methods, reason = "the child reads its home from the environment")]
fn serve_on_a_full_disk() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let home = Path::new(&home).join("home");
    std::fs::create_dir(&home).expect("created");
    let config = "schema = 1\n[[devices]]\nalias = \"pads\"\ndirection = \"Input\"\nloopback = true\n\
        [[devices]]\nalias = \"synth\"\ndirection = \"Output\"\nloopback = true\n";
    std::fs::write(home.join("config.toml"), config).expect("written");
    let daemon = Daemon::start(&home);
    let ballast = home.join("ballast");
    fill_up(&ballast);
    let down = |answer: &Value| answer["error"]["data"]["code"] == "AUDIT_UNAVAILABLE";
    let refused = daemon.until("the log cannot be written", "conductor_get_status", down);
    let message = refused["error"]["message"].as_str().expect("a message");
    assert_eq!(
        message.matches("cannot be written").count(),
        1,
        "the reason is not in the message exactly once: {message}"
    );
    assert!(message.starts_with("the audit log cannot be written: "), "{message}");

    // `conductor_panic` still works; other tools do not.
    for _ in 0..3 {
        let silence = daemon.call("conductor_panic", &json!({}));
        assert_eq!(silence["result"]["audit"], "pending", "{silence}");
        assert!(silence["result"]["ports"].as_array().is_some_and(|it| !it.is_empty()), "{silence}");
    }
    assert!(down(&daemon.call("conductor_list_modes", &json!({}))));
    let (code, said) = daemon.run(&["panic"]);
    assert!(code == Some(0) && said.contains("audit record: pending"), "{said}");
    // The human door also refuses reads that do not diagnose the daemon.
    for words in [
        &["modes"][..],
        &["devices"],
        &["mode", "set", "Default"],
        &["call", "conductor_get_mappings", "{\"mode\":\"*\"}"],
    ] {
        let (code, said) = daemon.run(words);
        assert!(code == Some(1) && said.contains("the audit log cannot be written"), "{words:?}: {said}");
    }
    let note = json!({ "port": "synth", "messages": [{ "type": "note_on", "channel": 1, "note": 60 }] });
    assert!(down(&daemon.call("conductor_send_midi", &note)));

    // `status` and `doctor` report the reason.
    let (code, said) = daemon.run(&["status"]);
    assert!(
        code == Some(0) && said.contains("audit     no tool is served: the audit log cannot be written: "),
        "{said}"
    );
    let (_, said) = daemon.run(&["--json", "status"]);
    let status: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(status["audit"]["writable"], false);
    assert!(
        status["audit"]["reason"].as_str().is_some_and(|it| it.matches("cannot be written").count() == 1),
        "{said}"
    );
    assert!(status["audit"]["waiting"].as_u64().is_some_and(|it| it >= 3), "{said}");
    let (code, said) = daemon.run(&["doctor"]);
    assert!(code == Some(1) && said.contains("bad   audit        no tool is served: "), "{said}");

    // When there is space again, the kept outcomes are written first.
    std::fs::remove_file(&ballast).expect("removed");
    daemon.until("the log can be written again", "conductor_get_status", |answer| {
        answer["result"]["audit"]["writable"] == true
    });
    let silence = daemon.call("conductor_panic", &json!({}));
    assert!(silence["result"]["audit"].is_null(), "{silence}");
    let log = std::fs::read_to_string(home.join("audit.log")).expect("readable");
    let after: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .skip_while(|record: &Value| record["event"] != "audit.resumed")
        .collect();
    let panics: Vec<&Value> =
        after.iter().filter(|it| it["phase"] == "outcome" && it["tool"] == "conductor_panic").collect();
    assert_eq!(panics.len(), 5, "{log}");
    let by_command = |it: &&&Value| it["principal"].as_str().is_some_and(|it| it.starts_with("cli:"));
    assert_eq!(panics.iter().filter(by_command).count(), 1, "the command is not recorded exactly once: {log}");
    let third = after.iter().enumerate().filter(|(_, it)| it["tool"] == "conductor_panic").map(|(at, _)| at).nth(3);
    let first_new = after.iter().position(|it| it["phase"] == "intent");
    assert!(third.is_some() && third < first_new, "{log}");
    drop(daemon);
    let (found, faults) = verdict(&home);
    assert!(matches!(found, Verdict::Intact | Verdict::Torn), "{faults}");
}

/// Runs a test of this binary on a separate small file system, or reports that none can be created.
fn on_a_small_disk(child: &str, size: &str) {
    let home = tempfile::tempdir().expect("a folder");
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", script]).env(HOME, home.path());
        command.arg("sh").arg(std::env::current_exe().expect("own path"));
        command.output()
    };
    let mount = format!("mount -t tmpfs -o size={size} tmpfs \"$CONDUCTOR_FULL_HOME\"");
    match inside(&mount) {
        Ok(output) if output.status.success() => {}
        failed => {
            skip(format!("no mount namespace of our own here ({failed:?})"));
            return;
        }
    }
    let output = inside(&format!("{mount} && exec \"$1\" --ignored --exact audit_full_disk::{child} --nocapture"))
        .expect("runs");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    assert!(
        String::from_utf8_lossy(&text).contains("1 passed"),
        "the child did not run: {}",
        String::from_utf8_lossy(&text)
    );
}

#[test]
fn refuses_when_full_and_works_again() {
    on_a_small_disk("fill", "1m");
}

#[test]
fn a_daemon_on_a_full_disk_says_so_everywhere_and_still_falls_silent() {
    on_a_small_disk("serve_on_a_full_disk", "6m");
}
