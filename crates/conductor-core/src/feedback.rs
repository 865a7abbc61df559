//! Feedback: sends messages to the lights, rings and motor faders of controllers, as configured in
//! feedback rows and the LED scheme.
//!
//! Every control has a wanted value and a shown value. If they differ, a message is due. Each port
//! gets at most [`PER_SECOND`] messages per second; a delayed message is sent later with the wanted
//! value of that time. So the last value is always sent.
//!
//! Not here: sending (the daemon's `owner`), mappings (`mapping`), and the colours of an LED scheme
//! (`feedback::led`).

pub mod led;

use crate::config::{Config, Feedback as RowSpec, FeedbackFrom, FeedbackOut, LedScheme};
use crate::engine::Engine;
use crate::event::{Body, DeviceSlot, Event, Micros, Taint};
use crate::mapping::table::Slots;
use led::{Hit, Surface};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of messages to one port in one second.
pub const PER_SECOND: usize = 50;
const SECOND_US: u64 = 1_000_000;
/// An event of a control within this time after we moved it was caused by its motor, not by a
/// person.
const MOTOR_MS: u32 = 50;
/// No message is sent to a control within this time after a person moved it. Otherwise its motor
/// would pull against the finger, and the person's next move would be treated as motion of the
/// motor.
const HAND_MS: u32 = 150;
/// The light of a press stays on for at least this time, so that it is visible.
const FLASH_MS: u32 = 100;
/// The duration of one frame: ten frames per second.
const FRAME_US: u64 = 100_000;
/// The minimum average time between two messages of a scheme: 40 messages a second, so that 10 of
/// 50 remain for feedback rows.
const PAINT_US: u64 = 25_000;
/// Maximum unused sending time that a port saves for later. It allows a burst of 16 scheme
/// messages.
const PAINT_SAVED_US: u64 = 16 * PAINT_US;

/// A message that sets a light, ring or fader of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Light {
    pub port: DeviceSlot,
    pub message: Body,
    /// The taint of the event that changed the light.
    pub by: Taint,
}

