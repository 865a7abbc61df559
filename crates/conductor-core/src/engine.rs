//! The whole way from an event to its effects, as one pure state machine: gestures, matching,
//! actions with their timers, continuous bindings, routes, and the ledger that lets nothing stick.
//! `feed` events in order of time, `advance` to the next deadline, carry the effects out.
//!
//! Not here: devices, threads, clocks, and carrying effects out (the shell's `daemon` and `hosts`).

mod actions;
pub mod continuous;
pub mod curves;
pub mod effect;
pub mod explain;
mod ledger;
mod route;
mod shown;
pub mod sim;
pub(crate) mod thresholds;
pub mod trace;
mod values;

pub use continuous::Reading;
pub use effect::{CallTicket, Effect, MappingCall, MappingRef, Placeholders, Stroke};
pub use explain::{Explanation, explain};
pub use sim::{SimError, simulate};
pub use trace::{Outcome, Trace, TraceRecord};

use crate::config::Config;
use crate::event::assemble::Assembler;
use crate::event::echo::Echo;
use crate::event::returns::Returns;
use crate::event::{Axis, Body, DeviceSlot, Event, Micros, Taint, Trail};
use crate::gesture::{Deadline, GestureCx, GestureEvent, Gestures, PressInfo};
use crate::mapping::Target;
use crate::mapping::table::{BindingId, CompiledCondition, CompiledTarget, ModeIndex, Row, RowId, Slots, Tables};
use crate::timer::Timers;
use actions::Runs;
use continuous::{Selected, State};
use ledger::{EntryId, Held, Ledger, Owner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thresholds::Memory;
use trace::Record;

/// What conditions read. The shell's workers keep it fresh; the engine never looks for itself.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub running_apps: BTreeSet<String>,
    pub frontmost_app: Option<String>,
    /// Minutes after midnight, local time.
    pub minute_of_day: u16,
    /// 1 is Monday.
    pub weekday: u8,
    pub connected: BTreeSet<u16>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PanicReport {
    pub notes_released: usize,
    pub keys_released: usize,
    pub actions_cancelled: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub events: u64,
    pub actions: u64,
    pub actions_failed: u64,
    pub routed: u64,
    /// Events that a route would have taken, had they not been sent on too often.
    pub over_hops: u64,
}

/// Why a ring ends.
const TOO_FAR: &str = "it was sent on as often as max_route_depth allows";

/// A mode that the configuration does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMode {
    pub asked: String,
    pub known: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    Gesture(Deadline),
    Run { run: u64 },
    NoteEnd(EntryId),
    Flush(BindingId),
    StickRepeat { device: DeviceSlot, row: RowId, trail: Trail },
}

impl From<Deadline> for Timer {
    fn from(deadline: Deadline) -> Self {
        Timer::Gesture(deadline)
    }
}

/// What a device said last, for gates, sticks and banks.
#[derive(Debug, Default)]
struct DeviceState {
    /// As a person or a tool said in this run; absent: as the file says.
    muted: Option<bool>,
    assembler: Assembler,
    last: Option<Box<LastValues>>,
    axes: [f64; 4],
}

#[derive(Debug)]
struct LastValues {
    cc: [[u8; 128]; 16],
    poly: [[u8; 128]; 16],
    pressure: [u8; 16],
    bend: [u16; 16],
    pull: [u8; 2],
}

const UNHEARD: u8 = 0xFF;

impl Default for LastValues {
    fn default() -> Self {
        LastValues {
            cc: [[UNHEARD; 128]; 16],
            poly: [[UNHEARD; 128]; 16],
            pressure: [UNHEARD; 16],
            bend: [u16::MAX; 16],
            pull: [UNHEARD; 2],
        }
    }
}

/// What an action may need to know of what set it off.
#[derive(Clone, Debug)]
struct Context {
    gesture: &'static str,
    tap: Option<PressInfo>,
    device: DeviceSlot,
    /// What a forward sends on.
    body: Option<Body>,
    trail: Trail,
    values: Placeholders,
}

pub struct Engine {
    tables: Arc<Tables>,
    mode: ModeIndex,
    /// Who chose the mode: lights that change with it are no hand's either.
    mode_by: Taint,
    now: Micros,
    gestures: Gestures,
    timers: Timers<Timer>,
    found: Vec<GestureEvent>,
    devices: Vec<DeviceState>,
    /// Per stateful rule, what it remembers of each control it hears.
    memories: Vec<Vec<Memory>>,
    bindings: Vec<State>,
    selected: Vec<(DeviceSlot, u8, Selected)>,
    ledger: Ledger,
    runs: Runs,
    /// What was sent without a hand, to whatever port: it may come back anywhere.
    returns: Returns,
    /// What was sent to devices that ask for the guard.
    guarded: BTreeMap<DeviceSlot, Echo>,
    facts: Facts,
    trace: Trace,
    learning: bool,
    shown: shown::Shown,
    counters: Counters,
}

