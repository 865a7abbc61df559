//! The programs and devices we drive.

pub mod desktop;
#[cfg(feature = "gamepad")]
pub mod gamepad;
pub mod midi;
pub mod osc;
pub mod patch;
