//! Suggestions for keys: chords, double taps, long presses, single presses and their velocities.
//!
//! The rules are the same as in `gesture`: the same events would fire a suggested trigger if it
//! were the only mapping.

use super::Captured;
use super::suggest::{Draft, Guess, Tier, only};
use crate::config::Advanced;
use crate::event::{Body, Button, DeviceSlot, Micros};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A press of at least this length is treated as a long press.
const LONG_FROM_MS: u64 = 500;
const MAX_MS: u64 = 60_000;
/// Velocity ranges are suggested for three or more presses whose velocities differ by more than
/// this.
const VELOCITY_SPREAD: u8 = 30;
const VELOCITY_PRESSES: usize = 3;
/// Added to the measured time of a chord, because a person never plays a chord twice in exactly the
/// same time.
const CHORD_ROOM_MS: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Note(u8),
    Button(Button),
}

impl Key {
    fn field(self) -> (&'static str, Value) {
        match self {
            Key::Note(note) => ("note", json!(note)),
            Key::Button(button) => ("button", json!(button.name())),
        }
    }

    fn text(self) -> String {
        match self {
            Key::Note(note) => format!("note {note}"),
            Key::Button(button) => format!("button {button}"),
        }
    }
}

/// The source of keys that can form a chord: a device and a channel for notes, or a device for
/// buttons.
type Source = (DeviceSlot, Option<u8>);

struct Press {
    source: Source,
    key: Key,
    at: Micros,
    velocity: u8,
    up: Option<Micros>,
    in_chord: bool,
}

#[derive(Default)]
struct Heard {
    presses: Vec<Press>,
    chords: Vec<Vec<usize>>,
}

pub(super) fn drafts(events: &[Captured], advanced: &Advanced) -> Vec<Draft> {
    let heard = listen(events, advanced.chord_learn_timeout_ms);
    let mut drafts = Vec::new();
    heard.chords(advanced, &mut drafts);
    heard.double_taps(advanced, &mut drafts);
    heard.long_presses(&mut drafts);
    heard.single_presses(&mut drafts);
    drafts
}

fn listen(events: &[Captured], chord_ms: u32) -> Heard {
    let mut heard = Heard::default();
    let mut down: BTreeMap<(Source, Key), usize> = BTreeMap::new();
    let mut open: BTreeMap<Source, Vec<usize>> = BTreeMap::new();
    for event in events {
        let Some((source, key, velocity)) = key_of(event) else { continue };
        let Some(velocity) = velocity else {
            // Any release ends the group, because the keys of a chord must all be down at the same
            // time.
            heard.close(open.remove(&source));
            if let Some(press) = down.remove(&(source, key)).and_then(|at| heard.presses.get_mut(at)) {
                press.up = Some(event.at);
            }
            continue;
        };
        let index = heard.presses.len();
        // Some controllers never send a release. If a key is pressed again without a release, treat
        // it as released in between.
        let unseen_release = down.insert((source, key), index).is_some();
        let group = open.entry(source).or_default();
        let first = group.first().and_then(|it| heard.presses.get(*it)).map(|it| it.at);
        let joins = first.is_some_and(|first| event.at < first.plus_ms(chord_ms));
        if unseen_release || !joins || group.len() >= largest(key) {
            let group = std::mem::take(group);
            heard.close(Some(group));
        }
        open.entry(source).or_default().push(index);
        heard.presses.push(Press { source, key, at: event.at, velocity, up: None, in_chord: false });
    }
    for group in open.into_values() {
        heard.close(Some(group));
    }
    heard
}

/// The maximum number of keys in a chord.
fn largest(key: Key) -> usize {
    match key {
        Key::Note(_) => 16,
        Key::Button(_) => 8,
    }
}

/// The key of an event, with its velocity if the key was pressed.
fn key_of(event: &Captured) -> Option<(Source, Key, Option<u8>)> {
    let device = event.device;
    if let Body::NoteOn { channel, note, velocity } = event.body {
        Some(((device, Some(channel)), Key::Note(note), Some(velocity)))
    } else if let Body::NoteOff { channel, note, .. } = event.body {
        Some(((device, Some(channel)), Key::Note(note), None))
    } else if let Body::ButtonDown(button) = event.body {
        Some(((device, None), Key::Button(button), Some(127)))
    } else if let Body::ButtonUp(button) = event.body {
        Some(((device, None), Key::Button(button), None))
    } else {
        None
    }
}

impl Heard {
    fn close(&mut self, group: Option<Vec<usize>>) {
        let Some(group) = group.filter(|it| it.len() >= 2) else { return };
        for index in &group {
            if let Some(press) = self.presses.get_mut(*index) {
                press.in_chord = true;
            }
        }
        self.chords.push(group);
    }

    /// The channel of the given keys of a device, if they used only one channel.
    fn channel(&self, device: DeviceSlot, keys: &[Key]) -> Option<u8> {
        let presses = self.presses.iter().filter(|it| it.source.0 == device && keys.contains(&it.key));
        only(&presses.filter_map(|it| it.source.1).collect())
    }

