//! One breaker per tool, and the guard that settles every permit.
//!
//! Not here: the breaker itself (`conductor_core::breaker`). State is not kept over a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conductor_core::breaker::{Breaker, Change, End, Open, Permit, Settings, State};
use conductor_core::error::{Code, Subject, ToolError};

use crate::outside::Clock;
use crate::studio::Studio;
use crate::tools::catalog::{Catalog, Tool};

struct Entry {
    breaker: Breaker,
    /// The last counted failure: what an open circuit names as its cause.
    cause: Option<(Code, String)>,
}

impl Entry {
    fn reset(&mut self) {
        self.breaker.reset();
        self.cause = None;
    }
}

pub struct Circuits {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitStatus {
    pub tool: String,
    pub state: State,
    pub failures_total: u64,
    pub trips_total: u64,
    pub cause: Option<(Code, String)>,
}

impl Circuits {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { entries: Arc::default(), clock }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().0 / 1000
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn peek(&self, tool: &str) -> Result<(), (Open, Option<(Code, String)>)> {
        match self.lock().get(tool) {
            None => Ok(()),
            Some(entry) => entry.breaker.peek(self.now_ms()).map_err(|open| (open, entry.cause.clone())),
        }
    }

    pub fn admit(&self, tool: &str, settings: Settings) -> Result<PermitGuard, (Open, Option<(Code, String)>)> {
        let mut entries = self.lock();
        let entry = match entries.get_mut(tool) {
            Some(entry) => entry,
            None => {
                entries.entry(tool.to_owned()).or_insert_with(|| Entry { breaker: Breaker::new(settings), cause: None })
            }
        };
        match entry.breaker.admit(self.now_ms()) {
            Ok(permit) => Ok(PermitGuard {
                entries: Arc::clone(&self.entries),
                clock: Arc::clone(&self.clock),
                tool: tool.to_owned(),
                permit: Some(permit),
            }),
            Err(open) => Err((open, entry.cause.clone())),
        }
    }

    /// Forgets one tool's failures; false when there was nothing to forget. The entry stays: its breaker remembers which permits are
    /// from before.
    pub fn reset(&self, tool: &str) -> bool {
        self.lock().get_mut(tool).map(Entry::reset).is_some()
    }

    pub fn reset_all(&self) {
        self.lock().values_mut().for_each(Entry::reset);
    }

    /// New settings from a reloaded file.
    pub fn reconfigure(&self, settings: impl Fn(&str) -> Settings) {
        for (tool, entry) in self.lock().iter_mut() {
            entry.breaker.reconfigure(settings(tool));
        }
    }

    /// A host came online: what failed for want of it may run again.
    pub fn reset_host(&self, catalog: &Catalog, host: &str) {
        let mut entries = self.lock();
        for tool in catalog.tools().filter(|tool| tool.host.as_deref() == Some(host)) {
            if let Some(entry) = entries.get_mut(tool.name.as_ref()) {
                entry.reset();
            }
        }
    }

    pub fn list(&self) -> Vec<CircuitStatus> {
        self.lock()
            .iter()
            .map(|(tool, entry)| CircuitStatus {
                tool: tool.clone(),
                state: entry.breaker.state(),
                failures_total: entry.breaker.failures_total(),
                trips_total: entry.breaker.trips_total(),
                cause: entry.cause.clone(),
            })
            .collect()
    }
}

/// Leave of the breaker for one call. Dropped without a word, by panic or cancel, it settles as cancelled: a lost probe would keep the
/// circuit open for ever.
pub struct PermitGuard {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
    clock: Arc<dyn Clock>,
    tool: String,
    permit: Option<Permit>,
}

impl PermitGuard {
    pub fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// Counts the call once, after its last attempt.
    pub fn settle(mut self, failed: Option<&ToolError>) -> Change {
        let end = match failed {
            Some(error) if error.code.counts_for_breaker() => End::Failed,
            // A refusal that does not count says nothing about the host either way for a probe, but the tool did answer.
            Some(_) | None => End::Good,
        };
        self.end(end, failed.filter(|error| error.code.counts_for_breaker()))
    }

    fn end(&mut self, end: End, cause: Option<&ToolError>) -> Change {
        let Some(permit) = self.permit.take() else { return Change::None };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.get_mut(&self.tool) else { return Change::None };
        if let Some(cause) = cause {
            entry.cause = Some((cause.code, cause.message.clone()));
        }
        entry.breaker.settle(permit, end, self.clock.now().0 / 1000)
    }
}

impl Drop for PermitGuard {
    fn drop(&mut self) {
        self.end(End::Cancelled, None);
    }
}

/// Step 7: before a person is asked, so that no yes is wasted.
pub fn peek(studio: &Studio, tool: &Tool) -> Result<(), super::Stop> {
    if tool.always {
        return Ok(());
    }
    studio.circuits.peek(&tool.name).map_err(|(open, cause)| refusal(tool, open, cause).into())
}

pub fn refusal(tool: &Tool, open: Open, cause: Option<(Code, String)>) -> ToolError {
    let seconds = open.retry_after_ms.div_ceil(1000);
    let error = ToolError::new(
        Code::CircuitOpen,
        format!("{} is off after {} failures. Try again in {seconds} s.", tool.name, open.failures),
    )
    .hint(format!("Wait {seconds} s and repeat the call, or use another tool."))
    .subject(Subject::Tool(tool.name.to_string()))
    .retry_after_ms(open.retry_after_ms);
    match cause {
        Some((code, message)) => error.cause(code, message),
        None => error,
    }
}
