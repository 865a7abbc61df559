//! Counts the system calls of a thread. The kernel passes every call of the thread to a second
//! thread (seccomp user notification), which counts the call and lets it continue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The parts of a thread's run in which its system calls are counted. The number is odd during such
/// a part.
pub struct Window<'a>(&'a AtomicU64);

impl<'a> Window<'a> {
    /// A window of a thread whose system calls are not counted.
    pub fn unwatched(number: &'a AtomicU64) -> Self {
        Window(number)
    }

    pub fn count<R>(&self, act: impl FnOnce() -> R) -> R {
        self.0.fetch_add(1, Ordering::SeqCst);
        let result = act();
        self.0.fetch_add(1, Ordering::SeqCst);
        result
    }
}

/// The system calls inside the windows of a thread.
#[derive(Debug, Default)]
pub struct Calls {
    pub by_number: BTreeMap<i64, u64>,
    pub most_in_a_window: u64,
}

/// Runs `act` in a thread and counts the system calls inside its windows. `Err` if the kernel does
/// not support this.
pub fn counted(act: impl FnOnce(&Window<'_>) + Send) -> Result<Calls, std::io::Error> {
    const WAITING: i32 = -1;
    let (listener, window, thread) = (AtomicI32::new(WAITING), AtomicU64::new(0), AtomicI32::new(0));
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // SAFETY: the call has no arguments.
            thread.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            // After this call, every system call of this thread waits for the other thread, so the
            // descriptor must be passed without a system call.
            let fd = install();
            listener.store(fd.as_ref().map_or(i32::MIN, |fd| *fd), Ordering::SeqCst);
            let fd = fd?;
            act(&Window(&window));
            Ok(fd)
        });
        while listener.load(Ordering::SeqCst) == WAITING {
            std::thread::yield_now();
        }
        let mut calls = Calls::default();
        let (mut last, mut in_window) = (0, 0);
        let fd = listener.load(Ordering::SeqCst);
        let mut count = |caller: i32, call: i64| {
            let number = window.load(Ordering::SeqCst);
            // The kernel also passes the calls of threads started by this thread; they are not
            // counted.
            if number % 2 == 1 && caller == thread.load(Ordering::SeqCst) {
                in_window = if number == last { in_window + 1 } else { 1 };
                last = number;
                calls.most_in_a_window = calls.most_in_a_window.max(in_window);
                *calls.by_number.entry(call).or_default() += 1;
            }
        };
        while fd >= 0 && answer(fd, &mut count) {}
        let ended: Result<i32, std::io::Error> = worker.join().expect("the thread under test panicked");
        // SAFETY: the descriptor was returned by `install`, and no other code uses it.
        ended.map(|fd| unsafe { libc::close(fd) })?;
        Ok(calls)
    })
}

fn install() -> Result<i32, std::io::Error> {
    let code = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut filter = [libc::sock_filter { code, jt: 0, jf: 0, k: libc::SECCOMP_RET_USER_NOTIF }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    // SAFETY: both calls affect only this thread, and read one program that outlives them.
    let fd = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    if fd < 0 { Err(std::io::Error::last_os_error()) } else { Ok(fd as i32) }
}

/// Waits for the next system call, passes its thread and its number to `count` while the thread
/// waits, and lets it continue. Returns false once all threads have ended.
fn answer(fd: i32, count: &mut dyn FnMut(i32, i64)) -> bool {
    let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: each call reads and writes one structure of the kernel's interface, which outlives
    // it.
    unsafe {
        libc::poll(&raw mut ready, 1, -1);
        if ready.revents & libc::POLLIN == 0 {
            return false;
        }
        let mut call: libc::seccomp_notif = std::mem::zeroed();
        if libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) != 0 {
            return false;
        }
        count(call.pid as i32, call.data.nr.into());
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        let mut reply = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut reply);
        true
    }
}
