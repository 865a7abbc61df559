//! The HTTP routes other than `/mcp`: tool calls without MCP, the log, metrics and events.

use std::sync::Arc;

use conductor_core::policy::Policy;
use conductor_daemon::doors::mcp::Shared;
use conductor_gateway::studio::Settings;
use conductor_testkit::http_client::{Answer, TOKEN, request, send, serve};
use conductor_testkit::studio::TestStudio;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

async fn open() -> (TestStudio, Arc<Shared>, SocketAddr) {
    let studio = TestStudio::with(Policy::default(), Settings::default());
    let shared = Shared::new(&studio.studio);
    let address = serve(&shared).await;
    (studio, shared, address)
}

async fn ask(address: SocketAddr, method: &str, path: &str, token: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    send(address, &request(address, method, path, &[("Authorization", &bearer)], body)).await
}

#[tokio::test]
async fn every_route_stands_behind_host_origin_and_its_own_scope() {
    let (_studio, _shared, address) = open().await;
    let own = format!("127.0.0.1:{}", address.port());
    let wrong = format!("127.0.0.1:{}", address.port().wrapping_add(1));
    let routes = [
        ("GET", "/tools", "call"),
        ("POST", "/tools/echo", "call"),
        ("GET", "/openapi.json", "call"),
        ("GET", "/audit", "observe"),
        ("GET", "/events", "observe"),
        ("GET", "/metrics", "observe"),
    ];
    for (method, path, scope) in routes {
        let (right, other) = if scope == "call" { (TOKEN, "observer") } else { ("observer", TOKEN) };
        let bearer = format!("Bearer {right}");
        for headers in [
            vec![("Host", "evil.example")],
            vec![("Host", wrong.as_str())],
            vec![("Host", own.as_str()), ("Host", own.as_str())],
            vec![("Origin", "http://evil.example")],
            vec![("Origin", "null")],
            vec![("Origin", "http://localhost"), ("Origin", "http://localhost")],
        ] {
            let mut all = vec![("Authorization", bearer.as_str())];
            all.extend(headers.iter().copied());
            let answer = send(address, &request(address, method, path, &all, "")).await;
            assert_eq!(answer.status, 403, "{method} {path} {headers:?}");
        }
        assert_eq!(ask(address, method, path, other, "").await.status, 401, "{path} with the other scope");
        assert_eq!(ask(address, method, path, "guess", "").await.status, 401, "{path}");
        let bare = send(address, &request(address, method, path, &[], "")).await;
        assert_eq!((bare.status, bare.header("www-authenticate")), (401, Some("Bearer")), "{path}");
    }
    let health = send(address, &request(address, "GET", "/health", &[], "")).await;
    assert_eq!((health.status, health.json()), (200, json!({ "status": "ok" })));
}

#[tokio::test]
async fn a_tool_is_called_by_its_name_and_a_failure_has_the_status_of_its_code() {
    let (studio, _shared, address) = open().await;
    let tools = ask(address, "GET", "/tools", TOKEN, "").await.json();
    let names: Vec<&str> = tools["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(!names.is_empty());
    for tool in tools["tools"].as_array().unwrap() {
        for key in ["description", "inputSchema", "outputSchema", "tier", "annotations"] {
            assert!(tool.get(key).is_some(), "{key} of {}", tool["name"]);
        }
    }
    let unknown = ask(address, "POST", "/tools/nowhere", TOKEN, "{}").await;
    assert_eq!((unknown.status, unknown.json()["code"].as_str()), (404, Some("NOT_FOUND")));
    let bad = ask(address, "POST", &format!("/tools/{}", names[0]), TOKEN, "{\"no such argument\": 1}").await;
    assert_eq!((bad.status, bad.json()["code"].as_str()), (400, Some("BAD_INPUT")), "{bad:?}");
    let nonsense = ask(address, "POST", &format!("/tools/{}", names[0]), TOKEN, "{").await;
    assert_eq!(nonsense.status, 400);
    assert_eq!(ask(address, "GET", &format!("/tools/{}", names[0]), TOKEN, "").await.status, 405);
    // Calls of unknown tools pass through the pipeline too, so the log contains them.
    assert!(format!("{:?}", studio.journal.written()).contains("nowhere"));
}

#[tokio::test]
async fn the_description_of_the_doors_is_made_of_the_catalog() {
    let (studio, _shared, address) = open().await;
    let openapi = ask(address, "GET", "/openapi.json", TOKEN, "").await.json();
    assert_eq!(openapi["openapi"], "3.1.0");
    let listed = studio.studio.catalog().tools().filter(|it| !it.hidden).count();
    assert_eq!(openapi["paths"].as_object().unwrap().len(), listed);
    for (path, item) in openapi["paths"].as_object().unwrap() {
        let name = path.strip_prefix("/tools/").unwrap();
        let tool = studio.studio.catalog().get(name).cloned().unwrap();
        assert_eq!(
            item["post"]["requestBody"]["content"]["application/json"]["schema"],
            tool.published_schema.value(),
            "{name}"
        );
    }
}

/// Parses the metrics. Each series must follow exactly one `# TYPE` line.
fn series(text: &str) -> Vec<(String, f64)> {
    let mut typed = std::collections::BTreeMap::new();
    let mut out = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(typed.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|it| name.strip_suffix(it))
                .filter(|it| typed.contains_key(*it));
            assert!(typed.contains_key(base.unwrap_or(name)), "without a type: {line}");
            out.push((series.to_owned(), value.parse().unwrap()));
        }
    }
    out
}

