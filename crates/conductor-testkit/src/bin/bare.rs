//! The protocol layer alone: the SDK's own transport and a handler that gives its text back. What the doors are measured against.

#![expect(clippy::print_stderr, reason = "a program of its own, for measuring")]

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, serve_directly};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

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
        Ok(ListToolsResult::with_all_items(vec![Tool::new("test_echo", "Gives its text back.", Arc::new(schema))]))
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
async fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("bare SOCKET");
        return;
    };
    let listener = match tokio::net::UnixListener::bind(&path) {
        Ok(listener) => listener,
        Err(fault) => {
            eprintln!("{path}: {fault}");
            return;
        }
    };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let _ = serve_directly::<RoleServer, _, _, _, _>(Bare, stream.into_split(), None).waiting().await;
        });
    }
}
