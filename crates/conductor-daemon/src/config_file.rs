//! Reads and watches `config.toml`, decides which parts are put in force, and reports the result to
//! the owner. Runs on a separate thread, so that a large file never delays the engine.
//!
//! Not here: the meaning of the file (`conductor_core::config`), held changes
//! (`conductor_core::config::held`), storing the accepted configuration (`accepted`), putting it in
//! force (`owner::changes`), and writing the file (plans).

pub mod accepted;
pub mod watch;

use crate::config_file::accepted::{Found, Store};
use crate::config_file::watch::Watch;
use crate::log::Log;
use crate::owner::wake::Wake;
use arc_swap::ArcSwap;
use conductor_core::config::held::{self, Accepted, Judged};
use conductor_core::config::{Device, Diagnostic, Loaded, Severity, Surroundings};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::Micros;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::config_in_force::{ConfigInForce, Waiting, add_devices};
use conductor_gateway::owner_handle::ConfigRequest;
use conductor_gateway::report::Reloaded;
use conductor_gateway::surroundings::platform;
use conductor_hosts::atomic_file;
use conductor_hosts::system::Clock;
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The reason why a file could not be read or cannot be put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The place and the error, in one line.
    pub reason: String,
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the file exists but could not be read. Another attempt may then succeed.
    pub retry: bool,
}

impl Refusal {
    fn of_text(reason: impl Into<String>) -> Self {
        Refusal { reason: reason.into(), diagnostics: Vec::new(), retry: false }
    }
}

