//! Merges the receivers of all inputs into one stream of events, in the order of time stamps.

use crate::owner::ports::SharedSlots;
use crate::owner::ports::with_slots;
use conductor_core::config::{Config, Rows};
use conductor_core::event::{DeviceSlot, Event, Micros, Taint};
use conductor_core::mapping::{EncoderMode, SourceKind, TriggerKind};
use conductor_hosts::midi::ring::{EventReceiver, RelativeControllers};

#[derive(Default)]
pub struct Inputs {
    open: Vec<Open>,
    /// Number of events that were dropped by inputs that are closed now.
    dropped_before: u64,
    /// The time of the last event of each device, by slot.
    last: Vec<Option<Micros>>,
}

struct Open {
    lane: EventReceiver,
    /// The minimum taint of the port's events. A single event may have a more severe taint.
    taint: Taint,
    /// The next event of this input. It is already taken from the queue, so that its time can be
    /// compared with the events of other inputs.
    head: Option<Event>,
    /// Whether the owner processes events of this device before the engine.
    is_watched: bool,
}

impl Open {
    fn pop(&mut self) -> Option<Event> {
        let event = self.lane.pop()?;
        Some(Event { taint: event.taint.max(self.taint), ..event })
    }
}

impl Inputs {
    pub fn add(&mut self, lane: EventReceiver, taint: Taint) {
        let slot = usize::from(lane.device().0);
        self.last.resize(self.last.len().max(slot + 1), None);
        self.open.push(Open { lane, taint, head: None, is_watched: true });
    }

    /// Whether no input has a waiting event.
    pub fn is_empty(&self) -> bool {
        self.open.iter().all(|it| it.head.is_none() && it.lane.is_empty())
    }

    /// The minimum taint of a device whose events a callback may decide. `None` if its events must
    /// pass through the owner.
    pub fn direct(&self, device: DeviceSlot) -> Option<Taint> {
        self.open.iter().find(|it| it.lane.device() == device && !it.is_watched).map(|it| it.taint)
    }

    /// Sets which devices' events must pass through the owner.
    pub fn watch(&mut self, is_watched: impl Fn(DeviceSlot) -> bool) {
        for open in &mut self.open {
            open.is_watched = is_watched(open.lane.device());
        }
    }

    pub fn note_event(&mut self, device: DeviceSlot, at: Micros) {
        if let Some(last) = self.last.get_mut(usize::from(device.0)) {
            *last = Some(at);
        }
    }

    /// The time of the last event of a device.
    pub fn last_event(&self, device: DeviceSlot) -> Option<Micros> {
        self.last.get(usize::from(device.0)).copied().flatten()
    }

    /// The time of the last event of any device.
    pub fn newest_event(&self) -> Option<Micros> {
        self.last.iter().flatten().max().copied()
    }

    /// Removes and returns the earliest event of all inputs.
    pub fn next_event(&mut self) -> Option<Event> {
        let mut earliest: Option<&mut Option<Event>> = None;
        for open in &mut self.open {
            if open.head.is_none() {
                open.head = open.pop();
            }
            let Some(at) = open.head.as_ref().map(|it| it.at) else { continue };
            if earliest.as_ref().and_then(|it| it.as_ref()).is_none_or(|it| at < it.at) {
                earliest = Some(&mut open.head);
            }
        }
        earliest.and_then(Option::take)
    }

    /// Closes the input of a device and returns its remaining events.
    pub fn remove(&mut self, device: DeviceSlot) -> Vec<Event> {
        let mut left = Vec::new();
        self.open.retain_mut(|open| {
            if open.lane.device() != device {
                return true;
            }
            left.extend(open.head.take());
            left.extend(std::iter::from_fn(|| open.pop()));
            self.dropped_before += dropped(&open.lane);
            false
        });
        left
    }

    /// The minimum taint of a device's events, if its input is open.
    pub fn taint(&self, device: DeviceSlot) -> Option<Taint> {
        self.open.iter().find(|it| it.lane.device() == device).map(|it| it.taint)
    }

    pub fn is_open(&self, device: DeviceSlot) -> bool {
        self.open.iter().any(|it| it.lane.device() == device)
    }

    /// The number of events that were dropped because an input's queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped_before + self.open.iter().map(|it| dropped(&it.lane)).sum::<u64>()
    }

    /// Applies the configuration to every input.
    pub fn configure(&self, config: &Config, slots: &SharedSlots) {
        for open in &self.open {
            let name = with_slots(slots, |slots| slots.name(open.lane.device()).to_owned());
            open.lane.set_relative(&relative(config, &name));
            open.lane.set_max_events_per_sec(config.advanced.max_events_per_sec);
        }
    }
}

