//! Changes to the engine other than events and deadlines: the mode, a new configuration, connected
//! and disconnected devices and ports, panic, and messages sent by tools.

use super::continuous::State;
use super::effect::Effect;
use super::ledger::{Held, Owner};
use super::trace::Outcome;
use super::{Engine, PanicReport, Reading, Timer, UnknownMode};
use crate::config::Config;
use crate::event::{Body, DeviceSlot, Event, Micros, Taint};
use crate::mapping::Target;
use crate::mapping::table::{CompiledTarget, ModeIndex, Row, RowId, Slots, Tables};
use std::sync::Arc;

impl Engine {
    /// Switches the mode. `by` is the taint of the caller.
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
        self.enter_mode(mode, by);
        Ok(mode)
    }

    pub(super) fn enter_mode(&mut self, mode: ModeIndex, by: Taint) {
        if mode == self.mode {
            return;
        }
        self.mode_by = by;
        self.mode = mode;
        self.counters.mode_changes += 1;
        self.bindings.iter_mut().for_each(State::rearm);
    }

    /// Replaces the configuration. Pending gestures and running actions are cancelled. A note or
    /// key of a mapping stays held only if the mapping is unchanged.
    pub fn reload(&mut self, config: &Config, slots: &mut Slots, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.with_gestures(|gestures, cx| gestures.cancel_pending(cx));
        self.act_on_found(out);
        let old = Arc::clone(&self.tables);
        let new = Arc::new(Tables::compile(config, slots));
        let moved = |row: RowId| {
            let before = old.row(row.0);
            let mode = before.mode.map(|it| old.mode_name(it));
            let is_same = |it: &Row| it.id == before.id && it.mode.map(|it| new.mode_name(it)) == mode;
            let after = new.rows.iter().position(is_same)?;
            (new.rows[after].written == before.written).then_some(RowId(after as u32))
        };
        self.ledger.move_mappings(moved, out);
        self.ledger.move_keys(&new.keystrokes().collect::<Vec<_>>());
        self.runs.cancel_all(&mut self.timers);
        self.timers.retain(|timer| match timer {
            // A note with a duration still ends on time. If the note has already ended, its timer
            // does nothing.
            Timer::NoteEnd(_) => true,
            Timer::Gesture(_) | Timer::Run { .. } | Timer::Flush(_) | Timer::StickRepeat { .. } => false,
        });
        self.flush_all(out);
        let name = Arc::clone(old.mode_name(self.mode));
        self.trace.keep_names(&old);
        self.trace.resize(new.advanced.trace_buffer_size as usize);
        self.tables = new;
        self.guarded.retain(|device, _| self.tables.facts(*device).echo_guard);
        self.shown.clear();
        self.fresh_states();
        let mode = self.tables.mode_named(&name).unwrap_or(self.tables.default_mode);
        self.counters.mode_changes += u64::from(self.tables.mode_name(mode) != &name);
        self.mode = mode;
        self.make_room();
    }

    /// Called when a device is disconnected. Ends all notes and keys that the device holds, and
    /// cancels its gestures. Running actions continue.
    pub fn device_lost(&mut self, device: DeviceSlot, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.let_go(device, out);
        self.facts.connected.remove(&device.0);
        let state = self.device(device);
        state.assembler.reset();
        state.last = None;
        state.axes = [0.0; 4];
    }

    /// Called when a device is connected again.
    pub fn device_back(&mut self, device: DeviceSlot, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.facts.connected.insert(device.0);
        self.device(device).last.get_or_insert_default();
        self.make_room();
        self.bindings.iter_mut().for_each(State::rearm);
    }

    /// Mutes or unmutes a device. Muting ends all notes and keys that the device holds, and cancels
    /// its gestures.
    pub fn set_muted(&mut self, device: DeviceSlot, muted: bool, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        if muted {
            self.let_go(device, out);
        }
        self.device(device).muted = Some(muted);
    }

    fn let_go(&mut self, device: DeviceSlot, out: &mut Vec<Effect>) {
        self.with_gestures(|gestures, cx| gestures.drop_device(device, cx));
        self.act_on_found(out);
        self.ledger.end_source(device, out);
        self.memories.forget(device);
        self.timers.retain(|timer| !matches!(timer, Timer::StickRepeat { device: it, .. } if *it == device));
    }

    /// Called when an output port is disconnected.
    pub fn output_lost(&mut self, port: DeviceSlot, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        // A lost port is noticed only at the next scan, so the port may have been lost for up to
        // this time.
        let unnoticed_us = (u64::from(self.tables.advanced.scan_interval_ms) * 2 + 1000) * 1000;
        self.ledger.port_lost(port, unnoticed_us);
    }

    /// Called when an output port is open again. Sends the note-offs and pedal releases that were
    /// due while it was closed.
    pub fn output_back(&mut self, port: DeviceSlot, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.ledger.port_back(port, out);
        self.selected.retain(|it| it.0 != port);
    }

    /// Cancels every timer and running action, and ends every held note and key. The daemon then
    /// silences every open output.
    pub fn panic(&mut self, now: Micros, out: &mut Vec<Effect>) -> PanicReport {
        self.advance(now, out);
        self.with_gestures(|gestures, cx| gestures.cancel_pending(cx));
        self.act_on_found(out);
        let actions_cancelled = self.runs.cancel_all(&mut self.timers);
        self.timers.retain(|_| false);
        for state in &mut self.bindings {
            state.pending = None;
            state.flush = None;
        }
        let released = self.ledger.end_all(out);
        PanicReport { notes_released: released.notes, keys_released: released.keys, actions_cancelled }
    }

    /// Records a message that a tool sent. The tool's notes end when its connection closes. If a
    /// copy of the message comes back on any port, the copy is tainted.
    pub fn tool_sent(&mut self, connection: u64, port: DeviceSlot, message: &Body, now: Micros) {
        self.sent_without_hand(message, now);
        self.hold(connection, port, message, Taint::Tool, now);
    }

    /// Records the notes that a person sent over a connection, so that they end when the connection
    /// closes.
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

    /// Called when a connection has closed. Ends its notes.
    pub fn tool_gone(&mut self, connection: u64, now: Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        self.ledger.end_tool(connection, out);
    }

    /// Records a message that was sent without a person's input. If a copy comes back on any port,
    /// the copy is tainted.
    pub fn sent_without_hand(&mut self, message: &Body, now: Micros) {
        self.set_now(now);
        self.returns.note_sent(self.now, message);
    }

    /// Records a light message that was sent. A device with `echo_guard` may echo the message, and
    /// the echo is dropped. If a tool caused the light, copies that come back over a cable are
    /// tainted. If a person caused the light, copies are not tainted, because the person may press
    /// the same pad again.
    pub fn shown(&mut self, port: DeviceSlot, message: &Body, by: Taint, now: Micros) {
        self.set_now(now);
        self.guard(port, message);
        if by != Taint::Clean {
            self.returns.note_sent(self.now, message);
        }
    }

    /// Counts and traces an event that the engine must not process.
    pub fn passed_over(&mut self, event: &Event, reason: &'static str) {
        self.counters.events += 1;
        self.now = self.now.max(event.at);
        self.note_outcome(event, "", Outcome::NoMatch, reason);
    }

    /// Stores a parameter value read from Live. If the value was changed elsewhere, takeover starts
    /// again and a relative knob continues from the new value.
    pub fn live_parameter_read(&mut self, path: &str, reading: Reading) {
        for (binding, state) in self.tables.bindings.iter().zip(&mut self.bindings) {
            let here = |it: &CompiledTarget| matches!(&*it.spec, Target::LiveParameter { path: own } if own == path);
            if binding.targets.iter().any(here) {
                state.read = reading.before_out(&binding.spec.glue);
            }
        }
    }
}