impl Engine {
    pub fn new(config: &Config, slots: &mut Slots, now: Micros) -> Self {
        let tables = Arc::new(Tables::compile(config, slots));
        let mut hands = Engine {
            mode: tables.default_mode,
            mode_by: Taint::Clean,
            now,
            gestures: Gestures::default(),
            timers: Timers::default(),
            found: Vec::with_capacity(16),
            devices: Vec::new(),
            memories: Vec::new(),
            bindings: Vec::new(),
            selected: Vec::new(),
            ledger: Ledger::default(),
            runs: Runs::default(),
            returns: Returns::default(),
            guarded: BTreeMap::new(),
            facts: Facts::default(),
            trace: Trace::new(tables.advanced.trace_buffer_size as usize),
            learning: false,
            shown: shown::Shown::default(),
            counters: Counters::default(),
            tables,
        };
        hands.fresh_states();
        hands
    }

    fn fresh_states(&mut self) {
        self.memories = vec![Vec::new(); self.tables.states];
        self.bindings = vec![State::default(); self.tables.bindings.len()];
    }

    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    pub fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// The taint of whatever chose the mode.
    pub fn mode_by(&self) -> Taint {
        self.mode_by
    }

    pub fn mode(&self) -> (ModeIndex, &Arc<str>) {
        (self.mode, self.tables.mode_name(self.mode))
    }

    pub fn next_deadline(&self) -> Option<Micros> {
        self.timers.next()
    }

    /// Whether nothing is held, pending or running.
    pub fn is_quiet(&self) -> bool {
        self.ledger.is_empty() && self.gestures.pending() == 0 && self.runs.is_empty()
    }

    pub fn pending_chord_members(&self) -> usize {
        self.gestures.chord_members()
    }

    /// While learning, gestures are found and traced but their actions are held back.
    pub fn set_learning(&mut self, learning: bool) {
        self.learning = learning;
    }

    /// Everything that was due by `now`, in order.
    pub fn advance(&mut self, now: Micros, out: &mut Vec<Effect>) {
        while let Some((at, timer)) = self.timers.pop(now) {
            self.now = self.now.max(at);
            self.ledger.set_now(self.now);
            match timer {
                Timer::Gesture(deadline) => {
                    self.with_gestures(|gestures, around| gestures.deadline(deadline, around));
                    self.act_on_found(out);
                }
                Timer::Run { run } => self.resume(run, out),
                Timer::NoteEnd(entry) => self.ledger.end(entry, out),
                Timer::Flush(binding) => self.flush(binding, out),
                Timer::StickRepeat { device, row, trail } => self.stick_repeat(device, row, trail, out),
            }
        }
        self.set_now(now);
    }

    fn set_now(&mut self, now: Micros) {
        self.now = self.now.max(now);
        self.ledger.set_now(self.now);
    }

    /// One event. Deadlines up to its time stamp come first, so that the outcome does not depend on
    /// who polled when.
    pub fn feed(&mut self, event: &Event, out: &mut Vec<Effect>) {
        self.advance(event.at, out);
        self.counters.events += 1;
        let facts = self.tables.facts(event.device);
        if self.is_muted(event.device) {
            return self.note_outcome(event, "", Outcome::Muted, "the device is muted");
        }
        if channel_of(&event.body).is_some_and(|channel| facts.channels & (1 << (channel & 15)) == 0) {
            return self.note_outcome(event, "", Outcome::NoMatch, "the device does not listen on this channel");
        }
        let mut tainted;
        let returned = self.returns.is_return(event.at, &event.body);
        let guard = self.guarded.get_mut(&event.device).filter(|_| facts.echo_guard && !returned);
        if guard.is_some_and(|it| it.swallow(self.now, &event.body)) {
            return self.note_outcome(event, "", Outcome::NoMatch, "an echo of what was just sent");
        }
        let event = if returned {
            tainted = event.clone();
            tainted.taint = Taint::Tool;
            &tainted
        } else {
            event
        };
        let stray = matches!(event.body, Body::NoteOff { .. } | Body::ButtonUp(_)) && !self.gestures.knows(event);
        if stray {
            self.note_outcome(event, "Release", Outcome::NoMatch, "the key was not down");
            return self.route(event, None, out);
        }
        if self.with_gestures(|gestures, around| gestures.feed(event, around)) {
            self.act_on_found(out);
        } else {
            self.feed_value(event, out);
        }
    }

