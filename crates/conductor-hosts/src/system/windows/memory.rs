//! The memory of this process: its size, and its dumps after a crash.

use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX, SetErrorMode,
};
use windows_sys::Win32::System::ProcessStatus::{K32EmptyWorkingSet, K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// The bytes of this process that are in main memory.
pub fn resident_bytes() -> Option<u64> {
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let size = size_of_val(&counters) as u32;
    // SAFETY: the structure has the size that is passed, and the pseudo handle is always valid.
    let done = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size) };
    (done != 0).then_some(counters.WorkingSetSize as u64)
}

/// Keeps the error reporting of Windows from writing a dump with the key of the secrets. A dump
/// that a person has set up for all programs is still written.
pub fn forbid_core_dumps() {
    // SAFETY: the call takes only flags.
    unsafe { SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX) };
}

/// Returns pages that only the start needed. Windows loads a page again when it is used.
pub fn give_back() {
    // SAFETY: the pseudo handle of the own process is always valid.
    unsafe { K32EmptyWorkingSet(GetCurrentProcess()) };
}

/// The allocator of Windows returns free memory by itself.
pub fn trim() {}
