//! Events of controls that are not keys: controllers, pressure, bend, programs, sticks, triggers,
//! OSC. A `Gate` decides whether an event fires a rule. The events also set the values of
//! continuous bindings.

use super::continuous::{self, Passed, Sent};
use super::effect::{Effect, Placeholders};
use super::thresholds::{self, Memory, PULL_HYSTERESIS};
use super::trace::Outcome;
use super::{Context, Engine, LastValues, TOO_FAR, Timer, UNHEARD};
use crate::event::assemble::{Assembled, Change, ParameterKind};
use crate::event::{Body, DeviceSlot, Event, OscArg, OscMessage, Side, Trail};
use crate::mapping::table::{BindingId, Kind, RowId};
use crate::mapping::{EncoderMode, Gate, OscTest, Scalar, SourceKind, TriggerKind, Turn};
use std::sync::Arc;

/// Whether a rule or binding used the event, and whether routes may also forward it.
#[derive(Clone, Copy, Default)]
struct Claim {
    taken: bool,
    let_through: bool,
    fired: bool,
}

impl Claim {
    fn and(self, other: Claim) -> Claim {
        Claim {
            taken: self.taken || other.taken,
            let_through: self.let_through || other.let_through,
            fired: self.fired || other.fired,
        }
    }
}

impl Engine {
    pub(super) fn feed_value(&mut self, event: &Event, out: &mut Vec<Effect>) {
        let claim = match &event.body {
            Body::Cc { channel, controller, value } => self.controller(event, *channel, *controller, *value, out),
            Body::ChannelPressure { channel, pressure } => {
                let seen = self.last(event.device).pressure[usize::from(*channel & 15)];
                self.last(event.device).pressure[usize::from(*channel & 15)] = *pressure;
                let claim = self.gates(event, Kind::Pressure, 0, *channel, u16::from(*pressure), heard(seen), out);
                claim.and(self.bind(event, Kind::SourcePressure, 0, *channel, 0, Raw::seven(*pressure), out))
            }
            Body::PolyPressure { channel, note, pressure } => {
                let cell = &mut self.last(event.device).poly[usize::from(*channel & 15)][usize::from(*note & 127)];
                let seen = std::mem::replace(cell, *pressure);
                let number = usize::from(*note & 127);
                let claim =
                    self.gates(event, Kind::PolyPressure, number, *channel, u16::from(*pressure), heard(seen), out);
                claim.and(self.bind(event, Kind::SourcePoly, number, *channel, 0, Raw::seven(*pressure), out))
            }
            Body::PitchBend { channel, value } => {
                let cell = &mut self.last(event.device).bend[usize::from(*channel & 15)];
                let seen = Some(std::mem::replace(cell, *value)).filter(|it| *it != u16::MAX);
                let claim = self.gates(event, Kind::Bend, 0, *channel, *value, seen, out);
                claim.and(self.bind(event, Kind::SourceBend, 0, *channel, 0, Raw::bend(*value), out))
            }
            Body::Program { channel, program } => self.program(event, *channel, *program, out),
            Body::Axis { axis, value } => {
                self.device(event.device).axes[axis.index()] = f64::from(*value).clamp(-1.0, 1.0);
                self.stick(event, axis.stick(), out)
            }
            Body::Trigger { side, value } => self.pull(event, *side, f64::from(*value), out),
            Body::Osc(message) => self.osc(event, message, out),
            // Transport and SysEx messages are only routed.
            Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. } => return self.route(event, None, out),
            Body::NoteOn { .. } | Body::NoteOff { .. } | Body::ButtonDown(_) | Body::ButtonUp(_) => Claim::default(),
        };
        if !claim.taken {
            self.note_outcome(event, "", Outcome::NoMatch, "");
        }
        if !claim.taken || claim.let_through {
            self.route(event, None, out);
        }
    }

    fn last(&mut self, device: DeviceSlot) -> &mut LastValues {
        self.device(device).last.get_or_insert_default()
    }

    fn controller(&mut self, event: &Event, channel: u8, controller: u8, value: u8, out: &mut Vec<Effect>) -> Claim {
        let cell = &mut self.last(event.device).cc[usize::from(channel & 15)][usize::from(controller & 127)];
        let seen = heard(std::mem::replace(cell, value));
        let Assembled { cc14, parameter } = self.device(event.device).assembler.feed(channel, controller, value);
        let number = usize::from(controller & 127);
        let mut claim = self.gates(event, Kind::Cc, number, channel, u16::from(value), seen, out);
        claim = claim.and(self.encoders(event, Kind::Encoder, number, channel, controller, value, out));
        claim = claim.and(self.bind(event, Kind::SourceCc, number, channel, 0, Raw::cc(controller, value), out));
        if let Some((number, value)) = cc14 {
            claim = claim.and(self.bind(
                event,
                Kind::SourceCc14,
                usize::from(number),
                channel,
                0,
                Raw::fourteen(value),
                out,
            ));
        }
        if let Some((parameter, change)) = parameter {
            let kind = match parameter.kind {
                ParameterKind::Nrpn => Kind::SourceNrpn,
                ParameterKind::Rpn => Kind::SourceRpn,
            };
            claim = claim.and(match change {
                Change::Value(value) => self.bind(event, kind, 0, channel, parameter.number, Raw::fourteen(value), out),
                Change::Increment | Change::Decrement if parameter.kind == ParameterKind::Nrpn => {
                    let claim = self.encoders(event, Kind::NrpnStep, 0, channel, controller, value, out);
                    let raw = Raw::cc(controller, value);
                    claim.and(self.bind(event, Kind::SourceNrpnStep, 0, channel, parameter.number, raw, out))
                }
                Change::Increment | Change::Decrement => Claim::default(),
            });
        }
        claim
    }

    // Rules with a gate: a window, an edge, a hysteresis and a throttle.

    #[expect(clippy::too_many_arguments, reason = "the arguments are the address of a control and its two values")]
    fn gates(
        &mut self,
        event: &Event,
        kind: Kind,
        number: usize,
        channel: u8,
        value: u16,
        seen: Option<u16>,
        out: &mut Vec<Effect>,
    ) -> Claim {
        let tables = Arc::clone(&self.tables);
        let mut claim = Claim::default();
        let mut fires = None;
        for entry in tables.device(self.mode, event.device).rules(kind, number) {
            if entry.channels & kind.channels(channel) == 0 {
                continue;
            }
            claim.taken = true;
            let row = tables.row(entry.id);
            claim.let_through |= row.let_through;
            let kind = &row.trigger.kind;
            let (gate, default_hysteresis, value, seen) = if let TriggerKind::Cc { gate, .. }
            | TriggerKind::Aftertouch { gate }
            | TriggerKind::PolyAftertouch { gate, .. } = kind
            {
                (*gate, 0.0, value, seen)
            } else if let TriggerKind::GamepadTrigger { gate, .. } = kind {
                // The threshold of a gamepad trigger acts as a window even if the file contains no
                // window.
                (Gate { window: Some(row.window), ..*gate }, PULL_HYSTERESIS, value, seen)
            } else if let TriggerKind::PitchBend { gate, center_deadzone } = kind {
                let centred = |it: u16| if it.abs_diff(8192) <= *center_deadzone { 8192 } else { it };
                (*gate, 0.0, centred(value), seen.map(centred))
            } else {
                continue;
            };
            let now = self.now;
            let Some(memory) = self.memory(row.state, event.device, channel) else { continue };
            let hysteresis = gate.hysteresis.unwrap_or(default_hysteresis);
            if thresholds::step(&gate, row.window, hysteresis, memory, seen, value, now) && fires.is_none() {
                fires = Some(RowId(entry.id));
            }
        }
        if let Some(row) = fires {
            claim.fired = true;
            let full = if kind == Kind::Bend { 16383.0 } else { 127.0 };
            self.fire_value(event, row, f64::from(value), f64::from(value) / full, out);
        }
        claim
    }

    fn memory(&mut self, state: Option<u32>, device: DeviceSlot, channel: u8) -> Option<&mut Memory> {
        self.memories.of(state?, device, channel)
    }

    fn fire_value(&mut self, event: &Event, row: RowId, value: f64, unit: f64, out: &mut Vec<Effect>) {
        let tables = Arc::clone(&self.tables);
        let rule = tables.row(row.0);
        let note = if let Body::PolyPressure { note, .. } = &event.body { Some(*note) } else { None };
        let channel = event.body.channel();
        let context = Context {
            gesture: rule.trigger.kind.name(),
            press: None,
            device: event.device,
            body: Some(event.body.clone()),
            trail: event.trail(),
            values: Placeholders { velocity: None, value: Some(value), unit: Some(unit), note, channel },
        };
        self.fire(row, rule.action, context, out);
    }

    // Rules for encoders.

    #[expect(clippy::too_many_arguments, reason = "the arguments are the address of a control and its value")]
    fn encoders(
        &mut self,
        event: &Event,
        kind: Kind,
        number: usize,
        channel: u8,
        controller: u8,
        value: u8,
        out: &mut Vec<Effect>,
    ) -> Claim {
        let tables = Arc::clone(&self.tables);
        let selected = self.device(event.device).assembler.selected(channel);
        let mut claim = Claim::default();
        let mut fires: Option<(RowId, i32, Trail)> = None;
        for entry in tables.device(self.mode, event.device).rules(kind, number) {
            if entry.channels & kind.channels(channel) == 0 {
                continue;
            }
            let row = tables.row(entry.id);
            let TriggerKind::EncoderTurn { encoder, direction, step, invert, .. } = &row.trigger.kind else { continue };
            if let EncoderMode::NrpnIncDec { parameter } = encoder.mode
                && selected.is_none_or(|it| it.number != parameter || it.kind != ParameterKind::Nrpn)
            {
                continue;
            }
            claim.taken = true;
            claim.let_through |= row.let_through;
            let now = self.now;
            let Some(memory) = self.memory(row.state, event.device, channel) else { continue };
            let mut detents = thresholds::detents(encoder.mode, &mut memory.ticks, controller, value);
            if *invert {
                detents = -detents;
            }
            let detents = thresholds::accelerate(encoder, &mut memory.ticks, detents, now);
            if detents == 0 {
                continue;
            }
            if direction.is_some_and(|it| it != thresholds::turned(detents)) {
                memory.detents = 0;
                continue;
            }
            if memory.detents.signum() == -detents.signum() {
                memory.detents = 0;
            }
            // Several detents can cause one firing, so their trails are joined.
            memory.trail = if memory.detents == 0 { event.trail() } else { memory.trail.and(event.trail()) };
            memory.detents += detents;
            let step = i32::from((*step).max(1));
            let times = memory.detents.abs() / step;
            memory.detents %= step;
            if times > 0 && fires.is_none() {
                fires = Some((RowId(entry.id), times, memory.trail));
            }
        }
        if let Some((row, times, trail)) = fires {
            claim.fired = true;
            let event = &Event { taint: trail.taint, hops: trail.hops, ..event.clone() };
            for _ in 0..times {
                self.fire_value(event, row, f64::from(value), f64::from(value) / 127.0, out);
            }
        }
        claim
    }

    // Rules for program changes.

    fn program(&mut self, event: &Event, channel: u8, program: u8, out: &mut Vec<Effect>) -> Claim {
        let tables = Arc::clone(&self.tables);
        let bank = self.device(event.device).assembler.bank(channel);
        let wanted = |want: Option<u8>, got: Option<u8>| want.is_none_or(|it| got == Some(it));
        let rule = tables.device(self.mode, event.device).rules(Kind::Program, 0).iter().find(|entry| {
            let TriggerKind::ProgramChange { program: want, bank_msb, bank_lsb } = &tables.row(entry.id).trigger.kind
            else {
                return false;
            };
            entry.channels & Kind::Program.channels(channel) != 0
                && wanted(*want, Some(program))
                && wanted(*bank_msb, bank.msb)
                && wanted(*bank_lsb, bank.lsb)
        });
        let Some(entry) = rule else { return Claim::default() };
        self.fire_value(event, RowId(entry.id), f64::from(program), f64::from(program) / 127.0, out);
        Claim { taken: true, let_through: tables.row(entry.id).let_through, fired: true }
    }

    // Rules for the sticks and triggers of gamepads.

    fn stick(&mut self, event: &Event, first: usize, out: &mut Vec<Effect>) -> Claim {
        let deadzone = self.tables.advanced.stick_deadzone;
        let axes = self.device(event.device).axes;
        let (x, y) = thresholds::radial(deadzone, axes[first], axes[first + 1]);
        let mut claim = self.stick_axis(event, first, x, out);
        claim = claim.and(self.stick_axis(event, first + 1, y, out));
        claim = claim.and(self.bind(event, Kind::SourceStick, first, 0, 0, Raw::stick(x), out));
        claim.and(self.bind(event, Kind::SourceStick, first + 1, 0, 0, Raw::stick(y), out))
    }

    fn stick_axis(&mut self, event: &Event, axis: usize, value: f64, out: &mut Vec<Effect>) -> Claim {
        let tables = Arc::clone(&self.tables);
        let mut claim = Claim::default();
        let mut fires = None;
        for entry in tables.device(self.mode, event.device).rules(Kind::Stick, axis) {
            let row = tables.row(entry.id);
            let TriggerKind::GamepadAnalogStick { direction, threshold, hysteresis, repeat_ms, .. } = &row.trigger.kind
            else {
                continue;
            };
            claim.taken = true;
            claim.let_through |= row.let_through;
            let now = self.now;
            let Some(memory) = self.memory(row.state, event.device, 0) else { continue };
            let side = if value >= 0.0 { Turn::Clockwise } else { Turn::CounterClockwise };
            let wanted = direction.is_none_or(|it| it == side);
            let crossed = value.abs() >= *threshold && memory.over != Some(side);
            if memory.over.is_some_and(|over| over != side || value.abs() < threshold - hysteresis) {
                memory.over = None;
            }
            if crossed && wanted {
                memory.over = Some(side);
                if fires.is_none() {
                    fires = Some(RowId(entry.id));
                    if let Some(ms) = repeat_ms {
                        let (device, trail) = (event.device, event.trail());
                        let timer = Timer::StickRepeat { device, row: RowId(entry.id), trail };
                        self.timers.set(now.plus_ms(*ms), timer);
                    }
                }
            }
        }
        if let Some(row) = fires {
            claim.fired = true;
            self.fire_value(event, row, value, (value + 1.0) / 2.0, out);
        }
        claim
    }

    /// Fires the rule again if the stick is still beyond its threshold.
    pub(super) fn stick_repeat(&mut self, device: DeviceSlot, row: RowId, trail: Trail, out: &mut Vec<Effect>) {
        let tables = Arc::clone(&self.tables);
        let rule = tables.row(row.0);
        let TriggerKind::GamepadAnalogStick { axis, repeat_ms: Some(ms), .. } = &rule.trigger.kind else { return };
        let still = self.memory(rule.state, device, 0).is_some_and(|it| it.over.is_some());
        let in_reach = rule.mode.is_none_or(|it| it == self.mode);
        if !still || !in_reach || self.is_muted(device) {
            return;
        }
        let first = axis.stick();
        let axes = self.device(device).axes;
        let (x, y) = thresholds::radial(tables.advanced.stick_deadzone, axes[first], axes[first + 1]);
        let value = if axis.index() == first { x } else { y };
        let Trail { taint, hops } = trail;
        let body = Body::Axis { axis: *axis, value: value as f32 };
        let event = Event { at: self.now, device, taint, hops, body };
        let due = self.now.plus_ms(*ms);
        self.timers.set(due, Timer::StickRepeat { device, row, trail });
        self.fire_value(&event, row, value, (value + 1.0) / 2.0, out);
    }

    fn pull(&mut self, event: &Event, side: Side, value: f64, out: &mut Vec<Effect>) -> Claim {
        let unit = thresholds::pull(self.tables.advanced.trigger_deadzone, value);
        let seven = (unit * 127.0).round() as u8;
        let cell = &mut self.last(event.device).pull[side.index()];
        let seen = heard(std::mem::replace(cell, seven));
        let claim = self.gates(event, Kind::Pull, side.index(), 0, u16::from(seven), seen, out);
        claim.and(self.bind(event, Kind::SourcePull, side.index(), 0, 0, Raw::unit(unit), out))
    }

    // Rules for OSC messages.

    fn osc(&mut self, event: &Event, message: &OscMessage, out: &mut Vec<Effect>) -> Claim {
        let tables = Arc::clone(&self.tables);
        let mut claim = Claim::default();
        let rule = tables.device(self.mode, event.device).rules(Kind::Osc, 0).iter().find(|entry| {
            let row = tables.row(entry.id);
            let TriggerKind::Osc { args, .. } = &row.trigger.kind else { return false };
            row.pattern.as_ref().is_some_and(|it| it.is_match(&message.address))
                && args.iter().all(|test| arg_holds(test, message.args.get(usize::from(test.index))))
        });
        if let Some(entry) = rule {
            claim = Claim { taken: true, let_through: tables.row(entry.id).let_through, fired: true };
            let value = message.args.first().and_then(OscArg::number).unwrap_or(0.0);
            self.fire_value(event, RowId(entry.id), value, value.clamp(0.0, 1.0), out);
        }
        let bound = tables.device(self.mode, event.device).rules(Kind::SourceOsc, 0).iter().find_map(|entry| {
            let binding = &tables.bindings[entry.id as usize];
            let SourceKind::Osc { arg_index, .. } = &binding.spec.source.kind else { return None };
            let value = message.args.get(usize::from(*arg_index)).and_then(OscArg::number)?;
            binding.pattern.as_ref().is_some_and(|it| it.is_match(&message.address)).then_some((entry.id, value))
        });
        if let Some((binding, value)) = bound {
            claim.taken = true;
            self.drive(BindingId(binding), Raw::unit(value), event.trail(), out);
        }
        claim
    }

    // Continuous bindings.

    #[expect(clippy::too_many_arguments, reason = "the arguments are the address of a control and its value")]
    fn bind(
        &mut self,
        event: &Event,
        kind: Kind,
        number: usize,
        channel: u8,
        parameter: u16,
        raw: Raw,
        out: &mut Vec<Effect>,
    ) -> Claim {
        let table = self.tables.device(self.mode, event.device);
        let Some(binding) = table.first(kind, number, kind.channels(channel), parameter) else {
            return Claim::default();
        };
        if self.is_too_far(event.trail()) {
            self.counters.actions_failed += 1;
            self.note_outcome(event, "Continuous", Outcome::Failed, TOO_FAR);
        } else {
            self.drive(BindingId(binding), raw, event.trail(), out);
        }
        Claim { taken: true, ..Claim::default() }
    }

    fn drive(&mut self, id: BindingId, raw: Raw, trail: Trail, out: &mut Vec<Effect>) {
        let tables = Arc::clone(&self.tables);
        let binding = &tables.bindings[id.0 as usize];
        let glue = &binding.spec.glue;
        let now = self.now;
        let state = &mut self.bindings[id.0 as usize];
        // A pending value is replaced by the new value, so the trails of both values are joined.
        state.trail = if state.pending.is_some() { state.trail.and(trail) } else { trail };
        state.settle(now);
        let (value, relative) = if let SourceKind::Encoder { encoder, step, .. } = &binding.spec.source.kind {
            let detents = thresholds::detents(encoder.mode, &mut state.ticks, raw.controller, raw.value as u8);
            let detents = thresholds::accelerate(encoder, &mut state.ticks, detents, now);
            if detents == 0 {
                return;
            }
            state.position = (state.position + f64::from(detents) * step).clamp(0.0, 1.0);
            (state.position, true)
        } else {
            (continuous::normalise(glue, raw.value, raw.full, raw.centre), false)
        };
        match state.pass(glue, relative, value, continuous::throttle_of(glue, &binding.targets), now) {
            Passed::Nothing => {}
            Passed::Now(value) => self.send_value(id, value, out),
            Passed::Later(due) => {
                if self.bindings[id.0 as usize].flush.is_none() {
                    let key = self.timers.set(due, Timer::Flush(id));
                    self.bindings[id.0 as usize].flush = Some(key);
                }
            }
        }
    }

    pub(super) fn flush(&mut self, id: BindingId, out: &mut Vec<Effect>) {
        let now = self.now;
        let Some(state) = self.bindings.get_mut(id.0 as usize) else { return };
        state.flush = None;
        if let Some(value) = state.pending.take() {
            state.sent(value, now);
            self.send_value(id, value, out);
        }
    }

    /// Sends the delayed value of each binding before the bindings are replaced.
    pub(super) fn flush_all(&mut self, out: &mut Vec<Effect>) {
        for id in 0..self.bindings.len() as u32 {
            self.flush(BindingId(id), out);
        }
    }

    fn send_value(&mut self, id: BindingId, value: f64, out: &mut Vec<Effect>) {
        let tables = Arc::clone(&self.tables);
        let binding = &tables.bindings[id.0 as usize];
        let trail = self.bindings[id.0 as usize].trail;
        self.counters.actions += 1;
        for target in &binding.targets {
            let channel = target.spec.midi().map_or(0, |(_, channel)| channel);
            let mut selected = target
                .port
                .and_then(|port| self.selected.iter().find(|it| (it.0, it.1) == (port, channel)).and_then(|it| it.2));
            match continuous::render(&binding.spec.glue, &target.spec, value, &mut selected) {
                Sent::Midi(messages) => {
                    let Some(port) = target.port else { continue };
                    for message in messages.into_iter().flatten() {
                        self.send(port, message, trail, out);
                    }
                    self.selected.retain(|it| (it.0, it.1) != (port, channel));
                    if selected.is_some() {
                        self.selected.push((port, channel, selected));
                    }
                }
                Sent::Osc(value) => {
                    let target = Arc::clone(&target.spec);
                    out.push(Effect::OscValue { target, value, taint: trail.taint });
                }
                Sent::Parameter { value, ranged } => {
                    let target = Arc::clone(&target.spec);
                    out.push(Effect::Parameter { target, value, ranged, taint: trail.taint });
                }
            }
        }
    }
}

