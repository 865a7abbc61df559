//! Tests real clients with a server of test tools: shell pipes, every error code in the SDKs, and
//! the public suite with its fixtures.
//!
//! Not here: the same clients with the product; see the end-to-end tests of `conductor`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod skips;

use std::io::Write;
use std::process::{Command, Stdio};

use conductor_testkit::foreign_client::Puppet;
use conductor_testkit::mcp_process::{Doorstep, node, python, suite};
use serde_json::json;

const DOOR: &str = env!("CARGO_BIN_EXE_testdoor");

fn proxy(door: &Doorstep, words: &[&str]) -> Command {
    let mut command = Command::new(DOOR);
    command.arg("proxy").arg(door.home.path()).args(words);
    command
}

#[test]
fn one_request_piped_in_is_answered_whatever_stdio_is() {
    let door = Doorstep::start(DOOR, &[]);
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"test_echo\",\"params\":{\"text\":\"hi\"}}\n";
    let wanted = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"echo\":\"hi\"}}\n";
    // stdin and stdout are pipes.
    let mut child =
        proxy(&door, &[]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the proxy did not start");
    child.stdin.take().expect("no pipe").write_all(request).expect("cannot write");
    let out = child.wait_with_output().expect("the proxy did not end");
    assert_eq!((String::from_utf8_lossy(&out.stdout).as_ref(), out.status.code()), (wanted, Some(0)));
    // stdin and stdout are files.
    let (input, output) = (door.home.path().join("in"), door.home.path().join("out"));
    std::fs::write(&input, request).expect("cannot write");
    let from = std::fs::File::open(&input).expect("the input file cannot be opened");
    let to = std::fs::File::create(&output).expect("the output file cannot be created");
    assert!(proxy(&door, &[]).stdin(from).stdout(to).status().expect("the proxy did not end").success());
    assert_eq!(std::fs::read_to_string(&output).ok().as_deref(), Some(wanted));
    // stdin and stdout are a socket pair, which Node uses for its child processes.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("no socket pair");
    let theirs_out = theirs.try_clone().expect("cannot clone the socket");
    let mut child = proxy(&door, &[])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(theirs_out)))
        .spawn()
        .expect("the proxy did not start");
    (&ours).write_all(request).expect("cannot write");
    ours.shutdown(std::net::Shutdown::Write).expect("cannot close the sending side");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut (&ours), &mut text).expect("cannot read the answer");
    assert_eq!((text.as_str(), child.wait().expect("the proxy did not end").code()), (wanted, Some(0)));
}

#[test]
fn a_toolset_that_does_not_exist_is_a_usage_error() {
    let door = Doorstep::start(DOOR, &[]);
    let out = proxy(&door, &["nope"]).stdin(Stdio::null()).output().expect("the proxy did not end");
    assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8_lossy(&out.stderr).contains("nope"));
}

#[test]
fn a_daemon_that_dies_ends_the_proxy_with_one_line() {
    let mut door = Doorstep::start(DOOR, &[]);
    let mut child = proxy(&door, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the proxy did not start");
    let mut stdin = child.stdin.take().expect("no pipe");
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("cannot write");
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().expect("no pipe"));
    std::io::BufRead::read_line(&mut out, &mut line).expect("the proxy did not answer");
    door.kill();
    let ended = child.wait_with_output().expect("the proxy did not end");
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&ended.stderr).lines().count(), 1);
    drop(stdin);
}

const CODES: [&str; 18] = [
    "BAD_INPUT",
    "NOT_FOUND",
    "STALE_REFERENCE",
    "WRONG_TYPE",
    "UNSUPPORTED",
    "SDK_REJECTED",
    "DENIED",
    "APPROVAL_REQUIRED",
    "PLAN_EXPIRED",
    "PLAN_STALE",
    "RATE_LIMITED",
    "PIN_MISMATCH",
    "AUDIT_UNAVAILABLE",
    "BUSY",
    "HOST_OFFLINE",
    "TIMEOUT",
    "INTERNAL",
    "CIRCUIT_OPEN",
];

/// Every error of a tool must be a result: the SDK must not throw. One common SDK also validates an
/// error against the output schema, and throws if it does not match. Only the call of an unknown
/// tool throws.
fn every_failure_is_a_result(client: &mut Puppet) {
    let tools = client.tools();
    assert!(tools.iter().any(|it| it == "test_echo") && tools.iter().all(|it| !it.contains('.')), "{tools:?}");
    assert_eq!(client.call("test_echo", &json!({ "text": "hi" }))["value"], json!({ "echo": "hi" }));
    for code in CODES {
        let seen = client.call("test_fail_effect", &json!({ "code": code }));
        let error = &seen["value"];
        assert_eq!((&seen["failed"], &error["code"]), (&json!(true), &json!(code)), "{seen}");
        assert!(["message", "hint"].iter().all(|it| error[it].as_str().is_some_and(|it| !it.is_empty())), "{seen}");
    }
    let read = client.ask(&json!({ "do": "read", "uri": "test://echo" }));
    assert_eq!(read["text"], "{\"echo\":\"fixed\"}");
    let prompt = client.ask(&json!({ "do": "prompt", "name": "say", "arguments": { "text": "hi" } }));
    assert_eq!(prompt["text"], "Call test.echo with \"hi\".");
    assert_eq!(client.call("no_such_tool", &json!({}))["thrown"], -32602);
}

#[test]
fn no_sdk_throws_on_an_error_result() {
    let (Some(python), Some(node)) = (python(), node()) else { return };
    for (program, words) in [
        (&python, &["python_client.py"][..]),
        (&node, &["typescript_client.mjs", "--sdk", "1"]),
        (&node, &["typescript_client.mjs", "--sdk", "2"]),
    ] {
        for over in ["stdio", "http"] {
            // A new server for each client: the failures would open the circuit breaker for the
            // next client.
            let door = Doorstep::start(DOOR, &[]);
            let (home, url) = (door.home.path().to_string_lossy().into_owned(), door.url());
            let way = if over == "http" { &["http", &url][..] } else { &["stdio", DOOR, "proxy", &home] };
            every_failure_is_a_result(&mut Puppet::start(program, &[words, way].concat()));
        }
    }
}

/// The suite fails if a scenario fails that is not in the list of expected failures, or if a
/// scenario in the list passes.
#[test]
fn the_public_suite_in_both_eras() {
    if node().is_none() {
        return;
    }
    let door = Doorstep::start(DOOR, &["--fixtures"]);
    for arguments in [
        ["--requirements", "2026-07-28", "--expected-failures", "baseline-2026-07-28.yml"],
        ["--spec-version", "2025-11-25", "--expected-failures", "baseline-2025-11-25.yml"],
    ] {
        let (good, text) = suite(&door.url(), door.home.path(), &arguments);
        assert!(good, "{arguments:?}\n{text}");
    }
}
