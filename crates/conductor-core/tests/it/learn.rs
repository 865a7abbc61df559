//! Tests learn sessions: the recorded events must fire the suggested triggers again.

use conductor_core::action::Action;
use conductor_core::config::{Advanced, Config, Mapping, Rule, Written, input};
use conductor_core::engine::{Effect, Engine};
use conductor_core::event::script::{Step, parse};
use conductor_core::event::{Axis, Body, Button, DeviceSlot, Event, Micros, OscArg, OscMessage, Side, Taint};
use conductor_core::learn::{Captured, Learn, Suggestion, suggest};
use conductor_core::mapping::table::Slots;
use conductor_core::timestamp::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn slots() -> Slots {
    let mut slots = Slots::default();
    for name in ["pads", "raw:Some Port"] {
        slots.slot(name);
    }
    slots
}

fn capture(events: &[(u64, u16, Body)]) -> Vec<Captured> {
    let mut learn = Learn::default();
    learn.start(300_000, false, None, Micros(0), Timestamp::from_millis(0));
    for (at, device, body) in events {
        let event =
            Event { at: Micros(*at), device: DeviceSlot(*device), taint: Taint::Clean, hops: 0, body: body.clone() };
        learn.feed(&event, Timestamp::from_millis(at / 1000));
    }
    learn.stop(Micros::from_ms(299_999)).events
}

/// Replays the events with this trigger as the only mapping. Returns how often it fired.
fn fires(trigger: &Value, events: &[Captured]) -> usize {
    let read = input::trigger(trigger, "").unwrap_or_else(|faults| panic!("{trigger} does not validate: {faults:?}"));
    let mut config = Config::default();
    config.modes[0].rows.mappings.push(Mapping {
        id: "learned".into(),
        id_is_written: true,
        description: None,
        enabled: true,
        let_through: false,
        written: Written { trigger: trigger.clone(), action: Value::Null },
        rule: Some(Rule { trigger: read, action: Action::Text { text: "x".into() } }),
    });
    let mut slots = slots();
    let mut engine = Engine::new(&config, &mut slots, Micros(0));
    let mut out = Vec::new();
    for event in events {
        let event =
            Event { at: event.at, device: event.device, taint: Taint::Clean, hops: 0, body: event.body.clone() };
        engine.feed(&event, &mut out);
    }
    while let Some(due) = engine.next_deadline() {
        engine.advance(due, &mut out);
    }
    out.iter().filter(|it| matches!(it, Effect::Text(_))).count()
}

/// The events of a simulator script, on device 0.
fn played(script: &str) -> Vec<Captured> {
    let mut at = 0;
    let mut events = Vec::new();
    for step in parse(script).expect("the script is not valid") {
        match step {
            Step::Event(body) => events.push((at, 0, body)),
            Step::Advance(by) => at += by.0,
            Step::Device(_) | Step::Mode(_) => {}
        }
    }
    capture(&events)
}

fn suggested(script: &str) -> Vec<Suggestion> {
    let events = played(script);
    let suggestions = suggest(&events, &slots(), &Advanced::default());
    for suggestion in &suggestions {
        assert!(fires(&suggestion.trigger, &events) > 0, "{} does not fire on {script}", suggestion.trigger);
    }
    suggestions
}

fn triggers(script: &str) -> Vec<Value> {
    suggested(script).into_iter().map(|it| it.trigger).collect()
}

/// For each suggestion: its encoder mode or type, its confidence, and whether it has `needs`.
fn encoders(values: &[u8]) -> Vec<(String, f64, bool)> {
    let script: Vec<String> = values.iter().map(|it| format!("cc:16={it} t:10")).collect();
    let all = suggested(&script.join(" ")).into_iter();
    all.map(|it| {
        let name = it.trigger["mode"].as_str().unwrap_or(it.trigger["type"].as_str().unwrap_or("?")).to_owned();
        (name, it.confidence, it.needs.is_some())
    })
    .collect()
}

