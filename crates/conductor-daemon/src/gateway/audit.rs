//! The audit log of a running daemon. A damaged log stays closed until a person accepts the damage.
//! Until then the engine runs, but no tool is available. While the log is closed, the outcomes of
//! `conductor_panic` are kept in memory. They are written first when the log is open.
//!
//! Not here: the log itself (`audit_log`), and the check that a caller is a person
//! (`doors/control`).

use crate::log::Log;
use arc_swap::ArcSwap;
use conductor_core::audit::memory::{Place, Remembered};
use conductor_core::audit::record::{CallFacts, EventName, InputHash, InputHasher, OutcomeFacts};
use conductor_core::audit::{Entry, Head, Report, Stamp, Verdict};
use conductor_core::principal::Principal;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::audit_log::layout::Layout;
use conductor_gateway::audit_log::{self, AuditLog, Health, OpenError, Opened, Settings, keys, memory, walk};
use conductor_gateway::pipeline::record::AuditSink;
use conductor_gateway::secrets::KeychainNote;
use conductor_gateway::studio::events::{Event, Events};
use conductor_hosts::system::{Clock, Ids};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

/// The maximum number of outcomes of `conductor_panic` that are kept while no log is open.
const MAX_KEPT: usize = 64;
/// The longest time that a stop of the daemon waits for the keychain. It waits only if the keychain
/// has answered before.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// The name of the log's entry in the keychain.
pub const NOTE: &str = "audit";

enum State {
    Open { log: AuditLog, keychain: Option<Keychain> },
    Closed { reason: String, try_again: bool },
}

pub struct DaemonLog {
    home: PathBuf,
    settings: Settings,
    /// Present when the configuration uses the keychain.
    note: Option<KeychainNote>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    events: Arc<OnceLock<Arc<Events>>>,
    state: ArcSwap<State>,
    /// Outcomes of `conductor_panic` that are kept while no log is open, and the number of outcomes
    /// that were dropped because of the limit.
    kept: Mutex<(VecDeque<(Stamp, Entry)>, u64)>,
    no_salt: InputHasher,
    /// Locked while the log is being reopened.
    opening: Mutex<()>,
    log: Log,
}

impl DaemonLog {
    pub fn open(
        home: PathBuf,
        settings: Settings,
        note: Option<KeychainNote>,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
        log: &Log,
    ) -> Arc<Self> {
        let closed = State::Closed { reason: "the audit log is not open yet".to_owned(), try_again: false };
        let this = Arc::new(Self {
            home,
            settings,
            note,
            clock,
            ids,
            events: Arc::default(),
            state: ArcSwap::from_pointee(closed),
            kept: Mutex::default(),
            no_salt: InputHasher::new(&[0; 32]),
            opening: Mutex::default(),
            log: log.clone(),
        });
        if let Err(reason) = this.start() {
            log.error(format_args!("audit: {reason}; tool calls are refused"));
        }
        this
    }

    /// Sends each new checkpoint to the subscribers of `events`.
    pub fn send_checkpoints_to(&self, events: &Arc<Events>) {
        let _ = self.events.set(Arc::clone(events));
    }

    fn start(&self) -> Result<(), String> {
        let (clock, ids) = (self.clock.clone(), self.ids.clone());
        let (log, opened) = match AuditLog::open(&self.home, Arc::new(Disk), self.settings.clone(), clock, ids) {
            Ok(opened) => opened,
            Err(fault) => {
                let (reason, try_again) = match &fault {
                    OpenError::Refused(_) => (refusal(&fault), false),
                    OpenError::Key(keys::KeyError::Io(..)) | OpenError::Io(..) | OpenError::Thread(_) => {
                        (format!("the audit log cannot be opened: {fault}"), true)
                    }
                    OpenError::Key(_) => (format!("the audit log cannot be opened: {fault}"), false),
                };
                self.state.store(Arc::new(State::Closed { reason: reason.clone(), try_again }));
                return Err(reason);
            }
        };
        self.report(&opened);
        let keychain = self.note.clone().and_then(|note| Keychain::start(note, &log, &self.home, &self.log));
        let (events, lines) = (Arc::clone(&self.events), keychain.as_ref().map(|it| it.messages.clone()));
        log.on_checkpoint(move |head, line| {
            if let Some(events) = events.get() {
                events.send(Event::AuditCheckpoint(head));
            }
            if let Some(lines) = &lines {
                let _ = lines.send(Message::Remember(line.to_owned()));
            }
        });
        let (kept, lost) = std::mem::take(&mut *self.kept.lock());
        log.keep_for_retry(kept.into(), lost);
        self.state.store(Arc::new(State::Open { log, keychain }));
        Ok(())
    }

    fn report(&self, opened: &Opened) {
        for (call, tool) in &opened.unanswered {
            self.log.warn(format_args!(
                "audit: {tool} (call {call}) started before the last stop; it is unknown whether it took effect"
            ));
        }
        if let Some(bytes) = opened.torn_bytes {
            self.log.warn(format_args!(
                "audit: an incomplete record of {bytes} bytes at the end of the log was moved to another file"
            ));
        }
    }

