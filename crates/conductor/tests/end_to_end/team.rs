//! A server that a team shares: TLS, tokens and webhooks, used by programs that are not part of
//! Conductor.

use super::observe::address_of;
use super::studio::{Studio, text, until};
use conductor_hosts::system::{Clock as _, RealClock};
use conductor_testkit::foreign_client::Puppet;
use conductor_testkit::mcp_process;
use conductor_testkit::real::Killed;
use conductor_testkit::terminal::at_a_terminal;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const TLS: &str =
    "schema = 1\n[http]\nallow_remote = true\nhosts = [\"studio.test:3443\"]\n[http.tls]\nself_signed = true\n";

/// The port of the daemon's own listener.
fn port_of(ready: &Value) -> String {
    let url = ready["http"].as_str().expect("a listener");
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    url.trim_end_matches("/mcp").rsplit_once(':').unwrap().1.to_owned()
}

/// Runs curl, which trusts only the certificate of this studio.
pub fn curl(studio: &Studio, arguments: &[&str]) -> Output {
    Command::new("curl")
        .args(["-sS", "--max-time", "20", "--cacert"])
        .arg(studio.home().join("state/http-certificate.pem"))
        .args(arguments)
        .output()
        .unwrap()
}

fn token(studio: &Studio) -> String {
    let token = std::fs::read_to_string(studio.home().join("state/http.token")).unwrap();
    format!("Authorization: Bearer {token}")
}

#[test]
fn other_machines_connect_only_over_tls() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), TLS).unwrap();
    let port = port_of(&studio.up(&["--http", "0.0.0.0:0"]));
    let base = format!("https://127.0.0.1:{port}");

    // The same request over both versions of HTTP.
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let url = format!("{base}/tools/conductor_list_modes");
        let answer =
            curl(&studio, &[flag, "-H", &token(&studio), "-d", "{}", "-w", "\n%{http_version} %{http_code}", &url]);
        let shown = text(&answer.stdout);
        assert!(shown.ends_with(&format!("\n{version} 200")), "{shown} {}", text(&answer.stderr));
        assert!(shown.contains("\"result\""), "{shown}");
    }
    // A client that does not trust the certificate does not connect.
    let stranger = Command::new("curl").args(["-sS", "--max-time", "20", &format!("{base}/health")]).output().unwrap();
    assert!(!stranger.status.success() && text(&stranger.stderr).contains("certificate"), "{}", text(&stranger.stderr));
    // Plain HTTP is refused with a clear reason, even with a valid token.
    let plain =
        curl(&studio, &["-H", &token(&studio), "-w", " %{http_code}", &format!("http://127.0.0.1:{port}/health")]);
    let shown = text(&plain.stdout);
    assert!(shown.contains("only HTTPS") && shown.ends_with("400"), "{shown}");
    // A Host name in the configuration is accepted, and any other name is refused.
    let by_name = |name: &str| {
        let host = format!("Host: {name}");
        let answer = curl(&studio, &["-H", &host, "-w", " %{http_code}", &format!("{base}/health")]);
        text(&answer.stdout)
    };
    assert!(by_name("studio.test:3443").ends_with("200"));
    let unknown = by_name("evil.test:3443");
    assert!(unknown.ends_with("403") && unknown.contains("this Host is not allowed"), "{unknown}");

    // The fingerprint in `status` and `http pair` is the one that OpenSSL computes.
    let certificate = studio.home().join("state/http-certificate.pem");
    let openssl = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(&certificate)
        .output()
        .unwrap();
    let expected = text(&openssl.stdout).trim().rsplit_once('=').unwrap().1.to_owned();
    let shown = text(&studio.run(&["http", "pair"]).stdout);
    assert!(shown.contains(&expected), "{shown}");
    assert!(shown.contains("https://studio.test:3443") && shown.contains('\u{2588}'), "{shown}");
    let digest = format!("sha256:{}", expected.replace(':', "").to_lowercase());
    assert_eq!(studio.status()["http"][0]["fingerprint"], digest.as_str());
    assert!(text(&studio.run(&["status"]).stdout).contains(&digest));

    // The certificate stays the same after a restart.
    studio.stop();
    studio.up(&["--http", "0.0.0.0:0"]);
    assert_eq!(studio.status()["http"][0]["fingerprint"], digest.as_str());
}

