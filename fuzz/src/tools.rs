//! The names of MCP methods, at the path from which `doors/mcp/wire.rs` imports them.

#[path = "../../crates/conductor-gateway/src/tools/mcp_methods.rs"]
pub mod mcp_methods;
