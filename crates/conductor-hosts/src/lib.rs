//! Access to everything outside the daemon: the devices and programs it controls, and the operating
//! system.
//!
//! A host is one such device or program. Not here: permissions. The gateway checks each call before
//! it reaches a host.

pub mod apps;
pub mod atomic_file;
pub mod bridges;
pub mod cluster;
#[cfg(target_os = "linux")]
pub mod confine;
pub mod connection_limits;
pub mod database;
pub mod desktop;
pub mod files;
#[cfg(feature = "desktop")]
pub mod focus;
#[cfg(feature = "gamepad")]
pub mod gamepad;
pub mod live;
pub mod max;
pub mod midi;
pub mod osc;
pub mod patch;
pub mod pd;
pub mod picture;
pub mod plugin;
pub mod rooted;
pub mod shell;
pub mod system;
pub mod web;
pub mod worker;
