//! Properties that must be true for every sequence of events, mode switches, reloads and lost
//! devices.

use conductor_core::config::{Config, load};
use conductor_core::engine::trace::Record;
use conductor_core::engine::{Effect, Engine, Outcome, Stroke};
use conductor_core::event::{Axis, Body, Button, DeviceSlot, Event, Micros, OscArg, OscMessage, Side, Taint};
use conductor_core::mapping::table::Slots;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const STUDIO: &str = include_str!("../engine_properties/studio.toml");
/// The same configuration after an edit: a mapping and a route are removed, a mapping is changed.
const EDITED: &str = include_str!("../engine_properties/edited.toml");

fn config(text: &str) -> Config {
    let loaded = load(text);
    assert!(loaded.valid(), "{}", loaded.errors().map(|it| it.render(text, "studio.toml")).collect::<String>());
    loaded.config.unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Event(u8, Body),
    Tainted(Body),
    Pass(u32),
    Mode(u8),
    Reload(bool),
    Lose(u8),
    Return(u8),
    Mute(u8, bool),
    LosePort(u8),
    ReturnPort(u8),
    ToolNote(u8),
    ToolGone,
    CallDone,
    Panic,
}

fn body() -> impl Strategy<Value = Body> {
    let note = prop_oneof![4 => 36u8..42, 1 => 0u8..=127];
    let channel = prop_oneof![4 => Just(0u8), 1 => 0u8..16];
    prop_oneof![
        6 => (channel.clone(), note.clone(), 1u8..=127).prop_map(|(channel, note, velocity)| Body::NoteOn { channel, note, velocity }),
        6 => (channel.clone(), note.clone()).prop_map(|(channel, note)| Body::NoteOff { channel, note, velocity: 0 }),
        3 => (channel.clone(), prop_oneof![0u8..=127, Just(64), Just(96), Just(99), Just(7)], 0u8..=127)
            .prop_map(|(channel, controller, value)| Body::Cc { channel, controller, value }),
        1 => (channel.clone(), 0u16..16384).prop_map(|(channel, value)| Body::PitchBend { channel, value }),
        1 => (channel.clone(), 0u8..=127).prop_map(|(channel, pressure)| Body::ChannelPressure { channel, pressure }),
        1 => (channel.clone(), note, 0u8..=127).prop_map(|(channel, note, pressure)| Body::PolyPressure { channel, note, pressure }),
        1 => (channel, 0u8..=127).prop_map(|(channel, program)| Body::Program { channel, program }),
        2 => proptest::sample::select(Button::ALL).prop_map(Body::ButtonDown),
        2 => proptest::sample::select(Button::ALL).prop_map(Body::ButtonUp),
        1 => (proptest::sample::select(Axis::ALL), -1.0f32..=1.0).prop_map(|(axis, value)| Body::Axis { axis, value }),
        1 => (proptest::sample::select(Side::ALL), 0.0f32..=1.0).prop_map(|(side, value)| Body::Trigger { side, value }),
        1 => proptest::num::f32::ANY.prop_map(|it| Body::Osc(Arc::new(OscMessage { address: "/a/b".into(), args: vec![OscArg::Float(it)] }))),
        1 => Just(Body::SysEx(Arc::from([1u8, 2, 3]))),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0u8..3, body()).prop_map(|(device, body)| Op::Event(device, body)),
        1 => body().prop_map(Op::Tainted),
        8 => prop_oneof![0u32..30, 0u32..700].prop_map(Op::Pass),
        1 => (0u8..2).prop_map(Op::Mode),
        1 => any::<bool>().prop_map(Op::Reload),
        1 => (0u8..3).prop_map(Op::Lose),
        1 => (0u8..3).prop_map(Op::Return),
        1 => (0u8..3, any::<bool>()).prop_map(|(device, muted)| Op::Mute(device, muted)),
        1 => (0u8..2).prop_map(Op::LosePort),
        1 => (0u8..2).prop_map(Op::ReturnPort),
        1 => (36u8..42).prop_map(Op::ToolNote),
        1 => Just(Op::ToolGone),
        1 => Just(Op::CallDone),
        1 => Just(Op::Panic),
    ]
}

const DEVICES: [&str; 3] = ["pads", "keys", "pad1"];
const PORTS: [&str; 2] = ["daw", "synth"];

/// Simulates the synthesizers and the desktop that receive the effects.
#[derive(Default)]
struct World {
    sounding: BTreeMap<(u16, u8, u8), i64>,
    on: u64,
    off: u64,
    pedals: BTreeMap<(u16, u8), bool>,
    keys_down: i64,
    calls: Vec<conductor_core::engine::CallTicket>,
    /// Disconnected ports. Messages to them are lost.
    away: Vec<u16>,
}

