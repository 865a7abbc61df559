//! Gives back what only the start needed: its code, and memory it no longer uses.
//!
//! Reading the configuration and building the catalog of tools walks through most of the binary
//! once; the kernel keeps those pages in the process although an idle studio uses a few of them.
//! They are clean pages of a file: whatever is needed again comes back from the page cache without
//! touching the disk. What the start has freed the allocator keeps for later, and is asked to
//! return. Not here: memory in use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Best effort: where the system has no such list, nothing happens.
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
        // Code, and the constants before it. The other read-only part was written to by the loader
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

/// Asks the allocator to return what it keeps for later.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number, and locks the allocator by itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Time in which more of the same ends: clients leave together, and files are saved several times.
const SETTLE: Duration = Duration::from_secs(1);
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// Returns memory soon, once for everything that ends until then.
pub fn trim_soon(runtime: &tokio::runtime::Handle) {
    if !IS_DUE.swap(true, Ordering::AcqRel) {
        runtime.spawn(async {
            tokio::time::sleep(SETTLE).await;
            IS_DUE.store(false, Ordering::Release);
            trim();
        });
    }
}
