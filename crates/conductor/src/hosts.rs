//! The programs and devices we drive.

pub mod midi;