impl World {
    #[expect(clippy::wildcard_enum_match_arm, reason = "effects without sound cannot leave a note on")]
    fn hear(&mut self, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            match effect {
                // A disconnected port receives nothing.
                Effect::Midi { port, .. } if self.away.contains(&port.0) => {}
                Effect::Midi { port, message: Body::NoteOn { channel, note, velocity }, .. } => {
                    assert!((1..=127).contains(&velocity));
                    *self.sounding.entry((port.0, channel, note)).or_default() += 1;
                    self.on += 1;
                }
                Effect::Midi { port, message: Body::NoteOff { channel, note, .. }, .. } => {
                    self.off += 1;
                    let count = self.sounding.entry((port.0, channel, note)).or_default();
                    *count = (*count - 1).max(0);
                }
                Effect::Midi { port, message: Body::Cc { channel, controller: 64, value }, .. } => {
                    self.pedals.insert((port.0, channel), value >= 64);
                }
                Effect::Key { stroke, .. } => {
                    self.keys_down += match stroke {
                        Stroke::Down => 1,
                        Stroke::Up => -1,
                        Stroke::Tap => 0,
                    };
                    assert!(self.keys_down >= 0, "a key that was not down was released");
                }
                Effect::Call(call) => self.calls.push(call.ticket),
                _other => {}
            }
        }
    }
}

struct Stage {
    engine: Engine,
    slots: Slots,
    world: World,
    muted: Vec<u16>,
    now: Micros,
}

impl Stage {
    fn new() -> Self {
        let mut slots = Slots::default();
        let engine = Engine::new(&config(STUDIO), &mut slots, Micros(0));
        Stage { engine, slots, world: World::default(), muted: Vec::new(), now: Micros(0) }
    }

    fn slot(&mut self, name: &str) -> DeviceSlot {
        self.slots.slot(name)
    }

    fn play(&mut self, op: &Op) {
        let mut out = Vec::new();
        let now = self.now;
        match op {
            Op::Event(device, body) => {
                let device = self.slot(DEVICES[usize::from(*device)]);
                self.engine
                    .feed(&Event { at: now, device, taint: Taint::Clean, hops: 0, body: body.clone() }, &mut out);
                assert!(out.is_empty() || !self.muted.contains(&device.0), "a muted device caused {out:?}");
            }
            Op::Tainted(body) => {
                let device = self.slot("touch");
                self.engine
                    .feed(&Event { at: now, device, taint: Taint::Network, hops: 0, body: body.clone() }, &mut out);
                assert!(!out.iter().any(|it| matches!(it, Effect::Text(_) | Effect::Call(_) | Effect::Click { .. })));
            }
            Op::Pass(ms) => {
                self.now = now.plus_ms(*ms);
                self.engine.advance(self.now, &mut out);
            }
            Op::Mode(mode) => {
                self.engine.switch_mode(["Default", "Mix"][usize::from(*mode)], Taint::Clean, now, &mut out).unwrap();
            }
            Op::Reload(edited) => {
                let text = if *edited { EDITED } else { STUDIO };
                self.engine.reload(&config(text), &mut self.slots, now, &mut out);
            }
            Op::Lose(device) => {
                let device = self.slot(DEVICES[usize::from(*device)]);
                self.engine.device_lost(device, now, &mut out);
            }
            Op::Return(device) => {
                let device = self.slot(DEVICES[usize::from(*device)]);
                self.engine.device_back(device, now, &mut out);
            }
            Op::Mute(device, muted) => {
                let device = self.slot(DEVICES[usize::from(*device)]);
                self.engine.set_muted(device, *muted, now, &mut out);
                assert_eq!(self.engine.is_muted(device), *muted);
                self.muted.retain(|it| *it != device.0);
                self.muted.extend(muted.then_some(device.0));
            }
            Op::LosePort(port) => {
                let port = self.slot(PORTS[usize::from(*port)]);
                self.engine.output_lost(port, now, &mut out);
                self.world.away.push(port.0);
                return self.world.hear(&mut out);
            }
            Op::ReturnPort(port) => {
                let port = self.slot(PORTS[usize::from(*port)]);
                self.world.away.retain(|it| *it != port.0);
                self.engine.output_back(port, now, &mut out);
            }
            Op::ToolNote(note) => {
                let port = self.slot("daw");
                let message = Body::NoteOn { channel: 9, note: *note, velocity: 1 };
                self.engine.tool_sent(7, port, &message, now);
                out.push(Effect::Midi { port, message, taint: Taint::Tool, hops: 0 });
            }
            Op::ToolGone => self.engine.tool_gone(7, now, &mut out),
            Op::CallDone => {
                if let Some(ticket) = self.world.calls.pop() {
                    self.engine.call_done(ticket, false, now, &mut out);
                }
            }
            Op::Panic => {
                self.engine.panic(now, &mut out);
            }
        }
        self.world.hear(&mut out);
    }

