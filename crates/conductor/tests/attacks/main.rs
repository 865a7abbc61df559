//! A hostile model against a running daemon. It has every tool and, in some tests, a file of its
//! own on the disk; it never has a person's yes. Each test plays one detour and then asserts on
//! effects alone: no file outside the granted folders, no change of policy, no process, no packet,
//! no decision. Nothing here looks inside the daemon.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod cable;
mod config_file;
mod database;
mod every_tool;
mod flood;
mod long_arguments;
mod plugin;
mod redirect;
mod rig;
mod running_patch;
#[path = "../end_to_end/studio.rs"]
#[allow(dead_code, reason = "shared with the end-to-end tests, which use more of it")]
mod studio;
