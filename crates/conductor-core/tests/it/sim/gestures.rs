//! Tests taps, long presses, double taps and chords.

use super::{fired, rows, run};
use conductor_core::engine::Outcome;

fn keys(mappings: &str) -> String {
    rows(&mappings.replace("HIT", super::HIT))
}

/// A configuration with a tap, a long press and a double tap on one pad.
fn three() -> String {
    keys(
        r#"tap: "Note", note = 36 -> HIT
           hold: "LongPress", note = 36, duration_ms = 500 -> HIT
           double: "DoubleTap", note = 36, timeout_ms = 300 -> HIT"#,
    )
}

#[test]
fn a_press_with_nothing_else_fires_at_once() {
    let config = keys(r#"tap: "Note", note = 36 -> HIT"#);
    assert_eq!(fired(&config, "on:36 t:5 off:36"), "0 tap Note");
    assert_eq!(fired(&config, "on:0 t:5 off:0"), "", "the rule for note 36 fired on note 0");
}

#[test]
fn tap_against_hold_against_double_on_one_pad() {
    assert_eq!(
        fired(&three(), "on:36 t:100 off:36"),
        "300 tap Note",
        "a short press did not wait for the double tap window"
    );
    assert_eq!(
        fired(&three(), "on:36 t:400 off:36"),
        "400 tap Note",
        "a press longer than the window did not fire at its release"
    );
    assert_eq!(
        fired(&three(), "on:36 t:900 off:36"),
        "500 hold LongPress",
        "the long press did not fire at its threshold"
    );
    assert_eq!(fired(&three(), "on:36 t:50 off:36 t:100 on:36 t:50 off:36"), "150 double DoubleTap");
}

#[test]
fn windows_are_half_open() {
    let tap_then = |gap: u32| fired(&three(), &format!("on:36 t:10 off:36 t:{} on:36 t:10 off:36", gap - 10));
    assert_eq!(tap_then(299), "299 double DoubleTap");
    assert_eq!(tap_then(300), "300 tap Note\n600 tap Note", "a second tap exactly at the timeout became a double tap");
    let held = |ms: u32| fired(&three(), &format!("on:36 t:{ms} off:36"));
    assert_eq!(held(499), "499 tap Note");
    assert_eq!(held(500), "500 hold LongPress", "a release exactly at the duration was not a long press");
}

#[test]
fn a_third_press_is_a_first_press() {
    let script = "on:36 t:20 off:36 t:20 on:36 t:20 off:36 t:20 on:36 t:20 off:36";
    assert_eq!(fired(&three(), script), "40 double DoubleTap\n380 tap Note");
}

#[test]
fn missing_advanced_settings_mean_the_defaults() {
    let config = keys(
        r#"hold: "LongPress", note = 36 -> HIT
           double: "DoubleTap", note = 37 -> HIT
           chord: "NoteChord", notes = [40, 41] -> HIT"#,
    );
    assert_eq!(fired(&config, "on:36 t:1999 off:36"), "");
    assert_eq!(fired(&config, "on:36 t:2001 off:36"), "2000 hold LongPress");
    assert_eq!(fired(&config, "on:37 t:10 off:37 t:289 on:37"), "299 double DoubleTap");
    assert_eq!(fired(&config, "on:37 t:10 off:37 t:291 on:37"), "");
    assert_eq!(fired(&config, "on:40 t:49 on:41"), "49 chord NoteChord");
    assert_eq!(fired(&config, "on:40 t:51 on:41"), "");
    let tuned = format!(
        "[advanced_settings]\nhold_threshold_ms = 700\ndouble_tap_timeout_ms = 100\nchord_timeout_ms = 10\n{config}"
    );
    assert_eq!(fired(&tuned, "on:36 t:701 off:36"), "700 hold LongPress");
    assert_eq!(fired(&tuned, "on:37 t:10 off:37 t:100 on:37"), "");
    assert_eq!(fired(&tuned, "on:40 t:11 on:41"), "");
}

#[test]
fn long_press_rows_fire_each_at_its_time_and_release_rows_once() {
    let config = keys(
        r#"tap: "Note", note = 36 -> HIT
           half: "LongPress", note = 36, duration_ms = 500 -> HIT
           full: "LongPress", note = 36, duration_ms = 1000 -> HIT
           end-a: "LongPress", note = 36, duration_ms = 600, fire = "release" -> HIT
           end-b: "LongPress", note = 36, duration_ms = 800, fire = "release" -> HIT"#,
    );
    assert_eq!(
        fired(&config, "on:36 t:1200 off:36"),
        "500 half LongPress\n1000 full LongPress\n1200 end-b LongPress",
        "a shorter row with `fire = \"release\"` fired, or the longest did not"
    );
    assert_eq!(fired(&config, "on:36 t:650 off:36"), "500 half LongPress\n650 end-a LongPress");
    assert_eq!(fired(&config, "on:36 t:100 off:36"), "100 tap Note");
}

#[test]
fn an_eager_press_fires_at_once_and_the_others_in_addition() {
    let config = keys(
        r#"tap: "Note", note = 36, eager = true -> HIT
           hold: "LongPress", note = 36, duration_ms = 500 -> HIT
           double: "DoubleTap", note = 36 -> HIT"#,
    );
    assert_eq!(fired(&config, "on:36 t:600 off:36"), "0 tap Note\n500 hold LongPress");
    assert_eq!(fired(&config, "on:36 t:10 off:36 t:10 on:36 t:10 off:36"), "0 tap Note\n20 double DoubleTap");
    assert_eq!(fired(&config, "on:36 t:10 off:36"), "0 tap Note", "the press fired again when the window ended");
}

#[test]
fn release_triggers_fire_unless_the_press_went_elsewhere() {
    let config = keys(
        r#"up: "Note", note = 36, on = "release" -> HIT
           both: "Note", note = 37, on = "both" -> HIT
           up2: "Note", note = 38, on = "release" -> HIT
           hold: "LongPress", note = 38, duration_ms = 500 -> HIT"#,
    );
    assert_eq!(fired(&config, "on:36 t:50 off:36"), "50 up Release");
    assert_eq!(fired(&config, "on:37 t:50 off:37"), "0 both Note\n50 both Release");
    assert_eq!(fired(&config, "on:38 t:50 off:38"), "50 up2 Release");
    assert_eq!(fired(&config, "on:38 t:600 off:38"), "500 hold LongPress", "the release rule fired after a long press");
}

#[test]
fn note_on_with_velocity_zero_is_a_release_in_the_decoder_and_so_everywhere() {
    use conductor_core::event::Body;
    use conductor_core::event::midi::{Decoder, Heard};
    let mut bodies = Vec::new();
    Decoder::default().decode(&[0x90, 36, 100, 36, 0, 0x80, 36, 64], |heard| {
        if let Heard::Message(body) = heard {
            bodies.push(body);
        }
    });
    assert!(matches!(bodies[1], Body::NoteOff { note: 36, .. }), "{bodies:?}");
    assert!(matches!(bodies[2], Body::NoteOff { note: 36, .. }), "{bodies:?}");
}

#[test]
fn a_second_note_on_without_a_note_off_counts_as_up_and_down() {
    assert_eq!(fired(&three(), "on:36 t:100 on:36 t:10 off:36"), "100 double DoubleTap");
    let config = keys(r#"tap: "Note", note = 36 -> HIT"#);
    assert_eq!(fired(&config, "on:36 t:1 on:36 t:1 on:36"), "0 tap Note\n1 tap Note\n2 tap Note");
}

fn chords() -> String {
    keys(
        r#"c: "Note", note = 60 -> HIT
           e: "Note", note = 64 -> HIT
           g: "Note", note = 67 -> HIT
           third: "NoteChord", notes = [60, 64], timeout_ms = 50 -> HIT
           triad: "NoteChord", notes = [60, 64, 67], timeout_ms = 60 -> HIT
           other: "NoteChord", notes = [67, 71], timeout_ms = 50 -> HIT"#,
    )
}

#[test]
fn members_of_a_fired_chord_fire_nothing_else() {
    assert_eq!(fired(&chords(), "on:60 t:5 on:64 t:5 on:67 t:50 off:60 off:64 off:67"), "10 triad NoteChord");
}

#[test]
fn a_smaller_chord_waits_until_the_larger_one_is_impossible() {
    assert_eq!(fired(&chords(), "on:60 t:5 on:64 t:200 off:60 off:64"), "60 third NoteChord");
    assert_eq!(
        fired(&chords(), "on:60 t:5 on:64 t:10 off:60 t:100 off:64"),
        "15 third NoteChord",
        "the release did not decide the gesture at once"
    );
}

#[test]
fn a_lone_member_is_a_tap_in_the_end_with_its_own_velocity() {
    assert_eq!(fired(&chords(), "on:60@33 t:200 off:60"), "60 c Note");
    let records = run(&chords(), "on:60@33 t:200 off:60").records;
    let tap = records.iter().find(|it| it.outcome == Outcome::Fired).unwrap();
    assert_eq!(tap.event, "on:60@33");
    assert_eq!(fired(&chords(), "on:60 t:20 off:60"), "20 c Note", "the release did not end the wait");
}

#[test]
fn overlapping_chords_give_one_chord_and_the_rest_go_on_in_press_order() {
    // No chord contains both 60 and 71: 60 is a tap, and 71 opens a new window.
    assert_eq!(
        fired(&chords(), "on:60 t:10 on:71 t:10 on:67 t:200 off:60 off:67 off:71"),
        "10 c Note\n20 other NoteChord"
    );
    // The notes 64 and 60 complete the chord `third`, and 71 makes the larger chord `triad`
    // impossible.
    assert_eq!(fired(&chords(), "on:64 t:1 on:60 t:1 on:71 t:200"), "2 third NoteChord");
}

#[test]
fn no_part_of_a_chord_fires_beside_the_whole() {
    for order in ["60 64 67", "67 64 60", "64 67 60"] {
        let script = order.split(' ').map(|note| format!("on:{note} t:3 ")).collect::<String>();
        assert_eq!(fired(&chords(), &script), "6 triad NoteChord", "{order}");
    }
}

#[test]
fn chords_keep_to_one_device_and_one_channel() {
    let config = keys(r#"third: "NoteChord", notes = [60, 64] -> HIT"#);
    assert_eq!(fired(&config, "on:60/0 t:5 on:64/1"), "");
    assert_eq!(fired(&config, "dev:pads on:60 t:5 dev:keys on:64"), "");
    assert_eq!(fired(&config, "on:60/3 t:5 on:64/3"), "5 third NoteChord");
}

#[test]
fn a_chord_and_a_double_tap_on_one_key() {
    let config = keys(
        r#"c: "Note", note = 60 -> HIT
           double: "DoubleTap", note = 60, timeout_ms = 300 -> HIT
           third: "NoteChord", notes = [60, 64], timeout_ms = 50 -> HIT"#,
    );
    assert_eq!(fired(&config, "on:60 t:10 off:60 t:90 on:60 t:10 off:60"), "110 double DoubleTap");
    assert_eq!(
        fired(&config, "on:60 t:10 off:60 t:280 on:60 t:100 off:60"),
        "340 double DoubleTap",
        "the end of the chord stage decided, not the time stamps"
    );
    assert_eq!(fired(&config, "on:60 t:10 off:60 t:90 on:60 t:5 on:64 t:300"), "105 third NoteChord\n300 c Note");
}

#[test]
fn gamepad_buttons_know_the_same_gestures() {
    let config = keys(
        r#"jump: "GamepadButton", button = "south" -> HIT
           up: "GamepadButton", button = 129, on = "release" -> HIT
           hold: "LongPress", button = "west", duration_ms = 400 -> HIT
           twice: "DoubleTap", button = "north" -> HIT
           both: "GamepadButtonChord", buttons = ["l1", "r1"] -> HIT"#,
    );
    assert_eq!(fired(&config, "dev:pad1 down:south t:10 up:south"), "0 jump GamepadButton");
    assert_eq!(fired(&config, "dev:pad1 down:east t:10 up:east"), "10 up Release");
    assert_eq!(fired(&config, "dev:pad1 down:west t:500 up:west"), "400 hold LongPress");
    assert_eq!(fired(&config, "dev:pad1 down:north t:10 up:north t:10 down:north"), "20 twice DoubleTap");
    assert_eq!(fired(&config, "dev:pad1 down:l1 t:10 down:r1"), "10 both GamepadButtonChord");
}

#[test]
fn a_mode_switch_does_not_cancel_a_press() {
    let config = keys(r#"hold: "LongPress", note = 36, duration_ms = 500 -> HIT"#) + "[[modes]]\nname = \"Other\"\n";
    assert_eq!(fired(&config, "on:36 t:100 mode:Other t:500 off:36"), "500 hold LongPress");
}

#[test]
fn a_waiting_press_says_so() {
    let records = run(&three(), "on:36 t:100 off:36").records;
    assert_eq!(records[0].outcome, Outcome::Deferred);
    assert_eq!(records[0].line(), "0 on:36@100 Press deferred (a longer gesture is still possible)");
}
