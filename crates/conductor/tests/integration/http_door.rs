//! The HTTP door: each check alone and in order, old and new protocol versions, and sessions.

use std::sync::Arc;

use conductor_core::config::Mcp;
use conductor_core::error::AuditResult;
use conductor_core::policy::Policy;
use conductor_daemon::doors::mcp::Shared;
use conductor_gateway::studio::Settings;
use conductor_testkit::http_client::{TOKEN, post, post_modern, request, send, serve};
use conductor_testkit::line_client::modern;
use conductor_testkit::studio::{TestStudio, Written};
use conductor_testkit::tools;
use serde_json::{Value, json};

async fn open(mcp: Mcp) -> (TestStudio, Arc<Shared>, std::net::SocketAddr) {
    let studio = TestStudio::with(Policy::default(), Settings { mcp, ..Settings::default() });
    let shared = Shared::new(&studio.studio);
    let address = serve(&shared).await;
    (studio, shared, address)
}

fn rpc(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[tokio::test]
async fn guards_in_their_order() {
    let (studio, _shared, address) = open(Mcp { max_message_bytes: 2000, ..Mcp::default() }).await;
    let port = address.port();
    let own = format!("127.0.0.1:{port}");
    let wrong_port = format!("127.0.0.1:{}", port.wrapping_add(1));
    let origin = format!("http://127.0.0.1:{port}");
    let bearer = format!("Bearer {TOKEN}");
    let ping = rpc(1, "ping", json!({})).to_string();
    let long = "x".repeat(2001);
    let h = |list: &[(&'static str, &str)]| list.iter().map(|(k, v)| (*k, (*v).to_owned())).collect::<Vec<_>>();
    type Row<'a> = (&'a str, &'a str, Vec<(&'a str, String)>, &'a str, u16);
    let table: Vec<Row<'_>> = vec![
        // Host is checked first: before Origin, path, token, method and size.
        ("PUT", "/nowhere", h(&[("Host", "evil.example"), ("Origin", "http://evil.example")]), &long, 403),
        ("POST", "/mcp", h(&[("Host", &wrong_port), ("Authorization", &bearer)]), &ping, 403),
        ("POST", "/mcp", h(&[("Host", "127.0.0.1"), ("Authorization", &bearer)]), &ping, 403),
        ("POST", "/mcp", h(&[("Host", &own), ("Host", &own), ("Authorization", &bearer)]), &ping, 403),
        ("POST", "/mcp", h(&[("Host", &own), ("Host", "evil.example"), ("Authorization", &bearer)]), &ping, 403),
        // Origin is checked before the path.
        ("PUT", "/nowhere", h(&[("Origin", "http://evil.example")]), &long, 403),
        ("POST", "/mcp", h(&[("Origin", "null"), ("Authorization", &bearer)]), &ping, 403),
        ("POST", "/mcp", h(&[("Origin", &origin), ("Origin", &origin), ("Authorization", &bearer)]), &ping, 403),
        (
            "POST",
            "/mcp",
            h(&[("Origin", &origin), ("Origin", "http://evil.example"), ("Authorization", &bearer)]),
            &ping,
            403,
        ),
        ("GET", "/health", h(&[("Origin", "http://evil.example")]), "", 403),
        ("GET", "/health", h(&[("Host", "evil.example")]), "", 403),
        // The path is checked before the token.
        ("PUT", "/nowhere", h(&[]), &long, 404),
        ("POST", "/", h(&[("Authorization", &bearer)]), &ping, 404),
        ("POST", "/mcp/", h(&[("Authorization", &bearer)]), &ping, 404),
        ("POST", "/mcp/x", h(&[("Authorization", &bearer)]), &ping, 404),
        ("POST", "/MCP", h(&[("Authorization", &bearer)]), &ping, 404),
        // The token is checked before the method.
        ("PUT", "/mcp", h(&[]), &long, 401),
        ("POST", "/mcp", h(&[]), &ping, 401),
        ("POST", "/mcp", h(&[("Authorization", "Bearer nope")]), &ping, 401),
        ("POST", "/mcp", h(&[("Authorization", "Bearer observer")]), &ping, 401),
        ("POST", "/mcp", h(&[("Authorization", TOKEN)]), &ping, 401),
        ("POST", "/mcp", h(&[("Authorization", &bearer), ("Authorization", &bearer)]), &ping, 401),
        ("POST", "/mcp?token=a-token-for-tests&access_token=a-token-for-tests", h(&[]), &ping, 401),
        // The method is checked before the size.
        ("PUT", "/mcp", h(&[("Authorization", &bearer)]), &long, 405),
        ("OPTIONS", "/mcp", h(&[("Authorization", &bearer), ("Origin", &origin)]), "", 405),
        ("POST", "/mcp", h(&[("Authorization", &bearer)]), &long, 413),
        ("GET", "/health", h(&[]), "", 200),
    ];
    for (method, path, headers, body, status) in table {
        let pairs: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let answer = send(address, &request(address, method, path, &pairs, body)).await;
        assert_eq!(answer.status, status, "{method} {path} {pairs:?}: {}", answer.body);
        assert!(!answer.head.to_lowercase().contains("access-control"), "the answer has a CORS header");
        match status {
            401 => assert_eq!(answer.header("www-authenticate"), Some("Bearer")),
            405 => assert_eq!(answer.header("allow"), Some("POST, GET, DELETE")),
            404 => assert!(answer.json()["error"].is_string()),
            _ => {}
        }
    }
    assert!(studio.journal.written().is_empty());
    assert_eq!(studio.journal.events().len(), 1, "several failures in one second caused several records");
}

#[tokio::test]
async fn health_says_one_word() {
    let (studio, _shared, address) = open(Mcp::default()).await;
    let get = request(address, "GET", "/health", &[], "");
    assert_eq!(send(address, &get).await.body, r#"{"status":"ok"}"#);
    studio.journal.set_down(Some("disk full"));
    let down = send(address, &get).await;
    assert_eq!((down.status, down.body.as_str()), (503, r#"{"status":"degraded"}"#));
}

#[tokio::test]
async fn a_modern_request_stands_alone() {
    let (studio, _shared, address) = open(Mcp::default()).await;
    let call = rpc(1, "tools/call", modern(json!({ "name": "test_echo", "arguments": { "text": "hi" } })));
    let answer = post_modern(address, &call).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["result"]["structuredContent"], json!({ "echo": "hi" }));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(
        matches!(&studio.journal.written()[..], [Written::Outcome(facts, _)] if facts.principal.to_string() == "http:ci")
    );
    // Direct tool calls are disabled on HTTP.
    let direct = post_modern(address, &rpc(2, "test_echo", modern(json!({ "text": "hi" })))).await;
    assert_eq!((direct.status, &direct.json()["error"]["code"]), (404, &json!(-32601)));
    let level = post_modern(address, &rpc(3, "logging/setLevel", modern(json!({ "level": "info" })))).await;
    assert_eq!((level.status, &level.json()["error"]["code"]), (404, &json!(-32601)));
    let unknown = post(
        address,
        &[("MCP-Protocol-Version", "2027-01-01"), ("Mcp-Method", "tools/list")],
        &rpc(4, "tools/list", json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2027-01-01", "io.modelcontextprotocol/clientCapabilities": {} } })),
    )
    .await;
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (400, &json!(-32022)));
}

#[tokio::test]
async fn headers_must_repeat_the_body() {
    let (studio, _shared, address) = open(Mcp::default()).await;
    let call = rpc(1, "tools/call", modern(json!({ "name": "test_echo", "arguments": { "text": "hi" } })));
    let version = ("MCP-Protocol-Version", "2026-07-28");
    for headers in [
        vec![version],
        vec![version, ("Mcp-Method", "tools/list"), ("Mcp-Name", "test_echo")],
        vec![version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "test_set")],
        vec![version, ("Mcp-Method", "tools/call")],
        vec![version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?dGVzdF9zZXQ=?=")],
    ] {
        let answer = post(address, &headers, &call).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32020)), "{headers:?}");
    }
    let encoded = vec![version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?dGVzdF9lY2hv?=")];
    assert_eq!(post(address, &encoded, &call).await.status, 200);
    assert_eq!(studio.runs.all().len(), 1);
}

#[tokio::test]
async fn a_legacy_session_from_start_to_end() {
    let (_studio, _shared, address) = open(Mcp::default()).await;
    let hello = post(
        address,
        &[],
        &rpc(1, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } })),
    )
    .await;
    assert_eq!(hello.status, 200, "{}", hello.body);
    let session = hello.header("mcp-session-id").expect("a session").to_owned();
    let with = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let ready = post(address, &with, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(ready.status, 202);
    let call =
        post(address, &with, &rpc(2, "tools/call", json!({ "name": "test.echo", "arguments": { "text": "hi" } })))
            .await;
    assert_eq!(
        call.messages().last().map(|it| it["result"]["structuredContent"].clone()),
        Some(json!({ "echo": "hi" }))
    );
    let bearer = format!("Bearer {TOKEN}");
    let gone = request(address, "DELETE", "/mcp", &[("Authorization", &bearer), with[0], with[1]], "");
    assert!(send(address, &gone).await.status < 300);
    let after = post(address, &with, &rpc(3, "tools/list", json!({}))).await;
    assert_eq!(after.status, 404);
}

