//! The sandbox that the child enters before it reads a plugin's file. Inside, the process can use
//! only memory, the clock and its two pipes.
//!
//! The JavaScript engine gives plugin code no access to the system. This sandbox is a second
//! barrier, in case the engine has a vulnerability. The engine enforces the processor and memory
//! limits of a call; the kernel enforces the higher limits here.
//!
//! Not here: the permissions of a plugin. The daemon checks and executes its requests for files and
//! network.

use super::Limits;

#[cfg_attr(windows, path = "sandbox/windows.rs")]
#[cfg_attr(unix, path = "sandbox/unix.rs")]
mod platform;

pub use platform::{allow_processor_seconds, enter};

/// How much of the sandbox this system supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Only allowed system calls, no access to paths and network (Landlock), and resource limits.
    Full,
    /// A kernel without Landlock: only allowed system calls, and resource limits.
    NoLandlock,
    /// A Unix system that is not Linux: only resource limits.
    LimitsOnly,
    /// Windows: a job object, and low integrity where the system has it.
    JobObject,
}

impl Strength {
    /// A sentence for `doctor`.
    pub const fn sentence(self) -> &'static str {
        match self {
            Strength::Full => {
                "plugins can make only allowed system calls, cannot open files or use the network, and have resource limits"
            }
            Strength::NoLandlock => {
                "this kernel has no Landlock: plugins can make only allowed system calls, and have resource limits"
            }
            Strength::JobObject => {
                "Windows has neither Landlock nor seccomp: plugins have a job object with limits, cannot start programs and run with low integrity, but they can read files and use the network"
            }
            Strength::LimitsOnly => "this system has neither Landlock nor seccomp: plugins have only resource limits",
        }
    }

    /// The strength of the sandbox on this system.
    pub fn here() -> Self {
        platform::strength()
    }
}
