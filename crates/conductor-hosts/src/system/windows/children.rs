//! Starts programs for the daemon, and kills them with all their descendants.
//!
//! A program is started suspended, put into a job object, and then resumed, so that no descendant
//! escapes. The job kills its processes when its last handle is closed, even after a crash.

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::os::windows::process::CommandExt as _;
use std::ptr::null;
use tokio::process::{Child, Command};
use windows_sys::Win32::Foundation::{HANDLE, HANDLE_FLAG_INHERIT, SetHandleInformation};
use windows_sys::Win32::System::Console::{GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_BREAKAWAY_OK,
    JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, QueryInformationJobObject,
    SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_BREAKAWAY_FROM_JOB, CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED, DETACHED_PROCESS,
};

#[link(name = "ntdll")]
unsafe extern "system" {
    /// Resumes all threads of a process. The documented function needs the handle of the first
    /// thread, which the standard library does not return.
    fn NtResumeProcess(process: HANDLE) -> i32;
}

/// The exit code of a killed program.
const KILLED: u32 = 1;

/// A job object.
#[derive(Debug)]
pub struct ProcessGroup(OwnedHandle);

impl ProcessGroup {
    fn new() -> io::Result<Self> {
        // SAFETY: the job has no name, and its handle gets an owner immediately.
        let job = unsafe {
            let handle = CreateJobObjectW(null(), null());
            if handle.is_null() {
                return Err(io::Error::last_os_error());
            }
            OwnedHandle::from_raw_handle(handle)
        };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags =
            JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
        // SAFETY: the structure has the size that is passed.
        let done = unsafe {
            SetInformationJobObject(
                job.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_val(&limits) as u32,
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(ProcessGroup(job)) }
    }

    /// Starts the program in a new job.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        let group = Self::new()?;
        let mut child = command.creation_flags(CREATE_SUSPENDED | CREATE_NO_WINDOW).spawn()?;
        let process = child.raw_handle().ok_or_else(|| io::Error::other("the program ended at once"))?;
        // SAFETY: both handles are open.
        let assigned = unsafe { AssignProcessToJobObject(group.0.as_raw_handle(), process) } != 0;
        // SAFETY: the handle is open, and the process is ours.
        if !assigned || unsafe { NtResumeProcess(process) } < 0 {
            let error = io::Error::last_os_error();
            let _ = child.start_kill();
            return Err(error);
        }
        Ok((child, group))
    }

    pub fn kill(&self) {
        // SAFETY: the handle is open. This fails if no process of the job is left.
        unsafe { TerminateJobObject(self.0.as_raw_handle(), KILLED) };
    }
}

/// A program and all its descendants. Dropping the tree kills them.
pub struct ProcessTree {
    group: ProcessGroup,
}

impl ProcessTree {
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        let (child, group) = ProcessGroup::spawn(command)?;
        Ok((child, ProcessTree { group }))
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.group.kill();
    }
}

/// Always `None`, because Windows has no signals.
pub fn signal_of(_: std::process::ExitStatus) -> Option<i32> {
    None
}

/// Does nothing, because Windows always passes the path of the program as its own name.
pub fn set_own_name(_: &mut std::process::Command, _: &std::path::Path) {}

/// Makes the program continue when this process ends. It does not use our console, and leaves our
/// job if the job allows this. It does not inherit our stdin, stdout and stderr, because a client
/// may wait until they are closed.
pub fn detach(command: &mut std::process::Command) {
    for which in [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
        // SAFETY: the calls take a number and a handle of this process. If the handle is missing,
        // the call fails.
        unsafe { SetHandleInformation(GetStdHandle(which), HANDLE_FLAG_INHERIT, 0) };
    }
    let mut flags = DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP;
    if may_leave_job() {
        flags |= CREATE_BREAKAWAY_FROM_JOB;
    }
    command.creation_flags(flags);
}

/// Whether this process is in a job that allows its children to leave.
fn may_leave_job() -> bool {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    // SAFETY: without a handle, the call reads the job of this process; the structure has the size
    // that is passed.
    let done = unsafe {
        QueryInformationJobObject(
            std::ptr::null_mut(),
            JobObjectExtendedLimitInformation,
            (&raw mut limits).cast(),
            size_of_val(&limits) as u32,
            std::ptr::null_mut(),
        )
    };
    done != 0 && limits.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_BREAKAWAY_OK != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn a_tree_ends_with_its_descendants() {
        // The inner `cmd` waits for input that is never sent. Its end of the pipe closes only when
        // it is killed.
        let mut command = Command::new("cmd.exe");
        command.args(["/c", "cmd.exe /c pause"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (mut child, tree) = ProcessTree::spawn(&mut command).unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut first = [0];
        out.read_exact(&mut first).await.unwrap();
        drop(tree);
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).await.unwrap();
        assert!(!child.wait().await.unwrap().success());
    }
}
