//! The programs and devices we drive.

pub mod desktop;
#[cfg(feature = "gamepad")]
pub mod gamepad;
#[cfg(feature = "desktop")]
pub mod focus;
pub mod live;
pub mod midi;
pub mod osc;