#[test]
fn plain_http_is_never_served_to_other_machines() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), "schema = 1\n[http]\nallow_remote = true\n").unwrap();
    let ready = studio.up(&["--http", "0.0.0.0:0"]);
    assert!(ready["http"].is_null(), "{ready}");
    let status = text(&studio.run(&["status"]).stdout);
    assert!(status.contains("[http.tls]"), "{status}");
    let check = studio.run(&["config", "check"]);
    let shown = text(&check.stdout) + &text(&check.stderr);
    assert!(!check.status.success() && shown.contains("add [http.tls]"), "{shown}");
}

/// Creates a token as a person at a terminal.
fn create_token(studio: &Studio, arguments: &[&str]) -> String {
    let mut command = studio.command();
    command.args(["http", "token", "create"]).args(arguments);
    let (code, shown) = at_a_terminal(command);
    assert_eq!(code, Some(0), "{shown}");
    shown.lines().next().unwrap().trim().to_owned()
}

/// Sends a request with a token; returns status and body.
fn with_token(studio: &Studio, token: &str, arguments: &[&str]) -> (String, String) {
    let header = format!("Authorization: Bearer {token}");
    let mut all = vec!["-H", header.as_str(), "-w", "\n%{http_code}"];
    all.extend(arguments);
    let shown = text(&curl(studio, &all).stdout);
    let (body, status) = shown.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

#[test]
fn each_token_has_its_own_tools_scopes_rate_and_end() {
    let old = conductor_core::digest::Digest::of(b"an-old-token");
    let row =
        format!("[[http.tokens]]\nname = \"old\"\nhash = \"{old}\"\nscopes = [\"call\"]\nexpires = \"2026-01-01\"\n");
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), format!("{TLS}{row}")).unwrap();
    let port = port_of(&studio.up(&["--http", "127.0.0.1:0"]));
    let at = |path: &str| format!("https://127.0.0.1:{port}{path}");

    // Without a terminal, no token is created.
    let refused = studio.run(&["http", "token", "create", "sneaky"]);
    assert!(!refused.status.success() && refused.stdout.is_empty());
    let ci = create_token(&studio, &["ci", "--tools", "conductor_list_modes,conductor_panic", "--days", "30"]);
    let eyes = create_token(&studio, &["eyes", "--scope", "observe"]);
    let slow = create_token(&studio, &["slow", "--per-minute", "1"]);
    let file = std::fs::read_to_string(studio.config_file()).unwrap();
    assert!(!file.contains(&ci) && file.contains(&conductor_core::digest::Digest::of(ci.as_bytes()).to_string()));
    assert!(file.contains("per_minute = 1\n"), "{file}");
    let listed = text(&studio.run(&["http", "token", "list"]).stdout);
    assert!(listed.contains("ci") && listed.contains("conductor_list_modes") && !listed.contains(&ci), "{listed}");
    let again = {
        let mut command = studio.command();
        command.args(["http", "token", "create", "ci"]);
        at_a_terminal(command)
    };
    assert!(again.0 != Some(0) && again.1.contains("already"), "{again:?}");

    // The listener is opened again after each change, so wait until the last token is known.
    until("the tokens are in force", || {
        (with_token(&studio, &slow, &["-d", "{}", &at("/tools/conductor_list_modes")]).0 == "200").then_some(())
    });
    let (status, tools) = with_token(&studio, &ci, &[&at("/tools")]);
    let tools: Value = serde_json::from_str(&tools).unwrap();
    let names: Vec<&str> = tools["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!((status.as_str(), names), ("200", vec!["conductor_list_modes", "conductor_panic"]));
    assert_eq!(with_token(&studio, &ci, &["-d", "{}", &at("/tools/conductor_list_modes")]).0, "200");
    let (status, body) = with_token(&studio, &ci, &["-d", "{}", &at("/tools/conductor_get_status")]);
    assert!(status == "404" && body.contains("NOT_FOUND"), "{status} {body}");
    let wrapped = r#"{"tool":"conductor_get_status"}"#;
    assert_eq!(with_token(&studio, &ci, &["-d", wrapped, &at("/tools/conductor_call_tool")]).0, "404");
    let (status, body) = with_token(&studio, &ci, &[&at("/audit")]);
    assert!(status == "401" && body.contains("the scope observe is needed"), "{status} {body}");
    assert_eq!(with_token(&studio, &eyes, &[&at("/audit")]).0, "200");
    assert_eq!(with_token(&studio, &eyes, &["-d", "{}", &at("/tools/conductor_list_modes")]).0, "401");
    let (status, body) = with_token(&studio, &slow, &["-d", "{}", &at("/tools/conductor_list_modes")]);
    assert!(status == "429" && body.contains("1 such calls per minute"), "{status} {body}");
    let (status, body) = with_token(&studio, "an-old-token", &[&at("/tools")]);
    assert!(status == "401" && body.contains("has expired"), "{status} {body}");
    assert_eq!(with_token(&studio, "a-token-of-another-studio", &[&at("/tools")]).0, "401");

    // `call --remote` with the fingerprint, and an exit code for each error.
    let digest = studio.status()["http"][0]["fingerprint"].as_str().unwrap().to_owned();
    let remote = |token: &str, fingerprint: Option<&str>, url: &str, words: &[&str]| {
        let mut command = studio.command();
        command.env("CONDUCTOR_TOKEN", token).args(["call", "--remote", url]);
        if let Some(fingerprint) = fingerprint {
            command.args(["--fingerprint", fingerprint]);
        }
        let done = command.args(words).output().unwrap();
        (done.status.code().unwrap(), text(&done.stdout), text(&done.stderr))
    };
    let base = at("");
    let (code, shown, _) = remote(&ci, Some(&digest), &base, &["conductor_list_modes", "{}"]);
    assert!(code == 0 && shown.contains("modes"), "{code} {shown}");
    let (code, _, shown) = remote(&ci, Some(&digest), &base, &["conductor_get_status"]);
    assert!(code == 21 && shown.contains("Unknown tool"), "{code} {shown}");
    let (code, _, shown) = remote(&ci, Some(&digest), &base, &["conductor_list_modes", "{\"x\":1}"]);
    assert!(code == 20, "{code} {shown}");
    let (code, _, shown) = remote("wrong", Some(&digest), &base, &["conductor_list_modes"]);
    assert!(code == 3 && shown.contains("token"), "{code} {shown}");
    let (code, _, shown) = remote(&ci, None, &base, &["conductor_list_modes"]);
    assert!(code == 1 && shown.contains("--fingerprint"), "{code} {shown}");
    let other = format!("sha256:{}", "0".repeat(64));
    let (code, _, shown) = remote(&ci, Some(&other), &base, &["conductor_list_modes"]);
    assert!(code == 1 && shown.contains(&digest), "{code} {shown}");
    let (code, _, shown) = remote(&ci, None, "http://studio.test:3443", &["conductor_list_modes"]);
    assert!(code == 1 && shown.contains("use https://"), "{code} {shown}");

    // A removed token is refused, and the audit log names the tokens but never contains one.
    let mut remove = studio.command();
    remove.args(["http", "token", "remove", "ci"]);
    assert_eq!(at_a_terminal(remove).0, Some(0));
    until("the token is removed", || (with_token(&studio, &ci, &[&at("/tools")]).0 == "401").then_some(()));
    let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    assert!(log.contains("http:ci") && log.contains("http:slow"));
    for secret in [&ci, &eyes, &slow] {
        assert!(!log.contains(secret.as_str()));
    }
}

