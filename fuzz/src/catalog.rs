//! The names of MCP methods, at the path from which `doors/mcp/wire.rs` imports them.

#[path = "../../crates/conductor-gateway/src/catalog/mcp_methods.rs"]
pub mod mcp_methods;
