//! One circuit breaker per tool and target. A guard reports the end of every call to its breaker.
//!
//! Because each target has its own breaker, a missing port or a hanging host does not switch the
//! tool off for other targets. The state is lost on restart. Not here: the breaker itself
//! (`conductor_core::breaker`), and the target of a call (`catalog::Target`).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use conductor_core::breaker::{Breaker, Change, End, Open, Permit, Settings, State};
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::text;

use super::call::Call;
use crate::catalog::{Catalog, Target, Tool};
use crate::studio::Studio;
use conductor_hosts::system::Clock;

/// Maximum number of targets of one tool with a separate breaker. The number is bounded because
/// callers choose the targets.
const MOST_TARGETS: usize = 64;
/// Name of the breaker that all further targets share.
const OTHERS: &str = "others";
/// Maximum number of characters of a target's name that are stored.
const LONGEST_NAME: usize = 200;

struct Entry {
    breaker: Breaker,
    /// The last counted failure, which an open circuit reports as its cause.
    cause: Option<(Code, String)>,
}

impl Entry {
    fn reset(&mut self) {
        self.breaker.reset();
        self.cause = None;
    }
}

/// The breakers of one tool. Calls without a target use the breaker with the empty name.
#[derive(Default)]
struct Circuit {
    targets: BTreeMap<String, Entry>,
    // Totals of the tool. They are stored separately, because the entry of a target may be dropped
    // together with its counts.
    failures_total: u64,
    trips_total: u64,
}

impl Circuit {
    /// The breaker for this target. If the tool has the maximum number of breakers, a new one
    /// replaces a breaker in state `Passing`; without such a breaker, the target shares [`OTHERS`].
    fn entry(&mut self, target: &str, settings: Settings) -> (String, &mut Entry) {
        let mut name = target;
        if !self.targets.contains_key(name) && self.targets.len() >= MOST_TARGETS {
            let idle = |(name, entry): (&String, &Entry)| {
                (name != OTHERS && entry.breaker.state() == State::Passing).then(|| name.clone())
            };
            match self.targets.iter().find_map(idle) {
                Some(idle) => drop(self.targets.remove(&idle)),
                None => name = OTHERS,
            }
        }
        let entry = self
            .targets
            .entry(name.to_owned())
            .or_insert_with(|| Entry { breaker: Breaker::new(settings), cause: None });
        (name.to_owned(), entry)
    }

    fn find(&self, target: &str) -> Option<&Entry> {
        let full = self.targets.len() >= MOST_TARGETS;
        self.targets.get(target).or_else(|| self.targets.get(OTHERS).filter(|_| full))
    }
}

type Tools = Arc<Mutex<BTreeMap<String, Circuit>>>;

pub struct Circuits {
    tools: Tools,
    clock: Arc<dyn Clock>,
}

/// Report about one tool: the worst state of its targets, and the sums of their counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitStatus {
    pub tool: String,
    pub state: State,
    pub failures_total: u64,
    pub trips_total: u64,
    /// The last failure of calls without a target.
    pub cause: Option<(Code, String)>,
    pub targets: Vec<TargetStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetStatus {
    pub target: String,
    pub state: State,
    pub failures_total: u64,
    pub trips_total: u64,
    pub cause: Option<(Code, String)>,
}

/// The open circuit, and the failure that opened it.
type CircuitOpenError = (Open, Option<(Code, String)>);

impl Circuits {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { tools: Arc::default(), clock }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().0 / 1000
    }

    pub fn peek(&self, tool: &str, target: &str) -> Result<(), CircuitOpenError> {
        match self.tools.lock().get(tool).and_then(|it| it.find(target)) {
            None => Ok(()),
            Some(entry) => entry.breaker.peek(self.now_ms()).map_err(|open| (open, entry.cause.clone())),
        }
    }

    pub fn admit(&self, tool: &str, target: &str, settings: Settings) -> Result<PermitGuard, CircuitOpenError> {
        let mut tools = self.tools.lock();
        let circuit = match tools.get_mut(tool) {
            Some(circuit) => circuit,
            None => tools.entry(tool.to_owned()).or_default(),
        };
        let (target, entry) = circuit.entry(target, settings);
        match entry.breaker.admit(self.now_ms()) {
            Ok(permit) => Ok(PermitGuard {
                tools: Arc::clone(&self.tools),
                clock: Arc::clone(&self.clock),
                tool: tool.to_owned(),
                target,
                permit: Some(permit),
            }),
            Err(open) => Err((open, entry.cause.clone())),
        }
    }

    /// Resets one tool's breakers. Returns false if the tool has none. The entries stay, because a
    /// breaker must recognise permits from before the reset.
    pub fn reset(&self, tool: &str) -> bool {
        self.tools.lock().get_mut(tool).map(|it| it.targets.values_mut().for_each(Entry::reset)).is_some()
    }

    pub fn reset_all(&self) {
        self.tools.lock().values_mut().flat_map(|it| it.targets.values_mut()).for_each(Entry::reset);
    }

    /// Applies the settings of a reloaded file.
    pub fn reconfigure(&self, settings: impl Fn(&str) -> Settings) {
        for (tool, circuit) in self.tools.lock().iter_mut() {
            circuit.targets.values_mut().for_each(|it| it.breaker.reconfigure(settings(tool)));
        }
    }

    /// Resets the breakers of all tools of a host that came online.
    pub fn reset_host(&self, catalog: &Catalog, host: &str) {
        for tool in catalog.tools().filter(|tool| tool.host.as_deref() == Some(host)) {
            self.reset(&tool.name);
        }
    }

    pub fn list(&self) -> Vec<CircuitStatus> {
        let status = |(tool, circuit): (&String, &Circuit)| CircuitStatus {
            tool: tool.clone(),
            state: worst(circuit.targets.values().map(|it| it.breaker.state())),
            failures_total: circuit.failures_total,
            trips_total: circuit.trips_total,
            cause: circuit.targets.get("").and_then(|it| it.cause.clone()),
            targets: circuit
                .targets
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, entry)| TargetStatus {
                    target: name.clone(),
                    state: entry.breaker.state(),
                    failures_total: entry.breaker.failures_total(),
                    trips_total: entry.breaker.trips_total(),
                    cause: entry.cause.clone(),
                })
                .collect(),
        };
        self.tools.lock().iter().map(status).collect()
    }
}