async fn session(address: std::net::SocketAddr) -> String {
    let client = json!({ "name": "x", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let hello = post(address, &[], &rpc(1, "initialize", hello)).await;
    let session = hello.header("mcp-session-id").expect("a session").to_owned();
    let with = [("Mcp-Session-Id", session.as_str())];
    let ready = post(address, &with, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(ready.status, 202);
    session
}

#[tokio::test]
async fn a_call_is_answered_in_one_piece_unless_it_reports_or_waits() {
    let (studio, _shared, address) = open(Mcp::default()).await;
    let session = session(address).await;
    let with = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let call = |id, more: Value| {
        let mut params = json!({ "name": "test.echo", "arguments": { "text": "hi" } });
        params.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        rpc(id, "tools/call", params)
    };
    let kind = |answer: &conductor_testkit::http_client::Answer| {
        let kind = answer.header("content-type").unwrap_or_default().to_owned();
        if kind.starts_with("text/event-stream") { "stream" } else { "piece" }
    };
    let first = post(address, &with, &call(2, json!({}))).await;
    assert_eq!((kind(&first), first.header("cache-control")), ("piece", Some("no-store")));
    assert_eq!(first.json()["id"], json!(2));
    let second = post(address, &with[..1], &call(4, json!({}))).await;
    assert_eq!(kind(&second), "piece", "a request without the version was answered with a stream");
    let answered = (second.status, second.json()["id"].clone(), second.json()["result"]["isError"].clone());
    assert_eq!(answered, (200, json!(4), json!(false)), "a request without the version was refused");
    let bad =
        post(address, &with, &rpc(5, "tools/call", json!({ "name": "test.echo", "arguments": { "text": 7 } }))).await;
    assert_eq!((kind(&bad), &bad.json()["result"]["isError"]), ("piece", &json!(true)));
    let unknown = post(address, &with, &rpc(6, "tools/call", json!({ "name": "nobody" }))).await;
    assert_eq!((kind(&unknown), &unknown.json()["error"]["code"]), ("piece", &json!(-32602)));
    assert!(studio.journal.written().iter().all(|it| match it {
        Written::Intent(facts) | Written::Outcome(facts, _) => facts.principal.to_string().starts_with("http:"),
    }));
    assert_eq!(studio.journal.written().len(), 4, "a call has no record, or several");

    // A report precedes the answer, in the same stream.
    let params = json!({ "name": tools::SLOW, "arguments": {}, "_meta": { "progressToken": 1 } });
    let reporting = rpc(7, "tools/call", params);
    let reporting = post(address, &with, &reporting);
    let release = async {
        studio.runs.until(tools::SLOW, 1).await;
        studio.runs.release.notify_one();
    };
    let (reports, ()) = tokio::join!(reporting, release);
    assert_eq!(kind(&reports), "stream");
    let messages = reports.messages();
    assert_eq!(messages.first().map(|it| it["method"].clone()), Some(json!("notifications/progress")));
    assert_eq!(messages.last().map(|it| it["id"].clone()), Some(json!(7)));
    let odd = [with[0], ("MCP-Protocol-Version", "1999-01-01")];
    assert_eq!(post(address, &odd, &call(9, json!({}))).await.status, 400);
    let bearer = format!("Bearer {TOKEN}");
    let level = post(address, &with, &rpc(10, "logging/setLevel", json!({ "level": "debug" }))).await;
    assert_eq!(level.status, 200);

    let gone = request(address, "DELETE", "/mcp", &[("Authorization", &bearer), with[0], with[1]], "");
    assert!(send(address, &gone).await.status < 300);
    assert_eq!(post(address, &with, &call(12, json!({}))).await.status, 404);
    assert_eq!(post(address, &[("Mcp-Session-Id", "nobody")], &call(13, json!({}))).await.status, 404);
}

#[tokio::test]
async fn a_slow_call_runs_to_its_answer_or_its_cancellation() {
    let (studio, _shared, address) = open(Mcp::default()).await;
    let session = session(address).await;
    let calls = |id: i64, name: &'static str| {
        let session = session.clone();
        tokio::spawn(async move {
            let with = [("Mcp-Session-Id", session.as_str())];
            post(address, &with, &rpc(id, "tools/call", json!({ "name": name, "arguments": {} }))).await
        })
    };
    calls(2, "test.always").await.expect("answered");
    let slow = calls(3, tools::SLOW);
    studio.runs.until(tools::SLOW, 1).await;
    studio.runs.release.notify_one();
    let slow = slow.await.expect("answered");
    assert_eq!(slow.json()["id"], json!(3), "{}", slow.body);
    assert_eq!(studio.runs.of(tools::SLOW), 1, "the call was started more than once");

    let cancelled = calls(4, tools::SLOW_EFFECT);
    studio.runs.until(tools::SLOW_EFFECT, 1).await;
    let with = [("Mcp-Session-Id", session.as_str())];
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 4 } });
    assert_eq!(post(address, &with, &cancel).await.status, 202);
    let is_cancelled = |it: &Written| matches!(it, Written::Outcome(_, it) if it.result == AuditResult::Cancelled);
    while !studio.journal.written().iter().any(is_cancelled) {
        tokio::task::yield_now().await;
    }
    cancelled.abort();
}

