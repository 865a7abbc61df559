//! The daemon and its command line: the assembly of all parts, the owner's thread, and the `doors`
//! (the sockets and HTTP listeners for clients).
//!
//! Dependencies point in one direction, and the crates enforce it: core, patch, set <- hosts <-
//! gateway <- this crate.

pub mod app;
pub mod cli;
pub mod config_check;
pub mod config_file;
pub mod demo;
pub mod doors;
pub mod gateway;
pub mod home;
pub mod log;
pub mod owner;
pub mod release_memory;
pub mod skills;
