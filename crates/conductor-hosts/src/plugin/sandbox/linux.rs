//! Landlock and seccomp for the process of a plugin.

use crate::confine::{self, Rules};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp};
use std::io;

pub fn enter() -> io::Result<()> {
    // Forbid every path and port, without exceptions.
    let rules = confine::forbid_paths_and_ports()?.create().map_err(io::Error::other)?;
    // This call also sets `no_new_privs`. On a kernel without Landlock, only the next call sets it.
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
