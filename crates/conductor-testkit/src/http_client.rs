//! An HTTP client that sends exactly the bytes of a test, for example two Host headers, and a
//! server to send them to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use conductor_daemon::doors::http::{self, Authority, Token, Tokens};
use conductor_daemon::doors::mcp::Shared;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const TOKEN: &str = "a-token-for-tests";
/// The token of another client with the same rights.
pub const OTHER_TOKEN: &str = "another-token-for-tests";
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves a studio on a free port of this machine.
pub async fn serve(shared: &Arc<Shared>) -> SocketAddr {
    let (listener, address) = http::bind(([127, 0, 0, 1], 0).into()).await.expect("no port is free");
    let tokens = Tokens::new(vec![
        Token::new("ci", TOKEN, &["call"]),
        Token::new("other", OTHER_TOKEN, &["call"]),
        Token::new("eyes", "observer", &["observe"]),
    ]);
    let authority = Authority::new(address, Vec::new(), Vec::new(), false);
    let router = http::router(shared, &tokens, authority, axum::Router::new());
    tokio::spawn(http::serve(listener, router, None, Arc::clone(&shared.http_connections), shared.stop.clone()));
    address
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The messages of an event stream, or the one message of a plain body.
    pub fn messages(&self) -> Vec<Value> {
        if self.header("content-type").is_some_and(|it| it.starts_with("text/event-stream")) {
            let data = self.body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
            data.filter(|it| !it.is_empty()).filter_map(|it| serde_json::from_str(it).ok()).collect()
        } else {
            vec![self.json()]
        }
    }
}

/// Sends raw bytes and reads until the connection is closed.
pub async fn send(address: SocketAddr, request: &[u8]) -> Answer {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("the server refused the connection");
        stream.write_all(request).await.expect("the server did not read the request");
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes
    };
    let bytes = tokio::time::timeout(PATIENCE, exchange).await.expect("no answer in time");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    Answer { status, head: head.to_owned(), body: if chunked { unchunk(body) } else { body.to_owned() } }
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        let Some((chunk, rest)) = rest.split_at_checked(size) else { break };
        if size == 0 {
            break;
        }
        out.push_str(chunk);
        body = rest.trim_start_matches("\r\n");
    }
    out
}

/// A request with the usual headers and the headers in `more`.
pub fn request(address: SocketAddr, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !more.iter().any(|it| it.0.eq_ignore_ascii_case("host")) {
        text.push_str(&format!("Host: 127.0.0.1:{}\r\n", address.port()));
    }
    for (name, value) in more {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

pub async fn post(address: SocketAddr, more: &[(&str, &str)], body: &Value) -> Answer {
    let bearer = format!("Bearer {TOKEN}");
    let mut headers = vec![
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    headers.extend_from_slice(more);
    send(address, &request(address, "POST", "/mcp", &headers, &body.to_string())).await
}

/// Sends a request of protocol version 2026-07-28, whose headers must repeat parts of the body.
pub async fn post_modern(address: SocketAddr, body: &Value) -> Answer {
    let method = body["method"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method.as_str())];
    let name = body["params"]["name"].as_str().or_else(|| body["params"]["uri"].as_str()).map(str::to_owned);
    if let Some(name) = &name {
        headers.push(("Mcp-Name", name));
    }
    post(address, &headers, body).await
}