    fn chords(&self, advanced: &Advanced, drafts: &mut Vec<Draft>) {
        // Use the longest time of each chord, so that every played chord would fire.
        let mut found: BTreeMap<(DeviceSlot, Vec<Key>), (Micros, u64)> = BTreeMap::new();
        for group in &self.chords {
            let presses: Vec<&Press> = group.iter().filter_map(|it| self.presses.get(*it)).collect();
            let (Some(first), Some(last)) = (presses.first(), presses.last()) else { continue };
            let mut keys: Vec<Key> = presses.iter().map(|it| it.key).collect();
            keys.sort_unstable();
            let entry = found.entry((first.source.0, keys)).or_default();
            *entry = (entry.0.max(last.at), entry.1.max(last.at.since(first.at)));
        }
        for ((device, keys), (seen, spread_us)) in found {
            let room = (spread_us / 10_000 + 1) * 10 + CHORD_ROOM_MS;
            let timeout = room.max(u64::from(advanced.chord_timeout_ms)).min(MAX_MS);
            let names: Vec<Value> = keys.iter().map(|it| it.field().1).collect();
            let (kind, field) = match keys.first() {
                Some(Key::Button(_)) => ("GamepadButtonChord", "buttons"),
                Some(Key::Note(_)) | None => ("NoteChord", "notes"),
            };
            let reason = format!("{} keys were pressed within {} ms", keys.len(), spread_us / 1000);
            let fields = vec![(field, json!(names)), ("timeout_ms", json!(timeout))];
            let guess = Guess::new(Tier::Gesture, kind, fields, 0.9, reason);
            drafts.push(Draft { guess, seen, device, channel: self.channel(device, &keys) });
        }
    }

    fn double_taps(&self, advanced: &Advanced, drafts: &mut Vec<Draft>) {
        let window_us = u64::from(advanced.double_tap_timeout_ms) * 1000;
        let mut last: BTreeMap<(Source, Key), Micros> = BTreeMap::new();
        let mut found: BTreeMap<(DeviceSlot, Key), (Micros, u64)> = BTreeMap::new();
        for press in self.presses.iter().filter(|it| !it.in_chord) {
            let before = last.insert((press.source, press.key), press.at);
            if let Some(gap) = before.map(|it| press.at.since(it)).filter(|it| *it < window_us) {
                found.insert((press.source.0, press.key), (press.at, gap));
            }
        }
        for ((device, key), (seen, gap_us)) in found {
            // Include the timeout in the trigger, so that the mapping still works if the default is
            // changed.
            let fields = vec![key.field(), ("timeout_ms", json!(advanced.double_tap_timeout_ms))];
            let reason = format!("{} was pressed twice within {} ms", key.text(), gap_us / 1000);
            let guess = Guess::new(Tier::Gesture, "DoubleTap", fields, 0.85, reason);
            drafts.push(Draft { guess, seen, device, channel: self.channel(device, &[key]) });
        }
    }

    fn long_presses(&self, drafts: &mut Vec<Draft>) {
        let mut found: BTreeMap<(DeviceSlot, Key), (Micros, u64)> = BTreeMap::new();
        for press in self.presses.iter().filter(|it| !it.in_chord) {
            let Some(up) = press.up else { continue };
            let held_ms = up.since(press.at) / 1000;
            if held_ms >= LONG_FROM_MS {
                found.insert((press.source.0, press.key), (up, held_ms));
            }
        }
        for ((device, key), (seen, held_ms)) in found {
            let duration = (held_ms / 100 * 100).min(MAX_MS);
            let fields = vec![key.field(), ("duration_ms", json!(duration))];
            let reason = format!("{} was held for {held_ms} ms", key.text());
            let guess = Guess::new(Tier::Gesture, "LongPress", fields, 0.8, reason);
            drafts.push(Draft { guess, seen, device, channel: self.channel(device, &[key]) });
        }
    }

    fn single_presses(&self, drafts: &mut Vec<Draft>) {
        let mut found: BTreeMap<(DeviceSlot, Key), (Micros, Vec<u8>)> = BTreeMap::new();
        for press in &self.presses {
            let (seen, velocities) = found.entry((press.source.0, press.key)).or_default();
            *seen = press.at;
            velocities.push(press.velocity);
        }
        for ((device, key), (seen, velocities)) in found {
            let channel = self.channel(device, &[key]);
            let times = match velocities.len() {
                1 => "once".to_owned(),
                many => format!("{many} times"),
            };
            let (kind, fields) = match key {
                Key::Note(_) => ("Note", vec![key.field(), ("velocity_range", json!([1, 127]))]),
                Key::Button(_) => ("GamepadButton", vec![key.field()]),
            };
            let reason = format!("{} was pressed {times}", key.text());
            drafts.push(Draft { guess: Guess::new(Tier::Key, kind, fields, 0.7, reason), seen, device, channel });
            if matches!(key, Key::Note(_)) {
                velocity_thirds(device, channel, key, seen, &velocities, drafts);
            }
        }
    }
}

/// Suggests velocity ranges: soft, medium and hard. The played range is divided into three parts,
/// and the outer parts are extended to 1 and 127. A part without any press is left out.
fn velocity_thirds(
    device: DeviceSlot,
    channel: Option<u8>,
    key: Key,
    seen: Micros,
    velocities: &[u8],
    drafts: &mut Vec<Draft>,
) {
    let played: BTreeSet<u8> = velocities.iter().copied().collect();
    let (Some(low), Some(high)) = (played.first().copied(), played.last().copied()) else { return };
    let span = high.saturating_sub(low);
    if velocities.len() < VELOCITY_PRESSES || span <= VELOCITY_SPREAD {
        return;
    }
    let (soft_max, medium_max) = (low + span / 3, high - span / 3);
    // The confidence decreases only so that the suggestions stay in the order soft, medium, hard.
    let thirds =
        [("soft", 1, soft_max, 0.52), ("medium", soft_max + 1, medium_max, 0.51), ("hard", medium_max + 1, 127, 0.5)];
    for (word, min, max, confidence) in thirds {
        if played.range(min..=max).next().is_none() {
            continue;
        }
        let fields = vec![key.field(), ("min", json!(min)), ("max", json!(max))];
        let reason = format!("{word} presses of {}: velocities from {low} to {high} were played", key.text());
        let guess = Guess::new(Tier::Velocity, "VelocityRange", fields, confidence, reason);
        drafts.push(Draft { guess, seen, device, channel });
    }
}
