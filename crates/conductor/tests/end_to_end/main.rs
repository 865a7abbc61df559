//! Tests of the built binary as a child process, as a person at a terminal uses it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod approvals;
mod audit;
mod audit_files;
#[cfg(target_os = "linux")]
mod audit_full_disk;
mod audit_kill;
mod canary;
mod client_setup;
mod clients;
mod cluster;
mod commands;
mod console_desktop;
mod console_page;
mod devices;
mod doors;
mod first_minute;
mod held;
#[cfg(feature = "jack")]
mod jack;
#[cfg(feature = "jack")]
mod jack_backend;
mod launch;
mod learning;
mod life;
mod limits;
mod machine;
mod oauth;
mod observe;
mod phone;
mod plugins;
mod proxy;
mod reload;
mod scripts;
mod secrets;
mod service;
mod skills;
mod sound;
mod spine;
mod studio;
#[cfg(feature = "jack")]
mod taint;
mod team;
mod terminal;
mod web;
