//! Shows notifications of the desktop. Implemented only on Linux.

#[cfg_attr(target_os = "linux", path = "notification/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "notification/none.rs")]
mod platform;

pub use platform::show;
