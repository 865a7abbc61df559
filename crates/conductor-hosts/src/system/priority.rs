//! Real-time priority for a thread. With normal priority the owner could run tens of milliseconds
//! late while the machine renders a mix or compiles.

/// The lowest real-time priority: above all threads with normal priority, and below the audio
/// threads of JACK and PipeWire, which start at 5. The engine must never cause an audio dropout.
#[cfg(target_os = "linux")]
const PRIORITY: libc::c_int = 1;

/// Gives the calling thread real-time priority. Threads and programs that the thread starts have
/// normal priority. Most systems allow this only for members of a group (`audio` on Debian). For
/// other users the call fails.
#[cfg(target_os = "linux")]
pub fn raise() -> std::io::Result<()> {
    let wish = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the call only reads one structure, which lives longer than the call. Thread 0 is the
    // calling thread.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const wish) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub fn raise() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Whether a thread of a process has real-time priority. `None` if the system does not report it.
pub fn is_urgent(process: u64, thread_name: &str) -> Option<bool> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let lines = threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("stat")).ok());
    // The line is `id (name) state ...`. The scheduling policy is field 41, and 1 is SCHED_FIFO.
    lines.filter(|line| line.contains(&format!("({thread_name})"))).find_map(|line| {
        let mut fields = line.rsplit(')').next()?.split_ascii_whitespace();
        Some(fields.nth(38)? == "1")
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_urgent_and_what_it_starts_is_not() {
        let own = u64::from(std::process::id());
        let spawn = |name: &str, work: Box<dyn FnOnce() -> Option<bool> + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(work).unwrap().join().unwrap()
        };
        let seen = spawn(
            "urgent",
            Box::new(move || {
                let raised = raise().is_ok();
                assert_eq!(
                    is_urgent(own, "urgent"),
                    Some(raised),
                    "the reported priority is not the one that the kernel set"
                );
                spawn("started", Box::new(move || is_urgent(own, "started")))
            }),
        );
        assert_eq!(seen, Some(false));
        assert_eq!(is_urgent(own, "nobody"), None);
    }
}
