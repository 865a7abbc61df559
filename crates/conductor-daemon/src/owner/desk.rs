//! The desk: the engine and all other data needed to decide an event. The owner holds the desk
//! while it works. While the owner waits, the callback of an audio server may take the desk and
//! decide its events there, so that their messages leave in the same period.
//!
//! A callback carries out only MIDI messages for ports of its own server. All other effects stay in
//! `left` for the owner. The owner also does all bookkeeping: lights, the log, the published mode,
//! and new memory for the engine.
//!
//! In these cases an event goes to the ring for the owner, even if the desk is free:
//! - an older event waits in a ring
//! - a learn session runs, or a client listens to an output: both need events or messages in order
//! - many effects of earlier events wait for the owner
//! - the device has lights, motor faders or the approval pad
//! - the engine would have to allocate memory, for example for a SysEx message

use super::activity::Pressed;
use super::inputs::Inputs;
use conductor_core::engine::{Effect, Engine};
use conductor_core::event::{DeviceSlot, Event, Micros, Taint, midi};
use conductor_hosts::midi::period::{Decide, Outputs, Written};

/// Space for the effects of a callback. One event has at most about a thousand effects, because an
/// action pauses after that many steps.
const LEFT: usize = 2048;
/// If at least this many effects wait for the owner, events go to the owner too.
const LEFT_BUSY: usize = 256;

pub struct Desk {
    pub engine: Engine,
    pub inputs: Inputs,
    /// Effects that a callback has left for the owner.
    pub left: Vec<Effect>,
    /// The effects of the current event.
    fresh: Vec<Effect>,
    /// Whether events must go to the owner first: a learn session runs, or a client listens to an
    /// output.
    pub owner_first: bool,
    /// Whether the owner must see every event, because lights or monitors show it.
    pub owner_watches: bool,
    /// The time at which the owner wakes up by itself.
    pub owner_wakes: Option<Micros>,
    /// The number of the first trace record whose firing the owner has not counted. Absent if the
    /// counts are not used.
    pub owner_read: Option<u64>,
    /// The engine's count of mode changes when the owner last read it.
    pub mode_changes: u64,
    /// The time at which a callback last sent a message.
    pub sent: Option<Micros>,
    pub counts: Counts,
    /// Notes and buttons that are down.
    pub(crate) pressed: Pressed,
    last_decided: Micros,
    /// Number of the first trace record of this period.
    first_record: u64,
}

/// Counts of events by where they were decided.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Events that were decided in the callback that received them.
    pub decided: u64,
    /// Events that went to a ring, because the owner held the desk.
    pub busy: u64,
    /// Events that went to a ring for another reason; see the module documentation.
    pub deferred: u64,
    /// Events that the owner decided after an event with a later time stamp. The difference is less
    /// than one period, because the callback found all rings empty.
    pub inverted: u64,
}

impl Desk {
    pub fn new(engine: Engine) -> Self {
        Desk {
            engine,
            inputs: Inputs::default(),
            left: Vec::with_capacity(LEFT),
            fresh: Vec::with_capacity(LEFT),
            owner_first: false,
            owner_watches: false,
            owner_wakes: None,
            owner_read: None,
            mode_changes: 0,
            sent: None,
            counts: Counts::default(),
            pressed: Pressed::default(),
            last_decided: Micros(0),
            first_record: 0,
        }
    }

    /// Counts the event as inverted if an event with a later time stamp was already decided.
    pub fn note_order(&mut self, event: &Event) {
        self.counts.inverted += u64::from(event.at < self.last_decided);
    }

    /// Reserves memory, so that callbacks do not allocate.
    pub fn make_room(&mut self) {
        self.engine.make_room();
        self.left.reserve(LEFT);
        self.fresh.reserve(LEFT);
    }

    fn carry_out(&mut self, at: Micros, outputs: &mut dyn Outputs) {
        for effect in self.fresh.drain(..) {
            if let Effect::Midi { port, message, taint, .. } = &effect
                && !waits(&self.left, *port)
                && let Ok(bytes) = midi::short(message)
            {
                match outputs.write(*port, &bytes) {
                    Written::Sent => {
                        self.sent = Some(at);
                        if *taint != Taint::Clean {
                            self.engine.sent_without_hand(message, at);
                        }
                        continue;
                    }
                    Written::Full | Written::NotHere => {}
                }
            }
            self.left.push(effect);
        }
    }
}

/// Whether an older message to this port waits for the owner.
fn waits(left: &[Effect], port: DeviceSlot) -> bool {
    left.iter().any(|it| matches!(it, Effect::Midi { port: other, .. } if *other == port))
}

impl Decide for Desk {
    fn begin(&mut self, missed: u64) -> bool {
        self.counts.busy += missed;
        self.first_record = self.engine.trace().next_seq();
        !self.owner_first && self.left.len() < LEFT_BUSY && self.inputs.is_empty()
    }

    fn decide(&mut self, event: &Event, outputs: &mut dyn Outputs) -> bool {
        let Some(taint) = self.inputs.direct(event.device) else { return false };
        if !self.engine.has_room(event.device, &event.body) || self.left.capacity() - self.left.len() < LEFT / 2 {
            return false;
        }
        self.inputs.note_event(event.device, event.at);
        self.pressed.note(event);
        let event = Event { taint: event.taint.max(taint), ..event.clone() };
        self.engine.feed(&event, &mut self.fresh);
        self.carry_out(event.at, outputs);
        self.last_decided = event.at;
        self.counts.decided += 1;
        true
    }

    fn end(&mut self, now: Micros, deferred: u64) -> bool {
        self.counts.deferred += deferred;
        self.engine.trace_mut().stamp(self.first_record, now);
        let is_earlier = |deadline| self.owner_wakes.is_none_or(|it| deadline < it);
        // The owner counts firings from the trace, so it must read a record before the record is
        // overwritten.
        let unread = self.owner_read.map_or(0, |it| self.engine.trace().next_seq().saturating_sub(it));
        self.owner_watches
            || unread > u64::from(self.engine.tables().advanced.trace_buffer_size / 2)
            || !self.left.is_empty()
            || self.engine.counters().mode_changes != self.mode_changes
            || self.engine.next_deadline().is_some_and(is_earlier)
    }
}

#[cfg(test)]
mod tests;