/// Reads and checks a file, regardless of which parts a person has accepted. Returns `Ok(None)` if
/// there is no file.
pub fn read(path: &Path, extra: &[Device], now: Timestamp) -> Result<Option<ConfigInForce>, Refusal> {
    match atomic_file::read(path) {
        Ok(bytes) => check(&bytes, extra, now).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn check(bytes: &[u8], extra: &[Device], loaded_at: Timestamp) -> Result<ConfigInForce, Refusal> {
    let text = utf8(bytes)?;
    let surroundings = Surroundings { platform: Some(platform()), ..Surroundings::default() };
    serving(text, held::load_accepted(text, &surroundings), extra, loaded_at).map(|(it, _)| it)
}

fn utf8(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes)
        .map_err(|error| Refusal::of_text(format!("config.toml is not UTF-8 text (byte {})", error.valid_up_to())))
}

/// Creates the configuration to put in force. Errors in single items do not reject the file; they
/// are in `diagnostics`. `extra` devices are added, unless the file contains the same alias.
fn serving(
    text: &str,
    judged: Judged,
    extra: &[Device],
    loaded_at: Timestamp,
) -> Result<(ConfigInForce, Accepted), Refusal> {
    let Judged { loaded: Loaded { config, diagnostics }, accepted, held, difference } = judged;
    let Some(mut config) = config else {
        let fatal = diagnostics.iter().find(|it| it.severity == Severity::Fatal);
        let reason = fatal.map_or_else(|| "config.toml is not valid".to_owned(), one_line);
        return Err(Refusal { diagnostics, ..Refusal::of_text(reason) });
    };
    add_devices(&mut config, extra);
    let typing = accepted.typing.iter().cloned().collect();
    let since = (!held.is_empty()).then_some(loaded_at);
    let serving = ConfigInForce {
        config: Arc::new(config),
        text: Some(Arc::from(text)),
        hash: Digest::of(text.as_bytes()),
        diagnostics,
        loaded_at,
        waiting: Waiting { held, since, difference: Arc::from(difference), closed: None, typing },
        sections: held::section_hashes(&accepted.tree),
        mark: None,
    };
    Ok((serving, accepted))
}

fn unreadable(path: &Path, error: &io::Error) -> Refusal {
    let retry = error.kind() != io::ErrorKind::NotFound;
    Refusal { reason: format!("{}: {error}", path.display()), diagnostics: Vec::new(), retry }
}

/// One line for an error, for example `config.toml:12:5: no mode 'Mox' (did you mean 'Mix'?)`.
pub fn one_line(fault: &Diagnostic) -> String {
    format!("config.toml:{}", fault.summary())
}

/// The result of reading the file again.
pub enum Arrival {
    /// A configuration to put in force.
    Accepted(Arc<ConfigInForce>),
    /// The file is already in force, or there has never been a file; an earlier error is cleared.
    Same,
    Refused(Refusal),
}

/// Why the file is read. The reason decides which changes are accepted.
enum Word {
    /// The file changed, and no person has accepted the change.
    None,
    /// A person accepted the file with this hash.
    Person(Option<Digest>),
    /// A person applied a plan that changed the first text to the second.
    Plan { before: String, after: String },
}

/// Messages to the thread that watches `config.toml`.
pub enum Order {
    /// The file may have changed.
    Touched,
    Asked(ConfigRequest),
    End,
}

/// A file that keeps changing is read after this time at the latest, unless the debounce is longer.
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(2);

/// The time between two attempts to read a file or key.
const RETRY_US: u64 = 1_000_000;

/// Checks a text against the tools, plugins and ports of this machine, and returns warnings.
pub(crate) type Examine = Box<dyn Fn(&str) -> Vec<Diagnostic> + Send>;

/// Warnings about the file in force that depend on this machine.
pub(crate) type Remarks = Arc<ArcSwap<Vec<Diagnostic>>>;

/// State of the thread that watches `config.toml`.
pub(crate) struct ConfigWatcher {
    path: PathBuf,
    extra: Vec<Device>,
    clock: Arc<dyn Clock>,
    log: Log,
    store: Store,
    /// The configuration in force, or the one that the owner puts in force next.
    serving: Arc<ConfigInForce>,
    accepted: Accepted,
    /// Whether no configuration was accepted in this home yet. If so, the first valid file is
    /// accepted.
    fresh: bool,
    /// Whether the key of the accepted configuration is locked, but may become available later.
    locked: bool,
    /// Whether the configuration in force was created from the current text and the current
    /// accepted configuration.
    current: bool,
    refused: Option<String>,
    watch: Watch,
}

/// The configuration in force at a start, and the error if the file was not put in force.
pub(crate) struct Opened {
    pub watcher: ConfigWatcher,
    pub serving: Arc<ConfigInForce>,
    pub error: Option<String>,
}

impl ConfigWatcher {
    /// Decides which configuration is in force at a start. `watch` must be started before this
    /// call, so that no change is missed.
    pub fn open(
        path: PathBuf,
        extra: Vec<Device>,
        clock: Arc<dyn Clock>,
        log: Log,
        mut store: Store,
        watch: Watch,
    ) -> Opened {
        let now = Timestamp::from_millis(clock.wall_ms());
        let nothing = Accepted { tree: json!({}), ..Accepted::closed() };
        let (accepted, text, fresh, closed, locked) = match store.find() {
            Found::New => (Accepted { closed: false, ..nothing }, None, true, None, false),
            Found::Accepted { accepted, text } => (accepted, text, false, None, false),
            Found::Closed { why, locked } => {
                log.error(format_args!(
                    "configuration: {why}; no folder, command or plugin is allowed until a person runs `conductor config accept`"
                ));
                let tree = locked.as_ref().map_or_else(|| json!({}), |it| json!({ "secrets": it }));
                (Accepted { tree, ..nothing }, None, false, Some(Arc::from(why)), locked.is_some())
            }
        };
        let mut built_in = ConfigInForce::built_in(&extra, now);
        if !fresh {
            let mut config = held::in_force(&accepted);
            add_devices(&mut config, &extra);
            built_in.config = Arc::new(config);
            built_in.sections = held::section_hashes(&accepted.tree);
            built_in.hash = text.as_ref().map_or(built_in.hash, |it| Digest::of(it.as_bytes()));
            built_in.text = text.map(Arc::from);
        }
        built_in.waiting.closed = closed;
        built_in.mark = store.mark().cloned();
        let serving = Arc::new(built_in);
        let mut watcher = ConfigWatcher {
            path,
            extra,
            clock,
            log,
            store,
            serving: Arc::clone(&serving),
            accepted,
            fresh,
            locked,
            current: false,
            refused: None,
            watch,
        };
        let error = match watcher.judge(&Word::None) {
            Arrival::Accepted(_) | Arrival::Same => None,
            Arrival::Refused(refusal) => {
                let serves = if serving.text.is_some() { "accepted configuration" } else { "built-in empty mode" };
                watcher
                    .log
                    .error(format_args!("config.toml was rejected, so the {serves} is in force: {}", refusal.reason));
                watcher.refused = Some(refusal.reason.clone());
                Some(refusal.reason)
            }
        };
        Opened { serving: Arc::clone(&watcher.serving), watcher, error }
    }

    /// Replaces the secrets store. A person can unlock the new store with a passphrase.
    pub fn set_secrets(&mut self, secrets: Arc<conductor_gateway::secrets::Secrets>) {
        self.store.set_secrets(secrets);
    }

    /// Runs until `Order::End`, or until the channel closes.
    pub fn run(mut self, orders: &mpsc::Receiver<Order>, post: impl Fn(Wake), examine: &Examine, remarks: &Remarks) {
        let mut due: Option<Due> = None;
        let mut retry = self.retry(self.refused.is_some());
        self.remark(examine, remarks);
        loop {
            let now = self.clock.now();
            let next = [due.map(|it| it.at), retry].into_iter().flatten().min();
            let order = match next {
                None => orders.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(at) => orders.recv_timeout(Duration::from_micros(at.since(now))),
            };
            let (word, reply) = match order {
                Ok(Order::Touched) if !self.serving.config.watch.watch => continue,
                Ok(Order::Touched) => {
                    if due.is_none() {
                        post(Wake::ConfigSeen);
                    }
                    let debounce = Duration::from_millis(self.serving.config.watch.debounce_ms.into());
                    due = Some(Due::after(due, self.clock.now(), debounce));
                    continue;
                }
                Ok(Order::Asked(ConfigRequest::KeyChanged)) => {
                    self.key_changed();
                    (Word::None, None)
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if self.locked {
                        self.key_changed();
                    }
                    (Word::None, None)
                }
                Ok(Order::Asked(ConfigRequest::Reload(reply))) => (Word::None, Some(reply)),
                Ok(Order::Asked(ConfigRequest::Accept { hash, reply })) => (Word::Person(hash), Some(reply)),
                Ok(Order::Asked(ConfigRequest::Applied { before, after, reply })) => {
                    (Word::Plan { before, after }, Some(reply))
                }
                Ok(Order::End) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
            };
            let was_due = due.take().is_some();
            let arrival = self.judge(&word);
            let failed = matches!(&arrival, Arrival::Refused(it) if it.retry);
            retry = self.retry(failed);
            if let Arrival::Accepted(_) = arrival {
                self.remark(examine, remarks);
            }
            let is_new = match &arrival {
                Arrival::Accepted(_) | Arrival::Same => self.refused.take().is_some(),
                Arrival::Refused(it) => self.refused.replace(it.reason.clone()).as_ref() != Some(&it.reason),
            };
            let answer = reply.is_some().then(|| self.answer(&arrival));
            // An attempt with the same result as the last one is not reported, unless the owner or
            // a caller waits for this result.
            if is_new || was_due || reply.is_some() || matches!(arrival, Arrival::Accepted(_)) {
                post(Wake::Config(arrival));
            }
            if let Some((reply, answer)) = reply.zip(answer) {
                // The caller may have disconnected; the reload is still valid.
                let _ = reply.send(answer);
            }
        }
    }

    fn retry(&self, failed: bool) -> Option<Micros> {
        (failed || self.locked).then(|| self.clock.now().plus_us(RETRY_US))
    }

    fn remark(&self, examine: &Examine, remarks: &Remarks) {
        let found = self.serving.text.as_ref().map(|it| examine(it)).unwrap_or_default();
        remarks.store(Arc::new(found));
    }

    /// Called when the key may have changed. Signs the accepted configuration with the current key,
    /// or reads it if the key was locked before.
    fn key_changed(&mut self) {
        if self.locked {
            match self.store.find() {
                Found::Accepted { accepted, text } => {
                    (self.locked, self.current) = (false, false);
                    self.accepted = accepted;
                    self.serving = Arc::new(ConfigInForce {
                        text: text.map(Arc::from),
                        ..ConfigInForce::built_in(&self.extra, self.serving.loaded_at)
                    });
                }
                Found::New | Found::Closed { .. } => {}
            }
        } else if !self.fresh {
            let (accepted, text) = (self.accepted.clone(), self.serving.text.clone());
            // `save` returns an error only for `Word::Person`.
            let _ = self.save(&accepted, text.as_deref(), &Word::None);
        }
    }

    /// Stores the accepted configuration for the next start. A person's request fails if it cannot
    /// be stored.
    fn save(&mut self, accepted: &Accepted, text: Option<&str>, word: &Word) -> Result<(), Refusal> {
        if accepted.closed {
            return Ok(());
        }
        let Err(fault) = self.store.save(accepted, text) else { return Ok(()) };
        match word {
            Word::Person(_) => Err(Refusal::of_text(format!("the accepted configuration cannot be stored: {fault}"))),
            Word::None | Word::Plan { .. } => {
                self.log.error(format_args!(
                    "state/accepted.jsonl: {fault}; the next start will use the previously accepted configuration"
                ));
                Ok(())
            }
        }
    }

    fn judge(&mut self, word: &Word) -> Arrival {
        let mut bytes = atomic_file::read(&self.path);
        // If links have changed, the watch was moved to the new target. Read again, to include a
        // change before the watch was moved.
        if self.watch.follow(&self.path) {
            bytes = atomic_file::read(&self.path);
        }
        let bytes = match bytes {
            Ok(bytes) => bytes,
            // A file that never existed is not an error. If the file was removed, the old
            // configuration stays in force.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.serving.text.is_none() => {
                return Arrival::Same;
            }
            Err(error) => return Arrival::Refused(unreadable(&self.path, &error)),
        };
        match self.take(&bytes, word) {
            Ok(arrival) => arrival,
            Err(refusal) => Arrival::Refused(refusal),
        }
    }

    fn take(&mut self, bytes: &[u8], word: &Word) -> Result<Arrival, Refusal> {
        let text = utf8(bytes)?;
        let is_same = self.serving.text.as_deref() == Some(text);
        let surroundings = Surroundings { platform: Some(platform()), ..Surroundings::default() };
        let judged = match word {
            Word::None if self.fresh => held::load_accepted(text, &surroundings),
            Word::None if is_same && self.current => return Ok(Arrival::Same),
            Word::None => {
                if let Some(why) = self.serving.text.as_ref().and_then(|old| held::is_cut(old, text)) {
                    return Err(Refusal::of_text(format!(
                        "config.toml: {why}; if this is intended, run `conductor config accept`"
                    )));
                }
                held::load_held(text, &self.accepted, &surroundings)
            }
            Word::Person(hash) => {
                if hash.is_some_and(|it| it != Digest::of(bytes)) {
                    return Err(Refusal::of_text("config.toml changed while you were reading it; read it again"));
                }
                held::load_accepted(text, &surroundings)
            }
            Word::Plan { before, after } => {
                held::load_held(text, &self.accepted.with_plan(before, after), &surroundings)
            }
        };
        let now = Timestamp::from_millis(self.clock.wall_ms());
        let (mut serving, accepted) = serving(text, judged, &self.extra, now)?;
        if serving.waiting.held == self.serving.waiting.held && self.serving.waiting.since.is_some() {
            serving.waiting.since = self.serving.waiting.since;
        }
        if accepted.closed {
            serving.waiting.closed = self.serving.waiting.closed.clone();
        }
        self.save(&accepted, Some(text), word)?;
        serving.mark = self.store.mark().filter(|_| !accepted.closed).cloned();
        self.accepted = accepted;
        (self.fresh, self.current) = (false, true);
        self.locked &= self.accepted.closed;
        self.serving = Arc::new(serving);
        Ok(Arrival::Accepted(Arc::clone(&self.serving)))
    }

    fn answer(&self, arrival: &Arrival) -> Result<Reloaded, ToolError> {
        let changed = match arrival {
            Arrival::Accepted(_) => true,
            Arrival::Same => false,
            Arrival::Refused(refusal) => {
                return Err(ToolError::new(Code::BadInput, refusal.reason.clone())
                    .subject(Subject::Config("config.toml".into()))
                    .hint("The old configuration stays in force. Correct the file; it is read again automatically when it is saved."));
            }
        };
        let faults = self.serving.diagnostics.iter().filter(|it| it.severity == Severity::Error);
        Ok(Reloaded {
            hash: self.serving.hash_text(),
            changed,
            faults: faults.map(one_line).collect(),
            held: self.serving.waiting.held.names(),
        })
    }
}

/// The time at which a changed file is read: when it has not changed for `debounce`, and at the
/// latest at `latest`.
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
}
