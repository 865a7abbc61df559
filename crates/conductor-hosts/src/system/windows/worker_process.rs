//! The system functions that the process of a plugin uses: its two pipes and two clocks.

#![expect(clippy::disallowed_methods, reason = "the clock of the process of a plugin")]

use parking_lot::Mutex;
use std::io::{self, Read as _};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{GetCurrentThread, GetThreadTimes};

/// The processor time of the calling thread.
pub fn processor_us() -> u64 {
    let [mut created, mut exited, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the pseudo handle of the own thread is always valid, and the times are written.
    unsafe {
        GetThreadTimes(GetCurrentThread(), &raw mut created, &raw mut exited, &raw mut kernel, &raw mut user);
    }
    let whole = |it: FILETIME| u64::from(it.dwHighDateTime) << 32 | u64::from(it.dwLowDateTime);
    // The unit is 100 ns.
    (whole(kernel) + whole(user)) / 10
}

/// The time of a monotonic clock, in milliseconds.
pub fn monotonic_ms() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as f64
}

/// The bytes of stdin, which a thread reads. On Windows, a program cannot wait for a pipe with a
/// time limit.
struct Input {
    chunks: Receiver<Vec<u8>>,
    left: Vec<u8>,
    ended: bool,
}

const CHUNK: usize = 64 * 1024;

fn input() -> &'static Mutex<Input> {
    static INPUT: OnceLock<Mutex<Input>> = OnceLock::new();
    INPUT.get_or_init(|| {
        let (sender, chunks) = sync_channel(1);
        // If the thread cannot be started, the sender is dropped, which counts as the end of the
        // input.
        let _ = std::thread::Builder::new().name("stdin".into()).spawn(move || {
            let mut bytes = vec![0; CHUNK];
            while let Ok(count) = io::stdin().read(&mut bytes) {
                let chunk = bytes.get(..count).unwrap_or_default().to_vec();
                if chunk.is_empty() || sender.send(chunk).is_err() {
                    return;
                }
            }
        });
        Mutex::new(Input { chunks, left: Vec::new(), ended: false })
    })
}

impl Input {
    /// Waits for bytes or for the end of the input. Returns false if the time limit has passed.
    fn fill(&mut self, limit: Option<Duration>) -> bool {
        if !self.left.is_empty() || self.ended {
            return true;
        }
        let received = match limit {
            Some(limit) => {
                self.chunks.recv_timeout(limit).map_err(|it| it == std::sync::mpsc::RecvTimeoutError::Timeout)
            }
            None => self.chunks.recv().map_err(|_| false),
        };
        match received {
            Ok(chunk) => self.left = chunk,
            Err(true) => return false,
            Err(false) => self.ended = true,
        }
        true
    }
}

/// Waits until stdin has bytes or has ended. Returns false if neither happens within `ms`. If `ms`
/// is absent, waits without a limit.
pub fn wait_for_input(ms: Option<u32>) -> bool {
    input().lock().fill(ms.map(|it| Duration::from_millis(it.into())))
}

/// Reads stdin and writes stdout, so that [`wait_for_input`] reports all unread bytes and output is
/// sent at once.
pub struct Unbuffered;

impl io::Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = io::stdout().lock();
        let count = out.write(bytes)?;
        out.flush()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Unbuffered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut input = input().lock();
        input.fill(None);
        let count = input.left.len().min(into.len());
        for (place, byte) in into.iter_mut().zip(input.left.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }
}