#[test]
fn clients_of_two_sdks_see_the_tools_of_their_tokens() {
    let (Some(node), Some(python)) = (mcp_process::node(), mcp_process::python()) else { return };
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), TLS).unwrap();
    let port = port_of(&studio.up(&["--http", "127.0.0.1:0"]));
    let url = format!("https://127.0.0.1:{port}/mcp");
    let modes = create_token(&studio, &["modes", "--tools", "conductor_list_modes,conductor_get_trace"]);
    let stage = create_token(&studio, &["stage", "--view", "stage"]);
    until("the tokens are in force", || {
        let tools = format!("https://127.0.0.1:{port}/tools");
        (with_token(&studio, &stage, &[&tools]).0 == "200").then_some(())
    });
    assert!(std::fs::read_to_string(studio.config_file()).unwrap().contains("views = [\"stage\"]"));
    let certificate = studio.home().join("state/http-certificate.pem").display().to_string();
    let start = |program: &Path, script: &[&str], token: &str, url: &str| {
        let trust = [format!("NODE_EXTRA_CA_CERTS={certificate}"), format!("SSL_CERT_FILE={certificate}")];
        let program = program.display().to_string();
        let mut words: Vec<&str> = vec![&trust[0], &trust[1], &program];
        words.extend(script);
        words.extend(["--token", token, "http", url]);
        Puppet::start(Path::new("env"), &words)
    };
    let typescript = ["typescript_client.mjs", "--sdk", "2", "--era", "auto"];
    let mut client = start(&node, &typescript, &modes, &url);
    assert_eq!(client.tools(), ["conductor_get_trace", "conductor_list_modes"]);
    assert_eq!(client.call("conductor_list_modes", &json!({}))["failed"], false);
    let refused = client.call("conductor_get_status", &json!({}));
    assert_ne!(refused["failed"], false, "{refused}");
    let mut client = start(&python, &["python_client.py"], &stage, &url);
    let tools = client.tools();
    assert!(tools.contains(&"conductor_switch_mode".to_owned()) && tools.len() < 12, "{tools:?}");
    // A view that the token does not have is refused.
    let other = format!("https://127.0.0.1:{port}/mcp/x/live");
    let (status, body) = with_token(&studio, &stage, &["-d", "{}", &other]);
    assert!(status == "403" && body.contains("may not use the view live"), "{status} {body}");
}

