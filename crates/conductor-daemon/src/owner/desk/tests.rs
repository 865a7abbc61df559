#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks at a few kinds only")]
use super::*;
use conductor_core::config::Config;
use conductor_core::event::Body;
use conductor_core::mapping::table::Slots;
use conductor_hosts::midi::ring::{Bell, EventSender, event_ring};
use proptest::prelude::*;
use std::collections::BTreeMap;

const CONFIG: &str = r#"
schema = 1
[[devices]]
alias = "keys"
loopback = true
[[devices]]
alias = "pads"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[routes]]
from = "keys"
to = "synth"
[[modes]]
name = "Default"
[[modes.mappings]]
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 1, message_type = "NoteOn", note = 60, velocity = 100 }
[[modes.mappings]]
trigger = { type = "LongPress", note = 37, device = "pads", duration_ms = 300 }
action = { type = "SendMidi", port = "synth", channel = 1, message_type = "NoteOn", note = 61, velocity = 100 }
[[modes.mappings]]
trigger = { type = "Note", note = 38, device = "pads" }
action = { type = "Keystroke", keys = "a", hold = true }
[[modes.mappings]]
trigger = { type = "Note", note = 39, device = "pads" }
action = { type = "ModeChange", mode = "Other" }
[[modes.mappings]]
trigger = { type = "Note", note = 40, device = "pads" }
[modes.mappings.action]
type = "Sequence"
actions = [
  { type = "SendMidi", port = "synth", channel = 2, message_type = "NoteOn", note = 62, velocity = 9, duration_ms = 50 },
  { type = "Delay", ms = 20 },
  { type = "SendMidi", port = "synth", channel = 2, message_type = "CC", controller = 1, value = 2 },
]
[[modes]]
name = "Other"
[[modes.mappings]]
trigger = { type = "Note", note = 39, device = "pads" }
action = { type = "ModeChange", mode = "Default" }
"#;

fn config() -> Config {
    let loaded = conductor_core::config::load(CONFIG);
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.config.unwrap()
}

/// Output buffers that may be full.
struct Buffers<'a> {
    sent: &'a mut Vec<Body>,
    room: usize,
}

impl Outputs for Buffers<'_> {
    fn write(&mut self, _: DeviceSlot, message: &[u8]) -> Written {
        if self.room == 0 {
            return Written::Full;
        }
        self.room -= 1;
        let mut decoder = midi::Decoder::default();
        decoder.decode(message, |heard| {
            if let midi::Heard::Message(body) = heard {
                self.sent.push(body);
            }
        });
        Written::Sent
    }
}

struct Stage {
    desk: Desk,
    slots: Slots,
    senders: BTreeMap<DeviceSlot, EventSender>,
    now: Micros,
    sent: Vec<Body>,
    held_keys: i32,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A key event of a device. With `room`, a callback decides it, with space for this many
    /// messages in the output buffer. Without `room`, the owner decides it.
    Key {
        pads: bool,
        note: u8,
        down: bool,
        room: Option<usize>,
    },
    OwnerTurn,
    Reload,
    Panic,
    InputLost {
        pads: bool,
    },
    Mute {
        pads: bool,
        muted: bool,
    },
    Pass(u32),
}

impl Stage {
    fn new() -> Self {
        let mut slots = Slots::default();
        let engine = Engine::new(&config(), &mut slots, Micros(0));
        let mut stage = Stage {
            desk: Desk::new(engine),
            slots,
            senders: BTreeMap::new(),
            now: Micros(1),
            sent: Vec::new(),
            held_keys: 0,
        };
        stage.plug("keys");
        stage.plug("pads");
        stage.owner_turn();
        stage
    }

    fn plug(&mut self, alias: &str) {
        let device = self.slots.slot(alias);
        let (sender, lane) = event_ring(device, u32::MAX, Bell::silent());
        self.senders.insert(device, sender);
        self.desk.inputs.add(lane, Taint::Clean);
        self.desk.engine.device_back(device, self.now, &mut Vec::new());
        self.desk.inputs.watch(|_| false);
    }

