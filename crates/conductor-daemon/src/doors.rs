//! The doors: the transports into the daemon (MCP, HTTP and `control.sock`). A door parses bytes to
//! a [`Call`](conductor_gateway::pipeline::Call) with a verified principal, and sends the reply.
//!
//! Not here: any decision about a call. A door never changes which tools exist or how they behave.

pub mod client_processes;
pub mod console;
pub mod control;
pub mod http;
pub mod mcp;
pub mod phone;
pub mod session;
