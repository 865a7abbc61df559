//! Real-time priority for a thread. With normal priority the owner could run tens of milliseconds
//! late while the machine renders a mix or compiles.

use windows_sys::Win32::System::Threading::{GetCurrentThread, SetThreadPriority, THREAD_PRIORITY_HIGHEST};

/// Gives the calling thread the highest ordinary priority. It stays below the audio threads, which
/// use time-critical priorities.
pub fn raise() -> std::io::Result<()> {
    // SAFETY: the pseudo handle of this thread is always valid.
    let done = unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_HIGHEST) };
    if done == 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Always `None`, because Windows does not report the names of threads of another process.
pub fn is_urgent(_process: u64, _thread_name: &str) -> Option<bool> {
    None
}
