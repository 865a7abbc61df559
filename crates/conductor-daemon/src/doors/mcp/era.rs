//! Determines which era of the protocol a request belongs to, from the request itself.
//!
//! *Legacy*: a handshake binds the connection to one client. *Modern*: every request carries its
//! own version and capabilities. Both may interleave on one connection.

use rmcp::model::{ClientCapabilities, ClientRequest, ErrorCode, ErrorData, ProtocolVersion, ServerResult};

use serde_json::json;

use super::methods::Cx;
use super::{McpDoor, skill};
use conductor_gateway::apps;

/// Supported versions, newest first. For the oldest version, the messages are supported, but not
/// its HTTP+SSE transport.
pub const SUPPORTED: [ProtocolVersion; 5] = [
    ProtocolVersion::V_2026_07_28,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2024_11_05,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

/// Whether a version belongs to the modern era. Versions are dates, so they can be compared as
/// text.
pub fn is_modern(version: &str) -> bool {
    version >= ProtocolVersion::V_2026_07_28.as_str()
}

/// The agreed version of a handshake: the requested version if it is supported, otherwise the
/// newest version that has a handshake.
pub fn agree(asked: &ProtocolVersion) -> ProtocolVersion {
    let spoken = |it: &&ProtocolVersion| it.has_initialize();
    let asked = SUPPORTED.iter().filter(spoken).find(|it| *it == asked);
    asked.or_else(|| SUPPORTED.iter().find(spoken)).cloned().unwrap_or_default()
}

/// The era of a request. Fails if the request follows no handshake and has no version and
/// capabilities of its own.
pub fn admit(door: &McpDoor, request: &ClientRequest, cx: &Cx) -> Result<Era, ErrorData> {
    let own = cx.meta.protocol_version();
    let is_modern = own.as_ref().is_some_and(|it| is_modern(it.as_str()));
    if matches!(request, ClientRequest::InitializeRequest(_)) {
        return if is_modern { Err(unknown_method("initialize")) } else { Ok(Era::Legacy) };
    }
    if let Some(version) = own.as_ref().filter(|version| !SUPPORTED.contains(version)) {
        return Err(ErrorData::unsupported_protocol_version(version.clone(), &SUPPORTED));
    }
    // Pings and the direct dialect need no handshake and no version.
    let is_direct = matches!(request, ClientRequest::CustomRequest(it) if !skill::is_method(&it.method));
    let is_free = is_direct || matches!(request, ClientRequest::PingRequest(_));
    let is_discover = matches!(request, ClientRequest::DiscoverRequest(_));
    if !is_modern && !is_free && door.handshake.load().is_none() {
        return Err(ErrorData::invalid_params(
            "No session: send initialize first, or put io.modelcontextprotocol/protocolVersion and clientCapabilities into params._meta",
            None,
        ));
    }
    if is_modern || is_discover {
        let missing = cx.meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
        if !missing.is_empty() {
            return Err(missing_meta(&missing));
        }
    }
    Ok(if is_modern { Era::Modern } else { Era::Legacy })
}

pub fn missing_meta(missing: &[&str]) -> ErrorData {
    let text = format!("request _meta is missing or has malformed required fields: {}", missing.join(", "));
    ErrorData::invalid_params(text, None)
}

/// Adds cache hints to modern results, and removes the result type from legacy results.
pub fn shaped(mut result: ServerResult, era: Era) -> ServerResult {
    match era {
        Era::Modern => result.fill_missing_cache_hints(),
        Era::Legacy => result.strip_result_type_for_legacy_peer(),
    }
    result
}

/// Replaces the error code for a missing resource, which the modern protocol does not have.
pub fn coded(mut error: ErrorData, era: Era) -> ErrorData {
    if era == Era::Modern && error.code == ErrorCode::RESOURCE_NOT_FOUND {
        error.code = ErrorCode::INVALID_PARAMS;
    }
    error
}

pub fn unknown_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {method}"), None)
}

pub fn capabilities(door: &McpDoor, cx: &Cx) -> Option<ClientCapabilities> {
    let from_handshake = || door.handshake.load().as_ref().map(|it| it.capabilities.clone());
    cx.meta.client_capabilities().or_else(from_handshake)
}

/// Whether the client declares that it shows the page of the MCP Apps extension.
pub fn shows_pages(door: &McpDoor, cx: &Cx) -> bool {
    let extensions = capabilities(door, cx).and_then(|it| it.extensions);
    extensions.is_some_and(|it| apps::is_declared(&json!({ "extensions": it })))
}

/// Whether this client can show a form. Elicitation that is declared without a kind means forms.
pub fn shows_forms(door: &McpDoor, cx: &Cx) -> bool {
    let elicitation = capabilities(door, cx).and_then(|it| it.elicitation);
    elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none())
}