/// A client whose connection broke reads the rest of its answer with the id of the last event.
#[tokio::test]
async fn a_stream_whose_connection_broke_is_read_to_its_end() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (studio, _shared, address) = open(Mcp::default()).await;
    let session = session(address).await;
    let bearer = format!("Bearer {TOKEN}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Session-Id", session.as_str()),
    ];
    let params = json!({ "name": tools::SLOW, "arguments": {}, "_meta": { "progressToken": 1 } });
    let call = rpc(2, "tools/call", params).to_string();
    let mut broken = tokio::net::TcpStream::connect(address).await.unwrap();
    broken.write_all(&request(address, "POST", "/mcp", &headers, &call)).await.unwrap();
    let mut text = String::new();
    while !text.contains("notifications/progress") {
        let mut bytes = [0; 4096];
        let read = broken.read(&mut bytes).await.unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    let last = text.lines().find_map(|line| line.strip_prefix("id: ")).expect("the event has no id").to_owned();
    drop(broken);
    studio.runs.release.notify_one();
    let resume = |last: String| {
        let headers = [&headers[..], &[("Last-Event-ID", last.as_str())]].concat();
        request(address, "GET", "/mcp", &headers, "")
    };
    let rest = send(address, &resume(last)).await;
    assert_eq!(rest.messages().last().map(|it| it["id"].clone()), Some(json!(2)), "{}", rest.body);
    assert_eq!(studio.runs.of(tools::SLOW), 1);
    let unknown = send(address, &resume("99-0".to_owned())).await;
    assert_eq!((unknown.status, unknown.messages()), (200, vec![]));
}

