//! The programs and devices we drive.

pub mod apps;
pub mod bridges;
#[cfg(target_os = "linux")]
pub mod confine;
pub mod database;
pub mod desktop;
pub mod files;
#[cfg(feature = "desktop")]
pub mod focus;
#[cfg(feature = "gamepad")]
pub mod gamepad;
pub mod knobs;
pub mod live;
pub mod max;
pub mod midi;
pub mod osc;
pub mod patch;
pub mod pd;
pub mod plugin;
pub mod shell;
pub mod web;