#[test]
fn the_gesture_seen_last_comes_first() {
    let chord = "on:60 t:40 on:64 t:60 on:67 t:200 off:60 off:64 off:67 t:1000 ";
    let double = "on:36 t:50 off:36 t:100 on:36 t:50 off:36 t:1000 ";
    let long = "on:40 t:1234 off:40 t:1000 ";
    let all = triggers(&(chord.to_owned() + double + long));
    assert_eq!(all[0], json!({"type": "LongPress", "note": 40, "duration_ms": 1200, "device": "pads", "channel": 0}));
    assert_eq!(all[1], json!({"type": "DoubleTap", "note": 36, "timeout_ms": 300, "device": "pads", "channel": 0}));
    assert_eq!(
        all[2],
        json!({"type": "NoteChord", "notes": [60, 64, 67], "timeout_ms": 130, "device": "pads", "channel": 0})
    );
    assert_eq!(all[3], json!({"type": "Note", "note": 40, "velocity_range": [1, 127], "device": "pads", "channel": 0}));
    let again = triggers(&(long.to_owned() + double + chord));
    assert_eq!(again[0]["type"], "NoteChord");
}

#[test]
fn boundaries_of_gestures_are_those_of_the_engine() {
    let kinds = |script: &str| -> Vec<String> {
        triggers(script).iter().map(|it| it["type"].as_str().unwrap_or("?").to_owned()).collect()
    };
    assert_eq!(kinds("on:60 t:149 on:64"), ["NoteChord", "Note", "Note"]);
    assert_eq!(kinds("on:60 t:150 on:64"), ["Note", "Note"]);
    assert_eq!(kinds("on:60 t:299 off:60 on:60"), ["DoubleTap", "Note"]);
    assert_eq!(kinds("on:60 t:300 off:60 on:60"), ["Note"]);
    assert_eq!(kinds("on:60 t:499 off:60"), ["Note"]);
    assert_eq!(kinds("on:60 t:500 off:60"), ["LongPress", "Note"]);
    assert_eq!(
        kinds("down:south t:20 down:east t:20 up:south up:east"),
        ["GamepadButtonChord", "GamepadButton", "GamepadButton"]
    );
    assert_eq!(kinds("down:south t:700 up:south"), ["LongPress", "GamepadButton"]);
}

#[test]
fn a_chord_held_long_is_a_chord() {
    let all = triggers("on:60 t:5 on:64 t:2000 off:60 off:64");
    assert_eq!(all[0]["type"], "NoteChord");
    assert!(all.iter().all(|it| it["type"] != "LongPress"));
}

#[test]
fn the_channel_is_told_only_if_it_was_the_only_one() {
    let one = triggers("on:36@90/9 t:100 off:36@0/9");
    assert_eq!(one[0]["channel"], 9);
    let two = triggers("on:36@90/9 t:1000 off:36@0/9 on:36@90/3 t:100");
    assert!(two.iter().all(|it| it.get("channel").is_none()), "{two:?}");
}

#[test]
fn soft_medium_and_hard_presses_give_thirds() {
    let all = triggers("on:36@20 t:400 off:36 t:400 on:36@70 t:400 off:36 t:400 on:36@120 t:400 off:36");
    let thirds: Vec<(i64, i64)> = all
        .iter()
        .filter(|it| it["type"] == "VelocityRange")
        .map(|it| (it["min"].as_i64().unwrap_or(0), it["max"].as_i64().unwrap_or(0)))
        .collect();
    assert_eq!(thirds, [(1, 53), (54, 87), (88, 127)]);
    let even = triggers("on:36@60 t:400 off:36 t:400 on:36@75 t:400 off:36 t:400 on:36@90 t:400 off:36");
    assert!(even.iter().all(|it| it["type"] != "VelocityRange"), "a difference of exactly 30 led to velocity ranges");
}

#[test]
fn encoders_are_told_apart_by_their_values() {
    let first = |values: &[u8]| encoders(values).into_iter().next();
    let sure = |name: &str, confidence: f64| Some((name.to_owned(), confidence, false));
    assert_eq!(first(&[1, 1, 2, 7, 127, 126, 121, 127]), sure("twos_complement", 0.95));
    assert_eq!(first(&[65, 65, 66, 71, 63, 62, 57, 63]), sure("offset64", 0.95));
    assert_eq!(first(&[1, 1, 2, 7, 65, 66, 71, 65]), sure("sign_bit", 0.95));
    assert_eq!(first(&[127, 127, 127, 0, 0, 0, 127, 127]), sure("inc_dec", 0.9));
    assert_eq!(first(&[10, 12, 14, 17, 20, 23, 26, 29]), sure("absolute", 0.7));
    let one_way = |values: &[u8]| encoders(values).into_iter().take(2).collect::<Vec<_>>();
    let both = |a: &str, b: &str| vec![(a.to_owned(), 0.6, true), (b.to_owned(), 0.4, true)];
    assert_eq!(one_way(&[1, 1, 1, 2, 3, 1, 1, 1]), both("twos_complement", "sign_bit"));
    assert_eq!(one_way(&[65, 65, 66, 65, 65, 65, 71, 65]), both("offset64", "sign_bit"));
    assert_eq!(
        first(&[1, 1, 1, 127, 127, 127, 1]),
        Some(("CC".to_owned(), 0.6, true)),
        "seven messages led to the suggestion of an encoder"
    );
}

