//! Renders a reply for each dialect. The structured value and its text are rendered here only,
//! because a later protocol version may change the relation between them.

use conductor_core::error::{Code, ToolError};
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData, ResourceContents};
use serde_json::{Value, json};

use conductor_gateway::pipeline::call::{Content, Output};

/// The result of a call that ran. A plugin may mark its own result as an error.
pub fn success(output: Output) -> CallToolResult {
    let (structured, is_error) = (output.is_structured(), output.is_error);
    let (value, text, blocks) = output.into_parts();
    let text = structured.then(|| ContentBlock::text(text));
    let content = text.into_iter().chain(blocks.into_iter().map(block)).collect();
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured.then_some(value);
    result
}

pub fn failure(error: &ToolError) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(error.to_text())]);
    result.structured_content = Some(error.to_wire());
    result
}

/// The protocol error for an unknown tool, the only tool failure that becomes a protocol error.
pub fn unknown_tool(error: &ToolError) -> ErrorData {
    ErrorData::invalid_params(
        error.message.clone(),
        Some(json!({ "code": error.code, "hint": error.hint, "did_you_mean": error.extras.did_you_mean })),
    )
}

/// The result in the direct dialect: the value itself. Content blocks are in the member `content`.
pub fn direct_success(output: Output) -> Value {
    let is_error = output.is_error;
    let (mut value, _, blocks) = output.into_parts();
    if value.is_null() {
        value = json!({});
    }
    if is_error && let Value::Object(members) = &mut value {
        members.insert("isError".to_owned(), Value::Bool(true));
    }
    if !blocks.is_empty()
        && let Value::Object(members) = &mut value
    {
        let blocks: Vec<Value> = blocks.into_iter().map(block).filter_map(|it| serde_json::to_value(it).ok()).collect();
        members.entry("content").or_insert(Value::Array(blocks));
    }
    value
}

pub fn direct_failure(error: &ToolError) -> ErrorData {
    ErrorData::new(ErrorCode(error.direct_number()), error.message.clone(), Some(error.to_wire()))
}

/// A failed read of a resource. `data` contains the same error object as a failed tool call.
pub fn resource_failure(uri: &str, error: &ToolError) -> ErrorData {
    let mut data = error.to_wire();
    data["uri"] = uri.into();
    let data = Some(data);
    match error.code {
        Code::NotFound | Code::StaleReference => ErrorData::resource_not_found(error.message.clone(), data),
        Code::BadInput | Code::WrongType => ErrorData::invalid_params(error.message.clone(), data),
        Code::Unsupported
        | Code::SdkRejected
        | Code::HostOffline
        | Code::Timeout
        | Code::Denied
        | Code::ApprovalRequired
        | Code::PlanExpired
        | Code::PlanStale
        | Code::CircuitOpen
        | Code::RateLimited
        | Code::PinMismatch
        | Code::AuditUnavailable
        | Code::Busy
        | Code::Internal => ErrorData::internal_error(error.message.clone(), data),
    }
}

/// The contents of a read: the value as text, or the blocks of a tool that returns blocks.
pub fn resource_contents(uri: &str, mime: &str, output: Output) -> Vec<ResourceContents> {
    let (_, text, blocks) = output.into_parts();
    let picture = blocks.into_iter().find_map(|block| match block {
        Content::Image { mime, base64 } | Content::Audio { mime, base64 } | Content::Blob { mime, base64, .. } => {
            Some(ResourceContents::blob(base64, uri).with_mime_type(mime))
        }
        Content::Resource { mime, text, .. } => Some(ResourceContents::text(text, uri).with_mime_type(mime)),
        Content::Text(_) => None,
    });
    vec![picture.unwrap_or_else(|| ResourceContents::text(text, uri).with_mime_type(mime))]
}

pub fn block(content: Content) -> ContentBlock {
    match content {
        Content::Text(text) => ContentBlock::text(text),
        Content::Image { mime, base64 } => ContentBlock::image(base64, mime),
        Content::Audio { mime, base64 } => ContentBlock::audio(base64, mime),
        Content::Resource { uri, mime, text } => {
            ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(mime))
        }
        Content::Blob { uri, mime, base64 } => {
            ContentBlock::resource(ResourceContents::blob(base64, uri).with_mime_type(mime))
        }
    }
}
