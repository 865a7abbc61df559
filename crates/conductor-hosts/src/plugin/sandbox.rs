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
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// How much of the sandbox this system supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Only allowed system calls, no paths and no network (Landlock), and resource limits.
    Full,
    /// A kernel without Landlock: only allowed system calls, and resource limits.
    NoLandlock,
    /// A system that is not Linux: only resource limits.
    LimitsOnly,
}

impl Strength {
    /// A sentence for `doctor`.
    pub const fn sentence(self) -> &'static str {
        match self {
            Strength::Full => {
                "plugins can use only allowed system calls, no path and no network, within resource limits"
            }
            Strength::NoLandlock => {
                "this kernel has no Landlock: plugins can use only allowed system calls, within resource limits"
            }
            Strength::LimitsOnly => "this system has neither Landlock nor seccomp: plugins have only resource limits",
        }
    }

    /// The strength of the sandbox on this system.
    pub fn here() -> Self {
        #[cfg(target_os = "linux")]
        {
            if crate::confine::knows_paths() { Strength::Full } else { Strength::NoLandlock }
        }
        #[cfg(not(target_os = "linux"))]
        {
            Strength::LimitsOnly
        }
    }
}

/// Address space in addition to the heap: for the program, its stacks and the allocator.
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

/// Sets the kernel's limit of processor time. The engine does not measure the time in its own C
/// code; the kernel does. The kernel's limit is in whole seconds since the start of the process,
/// and reaching it ends the process.
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

#[cfg(target_os = "linux")]
mod linux {
    use crate::confine::{self, Rules};
    use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp};
    use std::io;

    pub fn enter() -> io::Result<()> {
        // Forbid every path and port, without exceptions.
        let rules = confine::forbid_paths_and_ports()?.create().map_err(io::Error::other)?;
        // This call also sets `no_new_privs`; without Landlock, only the next line sets it.
        rules.restrict_self().map_err(io::Error::other)?;
        rustix::thread::set_no_new_privs(true)?;
        seccompiler::apply_filter(&filter()?).map_err(io::Error::other)
    }

    /// Allows memory, time, the pipes and exit, but no executable memory.
    fn filter() -> io::Result<BpfProgram> {
        let plain = [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_ppoll,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
            libc::SYS_munmap,
            libc::SYS_mremap,
            libc::SYS_madvise,
            libc::SYS_brk,
            libc::SYS_futex,
            libc::SYS_clock_gettime,
            libc::SYS_clock_getres,
            libc::SYS_gettimeofday,
            libc::SYS_getrandom,
            libc::SYS_sched_yield,
            libc::SYS_restart_syscall,
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_sigaltstack,
            libc::SYS_exit,
            libc::SYS_exit_group,
        ];
        let mut rules: Rules = plain.into_iter().map(|call| (call, Vec::new())).collect();
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            rules.insert(call, vec![confine::all([(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)])?]);
        }
        // Pid 0 is the process itself. With another pid, the process could lower the limits of the
        // daemon.
        rules.insert(libc::SYS_prlimit64, vec![confine::all([(0, SeccompCmpOp::Eq, 0)])?]);
        confine::filter(rules, SeccompAction::KillProcess, SeccompAction::Allow)
    }
}
