//! The programs and devices we drive.

#[cfg(feature = "gamepad")]
pub mod gamepad;
pub mod midi;
pub mod osc;