#[tokio::test]
async fn a_session_in_use_is_not_idle() {
    let (_studio, _shared, address) = open(Mcp { session_idle_s: 3, ..Mcp::default() }).await;
    let session = session(address).await;
    let with = [("Mcp-Session-Id", session.as_str())];
    let echo = json!({ "name": "test.echo", "arguments": { "text": "hi" } });
    for id in 2..22 {
        assert_eq!(post(address, &with, &rpc(id, "tools/call", echo.clone())).await.status, 200, "call {id}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn sessions_are_bounded_and_the_oldest_makes_room() {
    let (_studio, _shared, address) = open(Mcp::default()).await;
    let hello = rpc(
        1,
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } }),
    );
    let mut sessions = Vec::new();
    for _ in 0..65 {
        let answer = post(address, &[], &hello).await;
        sessions.push(answer.header("mcp-session-id").expect("a session").to_owned());
    }
    let alive = |session: String| async move {
        post(
            address,
            &[("Mcp-Session-Id", &session), ("MCP-Protocol-Version", "2025-11-25")],
            &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        )
        .await
        .status
    };
    assert_eq!(alive(sessions[0].clone()).await, 404);
    assert_eq!(alive(sessions[1].clone()).await, 202);
    assert_eq!(alive(sessions[64].clone()).await, 202);
}