    fn with_gestures<R>(&mut self, act: impl FnOnce(&mut Gestures, &mut GestureCx<'_, Timer>) -> R) -> R {
        let mut around = GestureCx {
            tables: &self.tables,
            mode: self.mode,
            now: self.now,
            timers: &mut self.timers,
            found: &mut self.found,
        };
        act(&mut self.gestures, &mut around)
    }

    fn act_on_found(&mut self, out: &mut Vec<Effect>) {
        let mut found = std::mem::take(&mut self.found);
        for found in found.drain(..) {
            self.act_on(found, out);
        }
        self.found = found;
    }

    fn act_on(&mut self, found: GestureEvent, out: &mut Vec<Effect>) {
        match found {
            GestureEvent::Press { tap, row } => self.gesture_fires(tap, row, "", out),
            GestureEvent::Release { tap, row } => self.gesture_fires(tap, row, "Release", out),
            GestureEvent::Long { tap, row } | GestureEvent::Double { tap, row } | GestureEvent::Chord { tap, row } => {
                self.gesture_fires(tap, row, "", out);
            }
            GestureEvent::Deferred { tap } => self.note_tap(&tap, Outcome::Deferred, "waits for a longer gesture"),
            GestureEvent::Cancelled { tap } => {
                self.note_tap(&tap, Outcome::Cancelled, "a reload or the loss of its device")
            }
            GestureEvent::Unmatched { tap } => {
                self.note_tap(&tap, Outcome::NoMatch, "");
                let event =
                    Event { at: tap.at, device: tap.key.device, taint: tap.taint, hops: tap.hops, body: tap.body() };
                self.route(&event, Some(&tap), out);
            }
            GestureEvent::Up { tap } => {
                self.ledger.end_press(tap.id, tap.taint, out);
                self.runs.released(tap.id);
                self.shown.released(tap.id);
            }
        }
    }

    fn gesture_fires(&mut self, tap: PressInfo, row: RowId, gesture: &'static str, out: &mut Vec<Effect>) {
        let tables = Arc::clone(&self.tables);
        let rule = tables.row(row.0);
        let note = tap.key.channel().map(|_| tap.key.number);
        let context = Context {
            gesture: if gesture.is_empty() { rule.trigger.kind.name() } else { gesture },
            tap: Some(tap),
            device: tap.key.device,
            body: Some(tap.body()),
            trail: Trail { taint: tap.taint, hops: tap.hops },
            values: Placeholders {
                velocity: Some(tap.velocity),
                value: Some(f64::from(tap.velocity)),
                unit: Some(f64::from(tap.velocity) / 127.0),
                note,
                channel: tap.key.channel(),
            },
        };
        if rule.let_through {
            let event =
                Event { at: tap.at, device: tap.key.device, taint: tap.taint, hops: tap.hops, body: tap.body() };
            self.route(&event, Some(&tap), out);
        }
        self.fire(row, rule.action_for(tap.velocity), context, out);
    }

    fn device(&mut self, slot: DeviceSlot) -> &mut DeviceState {
        let at = usize::from(slot.0);
        if self.devices.len() <= at {
            self.devices.resize_with(at + 1, DeviceState::default);
        }
        &mut self.devices[at]
    }

    // From outside.

    /// `by` is what asks for it.
    pub fn switch_mode(
        &mut self,
        name: &str,
        by: Taint,
        now: Micros,
        out: &mut Vec<Effect>,
    ) -> Result<ModeIndex, UnknownMode> {
        self.advance(now, out);
        let Some(mode) = self.tables.mode_named(name) else {
            let known = self.tables.mode_names.iter().map(|it| it.to_string()).collect();
            return Err(UnknownMode { asked: name.to_owned(), known });
        };
        self.enter_mode(mode, by, out);
        Ok(mode)
    }

    fn enter_mode(&mut self, mode: ModeIndex, by: Taint, out: &mut Vec<Effect>) {
        if mode == self.mode {
            return;
        }
        self.mode_by = by;
        let from = std::mem::replace(&mut self.mode, mode);
        self.bindings.iter_mut().for_each(State::rearm);
        out.push(Effect::ModeChanged { from, to: mode });
    }

    /// Swaps all tables at once. Pending gestures are taken back; what a mapping holds goes on only
    /// if the mapping is unchanged.
    pub fn reload(&mut self, config: &Config, slots: &mut Slots, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.with_gestures(|gestures, around| gestures.cancel_pending(around));
        self.act_on_found(out);
        let old = Arc::clone(&self.tables);
        let new = Arc::new(Tables::compile(config, slots));
        let unchanged = |mapping: &MappingRef| match (find_row(&old, mapping), find_row(&new, mapping)) {
            (Some(before), Some(after)) => before.written == after.written,
            (Some(_), None) | (None, Some(_)) | (None, None) => false,
        };
        self.ledger.end_mappings(unchanged, out);
        self.runs.cancel_all(&mut self.timers);
        self.timers.retain(|timer| match timer {
            // Notes with a duration still end at their time; an entry that ended early makes its
            // timer a no-op.
            Timer::NoteEnd(_) => true,
            Timer::Gesture(_) | Timer::Run { .. } | Timer::Flush(_) | Timer::StickRepeat { .. } => false,
        });
        self.flush_all(out);
        let name = Arc::clone(old.mode_name(self.mode));
        self.trace.resize(new.advanced.trace_buffer_size as usize);
        self.tables = new;
        self.shown.clear();
        self.fresh_states();
        let mode = self.tables.mode_named(&name).unwrap_or(self.tables.default_mode);
        if self.tables.mode_name(mode) != &name {
            out.push(Effect::ModeChanged { from: self.mode, to: mode });
        }
        self.mode = mode;
    }

    /// The source is gone: what it held ends, what it had begun is taken back.
    pub fn device_lost(&mut self, device: DeviceSlot, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.let_go(device, out);
        self.facts.connected.remove(&device.0);
        let state = self.device(device);
        state.assembler.reset();
        state.last = None;
        state.axes = [0.0; 4];
    }

    pub fn device_back(&mut self, device: DeviceSlot, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.facts.connected.insert(device.0);
        self.bindings.iter_mut().for_each(State::rearm);
    }

    pub fn set_muted(&mut self, device: DeviceSlot, muted: bool, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        if muted {
            self.let_go(device, out);
        }
        self.device(device).muted = Some(muted);
    }

    /// By a word of this run, else by the file.
    pub fn is_muted(&self, device: DeviceSlot) -> bool {
        let said = self.devices.get(usize::from(device.0)).and_then(|it| it.muted);
        said.unwrap_or(!self.tables.facts(device).enabled)
    }

    fn let_go(&mut self, device: DeviceSlot, out: &mut Vec<Effect>) {
        self.with_gestures(|gestures, around| gestures.drop_device(device, around));
        self.act_on_found(out);
        self.ledger.end_source(device, out);
        for memory in self.memories.iter_mut() {
            memory.retain(|it| it.device != device);
        }
        self.timers.retain(|timer| !matches!(timer, Timer::StickRepeat { device: it, .. } if *it == device));
    }

    pub fn output_lost(&mut self, port: DeviceSlot, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        // Lost ports are found by a scan at the latest.
        let unnoticed_us = (u64::from(self.tables.advanced.scan_interval_ms) * 2 + 1000) * 1000;
        self.ledger.port_lost(port, unnoticed_us);
    }

    /// What ended while the port was away is sent first.
    pub fn output_back(&mut self, port: DeviceSlot, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.ledger.port_back(port, out);
        self.selected.retain(|it| it.0 != port);
    }

    /// Cancels every timer and running action and ends everything held. The shell then silences
    /// every open output.
    pub fn panic(&mut self, now: Micros, out: &mut Vec<Effect>) -> PanicReport {
        self.advance(now, out);
        self.with_gestures(|gestures, around| gestures.cancel_pending(around));
        self.act_on_found(out);
        let actions_cancelled = self.runs.cancel_all(&mut self.timers);
        self.timers = Timers::default();
        for state in &mut self.bindings {
            state.pending = None;
            state.flush = None;
        }
        let released = self.ledger.end_all(out);
        PanicReport { notes_released: released.notes, keys_released: released.keys, actions_cancelled }
    }

    /// The daemon stops: nothing stays on.
    pub fn stop(&mut self, now: Micros, out: &mut Vec<Effect>) {
        self.panic(now, out);
    }

    /// Books what a tool sent: its notes are released when its connection ends, and its bytes are
    /// known should they come back.
    pub fn tool_sent(&mut self, connection: u64, port: DeviceSlot, message: &Body, now: Micros) {
        self.sent_without_hand(message, now);
        self.hold(connection, port, message, Taint::Tool, now);
    }

    /// A message leaves, and no hand was the cause: wherever it comes back, it is not a hand's.
    pub fn sent_without_hand(&mut self, message: &Body, now: Micros) {
        self.set_now(now);
        self.returns.note_sent(self.now, message);
    }

    /// Books the notes of a connection, so that they end with it.
    pub fn hold_for(&mut self, connection: u64, port: DeviceSlot, message: &Body, now: Micros) {
        self.hold(connection, port, message, Taint::Clean, now);
    }

    fn hold(&mut self, connection: u64, port: DeviceSlot, message: &Body, taint: Taint, now: Micros) {
        self.set_now(now);
        if let Body::NoteOn { channel, note, .. } = message {
            let held = Held::Note { port, channel: *channel, note: *note };
            self.ledger.enter(Owner::Tool(connection), None, None, held, taint);
        } else if let Body::NoteOff { channel, note, .. } = message {
            self.ledger.take_note(port, *channel, *note);
            self.ledger.note_end(Held::Note { port, channel: *channel, note: *note });
        }
    }

    pub fn tool_gone(&mut self, connection: u64, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.ledger.end_tool(connection, out);
    }

    /// Where a parameter of Live stands. Where somebody else moved it, takeover starts again, and a
    /// relative knob goes on from there.
    pub fn live_parameter_stands(&mut self, path: &str, reading: Reading) {
        for (binding, state) in self.tables.bindings.iter().zip(&mut self.bindings) {
            let here = |it: &CompiledTarget| matches!(&*it.spec, Target::LiveParameter { path: own } if own == path);
            if binding.targets.iter().any(here) {
                state.read = reading.before_out(&binding.spec.glue);
            }
        }
    }

    fn holds(&self, condition: &CompiledCondition) -> bool {
        let facts = &self.facts;
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        match condition {
            CompiledCondition::Always => true,
            CompiledCondition::Never => false,
            CompiledCondition::TimeRange { start, end } => {
                let now = facts.minute_of_day;
                if start < end { (*start..*end).contains(&now) } else { now >= *start || now < *end }
            }
            CompiledCondition::DayOfWeek { days } => facts.weekday >= 1 && days & (1 << ((facts.weekday - 1) % 7)) != 0,
            CompiledCondition::AppRunning(app) => facts.running_apps.iter().any(|it| same(it, app)),
            CompiledCondition::AppFrontmost(app) => facts.frontmost_app.as_ref().is_some_and(|it| same(it, app)),
            CompiledCondition::ModeIs(mode) => *mode == Some(self.mode),
            CompiledCondition::DeviceConnected(device) => facts.connected.contains(&device.0),
            CompiledCondition::And(all) => all.iter().all(|it| self.holds(it)),
            CompiledCondition::Or(any) => any.iter().any(|it| self.holds(it)),
            CompiledCondition::Not(inner) => !self.holds(inner),
        }
    }

    /// A controller was shown something. Where the device repeats what it is told, that is no hand;
    /// nor is it one where a tool was the cause and a cable brings it back. A light that follows a
    /// hand is not remembered: the hand may press the same pad again.
    pub fn shown(&mut self, port: DeviceSlot, message: &Body, by: Taint, now: Micros) {
        self.set_now(now);
        self.guard(port, message);
        if by != Taint::Clean {
            self.returns.note_sent(self.now, message);
        }
    }

    fn guard(&mut self, port: DeviceSlot, message: &Body) {
        if self.tables.facts(port).echo_guard {
            self.guarded.entry(port).or_insert_with(Echo::of_device).note_sent(self.now, message);
        }
    }

    /// Whether what set this off has been sent on as often as the file allows.
    fn is_too_far(&self, trail: Trail) -> bool {
        trail.hops >= self.tables.advanced.max_route_depth
    }

    /// Every MIDI message leaves here; `trail` is that of what set it off.
    fn send(&mut self, port: DeviceSlot, message: Body, trail: Trail, out: &mut Vec<Effect>) {
        self.guard(port, &message);
        if let Body::Cc { channel, controller: 98..=101, .. } = message {
            self.selected.retain(|it| (it.0, it.1) != (port, channel));
        }
        if let Body::NoteOff { channel, note, .. } = message {
            self.ledger.note_end(Held::Note { port, channel, note });
        } else if let Body::Cc { channel, controller: 64, value: 0..64 } = message {
            self.ledger.note_end(Held::Sustain { port, channel });
        }
        let Trail { taint, hops } = trail.further();
        out.push(Effect::Midi { port, message, taint, hops });
    }

    // The trace.

    fn note_outcome(&mut self, event: &Event, gesture: &'static str, outcome: Outcome, reason: &'static str) {
        let mode = Arc::clone(self.tables.mode_name(self.mode));
        self.trace.push(Record {
            seq: 0,
            at: self.now,
            device: event.device,
            event: Some(event.body.clone()),
            gesture: if gesture.is_empty() { event_name(&event.body) } else { gesture },
            mode,
            mapping: None,
            outcome,
            action: None,
            latency_us: None,
            reason,
        });
    }

    fn note_tap(&mut self, tap: &PressInfo, outcome: Outcome, reason: &'static str) {
        let mode = self.tables.mode_names.get(usize::from(tap.mode.0)).unwrap_or(self.tables.mode_name(self.mode));
        self.trace.push(Record {
            seq: 0,
            at: self.now,
            device: tap.key.device,
            event: Some(tap.body()),
            gesture: "Press",
            mode: Arc::clone(mode),
            mapping: None,
            outcome,
            action: None,
            latency_us: None,
            reason,
        });
    }

    /// An event that is no input, and why; it is counted and traced like any other.
    pub fn passed_over(&mut self, event: &Event, reason: &'static str) {
        self.counters.events += 1;
        self.now = self.now.max(event.at);
        self.note_outcome(event, "", Outcome::NoMatch, reason);
    }

    /// Carried out in the shell, and failed there.
    pub fn note_failure(&mut self, mapping: &MappingRef, reason: &'static str) {
        self.counters.actions_failed += 1;
        self.trace.push(Record {
            seq: 0,
            at: self.now,
            device: DeviceSlot(u16::MAX),
            event: None,
            gesture: "",
            mode: Arc::clone(&mapping.mode),
            mapping: Some(Arc::clone(&mapping.id)),
            outcome: Outcome::Failed,
            action: None,
            latency_us: None,
            reason,
        });
    }
}

fn mapping_ref(tables: &Tables, row: &Row) -> MappingRef {
    let mode = match row.mode {
        Some(mode) => Arc::clone(tables.mode_name(mode)),
        None => "*".into(),
    };
    MappingRef { mode, id: Arc::clone(&row.id) }
}

fn find_row<'a>(tables: &'a Tables, mapping: &MappingRef) -> Option<&'a Row> {
    let mode = tables.mode_named(&mapping.mode);
    tables.rows.iter().find(|it| it.id == mapping.id && it.mode == mode)
}

