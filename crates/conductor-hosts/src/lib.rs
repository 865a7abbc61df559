//! Everything that touches the outside: the programs and devices we drive, and the system below
//! them.
//!
//! Not here: who may use a host. A host does what it is asked; the gateway decides before it asks.

pub mod apps;
pub mod atomic_file;
pub mod bridges;
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