    fn device(&mut self, pads: bool) -> DeviceSlot {
        self.slots.slot(if pads { "pads" } else { "keys" })
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Midi { message, .. } => self.sent.push(message),
                Effect::Key { stroke, .. } => {
                    self.held_keys += match stroke {
                        conductor_core::engine::Stroke::Down => 1,
                        conductor_core::engine::Stroke::Up => -1,
                        conductor_core::engine::Stroke::Tap => 0,
                    };
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn owner_turn(&mut self) {
        let left = std::mem::take(&mut self.desk.left);
        self.carry_out(left);
        let mut out = Vec::new();
        while let Some(event) = self.desk.inputs.next_event() {
            self.desk.note_order(&event);
            self.desk.engine.feed(&event, &mut out);
        }
        self.desk.engine.advance(self.now, &mut out);
        self.carry_out(out);
        self.desk.mode_changes = self.desk.engine.counters().mode_changes;
        self.desk.make_room();
    }

    fn act(&mut self, act: impl FnOnce(&mut Engine, &mut Slots, Micros, &mut Vec<Effect>)) {
        self.owner_turn();
        let mut out = Vec::new();
        act(&mut self.desk.engine, &mut self.slots, self.now, &mut out);
        self.carry_out(out);
        self.desk.make_room();
    }

    fn play(&mut self, op: Op) {
        match op {
            Op::Key { pads, note, down, room } => {
                // Events of two devices with the same time have no order.
                self.now = self.now.plus_us(1);
                let (device, velocity) = (self.device(pads), 100);
                let body = match down {
                    true => Body::NoteOn { channel: 0, note, velocity },
                    false => Body::NoteOff { channel: 0, note, velocity: 0 },
                };
                let event = Event { at: self.now, device, taint: Taint::Clean, hops: 0, body };
                let decided = room.is_some_and(|room| {
                    let open = self.desk.begin(0);
                    let mut buffers = Buffers { sent: &mut self.sent, room };
                    let decided = open && self.desk.decide(&event, &mut buffers);
                    self.desk.end(self.now, u64::from(!decided));
                    decided
                });
                if !decided && let Some(sender) = self.senders.get_mut(&device) {
                    sender.push(event.at, Taint::Clean, event.body);
                }
            }
            Op::OwnerTurn => self.owner_turn(),
            Op::Reload => self.act(|engine, slots, now, out| engine.reload(&config(), slots, now, out)),
            Op::Panic => self.act(|engine, _, now, out| {
                engine.panic(now, out);
            }),
            Op::InputLost { pads } => {
                let device = self.device(pads);
                self.owner_turn();
                drop(self.desk.inputs.remove(device));
                self.act(|engine, _, now, out| engine.device_lost(device, now, out));
                let alias = if pads { "pads" } else { "keys" };
                self.plug(alias);
                self.desk.make_room();
            }
            Op::Mute { pads, muted } => {
                let device = self.device(pads);
                self.act(|engine, _, now, out| engine.set_muted(device, muted, now, out));
            }
            Op::Pass(ms) => {
                self.now = self.now.plus_ms(ms);
            }
        }
    }

    fn sounding(&self) -> BTreeMap<(u8, u8), i32> {
        let mut notes = BTreeMap::new();
        for message in &self.sent {
            match message {
                Body::NoteOn { channel, note, .. } => *notes.entry((*channel, *note)).or_default() += 1,
                Body::NoteOff { channel, note, .. } => *notes.entry((*channel, *note)).or_default() -= 1,
                _ => {}
            }
        }
        notes.retain(|_, count| *count > 0);
        notes
    }
}

fn op() -> impl Strategy<Value = Op> {
    let room = prop_oneof![2 => Just(None), 1 => (0usize..3).prop_map(Some), 5 => Just(Some(usize::MAX))];
    prop_oneof![
        12 => (any::<bool>(), 36u8..42, any::<bool>(), room)
            .prop_map(|(pads, note, down, room)| Op::Key { pads, note, down, room }),
        4 => (0u32..400).prop_map(Op::Pass),
        3 => Just(Op::OwnerTurn),
        1 => Just(Op::Reload),
        1 => Just(Op::Panic),
        1 => any::<bool>().prop_map(|pads| Op::InputLost { pads }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(pads, muted)| Op::Mute { pads, muted }),
    ]
}

proptest! {
    /// A panic releases every note and every key, wherever events were decided and whatever
    /// happened before.
    #[test]
    fn no_note_and_no_key_stays_on(ops in prop::collection::vec(op(), 1..60)) {
        let mut stage = Stage::new();
        ops.into_iter().for_each(|op| stage.play(op));
        stage.play(Op::Pass(60_000));
        stage.play(Op::Panic);
        prop_assert_eq!(stage.sounding(), BTreeMap::new());
        prop_assert_eq!(stage.held_keys, 0);
        prop_assert!(stage.desk.engine.is_quiet());
    }

    /// The messages are the same, and in the same order, as if the owner decided every event.
    #[test]
    fn a_callback_decides_as_the_owner_does(ops in prop::collection::vec(op(), 1..60)) {
        let (mut mixed, mut owner) = (Stage::new(), Stage::new());
        for op in ops {
            mixed.play(op);
            let op = if let Op::Key { pads, note, down, .. } = op { Op::Key { pads, note, down, room: None } } else { op };
            owner.play(op);
            owner.play(Op::OwnerTurn);
        }
        mixed.play(Op::OwnerTurn);
        prop_assert_eq!(mixed.sent, owner.sent);
    }
}

#[test]
fn the_owner_is_woken_only_if_it_has_something_to_do() {
    let mut stage = Stage::new();
    let pads = stage.device(true);
    let key = |note| Body::NoteOn { channel: 0, note, velocity: 1 };
    let mut play = |note: u8, wakes: bool| {
        let event = Event { at: stage.now, device: pads, taint: Taint::Clean, hops: 0, body: key(note) };
        assert!(stage.desk.begin(0));
        let mut buffers = Buffers { sent: &mut stage.sent, room: 1 };
        assert!(stage.desk.decide(&event, &mut buffers));
        assert_eq!(stage.desk.end(stage.now, 0), wakes, "note {note}");
        stage.owner_turn();
    };
    play(36, false);
    play(37, true);
    play(38, true);
    play(39, true);
}

#[test]
fn a_device_that_the_owner_looks_at_first_is_not_decided_in_a_callback() {
    let mut stage = Stage::new();
    let (keys, pads) = (stage.device(false), stage.device(true));
    stage.desk.inputs.watch(|device| device == pads);
    assert_eq!((stage.desk.inputs.direct(keys), stage.desk.inputs.direct(pads)), (Some(Taint::Clean), None));
    stage.desk.owner_first = true;
    assert!(!stage.desk.begin(0), "a callback decided an event during a learn session");
    stage.desk.owner_first = false;
    assert!(stage.desk.begin(0));
    if let Some(sender) = stage.senders.get_mut(&keys) {
        sender.push(stage.now, Taint::Clean, Body::Cc { channel: 0, controller: 1, value: 1 });
    }
    assert!(!stage.desk.begin(0), "a callback decided an event although an older event waits");
}
