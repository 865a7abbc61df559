//! Groups of processes that end together.

use super::{PATIENCE, wait_for};
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A program in its own process group. Dropping it ends the group and waits for the end of the
/// program.
pub struct Group {
    pub child: Child,
    signal: Signal,
}

impl Group {
    /// Starts a program. Dropping the group sends `signal` to it, and SIGKILL if the program does
    /// not end in time.
    pub fn spawn(command: &mut Command, signal: Signal) -> std::io::Result<Group> {
        Ok(Group { child: command.process_group(0).spawn()?, signal })
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the group at once, like a crash.
    pub fn kill(mut self) {
        self.signal = Signal::KILL;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        // Ignore an error: the group may have ended already.
        let _ = rustix::process::kill_process_group(group, self.signal);
        if wait_for(PATIENCE, || (!self.is_alive()).then_some(())).is_none() {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