/// The signature that OpenSSL computes.
fn openssl_hmac(key: &str, signed: &str) -> String {
    let mut child = Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", key])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(signed.as_bytes()).unwrap();
    let shown = text(&child.wait_with_output().unwrap().stdout);
    shown.trim().rsplit_once(' ').unwrap().1.to_owned()
}

fn store_secret(studio: &Studio, name: &str, value: &str) {
    let stored = super::secrets::set(studio, name, value, "--allow-key-file");
    assert!(stored.status.success(), "{}", text(&stored.stdout));
}

const HOOKS: &str = r#"schema = 1
[secrets]
key = "file"
[[modes]]
name = "Default"
[[modes]]
name = "Show"
[[http.hooks]]
name = "show"
tool = "conductor_switch_mode"
arguments = { mode = "Show" }
secret = "secret:show"
[[http.hooks]]
name = "push"
tool = "conductor_switch_mode"
arguments = { mode = "Default" }
secret = "secret:push"
signature = "github"
"#;

/// Sends a webhook; returns status and body.
fn hook(port: u16, name: &str, headers: &[String], body: &str) -> (String, String) {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "-w", "\n%{http_code}", "-d", body]);
    command.args(headers.iter().flat_map(|it| ["-H", it]));
    let shown = text(&command.arg(format!("http://127.0.0.1:{port}/hooks/{name}")).output().unwrap().stdout);
    let (body, status) = shown.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

fn now_s() -> u64 {
    RealClock::new().wall_ms() / 1000
}

fn signed(key: &str, time: u64, delivery: &str, body: &str) -> Vec<String> {
    vec![
        format!("X-Conductor-Signature: sha256={}", openssl_hmac(key, &format!("{time}.{body}"))),
        format!("X-Conductor-Timestamp: {time}"),
        format!("X-Conductor-Delivery: {delivery}"),
    ]
}

