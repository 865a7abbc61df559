//! Which of the protocol's two eras a request belongs to. Read from each request, here and nowhere
//! else.
//!
//! *Legacy*: a handshake made the connection one client's. *Modern*: every request carries its own
//! version and capabilities, and both may interleave on one connection.

use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, ClientRequest, ErrorCode, ErrorData, ProtocolVersion};
use rmcp::service::RequestContext;

/// Newest first. HTTP+SSE of the oldest is not served, its messages are.
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

/// Whether this names a version that we speak and that begins with a handshake.
pub fn names_legacy(text: &str) -> bool {
    SUPPORTED.iter().any(|version| !is_modern(version) && version.as_str() == text)
}

/// For a handler: the request was let in, so one of the two holds.
pub fn of(context: &RequestContext<RoleServer>) -> Era {
    match context.protocol_version() {
        Some(version) if is_modern(&version) => Era::Modern,
        Some(_) | None => Era::Legacy,
    }
}

/// For a line door, which the SDK would let anything through: a request needs a handshake before it
/// or its own version inside.
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
    // An unknown version has an error of its own, which the SDK makes.
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

/// Whether this client said it can show a form. A client that names no kind of elicitation means
/// forms.
pub fn shows_forms(context: &RequestContext<RoleServer>) -> bool {
    let capabilities: Option<ClientCapabilities> = context.client_capabilities();
    capabilities.and_then(|it| it.elicitation).is_some_and(|it| it.form.is_some() || it.url.is_none())
}
