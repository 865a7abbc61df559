//! The engine: a pure state machine that converts events to effects. It contains gestures,
//! matching, actions with their timers, continuous bindings, routes, and the ledger that ends every
//! held note and key. The caller passes events to `feed` in order of time, calls `advance` at the
//! next deadline, and carries out the effects. This file handles presses. `orders` contains
//! everything else that changes the engine.
//!
//! Not here: devices, threads, clocks, and carrying out effects (the daemon's `owner`).

mod actions;
pub mod continuous;
pub mod curves;
pub mod effect;
pub mod explain;
mod ledger;
mod midi_out;
mod orders;
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

use crate::action::MidiOut;
use crate::config::Config;
use crate::event::assemble::Assembler;
use crate::event::echo::Echo;
use crate::event::returns::Returns;
use crate::event::{Body, DeviceSlot, Event, Micros, Taint, Trail};
use crate::gesture::{Deadline, GestureCx, GestureEvent, Gestures, PressInfo};
use crate::mapping::table::{ActionId, BindingId, Leaf, ModeIndex, Node, RowId, Slots, Tables};
use crate::timer::Timers;
use actions::Runs;
use continuous::{Selected, State};
use ledger::{EntryId, Held, Ledger, Owner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thresholds::Memories;
use trace::Record;

/// The facts that conditions read. Workers of the daemon update them; the engine itself makes no
/// system calls.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Names of running programs.
    pub running_apps: BTreeSet<String>,
    /// The program of the frontmost window, if it is known.
    pub frontmost_app: Option<String>,
    /// The time of day, in minutes after midnight in local time.
    pub minute_of_day: u16,
    /// The day of the week; 1 is Monday.
    pub weekday: u8,
    /// Slots of connected devices.
    pub connected: BTreeSet<u16>,
}

/// How many notes, keys and actions a panic ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PanicReport {
    /// Number of notes that were ended.
    pub notes_released: usize,
    /// Number of keys that were released.
    pub keys_released: usize,
    /// Number of running actions that were cancelled.
    pub actions_cancelled: usize,
}

/// Counts since the engine was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of received events.
    pub events: u64,
    /// Number of performed actions.
    pub actions: u64,
    /// Number of actions that failed.
    pub actions_failed: u64,
    /// Number of events that a route forwarded.
    pub routed: u64,
    /// Number of events that were not routed because they had already been forwarded
    /// `max_route_depth` times.
    pub over_hops: u64,
    /// Number of mode changes.
    pub mode_changes: u64,
}

/// [`Engine::make_room`] allocates space for this many presses, timers, notes and so on, and for a
/// quarter as many running actions.
const ROOM: usize = 256;

/// The reason in the trace for an event whose message is not sent on.
const TOO_FAR: &str = "the event was already forwarded max_route_depth times";

/// The error for a mode name that the configuration does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMode {
    /// The requested name.
    pub asked: String,
    /// The names of the existing modes.
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

/// The mute state of a device and the last values of its controls.
#[derive(Debug, Default)]
struct DeviceState {
    /// The mute state that a person or a tool has set since the daemon started. If absent, the
    /// configuration decides.
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

/// One firing of a rule.
#[derive(Clone, Copy)]
struct Firing<'a> {
    row: RowId,
    action: ActionId,
    context: &'a Context,
    /// Whether the key is already up, so that no release event will follow.
    released: bool,
}

/// Data of the event that fired an action.
#[derive(Clone, Debug)]
struct Context {
    gesture: &'static str,
    press: Option<PressInfo>,
    device: DeviceSlot,
    /// The event, which a `Forward` action sends; absent for routes.
    body: Option<Body>,
    trail: Trail,
    values: Placeholders,
}

