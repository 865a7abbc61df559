//! The sandbox of Windows: a job object with limits, and low integrity. Wine accepts these limits
//! but does not enforce them.

use super::{Limits, Strength};
use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use windows_sys::Win32::Security::{
    CreateWellKnownSid, SECURITY_MAX_SID_SIZE, SID_AND_ATTRIBUTES, SetTokenInformation, TOKEN_ADJUST_DEFAULT,
    TOKEN_MANDATORY_LABEL, TokenIntegrityLevel, WinLowLabelSid,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION, JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOB_OBJECT_LIMIT_PROCESS_TIME,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Memory in addition to the heap, in megabytes: for the program, its stacks and the allocator.
const MEMORY_WITHOUT_HEAP_MB: usize = 224;

/// The attribute of an integrity label in a token. windows-sys declares this constant only in a
/// larger feature.
const SE_GROUP_INTEGRITY: u32 = 0x20;

/// The job of this process and its memory limit.
static JOB: OnceLock<(OwnedHandle, usize)> = OnceLock::new();

pub fn strength() -> Strength {
    Strength::JobObject
}

/// Enters the sandbox. This cannot be undone.
pub fn enter(limits: &Limits) -> io::Result<()> {
    // SAFETY: the job has no name, and its handle gets an owner immediately.
    let job = unsafe {
        let handle = CreateJobObjectW(null(), null());
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        OwnedHandle::from_raw_handle(handle)
    };
    let memory = (limits.heap_mb as usize + MEMORY_WITHOUT_HEAP_MB) << 20;
    set(&job, memory, None)?;
    // SAFETY: both handles are valid.
    if unsafe { AssignProcessToJobObject(job.as_raw_handle(), GetCurrentProcess()) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let _ = JOB.set((job, memory));
    lower_integrity()
}

/// Sets the limit of processor time. The unit of the system is 100 ns, and reaching the limit ends
/// the process.
pub fn allow_processor_seconds(used: u64, more: u64) -> io::Result<()> {
    match JOB.get() {
        Some((job, memory)) => set(job, *memory, Some(used.saturating_add(more))),
        None => Ok(()),
    }
}

fn set(job: &OwnedHandle, memory: usize, seconds: Option<u64>) -> io::Result<()> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    let basic = &mut limits.BasicLimitInformation;
    basic.LimitFlags =
        JOB_OBJECT_LIMIT_ACTIVE_PROCESS | JOB_OBJECT_LIMIT_PROCESS_MEMORY | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
    basic.ActiveProcessLimit = 1;
    if let Some(seconds) = seconds {
        basic.LimitFlags |= JOB_OBJECT_LIMIT_PROCESS_TIME;
        basic.PerProcessUserTimeLimit = i64::try_from(seconds.saturating_mul(10_000_000)).unwrap_or(i64::MAX);
    }
    limits.ProcessMemoryLimit = memory;
    // SAFETY: the structure has the size that is passed.
    let done = unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size_of_val(&limits) as u32,
        )
    };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives this process low integrity, so that it cannot write the files and registry of its user.
fn lower_integrity() -> io::Result<()> {
    let mut sid = [0_u64; (SECURITY_MAX_SID_SIZE as usize).div_ceil(8)];
    let mut length = size_of_val(&sid) as u32;
    // SAFETY: the buffers have the lengths that are passed, and the token gets an owner
    // immediately.
    unsafe {
        let mut token = null_mut();
        if OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_DEFAULT, &raw mut token) == 0 {
            return Err(io::Error::last_os_error());
        }
        let token = OwnedHandle::from_raw_handle(token);
        if CreateWellKnownSid(WinLowLabelSid, null_mut(), sid.as_mut_ptr().cast(), &raw mut length) == 0 {
            return Err(io::Error::last_os_error());
        }
        let label = TOKEN_MANDATORY_LABEL {
            Label: SID_AND_ATTRIBUTES { Sid: sid.as_mut_ptr().cast(), Attributes: SE_GROUP_INTEGRITY },
        };
        let done = SetTokenInformation(
            token.as_raw_handle(),
            TokenIntegrityLevel,
            (&raw const label).cast(),
            size_of_val(&label) as u32 + length,
        );
        // Wine does not support integrity levels, so this error is ignored. The job object still
        // applies.
        if done == 0 {
            Err(io::Error::last_os_error()).or_else(|error| if is_unknown(&error) { Ok(()) } else { Err(error) })
        } else {
            Ok(())
        }
    }
}

fn is_unknown(error: &io::Error) -> bool {
    use windows_sys::Win32::Foundation::{ERROR_CALL_NOT_IMPLEMENTED, ERROR_INVALID_PARAMETER, ERROR_NOT_SUPPORTED};
    let codes = [ERROR_CALL_NOT_IMPLEMENTED, ERROR_INVALID_PARAMETER, ERROR_NOT_SUPPORTED];
    codes.iter().any(|it| error.raw_os_error() == Some(it.cast_signed()))
}