fn dropped(lane: &EventReceiver) -> u64 {
    let counts = lane.counts();
    counts.dropped + counts.sysex_dropped
}

/// The controllers of a device that send ticks instead of positions, according to all its mappings.
fn relative(config: &Config, alias: &str) -> RelativeControllers {
    let mut mask = RelativeControllers::default();
    let mut mark = |device: Option<&str>, channel: Option<u8>, cc: u8, mode: EncoderMode| {
        if mode == EncoderMode::Absolute || device.is_some_and(|it| it != alias) {
            return;
        }
        for (at, controllers) in mask.iter_mut().enumerate() {
            if channel.is_none_or(|it| usize::from(it) == at) {
                *controllers |= 1 << (cc & 127);
            }
        }
    };
    for Rows { mappings, continuous } in config.modes.iter().map(|it| &it.rows).chain([&config.global]) {
        for rule in mappings.iter().filter_map(|it| it.rule.as_ref()) {
            if let TriggerKind::EncoderTurn { cc, encoder, .. } = &rule.trigger.kind {
                mark(rule.trigger.device.as_deref(), rule.trigger.channel, *cc, encoder.mode);
            }
        }
        for binding in continuous.iter().filter_map(|it| it.binding.as_ref()) {
            if let SourceKind::Encoder { cc, encoder, .. } = &binding.source.kind {
                mark(binding.source.device.as_deref(), binding.source.channel, *cc, encoder.mode);
            }
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_core::event::Body;
    use conductor_hosts::midi::ring::{Bell, event_ring};

    fn cc(value: u8) -> Body {
        Body::Cc { channel: 0, controller: 1, value }
    }

    #[test]
    fn events_of_several_devices_come_in_the_order_of_their_times() {
        let mut inputs = Inputs::default();
        let (mut a, lane_a) = event_ring(DeviceSlot(0), 10_000, Bell::silent());
        let (mut b, lane_b) = event_ring(DeviceSlot(1), 10_000, Bell::silent());
        inputs.add(lane_a, Taint::Clean);
        inputs.add(lane_b, Taint::Clean);
        for (at, sender) in [(1, 0), (4, 0), (2, 1), (3, 1)] {
            let sender = if sender == 0 { &mut a } else { &mut b };
            sender.push(Micros(at), Taint::Clean, cc(at as u8));
        }
        let times: Vec<u64> = std::iter::from_fn(|| inputs.next_event()).map(|it| it.at.0).collect();
        assert_eq!(times, [1, 2, 3, 4]);
    }

    #[test]
    fn a_closed_lane_gives_what_it_held_even_its_head() {
        let mut inputs = Inputs::default();
        let (mut a, lane_a) = event_ring(DeviceSlot(0), 10_000, Bell::silent());
        let (mut b, lane_b) = event_ring(DeviceSlot(1), 10_000, Bell::silent());
        inputs.add(lane_a, Taint::Virtual);
        inputs.add(lane_b, Taint::Clean);
        a.push(Micros(5), Taint::Clean, cc(1));
        a.push(Micros(6), Taint::Clean, cc(2));
        b.push(Micros(1), Taint::Clean, cc(3));
        assert_eq!(inputs.next_event().map(|it| it.device), Some(DeviceSlot(1)));
        let left: Vec<Taint> = inputs.remove(DeviceSlot(0)).iter().map(|it| it.taint).collect();
        assert_eq!(left, [Taint::Virtual; 2], "the remaining events do not have the taint of their port");
        assert!(inputs.next_event().is_none() && inputs.is_open(DeviceSlot(1)) && !inputs.is_open(DeviceSlot(0)));
    }

    #[test]
    fn encoders_are_marked_where_they_are_heard() {
        let loaded = conductor_core::config::load(
            r#"
            schema = 1
            [[devices]]
            alias = "knobs"
            loopback = true
            [[modes]]
            name = "Default"
            [[modes.mappings]]
            trigger = { type = "EncoderTurn", cc = 16, mode = "twos_complement", device = "knobs", channel = 2 }
            action = { type = "Delay", ms = 1 }
            [[modes.mappings]]
            trigger = { type = "EncoderTurn", cc = 17, mode = "absolute", device = "knobs" }
            action = { type = "Delay", ms = 1 }
            "#,
        );
        let config = loaded.config.unwrap();
        let mask = relative(&config, "knobs");
        assert_eq!((mask[2], mask[0]), (1 << 16, 0));
        assert_eq!(relative(&config, "other"), RelativeControllers::default());
    }
}
