//! Releases memory that is needed only at the start: code pages and free heap memory.
//!
//! At the start, reading the configuration and creating the tool catalog load most pages of the
//! binary into memory. These pages are clean, so a page that is needed again is read from the page
//! cache without disk access. The allocator also returns freed heap memory to the system.

pub use conductor_hosts::system::memory::give_back;
use conductor_hosts::system::memory::trim;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The delay before memory is returned. Clients often disconnect together, and files are saved
/// several times; with the delay, memory is returned once for all of them.
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
