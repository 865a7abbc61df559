//! Answers from a paired phone: pairing and decisions in Debian's chromium, and the listener, which
//! serves nothing but the page for approvals.

use super::console_page::{Stage, images};
use super::studio::{Studio, text, until};
use conductor_testkit::terminal::at_a_terminal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const LISTENER: &str = "\n[http.tls]\nself_signed = true\n[policy.approval.phone]\nbind = \"127.0.0.1:0\"\n";

/// The JSON at the end of a terminal's output.
fn json_of(shown: &str) -> Value {
    let start = shown.find('{').unwrap_or_else(|| panic!("no JSON in {shown}"));
    serde_json::from_str(shown[start..].trim()).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

fn person(studio: &Studio, words: &[&str]) -> (Option<i32>, String) {
    let mut command = studio.command();
    command.args(words);
    at_a_terminal(command)
}

/// The address of the listener, which opens after the daemon has reported that it is ready.
fn address(studio: &Studio) -> String {
    until("phones can connect", || {
        json_of(&person(studio, &["--json", "pair", "list"]).1)["url"].as_str().map(str::to_owned)
    })
}

fn story(arguments: &[&str]) {
    let Some(mut stage) = Stage::open("") else { return };
    // A new home with the configuration of the demo: in the home of the demo, the added sections
    // would wait until a person accepts them.
    let demo = std::fs::read_to_string(stage.studio.config_file()).unwrap();
    stage.studio = Studio::start(&format!("{demo}{LISTENER}"));
    stage.url = address(&stage.studio);
    stage.tell("phone", arguments);
}

#[test]
fn a_phone_is_paired_decides_and_is_revoked() {
    story(&[]);
}

/// Writes screenshots of the page; `make screenshots` runs it.
pub fn take_pictures() {
    story(&[images().to_str().unwrap()]);
}

/// Sends a request; returns status and body.
fn send(studio: &Studio, arguments: &[&str]) -> (String, String) {
    let done = Command::new("curl")
        .args(["-sS", "--max-time", "40", "-w", "\n%{http_code}", "--cacert"])
        .arg(studio.home().join("state/http-certificate.pem"))
        .args(arguments)
        .output()
        .unwrap();
    let shown = text(&done.stdout);
    let (body, status) = shown.rsplit_once('\n').unwrap_or_else(|| panic!("{}", text(&done.stderr)));
    (status.to_owned(), body.to_owned())
}

const PAGE: &str = "Sec-Fetch-Site: same-origin";
const JSON: &str = "Content-Type: application/json";

fn pair(studio: &Studio, url: &str, words: &[&str]) -> String {
    let mut all = vec!["--json", "pair"];
    all.extend(words);
    let (code, shown) = person(studio, &all);
    assert_eq!(code, Some(0), "{shown}");
    let link = json_of(&shown)["link"].as_str().unwrap().to_owned();
    let secret = link.split_once("#pair=").unwrap().1.to_owned();
    let body = json!({ "secret": secret }).to_string();
    let (status, answer) = send(studio, &["-H", PAGE, "-H", JSON, "-d", &body, &format!("{url}/phone/pair")]);
    assert_eq!(status, "200", "{answer}");
    let again = send(studio, &["-H", PAGE, "-H", JSON, "-d", &body, &format!("{url}/phone/pair")]);
    assert!(again.0 == "401" && again.1.contains("was used or has expired"), "{again:?}");
    json_of(&answer)["key"].as_str().unwrap().to_owned()
}

/// Every path in the source of the doors that is the argument of `route`.
fn all_routes() -> BTreeSet<String> {
    fn visit(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                visit(&path, found);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap_or_default();
            for rest in source.split(".route(").skip(1) {
                let Some(rest) = rest.trim_start().strip_prefix('"') else { continue };
                found.insert(rest.split('"').next().unwrap().to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../conductor-daemon/src/doors"), &mut found);
    found
}

#[test]
fn the_listener_has_the_routes_of_approvals_and_no_other() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), format!("schema = 1{LISTENER}")).unwrap();
    let main = studio.up(&[])["http"].as_str().unwrap().trim_end_matches("/mcp").to_owned();
    let url = address(&studio);
    let key = pair(&studio, &url, &[]);
    let token = std::fs::read_to_string(studio.home().join("state/http.token")).unwrap();
    let headers = [
        format!("X-Conductor-Phone: {key}"),
        format!("Authorization: Bearer {token}"),
        "Accept: application/json, text/event-stream".to_owned(),
    ];
    let walk = |base: &str, path: &str, method: &str| {
        let path = path.replace("{name}", "conductor_get_status").replace("{tool}", "conductor_get_status");
        let path = path.replace("{*path}", "app.js").replace("{view}", "live");
        let url = format!("{base}{path}");
        let mut all = vec!["-X", method, "-H", PAGE, "-H", JSON];
        all.extend(headers.iter().flat_map(|it| ["-H", it.as_str()]));
        if method == "POST" {
            all.extend(["-d", "{}"]);
        }
        all.push(&url);
        send(&studio, &all)
    };
    let own = ["/", "/phone/about", "/phone/decide", "/phone/full", "/phone/pair", "/phone/state"];
    let routes = all_routes();
    assert!(routes.len() > 25 && routes.contains("/mcp") && own.iter().all(|it| routes.contains(*it)), "{routes:?}");
    for path in routes.iter().map(String::as_str).chain(["/.env", "/index.html", "/phone", "/assets/lib/api.js"]) {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let (status, body) = walk(&url, path, method);
            if own.contains(&path) {
                assert_ne!(status, "404", "{method} {path}: {body}");
            } else {
                let is_file = path.starts_with("/assets") && method != "GET";
                let expected = if is_file { "405" } else { "404" };
                assert_eq!(status, expected, "{method} {path}: {body}");
            }
        }
    }
    let (_, refused) = walk(&url, "/mcp", "POST");
    assert!(refused.contains("serves only the page for approvals"), "{refused}");
    // The listener of `[http]` has no route of phones.
    for path in own.iter().filter(|it| it.starts_with("/phone")) {
        assert_eq!(walk(&main, path, "GET").0, "404", "{path}");
    }

    // Requests from another page, with a foreign host name, without TLS or without a key are
    // refused.
    let state = format!("{url}/phone/state");
    let (status, body) = send(&studio, &["-H", &headers[0], &state]);
    assert!(status == "403" && body.contains("only the page of this server"), "{status} {body}");
    let (status, body) = send(&studio, &["-H", PAGE, "-H", &headers[0], "-H", "Origin: https://evil.test", &state]);
    assert!(status == "403" && body.contains("this Origin is not allowed"), "{status} {body}");
    let (status, body) = send(&studio, &["-H", PAGE, "-H", &headers[0], "-H", "Host: evil.test", &state]);
    assert!(status == "403" && body.contains("this Host is not allowed"), "{status} {body}");
    let (status, body) = send(&studio, &[&url.replace("https:", "http:")]);
    assert!(status == "400" && body.contains("only HTTPS"), "{status} {body}");
    let (status, body) = send(&studio, &["-H", PAGE, &state]);
    assert!(status == "401" && body.contains("this phone is not paired"), "{status} {body}");
}

