//! The names of MCP methods, where `doors/mcp/wire.rs` expects them.

#[path = "../../crates/conductor-gateway/src/tools/mcp_methods.rs"]
pub mod mcp_methods;
