//! Determines which era of the protocol a request belongs to, from the request itself.
//!
//! *Legacy*: a handshake binds the connection to one client. *Modern*: every request carries its
//! own version and capabilities. Both may interleave on one connection.

use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, ClientRequest, ErrorCode, ErrorData, ProtocolVersion};
use rmcp::service::RequestContext;

/// Newest first. The HTTP+SSE transport of the oldest version is not served; its messages are.
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

/// Versions are dates, so text order is time order.
fn is_modern(version: &ProtocolVersion) -> bool {
    version.as_str() >= ProtocolVersion::V_2026_07_28.as_str()
}

/// Whether this is a supported version with a handshake.
pub fn names_legacy(text: &str) -> bool {
    SUPPORTED.iter().any(|version| !is_modern(version) && version.as_str() == text)
}

/// The era of an admitted request, for a handler.
pub fn of(context: &RequestContext<RoleServer>) -> Era {
    match context.protocol_version() {
        Some(version) if is_modern(&version) => Era::Modern,
        Some(_) | None => Era::Legacy,
    }
}

/// Admits requests of a line door, which the SDK does not check: a request needs an earlier
/// handshake or its own version.
pub fn admit(request: &ClientRequest, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    let own = context.meta.protocol_version();
    let modern = own.as_ref().is_some_and(is_modern);
    if matches!(request, ClientRequest::InitializeRequest(_)) {
        return if modern { Err(unknown_method("initialize")) } else { Ok(()) };
    }
    // The direct dialect needs neither.
    if modern
        || context.peer.peer_info().is_some()
        || matches!(request, ClientRequest::PingRequest(_) | ClientRequest::CustomRequest(_))
    {
        return Ok(());
    }
    // The SDK answers an unknown version with its own error.
    if own.as_ref().is_some_and(|version| !SUPPORTED.contains(version)) {
        return Ok(());
    }
    Err(ErrorData::invalid_params(
        "No session: send initialize first, or put io.modelcontextprotocol/protocolVersion and clientCapabilities into params._meta",
        None,
    ))
}

pub fn unknown_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {method}"), None)
}

/// Whether this client can show a form. A client that names no kind of elicitation means forms.
pub fn shows_forms(context: &RequestContext<RoleServer>) -> bool {
    let capabilities: Option<ClientCapabilities> = context.client_capabilities();
    capabilities.and_then(|it| it.elicitation).is_some_and(|it| it.form.is_some() || it.url.is_none())
}