#[test]
fn a_signed_webhook_makes_one_call_and_a_replay_makes_none() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), HOOKS).unwrap();
    let port = address_of(&studio.up(&[])).port();
    store_secret(&studio, "show", "a-key-for-shows");
    store_secret(&studio, "push", "a-key-for-pushes");
    let now = now_s();
    let good = signed("a-key-for-shows", now, "one", "{}");
    let (status, body) = hook(port, "show", &good, "{}");
    assert_eq!((status.as_str(), body.as_str()), ("200", r#"{"done":true}"#));
    assert_eq!(studio.status()["current_mode"], "Show");

    let mut renamed = good.clone();
    renamed[2] = "X-Conductor-Delivery: two".to_owned();
    let replays = [
        ("the same request", good.clone()),
        ("another id for the same signature", renamed.clone()),
        ("another time for the same id", signed("a-key-for-shows", now - 1, "one", "{}")),
    ];
    for (what, headers) in &replays {
        let (status, body) = hook(port, "show", headers, "{}");
        assert!(status == "409" && body.contains("already received"), "{what}: {status} {body}");
    }
    for (what, headers, reason) in [
        ("old", signed("a-key-for-shows", now - 400, "three", "{}"), "five minutes"),
        ("early", signed("a-key-for-shows", now + 400, "four", "{}"), "five minutes"),
        ("wrong key", signed("a-key-for-pushes", now, "five", "{}"), "signature is not valid"),
        ("other body", signed("a-key-for-shows", now, "six", "{ }"), "signature is not valid"),
        ("no signature", vec!["X-Conductor-Delivery: seven".to_owned()], "X-Conductor-Signature is missing"),
    ] {
        let (status, body) = hook(port, "show", &headers, "{}");
        assert!(status == "401" && body.contains(reason), "{what}: {status} {body}");
    }
    assert_eq!(hook(port, "nothing", &good, "{}").0, "404");

    // GitHub's signature covers no time, so each body is accepted only once.
    let github = |body: &str| vec![format!("X-Hub-Signature-256: sha256={}", openssl_hmac("a-key-for-pushes", body))];
    assert_eq!(hook(port, "push", &github(r#"{"push":1}"#), r#"{"push":1}"#).0, "200");
    assert_eq!(studio.status()["current_mode"], "Default");
    assert_eq!(hook(port, "push", &github(r#"{"push":1}"#), r#"{"push":1}"#).0, "409");
    assert_eq!(hook(port, "push", &github(r#"{"push":1}"#), r#"{"push":2}"#).0, "401");

    // Replays are refused after a restart too.
    studio.stop();
    let port = address_of(&studio.up(&[])).port();
    assert_eq!(hook(port, "push", &github(r#"{"push":1}"#), r#"{"push":1}"#).0, "409");
    assert_eq!(hook(port, "show", &good, "{}").0, "409");
    let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    let calls: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let made = |principal: &str| {
        let is_made = |it: &&Value| it["principal"] == principal && it["result"] == "ok";
        calls.iter().filter(is_made).count()
    };
    assert_eq!((made("webhook:show"), made("webhook:push")), (1, 1), "{log}");
    assert!(!log.contains("a-key-for"));
}

/// Receives webhooks, and checks their signatures with the `hmac` module of Python. It refuses the
/// first request with the status 500.
const RECEIVER: &str = r#"
import hashlib, hmac, http.server, json, sys
port, key, file = int(sys.argv[1]), sys.argv[2].encode(), sys.argv[3]
first = True
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global first
        body = self.rfile.read(int(self.headers["Content-Length"]))
        expected = hmac.new(key, self.headers["X-Conductor-Timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
        valid = hmac.compare_digest("sha256=" + expected, self.headers["X-Conductor-Signature"])
        event = json.loads(body)
        same = event["event"] == self.headers["X-Conductor-Event"] and event["delivery"] == self.headers["X-Conductor-Delivery"]
        status, first = 500 if first else 200, False
        with open(file, "a") as out:
            out.write(json.dumps({"valid": valid and same, "status": status, "event": event}) + "\n")
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"#;

#[test]
fn an_event_reaches_a_receiver_that_was_down_also_after_a_restart() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let row = format!(
        "[[webhooks]]\nname = \"alerts\"\nurl = \"http://127.0.0.1:{port}/in\"\nevents = [\"tool.complete\"]\nsecret = \"secret:alerts\"\n"
    );
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), format!("schema = 1\n[secrets]\nkey = \"file\"\n{row}")).unwrap();
    studio.up(&[]);
    store_secret(&studio, "alerts", "a-key-for-alerts");
    for _ in 0..3 {
        studio.call("conductor_list_modes", json!({}));
    }
    let webhook = |studio: &Studio| studio.status()["webhooks"][0].clone();
    until("the receiver is known to be down", || webhook(&studio)["error"].is_string().then_some(()));
    until("the events are stored", || (webhook(&studio)["waiting"].as_u64() >= Some(3)).then_some(()));
    assert!(text(&studio.run(&["status"]).stdout).contains("webhook   alerts: 0 sent"));
    studio.stop();
    studio.up(&[]);
    assert!(webhook(&studio)["waiting"].as_u64() >= Some(3));

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("received");
    let mut command = Command::new("python3");
    command.args(["-c", RECEIVER, &port.to_string(), "a-key-for-alerts"]).arg(&file);
    let _receiver = Killed(command.spawn().unwrap());
    let received = || -> Vec<Value> {
        let lines = std::fs::read_to_string(&file).unwrap_or_default();
        let whole = lines.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
    };
    let is_ours = |it: &&Value| it["event"]["data"]["tool"] == "conductor_list_modes" && it["status"] == 200;
    until("all three events arrived", || (received().iter().filter(is_ours).count() >= 3).then_some(()));
    let all = received();
    assert!(all.iter().all(|it| it["valid"] == true), "{all:?}");
    // The first attempt failed and was repeated with the same id. Every event was accepted exactly
    // once.
    assert_eq!(all[0]["status"], 500);
    assert_eq!(all[0]["event"]["delivery"], all[1]["event"]["delivery"]);
    let accepted: Vec<&str> =
        all.iter().filter(|it| it["status"] == 200).map(|it| it["event"]["delivery"].as_str().unwrap()).collect();
    let different: std::collections::BTreeSet<&&str> = accepted.iter().collect();
    assert_eq!(accepted.len(), different.len(), "{all:?}");
    until("three events are delivered", || (webhook(&studio)["delivered"].as_u64() >= Some(3)).then_some(()));
    assert!(!std::fs::read_to_string(studio.home().join("audit.log")).unwrap().contains("a-key-for-alerts"));
}

/// The code blocks of a page with this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut found: Vec<String> = Vec::new();
    let mut inside = false;
    for line in page.lines().map(str::trim) {
        if line == fence {
            inside = true;
            found.push(String::new());
        } else if line == "```" {
            inside = false;
        } else if inside && let Some(block) = found.last_mut() {
            block.push_str(line);
            block.push('\n');
        }
    }
    found
}

#[test]
fn every_command_of_the_page_runs_with_its_configuration() {
    let page = include_str!("../../../../docs/team.md");
    let mut file = "schema = 1\n[secrets]\nkey = \"file\"\n[[modes]]\nname = \"Mix\"\n".to_owned();
    for block in blocks(page, "toml") {
        // Change the addresses so that no request leaves this machine.
        let block = block
            .replace("https://alerts.example", "http://127.0.0.1:9")
            .replace("https://ntfy.example", "http://127.0.0.1:9")
            .replace("tls://venue.example:4222", "tls://127.0.0.1:9");
        file += &block.replace("0.0.0.0:3444", "127.0.0.1:0");
    }
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), &file).unwrap();
    let address = format!("127.0.0.1:{}", port_of(&studio.up(&["--http", "127.0.0.1:0"])));
    let check = studio.run(&["config", "check"]);
    assert!(check.status.success(), "{}{}", text(&check.stdout), text(&check.stderr));
    let digest = studio.status()["http"][0]["fingerprint"].as_str().unwrap().to_owned();
    until("phones can connect", || {
        let mut list = studio.command();
        list.args(["pair", "list"]);
        at_a_terminal(list).1.contains("phones connect to").then_some(())
    });

    let keys_of = |rig: &Studio| -> Value {
        serde_json::from_slice(&rig.run(&["--json", "rigs", "key"]).stdout).expect("the keys of the rig are not JSON")
    };
    let (own, other) = (keys_of(&studio), keys_of(&Studio::empty()));
    let keys = [("UAB...", &other["key"]), ("UCD...", &own["key"]), ("UEF...", &own["decider"])];
    let folder = Path::new(super::studio::BINARY).parent().unwrap().display().to_string();
    let (mut secret, mut commands) = (String::new(), 0);
    for line in blocks(page, "sh").iter().flat_map(|it| it.lines()).filter(|it| it.starts_with("conductor ")) {
        let mut line = line.replace("studio.local:3443", &address).replace("sha256:…", &digest);
        for (shown, key) in keys {
            line = line.replace(shown, key.as_str().unwrap());
        }
        let mut command = Command::new("sh");
        command.args(["-c", &format!("PATH=\"{folder}:$PATH\"; {line}")]).env("CONDUCTOR_HOME", studio.home());
        let (code, shown) = {
            command.env("CONDUCTOR_TOKEN", &secret);
            at_a_terminal(command)
        };
        assert_eq!(code, Some(0), "{line}: {shown}");
        commands += 1;
        if line.contains("token create lights") {
            secret = shown.lines().next().unwrap().trim().to_owned();
            until("the token is in force", || {
                let tools = format!("https://{address}/tools");
                (with_token(&studio, &secret, &[&tools]).0 == "200").then_some(())
            });
        }
        if let Some((_, rest)) = shown.split_once("https://").filter(|_| line.contains("pair --name")) {
            // The phone uses the link.
            let (place, fragment) = rest.split_whitespace().next().unwrap().split_once("/#pair=").unwrap();
            let body = json!({ "secret": fragment }).to_string();
            let headers = ["-H", "Sec-Fetch-Site: same-origin", "-H", "Content-Type: application/json"];
            let port = place.rsplit_once(':').unwrap().1;
            let pair = format!("https://127.0.0.1:{port}/phone/pair");
            let paired = text(&curl(&studio, &[&headers[..], &["-d", &body, &pair]].concat()).stdout);
            assert!(paired.contains("\"key\""), "{paired}");
        }
    }
    assert_eq!(studio.status()["current_mode"], "Mix");
    assert!(commands >= 12, "{commands} commands");
}
