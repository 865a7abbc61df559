//! The page of the MCP Apps extension. It shows pictures and plans in clients that declare the
//! extension.
//!
//! The page has no button to approve or reject a plan: it only shows where a person can decide. It
//! makes no network request, and its Content Security Policy allows none. Not here: the protocol
//! (`doors/mcp`).

use conductor_core::pending::Short;
use serde_json::{Value, json};

use crate::catalog::Tool;
use crate::studio::Studio;

/// Name of the extension in the capabilities of a client.
pub const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The MIME type of the page. The capabilities of a client must list it.
pub const MIME: &str = "text/html;profile=mcp-app";
pub const URI: &str = "ui://conductor/view.html";
/// Key for the short id of a plan in the `_meta` of a result.
pub const SHORT: &str = "conductor/short";

/// The page. It receives the result of a call as a message.
pub const PAGE: &str = include_str!("apps/view.html");

/// Tools with a picture or a plan in their result.
const SHOWN: [&str; 10] = [
    "render_patch",
    "live_render_clip",
    "conductor_create_mapping",
    "conductor_update_mapping",
    "conductor_delete_mapping",
    "conductor_create_device_identity",
    "conductor_plan_changes",
    "conductor_undo_plan",
    "conductor_get_plan",
    "conductor_run_script",
];

/// Whether the page can show a result of this tool.
pub fn shows(tool: &Tool) -> bool {
    SHOWN.contains(&tool.safe_name())
}

/// Whether the declared capabilities of a client contain the extension with the MIME type of the
/// page.
pub fn is_declared(capabilities: &Value) -> bool {
    let types = &capabilities["extensions"][EXTENSION]["mimeTypes"];
    types.as_array().is_some_and(|it| it.iter().any(|it| it == MIME))
}

/// The UI metadata of a tool whose results the page can show.
pub fn tool_meta() -> Value {
    json!({ "resourceUri": URI })
}

/// The UI metadata of the page: it needs no domain and no permission.
pub fn page_meta() -> Value {
    json!({ "csp": { "connectDomains": [], "resourceDomains": [] }, "prefersBorder": true })
}

/// The short id of the plan in a result.
pub fn short_of(studio: &Studio, result: &Value) -> Option<Short> {
    let id = result["plan_id"].as_str().or_else(|| result["plan"]["plan_id"].as_str())?;
    studio.approvals.get(id.parse().ok()?).map(|record| record.short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_mime_type_declares_the_extension() {
        let declared = |types: Value| is_declared(&json!({ "extensions": { EXTENSION: { "mimeTypes": types } } }));
        assert!(declared(json!(["text/html", MIME])));
        assert!(!declared(json!(["text/html"])) && !declared(json!([])) && !declared(json!(MIME)));
        assert!(!is_declared(&json!({})) && !is_declared(&Value::Null));
    }

    #[test]
    fn the_page_makes_no_request_and_has_no_control() {
        for wrong in [
            "http:",
            "https:",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
            "innerHTML",
            "<button",
            "<a ",
            "<form",
            "<input",
            "onclick",
            "tools/call",
        ] {
            assert!(!PAGE.contains(wrong), "{wrong}");
        }
        assert!(PAGE.contains("default-src 'none'; img-src data:;"));
    }
}
