//! Tests actions with several steps, and that no note or key stays held.

use super::{DEVICES, fired, rows, run, sent};
use conductor_core::engine::{Effect, Outcome, Stroke};

const NOTE: &str = r#""SendMidi", port = "daw", channel = 0, message_type = "NoteOn", note = 60"#;

#[test]
fn a_note_ends_with_its_key() {
    let config = rows(&format!(r#"play: "Note", note = 36 -> {NOTE}"#));
    assert_eq!(sent(&config, "on:36@90 t:50 off:36"), "0 daw on:60@90\n50 daw off:60");
}

#[test]
fn a_note_with_a_duration_ends_by_itself() {
    let config = rows(&format!(r#"play: "Note", note = 36 -> {NOTE}, duration_ms = 200"#));
    assert_eq!(sent(&config, "on:36@90 t:50 off:36"), "0 daw on:60@90\n200 daw off:60");
}

#[test]
fn a_note_held_by_two_keys_ends_with_the_last() {
    let config = rows(&format!("a: \"Note\", note = 36 -> {NOTE}\nb: \"Note\", note = 37 -> {NOTE}"));
    assert_eq!(
        sent(&config, "on:36 t:10 on:37 t:10 off:36 t:10 off:37"),
        "0 daw on:60@100\n10 daw on:60@100\n30 daw off:60\n30 daw off:60"
    );
}

#[test]
fn a_mode_switch_while_a_note_is_held_leaves_nothing_stuck() {
    let config = rows(&format!(r#"play: "Note", note = 36 -> {NOTE}"#)) + "[[modes]]\nname = \"Other\"\n";
    assert_eq!(sent(&config, "on:36 t:10 mode:Other t:10 off:36"), "0 daw on:60@100\n20 daw off:60");
}

#[test]
fn velocities() {
    let with = |velocity: &str| {
        let config = rows(&format!(r#"play: "Note", note = 36 -> {NOTE}{velocity}"#));
        sent(&config, "on:36@64").lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(with(""), "0 daw on:60@64");
    assert_eq!(with(", velocity = 5"), "0 daw on:60@5");
    assert_eq!(with(r#", velocity_map = { type = "Fixed", velocity = 7 }"#), "0 daw on:60@7");
    assert_eq!(with(r#", velocity_map = { type = "PassThrough" }"#), "0 daw on:60@64");
    assert_eq!(with(r#", velocity_map = { type = "Linear", min = 100, max = 127 }"#), "0 daw on:60@114");
    assert_eq!(with(r#", velocity_map = { type = "Curve", curve = "exponential" }"#), "0 daw on:60@23");
}

#[test]
fn every_message_type_is_sent() {
    let cases = [
        (r#""NoteOff", note = 60"#, "off:60"),
        (r#""CC", controller = 7, value = 9"#, "cc:7=9"),
        (r#""ProgramChange", program = 3"#, "pc:3"),
        (r#""PitchBend", pitch = -8192"#, "pb:0"),
        (r#""Aftertouch", pressure = 4"#, "at:4"),
        (r#""Aftertouch", pressure = 4, note = 61"#, "pat:61=4"),
    ];
    for (message, token) in cases {
        let config = rows(&format!(
            r#"m: "Note", note = 36 -> "SendMidi", port = "daw", channel = 0, message_type = {message}"#
        ));
        assert_eq!(sent(&config, "on:36"), format!("0 daw {token}"));
    }
}

#[test]
fn sequences_wait_only_where_told_to() {
    let config = rows(
        r#"seq: "Note", note = 36 -> "Sequence", actions = [{ type = "Text", text = "a" }, { type = "Text", text = "b" }, { type = "Delay", ms = 40 }, { type = "Text", text = "c" }]"#,
    );
    let lines: Vec<String> = run(&config, "on:36").records.iter().map(|it| it.line()).collect();
    assert_eq!(lines, ["0 seq Note fired Text \"a\"", "0 seq Note fired Text \"b\"", "40 seq Note fired Text \"c\""]);
}

#[test]
fn repetitions_end_with_their_count_or_their_key() {
    let counted =
        rows(r#"r: "Note", note = 36 -> "Repeat", count = 3, delay_ms = 10, action = { type = "Text", text = "x" }"#);
    assert_eq!(fired(&counted, "on:36"), "0 r Note\n10 r Note\n20 r Note");
    let held = rows(
        r#"r: "Note", note = 36 -> "Repeat", count = 1000, delay_ms = 10, while_held = true, action = { type = "Text", text = "x" }"#,
    );
    assert_eq!(fired(&held, "on:36 t:25 off:36"), "0 r Note\n10 r Note\n20 r Note");
}

#[test]
fn nested_repetitions_without_delay_do_not_stop_the_music() {
    let config = rows(
        r#"r: "Note", note = 36 -> "Repeat", count = 1000, action = { type = "Repeat", count = 1000, action = { type = "Repeat", count = 1000, action = { type = "Text", text = "x" } } }
           other: "Note", note = 37 -> "Text", text = "y""#,
    );
    // The first pad starts a billion text actions. The other pad must still react at once.
    assert!(fired(&config, "on:36 on:37 t:2").lines().any(|it| it == "0 other Note"));
}

#[test]
fn four_presses_wait_for_a_running_action_and_the_next_is_dropped() {
    let config = rows(
        r#"slow: "Note", note = 36 -> "Sequence", actions = [{ type = "Delay", ms = 100 }, { type = "Text", text = "x" }]"#,
    );
    let presses = "on:36 t:1 off:36 t:1 ".repeat(6);
    let records = run(&config, &presses).records;
    let full = records.iter().filter(|it| it.outcome == Outcome::QueueFull).count();
    let done = records.iter().filter(|it| it.outcome == Outcome::Fired).count();
    assert_eq!((done, full), (5, 1));
}

#[test]
fn conditions_choose_a_branch() {
    let config = rows(
        r#"c: "Note", note = 36 -> "Conditional", condition = { type = "ModeIs", mode = "Other" }, then_action = { type = "Text", text = "other" }, else_action = { type = "Text", text = "here" }
           n: "Note", note = 37 -> "Conditional", condition = { type = "Never" }, then_action = { type = "Text", text = "x" }"#,
    ) + "[[modes]]\nname = \"Other\"\n";
    let first = |script: &str| run(&config, script).records[0].line();
    assert_eq!(first("on:36"), "0 c Note fired Text \"here\"");
    assert_eq!(first("on:37"), "0 n Note condition_false");
}

#[test]
fn facts_decide_times_days_and_apps() {
    use conductor_core::engine::Facts;
    use conductor_core::engine::sim::simulate_with;
    let says = |condition: &str, facts: Facts| {
        let config = super::config(&rows(&format!(
            r#"c: "Note", note = 36 -> "Conditional", condition = {{ type = {condition} }}, then_action = {{ type = "Text", text = "x" }}"#
        )));
        simulate_with(&config, "on:36", None, facts).unwrap().records[0].outcome == Outcome::Fired
    };
    let at = |minute: u16| Facts { minute_of_day: minute, ..Facts::default() };
    let day = r#""TimeRange", start = "09:00", end = "17:00""#;
    assert!(says(day, at(9 * 60)) && says(day, at(17 * 60 - 1)) && !says(day, at(17 * 60)));
    let night = r#""TimeRange", start = "22:00", end = "06:00""#;
    assert!(says(night, at(23 * 60)) && says(night, at(0)) && !says(night, at(12 * 60)));
    assert!(says(r#""DayOfWeek", days = [1, 7]"#, Facts { weekday: 7, ..Facts::default() }));
    assert!(!says(r#""DayOfWeek", days = [1, 7]"#, Facts { weekday: 2, ..Facts::default() }));
    let live = Facts { frontmost_app: Some("live".into()), running_apps: ["Live".into()].into(), ..Facts::default() };
    assert!(
        says(r#""AppFrontmost", app_name = "Live""#, live.clone()) && says(r#""AppRunning", app_name = "live""#, live)
    );
    assert!(!says(r#""AppRunning", app_name = "Live""#, Facts::default()));
    let both = r#""And", conditions = [{ type = "Always" }, { type = "Not", condition = { type = "Never" } }]"#;
    assert!(says(both, Facts::default()));
    assert!(!says(r#""Or", conditions = [{ type = "Never" }]"#, Facts::default()));
}

#[test]
fn a_held_keystroke_goes_down_and_up_with_its_key() {
    let strokes = |hold: &str| -> Vec<Stroke> {
        let config = rows(&format!(r#"k: "Note", note = 36 -> "Keystroke", keys = "a"{hold}"#));
        run(&config, "on:36 t:10 off:36")
            .effects
            .iter()
            .filter_map(|(_, it)| if let Effect::Key { stroke, .. } = it { Some(*stroke) } else { None })
            .collect()
    };
    assert_eq!(strokes(""), [Stroke::Tap]);
    assert_eq!(strokes(", hold = true"), [Stroke::Down, Stroke::Up]);
}

#[test]
fn forwards_take_their_release_with_them() {
    let config = rows(
        r#"f: "Note", note = 36 -> "MidiForward", target = "daw", transform = { note_offset = 12, channel = 3, velocity_scale = 0.5 }"#,
    ) + "[[modes]]\nname = \"Other\"\n";
    assert_eq!(sent(&config, "on:36@100 t:5 mode:Other t:5 off:36"), "0 daw on:48@50/3\n10 daw off:48/3");
    let pedal = rows(r#"f: "CC", cc = 64, edge = "level" -> "MidiForward", target = "daw""#);
    assert_eq!(sent(&pedal, "cc:64=127 t:5 cc:64=0"), "0 daw cc:64=127\n5 daw cc:64=0");
}

#[test]
fn what_no_mapping_took_flows_along_the_routes() {
    let config = format!(
        "[[modes]]\nname = \"Default\"\n[[modes.mappings]]\nid = \"x\"\ntrigger = {{ type = \"Note\", note = 36 }}\n\
         action = {{ type = \"Text\", text = \"x\" }}\n{DEVICES}\n\
         [[routes]]\nfrom = \"keys\"\nto = \"daw\"\nfilter = {{ message_types = [\"NoteOn\", \"NoteOff\", \"PitchBend\"], channels = [0] }}\n"
    );
    assert_eq!(
        sent(&config, "dev:keys on:60 t:9 off:60 pb:0 cc:7=1 on:61/1"),
        "0 daw on:60@100\n9 daw off:60\n9 daw pb:0"
    );
    assert_eq!(sent(&config, "dev:keys on:36 off:36"), "", "a route forwarded an event that a mapping used");
    assert_eq!(sent(&config, "dev:pads on:60 off:60"), "");
}

#[test]
fn a_key_that_waited_for_a_chord_still_reaches_the_route() {
    let config = rows(r#"ch: "NoteChord", notes = [60, 64], timeout_ms = 30 -> "Text", text = "x""#)
        + "[[routes]]\nfrom = \"keys\"\nto = \"daw\"\n";
    assert_eq!(sent(&config, "dev:keys on:60 t:100 off:60"), "30 daw on:60@100\n100 daw off:60");
    assert_eq!(sent(&config, "dev:keys on:60 t:5 off:60"), "5 daw on:60@100\n5 daw off:60");
}

#[test]
fn let_through_hands_a_mapped_event_on() {
    let text = rows(r#"x: "Note", note = 36 -> "Text", text = "x""#) + "[[routes]]\nfrom = \"keys\"\nto = \"daw\"\n";
    let text = text.replacen("action =", "let_through = true\naction =", 1);
    assert_eq!(sent(&text, "dev:keys on:36 t:9 off:36"), "0 daw on:36@100\n9 daw off:36");
}

#[test]
fn calls_carry_what_set_them_off() {
    let config =
        rows(r#"c: "Note", note = 36 -> "CallTool", tool = "live_undo", arguments = { amount = "$velocity" }"#);
    let effects = run(&config, "on:36@77/2").effects;
    let Effect::Call(call) = &effects[0].1 else { panic!("{effects:?}") };
    assert_eq!((&*call.mapping.mode, &*call.mapping.id), ("Default", "c"));
    assert_eq!(call.values.get("$velocity"), Some(77.0));
    assert_eq!(call.values.get("$note"), Some(36.0));
    assert_eq!(call.values.get("$channel"), Some(2.0));
}
