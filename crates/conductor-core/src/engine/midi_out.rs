//! MIDI output of mappings, routes and bindings. Notes and pedals are entered in the ledger, so
//! that they always end.

use super::effect::Effect;
use super::ledger::{Held, Owner};
use super::{Context, Engine, Firing, Timer, curves};
use crate::action::{MidiOut, Transform, Velocity};
use crate::event::echo::Echo;
use crate::event::{Body, DeviceSlot, Trail};
use crate::mapping::table::RowId;

impl Engine {
    pub(super) fn send_midi(
        &mut self,
        firing: Firing<'_>,
        port: DeviceSlot,
        channel: u8,
        message: &MidiOut,
        out: &mut Vec<Effect>,
    ) {
        let Firing { row, context, .. } = firing;
        let message = match message {
            MidiOut::NoteOn { note, velocity, duration_ms } => {
                let velocity = curves::velocity(*velocity, context.values.velocity);
                let message = Body::NoteOn { channel, note: *note, velocity };
                return self.note_on(firing, port, message, *duration_ms, out);
            }
            MidiOut::NoteOff { note, velocity } => {
                // Do not send the velocity of the press as a release velocity; the two are
                // independent.
                let by_trigger = matches!(velocity, Velocity::Trigger);
                let velocity = if by_trigger { 0 } else { curves::velocity(*velocity, context.values.velocity) };
                for _ in 0..self.ledger.take_note(port, channel, *note) {
                    self.send(port, Body::NoteOff { channel, note: *note, velocity }, context.trail, out);
                }
                return;
            }
            MidiOut::Cc { controller: 64, value } => return self.pedal(port, channel, *value, context, Some(row), out),
            MidiOut::Cc { controller, value } => Body::Cc { channel, controller: *controller, value: *value },
            MidiOut::ProgramChange { program } => Body::Program { channel, program: *program },
            MidiOut::PitchBend { pitch } => {
                Body::PitchBend { channel, value: (i32::from(*pitch) + 8192).clamp(0, 16383) as u16 }
            }
            MidiOut::Aftertouch { note: Some(note), pressure } => {
                Body::PolyPressure { channel, note: *note, pressure: *pressure }
            }
            MidiOut::Aftertouch { note: None, pressure } => Body::ChannelPressure { channel, pressure: *pressure },
        };
        self.send(port, message, context.trail, out);
    }

    /// Forwards the event that fired the action to a port. Returns `false` for events that are not
    /// MIDI and for MIDI messages that are never forwarded.
    pub(super) fn forward(
        &mut self,
        firing: Firing<'_>,
        port: DeviceSlot,
        transform: &Transform,
        out: &mut Vec<Effect>,
    ) -> bool {
        let Firing { row, context, .. } = firing;
        match context.body.as_ref().and_then(|body| curves::transform(transform, body)) {
            Some(message @ Body::NoteOn { .. }) => self.note_on(firing, port, message, None, out),
            Some(Body::Cc { channel, controller: 64, value }) => {
                self.pedal(port, channel, value, context, Some(row), out);
            }
            Some(Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. }) | None => return false,
            Some(message) => self.send(port, message, context.trail, out),
        }
        true
    }

    /// Sends a note-on and enters it in the ledger. The note ends after its duration, at the key's
    /// release, or when its mapping is removed.
    fn note_on(
        &mut self,
        firing: Firing<'_>,
        port: DeviceSlot,
        message: Body,
        duration_ms: Option<u32>,
        out: &mut Vec<Effect>,
    ) {
        let Firing { row, context, released, .. } = firing;
        let Body::NoteOn { channel, note, .. } = message else { return };
        self.send(port, message, context.trail, out);
        let held = Held::Note { port, channel, note };
        let owner = match (duration_ms, context.press) {
            (Some(_), _) => Owner::Timer,
            (None, Some(press)) => Owner::Press(press.id),
            (None, None) => Owner::Mapping,
        };
        let entry = self.ledger.enter(owner, Some(context.device), Some(row), held, context.trail.taint);
        match (duration_ms, context.press) {
            (Some(ms), _) => {
                let due = self.now.plus_ms(ms);
                self.timers.set(due, Timer::NoteEnd(entry));
            }
            // The key is already up, so no release event will follow.
            (None, Some(press)) if released || !press.held => self.ledger.end(entry, out),
            (None, Some(_) | None) => {}
        }
    }

    /// Sends a sustain pedal message. The pedal stays down until it is released, its device is lost
    /// or muted, or its mapping is removed.
    pub(super) fn pedal(
        &mut self,
        port: DeviceSlot,
        channel: u8,
        value: u8,
        context: &Context,
        row: Option<RowId>,
        out: &mut Vec<Effect>,
    ) {
        self.send(port, Body::Cc { channel, controller: 64, value }, context.trail, out);
        if value < 64 {
            self.ledger.take_sustain(port, channel);
        } else if !self.ledger.holds_sustain(port, channel) {
            let held = Held::Sustain { port, channel };
            self.ledger.enter(Owner::Device, Some(context.device), row, held, context.trail.taint);
        }
    }

    /// Sends a MIDI message that was caused by an event with this trail. Only the ledger sends its
    /// note-offs and pedal releases itself.
    pub(super) fn send(&mut self, port: DeviceSlot, message: Body, trail: Trail, out: &mut Vec<Effect>) {
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

    pub(super) fn guard(&mut self, port: DeviceSlot, message: &Body) {
        if self.tables.facts(port).echo_guard {
            self.guarded.entry(port).or_insert_with(Echo::of_device).note_sent(self.now, message);
        }
    }
}
