//! The page of the MCP Apps extension: it shows pictures and plans in clients that declare the
//! extension.
//!
//! The page has no button that decides: it names the place where a person decides. It makes no
//! request, and its Content Security Policy allows none. Not here: the protocol (`doors/mcp`).

use conductor_core::pending::Short;
use serde_json::{Value, json};

use crate::studio::Studio;
use crate::tools::catalog::Tool;

/// The extension that a client declares.
pub const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The MIME type that a client declares, and that the page has.
pub const MIME: &str = "text/html;profile=mcp-app";
pub const URI: &str = "ui://conductor/view.html";
/// The member of a result's `_meta` with the short id of a plan.
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

/// The `_meta` of a tool with a page.
pub fn tool_meta() -> Value {
    json!({ "resourceUri": URI })
}

/// The `_meta` of the page: it needs no domain and no permission.
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
