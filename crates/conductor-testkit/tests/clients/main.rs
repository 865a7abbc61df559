//! Real clients against the doors as processes: shell pipes, the Python and TypeScript SDKs, the inspector, the public suite.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use conductor_testkit::doorstep::{Doorstep, clients, node, python, run};
use serde_json::{Value, json};

const DOOR: &str = env!("CARGO_BIN_EXE_testdoor");

fn proxy(door: &Doorstep, words: &[&str]) -> Command {
    let mut command = Command::new(DOOR);
    command.arg("proxy").arg(door.home.path()).args(words);
    command
}

fn last_json(out: &std::process::Output) -> Value {
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {text}\n{}", String::from_utf8_lossy(&out.stderr)))
}

#[test]
fn one_request_piped_in_is_answered_whatever_stdio_is() {
    let door = Doorstep::start(DOOR, &[]);
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"test_echo\",\"params\":{\"text\":\"hi\"}}\n";
    let wanted = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"echo\":\"hi\"}}\n";
    // Pipes.
    let mut child = proxy(&door, &[]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("piped").write_all(request).expect("written");
    let out = child.wait_with_output().expect("ends");
    assert_eq!((String::from_utf8_lossy(&out.stdout).as_ref(), out.status.code()), (wanted, Some(0)));
    // Files.
    let (input, output) = (door.home.path().join("in"), door.home.path().join("out"));
    std::fs::write(&input, request).expect("written");
    let from = std::fs::File::open(&input).expect("there");
    let to = std::fs::File::create(&output).expect("made");
    assert!(proxy(&door, &[]).stdin(from).stdout(to).status().expect("ends").success());
    assert_eq!(std::fs::read_to_string(&output).ok().as_deref(), Some(wanted));
    // A socket pair, which is what Node gives its children.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let theirs_out = theirs.try_clone().expect("two ends");
    let mut child = proxy(&door, &[])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(theirs_out)))
        .spawn()
        .expect("starts");
    (&ours).write_all(request).expect("written");
    ours.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut (&ours), &mut text).expect("read");
    assert_eq!((text.as_str(), child.wait().expect("ends").code()), (wanted, Some(0)));
}

#[test]
fn a_toolset_that_does_not_exist_is_a_usage_error() {
    let door = Doorstep::start(DOOR, &[]);
    let out = proxy(&door, &["nope"]).stdin(Stdio::null()).output().expect("ends");
    assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8_lossy(&out.stderr).contains("nope"));
}

#[test]
fn a_daemon_that_dies_ends_the_proxy_with_one_line() {
    let mut door = Doorstep::start(DOOR, &[]);
    let mut child =
        proxy(&door, &[]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("written");
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut out, &mut line).expect("answered");
    door.kill();
    let ended = child.wait_with_output().expect("ends");
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&ended.stderr).lines().count(), 1);
    drop(stdin);
}

