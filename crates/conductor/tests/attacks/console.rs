//! The model tries to use the console: with its tools, with a token and with guessed keys. The
//! end-to-end tests of approvals show that a shell started by the model gets no link either.

use crate::rig::Rig;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The status of a request with these headers.
fn status(port: u16, method: &str, path: &str, headers: &[&str], body: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n");
    for header in headers {
        text.push_str(&format!("{header}\r\n"));
    }
    text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

const ROUTES: [(&str, &str); 5] = [
    ("GET", "/console/state"),
    ("GET", "/console/events"),
    ("POST", "/console/decide"),
    ("POST", "/console/call/conductor_panic"),
    ("POST", "/console/read/tools"),
];

#[test]
fn no_tool_reaches_a_route_of_the_console() {
    // This also holds if a person has allowed web requests to this machine.
    let rig = Rig::start("[tools.web]\nallow_hosts = [\"127.0.0.1\", \"localhost\"]\n");
    let port = rig.http_port();
    let mut model = rig.model();
    let allow = json!({ "decisions": [{ "decision": "allow", "id": rig.approval }] }).to_string();
    for host in ["127.0.0.1", "localhost", "[::1]", "127.1", "0.0.0.0"] {
        for (method, path) in ROUTES.into_iter().chain([("POST", "/console/login"), ("GET", "/")]) {
            for scheme in ["http", "https"] {
                let mut arguments = json!({
                    "url": format!("{scheme}://{host}:{port}{path}"), "method": method,
                    "headers": { "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json", "X-Conductor-Key": "guess" },
                });
                if method == "POST" {
                    arguments["body"] = allow.clone().into();
                }
                let answer = model.call("web.fetch", arguments);
                assert!(answer["status"].is_null() && answer["body"].is_null(), "{host} {path}: {answer}");
            }
        }
    }
    // The home contains no key and no link that a file tool could read.
    let found = model.call("filesystem.search", json!({ "root": "work", "query": "login=" }));
    assert!(!found.to_string().contains("#login="), "{found}");
    rig.assert_unharmed();
}

#[test]
fn a_token_or_a_guess_opens_nothing() {
    let rig = Rig::start("");
    let port = rig.http_port();
    let token = std::fs::read_to_string(rig.studio.home().join("state/http.token")).unwrap();
    let token = token.trim();
    let allow = json!({ "decisions": [
        { "decision": "allow", "id": rig.approval }, { "decision": "apply", "id": rig.plan },
    ] })
    .to_string();
    let same = "Sec-Fetch-Site: same-origin";
    for (method, path) in ROUTES {
        for headers in [
            vec![same.to_owned()],
            vec![same.to_owned(), format!("Authorization: Bearer {token}")],
            vec![same.to_owned(), format!("X-Conductor-Key: {token}")],
            vec![same.to_owned(), format!("Cookie: key={token}")],
            vec![format!("X-Conductor-Key: {token}"), format!("Authorization: Bearer {token}")],
        ] {
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            let refused = status(port, method, path, &headers, &allow);
            assert!([401, 403].contains(&refused), "{path} {headers:?}: {refused}");
        }
    }
    for secret in [token, "", "login", &rig.approval] {
        let body = json!({ "secret": secret }).to_string();
        assert_eq!(status(port, "POST", "/console/login", &[same], &body), 401);
    }
    rig.assert_unharmed();
}