/// A state that feedback can show.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names of the fields explain themselves")]
pub enum Fact<'a> {
    /// The current mode.
    Mode(&'a str),
    /// The key of a mapping with this id was pressed or released.
    Pressed { mapping: &'a str, down: bool },
    /// The value of a continuous binding, 0..=1.
    Value { continuous: &'a str, value: f64 },
    /// The value of a Live parameter, 0..=1.
    LiveParameter { path: &'a str, value: f64 },
    /// Whether a device is connected.
    Connected { device: &'a str, connected: bool },
    /// Whether the performance lock is on.
    PerformanceLock(bool),
    /// The number of pending approval requests.
    PendingApprovals(usize),
}

impl Fact<'_> {
    fn concerns(&self, from: &FeedbackFrom) -> bool {
        match (self, from) {
            (Fact::Mode(_), FeedbackFrom::Mode(_)) => true,
            (Fact::Pressed { mapping, .. }, FeedbackFrom::Pressed { mapping: shown }) => mapping == shown,
            (Fact::Value { continuous, .. }, FeedbackFrom::Value { continuous: shown }) => continuous == shown,
            (Fact::LiveParameter { path, .. }, FeedbackFrom::LiveParameter { path: shown }) => path == shown,
            (Fact::Connected { device, .. }, FeedbackFrom::Connected { device: shown }) => device == shown,
            (Fact::PerformanceLock(_), FeedbackFrom::PerformanceLock) => true,
            (Fact::PendingApprovals(_), FeedbackFrom::PendingApprovals) => true,
            (_, _) => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// The state is not known yet, so it is not shown.
    Unknown,
    Switch(bool),
    Press {
        held: bool,
        shown_until: Micros,
    },
    Value(f64),
}

#[derive(Clone, Debug)]
struct Row {
    spec: RowSpec,
    state: State,
    /// The taint of the event that last changed the state. The message that switches a light off
    /// after a release has the same taint.
    by: Taint,
    /// Whether the state changed and its control has not been updated yet.
    dirty: bool,
}

impl Row {
    /// Whether the light of a released press must be off, because `FLASH_MS` have passed since the
    /// press. The state does not change at this time.
    fn fades(&self, now: Micros) -> bool {
        matches!(self.state, State::Press { held: false, shown_until } if shown_until <= now)
    }

    /// The value of this row, and whether the row is on. A row that shows a number is on as soon as
    /// the number is known.
    fn shows(&self, now: Micros) -> Option<(u8, bool)> {
        let switch = |on: bool| if on { (self.spec.on, true) } else { (self.spec.off, false) };
        match &self.state {
            State::Unknown => None,
            State::Switch(on) => Some(switch(*on)),
            State::Press { held, shown_until } => Some(switch(*held || now < *shown_until)),
            State::Value(value) => {
                let (low, high) = (f64::from(self.spec.range.0), f64::from(self.spec.range.1));
                Some(((low + (high - low) * value.clamp(0.0, 1.0)).round() as u8, true))
            }
        }
    }
}

/// The address of a light, ring or fader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    port: DeviceSlot,
    cc: bool,
    channel: u8,
    number: u8,
}

impl Address {
    fn of(port: DeviceSlot, out: FeedbackOut) -> Self {
        match out {
            FeedbackOut::Note { channel, note } => Address { port, cc: false, channel, number: note },
            FeedbackOut::Cc { channel, controller } => Address { port, cc: true, channel, number: controller },
        }
    }

    fn message(self, value: u8) -> Body {
        let (channel, note) = (self.channel, self.number);
        match (self.cc, value) {
            (true, value) => Body::Cc { channel, controller: note, value },
            (false, 0) => Body::NoteOff { channel, note, velocity: 0 },
            (false, velocity) => Body::NoteOn { channel, note, velocity },
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Control {
    /// The rows of this control, in file order. If there are none, the LED scheme sets the control.
    rows: Vec<usize>,
    /// Whether the control shows a number, so that it may be a fader with a motor. It is false for
    /// lit buttons, whose releases must not be mistaken for motion of a motor.
    moves: bool,
    wanted: Option<u8>,
    shown: Option<u8>,
    /// The most severe taint of the changes since the last message to the control.
    by: Taint,
    /// The position in the queue of controls that need a message.
    waiting: u64,
    sent_at: Option<Micros>,
    hand_until: Option<Micros>,
}

impl Control {
    fn is_due(&self) -> bool {
        self.wanted.is_some() && self.wanted != self.shown
    }
}

#[derive(Clone, Debug, Default)]
struct Port {
    /// The times of the last messages, the oldest first; never more than [`PER_SECOND`].
    sent: VecDeque<Micros>,
    /// The rate limit of scheme messages. Each message advances this time by `PAINT_US`.
    paid_until: Micros,
}

impl Port {
    fn next_free(&self) -> Option<Micros> {
        let oldest = self.sent.front().filter(|_| self.sent.len() >= PER_SECOND)?;
        Some(oldest.plus_us(SECOND_US))
    }

    fn may_send(&self, now: Micros) -> bool {
        self.next_free().is_none_or(|free| free <= now)
    }

    fn paint_free(&self) -> Micros {
        self.paid_until.plus_us(PAINT_US)
    }

    fn note(&mut self, now: Micros, paint: bool) {
        if self.sent.len() >= PER_SECOND {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
        if paint {
            let saved = Micros(now.0.saturating_sub(PAINT_SAVED_US));
            self.paid_until = Micros(self.paid_until.max(saved).0 + PAINT_US);
        }
    }
}

/// The state of all lights and displays of one configuration. It reads no clock: callers pass the
/// time.
#[derive(Clone, Debug)]
pub struct Feedback {
    rows: Vec<Row>,
    controls: BTreeMap<Address, Control>,
    ports: BTreeMap<DeviceSlot, Port>,
    /// All open outputs, including outputs without feedback, because a reload may start to use
    /// them.
    open: BTreeSet<DeviceSlot>,
    surfaces: Vec<Surface>,
    hits: Vec<Hit>,
    led: crate::config::Led,
    mode_colors: BTreeMap<String, String>,
    mode: String,
    connected: BTreeMap<String, bool>,
    performance_lock: bool,
    pending_approvals: usize,
    order: u64,
    /// The last frame of the scheme that was calculated.
    painted: Option<u64>,
    /// The taint of the changes to the next frame, except changes by pressed pads.
    painted_by: Taint,
    /// Whether a state changed, so that a message may be due now.
    dirty: bool,
    next: Option<Micros>,
}

impl Feedback {
    /// Creates the feedback for a configuration.
    pub fn new(config: &Config, slots: &mut Slots) -> Self {
        let mut feedback = Feedback {
            rows: Vec::new(),
            controls: BTreeMap::new(),
            ports: BTreeMap::new(),
            open: BTreeSet::new(),
            surfaces: Vec::new(),
            hits: Vec::new(),
            led: config.led.clone(),
            mode_colors: BTreeMap::new(),
            mode: config.default_mode.clone(),
            connected: BTreeMap::new(),
            performance_lock: config.performance.lock,
            pending_approvals: 0,
            order: 0,
            painted: None,
            painted_by: Taint::Clean,
            dirty: true,
            next: None,
        };
        feedback.read(config, slots);
        feedback
    }

    /// Applies a new configuration. The value of every control is sent again, and lights that are
    /// no longer used are switched off.
    pub fn reload(&mut self, config: &Config, slots: &mut Slots) {
        let lit: Vec<Address> = self.lit().collect();
        self.read(config, slots);
        for address in lit {
            let control = self.controls.entry(address).or_default();
            if control.rows.is_empty() {
                control.wanted = Some(0);
            }
        }
        self.refresh(None);
    }

    /// Lights that are on. Faders are not included: if a row is removed, its fader must not move.
    fn lit(&self) -> impl Iterator<Item = Address> + '_ {
        let lit = |it: &(&Address, &Control)| !it.0.cc && it.1.shown.is_some_and(|value| value > 0);
        self.controls.iter().filter(lit).map(|it| *it.0)
    }

    fn read(&mut self, config: &Config, slots: &mut Slots) {
        let before = std::mem::take(&mut self.rows);
        self.controls.clear();
        for spec in &config.feedback {
            let port = slots.slot(&spec.device);
            self.ports.entry(port).or_default();
            let control = self.controls.entry(Address::of(port, spec.out)).or_default();
            control.rows.push(self.rows.len());
            control.moves |= matches!(spec.from, FeedbackFrom::Value { .. } | FeedbackFrom::LiveParameter { .. });
            // Keep the known state of a source that the old configuration also used.
            let known = before.iter().find(|it| it.spec.from == spec.from).map(|it| it.state.clone());
            let state = known.unwrap_or_else(|| self.first_state(&spec.from));
            self.rows.push(Row { spec: spec.clone(), state, by: Taint::Clean, dirty: false });
        }
        self.led = config.led.clone();
        self.mode_colors = config
            .modes
            .iter()
            .filter_map(|mode| {
                let color = config.led.mode_colors.get(&mode.name).or(mode.color.as_ref())?;
                Some((mode.name.clone(), color.clone()))
            })
            .collect();
        let is_off = self.led.scheme == LedScheme::Off;
        self.surfaces = if is_off { Vec::new() } else { led::surfaces(config, slots) };
        self.hits.clear();
        for surface in &self.surfaces {
            self.ports.entry(surface.port).or_default();
        }
        self.painted = None;
        self.dirty = true;
    }

    fn first_state(&self, from: &FeedbackFrom) -> State {
        match from {
            FeedbackFrom::Mode(mode) => State::Switch(*mode == self.mode),
            FeedbackFrom::Pressed { .. } => State::Press { held: false, shown_until: Micros(0) },
            FeedbackFrom::Value { .. } | FeedbackFrom::LiveParameter { .. } => State::Unknown,
            FeedbackFrom::Connected { device } => State::Switch(self.connected.get(device).copied().unwrap_or(false)),
            FeedbackFrom::PerformanceLock => State::Switch(self.performance_lock),
            FeedbackFrom::PendingApprovals => State::Switch(self.pending_approvals > 0),
        }
    }

    /// Called when the output of a port was opened or closed. The values of all its controls are
    /// sent again, because the state of a newly opened port is unknown.
    pub fn port_open(&mut self, port: DeviceSlot, open: bool) {
        if open {
            self.open.insert(port)
        } else {
            self.open.remove(&port)
        };
        self.refresh(Some(port));
    }

    /// Whether feedback rows or the LED scheme use this port.
    pub fn uses(&self, port: DeviceSlot) -> bool {
        self.ports.contains_key(&port)
    }

    /// Whether any light, ring or fader is configured.
    pub fn is_used(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Marks the controls of one port, or of all ports, so that their values are sent again.
    fn refresh(&mut self, port: Option<DeviceSlot>) {
        for (address, control) in &mut self.controls {
            if port.is_none_or(|it| it == address.port) {
                control.shown = None;
            }
        }
        self.painted = None;
        self.dirty = true;
    }

    /// Called when a state changed; `by` is the taint of the change.
    pub fn changed(&mut self, fact: Fact<'_>, by: Taint, now: Micros) {
        match fact {
            Fact::Mode(mode) => {
                if self.mode == mode {
                    return;
                }
                mode.clone_into(&mut self.mode);
                self.refresh(None);
                self.controls.values_mut().for_each(|it| it.by = it.by.max(by));
                self.painted_by = self.painted_by.max(by);
            }
            Fact::Connected { device, connected } => {
                self.connected.insert(device.to_owned(), connected);
            }
            Fact::PerformanceLock(on) => self.performance_lock = on,
            Fact::PendingApprovals(count) => self.pending_approvals = count,
            Fact::Pressed { .. } | Fact::Value { .. } | Fact::LiveParameter { .. } => {}
        }
        self.set_states(|row| {
            if !fact.concerns(&row.spec.from) {
                return None;
            }
            let state = match fact {
                Fact::Pressed { down, .. } => {
                    let State::Press { shown_until, .. } = row.state else { return None };
                    let shown_until = if down { now.plus_ms(FLASH_MS) } else { shown_until };
                    State::Press { held: down, shown_until }
                }
                Fact::Value { value, .. } | Fact::LiveParameter { value, .. } if !value.is_finite() => return None,
                Fact::Value { value, .. } | Fact::LiveParameter { value, .. } => State::Value(value),
                Fact::Mode(mode) => State::Switch(row.spec.from == FeedbackFrom::Mode(mode.to_owned())),
                Fact::Connected { connected: on, .. } | Fact::PerformanceLock(on) => State::Switch(on),
                Fact::PendingApprovals(count) => State::Switch(count > 0),
            };
            Some((state, by))
        });
    }

    /// Changes the state of each row for which `of` returns a different state.
    fn set_states(&mut self, of: impl Fn(&Row) -> Option<(State, Taint)>) {
        for row in &mut self.rows {
            if let Some((state, by)) = of(row).filter(|it| it.0 != row.state) {
                (row.state, row.by) = (state, by);
                (row.dirty, self.dirty) = (true, true);
            }
        }
    }

    /// Reads the engine: its mode, pressed mappings, and values of bindings.
    pub fn read_engine(&mut self, engine: &mut Engine, now: Micros) {
        if self.mode != **engine.mode().1 {
            let mode = std::sync::Arc::clone(engine.mode().1);
            self.changed(Fact::Mode(&mode), engine.mode_by(), now);
        }
        let mut fired: Vec<(String, Taint)> = Vec::new();
        let rows = &self.rows;
        engine.take_fired(|id, by| {
            if rows.iter().any(|it| matches!(&it.spec.from, FeedbackFrom::Pressed { mapping } if mapping == id)) {
                fired.push((id.to_owned(), by));
            }
        });
        for (mapping, by) in &fired {
            self.changed(Fact::Pressed { mapping, down: true }, *by, now);
        }
        self.set_states(|row| {
            if let FeedbackFrom::Pressed { mapping } = &row.spec.from
                && let State::Press { shown_until, .. } = row.state
            {
                Some((State::Press { held: engine.is_pressed(mapping), shown_until }, row.by))
            } else if let FeedbackFrom::Value { continuous } = &row.spec.from {
                engine.binding_value(continuous).map(|it| (State::Value(it.0), it.1))
            } else {
                None
            }
        });
    }

    /// Called when the message of a light could not be sent. The message is sent again later.
    pub fn not_sent(&mut self, light: &Light) {
        let number = |cc, channel, number| Address { port: light.port, cc, channel, number };
        let address = if let Body::Cc { channel, controller, .. } = light.message {
            number(true, channel, controller)
        } else if let Body::NoteOn { channel, note, .. } | Body::NoteOff { channel, note, .. } = light.message {
            number(false, channel, note)
        } else {
            return;
        };
        if let Some(control) = self.controls.get_mut(&address) {
            control.shown = None;
            self.dirty = true;
        }
    }

    /// Processes an event before the engine does. Returns `false` if the event was caused by the
    /// motor of a fader that we moved.
    pub fn hear(&mut self, event: &Event) -> bool {
        if !self.ports.contains_key(&event.device) {
            return true;
        }
        if let Body::Cc { channel, controller, .. } = event.body {
            let address = Address { port: event.device, cc: true, channel, number: controller };
            let Some(control) = self.controls.get_mut(&address).filter(|it| it.moves) else { return true };
            if control.sent_at.is_some_and(|sent| event.at < sent.plus_ms(MOTOR_MS)) {
                return false;
            }
            control.hand_until = Some(event.at.plus_ms(HAND_MS));
            // The position of the control is unknown now; a relative knob does not report its
            // position.
            control.shown = None;
            self.dirty = true;
        } else if let Body::NoteOn { channel, note, velocity } = event.body
            && self.surfaces.iter().any(|it| it.port == event.device)
        {
            self.hits.retain(|it| event.at < it.at.plus_ms(led::MEMORY_MS));
            if self.hits.len() < led::MAX_HITS {
                self.hits.push(Hit { port: event.device, channel, note, velocity, at: event.at, by: event.taint });
            }
            self.painted = None;
            self.dirty = true;
        }
        true
    }

    /// The latest time for the next call to [`Feedback::advance`].
    pub fn next_deadline(&self) -> Option<Micros> {
        if self.dirty { Some(Micros(0)) } else { self.next }
    }

    /// Appends the messages to send now to `out`. Returns at once if nothing is due.
    pub fn advance(&mut self, now: Micros, out: &mut Vec<Light>) {
        if !self.dirty && self.next.is_none_or(|it| now < it) {
            return;
        }
        self.dirty = false;
        self.want(now);
        self.paint(now);
        self.send(now, out);
        self.next = self.deadline(now);
    }

    /// Sets the wanted value of each control: from its first row that is on, else from its first
    /// row with a known state.
    fn want(&mut self, now: Micros) {
        for control in self.controls.values_mut() {
            let shows = || control.rows.iter().filter_map(|it| self.rows.get(*it)).filter_map(|it| it.shows(now));
            let Some((value, _)) = shows().find(|it| it.1).or_else(|| shows().next()) else { continue };
            let rows = control.rows.iter().filter_map(|it| self.rows.get(*it));
            let by = rows.filter(|it| it.dirty || it.fades(now)).map(|it| it.by).max().unwrap_or_default();
            want(control, value, by, &mut self.order);
        }
        self.rows.iter_mut().for_each(|it| it.dirty = false);
    }

    fn paint(&mut self, now: Micros) {
        let frame = now.0 / FRAME_US;
        if self.surfaces.is_empty() || self.painted == Some(frame) {
            return;
        }
        self.painted = Some(frame);
        self.hits.retain(|it| now < it.at.plus_ms(led::MEMORY_MS));
        let color = self.mode_colors.get(&self.mode).map(String::as_str);
        let by = self.hits.iter().map(|it| it.by).max().unwrap_or_default().max(std::mem::take(&mut self.painted_by));
        // The frame is calculated for the current time, so that a pressed pad is visible at once.
        for surface in &self.surfaces {
            for (pad, value) in led::frame(&self.led, surface, color, &self.hits, now) {
                let at = |channel: u8| Address { port: surface.port, cc: false, channel, number: pad.note };
                // A feedback row may use the press channel or the light channel of the pad. Both
                // control the same light.
                let is_row = |it: u8| self.controls.get(&at(it)).is_some_and(|it| !it.rows.is_empty());
                if !is_row(pad.channel) && !is_row(pad.light_channel) {
                    want(self.controls.entry(at(pad.light_channel)).or_default(), value, by, &mut self.order);
                }
            }
        }
    }

    fn send(&mut self, now: Micros, out: &mut Vec<Light>) {
        // Feedback rows are sent before scheme messages, and in each group the oldest first.
        let mut due: Vec<(bool, u64, Address)> = self
            .controls
            .iter()
            .filter(|(address, _)| self.open.contains(&address.port))
            .filter(|(_, it)| it.is_due() && it.hand_until.is_none_or(|until| until <= now))
            .map(|(address, it)| (it.rows.is_empty(), it.waiting, *address))
            .collect();
        due.sort_unstable();
        for (paint, _, address) in due {
            let (Some(port), Some(control)) = (self.ports.get_mut(&address.port), self.controls.get_mut(&address))
            else {
                continue;
            };
            let Some(value) = control.wanted.filter(|_| port.may_send(now)) else { continue };
            if paint && now < port.paint_free() {
                continue;
            }
            port.note(now, paint);
            control.shown = Some(value);
            control.sent_at = Some(now);
            let by = std::mem::take(&mut control.by);
            out.push(Light { port: address.port, message: address.message(value), by });
        }
    }

    fn deadline(&self, now: Micros) -> Option<Micros> {
        let mut next: Option<Micros> = None;
        let mut at = |time: Micros| next = Some(next.map_or(time, |it| it.min(time)));
        for (address, control) in self.controls.iter().filter(|it| it.1.is_due()) {
            let Some(port) = self.ports.get(&address.port).filter(|_| self.open.contains(&address.port)) else {
                continue;
            };
            let mut due = control.hand_until.unwrap_or(now).max(port.next_free().unwrap_or(now));
            if control.rows.is_empty() {
                due = due.max(port.paint_free());
            }
            at(due.max(Micros(now.0 + 1)));
        }
        for row in &self.rows {
            if let State::Press { held: false, shown_until } = row.state
                && now < shown_until
            {
                at(shown_until);
            }
        }
        let watched = self.surfaces.iter().any(|it| self.open.contains(&it.port));
        if watched && led::moves(self.led.scheme, &self.hits) {
            at(Micros((now.0 / FRAME_US + 1) * FRAME_US));
        }
        next
    }
}

/// Sets the wanted value of a control. A control that is already queued keeps its position.
fn want(control: &mut Control, value: u8, by: Taint, order: &mut u64) {
    let waited = control.is_due();
    control.by = if waited { control.by.max(by) } else { by };
    control.wanted = Some(value);
    if !waited {
        *order += 1;
        control.waiting = *order;
    }
}
