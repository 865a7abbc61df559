//! The sandbox of Unix: resource limits, and on Linux also Landlock and seccomp.

use super::{Limits, Strength};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod linux;

/// The strength of the sandbox on this system.
#[cfg(target_os = "linux")]
pub fn strength() -> Strength {
    if crate::confine::knows_paths() { Strength::Full } else { Strength::NoLandlock }
}

#[cfg(not(target_os = "linux"))]
pub fn strength() -> Strength {
    Strength::LimitsOnly
}

/// Address space in addition to the heap, in megabytes: for the program, its stacks and the
/// allocator.
const ADDRESS_SPACE_WITHOUT_HEAP_MB: u64 = 224;

/// Enters the sandbox. This cannot be undone. Only the two pipes stay open.
pub fn enter(limits: &Limits) -> io::Result<()> {
    // Read the clock once before the sandbox is entered, because the first read uses a system call
    // that the sandbox does not allow.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    close_others();
    let address_space = (u64::from(limits.heap_mb) + ADDRESS_SPACE_WITHOUT_HEAP_MB) << 20;
    for (what, most) in
        [(Resource::As, address_space), (Resource::Nofile, 16), (Resource::Fsize, 0), (Resource::Core, 0)]
    {
        // If the parent has a lower hard limit, keep it.
        let most = getrlimit(what).maximum.map_or(most, |ceiling| ceiling.min(most));
        setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    #[cfg(target_os = "linux")]
    linux::enter()?;
    Ok(())
}

/// Sets the kernel's limit of processor time. The kernel also counts the time in the engine's own C
/// code, which the engine does not measure. The kernel's limit is in whole seconds since the start
/// of the process. Reaching it ends the process.
pub fn allow_processor_seconds(used: u64, more: u64) -> io::Result<()> {
    let maximum = getrlimit(Resource::Cpu).maximum;
    let current = used.saturating_add(more);
    let current = maximum.map_or(current, |ceiling| ceiling.min(current));
    Ok(setrlimit(Resource::Cpu, Rlimit { current: Some(current), maximum })?)
}

#[cfg(target_os = "linux")]
fn close_others() {
    // SAFETY: closes descriptors by number. This process has not opened a descriptor that it uses
    // later.
    unsafe {
        libc::close_range(3, libc::c_uint::MAX, 0);
    }
}

#[cfg(not(target_os = "linux"))]
fn close_others() {}
