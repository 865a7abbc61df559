//! Runs the engine with virtual time; outputs are recorded, not sent.

use super::effect::Effect;
use super::trace::{Trace, TraceRecord};
use super::{Engine, Facts, UnknownMode};
use crate::config::Config;
use crate::event::script::{Fault, Step, parse};
use crate::event::{Event, Micros, Taint};
use crate::mapping::table::Slots;

/// The reason why a script cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimError {
    /// Tokens that are not valid.
    Script(Vec<Fault>),
    /// A mode that does not exist.
    Mode(UnknownMode),
}

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The records of the trace.
    pub records: Vec<TraceRecord>,
    /// Every effect with its virtual time.
    pub effects: Vec<(Micros, Effect)>,
    /// The names of devices and ports.
    pub slots: Slots,
    /// Whether the result was truncated, because the script caused [`MAX_RECORDS`] records or
    /// effects.
    pub truncated: bool,
}

impl Simulation {
    /// One line per record.
    pub fn text(&self) -> String {
        self.records.iter().map(|it| it.line() + "\n").collect()
    }
}

/// The device of all events before the script names a device, if the configuration has no input
/// device.
const UNNAMED: &str = "sim";

/// Runs an event script against a configuration. After the script, time advances until no deadline
/// is left or a limit is reached.
pub fn simulate(config: &Config, script: &str, mode: Option<&str>) -> Result<Simulation, SimError> {
    simulate_with(config, script, mode, Facts::default())
}

/// Like [`simulate`], but with given facts for conditions.
pub fn simulate_with(config: &Config, script: &str, mode: Option<&str>, facts: Facts) -> Result<Simulation, SimError> {
    let steps = parse(script).map_err(SimError::Script)?;
    let mut slots = Slots::default();
    let mut now = Micros(0);
    let mut stage = Stage { engine: Engine::new(config, &mut slots, now), effects: Vec::new(), answered: 0 };
    *stage.engine.facts_mut() = facts;
    // The trace of a simulation has no size limit; `MAX_RECORDS` limits the number of its records.
    *stage.engine.trace_mut() = Trace::new(usize::MAX);
    if let Some(mode) = mode {
        stage.engine.switch_mode(mode, Taint::Clean, now, &mut Vec::new()).map_err(SimError::Mode)?;
    }
    let mut device = match config.devices.iter().find(|it| it.direction.has_input()) {
        Some(device) => slots.slot(&device.alias),
        None => slots.slot(UNNAMED),
    };
    for step in steps {
        if stage.is_full() {
            break;
        }
        match step {
            Step::Event(body) => {
                let event = Event { at: now, device, taint: Taint::Clean, hops: 0, body };
                stage.act(now, |engine, out| engine.feed(&event, out));
            }
            Step::Device(alias) => device = slots.slot(&alias),
            Step::Mode(name) => {
                stage
                    .act(now, |engine, out| engine.switch_mode(&name, Taint::Clean, now, out))
                    .map_err(SimError::Mode)?;
            }
            Step::Advance(by) => {
                now = Micros(now.0.saturating_add(by.0));
                stage.run_until(now);
            }
        }
    }
    // A `while_held` repetition may never end, so the time is limited.
    let horizon = Micros(now.0.saturating_add(24 * 3600 * 1_000_000));
    for _ in 0..MAX_DEADLINES {
        let Some(due) = stage.engine.next_deadline().filter(|it| *it <= horizon && !stage.is_full()) else { break };
        stage.run_until(due);
    }
    let records = stage.engine.traced(0, &slots).collect();
    let truncated = stage.is_full();
    Ok(Simulation { records, effects: stage.effects, slots, truncated })
}

/// The maximum number of deadlines that are processed after the end of a script.
const MAX_DEADLINES: usize = 10_000;
/// The maximum number of records and effects of one simulation. Without this limit, nested
/// repetitions could cause a billion of them.
const MAX_RECORDS: u64 = 50_000;

struct Stage {
    engine: Engine,
    effects: Vec<(Micros, Effect)>,
    /// The index of the first effect that has not been checked for calls.
    answered: usize,
}

impl Stage {
    fn act<R>(&mut self, now: Micros, act: impl FnOnce(&mut Engine, &mut Vec<Effect>) -> R) -> R {
        let mut out = Vec::new();
        let result = act(&mut self.engine, &mut out);
        self.effects.extend(out.drain(..).map(|it| (now, it.rendered())));
        // Calls are only recorded in a simulation. Answer each call at once, so that its sequence
        // continues.
        while let Some((_, effect)) = self.effects.get(self.answered) {
            self.answered += 1;
            if let Effect::Call(call) = effect {
                let ticket = call.ticket;
                self.engine.call_done(ticket, true, now, &mut out);
                self.effects.extend(out.drain(..).map(|it| (now, it.rendered())));
            }
        }
        result
    }

    fn is_full(&self) -> bool {
        self.engine.trace().next_seq() >= MAX_RECORDS || self.effects.len() as u64 >= MAX_RECORDS
    }

    fn run_until(&mut self, end: Micros) {
        while let Some(due) = self.engine.next_deadline().filter(|it| *it <= end && !self.is_full()) {
            self.act(due, |engine, out| engine.advance(due, out));
        }
        if !self.is_full() {
            self.act(end, |engine, out| engine.advance(end, out));
        }
    }
}