#[test]
fn a_phone_stays_paired_after_a_restart_and_only_a_person_pairs() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = free.local_addr().unwrap();
    drop(free);
    let mut studio = Studio::empty();
    let file = format!("schema = 1{}", LISTENER.replace("127.0.0.1:0", &bind.to_string()));
    std::fs::write(studio.config_file(), &file).unwrap();
    studio.up(&[]);
    let url = address(&studio);
    // A program without a terminal gets no link, neither from the command nor from `control.sock`.
    let refused = studio.run(&["pair"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("needs a terminal"));
    for method in ["phone.pair", "phone.list", "phone.revoke"] {
        assert_eq!(studio.refusal(method, json!({}))["code"], "DENIED", "{method}");
    }
    let [stage, hall] = ["stage", "hall"].map(|name| pair(&studio, &url, &["--name", name]));
    let (code, shown) = person(&studio, &["pair", "--name", "stage"]);
    assert!(code != Some(0) && shown.contains("is paired"), "{shown}");
    let stored = studio.home().join("state/phones.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&stored).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let status = |key: &str| {
        let header = format!("X-Conductor-Phone: {key}");
        send(&studio, &["-H", PAGE, "-H", &header, &format!("{url}/phone/state")]).0
    };
    assert_eq!([status(&stage), status(&hall)], ["200", "200"]);
    assert_eq!(person(&studio, &["pair", "revoke", "hall"]).0, Some(0));
    assert_eq!([status(&stage), status(&hall)], ["200", "401"]);
    studio.stop();
    studio.up(&[]);
    assert_eq!(address(&studio), url);
    let status = |key: &str| {
        let header = format!("X-Conductor-Phone: {key}");
        send(&studio, &["-H", PAGE, "-H", &header, &format!("{url}/phone/state")]).0
    };
    assert_eq!([status(&stage), status(&hall)], ["200", "401"]);
    let (code, shown) = person(&studio, &["pair", "revoke", "nobody"]);
    assert!(code != Some(0) && shown.contains("there is no phone"), "{shown}");
    let (_, shown) = person(&studio, &["pair", "revoke", "--all"]);
    assert!(shown.contains("revoked: stage"), "{shown}");
    assert_eq!(status(&stage), "401");
    let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
    assert!(log.contains("phone.paired") && log.contains("phone.revoked"));
    assert!(!log.contains(&stage) && !log.contains(&hall));

    // Without TLS there is no listener, and the error of `pair` names TLS.
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), format!("schema = 1\n[policy.approval.phone]\nbind = \"{bind}\"\n")).unwrap();
    studio.up(&[]);
    until("`pair` reports the missing TLS", || {
        let (code, shown) = person(&studio, &["pair"]);
        (code != Some(0) && shown.contains("phones connect only over TLS")).then_some(())
    });
}

