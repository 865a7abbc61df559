//! Every key that the file may have changes what a running daemon does.
//!
//! The keys are asked of the reader itself: into each table of the file that has every field, a key
//! is put that cannot be, and the refusal lists those that can. Each of them must have evidence
//! here: a probe, which sees something else under another value; a test that fails when the file
//! loses the key; or a test of another binary, by its name. So a key that somebody adds and forgets
//! to use fails this test by its name. Triggers, actions, sources, glue and targets are data of the
//! engine and are varied one by one in `conductor-core`'s tests.

use super::surface::{self, BOARD, Cable, with_cable, with_gamepad};
use super::*;
use conductor_core::engine::Outcome;
use conductor_core::event::{Axis, Body, Side, Taint};
use conductor_gateway::owner_handle::{SentBy, Wanted};
use conductor_hosts::midi::loopback::Loopback;
use conductor_testkit::real::{PATIENCE, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use toml_edit::{DocumentMut, TableLike};

const EVERY_FIELD: &str = include_str!("../../../conductor-core/tests/config_fixtures/every-field.toml");
const NOT_A_KEY: &str = "qqqqqqqqqqqq";

/// Tables whose keys are names that a person chooses.
const NAMES: [&str; 10] = [
    "circuit.tools",
    "led.mode_colors",
    "per_app_modes.rules",
    "policy.rules[].args",
    "plugins",
    "plugins{}.config",
    "plugins{}.tools",
    "tools.database",
    "tools.shell.commands[].env",
    "tools.shell.commands[].slots",
];

/// The names of all tables below one, as [`without`] writes them.
fn tables(table: &dyn TableLike, name: &str, all: &mut BTreeSet<String>) {
    all.insert(name.to_owned());
    for (key, item) in table.iter() {
        let name = if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        if is_engine(&name) {
            continue;
        }
        if let Some(rows) = item.as_array_of_tables() {
            rows.iter().for_each(|it| tables(it, &format!("{name}[]"), all));
        } else if let Some(rows) = item.as_array() {
            rows.iter().filter_map(|it| it.as_inline_table()).for_each(|it| tables(it, &format!("{name}[]"), all));
        } else if let Some(table) = item.as_table_like() {
            if NAMES.contains(&name.as_str()) {
                let tables_in_it = table.iter().filter_map(|(_, it)| it.as_table_like());
                tables_in_it.for_each(|it| tables(it, &format!("{name}{{}}"), all));
            } else {
                tables(table, &name, all);
            }
        }
    }
}

/// `table.key` of every key the reader knows.
fn accepted(fixture: &str) -> BTreeSet<String> {
    let document: DocumentMut = fixture.parse().unwrap();
    let (mut all, mut keys) = (BTreeSet::new(), BTreeSet::new());
    tables(document.as_table(), "", &mut all);
    for table in all {
        let mut spoilt = document.clone();
        without::at(spoilt.as_table_mut(), &table, &mut |it| drop(it.insert(NOT_A_KEY, toml_edit::value(1))));
        let loaded = conductor_core::config::load(&spoilt.to_string());
        let refused: Vec<_> =
            loaded.diagnostics.iter().filter(|it| it.message == format!("unknown key `{NOT_A_KEY}`")).collect();
        assert!(!refused.is_empty(), "{table} takes any key, and is not listed among the tables of names");
        for fault in refused {
            let help = fault.help.clone().unwrap_or_default();
            let known = help.strip_prefix("known keys are ").unwrap_or_else(|| panic!("{table}: {help}"));
            let of = |key: &str| if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
            keys.extend(known.split(", ").map(of));
        }
    }
    keys
}

/// Why a key is believed to do something.
enum Evidence {
    /// What is seen under the one and under the other value must differ.
    Probe { one: String, other: String, see: fn(&Studio) -> String },
    /// A test that fails when the file loses the key. It also runs by itself.
    Test { name: &'static str, run: fn() },
    /// A test of another binary, by its file and name.
    Elsewhere { file: &'static str, name: &'static str },
    /// A table or a list; its own keys have evidence.
    Holds,
    /// Varied over the whole schema in `conductor-core`.
    Engine,
}
use Evidence::{Elsewhere, Engine, Holds, Test};

macro_rules! test {
    ($($test:ident)::+) => {
        Test { name: stringify!($($test)::+), run: $($test)::+ }
    };
}

fn probe(one: impl Into<String>, other: impl Into<String>, see: fn(&Studio) -> String) -> Evidence {
    Evidence::Probe { one: one.into(), other: other.into(), see }
}

/// One line of the board, and another one in its place.
fn board(line: &str, other: &str) -> (String, String) {
    assert!(BOARD.contains(line), "{line}");
    (BOARD.to_owned(), BOARD.replacen(line, other, 1))
}

fn varied(line: &str, other: &str, see: fn(&Studio) -> String) -> Evidence {
    let (one, other) = board(line, other);
    probe(one, other, see)
}

fn added(one: &str, other: &str, see: fn(&Studio) -> String) -> Evidence {
    probe(format!("{BOARD}\n{one}\n"), format!("{BOARD}\n{other}\n"), see)
}

// What can be seen of a daemon.

fn bindings(studio: &Studio) -> String {
    format!("{:?}", studio.block_on(studio.daemon().handle().bindings()).unwrap())
}

fn devices(studio: &Studio) -> String {
    let found = studio.block_on(studio.daemon().handle().devices()).unwrap();
    format!("{:?} {:?} {:?} {:?}", found.midi_inputs, found.midi_outputs, found.osc_listeners, found.backends)
}

fn modes(studio: &Studio) -> String {
    format!("{:?}", studio.daemon().handle().modes())
}

fn rows(studio: &Studio) -> String {
    let of = |mode: &str| studio.daemon().handle().mappings(mode);
    format!("{:?} {:?}", of("*"), of("Play"))
}

/// Events that arrive of a press of the pads.
fn heard_of_the_pads(studio: &Studio) -> String {
    let played = studio.daemon().handle().send("pads hand".into(), vec![vec![0x90, 36, 1]], SentBy::Person);
    // Nobody listens to a device that is disabled.
    let _ = studio.block_on(played);
    studio.block_on(studio.daemon().handle().status()).unwrap().statistics.events_processed.to_string()
}

/// What a press that must wait leads to, and after how many milliseconds; deadlines of the hands
/// are exact, whenever they wake.
fn timed(studio: &Studio, press: [u8; 3]) -> String {
    studio.play(&press);
    let traced = || studio.block_on(studio.daemon().handle().trace(Wanted::default())).unwrap().records;
    let seen = wait_for(PATIENCE, || <[_; 2]>::try_from(traced()).ok()).expect("it waits, and then it does not");
    let [first, last] = seen.map(|it| (it.outcome, it.at_us));
    format!("{:?} {:?} after {} ms", first.0, last.0, first.1.abs_diff(last.1) / 1000)
}

fn chord(studio: &Studio) -> String {
    timed(studio, [0x90, 60, 100])
}

fn tap(studio: &Studio) -> String {
    timed(studio, [0x90, 63, 100])
}

fn hold(studio: &Studio) -> String {
    timed(studio, [0x90, 62, 100])
}

/// Which gestures are suggested after two keys, one soon after the other.
fn learned(studio: &Studio) -> String {
    let handle = studio.daemon().handle();
    studio.block_on(handle.learn_start(60_000, false, None)).unwrap();
    studio.play(&[0x90, 60, 100]);
    pause(20);
    studio.play(&[0x90, 64, 100]);
    let heard = || studio.block_on(handle.trace(Wanted::default())).unwrap().next_seq;
    wait_for(PATIENCE, || (heard() >= 2).then_some(())).expect("every event is traced");
    let learned = studio.block_on(handle.learn_stop()).unwrap();
    learned["suggestions"].as_array().unwrap().iter().any(|it| it["type"] == "NoteChord").to_string()
}

/// Whether what is played at the pads is heard.
fn played(studio: &Studio) -> String {
    let sent = studio.daemon().handle().send("pads hand".into(), vec![vec![0x90, 36, 1]], SentBy::Person);
    studio.block_on(sent).is_ok().to_string()
}

/// What the synth hears of a note, a controller and a bend on two channels.
fn routed(studio: &Studio) -> String {
    let mut ear = studio.ear("synth");
    for message in [[0x90, 60, 100], [0x80, 60, 0], [0x91, 70, 100], [0x81, 70, 0], [0xB0, 30, 1], [0xE0, 0, 70]] {
        studio.play(&message);
    }
    // The hand's messages are fed in their order, and the mark leaves after them.
    studio.play(&[0x90, 36, 1]);
    format!(
        "{:?}",
        std::iter::repeat_with(|| studio.hear(&mut ear)).take_while(|it| it[..2] != [0xBE, 1]).collect::<Vec<_>>()
    )
}

/// How often a note went round before it was stopped, and that this is told.
fn circled(studio: &Studio) -> String {
    let mut ear = studio.ear("pads hand");
    studio.play(&[0x90, 60, 100]);
    studio.was_stopped();
    // All of them are off again when the key is.
    studio.play(&[0x80, 60, 0]);
    let (mut on, mut off) = (0, 0);
    while on == 0 || off < on {
        let message = studio.hear(&mut ear);
        on += u32::from(message[0] == 0x90);
        off += u32::from(message[0] == 0x80);
    }
    format!(
        "{} times, {} dropped",
        on - 1,
        studio.block_on(studio.daemon().handle().status()).unwrap().statistics.events_dropped
    )
}

/// A device that repeats everything it is told, which a mapping answers.
fn echoed(studio: &Studio) -> String {
    let mut ear = studio.ear("synth");
    studio.play(&[0x90, 40, 1]);
    studio.play(&[0x90, 41, 100]);
    studio.play(&[0x90, 36, 1]);
    format!(
        "{:?}",
        std::iter::repeat_with(|| studio.hear(&mut ear)).take_while(|it| it[..2] != [0xBE, 1]).collect::<Vec<_>>()
    )
}

fn sent_by_a_tool(studio: &Studio) -> String {
    let messages =
        json!({ "port": "synth", "messages": [{ "type": "cc", "channel": 1, "controller": 1, "value": 1 }] });
    studio.call(&mut studio.client(), "conductor_send_midi", messages).0
}

fn locked(studio: &Studio) -> String {
    studio.call(&mut studio.client(), "conductor_switch_mode", json!({ "mode": "Mix" })).0
}

fn remembered(studio: &Studio) -> String {
    for value in 0..20 {
        studio.play(&[0xB5, 99, value]);
    }
    let traced =
        || studio.block_on(studio.daemon().handle().trace(Wanted { limit: Some(200), ..Wanted::default() })).unwrap();
    wait_for(PATIENCE, || (traced().next_seq >= 20).then_some(())).expect("every event is traced");
    traced().records.len().to_string()
}

fn flooded(studio: &Studio) -> String {
    let flood: Vec<Vec<u8>> = (0..250).map(|at| vec![0x90, 100, 1 + (at % 100) as u8]).collect();
    studio.block_on(studio.daemon().handle().send("pads hand".into(), flood, SentBy::Person)).unwrap();
    let dropped = studio.block_on(studio.daemon().handle().status()).unwrap().statistics.events_dropped;
    (dropped > 0).to_string()
}

/// What becomes of a message that arrives over UDP.
fn over_udp(studio: &Studio) -> String {
    let found = studio.block_on(studio.daemon().handle().devices()).unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"/go\0,\0\0\0", found.osc_listeners.first().expect("it listens")).unwrap();
    let traced = || studio.block_on(studio.daemon().handle().trace(Wanted::default())).unwrap();
    wait_for(PATIENCE, || (!traced().records.is_empty()).then_some(())).expect("it is heard");
    format!("{:?}", traced().records.first().map(|it| it.outcome))
}

/// An OSC surface on a port that was free a moment ago.
fn osc(more: &str) -> String {
    format!("[[devices]]\nalias = \"touch\"\nprotocol = \"Osc\"\nlisten = \"127.0.0.1:{}\"\n{more}", free_port())
}

const GO: &str = "[[global_mappings]]\ntrigger = { type = \"Osc\", address = \"/go\" }\naction = { type = \"Text\", text = \"x\" }\n";
/// Ends what a probe listens for.
const MARK: &str = "[[global_mappings]]\nid = \"mark\"\ntrigger = { type = \"Note\", note = 36, device = \"pads\" }\n\
                    action = { type = \"SendMidi\", port = \"synth\", channel = 14, message_type = \"CC\", controller = 1, value = 1 }\n";

fn route(line: &str) -> String {
    let play = BOARD.replacen("note = 36", "note = 96", 1);
    let mut route = BTreeMap::from([("from", "\"pads\""), ("to", "\"synth\"")]);
    let (key, value) = line.split_once(" = ").unwrap_or(("enabled", "true"));
    route.insert(key, value);
    let lines: Vec<String> = route.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{play}\n{MARK}[[routes]]\n{}\n", lines.join("\n"))
}

/// What the pads play comes back to them, a semitone higher.
fn ring(more: &str) -> String {
    format!("{BOARD}\n[[routes]]\nfrom = \"pads\"\nto = \"pads hand\"\ntransform = {{ note_offset = 1 }}\n{more}\n")
}

fn routes(other: &str) -> Evidence {
    probe(route(""), route(other), routed)
}

fn advanced(line: &str, rows: &str, see: fn(&Studio) -> String) -> Evidence {
    added(rows, &format!("{rows}\n[advanced_settings]\n{line}"), see)
}

const CHORD: &str = "[[global_mappings]]\nid = \"chord\"\ntrigger = { type = \"NoteChord\", notes = [60, 64] }\naction = { type = \"Delay\", ms = 1 }\n";
const TAPS: &str = "[[global_mappings]]\nid = \"double\"\ntrigger = { type = \"DoubleTap\", note = 63 }\naction = { type = \"ModeChange\", mode = \"Mix\" }\n\
                    [[global_mappings]]\nid = \"single\"\ntrigger = { type = \"Note\", note = 63 }\naction = { type = \"ModeChange\", mode = \"Mix\" }\n";
const LONG: &str = "[[global_mappings]]\nid = \"long\"\ntrigger = { type = \"LongPress\", note = 62 }\naction = { type = \"ModeChange\", mode = \"Mix\" }\n";
const STICKS: &str = "[[global_continuous]]\nid = \"stick\"\nsource = { type = \"GamepadAnalogStick\", axis = \"left_x\" }\ntargets = [{ type = \"CC\", port = \"synth\", channel = 0, controller = 1 }]\n\
                      [[global_continuous]]\nid = \"pull\"\nsource = { type = \"GamepadTrigger\", trigger = \"right\" }\ntargets = [{ type = \"CC\", port = \"synth\", channel = 0, controller = 2 }]\n";
/// `loop` repeats what it is told into its own input.
const ECHO: &str = "[[global_mappings]]\nid = \"say\"\ntrigger = { type = \"Note\", note = 40, device = \"pads\" }\n\
                    action = { type = \"SendMidi\", port = \"pads\", channel = 0, message_type = \"NoteOn\", note = 41, velocity = 100, duration_ms = 60000 }\n\
                    [[global_mappings]]\nid = \"answer\"\ntrigger = { type = \"Note\", note = 41, device = \"pads\" }\n\
                    action = { type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", controller = 5, value = 5 }\n";