fn channel_of(body: &Body) -> Option<u8> {
    match body {
        Body::NoteOn { channel, .. }
        | Body::NoteOff { channel, .. }
        | Body::PolyPressure { channel, .. }
        | Body::Cc { channel, .. }
        | Body::Program { channel, .. }
        | Body::ChannelPressure { channel, .. }
        | Body::PitchBend { channel, .. } => Some(*channel),
        Body::SysEx(_)
        | Body::RealTime(_)
        | Body::Common { .. }
        | Body::ButtonDown(_)
        | Body::ButtonUp(_)
        | Body::Axis { .. }
        | Body::Trigger { .. }
        | Body::Osc(_) => None,
    }
}

fn event_name(body: &Body) -> &'static str {
    match body {
        Body::NoteOn { .. } => "NoteOn",
        Body::NoteOff { .. } => "NoteOff",
        Body::PolyPressure { .. } => "PolyAftertouch",
        Body::Cc { .. } => "CC",
        Body::Program { .. } => "ProgramChange",
        Body::ChannelPressure { .. } => "Aftertouch",
        Body::PitchBend { .. } => "PitchBend",
        Body::SysEx(_) => "SysEx",
        Body::RealTime(_) => "RealTime",
        Body::Common { .. } => "Common",
        Body::ButtonDown(_) => "ButtonDown",
        Body::ButtonUp(_) => "ButtonUp",
        Body::Axis { .. } => "Axis",
        Body::Trigger { .. } => "Trigger",
        Body::Osc(_) => "Osc",
    }
}

/// Index of the first axis of the stick an axis belongs to.
fn stick_of(axis: Axis) -> usize {
    match axis {
        Axis::LeftX | Axis::LeftY => 0,
        Axis::RightX | Axis::RightY => 2,
    }
}