#[test]
fn a_button_that_sends_controllers_is_a_button() {
    let button = json!({"type": "CC", "cc": 16, "value_min": 64, "device": "pads", "channel": 0});
    assert_eq!(triggers("cc:16=127 t:90 cc:16=0"), std::slice::from_ref(&button));
    let many = "cc:16=127 t:90 cc:16=0 t:90 ".repeat(6);
    assert_eq!(triggers(&many), [button], "six presses of a button led to another suggestion");
    assert_eq!(triggers("cc:16=0")[0], json!({"type": "CC", "cc": 16, "device": "pads", "channel": 0}));
}

#[test]
fn other_controls() {
    assert_eq!(triggers("pb:8192 pb:12000 pb:16383")[0]["value_min"], 12287);
    assert_eq!(triggers("pb:8192 pb:4000 pb:0")[0]["value_max"], 4096);
    assert_eq!(
        triggers("cc:0=3 cc:32=4 pc:5")[0],
        json!({"type": "ProgramChange", "program": 5, "bank_msb": 3, "bank_lsb": 4, "device": "pads", "channel": 0})
    );
    assert_eq!(
        triggers("axis:left_x=0.1 axis:left_x=0.9")[0],
        json!({"type": "GamepadAnalogStick", "axis": "left_x", "direction": "positive", "device": "pads"})
    );
    assert_eq!(triggers("trig:right=0.9")[0], json!({"type": "GamepadTrigger", "trigger": "right", "device": "pads"}));
    assert_eq!(
        triggers("osc:/play=1.0 t:50 osc:/play=0.0")[0],
        json!({"type": "Osc", "address": "/play", "args": [{"index": 0, "min": 0.5}], "device": "pads"})
    );
    assert_eq!(triggers("osc:/fader=0.4")[0], json!({"type": "Osc", "address": "/fader", "device": "pads"}));
    assert_eq!(triggers("at:90")[0], json!({"type": "Aftertouch", "pressure_min": 45, "device": "pads", "channel": 0}));
}

#[test]
fn the_checker_sees_a_trigger_that_does_not_fire() {
    let events = played("on:36@100 t:100 off:36");
    assert_eq!(fires(&json!({"type": "Note", "note": 36, "device": "pads"}), &events), 1);
    assert_eq!(fires(&json!({"type": "Note", "note": 37, "device": "pads"}), &events), 0);
    assert_eq!(fires(&json!({"type": "LongPress", "note": 36, "duration_ms": 200}), &events), 0);
    assert_eq!(fires(&json!({"type": "Note", "note": 36, "device": "elsewhere"}), &events), 0);
}

