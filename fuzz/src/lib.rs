//! Properties of the parsers in Conductor that read untrusted bytes. Each module has a function
//! `check`, which panics if the property of the module does not hold for the given bytes.
//!
//! Parsers of the pure crates are called through their public interfaces. Parsers of the other
//! crates are private, and those crates take minutes to build with instrumentation. Their files are
//! therefore compiled here a second time (`outside`). No such file depends on another file of its
//! crate, except for the items that `outside` provides.
//!
//! The feature `seeded` adds one deliberate mistake for each property. The mistakes are in this
//! package, never in the product. `fuzz/run seeded` checks that every property detects its mistake.

// Lets `doors/mcp/wire.rs` name `conductor_gateway::catalog::mcp_methods`.
extern crate self as conductor_gateway;

pub mod catalog;

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

/// Whether the seeded mistakes are compiled in.
pub const SEEDED: bool = cfg!(feature = "seeded");

/// Splits the bytes after the first byte into two parts. The first byte chooses the position.
pub fn split(data: &[u8]) -> (&[u8], &[u8]) {
    let (&first, rest) = data.split_first().unwrap_or((&0, &[]));
    rest.split_at(usize::from(first) * rest.len() / 256)
}
