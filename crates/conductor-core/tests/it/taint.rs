//! Tests that all results of a tainted event are tainted: gestures of several events, timers,
//! releases, and notes that end automatically.

use conductor_core::config::load;
use conductor_core::engine::{Effect, Engine};
use conductor_core::event::{Body, DeviceSlot, Event, Micros, Taint};
use conductor_core::mapping::table::Slots;

const STUDIO: &str = r#"
[[devices]]
alias = "pads"
matchers = [{ type = "NameContains", pattern = "pads" }]
[[devices]]
alias = "synth"
direction = "Output"
virtual_port = "Synth"
[[global_mappings]]
trigger = { type = "NoteChord", notes = [50, 51] }
action = { type = "Text", text = "chord" }
[[global_mappings]]
trigger = { type = "DoubleTap", note = 52 }
action = { type = "Text", text = "double" }
[[global_mappings]]
trigger = { type = "Note", note = 53, on = "release" }
action = { type = "Text", text = "release" }
[[global_mappings]]
trigger = { type = "LongPress", note = 54, duration_ms = 200, fire = "release" }
action = { type = "Text", text = "long" }
[[global_mappings]]
trigger = { type = "EncoderTurn", cc = 16, mode = "twos_complement", step = 3 }
action = { type = "Text", text = "turned" }
[[global_mappings]]
trigger = { type = "Note", note = 55 }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "NoteOn", note = 60 }
[[global_mappings]]
trigger = { type = "Note", note = 56 }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "NoteOn", note = 61, duration_ms = 500 }
[[global_mappings]]
trigger = { type = "Note", note = 57 }
action = { type = "Sequence", actions = [
    { type = "Delay", ms = 900 },
    { type = "Repeat", count = 2, delay_ms = 900, action = { type = "OscSend", host = "127.0.0.1", port = 9, address = "/go" } },
] }
[[global_mappings]]
trigger = { type = "CC", cc = 64 }
action = { type = "MidiForward", target = "synth" }
[[global_continuous]]
source = { type = "CC", cc = 20 }
targets = [{ type = "CC", port = "synth", channel = 0, controller = 21 }]
glue = { throttle_ms = 100 }
"#;

struct Stage {
    engine: Engine,
    pads: DeviceSlot,
    synth: DeviceSlot,
    now: Micros,
    out: Vec<Effect>,
}

impl Stage {
    fn new() -> Self {
        let loaded = load(STUDIO);
        assert!(loaded.valid(), "{}", loaded.errors().map(|it| it.render(STUDIO, "studio.toml")).collect::<String>());
        let mut slots = Slots::default();
        let engine = Engine::new(&loaded.config.unwrap(), &mut slots, Micros(0));
        let (pads, synth) = (slots.slot("pads"), slots.slot("synth"));
        Stage { engine, pads, synth, now: Micros::from_ms(10_000), out: Vec::new() }
    }

    fn play(&mut self, taint: Taint, body: Body) -> &mut Self {
        let event = Event { at: self.now, device: self.pads, taint, hops: 0, body };
        self.engine.feed(&event, &mut self.out);
        self
    }

    fn on(&mut self, taint: Taint, note: u8) -> &mut Self {
        self.play(taint, Body::NoteOn { channel: 0, note, velocity: 90 })
    }

    fn off(&mut self, taint: Taint, note: u8) -> &mut Self {
        self.play(taint, Body::NoteOff { channel: 0, note, velocity: 0 })
    }

    fn pass(&mut self, ms: u32) -> &mut Self {
        self.now = self.now.plus_ms(ms);
        self.engine.advance(self.now, &mut self.out);
        self
    }

    fn typed(&self) -> usize {
        self.out.iter().filter(|it| matches!(it, Effect::Text(_))).count()
    }

    /// The taints of all sent messages, without consecutive duplicates.
    fn sent(&mut self) -> Vec<Taint> {
        let taint = |it: Effect| match it {
            Effect::Midi { taint, .. } | Effect::Osc { taint, .. } | Effect::OscValue { taint, .. } => Some(taint),
            Effect::Key { .. }
            | Effect::Text(_)
            | Effect::Click { .. }
            | Effect::Volume(_)
            | Effect::Parameter { .. }
            | Effect::Call(_) => None,
        };
        let mut taints: Vec<Taint> = self.out.drain(..).filter_map(taint).collect();
        taints.dedup();
        taints
    }
}

/// Plays each gesture of several events with clean events only, then with a tainted first event,
/// then with a tainted last event.
#[test]
fn one_tainted_event_of_several_taints_what_they_do_together() {
    type Play = fn(&mut Stage, Taint, Taint);
    let gestures: [(&str, Play); 5] = [
        ("chord", |stage, a, b| {
            stage.on(a, 50).pass(10).on(b, 51).pass(100);
        }),
        ("double tap", |stage, a, b| {
            stage.on(a, 52).pass(20).off(Taint::Clean, 52).pass(20).on(b, 52).pass(500);
        }),
        ("release", |stage, a, b| {
            stage.on(a, 53).pass(50).off(b, 53).pass(10);
        }),
        ("long press that fires on release", |stage, a, b| {
            stage.on(a, 54).pass(300).off(b, 54).pass(10);
        }),
        ("three detents", |stage, a, b| {
            for taint in [a, Taint::Clean, b] {
                stage.play(taint, Body::Cc { channel: 0, controller: 16, value: 1 }).pass(1);
            }
        }),
    ];
    for (name, gesture) in gestures {
        let typed = |a: Taint, b: Taint| {
            let mut stage = Stage::new();
            gesture(&mut stage, a, b);
            stage.typed()
        };
        assert_eq!(typed(Taint::Clean, Taint::Clean), 1, "{name} with clean events did not fire exactly once");
        for taint in [Taint::Network, Taint::Virtual, Taint::Tool] {
            assert_eq!(typed(taint, Taint::Clean), 0, "{name} fired although its first event was {taint:?}");
            assert_eq!(typed(Taint::Clean, taint), 0, "{name} fired although its last event was {taint:?}");
        }
    }
}

