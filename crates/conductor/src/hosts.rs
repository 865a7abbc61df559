//! The programs and devices we drive.

pub mod desktop;
pub mod midi;
pub mod osc;