fn worst(states: impl Iterator<Item = State>) -> State {
    let rank = |it: &State| match it {
        State::Passing => 0,
        State::Probing => 1,
        State::Tripped => 2,
    };
    states.max_by_key(rank).unwrap_or(State::Passing)
}

/// A breaker's permit for one call. A permit that is dropped by a panic or a cancel is settled as
/// cancelled. Otherwise a lost probe would keep the circuit open forever.
pub struct PermitGuard {
    tools: Tools,
    clock: Arc<dyn Clock>,
    tool: String,
    target: String,
    permit: Option<Permit>,
}

impl PermitGuard {
    pub fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// The target of the breaker; empty for the tool itself.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Counts the call once, after its last attempt.
    pub fn settle(&mut self, failed: Option<&ToolError>) -> Change {
        let end = match failed {
            Some(error) if error.code.counts_for_breaker() => End::Failed,
            // An error that does not count as a failure proves that the tool responds.
            Some(_) | None => End::Good,
        };
        self.end(end, failed.filter(|error| error.code.counts_for_breaker()))
    }

    fn end(&mut self, end: End, cause: Option<&ToolError>) -> Change {
        let Some(permit) = self.permit.take() else { return Change::None };
        let mut tools = self.tools.lock();
        let Some(circuit) = tools.get_mut(&self.tool) else { return Change::None };
        circuit.failures_total += u64::from(end == End::Failed);
        let Some(entry) = circuit.targets.get_mut(&self.target) else { return Change::None };
        if let Some(cause) = cause {
            entry.cause = Some((cause.code, cause.message.clone()));
        }
        let change = entry.breaker.settle(permit, end, self.clock.now().0 / 1000);
        circuit.trips_total += u64::from(change == Change::Tripped);
        change
    }
}

impl Drop for PermitGuard {
    fn drop(&mut self) {
        self.end(End::Cancelled, None);
    }
}

/// The name of the breaker that counts calls with this target.
fn name(target: &Target) -> String {
    text::escape(&text::middle(target.key.as_deref().unwrap_or_default(), LONGEST_NAME)).into_owned()
}

/// Step 7: checks the breaker before a person is asked, so that no approval is wasted.
pub fn peek(studio: &Studio, tool: &Tool, call: &Call, target: &Target) -> Result<(), super::Stop> {
    if tool.is_exempt(&call.principal) {
        return Ok(());
    }
    let name = name(target);
    studio.circuits.peek(&tool.name, &name).map_err(|refused| refusal(tool, &name, refused).into())
}

/// Requests the permit for one call.
pub fn admit(studio: &Studio, tool: &Tool, target: &Target) -> Result<PermitGuard, super::Stop> {
    let name = name(target);
    let settings = studio.settings().circuit.of(&tool.name);
    studio.circuits.admit(&tool.name, &name, settings).map_err(|refused| refusal(tool, &name, refused).into())
}

fn refusal(tool: &Tool, target: &str, (open, cause): CircuitOpenError) -> ToolError {
    let seconds = open.retry_after_ms.div_ceil(1000);
    let (for_target, other) =
        if target.is_empty() { (String::new(), "tool") } else { (format!(" for {target}"), "target or tool") };
    let error = ToolError::new(
        Code::CircuitOpen,
        format!("{} is disabled{for_target} after {} failures. Try again in {seconds} s.", tool.name, open.failures),
    )
    .hint(format!("Wait {seconds} s and repeat the call, or use another {other}."))
    .subject(Subject::Tool(tool.name.to_string()))
    .retry_after_ms(open.retry_after_ms);
    match cause {
        Some((code, message)) => error.cause(code, message),
        None => error,
    }
}
