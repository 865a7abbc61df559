//! Starts programs for the daemon, and kills them with all their descendants.
//!
//! A program gets its own process group. On Linux it also gets a mark that its descendants inherit.
//! The mark identifies descendants that have left the group.

use super::open_files;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit, setsid};
use std::io;
use std::os::unix::process::CommandExt;
use tokio::process::{Child, Command};

/// Limits of a started program: no core files, few descriptors, and no file larger than a gigabyte.
const LIMITS: &[(Resource, u64)] = &[(Resource::Core, 0), (Resource::Nofile, 256), (Resource::Fsize, 1 << 30)];

/// The process group that a child leads.
#[derive(Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Starts the program as the leader of a new group.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        let child = command.process_group(0).spawn()?;
        let pid = child.id().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw);
        Ok((child, ProcessGroup(pid)))
    }

    pub fn kill(&self) {
        if let Some(group) = self.0 {
            // This fails if no process of the group is left, which is not an error.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A program and all its descendants. Dropping the tree kills them.
pub struct ProcessTree {
    group: ProcessGroup,
    mark: Mark,
}

impl ProcessTree {
    /// Starts the program under [`LIMITS`].
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        let mark = Mark::new();
        // SAFETY: between fork and exec only system calls are made: setrlimit neither allocates nor
        // locks.
        unsafe {
            command.pre_exec(move || {
                for (resource, most) in LIMITS {
                    setrlimit(*resource, Rlimit { current: Some(*most), maximum: Some(*most) })?;
                }
                mark.set()
            });
        }
        let (child, group) = ProcessGroup::spawn(command)?;
        Ok((child, ProcessTree { group, mark }))
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.group.kill();
        self.mark.kill_all();
    }
}

/// The signal that ended a program.
pub fn signal_of(status: std::process::ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal()
}

/// Sets the name that the program gets as its own (`argv[0]`).
pub fn set_own_name(command: &mut std::process::Command, name: &std::path::Path) {
    command.arg0(name);
}

/// Makes the program continue when this process ends. It gets a new session, and the limit on open
/// files that this process was started with.
pub fn detach(command: &mut std::process::Command) {
    // SAFETY: between fork and exec only two system calls are made, which neither allocate nor
    // lock.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            open_files::restore()
        });
    }
}

#[cfg(target_os = "linux")]
use linux::Mark;

#[cfg(target_os = "linux")]
mod linux {
    use crate::system::processes::pids;
    use crate::system::{Ids, RandomIds};
    use rustix::process::{
        Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, pidfd_open, pidfd_send_signal, setrlimit,
    };
    use std::io;

    /// Maximum number of scans for marked processes. Each scan finds the processes that were
    /// started during the previous scan.
    const SCANS: usize = 64;

    /// A random number that marks a program and all its descendants. It is stored as the limit of
    /// file locks (`RLIMIT_LOCKS`), which the kernel no longer enforces but which child processes
    /// inherit. A program cannot remove it by changing its session, group, environment or files.
    #[derive(Clone, Copy)]
    pub struct Mark(u64);

    impl Mark {
        pub fn new() -> Self {
            let mut bytes = [0; 8];
            RandomIds.fill(&mut bytes);
            // The number must be below our own limit, which cannot be exceeded, and must not mean
            // "unlimited".
            let most = getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX >> 1).max(1);
            Mark(u64::from_le_bytes(bytes) % most)
        }

        /// Runs between fork and exec, so it makes only one system call.
        pub fn set(self) -> io::Result<()> {
            Ok(setrlimit(Resource::Locks, Rlimit { current: Some(self.0), maximum: Some(self.0) })?)
        }

        /// Kills all marked processes. Scans until none is left, because a process may start
        /// another one during a scan.
        pub fn kill_all(self) {
            for _ in 0..SCANS {
                let found: Vec<_> = pids()
                    .filter_map(Pid::from_raw)
                    .filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)))
                    // Check the mark after the handle is open, so that the pid cannot have been
                    // reused.
                    .filter(|(pid, _)| self.is_on(*pid))
                    .collect();
                if found.is_empty() {
                    return;
                }
                for (_, process) in found {
                    let _ = pidfd_send_signal(process, Signal::KILL);
                }
            }
        }

        fn is_on(self, pid: Pid) -> bool {
            let read =
                |file| std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default();
            let limits = read("limits");
            let line = limits.lines().find_map(|it| it.strip_prefix("Max file locks"));
            // Compare the hard limit, because a process can change its soft limit but cannot raise
            // the hard limit.
            line.and_then(|it| it.split_whitespace().nth(1)).and_then(|it| it.parse().ok()) == Some(self.0)
                // Ignore a zombie: it has ended and only waits to be reaped by its parent.
                && !read("stat").rsplit(')').next().is_some_and(|it| it.trim_start().starts_with(['Z', 'X']))
        }
    }
}

/// Systems other than Linux use only the process group.
#[cfg(not(target_os = "linux"))]
#[derive(Clone, Copy)]
struct Mark;

#[cfg(not(target_os = "linux"))]
impl Mark {
    fn new() -> Self {
        Mark
    }

    fn set(self) -> io::Result<()> {
        Ok(())
    }

    fn kill_all(self) {}
}
