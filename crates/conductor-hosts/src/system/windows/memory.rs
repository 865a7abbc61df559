//! The memory of this process: reports its size, prevents dumps after a crash, and releases pages.

use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX, SetErrorMode,
};
use windows_sys::Win32::System::ProcessStatus::{K32EmptyWorkingSet, K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// The number of bytes of this process that are in main memory.
pub fn resident_bytes() -> Option<u64> {
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let size = size_of_val(&counters) as u32;
    // SAFETY: the structure has the size that is passed, and the pseudo handle is always valid.
    let done = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size) };
    (done != 0).then_some(counters.WorkingSetSize as u64)
}

/// Prevents the error reporting of Windows from writing a dump with the key of the secrets. A dump
/// that a person has configured for all programs is still written.
pub fn forbid_core_dumps() {
    // SAFETY: the call takes only flags.
    unsafe { SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX) };
}

/// Releases the pages that only the start needed. Windows loads a page again when it is used.
pub fn give_back() {
    // SAFETY: the pseudo handle of this process is always valid.
    unsafe { K32EmptyWorkingSet(GetCurrentProcess()) };
}

/// Does nothing, because the allocator of Windows returns free memory by itself.
pub fn trim() {}
