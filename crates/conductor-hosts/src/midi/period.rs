//! Runs one period of an audio server, from its input buffers to its output buffers. This is the
//! part of the process callback that does not depend on the server.
//!
//! The messages of all inputs are merged in the order of their frames. If the engine is free and no
//! older event waits, the engine decides each message here. The messages that it sends leave in the
//! same period, at the frame of the message that caused them. Otherwise the messages go to the
//! event rings, and the owner decides them.
//!
//! The messages in the output queues are written first, at frame 0. A message that does not fit is
//! queued by the owner, and so are all later messages to the same port.
//!
//! Nothing here locks, allocates, frees, logs or makes a system call, except that the owner is
//! woken at most once per period. Not here: the meaning of an event (the daemon's `owner/desk`).

use super::queue::QueueReceiver;
use super::ring::Intake;
use super::try_lock::TryLock;
use conductor_core::event::{DeviceSlot, Event, Micros, Taint};

/// Decides events in a device callback. The daemon implements this in `owner/desk`.
pub trait Decide: Send {
    /// Starts a period. Returns false if an older event waits, or if the owner must handle the
    /// events first. `missed` is the number of events that went to the rings since the last period,
    /// because the owner had locked the engine.
    fn begin(&mut self, missed: u64) -> bool;

    /// Decides an event now and writes the messages that it causes. If the event must go to the
    /// ring instead, returns false and has no effect.
    fn decide(&mut self, event: &Event, outputs: &mut dyn Outputs) -> bool;

    /// Ends a period in which `deferred` events went to the rings. Returns whether the owner must
    /// be woken.
    fn end(&mut self, now: Micros, deferred: u64) -> bool;
}

/// An implementation of [`Decide`] that decides nothing, so that all events go to the rings.
pub fn no_desk() -> super::Desk {
    struct Never;
    impl Decide for Never {
        fn begin(&mut self, _: u64) -> bool {
            false
        }

        fn decide(&mut self, _: &Event, _: &mut dyn Outputs) -> bool {
            false
        }

        fn end(&mut self, _: Micros, _: u64) -> bool {
            false
        }
    }
    TryLock::held(Never).lock()
}

/// The output ports of a period.
pub trait Outputs {
    /// Writes a message at the frame of the event that is being decided.
    fn write(&mut self, port: DeviceSlot, message: &[u8]) -> Written;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Sent,
    /// The buffer is full, or older messages wait in the queue of the port.
    Full,
    /// The port belongs to another backend, or is closed.
    NotHere,
}

/// A message in the buffer of an input.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The frame within the period.
    pub frame: u32,
    pub bytes: &'a [u8],
}

/// An input of a period.
pub struct Inlet<'a, M> {
    next: Option<Message<'a>>,
    rest: M,
    intake: &'a mut Intake,
}

impl<'a, M: Iterator<Item = Message<'a>>> Inlet<'a, M> {
    pub fn new(mut messages: M, intake: &'a mut Intake) -> Self {
        Inlet { next: messages.next(), rest: messages, intake }
    }

    fn frame(&self) -> Option<u32> {
        self.next.map(|it| it.frame)
    }
}

/// The buffer of an output. The frames of successive messages must not decrease.
pub trait Buffer {
    /// The largest message that fits now, in bytes.
    fn room(&self) -> usize;

    /// Returns false if the message does not fit.
    fn write(&mut self, message: Message<'_>) -> bool;
}

/// An output of a period.
pub struct Outlet<'a, B> {
    buffer: B,
    queue: &'a mut QueueReceiver,
    port: Option<DeviceSlot>,
    is_held: bool,
    /// Whether all older messages have been written.
    is_drained: bool,
    is_idle: bool,
}

impl<'a, B: Buffer> Outlet<'a, B> {
    /// `port` is the port under which the owner sends to this output. An output without a port
    /// sends only its queued messages.
    pub fn new(buffer: B, queue: &'a mut QueueReceiver, port: Option<DeviceSlot>) -> Self {
        Outlet { buffer, queue, port, is_held: false, is_drained: false, is_idle: true }
    }

    /// An output that writes nothing in this period: its messages stay in the queue.
    pub fn held(buffer: B, queue: &'a mut QueueReceiver) -> Self {
        Outlet { is_held: true, ..Outlet::new(buffer, queue, None) }
    }