    fn stop(&mut self) {
        let mut out = Vec::new();
        self.engine.panic(self.now, &mut out);
        self.world.hear(&mut out);
        self.world.away.clear();
        for port in PORTS {
            let port = self.slot(port);
            self.engine.output_back(port, self.now, &mut out);
        }
        self.world.hear(&mut out);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn nothing_is_left_stuck(ops in proptest::collection::vec(op(), 0..120)) {
        let mut stage = Stage::new();
        for op in &ops {
            stage.play(op);
        }
        stage.stop();
        let stuck: Vec<_> = stage.world.sounding.iter().filter(|it| *it.1 > 0).collect();
        prop_assert!(stuck.is_empty(), "still sounding: {stuck:?}");
        prop_assert!(stage.world.off >= stage.world.on, "{} note-ons, {} note-offs", stage.world.on, stage.world.off);
        prop_assert_eq!(stage.world.keys_down, 0);
        prop_assert!(!stage.world.pedals.values().any(|it| *it), "a pedal is down: {:?}", stage.world.pedals);
        prop_assert!(stage.engine.is_quiet());
    }

    /// When all keys are released and all durations have passed, no note sounds, even without a
    /// panic.
    #[test]
    fn releasing_every_key_silences_everything(presses in proptest::collection::vec((0u8..3, 36u8..42, 0u32..400), 1..40)) {
        let mut stage = Stage::new();
        for (device, note, wait) in &presses {
            stage.play(&Op::Event(*device, Body::NoteOn { channel: 0, note: *note, velocity: 90 }));
            stage.play(&Op::Pass(*wait));
        }
        for (device, note, _) in &presses {
            stage.play(&Op::Event(*device, Body::NoteOff { channel: 0, note: *note, velocity: 0 }));
        }
        for _ in 0..50 {
            stage.play(&Op::Pass(60_000));
            stage.play(&Op::CallDone);
        }
        prop_assert!(stage.world.sounding.values().all(|it| *it == 0), "{:?}", stage.world.sounding);
    }

    /// Additional calls of `advance` do not change the result: only time stamps matter.
    #[test]
    fn splitting_time_anywhere_gives_the_same_trace(
        steps in proptest::collection::vec((0u8..2, body(), 0u32..600, 0.0f64..1.0), 1..40),
    ) {
        let trace = |split: bool| {
            let mut stage = Stage::new();
            for (device, body, wait, part) in &steps {
                stage.play(&Op::Event(*device, body.clone()));
                let first = if split { (f64::from(*wait) * part) as u32 } else { 0 };
                if split {
                    stage.play(&Op::Pass(first));
                }
                stage.play(&Op::Pass(*wait - first));
            }
            let slots = &stage.slots;
            stage.engine.traced(0, slots).map(|it| it.line()).collect::<Vec<_>>()
        };
        prop_assert_eq!(trace(false), trace(true));
    }

    /// A press becomes at most one gesture: a press, a long press, a double tap or part of a chord.
    #[test]
    fn at_most_one_meaning_per_press(gaps in proptest::collection::vec((0u32..700, 0u32..400, 36u8..40), 1..20)) {
        let mut stage = Stage::new();
        for (at, (hold, pause, note)) in gaps.iter().enumerate() {
            // The velocity identifies the press.
            stage.play(&Op::Event(0, Body::NoteOn { channel: 0, note: *note, velocity: 80 + at as u8 }));
            stage.play(&Op::Pass(*hold));
            stage.play(&Op::Event(0, Body::NoteOff { channel: 0, note: *note, velocity: 0 }));
            stage.play(&Op::Pass(*pause));
        }
        stage.play(&Op::Pass(60_000));
        let mut meanings = vec![0; gaps.len()];
        let mut presses = 0;
        for record in stage.engine.trace().records() {
            let weight = match (record.outcome, record.gesture) {
                (Outcome::Fired | Outcome::QueueFull, "Note" | "LongPress") | (Outcome::NoMatch, "Press") => 1,
                // Note 38 has a rule for the release only.
                (Outcome::Fired | Outcome::QueueFull, "Release") if is_note(record, 38) => 1,
                (Outcome::Fired | Outcome::QueueFull, "DoubleTap" | "NoteChord") => 2,
                (_, _) => continue,
            };
            let Some(Body::NoteOn { velocity, .. }) = record.event else { continue };
            meanings[usize::from(velocity - 80)] += 1;
            presses += weight;
        }
        prop_assert!(meanings.iter().all(|it| *it <= 1), "a press with two meanings: {meanings:?}");
        let trace: Vec<_> = stage.engine.trace().records().map(|it| (it.at, it.outcome, it.gesture)).collect();
        prop_assert_eq!(presses, gaps.len(), "the gestures do not contain each press exactly once: {:?}", trace);
    }
}

fn is_note(record: &Record, wanted: u8) -> bool {
    matches!(record.event, Some(Body::NoteOn { note, .. }) if note == wanted)
}

#[test]
fn a_flood_at_one_instant_keeps_at_most_sixteen_waiting() {
    let mut stage = Stage::new();
    let device = stage.slot("keys");
    let mut out = Vec::new();
    for n in 0..100_000u32 {
        let body = Body::NoteOn { channel: 0, note: (n % 128) as u8, velocity: 1 + (n % 127) as u8 };
        stage.engine.feed(&Event { at: Micros(5), device, taint: Taint::Clean, hops: 0, body }, &mut out);
        out.clear();
    }
    assert!(stage.engine.pending_chord_members() <= 16);
}
