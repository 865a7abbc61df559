//! `config.toml` on disk: reading it, watching it, and telling the owner what came of a change. Runs on a thread of its own, so that
//! a large file never holds up the hands.
//!
//! Not here: what the file means (`conductor_core::config`), putting it in force (`run`), or writing it (plans do).

use super::handle::{Reply, Wake};
use super::report::Reloaded;
use crate::outside::Clock;
use conductor_core::config::{self, Config, Device, Diagnostic, Loaded, Severity};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::Micros;
use conductor_core::timestamp::Timestamp;
use notify::{RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The configuration in force and where it came from.
#[derive(Debug)]
pub struct Serving {
    pub config: Arc<Config>,
    /// The bytes it was read from; absent for the built-in empty mode.
    pub text: Option<Arc<str>>,
    /// Over the raw bytes; of zero bytes when there is no file, which is what a first plan starts from.
    pub hash: Digest,
    /// Faults that disabled single items, and warnings.
    pub diagnostics: Vec<Diagnostic>,
    pub loaded_at: Timestamp,
}

impl Serving {
    /// What runs when there is no file that can be read: one empty mode.
    pub fn built_in(extra: &[Device], loaded_at: Timestamp) -> Self {
        let mut config = Config::default();
        add(&mut config, extra);
        Serving { config: Arc::new(config), text: None, hash: Digest::of(&[]), diagnostics: Vec::new(), loaded_at }
    }

    pub fn hash_text(&self) -> Option<String> {
        self.text.as_ref().map(|_| self.hash.to_string())
    }

    /// Rows that an error in the file disabled.
    pub fn disabled_mappings(&self) -> usize {
        let modes = self.config.modes.iter().map(|mode| &mode.rows);
        modes
            .chain([&self.config.global])
            .map(|rows| {
                rows.mappings.iter().filter(|it| it.rule.is_none()).count()
                    + rows.continuous.iter().filter(|it| it.binding.is_none()).count()
            })
            .sum()
    }
}

/// A file that was read but cannot be put in force, or could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One line: place and fault.
    pub reason: String,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads and checks a file. `Ok(None)` when there is none.
pub fn read(path: &Path, extra: &[Device], now: Timestamp) -> Result<Option<Serving>, Refusal> {
    match std::fs::read(path) {
        Ok(bytes) => check(&bytes, extra, now).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Compiles the bytes of a file. Faults of single items do not refuse it; they stand in `diagnostics`. `extra` devices belong to this
/// run and not to the file; where the file has the alias, the file rules.
pub fn check(bytes: &[u8], extra: &[Device], loaded_at: Timestamp) -> Result<Serving, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|error| Refusal {
        reason: format!("config.toml is not UTF-8 text (byte {})", error.valid_up_to()),
        diagnostics: Vec::new(),
    })?;
    let Loaded { config, diagnostics } = config::load(text);
    let Some(mut config) = config else {
        let fatal = diagnostics.iter().find(|it| it.severity == Severity::Fatal);
        let reason = fatal.map_or_else(|| "config.toml is refused as a whole".to_owned(), one_line);
        return Err(Refusal { reason, diagnostics });
    };
    add(&mut config, extra);
    let (text, hash) = (Some(Arc::from(text)), Digest::of(bytes));
    Ok(Serving { config: Arc::new(config), text, hash, diagnostics, loaded_at })
}

fn unreadable(path: &Path, error: &io::Error) -> Refusal {
    Refusal { reason: format!("{}: {error}", path.display()), diagnostics: Vec::new() }
}

fn add(config: &mut Config, extra: &[Device]) {
    for device in extra {
        if config.devices.iter().all(|it| it.alias != device.alias) {
            config.devices.push(device.clone());
        }
    }
}

/// `config.toml:12:5: no mode 'Mox' (did you mean 'Mix'?)`
pub fn one_line(fault: &Diagnostic) -> String {
    format!("config.toml:{}", fault.summary())
}

/// What came of reading the file again.
pub(super) enum Arrival {
    /// To be put in force.
    Accepted(Arc<Serving>),
    /// What serves already; an earlier refusal is forgotten.
    Same,
    Refused(Refusal),
}

/// What the thread is told.
pub(super) enum Order {
    /// Something happened to the file.
    Touched,
    Reload(Reply<Result<Reloaded, ToolError>>),
    End,
}

/// Never waits longer than this for a file that keeps changing, unless the debounce itself is longer.
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(2);

/// The thread's own state.
pub(super) struct Keeper {
    path: PathBuf,
    extra: Vec<Device>,
    clock: Arc<dyn Clock>,
    /// What the owner has in force, or will have once it has taken the last `Accepted`.
    serving: Arc<Serving>,
}

impl Keeper {
    pub fn new(path: PathBuf, extra: Vec<Device>, clock: Arc<dyn Clock>, serving: Arc<Serving>) -> Self {
        Keeper { path, extra, clock, serving }
    }

    /// Runs until told to end, or until nobody can tell it anything any more.
    pub fn run(mut self, orders: &mpsc::Receiver<Order>, post: impl Fn(Wake)) {
        let mut due: Option<Due> = None;
        loop {
            let order = match &due {
                None => orders.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(due) => orders.recv_timeout(due.wait(self.clock.now())),
            };
            match order {
                Ok(Order::Touched) if !self.serving.config.watch.watch => {}
                Ok(Order::Touched) => {
                    if due.is_none() {
                        post(Wake::ConfigSeen);
                    }
                    let debounce = Duration::from_millis(self.serving.config.watch.debounce_ms.into());
                    due = Some(Due::after(due, self.clock.now(), debounce));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    due = None;
                    post(Wake::Config(self.judge()));
                }
                Ok(Order::Reload(reply)) => {
                    due = None;
                    let arrival = self.judge();
                    let answer = self.answer(&arrival);
                    post(Wake::Config(arrival));
                    // The asker may have hung up; the reload stands.
                    let _ = reply.send(answer);
                }
                Ok(Order::End) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn judge(&mut self) -> Arrival {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            // A file that was never there is no fault; one that is gone keeps the old configuration.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.serving.text.is_none() => {
                return Arrival::Same;
            }
            Err(error) => return Arrival::Refused(unreadable(&self.path, &error)),
        };
        if self.serving.text.as_ref().is_some_and(|it| it.as_bytes() == bytes) {
            return Arrival::Same;
        }
        match check(&bytes, &self.extra, Timestamp::from_millis(self.clock.wall_ms())) {
            Ok(serving) => {
                self.serving = Arc::new(serving);
                Arrival::Accepted(self.serving.clone())
            }
            Err(refusal) => Arrival::Refused(refusal),
        }
    }

    fn answer(&self, arrival: &Arrival) -> Result<Reloaded, ToolError> {
        let changed = match arrival {
            Arrival::Accepted(_) => true,
            Arrival::Same => false,
            Arrival::Refused(refusal) => {
                return Err(ToolError::new(Code::BadInput, refusal.reason.clone())
                    .subject(Subject::Config("config.toml".into()))
                    .hint("The old configuration stays in force. Correct the file; it is read again by itself when saved."));
            }
        };
        let faults = self.serving.diagnostics.iter().filter(|it| it.severity == Severity::Error);
        Ok(Reloaded { hash: self.serving.hash_text(), changed, faults: faults.map(one_line).collect() })
    }
}

/// When a touched file is read: after a quiet `debounce`, and at the latest some time after the first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    at: Micros,
    latest: Micros,
}

impl Due {
    fn after(earlier: Option<Due>, now: Micros, debounce: Duration) -> Due {
        let plus = |by: Duration| Micros(now.0.saturating_add(by.as_micros() as u64));
        let latest = earlier.map_or_else(|| plus(LONGEST_DEBOUNCE.max(debounce)), |it| it.latest);
        Due { at: plus(debounce).min(latest), latest }
    }

    fn wait(self, now: Micros) -> Duration {
        Duration::from_micros(self.at.since(now))
    }
}

/// Tells `orders` about every change to the file. Watches folders, not the file: editors replace it by renaming. Dropping the
/// returned value ends the watch.
pub(super) fn watch(path: &Path, orders: mpsc::Sender<Order>) -> notify::Result<impl Watcher + use<>> {
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    let mut names: BTreeSet<OsString> = BTreeSet::new();
    // A symlinked file changes in two places: the link may be turned, or its target written.
    let target = std::fs::canonicalize(path).ok();
    for place in [Some(path.to_owned()), target].into_iter().flatten() {
        folders.extend(place.parent().map(Path::to_owned));
        names.extend(place.file_name().map(OsString::from));
    }
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let touched = match event {
            // Reading the file is an access; it must not cause another reading.
            Ok(event) => {
                !event.kind.is_access()
                    && event.paths.iter().any(|it| it.file_name().is_some_and(|name| names.contains(name)))
            }
            // Something was missed; looking once too often costs a hash.
            Err(_) => true,
        };
        if touched {
            // The keeper ends before its watcher only at shutdown.
            let _ = orders.send(Order::Touched);
        }
    })?;
    for folder in folders {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}