/// Generates a few events, each with the time before it in microseconds.
fn phrase() -> impl Strategy<Value = Vec<(u64, Body)>> {
    let gap = || prop_oneof![Just(0u64), 0u64..20_000, 0u64..200_000, 0u64..900_000];
    let channel = || prop_oneof![6 => Just(0u8), 1 => 0u8..16];
    let note = || prop_oneof![5 => 36u8..41, 1 => 0u8..=127];
    let on = move || {
        (gap(), channel(), note(), 1u8..=127)
            .prop_map(|(gap, channel, note, velocity)| (gap, Body::NoteOn { channel, note, velocity }))
    };
    let off = move || {
        (gap(), channel(), note()).prop_map(|(gap, channel, note)| (gap, Body::NoteOff { channel, note, velocity: 64 }))
    };
    let keys = proptest::collection::vec(prop_oneof![on(), off()], 1..16);
    let button = || proptest::sample::select(&Button::ALL[..4]);
    let buttons = proptest::collection::vec(
        prop_oneof![
            (gap(), button()).prop_map(|(gap, it)| (gap, Body::ButtonDown(it))),
            (gap(), button()).prop_map(|(gap, it)| (gap, Body::ButtonUp(it))),
        ],
        1..10,
    );
    let sets: Vec<Vec<u8>> = vec![
        (1..8).chain(121..128).collect(),
        (57..64).chain(65..72).collect(),
        (1..8).chain(65..72).collect(),
        vec![0, 127],
        (1..8).collect(),
        (65..72).collect(),
        (121..128).collect(),
        (57..64).collect(),
        (0..128).collect(),
        vec![0],
        vec![127],
    ];
    let controller = (channel(), 0u8..128, proptest::sample::select(sets)).prop_flat_map(move |(channel, cc, set)| {
        proptest::collection::vec((0u64..40_000, proptest::sample::select(set)), 1..24).prop_map(move |values| {
            values.into_iter().map(|(gap, value)| (gap, Body::Cc { channel, controller: cc, value })).collect()
        })
    });
    let sweep = (channel(), 0u8..64, 1u8..6, 8u8..12).prop_map(|(channel, from, step, count)| {
        (0..count).map(|it| (9000, Body::Cc { channel, controller: 7, value: from + it * step })).collect()
    });
    let rest = proptest::collection::vec(
        prop_oneof![
            (gap(), channel(), 0u16..16384).prop_map(|(gap, channel, value)| (gap, Body::PitchBend { channel, value })),
            (gap(), channel(), 0u8..128)
                .prop_map(|(gap, channel, pressure)| (gap, Body::ChannelPressure { channel, pressure })),
            (gap(), channel(), note(), 0u8..128)
                .prop_map(|(gap, channel, note, pressure)| (gap, Body::PolyPressure { channel, note, pressure })),
            (gap(), channel(), 0u8..128).prop_map(|(gap, channel, program)| (gap, Body::Program { channel, program })),
            (gap(), proptest::sample::select(Axis::ALL), -1.0f32..=1.0)
                .prop_map(|(gap, axis, value)| (gap, Body::Axis { axis, value })),
            (gap(), proptest::sample::select(Side::ALL), 0.0f32..=1.0)
                .prop_map(|(gap, side, value)| (gap, Body::Trigger { side, value })),
            (gap(), "/[a-c?*{}\\[\\]/]{0,6}", osc_arg())
                .prop_map(|(gap, address, args)| (gap, Body::Osc(Arc::new(OscMessage { address, args })))),
        ],
        1..10,
    );
    prop_oneof![4 => keys, 1 => buttons, 2 => controller, 1 => sweep, 2 => rest]
}

fn osc_arg() -> impl Strategy<Value = Vec<OscArg>> {
    prop_oneof![
        Just(vec![]),
        proptest::sample::select(vec![0.0f32, 1.0, 0.5, f32::NAN]).prop_map(|it| vec![OscArg::Float(it)]),
        any::<bool>().prop_map(|it| vec![OscArg::Bool(it)]),
        Just(vec![OscArg::Text("x".into()), OscArg::Int(1)]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_suggestion_validates_and_fires_on_replay(
        // Some inputs have more events than a session stores, so that the stored events may begin
        // in the middle of a gesture.
        phrases in (0u8..8).prop_flat_map(|it| {
            proptest::collection::vec((0u16..2, phrase()), if it == 0 { 60..90 } else { 1..12 })
        }),
        learn_ms in prop_oneof![Just(150u32), 1u32..1000],
        double_ms in prop_oneof![Just(300u32), 1u32..1000],
    ) {
        let mut at = 0;
        let mut events = Vec::new();
        for (device, phrase) in phrases {
            for (gap, body) in phrase {
                at += gap;
                events.push((at, device, body));
            }
        }
        let events = capture(&events);
        let advanced = Advanced { chord_learn_timeout_ms: learn_ms, double_tap_timeout_ms: double_ms, ..Advanced::default() };
        let suggestions = suggest(&events, &slots(), &advanced);
        for suggestion in &suggestions {
            prop_assert!((0.0..=1.0).contains(&suggestion.confidence));
            prop_assert!(fires(&suggestion.trigger, &events) > 0, "{} does not fire", suggestion.trigger);
        }
        // Presses and controllers always lead to at least one suggestion.
        let pressed = events.iter().any(|it| matches!(it.body, Body::NoteOn { .. } | Body::Cc { .. } | Body::Program { .. }));
        prop_assert!(!pressed || !suggestions.is_empty());
    }
}
