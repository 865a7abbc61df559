//! The one file that reads the clock, the environment and random numbers. Everything else is given
//! values.

#![expect(clippy::disallowed_methods, reason = "this is the place the lint points to")]

use conductor_core::event::Micros;
use conductor_core::timestamp::Timestamp;
use rustix::process::{Resource, Rlimit, getrlimit};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Both clocks a daemon needs: one that never jumps, for gestures and deadlines, and the one on the
/// wall, for people.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Microseconds since this clock was made.
    fn now(&self) -> Micros;
    fn wall(&self) -> SystemTime;

    /// What the clock on the wall shows where this machine stands.
    fn local(&self) -> LocalTime {
        LocalTime::utc(self.wall_ms())
    }

    /// Milliseconds since the epoch.
    fn wall_ms(&self) -> u64 {
        self.wall().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
    }

    /// Wall time, for records.
    fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_ms())
    }

    /// Milliseconds that never step, for intervals.
    fn now_ms(&self) -> u64 {
        self.now().0 / 1000
    }
}

/// As far as conditions of a mapping need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    pub minute_of_day: u16,
    /// 1 is Monday.
    pub weekday: u8,
}

impl LocalTime {
    pub fn utc(wall_ms: u64) -> Self {
        let minutes = wall_ms / 60_000;
        // The epoch was a Thursday.
        LocalTime { minute_of_day: (minutes % 1440) as u16, weekday: ((minutes / 1440 + 3) % 7 + 1) as u8 }
    }
}

#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    pub fn new() -> Self {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Micros {
        Micros(self.start.elapsed().as_micros() as u64)
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn local(&self) -> LocalTime {
        use chrono::{Datelike, Timelike};
        let now = chrono::Local::now();
        LocalTime {
            minute_of_day: (now.hour() * 60 + now.minute()) as u16,
            weekday: now.weekday().number_from_monday() as u8,
        }
    }
}

/// A clock that moves only when a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicU64,
    wall_start_ms: AtomicU64,
}

impl ManualClock {
    pub fn at_wall_ms(wall_start_ms: u64) -> Arc<Self> {
        Arc::new(ManualClock { micros: AtomicU64::new(0), wall_start_ms: AtomicU64::new(wall_start_ms) })
    }

    /// As a person does who sets the clock on the wall back.
    pub fn set_wall_back(&self, by: Duration) {
        self.wall_start_ms.fetch_sub(by.as_millis() as u64, Ordering::SeqCst);
    }

    pub fn set_wall_forward(&self, by: Duration) {
        self.wall_start_ms.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }

