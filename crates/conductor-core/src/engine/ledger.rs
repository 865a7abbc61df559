//! The ledger of held notes, keys and pedals. Each stays in the ledger until its end (note-off, key
//! up, pedal up) has been sent, so that no note hangs and no key stays down.

use super::effect::{Effect, MappingRef, Stroke};
use crate::action::Keystroke;
use crate::event::{Body, DeviceSlot, Micros, Taint};
use crate::gesture::PressId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The cause that ends an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Press(PressId),
    /// The trigger has no release, so the entry ends when its mapping is removed or its device is
    /// lost.
    Mapping,
    /// A timer.
    Timer,
    /// A pedal forwarded from a device.
    Device,
    /// The connection of a tool.
    Tool(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Held {
    Note { port: DeviceSlot, channel: u8, note: u8 },
    Sustain { port: DeviceSlot, channel: u8 },
    Key(Arc<Keystroke>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(u64);

#[derive(Clone, Debug)]
struct Entry {
    id: EntryId,
    owner: Owner,
    source: Option<DeviceSlot>,
    mapping: Option<MappingRef>,
    held: Held,
    /// The taint of the event that started the note or key. The message that ends it has at least
    /// this taint.
    taint: Taint,
    /// The port was closed when the note started: nothing sounds there, so no end has to be sent.
    unheard: bool,
}

/// The reason why an entry ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The entry's timer, or a release with this taint.
    Event(Taint),
    /// A panic, a mute, a reload, a lost device or a lost client, so not a person's input.
    Outside,
}

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// Note-offs delayed because the same note is still held by another press: the note sounds
    /// until the last release.
    waiting: Vec<(Held, Taint)>,
    /// Note-offs and pedal releases for closed ports. They are sent first when the port opens.
    owed: Vec<Held>,
    away: Vec<DeviceSlot>,
    /// The time of the last note-off or pedal release for each note and pedal. A port may be
    /// disconnected for a while before this is noticed. Messages sent in that time are lost, so
    /// they are sent again.
    ended: BTreeMap<Sounding, Micros>,
    now: Micros,
    serial: u64,
}

/// The numbers of notes and keys that a panic released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    pub notes: usize,
    pub keys: usize,
}

impl Ledger {
    pub fn enter(
        &mut self,
        owner: Owner,
        source: Option<DeviceSlot>,
        mapping: Option<MappingRef>,
        held: Held,
        taint: Taint,
    ) -> EntryId {
        self.serial += 1;
        let id = EntryId(self.serial);
        let unheard = port_of(&held).is_some_and(|port| self.away.contains(&port));
        // The note starts again, so its previous end must not be repeated.
        if let Some(sounding) = sounding(&held) {
            self.ended.remove(&sounding);
        }
        self.entries.push(Entry { id, owner, source, mapping, held, taint, unheard });
        id
    }

    pub fn end(&mut self, id: EntryId, out: &mut Vec<Effect>) {
        self.end_where(|it| it.id == id, Cause::Event(Taint::Clean), out);
    }

    pub fn end_press(&mut self, press: PressId, taint: Taint, out: &mut Vec<Effect>) {
        self.end_where(|it| it.owner == Owner::Press(press), Cause::Event(taint), out);
    }

    pub fn end_source(&mut self, source: DeviceSlot, out: &mut Vec<Effect>) {
        self.end_where(|it| it.source == Some(source), Cause::Outside, out);
    }

    pub fn end_tool(&mut self, connection: u64, out: &mut Vec<Effect>) {
        self.end_where(|it| it.owner == Owner::Tool(connection), Cause::Outside, out);
    }

    /// Ends the entries of mappings that `keep` rejects.
    pub fn end_mappings(&mut self, keep: impl Fn(&MappingRef) -> bool, out: &mut Vec<Effect>) {
        self.end_where(|it| it.mapping.as_ref().is_some_and(|mapping| !keep(mapping)), Cause::Outside, out);
    }

    /// Removes a note whose end the caller sends. Returns the number of note-offs to send, at least
    /// one.
    pub fn take_note(&mut self, port: DeviceSlot, channel: u8, note: u8) -> usize {
        let held = Held::Note { port, channel, note };
        let before = self.entries.len() + self.waiting.len();
        self.entries.retain(|it| it.held != held);
        self.waiting.retain(|it| it.0 != held);
        (before - self.entries.len() - self.waiting.len()).max(1)
    }

    pub fn take_sustain(&mut self, port: DeviceSlot, channel: u8) {
        let held = Held::Sustain { port, channel };
        self.entries.retain(|it| it.held != held);
    }

    pub fn holds_sustain(&self, port: DeviceSlot, channel: u8) -> bool {
        // A pedal message that was sent to a closed port had no effect.
        self.entries.iter().any(|it| it.held == Held::Sustain { port, channel } && !it.unheard)
    }