fn evidence() -> Vec<(&'static str, Evidence)> {
    let echo_board = BOARD.replacen("note = 36", "note = 96", 1);
    let echoing = |guard: &str| {
        format!(
            "{}\n{ECHO}{MARK}",
            echo_board.replacen("loopback = true", &format!("loopback = true\necho_guard = {guard}"), 1)
        )
    };
    let mut all = vec![
        ("schema", test!(another_schema_is_refused)),
        ("default_mode", varied("default_mode = \"Play\"", "default_mode = \"Mix\"", modes)),
        ("modes", Holds),
        ("modes[].name", added("[[modes]]\nname = \"Max\"", "[[modes]]\nname = \"Mux\"", modes)),
        ("modes[].color", varied("color = \"green\"", "color = \"red\"", modes)),
        ("modes[].mappings", varied("note = 36,", "note = 35,", rows)),
        ("modes[].continuous", varied("cc = 7,", "cc = 8,", rows)),
        ("global_mappings", Holds),
        ("global_mappings[].id", added("", MARK, rows)),
        ("global_mappings[].description", added(MARK, &format!("{MARK}description = \"x\""), rows)),
        ("global_mappings[].trigger", Engine),
        ("global_mappings[].action", Engine),
        ("global_mappings[].trigger.type", Engine),
        ("global_mappings[].action.type", Engine),
        (
            "global_mappings[].enabled",
            probe(format!("{BOARD}\n{MARK}"), format!("{BOARD}\n{MARK}enabled = false"), rows),
        ),
        ("global_mappings[].let_through", {
            let through = |it: bool| {
                format!(
                    "{}\n[[global_mappings]]\ntrigger = {{ type = \"Note\", note = 60 }}\naction = {{ type = \"Delay\", ms = 1 }}\nlet_through = {it}\n",
                    route("")
                )
            };
            probe(through(true), through(false), routed)
        }),
        ("global_continuous", Holds),
        ("global_continuous[].id", added("", STICKS, rows)),
        ("global_continuous[].description", added(STICKS, &format!("{STICKS}description = \"x\""), rows)),
        ("global_continuous[].enabled", added(STICKS, &format!("{STICKS}enabled = false"), rows)),
        ("devices", Holds),
        ("devices[].alias", varied("alias = \"synth\"\n", "alias = \"synth2\"\n", bindings)),
        (
            "devices[].description",
            added(
                "[[devices]]\nalias = \"z\"\nloopback = true\ndescription = \"a\"",
                "[[devices]]\nalias = \"z\"\nloopback = true\ndescription = \"b\"",
                bindings,
            ),
        ),
        ("devices[].matchers", test!(a_cable_finds_its_alias)),
        ("devices[].protocol", test!(a_device_is_looked_for_where_the_file_says)),
        ("devices[].direction", test!(a_device_is_heard_and_told_as_the_file_says)),
        (
            "devices[].channels",
            probe(route(""), route("").replacen("loopback = true", "loopback = true\nchannels = [0]", 1), routed),
        ),
        ("devices[].enabled", varied("loopback = true", "loopback = true\nenabled = false", heard_of_the_pads)),
        ("devices[].trusted", test!(a_virtual_input_is_trusted_on_a_word)),
        ("devices[].virtual_port", test!(a_cable_finds_its_alias)),
        (
            "devices[].loopback",
            varied("direction = \"Output\"\nloopback = true", "direction = \"Output\"\nvirtual_port = \"x\"", devices),
        ),
        ("devices[].listen", added(&osc(""), &osc(""), devices)),
        ("devices[].allow_network", test!(a_network_is_listened_to_only_on_a_word)),
        (
            "devices[].allow_sensitive_actions",
            added(&osc(GO), &osc(&format!("allow_sensitive_actions = true\n{GO}")), over_udp),
        ),
        (
            "devices[].ask_output",
            varied("direction = \"Output\"\n", "direction = \"Output\"\nask_output = true\n", sent_by_a_tool),
        ),
        ("devices[].echo_guard", probe(echoing("true"), echoing("false"), echoed)),
        ("devices[].template", test!(surface::a_template_names_the_lights_of_a_device)),
        ("routes", Holds),
        ("routes[].from", routes("from = \"synth\"")),
        ("routes[].to", routes("to = \"nowhere\"")),
        ("routes[].filter", Holds),
        ("routes[].filter.note_range", routes("filter = { note_range = [0, 65] }")),
        ("routes[].filter.cc_range", routes("filter = { cc_range = [0, 1] }")),
        ("routes[].filter.channels", routes("filter = { channels = [1] }")),
        ("routes[].filter.message_types", routes("filter = { message_types = [\"PitchBend\"] }")),
        ("routes[].transform", routes("transform = { note_offset = 2 }")),
        ("routes[].modes", routes("modes = [\"Mix\"]")),
        ("routes[].enabled", routes("enabled = false")),
        ("feedback", Holds),
        ("config", Holds),
        ("config.watch", test!(a_file_is_picked_up_when_and_if_the_file_says)),
        ("config.debounce_ms", test!(a_file_is_picked_up_when_and_if_the_file_says)),
        ("advanced_settings", Holds),
        ("advanced_settings.chord_timeout_ms", advanced("chord_timeout_ms = 30", CHORD, chord)),
        ("advanced_settings.double_tap_timeout_ms", advanced("double_tap_timeout_ms = 100", TAPS, tap)),
        ("advanced_settings.hold_threshold_ms", advanced("hold_threshold_ms = 400", LONG, hold)),
        ("advanced_settings.chord_learn_timeout_ms", advanced("chord_learn_timeout_ms = 1", "", learned)),
        ("advanced_settings.stick_deadzone", test!(a_stick_and_a_trigger_rest_as_far_as_the_file_says)),
        ("advanced_settings.trigger_deadzone", test!(a_stick_and_a_trigger_rest_as_far_as_the_file_says)),
        ("advanced_settings.listen_mode", test!(ports_without_an_alias_are_heard_as_the_file_says)),
        ("advanced_settings.max_midi_ports", test!(ports_without_an_alias_are_heard_as_the_file_says)),
        ("advanced_settings.input_mode", advanced("input_mode = \"GamepadOnly\"", "", played)),
        (
            "advanced_settings.scan_interval_ms",
            test!(ports_that_nobody_announces_are_looked_for_as_often_as_the_file_says),
        ),
        ("advanced_settings.max_events_per_sec", advanced("max_events_per_sec = 100", "", flooded)),
        (
            "advanced_settings.max_route_depth",
            probe(ring(""), ring("[advanced_settings]\nmax_route_depth = 3"), circled),
        ),
        ("advanced_settings.trace_buffer_size", advanced("trace_buffer_size = 16", "", remembered)),
        ("performance", Holds),
        ("performance.lock", added("", "[performance]\nlock = true", locked)),
        (
            "performance.allow_output",
            added(
                "[performance]\nlock = true",
                "[performance]\nlock = true\nallow_output = [\"synth\"]",
                sent_by_a_tool,
            ),
        ),
        ("led", Holds),
        ("per_app_modes", Holds),
        ("logging", Holds),
        ("logging.level", test!(the_level_says_what_is_logged)),
        ("policy", Holds),
        ("policy.default", Holds),
        ("policy.rules", Holds),
        ("policy.approval", Holds),
        ("policy.approval.pad", Holds),
        ("limits", Holds),
        ("limits.read", Holds),
        ("limits.effect", Holds),
        ("circuit", Holds),
        ("circuit.tools", Holds),
        ("retry", Holds),
        ("audit", Holds),
        ("http", Holds),
        ("http.tokens", Holds),
        ("mcp", Holds),
        ("live", Holds),
        ("live.osc", Holds),
        ("live.script", Holds),
        ("plugins", Holds),
        ("plugins{}.tools", Holds),
        ("tools", Holds),
        ("tools.filesystem", Holds),
        ("tools.filesystem.roots", Holds),
        ("tools.shell", Holds),
        ("tools.shell.commands", Holds),
        ("tools.shell.commands[].slots", Holds),
        ("tools.database", Holds),
        ("tools.web", Holds),
        ("secrets", Holds),
        ("patch", Holds),
        ("patch.pd", Holds),
        ("patch.max", Holds),
    ];
    let mut shown = |table: &'static str, keys: &[&'static str], evidence: fn() -> Evidence| {
        all.extend(keys.iter().map(|key| (named(table, key), evidence())));
    };
    shown(
        "feedback[]",
        &["device", "out", "from", "on", "off", "out.type", "out.channel", "out.note", "from.type", "from.mode"],
        || test!(surface::feedback_rows_show_what_they_are_told_to_show),
    );
    shown("feedback[]", &["from.mapping", "from.device"], || {
        test!(surface::feedback_rows_show_what_they_are_told_to_show)
    });
    shown("feedback[]", &["range", "from.continuous", "out.controller"], || {
        test!(surface::a_value_is_scaled_into_its_range_and_a_motor_is_not_a_hand)
    });
    shown("feedback[]", &["from.path"], || test!(a_controller_shows_where_a_parameter_of_a_set_stands));
    shown("led", &["scheme", "brightness", "mode_colors"], || {
        test!(surface::the_scheme_its_brightness_and_its_colours_are_shown)
    });
    shown("per_app_modes", &["default", "rules", "window_rules", "release_on_focus_change"], front);
    shown("per_app_modes.window_rules[]", &["app", "title", "mode"], front);
    shown("policy.default", &["ReadOnly", "Stateful", "ConfigChange", "HardwareIO"], || {
        test!(each_tier_is_decided_as_the_file_says)
    });
    shown("policy.rules[]", &["tool", "principal", "tier", "args", "decision", "channel"], || {
        test!(rules_look_at_principal_tier_and_arguments_and_raise_the_channel)
    });
    shown("policy.approval", &["ttl_ms", "client_tiers", "cooldown_ms"], || {
        test!(approvals_live_and_a_no_counts_as_long_as_the_file_says)
    });
    shown("policy.approval", &["wait_ms"], || test!(surface::a_call_waits_for_a_person_as_long_as_the_file_says));
    shown("policy.approval", &["refuse_descendants"], || Elsewhere {
        file: "tests/end_to_end/clients.rs",
        name: "what_a_client_started_decides_nothing",
    });
    shown("policy.approval.pad", &["device", "note", "hold_ms", "tiers"], || {
        test!(surface::each_key_of_the_pad_counts)
    });
    shown("limits", &["result_bytes", "pending_per_principal", "asks_per_minute"], || test!(limits_hold));
    shown("limits", &["read.per_minute", "read.burst", "effect.per_minute", "effect.burst"], || test!(limits_hold));
    shown("limits", &["in_flight"], || test!(a_connection_and_the_whole_daemon_do_as_much_at_once_as_the_file_says));
    for table in ["circuit", "circuit.tools{}"] {
        shown(table, &["mode", "failures", "window_ms", "open_ms", "close_after"], || {
            test!(failures_are_counted_and_a_circuit_closes_as_the_file_says)
        });
    }
    shown("retry", &["attempts", "base_ms", "cap_ms"], || {
        test!(a_call_is_repeated_as_often_and_as_soon_as_the_file_says)
    });
    shown("audit", &["detail", "checkpoint_records", "copy_to"], || test!(the_log_holds_what_the_file_says));
    shown("audit", &["rotate_mb"], || test!(a_segment_ends_where_the_file_says));
    shown("audit", &["checkpoint_ms"], || test!(a_checkpoint_is_made_when_the_file_says));
    shown("audit", &["retention_days"], || test!(segments_older_than_the_file_says_are_removed));
    shown("audit", &["copy_required"], || {
        test!(a_second_copy_that_is_required_and_cannot_be_written_stops_every_effect)
    });
    shown("audit", &["read_only_sync"], || Elsewhere {
        file: "tests/integration/pipeline.rs",
        name: "reads_wait_for_the_disk_only_where_they_are_told_to_and_effects_always",
    });
    shown("http", &["bind"], || test!(a_port_in_use_is_told_and_not_fatal));
    shown("http", &["allow_remote", "hosts", "origins"], || test!(http_is_served_where_and_to_whom_the_file_says));
    shown("http.tokens[]", &["name", "hash", "scopes"], || test!(http_is_served_where_and_to_whom_the_file_says));
    shown("mcp", &["tools", "tool_names", "max_message_bytes", "max_connections", "page_size"], || {
        test!(clients_see_what_the_file_says)
    });
    shown("mcp", &["max_in_flight"], || test!(a_connection_and_the_whole_daemon_do_as_much_at_once_as_the_file_says));
    shown("mcp", &["elicitation_wait_ms"], || test!(a_form_nobody_answers_is_waited_for_as_long_as_the_file_says));
    shown("mcp", &["session_idle_s"], || test!(a_session_nobody_uses_ends_when_the_file_says));
    shown(
        "live",
        &["host", "default_set", "template_set", "file_roots", "max_open", "max_xml_mb", "undo_depth", "render_dir"],
        || test!(every_key_of_live_counts),
    );
    shown("live.osc", &["host", "port"], || test!(every_key_of_live_counts));
    shown("live.osc", &["reply_port", "timeout_ms"], || {
        test!(an_abletonosc_that_does_not_answer_is_waited_for_as_long_as_the_file_says)
    });
    shown("live.script", &["timeout_ms"], || {
        test!(a_script_that_does_not_answer_is_waited_for_as_long_as_the_file_says)
    });
    shown("patch", &["roots", "open", "max_open", "max_file_mb", "journal_steps", "journal_mb"], || {
        test!(every_key_of_patch_counts)
    });
    shown("patch.pd", &["mode", "command", "sleepgrain_ms", "audio"], || test!(every_key_of_patch_pd_counts));
    shown("patch.max", &["enabled", "port"], || test!(every_key_of_patch_max_counts));
    shown("tools.filesystem.roots[]", &["name", "path"], || test!(every_key_of_files_and_commands_counts));
    shown("tools.filesystem.roots[]", &["write"], || Elsewhere {
        file: "tests/integration/builtin.rs",
        name: "a_wrong_hash_changes_nothing_and_a_reading_root_is_never_written",
    });
    shown(
        "tools.shell.commands[]",
        &["name", "program", "args", "cwd", "effect", "env", "timeout_ms", "digest"],
        || test!(every_key_of_files_and_commands_counts),
    );
    shown("tools.shell.commands[].slots{}", &["type", "min", "max", "values", "root", "pattern"], || {
        test!(every_key_of_files_and_commands_counts)
    });
    shown("tools.database{}", &["url", "password", "max_rows_affected"], || Elsewhere {
        file: "tests/integration/builtin.rs",
        name: "a_real_postgres_keeps_reads_reads",
    });
    shown("tools.web", &["allow_hosts", "http_hosts"], || Elsewhere {
        file: "tests/integration/builtin.rs",
        name: "web_hosts_that_a_person_named_are_fetched_and_others_are_asked_about",
    });
    shown("tools.web", &["timeout_ms"], || Elsewhere {
        file: "src/hosts/web/tests.rs",
        name: "large_and_slow_answers_are_cut",
    });
    shown("plugins{}", &["enabled", "file", "pin"], || {
        plugin("a_changed_file_is_refused_until_a_person_enables_it_again")
    });
    shown("plugins{}", &["net", "secrets"], || {
        plugin("hosts_are_reached_when_granted_and_secrets_go_to_their_hosts_only")
    });
    shown("plugins{}", &["files_read", "files_write"], || plugin("files_are_reached_under_granted_roots_only"));
    shown("plugins{}", &["config"], || plugin("a_configuration_is_held_to_the_plugins_own_schema"));
    shown("plugins{}", &["retry", "cpu_ms", "timeout_ms", "heap_mb"], || {
        plugin("every_key_of_a_row_changes_something")
    });
    shown("plugins{}.tools{}", &["tier", "requires_approval"], || plugin("every_key_of_a_row_changes_something"));
    shown("secrets", &["key"], || Elsewhere {
        file: "tests/end_to_end/secrets.rs",
        name: "a_passphrase_is_asked_for_at_the_terminal_of_up_and_nowhere_else",
    });
    shown("devices[].matchers[]", &["type", "pattern"], || test!(a_cable_finds_its_alias));
    shown("devices[].matchers[]", &["vendor_id", "product_id", "value"], || Elsewhere {
        file: "src/hosts/midi/identity.rs",
        name: "the_best_matcher_wins_and_ties_go_to_the_first_listed",
    });
    all
}