/// A detent that a tool caused taints only the firing that includes it, not the next one.
#[test]
fn a_hand_that_turns_on_is_heard_again() {
    let mut stage = Stage::new();
    for taint in [Taint::Tool, Taint::Clean, Taint::Clean, Taint::Clean, Taint::Clean, Taint::Clean] {
        stage.play(taint, Body::Cc { channel: 0, controller: 16, value: 1 }).pass(1);
    }
    assert_eq!(stage.typed(), 1);
}

#[test]
fn what_is_sent_later_has_the_taint_of_its_cause() {
    for taint in [Taint::Clean, Taint::Network, Taint::Virtual, Taint::Tool] {
        let mut stage = Stage::new();
        stage.on(taint, 55).pass(2000).off(taint, 55);
        assert_eq!(stage.sent(), [taint], "the taint of a held note or of its end is wrong");
        stage.on(taint, 56).off(taint, 56).pass(2000);
        assert_eq!(stage.sent(), [taint], "the taint of a note that ends automatically is wrong");
        stage.on(taint, 57).off(taint, 57).pass(5000);
        assert_eq!(stage.sent(), [taint], "the taint after a delay or a repetition is wrong");
        for value in [1, 2] {
            stage.play(taint, Body::Cc { channel: 0, controller: 20, value });
        }
        stage.pass(500);
        assert_eq!(stage.sent(), [taint], "the taint of a value or of a delayed value is wrong");
    }
}

#[test]
fn a_tainted_value_that_waits_is_not_washed_by_a_hand() {
    let mut stage = Stage::new();
    for (taint, value) in [(Taint::Clean, 1), (Taint::Tool, 2), (Taint::Clean, 2)] {
        stage.play(taint, Body::Cc { channel: 0, controller: 20, value });
    }
    stage.pass(500);
    assert_eq!(stage.sent(), [Taint::Clean, Taint::Tool]);
}

#[test]
fn what_ends_without_a_hand_is_not_a_hand() {
    type End = fn(&mut Stage);
    let ends: [(&str, End); 4] = [
        ("panic", |stage| {
            stage.engine.panic(stage.now, &mut stage.out);
        }),
        ("mute", |stage| stage.engine.set_muted(stage.pads, true, stage.now, &mut stage.out)),
        ("loss", |stage| stage.engine.device_lost(stage.pads, stage.now, &mut stage.out)),
        ("a release by a tool", |stage| {
            stage.off(Taint::Tool, 55);
            stage.play(Taint::Tool, Body::Cc { channel: 0, controller: 64, value: 0 });
        }),
    ];
    for (name, end) in ends {
        let mut stage = Stage::new();
        stage.on(Taint::Clean, 55).play(Taint::Clean, Body::Cc { channel: 0, controller: 64, value: 127 });
        stage.out.clear();
        end(&mut stage);
        assert_eq!(stage.sent(), [Taint::Tool], "{name}");
    }
}

/// A message that comes back over a cable is not treated as a person's input.
#[test]
fn what_comes_back_within_a_second_is_tainted() {
    let note = Body::NoteOn { channel: 0, note: 53, velocity: 90 };
    for (back_after_ms, typed) in [(0, 0), (1000, 0), (2000, 1)] {
        let mut stage = Stage::new();
        stage.engine.sent_without_hand(&note, stage.now);
        stage.pass(back_after_ms).play(Taint::Clean, Body::NoteOn { channel: 9, note: 53, velocity: 1 });
        stage.pass(5000).play(Taint::Clean, Body::NoteOff { channel: 9, note: 53, velocity: 0 });
        assert_eq!(stage.typed(), typed, "after {back_after_ms} ms");
    }
}

/// A port can be disconnected for some time before the engine is notified. Note-offs that were sent
/// in that time are sent again when the port is back; older note-offs are not.
#[test]
fn an_end_that_went_to_a_lost_port_is_sent_again() {
    for (unnoticed_ms, offs) in [(1000, 1), (60_000, 0)] {
        let mut stage = Stage::new();
        stage.on(Taint::Clean, 55).off(Taint::Clean, 55).pass(unnoticed_ms);
        stage.out.clear();
        let synth = stage.synth;
        stage.engine.output_lost(synth, stage.now, &mut stage.out);
        // A key is pressed while the port is disconnected: no note sounds, so no note-off is sent.
        stage.on(Taint::Clean, 56).off(Taint::Clean, 56).pass(3000);
        stage.out.clear();
        stage.engine.output_back(synth, stage.now, &mut stage.out);
        let ended =
            stage.out.iter().filter(|it| matches!(it, Effect::Midi { message: Body::NoteOff { note: 60, .. }, .. }));
        assert_eq!((ended.count(), stage.out.len()), (offs, offs), "after {unnoticed_ms} ms: {:?}", stage.out);
    }
}