    /// Whether no message was written.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    fn drain(&mut self) {
        if self.is_held {
            return;
        }
        let room = self.buffer.room();
        while let Some(message) = self.queue.front() {
            self.is_idle = false;
            // A message that does not fit into this period stays in the queue for the next one. A
            // message that can never fit is dropped here, but `send` normally refuses it.
            if message.len() <= room && !self.buffer.write(Message { frame: 0, bytes: message }) {
                return;
            }
            self.queue.done();
        }
        self.is_drained = true;
    }
}

struct AtFrame<'o, 'a, B> {
    outlets: &'o mut [Option<Outlet<'a, B>>],
    frame: u32,
}

impl<B: Buffer> Outputs for AtFrame<'_, '_, B> {
    fn write(&mut self, port: DeviceSlot, message: &[u8]) -> Written {
        let Some(outlet) = self.outlets.iter_mut().map_while(Option::as_mut).find(|it| it.port == Some(port)) else {
            return Written::NotHere;
        };
        if !outlet.is_drained || !outlet.buffer.write(Message { frame: self.frame, bytes: message }) {
            return Written::Full;
        }
        outlet.is_idle = false;
        Written::Sent
    }
}

/// The state of a callback between its periods.
#[derive(Debug, Default)]
pub struct Periods {
    /// The last time stamp. Time stamps never decrease, even if the server calls a little early.
    last: Micros,
    /// Number of events that went to the rings because the owner had locked the engine. Reported to
    /// the engine at the next period.
    missed: u64,
}

impl Periods {
    /// Runs one period. In both slices, entries after the first `None` are ignored. `stamp` reads
    /// the daemon's clock, and `rate` is the number of frames per second.
    pub fn run<'a, M: Iterator<Item = Message<'a>>, B: Buffer>(
        &mut self,
        desk: &TryLock<dyn Decide>,
        stamp: &dyn Fn() -> Micros,
        rate: u32,
        inlets: &mut [Option<Inlet<'a, M>>],
        outlets: &mut [Option<Outlet<'_, B>>],
    ) {
        let has_input = inlets.iter().map_while(Option::as_ref).any(|it| it.next.is_some());
        let wakes = has_input.then(|| {
            // Drain the output queues only after the engine is locked. The owner fills them only
            // while it has locked the engine itself, so no older message can be queued after this
            // point.
            desk.try_with(|desk| {
                outlets.iter_mut().map_while(Option::as_mut).for_each(Outlet::drain);
                let is_open = desk.begin(std::mem::take(&mut self.missed));
                let deferred = self.merge(stamp(), rate, inlets, |event, frame| {
                    is_open && desk.decide(event, &mut AtFrame { outlets, frame })
                });
                desk.end(stamp(), deferred) || deferred > 0
            })
        });
        let wakes = wakes.flatten().unwrap_or_else(|| {
            outlets.iter_mut().map_while(Option::as_mut).for_each(Outlet::drain);
            let missed = self.merge(stamp(), rate, inlets, |_, _| false);
            self.missed += missed;
            missed > 0
        });
        if wakes && let Some(inlet) = inlets.iter().find_map(Option::as_ref) {
            inlet.intake.wake();
        }
    }

    /// Processes all messages in the order of their frames. Returns the number of events that went
    /// to the rings.
    fn merge<'a, M: Iterator<Item = Message<'a>>>(
        &mut self,
        start: Micros,
        rate: u32,
        inlets: &mut [Option<Inlet<'a, M>>],
        mut decide: impl FnMut(&Event, u32) -> bool,
    ) -> u64 {
        let mut deferred = 0;
        let next = |inlets: &mut [Option<Inlet<'a, M>>]| {
            let heads = inlets.iter().map_while(Option::as_ref).enumerate();
            heads.filter_map(|(at, it)| Some((it.frame()?, at))).min()
        };
        while let Some((_, at)) = next(inlets) {
            let Some(inlet) = inlets.get_mut(at).and_then(Option::as_mut) else { break };
            let Some(Message { frame, bytes }) = std::mem::replace(&mut inlet.next, inlet.rest.next()) else { break };
            let offset = u64::from(frame) * 1_000_000 / u64::from(rate.max(1));
            // The time stamp of a message is the earliest time at which its answer can leave. It is
            // never before a deadline that the owner has already handled.
            let at = self.last.max(start.plus_us(offset));
            self.last = at;
            // After one event has gone to a ring, all later events must go to the rings too, to
            // keep the order.
            let is_first = deferred == 0;
            let mut decide = |event: &Event| is_first && decide(event, frame);
            deferred += inlet.intake.hear_now(at, Taint::Clean, bytes, &mut decide);
        }
        deferred
    }
}

#[cfg(test)]
mod tests;