fn plugin(name: &'static str) -> Evidence {
    Elsewhere { file: "tests/integration/plugins.rs", name }
}

fn front() -> Evidence {
    Elsewhere { file: "tests/desktop.rs", name: "the_window_in_front_chooses_the_mode_until_a_person_does" }
}

fn named(table: &str, key: &str) -> &'static str {
    // A few hundred bytes for the life of a test.
    Box::leak(format!("{table}.{key}").into_boxed_str())
}

/// Keys of one object of the engine's data; each is varied in `conductor-core`.
fn is_engine(key: &str) -> bool {
    let inside = |owner: &str| key.starts_with(&format!("global_{owner}."));
    ["mappings[].trigger", "mappings[].action", "continuous[].source", "continuous[].glue", "continuous[].targets"]
        .iter()
        .any(|it| inside(it) || key == format!("global_{it}"))
        || ["routes[].transform.", "modes[].mappings", "modes[].continuous"].iter().any(|it| key.starts_with(it))
}

#[test]
fn every_key_has_evidence_that_it_does_something() {
    let evidence = evidence();
    let known: BTreeSet<String> = evidence.iter().map(|(key, _)| (*key).to_owned()).collect();
    let accepted: BTreeSet<String> = accepted(EVERY_FIELD).into_iter().filter(|it| !is_engine(it)).collect();
    let idle: Vec<&String> = accepted.difference(&known).collect();
    assert!(idle.is_empty(), "accepted, and nothing shows that they do anything: {idle:#?}");
    let gone: Vec<&String> = known.iter().filter(|it| !is_engine(it)).filter(|it| !accepted.contains(*it)).collect();
    assert!(gone.is_empty(), "no longer accepted, or not in the file that has every field: {gone:#?}");
    let shown = PARTS.concat();
    for (key, evidence) in evidence {
        assert_eq!(shown.iter().filter(|it| **it == section(key)).count(), 1, "{key} is shown in one part");
        match evidence {
            Elsewhere { file, name } => {
                let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
                let source = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{key}: {path}: {why}"));
                assert!(is_test(&source, name), "{key}: {file} has no test {name}");
                let word = key.rsplit('.').next().unwrap_or(key);
                assert!(source.contains(word), "{key}: {file} does not speak of {word}");
            }
            Test { name, .. } => {
                let name = name.rsplit(':').next().unwrap_or(name).trim();
                assert!(SOURCES.iter().any(|it| is_test(it, name)), "{key}: {name} does not run by itself");
            }
            Holds => {
                let inside = [format!("{key}."), format!("{key}[]."), format!("{key}{{}}.")];
                let any = accepted.iter().any(|it| inside.iter().any(|start| it.starts_with(start)));
                assert!(any, "{key} is missing in the file that has every field");
            }
            Evidence::Probe { .. } | Engine => {}
        }
    }
}