/// Receives messages as an ntfy server does; each is the whole request.
fn topic() -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a-long-random-topic", listener.local_addr().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            while !text.contains("answer.") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => text += &String::from_utf8_lossy(&buffer[..read]),
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    (url, receiver)
}

#[test]
fn a_phone_answers_its_tiers_and_a_topic_says_only_that_something_waits() {
    for tier in ["Stateful", "HardwareIO"] {
        let (ntfy, messages) = topic();
        let mut studio = Studio::empty();
        let file = format!("{}{LISTENER}tiers = [\"{tier}\"]\nntfy = \"{ntfy}\"\n", super::studio::DEVICES);
        std::fs::write(studio.config_file(), file).unwrap();
        let main = studio.up(&[])["http"].as_str().unwrap().trim_end_matches("/mcp").to_owned();
        let url = address(&studio);
        let key = format!("X-Conductor-Phone: {}", pair(&studio, &url, &["--name", "hall"]));
        let token = std::fs::read_to_string(studio.home().join("state/http.token")).unwrap();
        let token = format!("Authorization: Bearer {token}");
        let call = || {
            let arguments = json!({ "port": "synth", "data": [0x7d, 1, 2] }).to_string();
            send(&studio, &["-H", &token, "-d", &arguments, &format!("{main}/tools/conductor_send_sysex")])
        };
        let (_, answer) = call();
        assert!(answer.contains("APPROVAL_REQUIRED"), "{answer}");
        let state = json_of(&send(&studio, &["-H", PAGE, "-H", &key, &format!("{url}/phone/state")]).1);
        let id = studio.ask("pending.list", json!({}))["approvals"][0]["id"].as_str().unwrap().to_owned();
        let decide = || {
            let body = json!({ "id": id, "answer": "allow" }).to_string();
            send(&studio, &["-H", PAGE, "-H", &key, "-H", JSON, "-d", &body, &format!("{url}/phone/decide")])
        };
        if tier == "Stateful" {
            assert_eq!((&state["questions"], &state["elsewhere"]), (&json!([]), &json!(1)));
            let (status, body) = decide();
            assert!(status == "403" && body.contains("requests of the tier HardwareIO"), "{status} {body}");
            assert!(call().1.contains("APPROVAL_REQUIRED"));
            assert!(messages.try_recv().is_err(), "a message was sent, although no phone can answer");
            continue;
        }
        assert_eq!(state["questions"][0]["id"], id.as_str());
        let message = messages.recv_timeout(std::time::Duration::from_secs(60)).expect("a message");
        let (head, body) = message.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "A request waits for your answer.");
        for hidden in ["sysex", "synth", "http", &url, &id, "hall"] {
            assert!(!body.contains(hidden) && !head.replace("HTTP/1.1", "").contains(hidden), "{hidden}: {message}");
        }
        assert_eq!(decide().0, "200");
        let (status, body) = call();
        assert_eq!(status, "200", "{body}");
        let log = std::fs::read_to_string(studio.home().join("audit.log")).unwrap();
        assert!(log.contains("\"phone:hall\"") && log.contains("\"channel\":\"phone\""), "{log}");
    }
}