/// The value of a source, in the source's own units.
#[derive(Clone, Copy)]
struct Raw {
    value: f64,
    full: (f64, f64),
    centre: Option<f64>,
    controller: u8,
}

impl Raw {
    fn seven(value: u8) -> Self {
        Raw { value: f64::from(value), full: (0.0, 127.0), centre: None, controller: 0 }
    }

    fn cc(controller: u8, value: u8) -> Self {
        Raw { controller, ..Raw::seven(value) }
    }

    fn fourteen(value: u16) -> Self {
        Raw { value: f64::from(value), full: (0.0, 16383.0), centre: None, controller: 0 }
    }

    fn bend(value: u16) -> Self {
        Raw { centre: Some(8192.0), ..Raw::fourteen(value) }
    }

    fn stick(value: f64) -> Self {
        Raw { value, full: (-1.0, 1.0), centre: Some(0.0), controller: 0 }
    }

    fn unit(value: f64) -> Self {
        Raw { value, full: (0.0, 1.0), centre: None, controller: 0 }
    }
}

fn heard(value: u8) -> Option<u16> {
    (value != UNHEARD).then_some(u16::from(value))
}

pub(super) fn arg_holds(test: &OscTest, arg: Option<&OscArg>) -> bool {
    let Some(arg) = arg else { return false };
    let value = arg.number();
    let equal = |scalar: &Scalar| match (scalar, arg) {
        (Scalar::Text(want), OscArg::Text(got)) => want == got,
        (Scalar::Bool(want), OscArg::Bool(got)) => want == got,
        (Scalar::Number(want), OscArg::Int(_) | OscArg::Float(_)) => {
            // OSC numbers are sent as float32, so compare with the float32 form of the configured
            // number.
            value.is_some_and(|got| got == *want || got as f32 == *want as f32)
        }
        (Scalar::Text(_) | Scalar::Bool(_) | Scalar::Number(_), _) => false,
    };
    test.min.is_none_or(|min| value.is_some_and(|it| it >= min))
        && test.max.is_none_or(|max| value.is_some_and(|it| it <= max))
        && test.equals.as_ref().is_none_or(equal)
}
