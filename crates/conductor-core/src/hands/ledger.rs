//! The promise that nothing is left stuck: every note, key and pedal that went down is entered here until its end was sent.

use super::effect::{Effect, MappingRef, Stroke};
use crate::action::Keystroke;
use crate::event::{Body, DeviceSlot, Taint};
use crate::gesture::PressId;
use std::sync::Arc;

/// Whose end is also the end of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Press(PressId),
    /// A trigger that has no release: until the mapping or its device goes.
    Mapping,
    /// Ends at its own time.
    Timer,
    /// A pedal forwarded from a device.
    Device,
    /// A tool's note, until its connection ends.
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
}

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// Ends that wait for another press of the same note: it sounds until the last one is released.
    waiting: Vec<Held>,
    /// Ends for ports that are away; sent first when they return.
    owed: Vec<Held>,
    away: Vec<DeviceSlot>,
    serial: u64,
}

/// How much a panic released.
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
    ) -> EntryId {
        self.serial += 1;
        let id = EntryId(self.serial);
        self.entries.push(Entry { id, owner, source, mapping, held });
        id
    }

    pub fn end(&mut self, id: EntryId, out: &mut Vec<Effect>) {
        self.end_where(|it| it.id == id, out);
    }

    pub fn end_press(&mut self, press: PressId, out: &mut Vec<Effect>) {
        self.end_where(|it| it.owner == Owner::Press(press), out);
    }

    pub fn end_source(&mut self, source: DeviceSlot, out: &mut Vec<Effect>) {
        self.end_where(|it| it.source == Some(source), out);
    }

    pub fn end_tool(&mut self, connection: u64, out: &mut Vec<Effect>) {
        self.end_where(|it| it.owner == Owner::Tool(connection), out);
    }

    /// Ends what mappings hold that `keep` does not know any more.
    pub fn end_mappings(&mut self, keep: impl Fn(&MappingRef) -> bool, out: &mut Vec<Effect>) {
        self.end_where(|it| it.mapping.as_ref().is_some_and(|mapping| !keep(mapping)), out);
    }

    /// Somebody sends this note's end themselves; gives how many note-offs are due, at least one.
    pub fn take_note(&mut self, port: DeviceSlot, channel: u8, note: u8) -> usize {
        let held = Held::Note { port, channel, note };
        let before = self.entries.len() + self.waiting.len();
        self.entries.retain(|it| it.held != held);
        self.waiting.retain(|it| *it != held);
        (before - self.entries.len() - self.waiting.len()).max(1)
    }

    pub fn take_sustain(&mut self, port: DeviceSlot, channel: u8) {
        let held = Held::Sustain { port, channel };
        self.entries.retain(|it| it.held != held);
    }

    pub fn holds_sustain(&self, port: DeviceSlot, channel: u8) -> bool {
        self.entries.iter().any(|it| it.held == Held::Sustain { port, channel })
    }

    pub fn end_all(&mut self, out: &mut Vec<Effect>) -> Released {
        let released = Released {
            notes: self.entries.iter().filter(|it| matches!(it.held, Held::Note { .. })).count(),
            keys: self.entries.iter().filter(|it| matches!(it.held, Held::Key(_))).count(),
        };
        self.end_where(|_| true, out);
        released
    }

    pub fn port_lost(&mut self, port: DeviceSlot) {
        if !self.away.contains(&port) {
            self.away.push(port);
        }
    }

    pub fn port_back(&mut self, port: DeviceSlot, out: &mut Vec<Effect>) {
        self.away.retain(|it| *it != port);
        let (due, owed) = std::mem::take(&mut self.owed).into_iter().partition(|it| port_of(it) == Some(port));
        self.owed = owed;
        for held in due {
            self.send_end(held, out);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn end_where(&mut self, ends: impl Fn(&Entry) -> bool, out: &mut Vec<Effect>) {
        let mut at = 0;
        while at < self.entries.len() {
            if !ends(&self.entries[at]) {
                at += 1;
                continue;
            }
            let held = self.entries.remove(at).held;
            if self.entries.iter().any(|it| it.held == held) {
                self.waiting.push(held);
                continue;
            }
            let waited = self.waiting.iter().filter(|it| **it == held).count();
            self.waiting.retain(|it| *it != held);
            // One note-off for each note-on: a synth that stacks voices needs them all.
            for _ in 0..=waited {
                self.send_end(held.clone(), out);
            }
        }
    }

    fn send_end(&mut self, held: Held, out: &mut Vec<Effect>) {
        if port_of(&held).is_some_and(|port| self.away.contains(&port)) {
            self.owed.push(held);
            return;
        }
        out.push(match held {
            Held::Note { port, channel, note } => Effect::Midi {
                port,
                message: Body::NoteOff { channel, note, velocity: 0 },
                taint: Taint::Clean,
                hops: 0,
            },
            Held::Sustain { port, channel } => Effect::Midi {
                port,
                message: Body::Cc { channel, controller: 64, value: 0 },
                taint: Taint::Clean,
                hops: 0,
            },
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