    /// Whether the disk failed when the log was opened, so that another attempt may succeed.
    pub fn wants_another_try(&self) -> bool {
        matches!(&**self.state.load(), State::Closed { try_again: true, .. })
    }

    /// Tries to open the log again. Blocks on disk I/O.
    pub fn try_again(&self) {
        let _one = self.opening.lock();
        if self.wants_another_try() && self.start().is_ok() {
            self.log.info("audit: the log is open");
        }
    }

    pub fn head(&self) -> Option<Head> {
        match &**self.state.load() {
            State::Open { log, .. } => log.head(),
            State::Closed { .. } => None,
        }
    }

    /// The last record that is on the disk.
    pub fn durable(&self) -> Option<Head> {
        match &**self.state.load() {
            State::Open { log, .. } => log.durable(),
            State::Closed { .. } => None,
        }
    }

    /// The last record that a witness of the log must have.
    pub fn last_published(&self) -> Option<u64> {
        match &**self.state.load() {
            State::Open { log, .. } => log.last_published(),
            State::Closed { .. } => None,
        }
    }

    pub fn home(&self) -> &std::path::Path {
        &self.home
    }

    /// Whether `state/` contains a stored checkpoint.
    pub fn is_remembered(&self) -> bool {
        memory::recall(&Disk, &Layout::of(&self.home), None).is_ok_and(|found| !found.is_empty())
    }

    /// Syncs and signs the end of the log, and stores the checkpoint. Blocks until the
    /// disk has synced twice.
    pub fn stop(&self) {
        if let State::Open { log, keychain } = &**self.state.load() {
            log.stop();
            if let Some(keychain) = keychain {
                keychain.stop();
            }
        }
    }

    /// Continues the log after a person has accepted the damage. Blocks on disk I/O and the
    /// keychain.
    pub fn accept(&self, by: &Principal) -> Result<(Head, Report), String> {
        let _one = self.opening.lock();
        let (remembered, _) =
            recall(&self.home, &self.settings, self.note.as_ref()).map_err(|fault| fault.to_string())?;
        let layout = Layout::of(&self.home);
        let key = keys::public_key(&Disk, &layout).ok().flatten();
        let report = walk::verify(&Disk, &layout, key.as_ref(), None, &remembered, &mut |_| {})
            .map_err(|fault| fault.to_string())?;
        if matches!(report.verdict, Verdict::Intact | Verdict::Torn) && self.up().is_ok() {
            return Err("there is nothing to accept".to_owned());
        }
        let mut owed = Vec::new();
        if let State::Open { log, .. } = &**self.state.load() {
            owed = log.take_unwritten();
            log.stop();
        }
        let copy_to = self.settings.copy_to.as_deref();
        let place = (self.home.as_path(), copy_to);
        let accepted = audit_log::accept(place, &Disk, &*self.clock, &*self.ids, by, (&report, &remembered));
        let (head, line) = match accepted {
            Ok(accepted) => accepted,
            Err(fault) => {
                // Load the log again. It stays closed for the same reason as before.
                let _ = self.start();
                return Err(fault.to_string());
            }
        };
        if let Some(note) = &self.note {
            // If the keychain does not answer now, the checkpoint is written at the next start.
            let _ = note.write(&line);
        }
        self.kept.lock().0.extend(owed);
        self.start()?;
        self.log.info(format_args!("audit: {by} accepted a log with the verdict {}", report.verdict));
        Ok((head, report))
    }
}

fn refusal(fault: &dyn std::fmt::Display) -> String {
    format!("{fault}; check it with `conductor audit verify`, then continue with `conductor audit accept-rollback`")
}

/// The checkpoints that are stored in all places. If the keychain is used but cannot be read, also
/// returns the reason.
pub fn recall(
    home: &std::path::Path,
    settings: &Settings,
    note: Option<&KeychainNote>,
) -> std::io::Result<(Vec<Remembered>, Option<String>)> {
    let mut remembered = memory::recall(&Disk, &Layout::of(home), settings.copy_to.as_deref())?;
    let silent = match note.map(KeychainNote::read) {
        Some(Ok(text)) => {
            remembered.extend(Remembered::new(Place::Keychain, &text));
            None
        }
        Some(Err(why)) => Some(why),
        None => None,
    };
    Ok((remembered, silent))
}

enum Message {
    Remember(String),
    Stop(mpsc::SyncSender<()>),
}

/// Stores checkpoints in the keychain, on a separate thread, because the keychain may be slow.
/// Calls wait only until the first read of the keychain is done.
struct Keychain {
    messages: mpsc::Sender<Message>,
    answers: Arc<AtomicBool>,
}