fn check_story(story: &Value) {
    let tools: Vec<&str> = story["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(tools.contains(&"test_echo") && tools.iter().all(|it| !it.contains('.')), "{tools:?}");
    assert_eq!(story["good"], json!({ "echo": "hi" }));
    assert_eq!(story["resource"], "{\"echo\":\"fixed\"}");
    assert_eq!(story["prompt"], "Call test.echo with \"hi\".");
}

#[test]
fn the_python_sdk_over_stdio_and_http() {
    let Some(python) = python() else { return };
    let door = Doorstep::start(DOOR, &[]);
    let home = door.home.path().to_string_lossy().into_owned();
    let url = door.url();
    for arguments in [vec!["python_client.py", "stdio", DOOR, "proxy", &home], vec!["python_client.py", "http", &url]] {
        let story = last_json(&run(&python, &arguments, &[]));
        check_story(&story);
        assert_eq!(story["bad"], json!([true, "BAD_INPUT"]));
        assert_eq!(story["asks"], json!([true, "APPROVAL_REQUIRED"]));
    }
}

#[test]
fn the_typescript_sdk_over_stdio_and_http_throws_on_no_error_result() {
    let Some(node) = node() else { return };
    let door = Doorstep::start(DOOR, &[]);
    let home = door.home.path().to_string_lossy().into_owned();
    let url = door.url();
    for arguments in
        [vec!["typescript_client.mjs", "stdio", DOOR, "proxy", &home], vec!["typescript_client.mjs", "http", &url]]
    {
        let story = last_json(&run(&node, &arguments, &[]));
        check_story(&story);
        for (code, seen) in story["codes"].as_object().into_iter().flatten() {
            // Two failures that count in a row of this tool open its circuit; the result is an error result all the same.
            assert_eq!((&seen[0], &seen[2]), (&json!(true), &json!("string")), "{code}: {seen}");
        }
        assert_eq!(story["codes"].as_object().map(|it| it.len()), Some(18));
        assert_eq!(story["unknown"], -32602);
    }
}

fn inspector(node: &Path, arguments: &[&str], home: &Path) -> std::process::Output {
    let script = clients().join("node_modules/@modelcontextprotocol/inspector");
    let package: Value = std::fs::read_to_string(script.join("package.json"))
        .ok()
        .and_then(|it| serde_json::from_str(&it).ok())
        .unwrap_or_default();
    let bin = match &package["bin"] {
        Value::String(path) => path.clone(),
        Value::Object(all) => all.values().next().and_then(Value::as_str).unwrap_or_default().to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => String::new(),
    };
    let entry = script.join(bin).to_string_lossy().into_owned();
    let mut all = vec![entry.as_str(), "--cli"];
    all.extend_from_slice(arguments);
    let catalog = home.join("inspector.json").to_string_lossy().into_owned();
    run(node, &all, &[("MCP_CATALOG_PATH", &catalog), ("MCP_INSPECTOR_SECRET_STORE", "memory")])
}

#[test]
fn the_inspector_lists_strictly_and_calls() {
    let Some(node) = node() else { return };
    let door = Doorstep::start(DOOR, &[]);
    let home = door.home.path();
    let path = home.to_string_lossy().into_owned();
    let stdio = [DOOR, "proxy", path.as_str()];
    let list = inspector(&node, &[&stdio[..], &["--method", "tools/list", "--strict"]].concat(), home);
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    assert!(String::from_utf8_lossy(&list.stdout).contains("test_echo"));
    let call = ["--method", "tools/call", "--tool-name", "test_echo", "--tool-arg", "text=hi", "--format", "json"];
    let call = inspector(&node, &[&stdio[..], &call[..]].concat(), home);
    assert!(
        String::from_utf8_lossy(&call.stdout).contains("{\\\"echo\\\":\\\"hi\\\"}"),
        "{}",
        String::from_utf8_lossy(&call.stdout)
    );
    let fails = ["--method", "tools/call", "--tool-name", "test_fail", "--tool-arg", "code=NOT_FOUND"];
    assert_eq!(inspector(&node, &[&stdio[..], &fails[..]].concat(), home).status.code(), Some(5));
    let token = std::fs::read_to_string(home.join("state/http.token")).expect("a token");
    let url = format!("http://127.0.0.1:{}/mcp", door.port);
    let bearer = format!("Authorization: Bearer {token}");
    let read = [
        url.as_str(),
        "--transport",
        "http",
        "--header",
        &bearer,
        "--method",
        "resources/read",
        "--uri",
        "test://echo",
    ];
    let read = inspector(&node, &read, home);
    assert!(String::from_utf8_lossy(&read.stdout).contains("fixed"), "{}", String::from_utf8_lossy(&read.stderr));
}

fn suite(door: &Doorstep, arguments: &[&str]) -> (bool, String) {
    let node = node().expect("asked before");
    let url = door.url();
    let out = door.home.path().join("out").to_string_lossy().into_owned();
    let mut all =
        vec!["node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", &url, "-o", &out];
    all.extend_from_slice(arguments);
    let ran = run(&node, &all, &[]);
    (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// Strict both ways: an unlisted failure fails, and so does a listed pass.
#[cfg(feature = "conformance")]
#[test]
fn the_public_suite_in_both_eras() {
    if node().is_none() {
        return;
    }
    let door = Doorstep::start(DOOR, &[]);
    for arguments in [
        ["--requirements", "2026-07-28", "--expected-failures", "baseline-2026-07-28.yml"],
        ["--spec-version", "2025-11-25", "--expected-failures", "baseline-2025-11-25.yml"],
    ] {
        let (good, text) = suite(&door, &arguments);
        assert!(good, "{arguments:?}\n{text}");
    }
}

/// What a product passes without fixtures, and the control: it must not pass what needs one.
#[cfg(not(feature = "conformance"))]
#[test]
fn the_product_itself_passes_what_needs_no_fixture() {
    if node().is_none() {
        return;
    }
    let door = Doorstep::start(DOOR, &[]);
    for scenario in [
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "logging-set-level",
        "resources-subscribe",
        "resources-unsubscribe",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "caching",
        "sep-2164-resource-not-found",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    ] {
        let (good, text) = suite(&door, &["--scenario", scenario]);
        assert!(good, "{scenario}\n{text}");
    }
    let (good, text) = suite(&door, &["--scenario", "tools-call-simple-text"]);
    assert!(!good, "passed without its fixture\n{text}");
}