const SOURCES: [&str; 3] = [include_str!("../sections.rs"), include_str!("surface.rs"), include_str!("every_key.rs")];

/// Whether the source has a test of this name that nobody switched off.
fn is_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else { return false };
    let attributes = before.rsplit("\n\n").next().unwrap_or(before);
    (attributes.contains("#[test]") || attributes.contains("#[tokio::test")) && !attributes.contains("#[ignore")
}

/// The sections of the file, in parts that are shown side by side.
const PARTS: [&[&str]; 7] = [
    &["schema", "default_mode", "modes", "global_mappings", "global_continuous", "routes", "feedback"],
    &["devices"],
    &["config", "advanced_settings", "performance", "led", "per_app_modes", "logging"],
    &["policy", "limits", "circuit", "retry"],
    &["audit", "http", "mcp"],
    &["live", "patch"],
    &["plugins", "tools", "secrets"],
];

fn section(key: &str) -> &str {
    key.split(['.', '[', '{']).next().unwrap_or(key)
}

/// What is wrong with the evidence, if anything is.
fn fault(key: &str, evidence: Evidence) -> Option<String> {
    match evidence {
        Evidence::Probe { one, other, see } => {
            for config in [&one, &other] {
                let loaded = conductor_core::config::load(config);
                if let Some(fault) = loaded.errors().next() {
                    return Some(format!("its probe is faulty: {}", fault.message));
                }
            }
            let seen = [one, other].map(|config| see(&Studio::start(&config)));
            (seen[0] == seen[1]).then(|| format!("nothing else is seen under another value: {}", seen[0]))
        }
        Test { name, run } => {
            (!without::is_missed(key, run)).then(|| format!("{name} passes when the file loses the key"))
        }
        Elsewhere { .. } | Holds | Engine => None,
    }
}