/// A session can be used only with the token that opened it, even if its id is known.
#[tokio::test]
async fn a_session_is_its_tokens_alone() {
    let (_studio, _shared, address) = open(Mcp::default()).await;
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let session =
        post(address, &[], &rpc(1, "initialize", hello)).await.header("mcp-session-id").expect("a session").to_owned();
    let with = |token: &'static str, method: &'static str, body: String| {
        let (bearer, session) = (format!("Bearer {token}"), session.clone());
        async move {
            let headers = [
                ("Authorization", bearer.as_str()),
                ("Content-Type", "application/json"),
                ("Accept", "application/json, text/event-stream"),
                ("Mcp-Session-Id", session.as_str()),
                ("MCP-Protocol-Version", "2025-11-25"),
            ];
            send(address, &request(address, method, "/mcp", &headers, &body)).await.status
        }
    };
    let (other, own) = (conductor_testkit::http_client::OTHER_TOKEN, conductor_testkit::http_client::TOKEN);
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let call = rpc(2, "tools/call", json!({ "name": "test_echo", "arguments": { "text": "x" } })).to_string();
    assert_eq!(with(other, "POST", note.clone()).await, 404);
    assert_eq!(with(other, "POST", call.clone()).await, 404);
    assert_eq!(with(other, "GET", String::new()).await, 404);
    assert_eq!(with(other, "DELETE", String::new()).await, 404);
    assert_eq!(with(own, "POST", note).await, 202, "a request with another token ended the session");
    assert_eq!(with(own, "POST", call).await, 200);
    assert!([200, 202, 204].contains(&with(own, "DELETE", String::new()).await));
}

#[cfg(unix)]
#[test]
fn a_home_has_one_token_for_its_owner_only() {
    use conductor_daemon::doors::http::default_token;
    use conductor_hosts::system::CountingIds;
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().expect("a folder");
    let ids = CountingIds::new();
    let first = default_token(home.path(), &*ids).expect("made");
    let again = default_token(home.path(), &*ids).expect("read");
    assert_eq!((first.name.as_str(), first.hash), ("default", again.hash));
    let file = home.path().join("state/http.token");
    assert_eq!(std::fs::metadata(&file).map(|it| it.permissions().mode() & 0o777).ok(), Some(0o600));
    assert_eq!(
        std::fs::read_to_string(file).map(|it| it.len()).ok(),
        Some(43),
        "the token is not 32 bytes in base64url"
    );
}
