//! The system functions that the process of a plugin uses: its two pipes and two clocks.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::io;

/// The processor time of the calling thread.
pub fn processor_us() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    (now.tv_sec as u64).saturating_mul(1_000_000).saturating_add(now.tv_nsec as u64 / 1000)
}

/// The time of a monotonic clock, in milliseconds.
pub fn monotonic_ms() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1000.0 + (now.tv_nsec / 1_000_000) as f64
}

/// Waits until stdin has bytes or has ended. Returns false if neither happens within `ms`. If `ms`
/// is absent, waits without a limit.
pub fn wait_for_input(ms: Option<u32>) -> bool {
    let stdin = rustix::stdio::stdin();
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = ms.map(|ms| Timespec { tv_sec: i64::from(ms / 1000), tv_nsec: i64::from(ms % 1000) * 1_000_000 });
    !matches!(poll(&mut wanted, timeout.as_ref()), Ok(0) | Err(rustix::io::Errno::INTR))
}

/// Reads stdin and writes stdout without a buffer, so that [`wait_for_input`] reports all unread
/// bytes and output is sent at once.
pub struct Unbuffered;

impl io::Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(rustix::stdio::stdout(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Unbuffered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), into)?)
    }
}
