//! The basic path: MIDI bytes arrive at an input, and a mapping sends a message to an output. In
//! another mode, the same bytes cause another message.

use crate::studio::{DEVICES, Studio};
use serde_json::json;

const TWO_MODES: &str = r#"
[[modes]]
name = "Play"
[[modes.mappings]]
id = "first"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 20, value = 1 }
[[modes]]
name = "Mix"
[[modes.mappings]]
id = "second"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 21, value = 2 }
"#;

#[test]
fn a_pad_press_becomes_an_action_and_in_another_mode_the_other_action() {
    let studio = Studio::start(&format!("{DEVICES}{TWO_MODES}"));
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();

    hand.play(&[0x90, 0x24, 0x64]);
    assert_eq!(synth.hear(), Some(vec![0xB0, 20, 1]));
    hand.play(&[0x80, 0x24, 0x00]);

    let switched = studio.call("conductor_switch_mode", json!({ "mode": "Mix" }));
    assert_eq!(switched, json!({ "success": true, "mode_name": "Mix", "mode_index": 1, "total_modes": 2 }));
    // The same key with another velocity; a note-on with velocity 0 is a release.
    hand.play(&[0x90, 0x24, 0x40]);
    assert_eq!(synth.hear(), Some(vec![0xB0, 21, 2]));
    hand.play(&[0x90, 0x24, 0x00]);

    let status = studio.status();
    assert_eq!(status["current_mode"], "Mix");
    assert_eq!(status["device"]["name"], "pads");
    assert_eq!(status["statistics"]["events_processed"], 4);
    assert_eq!(status["statistics"]["actions_executed"], 2);
    assert_eq!(status["statistics"]["actions_failed"], 0);
}

#[test]
fn the_same_spine_with_tools_alone() {
    let studio = Studio::start(&format!("{DEVICES}{TWO_MODES}"));
    let mut synth = studio.listen("synth");
    let call =
        |tool: &str, arguments: serde_json::Value| studio.ask("call", json!({ "tool": tool, "arguments": arguments }));
    let press = json!({ "port": "pads hand", "messages": [
        { "type": "note_on", "channel": 1, "note": 36, "velocity": 100 },
        { "type": "note_off", "channel": 1, "note": 36 },
    ] });
    call("conductor_send_midi", press.clone());
    assert_eq!(synth.hear(), Some(vec![0xB0, 20, 1]));
    call("conductor_switch_mode", json!({ "mode": "Mix" }));
    call("conductor_send_midi", press);
    assert_eq!(synth.hear(), Some(vec![0xB0, 21, 2]));
}

#[test]
fn a_note_without_a_mapping_does_nothing() {
    let studio = Studio::start(&format!("{DEVICES}{TWO_MODES}"));
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 0x00, 0x64]);
    hand.play(&[0x91, 0x25, 0x64]);
    hand.play(&[0x90, 0x24, 0x64]);
    // Messages arrive in order: an effect of the first two would be received before this one.
    assert_eq!(synth.hear(), Some(vec![0xB0, 20, 1]));
    let trace = studio.call("conductor_get_trace", json!({}));
    let outcomes: Vec<&str> =
        trace["records"].as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["no_match", "no_match", "fired"]);
}

#[test]
fn a_held_pad_holds_its_note_and_the_release_ends_it() {
    let studio = Studio::start(&format!(
        r#"{DEVICES}
        [[modes]]
        name = "Default"
        [[modes.mappings]]
        trigger = {{ type = "Note", note = 36, device = "pads" }}
        action = {{ type = "SendMidi", port = "synth", channel = 2, message_type = "NoteOn", note = 60 }}
        "#
    ));
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 0x24, 0x64]);
    assert_eq!(synth.hear(), Some(vec![0x92, 60, 0x64]));
    hand.play(&[0x80, 0x24, 0x00]);
    assert_eq!(synth.hear().map(|it| (it[0], it[1])), Some((0x82, 60)));
}

#[test]
fn timers_fire_without_any_further_event() {
    let studio = Studio::start(&format!(
        r#"{DEVICES}
        [[modes]]
        name = "Default"
        [[modes.mappings]]
        trigger = {{ type = "LongPress", note = 36, duration_ms = 50, device = "pads" }}
        action = {{ type = "Sequence", actions = [
            {{ type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 1, value = 1 }},
            {{ type = "Delay", ms = 20 }},
            {{ type = "SendMidi", port = "synth", channel = 0, message_type = "CC", controller = 2, value = 2 }},
        ] }}
        "#
    ));
    let mut synth = studio.listen("synth");
    let mut hand = studio.hand();
    hand.play(&[0x90, 0x24, 0x64]);
    assert_eq!(synth.hear(), Some(vec![0xB0, 1, 1]));
    assert_eq!(synth.hear(), Some(vec![0xB0, 2, 2]));
}

#[test]
fn what_is_sent_wrongly_is_refused_whole_and_names_the_message() {
    let studio = Studio::start(&format!("{DEVICES}{TWO_MODES}"));
    let mut synth = studio.listen("synth");
    let messages = json!([[0xB0, 1, 1], [0xB0, 1, 2], [0xB0, 1, 200], [0xB0, 1, 4], [0xB0, 1, 5]]);
    let refusal = studio.refusal("play", json!({ "port": "synth", "messages": messages }));
    assert_eq!((&refusal["code"], &refusal["subject"]), (&json!("BAD_INPUT"), &json!("/messages/2")));
    studio.ask("play", json!({ "port": "synth", "messages": [[0xB0, 9, 9]] }));
    assert_eq!(synth.hear(), Some(vec![0xB0, 9, 9]), "a refused message was sent");

    let refusal = studio.refusal("play", json!({ "port": "sinth", "messages": [[0xF8]] }));
    assert_eq!(refusal["code"], "NOT_FOUND");
    assert!(refusal["message"].as_str().unwrap().contains("pads hand, synth"), "{refusal}");
}

#[test]
fn a_client_that_hangs_up_leaves_no_note_on() {
    let studio = Studio::start(&format!("{DEVICES}{TWO_MODES}"));
    let mut synth = studio.listen("synth");
    let mut client = studio.control();
    client.ask("play", json!({ "port": "synth", "messages": [[0x90, 60, 100]] })).unwrap();
    assert_eq!(synth.hear(), Some(vec![0x90, 60, 100]));
    drop(client);
    assert_eq!(synth.hear().map(|it| (it[0], it[1])), Some((0x80, 60)));
}

#[test]
fn panic_silences_every_open_output() {
    let studio = Studio::start(&format!("{DEVICES}{TWO_MODES}"));
    let mut synth = studio.listen("synth");
    let report = studio.call("conductor_panic", json!({}));
    assert_eq!(report["ports"], json!(["synth"]));
    let heard: Vec<Vec<u8>> = (0..48).map(|_| synth.hear().unwrap()).collect();
    let expected: Vec<Vec<u8>> =
        (0..16u8).flat_map(|channel| [64, 123, 120].map(|cc| vec![0xB0 | channel, cc, 0])).collect();
    assert_eq!(heard, expected);
}
