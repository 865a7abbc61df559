//! The ways in. A door turns bytes into a [`Call`](conductor_gateway::pipeline::Call) with a proven
//! principal, and a reply into bytes.
//!
//! Not here: any decision about a call. A door never changes which tools exist or how they behave.

pub mod client_processes;
pub mod control;
pub mod http;
pub mod mcp;
pub mod session;
