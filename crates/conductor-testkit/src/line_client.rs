//! A client of a line-based connection. It sends raw bytes and returns each received line.

use std::sync::Arc;
use std::time::Duration;

use conductor_daemon::doors::mcp::Shared;
use conductor_daemon::doors::mcp::listener::serve_stream;
use conductor_daemon::doors::session::Who;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// Maximum wait for an answer, in real time. No test asserts on it.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct LineClient {
    read: BufReader<Box<dyn AsyncRead + Unpin + Send>>,
    write: Option<Box<dyn AsyncWrite + Unpin + Send>>,
    next: i64,
}

impl LineClient {
    pub fn over<S: AsyncRead + AsyncWrite + Send + 'static>(stream: S) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { read: BufReader::new(Box::new(read)), write: Some(Box::new(write)), next: 1 }
    }

    /// Connects directly to the server code, without a socket file.
    pub fn connect(shared: &Arc<Shared>) -> Self {
        let shared = Arc::clone(shared);
        #[cfg(unix)]
        {
            let (ours, theirs) = tokio::net::UnixStream::pair().expect("a socket pair");
            tokio::spawn(async move { serve_stream(&shared, Who::Uid(1000), theirs).await });
            Self::over(ours)
        }
        #[cfg(windows)]
        {
            // Windows has no unnamed pipe with two directions, so use a named pipe.
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("mcp.sock");
            let listener =
                conductor_hosts::system::listener::Listener::bind(&path).expect("the pipe cannot be created");
            let (ours, mut inner) = tokio::io::duplex(1 << 20);
            tokio::spawn(async move {
                let mut pipe =
                    conductor_hosts::system::listener::connect(&path).await.expect("the pipe does not listen");
                let _ = tokio::io::copy_bidirectional(&mut inner, &mut pipe).await;
            });
            tokio::spawn(async move {
                let _folder = folder;
                let (theirs, _) =
                    listener.accept().await.expect("no client connected").expect("the client belongs to another user");
                serve_stream(&shared, Who::Uid(1000), theirs).await;
            });
            Self::over(ours)
        }
    }

    pub async fn bytes(&mut self, bytes: &[u8]) {
        if let Some(write) = &mut self.write {
            write.write_all(bytes).await.expect("the connection is closed");
            write.flush().await.expect("the connection is closed");
        }
    }

    pub async fn line(&mut self, line: &str) {
        self.bytes(format!("{line}\n").as_bytes()).await;
    }

    pub async fn send(&mut self, message: Value) {
        self.line(&message.to_string()).await;
    }

    /// Closes the sending side of the connection. The client still receives.
    pub async fn end(&mut self) {
        if let Some(mut write) = self.write.take() {
            let _ = write.shutdown().await;
        }
    }

    /// The next line, or `None` if the connection is closed.
    pub async fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read =
            tokio::time::timeout(PATIENCE, self.read.read_line(&mut line)).await.expect("no answer in time").ok()?;
        (read > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    pub async fn next(&mut self) -> Value {
        let line = self.next_line().await.expect("the connection is closed");
        serde_json::from_str(&line).expect("the line is not JSON")
    }

    /// Sends a request and returns its reply. Messages that arrive before the reply are dropped.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params).await;
        self.reply(id).await
    }

    pub async fn start(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    pub async fn reply(&mut self, id: i64) -> Value {
        loop {
            let message = self.next().await;
            if message.get("id") == Some(&json!(id)) && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub async fn initialize(&mut self) -> Value {
        self.initialize_as("2025-11-25", json!({})).await
    }

    pub async fn initialize_as(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "Demo", "version": "1" }
        });
        let reply = self.request("initialize", params).await;
        self.notify("notifications/initialized", json!({})).await;
        reply
    }
}

/// Adds the metadata that protocol version 2026-07-28 requires.
pub fn modern(params: Value) -> Value {
    modern_with(params, json!({}))
}

pub fn modern_with(mut params: Value, capabilities: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "Demo", "version": "1" }
    });
    match params.get_mut("_meta").and_then(Value::as_object_mut) {
        Some(own) => own.extend(meta.as_object().cloned().unwrap_or_default()),
        None => params["_meta"] = meta,
    }
    params
}
