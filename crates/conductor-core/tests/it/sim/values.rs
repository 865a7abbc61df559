//! Tests controllers, pressure, pitch bend, programs, encoders, sticks, OSC, and continuous
//! bindings.

use super::{DEVICES, HIT, fired, rows, sent};

fn rules(mappings: &str) -> String {
    rows(&mappings.replace("HIT", HIT))
}

#[test]
fn a_cc_without_a_window_fires_on_change() {
    let config = rules(r#"knob: "CC", cc = 7 -> HIT"#);
    assert_eq!(fired(&config, "cc:7=10 t:1 cc:7=10 t:1 cc:7=11"), "0 knob CC\n2 knob CC");
}

#[test]
fn edges() {
    let with = |edge: &str| rules(&format!(r#"gate: "CC", cc = 7, value_min = 64{edge} -> HIT"#));
    let script = "cc:7=70 t:1 cc:7=80 t:1 cc:7=80 t:1 cc:7=10 t:1 cc:7=90";
    assert_eq!(fired(&with(""), script), "0 gate CC\n4 gate CC", "the default edge with a window is not rising");
    assert_eq!(fired(&with(r#", edge = "falling""#), script), "3 gate CC");
    assert_eq!(fired(&with(r#", edge = "change""#), script), "0 gate CC\n1 gate CC\n4 gate CC");
    assert_eq!(fired(&with(r#", edge = "level""#), script), "0 gate CC\n1 gate CC\n2 gate CC\n4 gate CC");
    assert_eq!(fired(&with(r#", edge = "level", throttle_ms = 2"#), script), "0 gate CC\n2 gate CC\n4 gate CC");
    let slack = with(", hysteresis = 10");
    assert_eq!(fired(&slack, "cc:7=70 t:1 cc:7=60 t:1 cc:7=70 t:1 cc:7=53 t:1 cc:7=70"), "0 gate CC\n4 gate CC");
}

#[test]
fn entering_a_mode_is_not_entering_a_window() {
    let config = "[[modes]]\nname = \"Start\"\n[[modes]]\nname = \"Other\"\n[[modes.mappings]]\nid = \"gate\"\n\
                  trigger = { type = \"CC\", cc = 7, value_min = 64 }\naction = { type = \"Text\", text = \"x\" }\n";
    assert_eq!(fired(config, "cc:7=100 mode:Other t:1 cc:7=101 t:1 cc:7=0 t:1 cc:7=100"), "3 gate CC");
}

#[test]
fn pressure_bend_and_programs() {
    let config = rules(
        r#"at: "Aftertouch", pressure_min = 64 -> HIT
           poly: "PolyAftertouch", note = 40, pressure_min = 64 -> HIT
           up: "PitchBend", value_min = 12000 -> HIT
           rest: "PitchBend", value_min = 8192, value_max = 8192, center_deadzone = 100, edge = "rising" -> HIT
           five: "ProgramChange", program = 5 -> HIT
           bank: "ProgramChange", program = 5, bank_msb = 2, bank_lsb = 1 -> HIT"#,
    );
    assert_eq!(fired(&config, "at:10 at:90"), "0 at Aftertouch");
    assert_eq!(fired(&config, "pat:41=90 pat:40=90"), "0 poly PolyAftertouch");
    assert_eq!(fired(&config, "pb:9000 t:1 pb:13000 t:1 pb:8250"), "1 up PitchBend\n2 rest PitchBend");
    assert_eq!(fired(&config, "pc:5 pc:6"), "0 five ProgramChange");
    assert_eq!(fired(&config, "cc:0=2 cc:32=1 pc:5"), "0 bank ProgramChange");
    assert_eq!(fired(&config, "cc:0=2 cc:32=1 pc:5/1"), "0 five ProgramChange", "the bank of another channel was used");
}

#[test]
fn velocity_zones_own_their_part() {
    let config = rules(
        r#"zones: "VelocityRange", note = 36, zones = [{ max = 40, action = { type = "SendMidi", port = "daw", channel = 0, message_type = "CC", controller = 1, value = 1 } }, { max = 80, action = { type = "SendMidi", port = "daw", channel = 0, message_type = "CC", controller = 1, value = 2 } }] -> "SendMidi", port = "daw", channel = 0, message_type = "CC", controller = 1, value = 3"#,
    );
    for (velocity, value) in [(1, 1), (40, 1), (41, 2), (80, 2), (81, 3), (127, 3)] {
        assert_eq!(sent(&config, &format!("on:36@{velocity}")), format!("0 daw cc:1={value}"), "velocity {velocity}");
    }
}

#[test]
fn encoders_of_every_kind_at_their_wrap_points() {
    let cases = [("twos_complement", 1, 127), ("offset64", 65, 63), ("sign_bit", 1, 65), ("inc_dec", 127, 0)];
    for (mode, up, down) in cases {
        let config = rules(&format!(
            r#"right: "EncoderTurn", cc = 16, mode = "{mode}", direction = "Clockwise" -> HIT
               left: "EncoderTurn", cc = 16, mode = "{mode}", direction = "CounterClockwise" -> HIT"#
        ));
        assert_eq!(
            fired(&config, &format!("cc:16={up} t:1 cc:16={down}")),
            "0 right EncoderTurn\n1 left EncoderTurn",
            "{mode}"
        );
    }
    let absolute = rules(
        r#"right: "EncoderTurn", cc = 16, direction = "Clockwise" -> HIT
           left: "EncoderTurn", cc = 16, direction = "CounterClockwise" -> HIT"#,
    );
    assert_eq!(
        fired(&absolute, "cc:16=126 t:1 cc:16=127 t:1 cc:16=127 t:1 cc:16=126"),
        "1 right EncoderTurn\n2 right EncoderTurn\n3 left EncoderTurn",
        "the first message fired, or a turn at the end of the range did not fire"
    );
    let nrpn = rules(r#"turn: "EncoderTurn", cc = 96, mode = "nrpn_inc_dec", parameter = 300 -> HIT"#);
    assert_eq!(fired(&nrpn, "cc:99=2 cc:98=44 t:1 cc:96=0 t:1 cc:97=0"), "1 turn EncoderTurn\n2 turn EncoderTurn");
    assert_eq!(fired(&nrpn, "cc:99=2 cc:98=45 t:1 cc:96=0"), "", "an increment of another parameter fired");
}

#[test]
fn encoder_steps_and_inversion() {
    let config = rules(r#"four: "EncoderTurn", cc = 16, mode = "twos_complement", step = 4 -> HIT"#);
    assert_eq!(
        fired(&config, "cc:16=3 t:1 cc:16=1 t:1 cc:16=9"),
        "1 four EncoderTurn\n2 four EncoderTurn\n2 four EncoderTurn"
    );
    let inverted = rules(
        r#"right: "EncoderTurn", cc = 16, mode = "twos_complement", invert = true, direction = "Clockwise" -> HIT"#,
    );
    assert_eq!(fired(&inverted, "cc:16=1 t:1 cc:16=127"), "1 right EncoderTurn");
}

#[test]
fn sticks_fire_on_crossing_and_repeat() {
    let config = rules(
        r#"right: "GamepadAnalogStick", axis = "left_x", direction = "positive", threshold = 0.5 -> HIT
           up: "GamepadAnalogStick", axis = "left_y", direction = "Clockwise", repeat_ms = 100 -> HIT"#,
    );
    assert_eq!(
        fired(
            &config,
            "dev:pad1 axis:left_x=0.9 t:1 axis:left_x=0.52 t:1 axis:left_x=0.9 t:1 axis:left_x=0.1 t:1 axis:left_x=0.9"
        ),
        "0 right GamepadAnalogStick\n4 right GamepadAnalogStick"
    );
    assert_eq!(
        fired(&config, "dev:pad1 axis:left_y=1.0 t:250 axis:left_y=0.0 t:300"),
        "0 up GamepadAnalogStick\n100 up GamepadAnalogStick\n200 up GamepadAnalogStick"
    );
    assert_eq!(fired(&config, "dev:pad1 axis:left_x=-0.9"), "");
}

#[test]
fn a_gamepad_trigger_has_a_threshold_and_slack() {
    let config = rules(r#"pull: "GamepadTrigger", trigger = "right", threshold = 64 -> HIT"#);
    assert_eq!(
        fired(
            &config,
            "dev:pad1 trig:right=0.6 t:1 trig:right=0.53 t:1 trig:right=0.6 t:1 trig:right=0.2 t:1 trig:right=0.7"
        ),
        "0 pull GamepadTrigger\n4 pull GamepadTrigger"
    );
}

#[test]
fn osc_tests_every_argument() {
    let config = rules(
        r#"play: "Osc", address = "/transport/{play,stop}", args = [{ index = 0, min = 0.5 }, { index = 1, equals = "now" }] -> HIT"#,
    );
    assert_eq!(fired(&config, "dev:touch osc:/transport/play=1.0,now"), "0 play Osc");
    assert_eq!(fired(&config, "dev:touch osc:/transport/stop=1,now"), "0 play Osc");
    for miss in ["/transport/play=0.1,now", "/transport/play=1.0,then", "/transport/play=1.0", "/transport/rec=1.0,now"]
    {
        assert_eq!(fired(&config, &format!("dev:touch osc:{miss}")), "", "{miss}");
    }
}

fn binding(source: &str, glue: &str, target: &str) -> String {
    format!(
        "[[modes]]\nname = \"Default\"\n[[modes.continuous]]\nid = \"b\"\nsource = {{ type = {source} }}\nglue = {{ {glue} }}\n\
         targets = [{{ type = {target} }}]\n{DEVICES}"
    )
}

#[test]
fn continuous_sources_reach_midi_targets() {
    let cc = r#""CC", port = "daw", channel = 2, controller = 20"#;
    assert_eq!(sent(&binding(r#""CC", cc = 7"#, "", cc), "cc:7=127"), "0 daw cc:20=127/2");
    assert_eq!(
        sent(&binding(r#""CC14", cc = 7"#, "", cc), "cc:7=64 t:9 cc:39=0 t:9 cc:7=127 cc:39=127"),
        "0 daw cc:20=64/2\n18 daw cc:20=127/2"
    );
    assert_eq!(sent(&binding(r#""PitchBend""#, "", cc), "pb:8192"), "0 daw cc:20=64/2");
    assert_eq!(sent(&binding(r#""Aftertouch""#, "", cc), "at:10"), "0 daw cc:20=10/2");
    assert_eq!(sent(&binding(r#""NRPN", parameter = 300"#, "", cc), "cc:99=2 cc:98=44 cc:6=127"), "0 daw cc:20=126/2");
    assert_eq!(
        sent(&binding(r#""GamepadAnalogStick", axis = "left_x""#, "", cc), "dev:pad1 axis:left_x=1.0"),
        "0 daw cc:20=127/2"
    );
    assert_eq!(sent(&binding(r#""Osc", address = "/f/*""#, "", cc), "dev:touch osc:/f/1=0.5"), "0 daw cc:20=64/2");
    let encoder = r#""Encoder", cc = 16, mode = "twos_complement", step = 0.5"#;
    assert_eq!(
        sent(&binding(encoder, "", cc), "cc:16=1 t:99 cc:16=1 t:99 cc:16=127"),
        "0 daw cc:20=64/2\n99 daw cc:20=127/2\n198 daw cc:20=64/2"
    );
}

#[test]
fn targets_have_their_own_messages() {
    let source = r#""CC", cc = 7"#;
    assert_eq!(
        sent(&binding(source, "", r#""CC14", port = "daw", channel = 0, controller = 16"#), "cc:7=127"),
        "0 daw cc:16=127\n0 daw cc:48=127"
    );
    let nrpn = r#""NRPN", port = "daw", channel = 0, parameter = 300"#;
    assert_eq!(
        sent(&binding(source, "", nrpn), "cc:7=127 t:9 cc:7=0"),
        "0 daw cc:99=2\n0 daw cc:98=44\n0 daw cc:6=127\n0 daw cc:38=127\n9 daw cc:6=0\n9 daw cc:38=0",
        "the parameter was selected again"
    );
    let null = r#""RPN", port = "daw", channel = 0, parameter = 0, null_after = true"#;
    assert_eq!(
        sent(&binding(source, "", null), "cc:7=0"),
        "0 daw cc:101=0\n0 daw cc:100=0\n0 daw cc:6=0\n0 daw cc:38=0\n0 daw cc:101=127\n0 daw cc:100=127"
    );
    assert_eq!(sent(&binding(source, "", r#""PitchBend", port = "daw", channel = 1"#), "cc:7=127"), "0 daw pb:16383/1");
    assert_eq!(sent(&binding(source, "", r#""Aftertouch", port = "daw", channel = 1"#), "cc:7=127"), "0 daw at:127/1");
}

#[test]
fn the_last_value_after_a_throttle_is_sent() {
    let config = binding(r#""CC", cc = 7"#, "throttle_ms = 20", r#""CC", port = "daw", channel = 0, controller = 1"#);
    assert_eq!(sent(&config, "cc:7=1 t:5 cc:7=2 t:5 cc:7=3"), "0 daw cc:1=1\n20 daw cc:1=3");
}

#[test]
fn glue_shapes_the_way() {
    let target = r#""CC", port = "daw", channel = 0, controller = 1"#;
    let through = |glue: &str, value: u8| sent(&binding(r#""CC", cc = 7"#, glue, target), &format!("cc:7={value}"));
    assert_eq!(through("invert = true", 127), "0 daw cc:1=0");
    assert_eq!(through("in = [32, 96]", 64), "0 daw cc:1=64");
    assert_eq!(through("out = [10, 20]", 127), "0 daw cc:1=20");
    assert_eq!(through("steps = 2", 100), "0 daw cc:1=127");
    assert_eq!(through("curve = \"exponential\", intensity = 1.0", 64), "0 daw cc:1=8");
    assert_eq!(through("deadzone = 0.5", 60), "0 daw cc:1=0");
}

#[test]
fn a_trigger_and_a_binding_on_one_controller_both_run() {
    let config = binding(r#""CC", cc = 7"#, "", r#""CC", port = "daw", channel = 0, controller = 1"#)
        + "[[global_mappings]]\nid = \"hit\"\ntrigger = { type = \"CC\", cc = 7 }\naction = { type = \"Text\", text = \"x\" }\n";
    assert_eq!(fired(&config, "cc:7=3"), "0 hit CC");
    assert_eq!(sent(&config, "cc:7=3"), "0 daw cc:1=3");
}
