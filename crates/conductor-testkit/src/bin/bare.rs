//! A server with only the SDK's transport and an echo handler. Benches compare the daemon with it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "not part of the product")]
#![expect(clippy::print_stderr, reason = "a separate program for benches")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, serve_directly};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::unix::pipe;

#[derive(Clone)]
struct Bare;

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let schema = schema.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("test_echo", "Returns its text.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let Some(text) = arguments.get("text").and_then(Value::as_str) else {
            return Err(ErrorData::invalid_params("text must be a string", None));
        };
        let value = json!({ "echo": text });
        let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
        result.structured_content = Some(value);
        Ok(result.into())
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let served = match (words.next().as_deref(), words.next()) {
        (Some("socket"), Some(path)) => socket(&path).await,
        (Some("stdio"), None) => stdio().await,
        (Some("http"), Some(port)) => http(port.parse().unwrap_or_default()).await,
        _ => Err(io::Error::other("usage: bare socket PATH | stdio | http PORT")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("bare: {fault}");
            ExitCode::FAILURE
        }
    }
}

async fn socket(path: &str) -> io::Result<()> {
    let listener = tokio::net::UnixListener::bind(path)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let _ = serve_directly::<RoleServer, _, _, _, _>(Bare, stream.into_split(), None).waiting().await;
        });
    }
}

/// Non-blocking pipes, the fastest transport of the SDK for stdio.
async fn stdio() -> io::Result<()> {
    let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    let read = pipe::Receiver::from_owned_fd(own(io::stdin().as_fd())?)?;
    let write = pipe::Sender::from_owned_fd(own(io::stdout().as_fd())?)?;
    let _ = serve_directly::<RoleServer, _, _, _, _>(Bare, (read, write), None).waiting().await;
    Ok(())
}

/// HTTP with sessions and JSON answers, as in the daemon.
async fn http(port: u16) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(true).with_json_response(true);
    let service = StreamableHttpService::new(|| Ok(Bare), Arc::new(LocalSessionManager::default()), config);
    let router = axum::Router::new().route_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await
}
