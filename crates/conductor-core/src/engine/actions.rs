//! Actions that take time. A tree is walked with a stack of frames; a delay, a repetition or a call
//! in flight parks the walk, and a timer or an answer takes it up again. Nothing sleeps, and
//! nothing holds up input.

use super::effect::{CallTicket, Effect, MappingCall, Stroke};
use super::ledger::{Held, Owner};
use super::trace::{Outcome, Record};
use super::{Context, Engine, TOO_FAR, Timer, curves, mapping_ref};
use crate::action::MidiOut;
use crate::event::{Body, DeviceSlot, Taint};
use crate::gesture::PressId;
use crate::mapping::table::{ActionId, Leaf, Node, RowId};
use crate::timer::{TimerKey, Timers};
use std::collections::VecDeque;
use std::sync::Arc;

/// Presses that wait while a mapping's action still runs.
const QUEUE: usize = 4;
/// Steps a run takes before it lets others have their turn; nested repetitions without delay could
/// otherwise stop the music.
const STEPS_PER_TURN: u32 = 1024;
const TURN_MS: u32 = 1;

#[derive(Clone, Copy, Debug)]
enum Frame {
    Do(ActionId),
    Sequence { node: ActionId, next: usize },
    Repeat { node: ActionId, left: u16, paused: bool },
}

#[derive(Debug)]
struct Run {
    serial: u64,
    row: RowId,
    context: Context,
    stack: Vec<Frame>,
    timer: Option<TimerKey>,
    ticket: Option<CallTicket>,
    released: bool,
    queue: VecDeque<(ActionId, Context)>,
}

#[derive(Debug, Default)]
pub(super) struct Runs {
    /// At most one per mapping.
    runs: Vec<Run>,
    serial: u64,
}

impl Runs {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The key is up: repetitions that last while it is held stop at their next turn.
    pub(super) fn released(&mut self, press: PressId) {
        for run in &mut self.runs {
            if run.context.tap.is_some_and(|it| it.id == press) {
                run.released = true;
            }
        }
    }

    pub(super) fn cancel_all(&mut self, timers: &mut Timers<Timer>) -> usize {
        let count = self.runs.len();
        for run in self.runs.drain(..) {
            if let Some(timer) = run.timer {
                timers.cancel(timer);
            }
        }
        count
    }
}

enum Step {
    Done,
    Wait(u32),
    Call(CallTicket),
}

impl Engine {
    /// A gesture or value fires a rule.
    pub(super) fn fire(&mut self, row: RowId, action: ActionId, context: Context, out: &mut Vec<Effect>) {
        self.shown.fired(row, context.tap, context.trail.taint);
        if self.learning {
            return self.note(row, &context, Outcome::Learning, None, "learning holds actions back");
        }
        if let Some(run) = self.runs.runs.iter_mut().find(|it| it.row == row) {
            if run.queue.len() < QUEUE {
                run.queue.push_back((action, context));
            } else {
                self.note(row, &context, Outcome::QueueFull, None, "its action still runs and four presses wait");
            }
            return;
        }
        let tables = Arc::clone(&self.tables);
        if let Some(Node::Leaf(leaf)) = tables.nodes.get(action.0 as usize)
            && !matches!(leaf, Leaf::Call(_))
        {
            self.leaf(row, leaf, &context, false, out);
            return;
        }
        self.start(row, action, context, VecDeque::new(), out);
    }

    fn start(
        &mut self,
        row: RowId,
        action: ActionId,
        context: Context,
        queue: VecDeque<(ActionId, Context)>,
        out: &mut Vec<Effect>,
    ) {
        self.runs.serial += 1;
        let released = context.tap.is_some_and(|it| !it.held || !self.gestures.is_held(it.id));
        let run = Run {
            serial: self.runs.serial,
            row,
            context,
            stack: vec![Frame::Do(action)],
            timer: None,
            ticket: None,
            released,
            queue,
        };
        self.walk(run, out);
    }

