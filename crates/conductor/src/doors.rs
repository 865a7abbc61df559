//! The ways into the daemon. A door turns bytes into a [`Call`](conductor_gateway::pipeline::Call)
//! with a verified principal, and a reply into bytes.
//!
//! Not here: any decision about a call. A door never changes which tools exist or how they behave.

pub mod client_processes;
pub mod control;
pub mod http;
pub mod mcp;
pub mod session;
