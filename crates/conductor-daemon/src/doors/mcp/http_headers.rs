//! Compares the headers of an HTTP request with its message.
//!
//! Proxies route by these headers without reading the body, so a header that contradicts the body
//! is refused.

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode};
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, GetMeta, ProtocolVersion, RequestId};
use serde_json::{Value, json};

use super::era::{self, Era};
use super::wire::Incoming;
use conductor_gateway::studio::Studio;

const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const PARAM: &str = "mcp-param-";
/// The schema keyword of a parameter that a client repeats in a header.
const PARAM_MARK: &str = "x-mcp-header";

/// The response to a request whose headers are refused.
pub fn refused(id: Option<&RequestId>, error: ErrorData) -> Response {
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    (StatusCode::BAD_REQUEST, axum::Json(body)).into_response()
}

/// Whether the version in the headers is modern. Without a version, the message is legacy.
pub fn is_modern(headers: &HeaderMap) -> Result<bool, ErrorData> {
    match single(headers, VERSION) {
        Ok(Some(version)) if ProtocolVersion::KNOWN_VERSIONS.iter().any(|it| it.as_str() == version) => {
            Ok(era::is_modern(version))
        }
        Ok(None) => Ok(false),
        Ok(Some(_)) | Err(_) => Err(ErrorData::invalid_request("this MCP-Protocol-Version is not supported", None)),
    }
}

/// Checks that the headers agree with the message. Returns the era of the message.
pub fn check(headers: &HeaderMap, message: &Incoming, studio: &Studio) -> Result<Era, ErrorData> {
    let Incoming::Request(_, request) = message else {
        return Ok(if is_modern(headers)? { Era::Modern } else { Era::Legacy });
    };
    let header = single(headers, VERSION).map_err(mismatch)?;
    if let ClientRequest::InitializeRequest(it) = &**request {
        let asked = it.params.protocol_version.as_str();
        if header.is_some_and(|header| header != asked) {
            return Err(ErrorData::invalid_request("MCP-Protocol-Version does not match params.protocolVersion", None));
        }
        let method = single(headers, METHOD).map_err(mismatch)?;
        if header.is_some_and(era::is_modern) && method.is_some_and(|method| method != "initialize") {
            return Err(mismatch("Mcp-Method does not match the method of the body".to_owned()));
        }
        return Ok(Era::Legacy);
    }
    let meta = request.get_meta();
    let Some(own) = meta.protocol_version() else {
        if header.is_some_and(era::is_modern) || matches!(**request, ClientRequest::DiscoverRequest(_)) {
            return Err(era::missing_meta(&meta.missing_required_keys(&era::SUPPORTED[0])));
        }
        return is_modern(headers).map(|_| Era::Legacy);
    };
    if header != Some(own.as_str()) {
        return Err(mismatch("MCP-Protocol-Version does not match the version in _meta".to_owned()));
    }
    if !era::is_modern(own.as_str()) {
        return is_modern(headers).map(|_| Era::Legacy);
    }
    repeats_body(headers, request, studio).map_err(mismatch)?;
    Ok(Era::Modern)
}

/// The HTTP status of an error. `is_whole` is true if the request has all required members of
/// `_meta`.
pub fn status(code: ErrorCode, is_whole: bool) -> StatusCode {
    match code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::HEADER_MISMATCH => StatusCode::BAD_REQUEST,
        ErrorCode::INVALID_PARAMS if !is_whole => StatusCode::BAD_REQUEST,
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

fn repeats_body(headers: &HeaderMap, request: &ClientRequest, studio: &Studio) -> Result<(), String> {
    let method = request.method();
    match single(headers, METHOD)? {
        Some(header) if header == method => {}
        Some(_) => return Err("Mcp-Method does not match the method of the body".to_owned()),
        None => return Err("the header Mcp-Method is missing".to_owned()),
    }
    if let Some(name) = name_of(request) {
        match single(headers, NAME)? {
            Some(header) if decode(header).as_deref() == Some(name) => {}
            Some(_) => return Err("Mcp-Name does not match the body".to_owned()),
            None => return Err("the header Mcp-Name is missing".to_owned()),
        }
    }
    if let ClientRequest::CallToolRequest(it) = request
        && let Some(tool) = studio.catalog().get(&it.params.name)
        && tool.input_schema.as_str().contains(PARAM_MARK)
    {
        let arguments = it.params.arguments.clone().map_or(Value::Null, Value::Object);
        return repeats_arguments(headers, tool.input_schema.value().get("properties"), &arguments);
    }
    Ok(())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of the SDK; other requests have no name")]
fn name_of(request: &ClientRequest) -> Option<&str> {
    match request {
        ClientRequest::CallToolRequest(it) => Some(&it.params.name),
        ClientRequest::GetPromptRequest(it) => Some(&it.params.name),
        ClientRequest::ReadResourceRequest(it) => Some(&it.params.uri),
        ClientRequest::SubscribeRequest(it) => Some(&it.params.uri),
        ClientRequest::UnsubscribeRequest(it) => Some(&it.params.uri),
        _ => None,
    }
}

/// Checks that each marked parameter is in a header exactly if it is in the body, with the same
/// value.
fn repeats_arguments(headers: &HeaderMap, properties: Option<&Value>, arguments: &Value) -> Result<(), String> {
    for (name, schema) in properties.and_then(Value::as_object).into_iter().flatten() {
        let argument = arguments.get(name).unwrap_or(&Value::Null);
        if let Some(mark) = schema.get(PARAM_MARK).and_then(Value::as_str) {
            let body = match argument {
                Value::String(text) => Some(text.clone()),
                Value::Bool(_) | Value::Number(_) => Some(argument.to_string()),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            };
            let header = single(headers, &format!("{PARAM}{}", mark.to_ascii_lowercase()))?;
            if header.map(decode) != body.map(Some) {
                return Err(format!("Mcp-Param-{mark} does not match the argument {name}"));
            }
        }
        repeats_arguments(headers, schema.get("properties"), argument)?;
    }
    Ok(())
}

/// The value of a header. A repeated header is refused, because a proxy may route by either value.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| format!("the header {name} is not text")),
        (Some(_), Some(_)) => Err(format!("the header {name} is repeated")),
    }
}

/// Decodes a header value. Text that is not printable ASCII is sent as `=?base64?...?=`.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|it| it.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn mismatch(reason: String) -> ErrorData {
    ErrorData::header_mismatch(reason, None)
}