    pub(super) fn resume(&mut self, serial: u64, out: &mut Vec<Effect>) {
        if let Some(at) = self.runs.runs.iter().position(|it| it.serial == serial) {
            let mut run = self.runs.runs.swap_remove(at);
            run.timer = None;
            self.walk(run, out);
        }
    }

    /// The pipeline answered a call; the next step of its sequence follows.
    pub fn call_done(&mut self, ticket: CallTicket, ok: bool, now: crate::event::Micros, out: &mut Vec<Effect>) {
        self.advance(now, out);
        if ok {
            self.counters.actions += 1;
        } else {
            self.counters.actions_failed += 1;
        }
        let Some(at) = self.runs.runs.iter().position(|it| it.ticket == Some(ticket)) else { return };
        let mut run = self.runs.runs.swap_remove(at);
        run.ticket = None;
        if !ok {
            let context = run.context.clone();
            self.note(run.row, &context, Outcome::Failed, None, "the call did not succeed");
        }
        self.walk(run, out);
    }

    fn walk(&mut self, mut run: Run, out: &mut Vec<Effect>) {
        match self.steps(&mut run, out) {
            Step::Wait(ms) => {
                let due = self.now.plus_ms(ms);
                run.timer = Some(self.timers.set(due, Timer::Run { run: run.serial }));
                self.runs.runs.push(run);
            }
            Step::Call(ticket) => {
                run.ticket = Some(ticket);
                self.runs.runs.push(run);
            }
            Step::Done => {
                if let Some((action, context)) = run.queue.pop_front() {
                    self.start(run.row, action, context, run.queue, out);
                }
            }
        }
    }

    fn steps(&mut self, run: &mut Run, out: &mut Vec<Effect>) -> Step {
        let tables = Arc::clone(&self.tables);
        let mut steps = 0;
        while let Some(frame) = run.stack.pop() {
            steps += 1;
            if steps > STEPS_PER_TURN {
                run.stack.push(frame);
                return Step::Wait(TURN_MS);
            }
            match frame {
                Frame::Do(node) => match tables.nodes.get(node.0 as usize) {
                    None => {}
                    Some(Node::Sequence(_)) => run.stack.push(Frame::Sequence { node, next: 0 }),
                    Some(Node::Delay(0)) => {}
                    Some(Node::Delay(ms)) => return Step::Wait(*ms),
                    Some(Node::Repeat { action, count, .. }) => {
                        if *count > 1 {
                            run.stack.push(Frame::Repeat { node, left: count - 1, paused: false });
                        }
                        run.stack.push(Frame::Do(*action));
                    }
                    Some(Node::Conditional { condition, then_action, else_action }) => {
                        if self.holds(condition) {
                            run.stack.push(Frame::Do(*then_action));
                        } else if let Some(other) = else_action {
                            run.stack.push(Frame::Do(*other));
                        } else {
                            let context = run.context.clone();
                            self.note(run.row, &context, Outcome::ConditionFalse, None, "");
                        }
                    }
                    Some(Node::Leaf(leaf)) => {
                        let context = run.context.clone();
                        if let Some(ticket) = self.leaf(run.row, leaf, &context, run.released, out) {
                            return Step::Call(ticket);
                        }
                    }
                },
                Frame::Sequence { node, next } => {
                    if let Some(Node::Sequence(actions)) = tables.nodes.get(node.0 as usize)
                        && let Some(action) = actions.get(next)
                    {
                        if next + 1 < actions.len() {
                            run.stack.push(Frame::Sequence { node, next: next + 1 });
                        }
                        run.stack.push(Frame::Do(*action));
                    }
                }
                Frame::Repeat { node, left, paused } => {
                    let Some(Node::Repeat { action, delay_ms, while_held, .. }) = tables.nodes.get(node.0 as usize)
                    else {
                        continue;
                    };
                    if *delay_ms > 0 && !paused {
                        // Looked at again after the pause: a key that came up in between ends the
                        // repetition.
                        run.stack.push(Frame::Repeat { node, left, paused: true });
                        return Step::Wait(*delay_ms);
                    }
                    if *while_held && run.released {
                        continue;
                    }
                    if left > 1 {
                        run.stack.push(Frame::Repeat { node, left: left - 1, paused: false });
                    }
                    run.stack.push(Frame::Do(*action));
                }
            }
        }
        Step::Done
    }

