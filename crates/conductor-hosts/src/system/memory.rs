//! The memory of this process: reports its size, disables core dumps, and releases memory that only
//! the start needed.

/// The number of bytes of this process that are in main memory. `None` where the system does not
/// report it.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Disables core dumps, so that a crash does not write the key of the secrets to disk. Systems that
/// pipe dumps to a program ignore the limit; for them the dump filter is set too. The process
/// itself stays dumpable, because otherwise root would own its /proc entries.
pub fn forbid_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    if cfg!(target_os = "linux") {
        let _ = std::fs::write("/proc/self/coredump_filter", "0");
    }
}

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
        // Select the code, and the constants before it. The loader has written to the other
        // read-only segment, so that segment must not be dropped.
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
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function takes a number and locks the allocator itself.
    unsafe {
        libc::malloc_trim(0);
    }
}
