//! Counts how often each mapping fired, and lists the notes and buttons that are down. The console
//! shows both.

use conductor_core::event::{Body, Button, DeviceSlot, Event, Micros, script};
use conductor_gateway::report::FiringNow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Maximum number of mappings whose firings are counted. A reload may give mappings new ids, and
/// the old ids stay in the table. So the table is cleared when it is full.
const MOST: usize = 4096;

#[derive(Default)]
pub(crate) struct Firings(HashMap<(Arc<str>, Arc<str>), FiringNow>);

impl Firings {
    pub fn count(&mut self, mode: Arc<str>, mapping: Arc<str>, at: Micros) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let firing = self.0.entry((mode, mapping)).or_default();
        firing.count += 1;
        firing.last_us = firing.last_us.max(at.0);
    }

    /// The mappings that fired at this time or later.
    pub fn since(&self, since: Micros) -> BTreeMap<String, FiringNow> {
        let new = self.0.iter().filter(|(_, it)| it.last_us >= since.0);
        new.map(|((mode, id), it)| (format!("{mode}/{id}"), *it)).collect()
    }
}

/// A note or a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Note { channel: u8, note: u8 },
    Button(Button),
}

impl Key {
    /// The key of this event, and whether it was pressed; `None` for other events.
    fn of(body: &Body) -> Option<(Self, bool)> {
        if let Body::NoteOn { channel, note, .. } = *body {
            Some((Self::Note { channel, note }, true))
        } else if let Body::NoteOff { channel, note, .. } = *body {
            Some((Self::Note { channel, note }, false))
        } else if let Body::ButtonDown(button) = *body {
            Some((Self::Button(button), true))
        } else if let Body::ButtonUp(button) = *body {
            Some((Self::Button(button), false))
        } else {
            None
        }
    }

    fn token(self) -> String {
        match self {
            Self::Note { channel, note } => format!("on:{note}/{channel}"),
            Self::Button(button) => script::token(&Body::ButtonDown(button)),
        }
    }
}

/// The notes and buttons that are down. A list, because a press must not allocate and only a few
/// keys are down at a time. More keys than the list has space for are not shown.
pub(crate) struct Pressed(Vec<(DeviceSlot, Key)>);

impl Default for Pressed {
    fn default() -> Self {
        Self(Vec::with_capacity(128))
    }
}

impl Pressed {
    pub fn note(&mut self, event: &Event) {
        let Some((key, down)) = Key::of(&event.body) else { return };
        let held = (event.device, key);
        if !down {
            self.0.retain(|it| *it != held);
        } else if !self.0.contains(&held) && self.0.len() < self.0.capacity() {
            self.0.push(held);
        }
    }

    pub fn device_lost(&mut self, device: DeviceSlot) {
        self.0.retain(|(slot, _)| *slot != device);
    }

    pub fn by_device(&self, name: impl Fn(DeviceSlot) -> String) -> BTreeMap<String, Vec<String>> {
        let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (slot, key) in &self.0 {
            held.entry(name(*slot)).or_default().push(key.token());
        }
        held
    }
}