    pub fn end_all(&mut self, out: &mut Vec<Effect>) -> Released {
        let released = Released {
            notes: self.entries.iter().filter(|it| matches!(it.held, Held::Note { .. })).count(),
            keys: self.entries.iter().filter(|it| matches!(it.held, Held::Key(_))).count(),
        };
        self.end_where(|_| true, Cause::Outside, out);
        released
    }

    /// Sets the current time, which is stored in `ended` with each note-off and pedal release.
    pub fn set_now(&mut self, now: Micros) {
        self.now = self.now.max(now);
    }

    /// Records that a mapping, a route or a client sends the end of a note or pedal.
    pub fn note_end(&mut self, held: Held) {
        match port_of(&held) {
            Some(port) if self.away.contains(&port) => {
                if !self.owed.contains(&held) {
                    self.owed.push(held);
                }
            }
            Some(_) | None => {
                if let Some(sounding) = sounding(&held) {
                    self.ended.insert(sounding, self.now);
                }
            }
        }
    }

    /// Marks the port as closed. It may have been disconnected for up to `unnoticed_us` already.
    pub fn port_lost(&mut self, port: DeviceSlot, unnoticed_us: u64) {
        if self.away.contains(&port) {
            return;
        }
        self.away.push(port);
        let now = self.now;
        self.ended.retain(|sounding, at| {
            if sounding.port == port && now.since(*at) <= unnoticed_us {
                self.owed.push(sounding.held());
            }
            sounding.port != port
        });
    }

    /// Sends the note-offs and pedal releases that are due on this port. They are tainted, because
    /// no person's input causes them at this time.
    pub fn port_back(&mut self, port: DeviceSlot, out: &mut Vec<Effect>) {
        self.away.retain(|it| *it != port);
        let (due, owed) = std::mem::take(&mut self.owed).into_iter().partition(|it| port_of(it) == Some(port));
        self.owed = owed;
        for held in due {
            self.send_end(held, Taint::Tool, out);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn end_where(&mut self, ends: impl Fn(&Entry) -> bool, cause: Cause, out: &mut Vec<Effect>) {
        let mut at = 0;
        while at < self.entries.len() {
            if !ends(&self.entries[at]) {
                at += 1;
                continue;
            }
            let Entry { held, taint, unheard, .. } = self.entries.remove(at);
            let taint = match cause {
                Cause::Event(by) => taint.max(by),
                Cause::Outside => Taint::Tool,
            };
            if unheard {
                continue;
            }
            if self.entries.iter().any(|it| it.held == held && !it.unheard) {
                self.waiting.push((held, taint));
                continue;
            }
            let waited: Vec<Taint> = self.waiting.iter().filter(|it| it.0 == held).map(|it| it.1).collect();
            self.waiting.retain(|it| it.0 != held);
            // One note-off for each note-on: a synth that stacks voices needs all of them.
            for taint in waited.into_iter().chain([taint]) {
                self.send_end(held.clone(), taint, out);
            }
        }
    }

    fn send_end(&mut self, held: Held, taint: Taint, out: &mut Vec<Effect>) {
        if port_of(&held).is_some_and(|port| self.away.contains(&port)) {
            self.owed.push(held);
            return;
        }
        if let Some(sounding) = sounding(&held) {
            self.ended.insert(sounding, self.now);
        }
        out.push(match held {
            Held::Note { port, channel, note } => {
                Effect::Midi { port, message: Body::NoteOff { channel, note, velocity: 0 }, taint, hops: 0 }
            }
            Held::Sustain { port, channel } => {
                Effect::Midi { port, message: Body::Cc { channel, controller: 64, value: 0 }, taint, hops: 0 }
            }
            Held::Key(keys) => Effect::Key { keys, stroke: Stroke::Up },
        });
    }
}

fn port_of(held: &Held) -> Option<DeviceSlot> {
    match held {
        Held::Note { port, .. } | Held::Sustain { port, .. } => Some(*port),
        Held::Key(_) => None,
    }
}

/// A note or a pedal on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sounding {
    port: DeviceSlot,
    channel: u8,
    /// Absent for the pedal.
    note: Option<u8>,
}

impl Sounding {
    fn held(self) -> Held {
        let Sounding { port, channel, note } = self;
        match note {
            Some(note) => Held::Note { port, channel, note },
            None => Held::Sustain { port, channel },
        }
    }
}

fn sounding(held: &Held) -> Option<Sounding> {
    match held {
        Held::Note { port, channel, note } => Some(Sounding { port: *port, channel: *channel, note: Some(*note) }),
        Held::Sustain { port, channel } => Some(Sounding { port: *port, channel: *channel, note: None }),
        Held::Key(_) => None,
    }
}