#[tokio::test]
async fn numbers_count_what_happened_and_a_made_up_name_makes_no_series() {
    let (studio, _shared, address) = open().await;
    for name in ["made_up_1", "made_up_2", "x\"} 1\nfake 2"] {
        studio.call(name, json!({})).await;
    }
    let answer = ask(address, "GET", "/metrics", "observer", "").await;
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"), "{answer:?}");
    let series = series(&answer.body);
    let value = |name: &str| series.iter().find(|(it, _)| it == name).map(|(_, value)| *value);
    assert_eq!(value("conductor_tool_calls_total{tool=\"_unknown\",result=\"invalid\"}"), Some(3.0), "{series:?}");
    assert_eq!(value("conductor_tool_duration_ms_bucket{tool=\"_unknown\",le=\"+Inf\"}"), Some(3.0));
    assert_eq!((value("conductor_audit_up"), value("conductor_approvals_pending")), (Some(1.0), Some(0.0)));
    assert!(!answer.body.contains("made_up"), "{}", answer.body);
    studio.journal.set_down(Some("no disk"));
    assert!(ask(address, "GET", "/metrics", "observer", "").await.body.contains("conductor_audit_up 0"));
    let health = send(address, &request(address, "GET", "/health", &[], "")).await;
    assert_eq!((health.status, health.json()), (503, json!({ "status": "degraded" })));
}

#[tokio::test(flavor = "multi_thread")]
async fn observers_hear_names_results_and_times_and_nothing_else() {
    let (studio, _shared, address) = open().await;
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(&request(address, "GET", "/events", &[("Authorization", "Bearer observer")], "")).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    // The response head is sent when the stream is ready.
    while lines.next_line().await.unwrap().is_some_and(|it| !it.is_empty()) {}
    studio.call("nowhere", json!({ "argument": "a private value" })).await;
    let (mut heard, mut name) = (Vec::new(), String::new());
    while heard.is_empty() {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            heard.push((name.clone(), serde_json::from_str::<Value>(data).unwrap()));
        }
    }
    let (name, data) = &heard[0];
    assert_eq!(
        (name.as_str(), data["tool"].as_str(), data["result"].as_str()),
        ("tool.complete", Some("_unknown"), Some("invalid"))
    );
    assert!(!data.to_string().contains("private") && !data.to_string().contains("nowhere"), "{data}");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_there_may_be_are_refused() {
    let (_studio, _shared, address) = open().await;
    let mut open = Vec::new();
    for _ in 0..16 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream
            .write_all(&request(address, "GET", "/events", &[("Authorization", "Bearer observer")], ""))
            .await
            .unwrap();
        let mut lines = BufReader::new(stream).lines();
        while lines.next_line().await.unwrap().is_some_and(|it| !it.is_empty()) {}
        open.push(lines);
    }
    assert_eq!(ask(address, "GET", "/events", "observer", "").await.status, 503);
}
