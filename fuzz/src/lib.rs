//! Properties of everything in Conductor that reads bytes from outside. Each module has a function
//! `check`, which panics if its property does not hold for these bytes.
//!
//! Parsers of the pure crates are used through their interfaces. Parsers of the other crates are
//! private, and those crates take minutes to build with instrumentation. Their files are therefore
//! compiled here a second time (`outside`). No such file depends on another file of its crate,
//! except for the items that `outside` provides.
//!
//! The feature `seeded` puts one mistake in front of each property, always in this package and
//! never in the product. `fuzz/run seeded` checks that every property finds its mistake.

// Lets `doors/mcp/wire.rs` name `conductor_gateway::tools::mcp_methods`.
extern crate self as conductor_gateway;

pub mod tools;

#[allow(dead_code, unused_imports, reason = "each property uses a part of its file")]
pub mod outside;

pub mod als;
pub mod amxd;
pub mod audit;
pub mod command;
pub mod config;
pub mod http_head;
pub mod jsonrpc;
pub mod maxpat;
pub mod midi;
pub mod osc;
pub mod patch;
pub mod pd;
pub mod pd_streams;
pub mod plan;
pub mod plugin;
pub mod sql;
pub mod url;

/// Whether the mistakes are present.
pub const SEEDED: bool = cfg!(feature = "seeded");

/// Splits at a position that the first byte chooses. Returns both parts of the rest.
pub fn split(data: &[u8]) -> (&[u8], &[u8]) {
    let (&first, rest) = data.split_first().unwrap_or((&0, &[]));
    rest.split_at(usize::from(first) * rest.len() / 256)
}