    /// Carries out one leaf. Gives the ticket of a call that must be waited for.
    fn leaf(
        &mut self,
        row: RowId,
        leaf: &Leaf,
        context: &Context,
        released: bool,
        out: &mut Vec<Effect>,
    ) -> Option<CallTicket> {
        if is_sensitive(leaf) && !self.may_touch_the_desktop(context) {
            self.note(row, context, Outcome::Tainted, Some(leaf), context.trail.taint.reason());
            return None;
        }
        if sends_on(leaf) && self.is_too_far(context.trail) {
            self.counters.actions_failed += 1;
            self.note(row, context, Outcome::Failed, Some(leaf), TOO_FAR);
            return None;
        }
        let mut ticket = None;
        match leaf {
            Leaf::Keystroke(keys) => {
                let held = context.tap.filter(|it| keys.hold && it.held && !released && self.gestures.is_held(it.id));
                match held {
                    Some(tap) => {
                        let mapping = mapping_ref(&self.tables, self.tables.row(row.0));
                        let held = Held::Key(Arc::clone(keys));
                        let taint = context.trail.taint;
                        self.ledger.enter(Owner::Press(tap.id), Some(context.device), Some(mapping), held, taint);
                        out.push(Effect::Key { keys: Arc::clone(keys), stroke: Stroke::Down });
                    }
                    None => out.push(Effect::Key { keys: Arc::clone(keys), stroke: Stroke::Tap }),
                }
            }
            Leaf::Text(text) => out.push(Effect::Text(Arc::clone(text))),
            Leaf::Click { button, at } => out.push(Effect::Click { button: *button, at: *at }),
            Leaf::Volume(volume) => out.push(Effect::Volume(*volume)),
            Leaf::ModeChange(mode) => self.enter_mode(*mode, context.trail.taint, out),
            Leaf::SendMidi { port, channel, message } => {
                self.send_midi(row, context, released, *port, *channel, message, out);
            }
            Leaf::Forward { port, transform } => {
                let port = port.unwrap_or(context.device);
                let sent = context.body.as_ref().and_then(|body| curves::transform(transform, body));
                match sent {
                    Some(Body::NoteOn { channel, note, velocity }) => {
                        let message = Body::NoteOn { channel, note, velocity };
                        self.note_on(row, context, released, port, message, None, out);
                    }
                    Some(Body::Cc { channel, controller: 64, value }) => {
                        self.pedal(port, channel, value, context, Some(row), out);
                    }
                    Some(Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. }) | None => {
                        self.counters.actions_failed += 1;
                        self.note(row, context, Outcome::Failed, Some(leaf), "there is no MIDI message to forward");
                        return None;
                    }
                    Some(message) => self.send(port, message, context.trail, out),
                }
            }
            Leaf::Osc { host, port, message } => {
                let (host, message, taint) = (Arc::clone(host), Arc::clone(message), context.trail.taint);
                out.push(Effect::Osc { host, port: *port, message, taint });
            }
            Leaf::Call(action) => {
                self.runs.serial += 1;
                let id = CallTicket(self.runs.serial);
                ticket = Some(id);
                out.push(Effect::Call(Box::new(MappingCall {
                    ticket: id,
                    mapping: mapping_ref(&self.tables, self.tables.row(row.0)),
                    action: Arc::clone(action),
                    values: context.values,
                    taint: context.trail.taint,
                })));
            }
        }
        // A call is counted by its answer.
        self.counters.actions += u64::from(ticket.is_none());
        self.note(row, context, Outcome::Fired, Some(leaf), "");
        ticket
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one message and of what set it off")]
    fn send_midi(
        &mut self,
        row: RowId,
        context: &Context,
        released: bool,
        port: DeviceSlot,
        channel: u8,
        message: &MidiOut,
        out: &mut Vec<Effect>,
    ) {
        let message = match message {
            MidiOut::NoteOn { note, velocity, duration_ms } => {
                let velocity = curves::velocity(*velocity, context.values.velocity);
                let message = Body::NoteOn { channel, note: *note, velocity };
                return self.note_on(row, context, released, port, message, *duration_ms, out);
            }
            MidiOut::NoteOff { note, velocity } => {
                // A release has its own speed; the press's says nothing about it.
                let by_trigger = matches!(velocity, crate::action::Velocity::Trigger);
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

    /// Sends a note-on and books its end: after its duration, at the key's release, or with the
    /// mapping.
    #[expect(clippy::too_many_arguments, reason = "the parts of one message and of what set it off")]
    fn note_on(
        &mut self,
        row: RowId,
        context: &Context,
        released: bool,
        port: DeviceSlot,
        message: Body,
        duration_ms: Option<u32>,
        out: &mut Vec<Effect>,
    ) {
        let Body::NoteOn { channel, note, .. } = message else { return };
        self.send(port, message, context.trail, out);
        let mapping = mapping_ref(&self.tables, self.tables.row(row.0));
        let held = Held::Note { port, channel, note };
        let owner = match (duration_ms, context.tap) {
            (Some(_), _) => Owner::Timer,
            (None, Some(tap)) => Owner::Press(tap.id),
            (None, None) => Owner::Mapping,
        };
        let entry = self.ledger.enter(owner, Some(context.device), Some(mapping), held, context.trail.taint);
        match (duration_ms, context.tap) {
            (Some(ms), _) => {
                let due = self.now.plus_ms(ms);
                self.timers.set(due, Timer::NoteEnd(entry));
            }
            // The key is up already, so no release will come.
            (None, Some(tap)) if released || !tap.held => self.ledger.end(entry, out),
            (None, Some(_) | None) => {}
        }
    }

    /// A sustain pedal is held until it is sent up again, or until its device goes.
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
            let mapping = row.map(|it| mapping_ref(&self.tables, self.tables.row(it.0)));
            let held = Held::Sustain { port, channel };
            self.ledger.enter(Owner::Device, Some(context.device), mapping, held, context.trail.taint);
        }
    }

    fn may_touch_the_desktop(&self, context: &Context) -> bool {
        match context.trail.taint {
            Taint::Clean => true,
            Taint::Network => self.tables.facts(context.device).allow_sensitive_actions,
            Taint::Virtual | Taint::Tool => false,
        }
    }

    pub(super) fn note(
        &mut self,
        row: RowId,
        context: &Context,
        outcome: Outcome,
        action: Option<&Leaf>,
        reason: &'static str,
    ) {
        let rule = self.tables.row(row.0);
        let mode = match rule.mode {
            Some(mode) => Arc::clone(self.tables.mode_name(mode)),
            None => Arc::clone(self.tables.mode_name(self.mode)),
        };
        self.trace.push(Record {
            seq: 0,
            at: self.now,
            device: context.device,
            event: context.body.clone(),
            gesture: context.gesture,
            mode,
            mapping: Some(Arc::clone(&rule.id)),
            outcome,
            action: action.cloned(),
            latency_us: None,
            reason,
        });
    }
}

/// Whether it sends what may come back and set it off again. A release only ends what was sent.
fn sends_on(leaf: &Leaf) -> bool {
    match leaf {
        Leaf::Forward { .. } => true,
        Leaf::SendMidi { message, .. } => !matches!(message, MidiOut::NoteOff { .. }),
        Leaf::Keystroke(_)
        | Leaf::Text(_)
        | Leaf::Click { .. }
        | Leaf::Volume(_)
        | Leaf::ModeChange(_)
        | Leaf::Osc { .. }
        | Leaf::Call(_) => false,
    }
}

/// What a hand must have set off: keys, text, clicks, and everything that goes through the
/// pipeline.
fn is_sensitive(leaf: &Leaf) -> bool {
    match leaf {
        Leaf::Keystroke(_) | Leaf::Text(_) | Leaf::Click { .. } | Leaf::Call(_) => true,
        Leaf::Volume(_) | Leaf::ModeChange(_) | Leaf::SendMidi { .. } | Leaf::Forward { .. } | Leaf::Osc { .. } => {
            false
        }
    }
}
