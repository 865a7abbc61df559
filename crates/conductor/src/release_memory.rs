//! Releases memory that only the start needed: code pages and free heap memory.
//!
//! Reading the configuration and building the catalog of tools touches most of the binary once, and
//! the kernel keeps those pages in the process. They are clean pages of a file, so any page that is
//! needed again comes back from the page cache without disk access. Heap memory that the start
//! freed is returned by the allocator. Not here: memory in use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Best effort: nothing happens where the system has no such list.
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
        // Code, and the constants before it. The other read-only segment was written by the loader
        // and must stay.
        if rights != "r-xp" && !(rights == "r--p" && offset.bytes().all(|digit| digit == b'0')) {
            continue;
        }
        let bounds =
            range.split_once('-').map(|(from, to)| (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)));
        if let Some((Ok(from), Ok(to))) = bounds
            && line.ends_with(program)
        {
            let start = std::ptr::with_exposed_provenance_mut(from);
            // SAFETY: a mapping of a file that was never written to (it is not writable and holds
            // nothing the loader relocates) reads the same after its pages were dropped as before.
            let _ = unsafe { madvise(start, to - from, Advice::LinuxDontNeed) };
        }
    }
    trim();
}

#[cfg(not(target_os = "linux"))]
pub fn give_back() {}

/// Asks the allocator to return free memory.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number, and locks the allocator by itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The delay before memory is returned: clients leave together, and files are saved several times.
const SETTLE: Duration = Duration::from_secs(1);
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Returns memory after a short delay, once for everything that ends in that time.
pub fn trim_soon(runtime: &tokio::runtime::Handle) {
    if !IS_DUE.swap(true, Ordering::AcqRel) {
        runtime.spawn(async {
            tokio::time::sleep(SETTLE).await;
            IS_DUE.store(false, Ordering::Release);
            trim();
        });
    }
}
