//! The shell around `conductor-core`: everything that touches the outside world, and the only binary.
//!
//! Arrows point down only: `doors`, `daemon` and `cli` know `pipeline`; `pipeline` knows `tools`; `tools` know `hosts`.

pub mod audit_log;
pub mod cli;
pub mod daemon;
pub mod doors;
pub mod hosts;
pub mod outside;
pub mod paint;
pub mod pending_store;
pub mod pipeline;
pub mod secrets;
pub mod studio;
pub mod tools;
pub mod whole_file;
