//! The ledger of held notes, keys and pedals. Each of them stays in the ledger until the message
//! that ends it (note-off, key up, pedal up) has been sent. So no note sounds forever, and no key
//! stays down.

use super::effect::{Effect, Stroke};
use crate::action::Keystroke;
use crate::event::{Body, DeviceSlot, Micros, Taint};
use crate::gesture::PressId;
use crate::mapping::table::RowId;
use std::sync::Arc;

/// The owner of an entry of the ledger. The owner decides when the entry ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Press(PressId),
    /// A mapping whose trigger has no release. The entry ends when the mapping is removed or its
    /// device is lost.
    Mapping,
    /// A timer. The entry ends when the timer is due.
    Timer,
    /// A device whose pedal message was forwarded. The entry ends when the device is lost.
    Device,
    /// The connection of a tool. The entry ends when the connection closes.
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
    mapping: Option<RowId>,
    held: Held,
    /// The taint of the event that started the note or key. The message that ends it has at least
    /// this taint.
    taint: Taint,
    /// Whether the port was closed when the note started. If so, the note does not sound, and no
    /// note-off is needed.
    unheard: bool,
}

/// The reason why an entry ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The entry's timer, or a release with this taint.
    Event(Taint),
    /// A panic, a mute, a reload, a lost device or a lost client. None of these causes is a
    /// person's input.
    Outside,
}

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// Note-offs that are delayed, because another press still holds the same note. The note sounds
    /// until the last release.
    waiting: Vec<(Held, Taint)>,
    /// Note-offs and pedal releases for closed ports. They are sent when the port opens, before any
    /// other message.
    owed: Vec<Held>,
    away: Vec<DeviceSlot>,
    /// The time of the last note-off or pedal release for each note and pedal. The loss of a port
    /// is noticed with a delay. Note-offs and pedal releases that were sent during the delay are
    /// lost, so they are sent again.
    ended: Vec<(Sounding, Micros)>,
    now: Micros,
    serial: u64,
}

/// How many notes and keys a panic released.
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
        mapping: Option<RowId>,
        held: Held,
        taint: Taint,
    ) -> EntryId {
        self.serial += 1;
        let id = EntryId(self.serial);
        let unheard = port_of(&held).is_some_and(|port| self.away.contains(&port));
        // The note starts again, so the note-off of its previous press must not be sent again.
        if let Some(sounding) = sounding(&held)
            && let Ok(place) = self.ended.binary_search_by_key(&sounding, |it| it.0)
        {
            self.ended.remove(place);
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

    /// Ends the entries of mappings for which `moved` returns `None`. The entries of other mappings
    /// get the index that `moved` returns.
    pub fn move_mappings(&mut self, moved: impl Fn(RowId) -> Option<RowId>, out: &mut Vec<Effect>) {
        self.end_where(|it| it.mapping.is_some_and(|mapping| moved(mapping).is_none()), Cause::Outside, out);
        for entry in &mut self.entries {
            entry.mapping = entry.mapping.and_then(&moved);
        }
    }

    /// Replaces the keystrokes of the old tables with equal keystrokes of the new tables.
    /// Otherwise, releasing a held key in a device callback could free the last reference to a
    /// keystroke.
    pub fn move_keys(&mut self, keystrokes: &[&Arc<Keystroke>]) {
        let entries = self.entries.iter_mut().map(|it| &mut it.held);
        for held in entries.chain(self.waiting.iter_mut().map(|it| &mut it.0)) {
            if let Held::Key(keys) = held
                && let Some(same) = keystrokes.iter().find(|it| **it == keys)
            {
                *keys = Arc::clone(same);
            }
        }
    }

    /// Allocates space for this many further entries.
    pub fn reserve(&mut self, more: usize) {
        self.entries.reserve(more);
        self.waiting.reserve(more);
        self.owed.reserve(more);
        self.ended.reserve(more);
    }

    /// The number of notes and keys that can start and end without an allocation.
    pub fn room(&self) -> usize {
        let entries = self.entries.capacity() - self.entries.len();
        let waiting = self.waiting.capacity() - self.waiting.len();
        let owed = self.owed.capacity() - self.owed.len();
        entries.min(waiting).min(owed).min(self.ended.capacity() - self.ended.len())
    }

    /// Removes a note for which the caller sends the note-offs. Returns the number of note-offs to
    /// send, at least one.
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
                self.store_end(&held);
            }
        }
    }

    fn store_end(&mut self, held: &Held) {
        let Some(sounding) = sounding(held) else { return };
        match self.ended.binary_search_by_key(&sounding, |it| it.0) {
            Ok(place) => self.ended[place].1 = self.now,
            Err(place) => self.ended.insert(place, (sounding, self.now)),
        }
    }

    /// Marks the port as closed. The port may have been lost up to `unnoticed_us` earlier.
    pub fn port_lost(&mut self, port: DeviceSlot, unnoticed_us: u64) {
        if self.away.contains(&port) {
            return;
        }
        self.away.push(port);
        let now = self.now;
        self.ended.retain(|(sounding, at)| {
            if sounding.port == port && now.since(*at) <= unnoticed_us {
                self.owed.push(sounding.held());
            }
            sounding.port != port
        });
    }

    /// Sends the note-offs and pedal releases that are due on this port. They are tainted, because
    /// no person's input causes them now.
    pub fn port_back(&mut self, port: DeviceSlot, out: &mut Vec<Effect>) {
        self.away.retain(|it| *it != port);
        let due: Vec<Held> = self.owed.extract_if(.., |it| port_of(it) == Some(port)).collect();
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
            // Send one note-off for each note-on. A synth that stacks voices needs all of them.
            while let Some(at) = self.waiting.iter().position(|it| it.0 == held) {
                let (held, taint) = self.waiting.remove(at);
                self.send_end(held, taint, out);
            }
            self.send_end(held, taint, out);
        }
    }

    fn send_end(&mut self, held: Held, taint: Taint, out: &mut Vec<Effect>) {
        if port_of(&held).is_some_and(|port| self.away.contains(&port)) {
            self.owed.push(held);
            return;
        }
        self.store_end(&held);
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
    /// The note; absent for a pedal.
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