/// Most of the time is waiting for what does not come, so a few keys are shown at once.
fn show(part: usize) {
    let of_this = evidence().into_iter().filter(|(key, _)| PARTS[part].contains(&section(key)));
    let (left, faults) = (Mutex::new(of_this), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some((key, evidence)) = next() {
                    faults.lock().unwrap().extend(fault(key, evidence).map(|it| format!("{key}: {it}")));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_keys_of_rows_do_something() {
    show(0);
}

#[test]
fn the_keys_of_devices_do_something() {
    show(1);
}

#[test]
fn the_keys_of_settings_do_something() {
    show(2);
}

#[test]
fn the_keys_of_policy_and_limits_do_something() {
    show(3);
}

#[test]
fn the_keys_of_the_log_and_the_doors_do_something() {
    show(4);
}

#[test]
fn the_keys_of_live_and_patches_do_something() {
    require!(pd::probe());
    require!(fakelive::osc());
    show(5);
}

#[test]
fn the_keys_of_tools_do_something() {
    show(6);
}

/// The checker sees a key that does nothing, and one that nobody thought of.
#[test]
fn a_probe_that_sees_nothing_and_a_key_without_evidence_are_found() {
    let Evidence::Probe { one, other, see } = varied("color = \"green\"", "color = \"red\"", bindings) else {
        unreachable!()
    };
    assert_eq!(see(&Studio::start(&one)), see(&Studio::start(&other)), "a colour moves no port");
    let keys = accepted("[led]\nscheme = \"off\"\n");
    assert!(keys.contains("led.brightness"), "found though the file does not name it: {keys:?}");
    assert!(!keys.contains("led.gloss"));
}

#[test]
fn another_schema_is_refused() {
    let studio = Studio::start(BOARD);
    studio.save(&format!("schema = 2\n{BOARD}"));
    assert!(studio.block_on(studio.daemon().handle().reload()).is_err());
}

fn keys_at(port: &str) -> String {
    format!("[[devices]]\nalias = \"keys\"\nmatchers = [{{ type = \"ExactName\", pattern = \"{port}\" }}]\n")
}

#[test]
fn a_cable_finds_its_alias() {
    let seen = |config: &str| bindings(&with_cable(config).0);
    assert_ne!(seen(&keys_at("Grand")), seen(&keys_at("Small")));
    let made = |name: &str| {
        seen(&format!("[[devices]]\nalias = \"daw\"\ndirection = \"Output\"\nvirtual_port = \"{name}\"\n"))
    };
    assert_ne!(made("V"), made("W"));
}

#[test]
fn a_virtual_input_is_trusted_on_a_word() {
    let outcome = |trusted: bool| {
        let text = "[[global_mappings]]\ntrigger = { type = \"Note\", note = 36 }\naction = { type = \"Text\", text = \"x\" }\n";
        let keys = "[[devices]]\nalias = \"keys\"\ndirection = \"Input\"\nvirtual_port = \"Grand\"\n";
        let alone = "[advanced_settings]\nlisten_mode = \"Configured\"\n";
        let (studio, hand) = with_cable(&format!("{keys}trusted = {trusted}\n{text}{alone}"));
        assert!(hand.play(&[0x90, 36, 100], Taint::Clean));
        let traced = || studio.block_on(studio.daemon().handle().trace(Wanted::default())).unwrap().records;
        let record = wait_for(PATIENCE, || traced().into_iter().next()).expect("it is heard");
        (record.outcome, record.reason.contains("trusted = true"))
    };
    assert_eq!(outcome(true), (Outcome::Fired, false));
    assert_eq!(outcome(false), (Outcome::Tainted, true));
}

#[test]
fn ports_without_an_alias_are_heard_as_the_file_says() {
    let connected = |lines: &str| {
        let (studio, _hand) = with_cable(&format!("[advanced_settings]\n{lines}\n"));
        studio.block_on(studio.daemon().handle().bindings()).unwrap().connected_count
    };
    assert_eq!(connected("listen_mode = \"All\""), 2);
    assert_eq!(connected("listen_mode = \"Configured\""), 0);
    assert_eq!(connected("max_midi_ports = 1"), 1);
}

impl Studio {
    /// Waits until something was not sent on any more.
    fn was_stopped(&self) {
        let traced = || self.block_on(self.daemon().handle().trace(Wanted::default())).unwrap().records;
        let told = || traced().iter().any(|it| it.reason.contains("max_route_depth")).then_some(());
        wait_for(PATIENCE, told).unwrap_or_else(|| panic!("{:#?}", traced()));
    }
}

/// A mapping and a binding can lead back to their own device as well as a route.
#[test]
fn a_ring_of_mappings_or_bindings_ends_where_the_file_says() {
    let forward = "[[global_mappings]]\nid = \"on\"\ntrigger = { type = \"Note\", note = 60, device = \"pads\" }\n\
                   action = { type = \"MidiForward\", target = \"pads hand\" }\n";
    let knob = "[[global_continuous]]\nid = \"round\"\nsource = { type = \"CC\", cc = 20, device = \"pads\" }\n\
                glue = { invert = true, throttle_ms = 0 }\n\
                targets = [{ type = \"CC\", port = \"pads hand\", channel = 0, controller = 20 }]\n";
    for (rows, message) in [(forward, [0x90, 60, 100]), (knob, [0xB0, 20, 127])] {
        let studio = Studio::start(&format!("{BOARD}\n{rows}[advanced_settings]\nmax_route_depth = 5\n"));
        let mut ear = studio.ear("pads hand");
        studio.play(&message);
        studio.was_stopped();
        // The mark is the first message after those that went round.
        studio.play(&[0xBF, 99, 1]);
        let heard = std::iter::repeat_with(|| studio.hear(&mut ear)).take_while(|it| it[..2] != [0xBF, 99]);
        let sounding = heard.filter(|it| it[0] == message[0]);
        assert_eq!(sounding.count(), 1 + 5, "{rows}");
        assert_eq!(studio.block_on(studio.daemon().handle().status()).unwrap().statistics.actions_failed, 1);
    }
}

/// A tool turns a knob, the knob's binding plays a loopback device, and a pad of that device would
/// type.
#[test]
fn what_a_tool_turned_is_no_hand_behind_a_binding() {
    let rows = "[[devices]]\nalias = \"second\"\nloopback = true\n\
                [[global_continuous]]\nid = \"across\"\nsource = { type = \"CC\", cc = 20, device = \"pads\" }\n\
                targets = [{ type = \"CC\", port = \"second hand\", channel = 3, controller = 21 }]\n\
                [[global_mappings]]\nid = \"type\"\ntrigger = { type = \"CC\", cc = 21, device = \"second\" }\n\
                action = { type = \"Text\", text = \"x\" }\n";
    let outcome = |by_tool: bool| {
        let studio = Studio::start(&format!("{BOARD}\n{rows}"));
        if by_tool {
            let message = json!({ "type": "cc", "channel": 1, "controller": 20, "value": 9 });
            let arguments = json!({ "port": "pads hand", "messages": [message] });
            assert_eq!(studio.call(&mut studio.client(), "conductor_send_midi", arguments).0, "ok");
        } else {
            studio.play(&[0xB0, 20, 9]);
        }
        let of = Wanted { mapping_id: Some("type".into()), ..Wanted::default() };
        let traced = || studio.block_on(studio.daemon().handle().trace(of.clone())).unwrap().records;
        wait_for(PATIENCE, || traced().first().map(|it| it.outcome)).expect("it is traced")
    };
    assert_eq!(outcome(false), Outcome::Fired);
    assert_eq!(outcome(true), Outcome::Tainted);
}

#[test]
fn a_device_is_looked_for_where_the_file_says() {
    let connected = |protocol: &str| {
        let (studio, _hand) = with_cable(&format!("{}protocol = \"{protocol}\"\n", keys_at("Grand")));
        studio.block_on(studio.daemon().handle().bindings()).unwrap().device_bindings[0].connected
    };
    assert!(connected("Midi"));
    assert!(!connected("Gamepad"), "Grand is a MIDI port");
}

#[test]
fn a_device_is_heard_and_told_as_the_file_says() {
    let ways = |direction: &str| {
        let (studio, hand) = with_cable(&format!("{}direction = \"{direction}\"\n", keys_at("Grand")));
        let told = studio.daemon().handle().send("keys".into(), vec![vec![0xB0, 1, 1]], SentBy::Person);
        (hand.play(&[0xB0, 1, 1], Taint::Clean), studio.block_on(told).is_ok())
    };
    assert_eq!(ways("Bidirectional"), (true, true));
    assert_eq!(ways("Input"), (true, false));
    // Without an alias that hears it, it is heard as any other port.
    assert_eq!(ways("Output\"\n[advanced_settings]\nlisten_mode = \"Configured"), (false, true));
}

#[test]
fn a_network_is_listened_to_only_on_a_word() {
    let heard = |allowed: bool| {
        let device = osc(&format!("allow_network = {allowed}\n")).replacen("127.0.0.1", "0.0.0.0", 1);
        let studio = Studio::start(&device);
        studio.block_on(studio.daemon().handle().devices()).unwrap().osc_listeners.len()
    };
    assert_eq!(heard(true), 1);
    assert_eq!(heard(false), 0);
}

/// What the synth is told when a stick and a trigger are moved to 0.6.
#[test]
fn a_stick_and_a_trigger_rest_as_far_as_the_file_says() {
    let told = |line: &str| {
        let (studio, mut pad) = with_gamepad(&format!("{BOARD}\n{STICKS}[advanced_settings]\n{line}\n"));
        let mut ear = studio.ear("synth");
        let mut moved = |body: Body| {
            pad.moved(body);
            studio.hear(&mut ear)[2]
        };
        (moved(Body::Axis { axis: Axis::LeftX, value: 0.6 }), moved(Body::Trigger { side: Side::Right, value: 0.6 }))
    };
    let (stick, pull) = told("");
    let (by_stick, pull_beside) = told("stick_deadzone = 0.5");
    let (stick_beside, by_pull) = told("trigger_deadzone = 0.5");
    assert!(by_stick < stick && by_pull < pull, "{stick} {by_stick} {pull} {by_pull}");
    assert_eq!((stick_beside, pull_beside), (stick, pull), "each is its own");
}

/// A missing backend is looked for as well, at first every second or so; so the interval shows in
/// how often ports are listed.
#[test]
fn ports_that_nobody_announces_are_looked_for_as_often_as_the_file_says() {
    let often = |interval: u32, within: Duration| {
        let scans: Arc<AtomicUsize> = Arc::default();
        let counted = scans.clone();
        let make: conductor::app::MakeBackend = Box::new(move |stamp, _| {
            Box::new(Cable { machinery: Loopback::new(stamp, Arc::new(|_| {})), scans: counted })
        });
        let machine = Machine { backends: vec![make], ..Machine::default() };
        let _studio = Studio::on(machine, &format!("[advanced_settings]\nscan_interval_ms = {interval}\n"));
        wait_for(within, || (scans.load(Ordering::Relaxed) >= 15).then_some(())).is_some()
    };
    assert!(often(100, PATIENCE));
    assert!(!often(60_000, Duration::from_secs(3)));
}

#[test]
fn a_file_is_picked_up_when_and_if_the_file_says() {
    let seen = |section: &str| {
        let studio = Studio::start(&format!("{BOARD}\n{section}\n"));
        let changed = BOARD.replacen("color = \"green\"", "color = \"red\"", 1);
        studio.save(&changed);
        wait_for(Duration::from_secs(3), || modes(&studio).contains("red").then_some(())).is_some()
    };
    assert!(seen("[config]\ndebounce_ms = 1"));
    assert!(!seen("[config]\nwatch = false"));
    assert!(!seen("[config]\ndebounce_ms = 10000"));
}

#[test]
fn the_level_says_what_is_logged() {
    let logged = |level: &str| {
        let studio = Studio::start(&format!("{BOARD}\n[logging]\nlevel = \"{level}\"\n"));
        studio.block_on(studio.daemon().handle().switch_mode("Mix".into())).unwrap();
        studio.log().contains("mode Mix")
    };
    assert!(logged("info"));
    assert!(!logged("error"));
}
