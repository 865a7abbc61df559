//! A hostile model against a running daemon. It can call every tool and, in some tests, write a
//! file on the disk; it never has a person's approval. Each test tries one attack and then checks
//! only effects: no file outside the granted folders, no policy change, no process, no packet, no
//! decision. No test inspects the daemon's internals.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod cable;
mod config_file;
mod console;
mod database;
mod every_tool;
mod flood;
mod long_arguments;
mod plugin;
mod redirect;
mod rig;
mod running_patch;
mod script;
#[path = "../end_to_end/studio.rs"]
#[allow(dead_code, reason = "shared with the end-to-end tests, which use more of it")]
mod studio;
