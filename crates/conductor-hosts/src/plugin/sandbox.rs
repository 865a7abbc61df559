//! What the child gives up before it reads a line of a plugin: everything but memory, the clock and
//! its two pipes.
//!
//! The engine already gives plugin code no way to the system. This stands behind it, for the day
//! the engine has a hole. The processor and memory limits of a call are the engine's; the ones here
//! are wider and the kernel keeps them.
//!
//! Not here: anything a plugin is granted. Files and network are asked of the daemon, which checks.

use super::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// How much of the sandbox this system can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// System calls by list, no path and no network by Landlock, limits.
    Full,
    /// A kernel without Landlock: the list of system calls and limits.
    NoLandlock,
    /// A system that is not Linux.
    LimitsOnly,
}

impl Strength {
    /// For `doctor`.
    pub const fn sentence(self) -> &'static str {
        match self {
            Strength::Full => "plugins run with a list of system calls, without any path or network, under limits",
            Strength::NoLandlock => {
                "this kernel has no Landlock: plugins run with a list of system calls, under limits"
            }
            Strength::LimitsOnly => "this system has neither Landlock nor seccomp: plugins run under limits only",
        }
    }

    /// What [`enter`] will reach here.
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

/// Beside the heap: the program itself, its stacks, and what the allocator holds on to.
const ADDRESS_SPACE_BESIDE_HEAP_MB: u64 = 224;

/// Cannot be undone. Only the two pipes stay open.
pub fn enter(limits: &Limits) -> io::Result<()> {
    // The first look at a clock asks the kernel where its clock page lies, by a call that is not on
    // the list.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    close_others();
    let address_space = (u64::from(limits.heap_mb) + ADDRESS_SPACE_BESIDE_HEAP_MB) << 20;
    for (what, most) in
        [(Resource::As, address_space), (Resource::Nofile, 16), (Resource::Fsize, 0), (Resource::Core, 0)]
    {
        // Whoever started us may have set a lower ceiling; it stays.
        let most = getrlimit(what).maximum.map_or(most, |ceiling| ceiling.min(most));
        setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    #[cfg(target_os = "linux")]
    linux::enter()?;
    Ok(())
}

/// A call that spends its processor time inside the engine's own C code is not seen by the engine's
/// clock. The kernel's is coarser (whole seconds over the life of the process) and ends the
/// process.
pub fn allow_processor_seconds(used: u64, more: u64) -> io::Result<()> {
    let maximum = getrlimit(Resource::Cpu).maximum;
    let current = used.saturating_add(more);
    let current = maximum.map_or(current, |ceiling| ceiling.min(current));
    Ok(setrlimit(Resource::Cpu, Rlimit { current: Some(current), maximum })?)
}

#[cfg(target_os = "linux")]
fn close_others() {
    // SAFETY: closes descriptors by number; nothing in this process has opened one yet that anybody
    // would use.
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
        // Everything the kernel knows to forbid, and no rule that allows.
        let rules = confine::forbid_paths_and_ports()?.create().map_err(io::Error::other)?;
        // Sets no_new_privs too; without Landlock the next line does.
        rules.restrict_self().map_err(io::Error::other)?;
        rustix::thread::set_no_new_privs(true)?;
        seccompiler::apply_filter(&filter()?).map_err(io::Error::other)
    }

    /// Memory, time, the pipes, the end. Memory that could be executed is not given out.
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
        // Its own limits only: by number it could lower those of the daemon, which has the same
        // user.
        rules.insert(libc::SYS_prlimit64, vec![confine::all([(0, SeccompCmpOp::Eq, 0)])?]);
        confine::filter(rules, SeccompAction::KillProcess, SeccompAction::Allow)
    }
}