    pub fn advance(&self, by: Duration) {
        self.micros.fetch_add(by.as_micros() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        Micros(self.micros.load(Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        let start = Duration::from_millis(self.wall_start_ms.load(Ordering::SeqCst));
        UNIX_EPOCH + start + Duration::from_micros(self.now().0)
    }
}

/// Ids and random bytes.
pub trait Ids: Send + Sync + std::fmt::Debug {
    /// Random bytes fit for keys.
    fn fill(&self, bytes: &mut [u8]);

    fn v4(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Sorts by `wall_ms`, the caller's clock; the order within a millisecond is random.
    fn v7(&self, wall_ms: u64) -> Uuid {
        let mut tail = [0; TAIL];
        self.fill(&mut tail);
        uuid::Builder::from_unix_timestamp_millis(wall_ms, &tail).into_uuid()
    }

    fn bytes32(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.fill(&mut bytes);
        bytes
    }
}

#[derive(Debug)]
pub struct RandomIds;

/// Bytes of the tail of a v7 id.
const TAIL: usize = 10;

thread_local! {
    /// Tails fetched ahead of their use: every call takes two, and a system call for each is dearer
    /// than the rest of the id. Only ids that name something come from here; whatever must not be
    /// guessed is fetched when it is needed.
    static AHEAD: RefCell<Vec<[u8; TAIL]>> = const { RefCell::new(Vec::new()) };
}

fn from_system(bytes: &mut [u8]) {
    #[expect(clippy::expect_used, reason = "without random numbers nothing may be promised to anyone")]
    getrandom::fill(bytes).expect("the system gives no random numbers");
}

impl Ids for RandomIds {
    fn v4(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn v7(&self, wall_ms: u64) -> Uuid {
        let tail = AHEAD.with_borrow_mut(|ahead| {
            if ahead.is_empty() {
                let mut tails = [0; TAIL * 64];
                from_system(&mut tails);
                ahead.extend(tails.as_chunks::<TAIL>().0);
            }
            ahead.pop().unwrap_or_default()
        });
        uuid::Builder::from_unix_timestamp_millis(wall_ms, &tail).into_uuid()
    }

    fn fill(&self, bytes: &mut [u8]) {
        from_system(bytes);
    }
}

/// The same random numbers in every run of a test (splitmix64).
#[derive(Debug)]
pub struct SeededIds(AtomicU64);

impl SeededIds {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(SeededIds(AtomicU64::new(seed)))
    }

    pub fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Ids for SeededIds {
    fn fill(&self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }
}

/// Ids in a fixed order, for tests.
#[derive(Debug)]
pub struct CountingIds(AtomicU64);

impl CountingIds {
    pub fn new() -> Arc<Self> {
        Arc::new(CountingIds(AtomicU64::new(1)))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl Ids for CountingIds {
    fn v4(&self) -> Uuid {
        uuid::Builder::from_random_bytes(u128::from(self.next()).to_be_bytes()).into_uuid()
    }

    fn v7(&self, wall_ms: u64) -> Uuid {
        let mut tail = [0u8; 10];
        tail[2..].copy_from_slice(&self.next().to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis(wall_ms, &tail).into_uuid()
    }

    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let raw = self.next().to_be_bytes();
            chunk.copy_from_slice(&raw[..chunk.len()]);
        }
    }
}

/// This program, for starting it again. On Linux the running one, even when an upgrade has replaced
/// its file.
pub fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().unwrap_or_default()
    }
}

static OPEN_FILES_AT_START: OnceLock<Rlimit> = OnceLock::new();

/// The limit of open files that this process was started with, as long as the first call comes
/// before the limit is changed. Children get this limit: programs that use `select` break on
/// descriptors above 1024.
pub fn open_files_at_start() -> Rlimit {
    *OPEN_FILES_AT_START.get_or_init(|| getrlimit(Resource::Nofile))
}

/// What the process environment says, read once at start.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `CONDUCTOR_HOME`, else `~/.conductor`; absent when neither is known.
    pub home: Option<PathBuf>,
    pub user_home: Option<PathBuf>,
    pub display: Option<String>,
    pub xdg_data_dirs: Vec<PathBuf>,
    /// Folders in which a command without a slash is looked for.
    pub search_path: Vec<PathBuf>,
    pub no_color: bool,
    /// Where the service manager puts credentials.
    pub credentials: Option<PathBuf>,
}

impl Environment {
    pub fn read() -> Self {
        let user_home = std::env::var_os("HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
        let home = std::env::var_os("CONDUCTOR_HOME")
            .filter(|it| !it.is_empty())
            .map(PathBuf::from)
            .or_else(|| user_home.as_ref().map(|it| it.join(".conductor")));
        let mut xdg_data_dirs: Vec<PathBuf> = Vec::new();
        match std::env::var_os("XDG_DATA_HOME").filter(|it| !it.is_empty()) {
            Some(dir) => xdg_data_dirs.push(dir.into()),
            None => xdg_data_dirs.extend(user_home.as_ref().map(|it| it.join(".local/share"))),
        }
        match std::env::var_os("XDG_DATA_DIRS").filter(|it| !it.is_empty()) {
            Some(dirs) => xdg_data_dirs.extend(std::env::split_paths(&dirs)),
            None => xdg_data_dirs.extend(["/usr/local/share", "/usr/share"].map(PathBuf::from)),
        }
        Environment {
            home,
            user_home,
            display: std::env::var("DISPLAY").ok().filter(|it| !it.is_empty()),
            xdg_data_dirs,
            search_path: std::env::var_os("PATH").map(|it| std::env::split_paths(&it).collect()).unwrap_or_default(),
            no_color: std::env::var_os("NO_COLOR").is_some(),
            credentials: std::env::var_os("CREDENTIALS_DIRECTORY").filter(|it| !it.is_empty()).map(PathBuf::from),
        }
    }
}

/// The program a command names: looked for in the folders of the search path, unless it names a
/// folder itself.
pub fn program_of(command: &Path, folders: &[PathBuf]) -> Option<PathBuf> {
    let named = command.components().count() > 1;
    let candidates = if named { vec![command.to_owned()] } else { folders.iter().map(|it| it.join(command)).collect() };
    candidates.into_iter().find(|it| it.is_file())
}

/// Those of these environment variables that are set.
pub fn variables(names: &[&'static str]) -> Vec<(&'static str, std::ffi::OsString)> {
    names.iter().filter_map(|name| std::env::var_os(name).map(|value| (*name, value))).collect()
}

/// What a program needs to find the desktop of this session.
pub fn session_variables() -> Vec<(&'static str, std::ffi::OsString)> {
    variables(&[
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SESSION_TYPE",
        "XDG_CURRENT_DESKTOP",
        "DBUS_SESSION_BUS_ADDRESS",
        "PATH",
        "USER",
    ])
}

/// Where the session's servers put their sockets.
pub fn runtime_folders() -> Vec<PathBuf> {
    ["PIPEWIRE_RUNTIME_DIR", "XDG_RUNTIME_DIR"]
        .into_iter()
        .filter_map(std::env::var_os)
        .filter(|it| !it.is_empty())
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_repeat_and_sort_by_time() {
        let ids: Vec<Uuid> = (0..1000).map(|ms| RandomIds.v7(ms)).collect();
        assert!(ids.is_sorted());
        let tails: std::collections::BTreeSet<&[u8]> = ids.iter().map(|it| &it.as_bytes()[8..]).collect();
        assert_eq!(tails.len(), ids.len());
    }

    #[test]
    fn utc_weekdays_and_minutes() {
        assert_eq!(LocalTime::utc(0), LocalTime { minute_of_day: 0, weekday: 4 });
        // Sunday 2001-09-09 01:46:40.
        assert_eq!(LocalTime::utc(1_000_000_000_000), LocalTime { minute_of_day: 106, weekday: 7 });
    }
}
