//! Releases memory that is needed only at the start: code pages and free heap memory.
//!
//! At the start, reading the configuration and creating the tool catalog load most pages of the
//! binary into memory. These pages are clean, so a page that is needed again is read from the page
//! cache without disk access. The allocator also returns freed heap memory to the system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Releases code pages and free heap memory. Does nothing if the memory maps cannot be read.
#[cfg(target_os = "linux")]
pub fn give_back() {
    use rustix::mm::{Advice, madvise};
    let (Ok(maps), Ok(program)) = (std::fs::read_to_string("/proc/self/maps"), std::fs::read_link("/proc/self/exe"))
    else {
        return;
    };
    let Some(program) = program.to_str() else { return };
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights), Some(offset)) = (words.next(), words.next(), words.next()) else { continue };
        // Select the code and the constants before it. The loader has written to the other
        // read-only segment, so it must not be dropped.
        if rights != "r-xp" && !(rights == "r--p" && offset.bytes().all(|digit| digit == b'0')) {
            continue;
        }
        let bounds =
            range.split_once('-').map(|(from, to)| (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)));
        if let Some((Ok(from), Ok(to))) = bounds
            && line.ends_with(program)
        {
            let start = std::ptr::with_exposed_provenance_mut(from);
            // SAFETY: the mapping is not writable and contains no data that the loader relocates,
            // so its pages equal the file. After they are dropped, they are read from the file
            // again.
            let _ = unsafe { madvise(start, to - from, Advice::LinuxDontNeed) };
        }
    }
    trim();
}

#[cfg(not(target_os = "linux"))]
pub fn give_back() {}

/// Makes the allocator return free memory to the system.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function takes a number and locks the allocator itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The delay before memory is returned. Clients often disconnect together, and files are saved
/// several times.
const SETTLE: Duration = Duration::from_secs(1);
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Returns memory after a short delay. Further calls during the delay have no effect.
pub fn trim_soon(runtime: &tokio::runtime::Handle) {
    if !IS_DUE.swap(true, Ordering::AcqRel) {
        runtime.spawn(async {
            tokio::time::sleep(SETTLE).await;
            IS_DUE.store(false, Ordering::Release);
            trim();
        });
    }
}
