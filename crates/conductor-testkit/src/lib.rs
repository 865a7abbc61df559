//! Code that all tests share: a daemon in a temporary home, clients, fakes, and real programs that
//! tests use.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

pub mod auth_proxy;
pub mod backend_contract;
pub mod conformance;
pub mod daemon;
pub mod foreign_client;
pub mod golden;
pub mod http_client;
pub mod line_client;
pub mod mcp_process;
pub mod real;
pub mod skips;
pub mod stranger;
pub mod studio;
#[cfg(unix)]
pub mod terminal;
pub mod time;
pub mod tokens;
pub mod tools;
#[cfg(unix)]
pub mod torture;