/// The state machine that converts events to effects.
pub struct Engine {
    tables: Arc<Tables>,
    mode: ModeIndex,
    /// The taint of the event that selected the mode. Lights that change with the mode inherit this
    /// taint.
    mode_by: Taint,
    now: Micros,
    gestures: Gestures,
    timers: Timers<Timer>,
    found: Vec<GestureEvent>,
    devices: Vec<DeviceState>,
    memories: Memories,
    bindings: Vec<State>,
    selected: Vec<(DeviceSlot, u8, Selected)>,
    ledger: Ledger,
    runs: Runs,
    /// Messages that were sent without a person's input. A copy of such a message may come back on
    /// any port.
    returns: Returns,
    /// Messages that were sent to devices with `echo_guard`.
    guarded: BTreeMap<DeviceSlot, Echo>,
    facts: Facts,
    trace: Trace,
    learning: bool,
    shown: shown::Shown,
    counters: Counters,
}

impl Engine {
    /// Creates an engine in the default mode.
    pub fn new(config: &Config, slots: &mut Slots, now: Micros) -> Self {
        let tables = Arc::new(Tables::compile(config, slots));
        let mut engine = Engine {
            mode: tables.default_mode,
            mode_by: Taint::Clean,
            now,
            gestures: Gestures::default(),
            timers: Timers::default(),
            found: Vec::with_capacity(ROOM),
            devices: Vec::new(),
            memories: Memories::default(),
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
        engine.fresh_states();
        engine.make_room();
        engine
    }

    fn fresh_states(&mut self) {
        self.memories.reset(self.tables.states);
        self.bindings = vec![State::default(); self.tables.bindings.len()];
    }

    /// The compiled configuration in force.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// Allocates the memory that the next events may need, and frees memory that is no longer
    /// needed. The daemon's owner thread calls this, so that [`Engine::feed`] can run in a device
    /// callback.
    pub fn make_room(&mut self) {
        self.trace.drop_overwritten();
        self.timers.reserve(ROOM);
        self.memories.reserve(ROOM);
        self.ledger.reserve(ROOM);
        self.runs.make_room(ROOM / 4);
        self.selected.reserve(ROOM);
        self.shown.reserve(ROOM);
        let devices = self.facts.connected.iter().map(|it| DeviceSlot(*it));
        self.gestures.make_room(devices, self.tables.chord_rules, ROOM);
        for (slot, facts) in self.tables.devices.iter().enumerate() {
            if facts.echo_guard {
                self.guarded.entry(DeviceSlot(slot as u16)).or_insert_with(Echo::of_device);
            }
        }
    }

    /// Whether the engine can process an event of this device without an allocation. `false` for
    /// SysEx and OSC messages, for a device that is not connected, for the first fine value of a
    /// parameter, and if little reserved memory is left.
    pub fn has_room(&self, device: DeviceSlot, body: &Body) -> bool {
        let least = ROOM / 8;
        let Some(state) = self.devices.get(usize::from(device.0)) else { return false };
        !body.owns_memory()
            && state.last.is_some()
            && state.assembler.has_room(body)
            && self.timers.room() >= least
            && self.memories.room() >= least
            && self.ledger.room() >= least
            && self.runs.room() >= least / 4
            && self.selected.capacity() - self.selected.len() >= least
            && self.shown.room() >= least
            && self.gestures.room() >= least
    }

    /// The records of the trace from this number on, with their names.
    pub fn traced(&self, since: u64, slots: &Slots) -> impl Iterator<Item = TraceRecord> {
        self.trace.read(since, &self.tables, slots)
    }

    /// The mappings that fired since the trace record `since`, newest first: mode, id and time of
    /// each.
    pub fn fired(&self, since: u64) -> impl Iterator<Item = (Arc<str>, Arc<str>, Micros)> {
        self.trace.fired(since, &self.tables)
    }

    /// The trace of recent events.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Mutable access to the trace, to resize it or to add latencies.
    pub fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// Counts since the engine was created.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Mutable access to the facts that conditions read.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// The taint of the event that selected the mode.
    pub fn mode_by(&self) -> Taint {
        self.mode_by
    }

    /// The current mode.
    pub fn mode(&self) -> (ModeIndex, &Arc<str>) {
        (self.mode, self.tables.mode_name(self.mode))
    }

    /// The time of the next deadline. [`Engine::advance`] must be called at this time.
    pub fn next_deadline(&self) -> Option<Micros> {
        self.timers.next()
    }

    /// Whether no note or key is held, no gesture is pending and no action is running.
    pub fn is_quiet(&self) -> bool {
        self.ledger.is_empty() && self.gestures.pending() == 0 && self.runs.is_empty()
    }

    /// The number of presses that may still become part of a chord.
    pub fn pending_chord_members(&self) -> usize {
        self.gestures.chord_members()
    }

    /// Switches learning on or off. While learning is on, gestures are recognised and traced, but
    /// their actions do not run.
    pub fn set_learning(&mut self, learning: bool) {
        self.learning = learning;
    }

    /// Processes every deadline up to `now`, in order.
    pub fn advance(&mut self, now: Micros, out: &mut Vec<Effect>) {
        while let Some((at, timer)) = self.timers.pop(now) {
            self.now = self.now.max(at);
            self.ledger.set_now(self.now);
            match timer {
                Timer::Gesture(deadline) => {
                    self.with_gestures(|gestures, cx| gestures.deadline(deadline, cx));
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

    /// Processes one event. Deadlines up to the event's time stamp are processed first, so that the
    /// outcome does not depend on when the caller calls `advance`.
    pub fn feed(&mut self, event: &Event, out: &mut Vec<Effect>) {
        self.advance(event.at, out);
        self.counters.events += 1;
        let facts = self.tables.facts(event.device);
        if self.is_muted(event.device) {
            return self.note_outcome(event, "", Outcome::Muted, "the device is muted");
        }
        if event.body.channel().is_some_and(|channel| facts.channels & (1 << (channel & 15)) == 0) {
            return self.note_outcome(event, "", Outcome::NoMatch, "the device's `channels` exclude this channel");
        }
        let mut tainted;
        let returned = self.returns.is_return(event.at, &event.body);
        let guard = self.guarded.get_mut(&event.device).filter(|_| facts.echo_guard && !returned);
        if guard.is_some_and(|it| it.swallow(self.now, &event.body)) {
            return self.note_outcome(
                event,
                "",
                Outcome::NoMatch,
                "the message is an echo of a message that was just sent",
            );
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
        if self.with_gestures(|gestures, cx| gestures.feed(event, cx)) {
            self.act_on_found(out);
        } else {
            self.feed_value(event, out);
        }
    }

    fn with_gestures<R>(&mut self, act: impl FnOnce(&mut Gestures, &mut GestureCx<'_, Timer>) -> R) -> R {
        let mut cx = GestureCx {
            tables: &self.tables,
            mode: self.mode,
            now: self.now,
            timers: &mut self.timers,
            found: &mut self.found,
        };
        act(&mut self.gestures, &mut cx)
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
            GestureEvent::Fired { press, row } => self.gesture_fires(press, row, "", out),
            GestureEvent::Released { press, row } => self.gesture_fires(press, row, "Release", out),
            GestureEvent::Deferred { press } => {
                self.note_press(&press, Outcome::Deferred, "a longer gesture is still possible");
            }
            GestureEvent::Cancelled { press } => {
                let reason = "a reload, a panic, a mute or the loss of the device cancelled the press";
                self.note_press(&press, Outcome::Cancelled, reason);
            }
            GestureEvent::Unmatched { press } => {
                self.note_press(&press, Outcome::NoMatch, "");
                self.route(&press.event(), Some(&press), out);
            }
            GestureEvent::Up { press } => {
                self.ledger.end_press(press.id, press.taint, out);
                self.runs.released(press.id);
                self.shown.released(press.id);
            }
        }
    }

    fn gesture_fires(&mut self, press: PressInfo, row: RowId, gesture: &'static str, out: &mut Vec<Effect>) {
        let tables = Arc::clone(&self.tables);
        let rule = tables.row(row.0);
        let note = press.key.channel().map(|_| press.key.number);
        let context = Context {
            gesture: if gesture.is_empty() { rule.trigger.kind.name() } else { gesture },
            press: Some(press),
            device: press.key.device,
            body: Some(press.body()),
            trail: Trail { taint: press.taint, hops: press.hops },
            values: Placeholders {
                velocity: Some(press.velocity),
                value: Some(f64::from(press.velocity)),
                unit: Some(f64::from(press.velocity) / 127.0),
                note,
                channel: press.key.channel(),
            },
        };
        if rule.let_through {
            self.route(&press.event(), Some(&press), out);
        }
        self.fire(row, rule.action_for(press.velocity), context, out);
    }

    fn device(&mut self, slot: DeviceSlot) -> &mut DeviceState {
        let at = usize::from(slot.0);
        if self.devices.len() <= at {
            self.devices.resize_with(at + 1, DeviceState::default);
        }
        &mut self.devices[at]
    }

    /// Whether the device is muted. A mute or unmute since the daemon started overrides the file.
    pub fn is_muted(&self, device: DeviceSlot) -> bool {
        let said = self.devices.get(usize::from(device.0)).and_then(|it| it.muted);
        said.unwrap_or(!self.tables.facts(device).enabled)
    }

    /// Fires the action of a rule. If the rule's previous action is still running, queues the new
    /// one.
    fn fire(&mut self, row: RowId, action: ActionId, context: Context, out: &mut Vec<Effect>) {
        self.shown.fired(row, context.press, context.trail.taint);
        if self.learning {
            return self.note(row, &context, Outcome::Learning, None, "actions do not run while learning");
        }
        if let Some(is_full) = self.runs.queue_behind(row, action, &context) {
            if is_full {
                self.note(
                    row,
                    &context,
                    Outcome::QueueFull,
                    None,
                    "the previous action of this mapping is still running, and four presses are already queued",
                );
            }
            return;
        }
        let tables = Arc::clone(&self.tables);
        match tables.nodes.get(action.0 as usize) {
            // Most actions have a single step and do not need a `Run`.
            Some(Node::Leaf(leaf)) if !matches!(leaf, Leaf::Call(_)) => {
                self.perform(leaf, Firing { row, action, context: &context, released: false }, out);
            }
            Some(_) | None => self.start(row, action, context, out),
        }
    }

    /// Performs one step of an action. If the action must wait for a call, returns the ticket of
    /// the call.
    fn perform(&mut self, leaf: &Leaf, firing: Firing<'_>, out: &mut Vec<Effect>) -> Option<CallTicket> {
        let Firing { row, action: performed, context, released } = firing;
        if needs_hand(leaf) && !self.may_touch_the_desktop(context) {
            self.note(row, context, Outcome::Tainted, Some(performed), context.trail.taint.reason());
            return None;
        }
        if sends_on(leaf) && self.is_too_far(context.trail) {
            return self.failed(firing, TOO_FAR);
        }
        let taint = context.trail.taint;
        match leaf {
            Leaf::Keystroke(keys) => {
                let press =
                    context.press.filter(|it| keys.hold && it.held && !released && self.gestures.is_held(it.id));
                let stroke = if press.is_some() { Stroke::Down } else { Stroke::Tap };
                if let Some(press) = press {
                    let held = Held::Key(Arc::clone(keys));
                    self.ledger.enter(Owner::Press(press.id), Some(context.device), Some(row), held, taint);
                }
                out.push(Effect::Key { keys: Arc::clone(keys), stroke });
            }
            Leaf::Text(text) => out.push(Effect::Text(Arc::clone(text))),
            Leaf::Click { button, at } => out.push(Effect::Click { button: *button, at: *at }),
            Leaf::Volume(volume) => out.push(Effect::Volume(*volume)),
            Leaf::ModeChange(mode) => self.enter_mode(*mode, taint),
            Leaf::SendMidi { port, channel, message } => self.send_midi(firing, *port, *channel, message, out),
            Leaf::Forward { port, transform } => {
                if !self.forward(firing, port.unwrap_or(context.device), transform, out) {
                    return self.failed(firing, "there is no MIDI message to forward");
                }
            }
            Leaf::Osc { host, port, message } => {
                let (host, message) = (Arc::clone(host), Arc::clone(message));
                out.push(Effect::Osc { host, port: *port, message, taint });
            }
            Leaf::Call(action) => {
                let ticket = self.runs.next_ticket();
                let (mapping, action) = (self.mapping_ref(row), Arc::clone(action));
                out.push(Effect::Call(MappingCall { ticket, mapping, action, values: context.values, taint }));
                self.note(row, context, Outcome::Fired, Some(performed), "");
                // The result of the call is counted when it arrives.
                return Some(ticket);
            }
        }
        self.counters.actions += 1;
        self.note(row, context, Outcome::Fired, Some(performed), "");
        None
    }

    fn failed(&mut self, firing: Firing<'_>, reason: &'static str) -> Option<CallTicket> {
        self.counters.actions_failed += 1;
        self.note(firing.row, firing.context, Outcome::Failed, Some(firing.action), reason);
        None
    }

    /// Whether the event has been forwarded `max_route_depth` times.
    fn is_too_far(&self, trail: Trail) -> bool {
        trail.hops >= self.tables.advanced.max_route_depth
    }

    fn may_touch_the_desktop(&self, context: &Context) -> bool {
        match context.trail.taint {
            Taint::Clean => true,
            Taint::Network => self.tables.facts(context.device).allow_sensitive_actions,
            Taint::Virtual | Taint::Tool => false,
        }
    }

    fn mapping_ref(&self, row: RowId) -> MappingRef {
        let row = self.tables.row(row.0);
        let mode = row.mode.map_or(&self.tables.any_mode, |mode| self.tables.mode_name(mode));
        MappingRef { mode: Arc::clone(mode), id: Arc::clone(&row.id) }
    }

    fn note(
        &mut self,
        row: RowId,
        context: &Context,
        outcome: Outcome,
        action: Option<ActionId>,
        reason: &'static str,
    ) {
        self.trace.push(Record {
            seq: 0,
            at: self.now,
            device: context.device,
            event: context.body.clone(),
            gesture: context.gesture,
            mode: self.tables.row(row.0).mode.unwrap_or(self.mode),
            mapping: Some(row),
            outcome,
            action,
            latency_us: None,
            reason,
        });
    }

    /// Creates a trace record without mapping and action.
    fn record(&self, mode: ModeIndex, device: DeviceSlot, outcome: Outcome, reason: &'static str) -> Record {
        Record {
            seq: 0,
            at: self.now,
            device,
            event: None,
            gesture: "",
            mode,
            mapping: None,
            outcome,
            action: None,
            latency_us: None,
            reason,
        }
    }

    fn note_outcome(&mut self, event: &Event, gesture: &'static str, outcome: Outcome, reason: &'static str) {
        let gesture = if gesture.is_empty() { event.body.name() } else { gesture };
        let event_body = Some(event.body.clone());
        self.trace.push(Record { event: event_body, gesture, ..self.record(self.mode, event.device, outcome, reason) });
    }

    fn note_press(&mut self, press: &PressInfo, outcome: Outcome, reason: &'static str) {
        // The mode of a pending press may have been removed by a reload.
        let has_mode = usize::from(press.mode.0) < self.tables.mode_names.len();
        let mode = if has_mode { press.mode } else { self.mode };
        let record = self.record(mode, press.key.device, outcome, reason);
        self.trace.push(Record { event: Some(press.body()), gesture: "Press", ..record });
    }
}

/// Whether the action sends a message that may come back and fire the action again. A note-off is
/// excluded, because it only ends a note that was sent before.
fn sends_on(leaf: &Leaf) -> bool {
    match leaf {
        Leaf::SendMidi { message, .. } => !matches!(message, MidiOut::NoteOff { .. }),
        Leaf::Forward { .. } => true,
        Leaf::Keystroke(_) | Leaf::Text(_) | Leaf::Click { .. } | Leaf::Call(_) => false,
        Leaf::Volume(_) | Leaf::ModeChange(_) | Leaf::Osc { .. } => false,
    }
}

/// Whether a tainted event must not fire the action: keys, text, clicks, and every call through the
/// pipeline. See [`Taint`] for the exception.
fn needs_hand(leaf: &Leaf) -> bool {
    match leaf {
        Leaf::Keystroke(_) | Leaf::Text(_) | Leaf::Click { .. } | Leaf::Call(_) => true,
        Leaf::Volume(_) | Leaf::ModeChange(_) | Leaf::SendMidi { .. } => false,
        Leaf::Forward { .. } | Leaf::Osc { .. } => false,
    }
}