impl Keychain {
    fn start(note: KeychainNote, log: &AuditLog, home: &std::path::Path, daemon_log: &Log) -> Option<Self> {
        let (messages, inbox) = mpsc::channel();
        let answers = Arc::new(AtomicBool::new(false));
        let end = log.head();
        log.hold();
        let (opened, home, daemon_log, noted) =
            (log.clone(), home.to_owned(), daemon_log.clone(), Arc::clone(&answers));
        let thread = std::thread::Builder::new().name("audit memory".into()).spawn(move || {
            let found = note.read().map(|text| Remembered::new(Place::Keychain, &text));
            let agrees = match found {
                // The keychain is locked or missing, but other places store the checkpoint. The
                // keychain is not used again until the next start, because a thread that waits for
                // a keychain cannot be stopped.
                Err(_) => false,
                Ok(None) => true,
                Ok(Some(memory)) => match walk::checkpoints(&Disk, &Layout::of(&home)) {
                    Err(_) => false,
                    Ok(signed) => match memory.fault(&signed, end) {
                        None => true,
                        Some(fault) => {
                            let reason = refusal(&format_args!("the audit log is {fault}"));
                            daemon_log.error(format_args!("audit: {reason}; tool calls are refused"));
                            opened.refuse(&reason);
                            false
                        }
                    },
                },
            };
            noted.store(agrees, Ordering::Release);
            opened.settle();
            // Release the log here, because this thread may live longer than the log.
            drop(opened);
            if agrees {
                remember(&note, &inbox, &noted);
            }
        });
        match thread {
            Ok(_) => Some(Self { messages, answers }),
            Err(_) => {
                log.settle();
                None
            }
        }
    }

    /// Waits up to `STOP_WAIT` until the last checkpoint is stored.
    fn stop(&self) {
        let (done, heard) = mpsc::sync_channel(1);
        if self.answers.load(Ordering::Acquire) && self.messages.send(Message::Stop(done)).is_ok() {
            let _ = heard.recv_timeout(STOP_WAIT);
        }
    }
}

/// Stores the newest checkpoint received. Ends on `Stop`, or after the first keychain error.
fn remember(note: &KeychainNote, inbox: &mpsc::Receiver<Message>, answers: &AtomicBool) {
    while let Ok(first) = inbox.recv() {
        let (mut newest, mut stop) = (None, None);
        for message in std::iter::once(first).chain(inbox.try_iter()) {
            match message {
                Message::Remember(line) => newest = Some(line),
                Message::Stop(done) => stop = Some(done),
            }
        }
        let kept = newest.is_none_or(|line| note.write(&line).is_ok());
        if let Some(done) = stop {
            let _ = done.send(());
        } else if kept {
            continue;
        }
        answers.store(false, Ordering::Release);
        return;
    }
}

impl AuditSink for DaemonLog {
    fn up(&self) -> Result<(), String> {
        match &**self.state.load() {
            State::Open { log, .. } => AuditSink::up(log),
            State::Closed { reason, .. } => Err(reason.clone()),
        }
    }

    fn health(&self) -> Option<Health> {
        match &**self.state.load() {
            State::Open { log, .. } => Some(AuditLog::health(log)),
            State::Closed { .. } => None,
        }
    }

    fn hash_input(&self, arguments: &Value) -> InputHash {
        match &**self.state.load() {
            State::Open { log, .. } => log.input_hash(arguments),
            State::Closed { .. } => self.no_salt.hash(arguments),
        }
    }

    fn intent(&self, facts: CallFacts) -> BoxFuture<'static, Result<u64, String>> {
        match &**self.state.load() {
            State::Open { log, .. } => AuditSink::intent(log, facts),
            State::Closed { reason, .. } => Box::pin(std::future::ready(Err(reason.clone()))),
        }
    }

    fn outcome(
        &self,
        facts: CallFacts,
        outcome: OutcomeFacts,
        durable: bool,
    ) -> BoxFuture<'static, Result<(), String>> {
        match &**self.state.load() {
            State::Open { log, .. } => AuditSink::outcome(log, facts, outcome, durable),
            State::Closed { reason, .. } => Box::pin(std::future::ready(Err(reason.clone()))),
        }
    }

    fn keep(&self, facts: CallFacts, outcome: OutcomeFacts) -> bool {
        if let State::Open { log, .. } = &**self.state.load() {
            return log.keep_outcome(facts, outcome);
        }
        let mut kept = self.kept.lock();
        if kept.0.len() >= MAX_KEPT {
            kept.1 += 1;
            return false;
        }
        let stamp = audit_log::stamp(&*self.clock, &*self.ids);
        kept.0.push_back((stamp, Entry::Outcome(facts, outcome)));
        true
    }

    fn event(
        &self,
        principal: Option<Principal>,
        event: EventName,
        detail: Value,
    ) -> BoxFuture<'static, Result<(), String>> {
        match &**self.state.load() {
            State::Open { log, .. } => AuditSink::event(log, principal, event, detail),
            State::Closed { reason, .. } => Box::pin(std::future::ready(Err(reason.clone()))),
        }
    }
}
