//! Every key that the file may have changes the behaviour of a running daemon.
//!
//! The list of keys comes from the configuration reader: an invalid key is added to each table of a
//! file with every field, and the error lists the valid keys. Each key must have evidence here: a
//! probe whose result differs between two values, a test that fails if the file lacks the key, or
//! the name of a test in another binary. A key that is added and never used makes this test fail
//! with the key's name. Triggers, actions, sources, glue and targets are data of the engine;
//! `conductor-core`'s tests vary them one by one.

use super::surface::BOARD;
use super::*;
use conductor_gateway::owner_handle::{SentBy, Wanted};
use conductor_testkit::real::{PATIENCE, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Duration;
use toml_edit::{DocumentMut, TableLike};

const EVERY_FIELD: &str = include_str!("../../../conductor-core/tests/config_fixtures/every-field.toml");
const NOT_A_KEY: &str = "qqqqqqqqqqqq";

/// Tables whose keys are names that a person chooses.
const NAMES: [&str; 11] = [
    "circuit.tools",
    "led.mode_colors",
    "per_app_modes.rules",
    "policy.rules[].args",
    "plugins",
    "plugins{}.config",
    "http.hooks[].arguments",
    "plugins{}.tools",
    "tools.database",
    "tools.shell.commands[].env",
    "tools.shell.commands[].slots",
];

/// The names of all tables below a table, in the notation of [`without`].
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

/// `table.key` of every key that the reader accepts.
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
        assert!(!refused.is_empty(), "{table} accepts any key, but is not listed in NAMES");
        for fault in refused {
            let help = fault.help.clone().unwrap_or_default();
            let known = help.strip_prefix("known keys are ").unwrap_or_else(|| panic!("{table}: {help}"));
            let of = |key: &str| if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
            keys.extend(known.split(", ").map(of));
        }
    }
    keys
}

/// The proof that a key has an effect.
enum Evidence {
    /// The results of `see` for the two values must differ.
    Probe { one: String, other: String, see: fn(&Studio) -> String },
    /// A test that fails if the file lacks the key. The test also runs by itself.
    Test { name: &'static str, run: fn() },
    /// A test of another binary, by its file and name.
    Elsewhere { file: &'static str, name: &'static str },
    /// A table or a list. Its keys have evidence of their own.
    Holds,
    /// A key of the engine's data, which `conductor-core` varies over the whole schema.
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

/// The configuration [`BOARD`], and the same with one line replaced.
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

// The probes: each observes a daemon and returns the result as text.

pub(super) fn bindings(studio: &Studio) -> String {
    format!("{:?}", studio.block_on(studio.handle().bindings()).unwrap())
}

fn devices(studio: &Studio) -> String {
    let found = studio.block_on(studio.handle().devices()).unwrap();
    format!("{:?} {:?} {:?} {:?}", found.midi_inputs, found.midi_outputs, found.osc_listeners, found.backends)
}

pub(super) fn modes(studio: &Studio) -> String {
    format!("{:?}", studio.handle().modes())
}

fn rows(studio: &Studio) -> String {
    let of = |mode: &str| studio.handle().mappings(mode);
    format!("{:?} {:?}", of("*"), of("Play"))
}

/// Number of events that arrive after one press of a pad.
fn heard_of_the_pads(studio: &Studio) -> String {
    let played = studio.handle().send("pads hand".into(), vec![vec![0x90, 36, 1]], SentBy::Person);
    // A disabled device has no listener, so sending may fail.
    let _ = studio.block_on(played);
    studio.status().statistics.events_processed.to_string()
}

/// The effect of a deferred press, and its delay in milliseconds. The engine uses exact deadlines,
/// even if it wakes late.
fn timed(studio: &Studio, press: [u8; 3]) -> String {
    studio.play(&press);
    let traced = || studio.block_on(studio.handle().trace(Wanted::default())).unwrap().records;
    let seen = wait_for(PATIENCE, || <[_; 2]>::try_from(traced()).ok())
        .expect("the press was not first deferred and then decided");
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

/// The gestures that MIDI learn suggests after two quick key presses.
fn learned(studio: &Studio) -> String {
    let handle = studio.handle();
    studio.block_on(handle.learn_start(60_000, false, None)).unwrap();
    studio.play(&[0x90, 60, 100]);
    pause(20);
    studio.play(&[0x90, 64, 100]);
    let heard = || studio.block_on(handle.trace(Wanted::default())).unwrap().next_seq;
    wait_for(PATIENCE, || (heard() >= 2).then_some(())).expect("an event is not in the trace");
    let learned = studio.block_on(handle.learn_stop()).unwrap();
    learned.suggestions.iter().any(|it| it["type"] == "NoteChord").to_string()
}

/// Whether events of the pads are received.
fn played(studio: &Studio) -> String {
    let sent = studio.handle().send("pads hand".into(), vec![vec![0x90, 36, 1]], SentBy::Person);
    studio.block_on(sent).is_ok().to_string()
}

/// The messages that the synth receives for a note, a controller and a bend on two channels.
fn routed(studio: &Studio) -> String {
    let mut ear = studio.ear("synth");
    for message in [[0x90, 60, 100], [0x80, 60, 0], [0x91, 70, 100], [0x81, 70, 0], [0xB0, 30, 1], [0xE0, 0, 70]] {
        studio.play(&message);
    }
    // Messages are processed in order, so the mark arrives after all of them.
    studio.play(&[0x90, 36, 1]);
    format!(
        "{:?}",
        std::iter::repeat_with(|| studio.hear(&mut ear)).take_while(|it| it[..2] != [0xBE, 1]).collect::<Vec<_>>()
    )
}

/// How often a note passes through the loop until the loop is stopped. The stop must be reported.
fn circled(studio: &Studio) -> String {
    let mut ear = studio.ear("pads hand");
    studio.play(&[0x90, 60, 100]);
    studio.was_stopped();
    // Releasing the key releases all notes of the loop.
    studio.play(&[0x80, 60, 0]);
    let (mut on, mut off) = (0, 0);
    while on == 0 || off < on {
        let message = studio.hear(&mut ear);
        on += u32::from(message[0] == 0x90);
        off += u32::from(message[0] == 0x80);
    }
    format!("{} times, {} dropped", on - 1, studio.status().statistics.events_dropped)
}

/// The messages that the synth receives when the pads echo note 41, which Conductor has sent to
/// them.
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
    let traced = || studio.block_on(studio.handle().trace(Wanted { limit: Some(200), ..Wanted::default() })).unwrap();
    wait_for(PATIENCE, || (traced().next_seq >= 20).then_some(())).expect("an event is not in the trace");
    traced().records.len().to_string()
}

fn flooded(studio: &Studio) -> String {
    let flood: Vec<Vec<u8>> = (0..250).map(|at| vec![0x90, 100, 1 + (at % 100) as u8]).collect();
    studio.block_on(studio.handle().send("pads hand".into(), flood, SentBy::Person)).unwrap();
    let dropped = studio.status().statistics.events_dropped;
    (dropped > 0).to_string()
}

/// The effect of a message that arrives over UDP.
fn over_udp(studio: &Studio) -> String {
    let found = studio.block_on(studio.handle().devices()).unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"/go\0,\0\0\0", found.osc_listeners.first().expect("it listens")).unwrap();
    let traced = || studio.block_on(studio.handle().trace(Wanted::default())).unwrap();
    wait_for(PATIENCE, || (!traced().records.is_empty()).then_some(())).expect("the message was not received");
    format!("{:?}", traced().records.first().map(|it| it.outcome))
}

/// An OSC surface on a port that was free a moment ago.
pub(super) fn osc(more: &str) -> String {
    format!("[[devices]]\nalias = \"touch\"\nprotocol = \"Osc\"\nlisten = \"127.0.0.1:{}\"\n{more}", free_port())
}

const GO: &str = "[[global_mappings]]\ntrigger = { type = \"Osc\", address = \"/go\" }\naction = { type = \"Text\", text = \"x\" }\n";
/// A message that marks the end of the messages for which a probe waits.
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

/// Notes of the pads are sent back to the pads, a semitone higher.
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
pub(super) const STICKS: &str = "[[global_continuous]]\nid = \"stick\"\nsource = { type = \"GamepadAnalogStick\", axis = \"left_x\" }\ntargets = [{ type = \"CC\", port = \"synth\", channel = 0, controller = 1 }]\n\
                      [[global_continuous]]\nid = \"pull\"\nsource = { type = \"GamepadTrigger\", trigger = \"right\" }\ntargets = [{ type = \"CC\", port = \"synth\", channel = 0, controller = 2 }]\n";
/// `say` sends note 41 to the pads; `answer` sends a message to the synth when note 41 comes back.
const ECHO: &str = "[[global_mappings]]\nid = \"say\"\ntrigger = { type = \"Note\", note = 40, device = \"pads\" }\n\
                    action = { type = \"SendMidi\", port = \"pads\", channel = 0, message_type = \"NoteOn\", note = 41, velocity = 100, duration_ms = 60000 }\n\
                    [[global_mappings]]\nid = \"answer\"\ntrigger = { type = \"Note\", note = 41, device = \"pads\" }\n\
                    action = { type = \"SendMidi\", port = \"synth\", channel = 0, message_type = \"CC\", controller = 5, value = 5 }\n";

/// A test of several rigs with a NATS server.
fn venue(name: &'static str) -> Evidence {
    Elsewhere { file: "tests/end_to_end/cluster.rs", name }
}

fn evidence() -> Vec<(&'static str, Evidence)> {
    let echo_board = BOARD.replacen("note = 36", "note = 96", 1);
    let echoing = |guard: &str| {
        format!(
            "{}\n{ECHO}{MARK}",
            echo_board.replacen("loopback = true", &format!("loopback = true\necho_guard = {guard}"), 1)
        )
    };
    let mut all = vec![
        ("schema", test!(settings::another_schema_is_refused)),
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
        ("devices[].matchers", test!(devices::a_cable_finds_its_alias)),
        ("devices[].protocol", test!(devices::a_device_is_looked_for_where_the_file_says)),
        ("devices[].direction", test!(devices::a_device_is_heard_and_told_as_the_file_says)),
        (
            "devices[].channels",
            probe(route(""), route("").replacen("loopback = true", "loopback = true\nchannels = [0]", 1), routed),
        ),
        ("devices[].enabled", varied("loopback = true", "loopback = true\nenabled = false", heard_of_the_pads)),
        ("devices[].trusted", test!(devices::a_virtual_input_is_trusted_on_a_word)),
        ("devices[].virtual_port", test!(devices::a_cable_finds_its_alias)),
        (
            "devices[].loopback",
            varied("direction = \"Output\"\nloopback = true", "direction = \"Output\"\nvirtual_port = \"x\"", devices),
        ),
        ("devices[].listen", added(&osc(""), &osc(""), devices)),
        ("devices[].allow_network", test!(devices::a_network_is_listened_to_only_on_a_word)),
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
        ("config.watch", test!(settings::a_file_is_picked_up_when_and_if_the_file_says)),
        ("config.debounce_ms", test!(settings::a_file_is_picked_up_when_and_if_the_file_says)),
        ("advanced_settings", Holds),
        ("advanced_settings.chord_timeout_ms", advanced("chord_timeout_ms = 30", CHORD, chord)),
        ("advanced_settings.double_tap_timeout_ms", advanced("double_tap_timeout_ms = 100", TAPS, tap)),
        ("advanced_settings.hold_threshold_ms", advanced("hold_threshold_ms = 400", LONG, hold)),
        ("advanced_settings.chord_learn_timeout_ms", advanced("chord_learn_timeout_ms = 1", "", learned)),
        ("advanced_settings.stick_deadzone", test!(settings::a_stick_and_a_trigger_rest_as_far_as_the_file_says)),
        ("advanced_settings.trigger_deadzone", test!(settings::a_stick_and_a_trigger_rest_as_far_as_the_file_says)),
        ("advanced_settings.listen_mode", test!(settings::ports_without_an_alias_are_heard_as_the_file_says)),
        ("advanced_settings.max_midi_ports", test!(settings::ports_without_an_alias_are_heard_as_the_file_says)),
        ("advanced_settings.input_mode", advanced("input_mode = \"GamepadOnly\"", "", played)),
        (
            "advanced_settings.scan_interval_ms",
            test!(settings::ports_that_nobody_announces_are_looked_for_as_often_as_the_file_says),
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
        ("logging.level", test!(settings::the_level_says_what_is_logged)),
        ("policy", Holds),
        ("policy.default", Holds),
        ("policy.rules", Holds),
        ("policy.approval", Holds),
        ("policy.approval.pad", Holds),
        ("policy.approval.phone", Holds),
        ("limits", Holds),
        ("limits.read", Holds),
        ("limits.effect", Holds),
        ("circuit", Holds),
        ("circuit.tools", Holds),
        ("retry", Holds),
        ("audit", Holds),
        ("http", Holds),
        ("http.hooks", Holds),
        ("http.oauth", Holds),
        ("http.oauth.scopes", Holds),
        ("http.tls", Holds),
        ("http.tokens", Holds),
        ("webhooks", Holds),
        ("cluster", Holds),
        ("cluster.deciders", Holds),
        ("cluster.rigs", Holds),
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
    shown("feedback[]", &["from.path"], || test!(live::a_controller_shows_where_a_parameter_of_a_set_stands));
    shown("led", &["scheme", "brightness", "mode_colors"], || {
        test!(surface::the_scheme_its_brightness_and_its_colours_are_shown)
    });
    shown("per_app_modes", &["default", "rules", "window_rules", "release_on_focus_change"], front);
    shown("per_app_modes.window_rules[]", &["app", "title", "mode"], front);
    shown("policy.default", &["ReadOnly", "Stateful", "ConfigChange", "HardwareIO"], || {
        test!(policy::each_tier_is_decided_as_the_file_says)
    });
    shown("policy.rules[]", &["tool", "principal", "tier", "args", "decision", "channel"], || {
        test!(policy::rules_look_at_principal_tier_and_arguments_and_raise_the_channel)
    });
    shown("policy.approval", &["ttl_ms", "client_tiers", "cooldown_ms"], || {
        test!(policy::approvals_live_and_a_no_counts_as_long_as_the_file_says)
    });
    shown("policy.approval", &["wait_ms"], || test!(surface::a_call_waits_for_a_person_as_long_as_the_file_says));
    shown("policy.approval", &["refuse_descendants"], || Elsewhere {
        file: "tests/end_to_end/clients.rs",
        name: "what_a_client_started_decides_nothing",
    });
    shown("policy.approval.pad", &["device", "note", "hold_ms", "tiers"], || {
        test!(surface::each_key_of_the_pad_counts)
    });
    shown("policy.approval.phone", &["bind"], || Elsewhere {
        file: "tests/end_to_end/phone.rs",
        name: "a_phone_stays_paired_after_a_restart_and_only_a_person_pairs",
    });
    shown("policy.approval.phone", &["tiers", "ntfy"], || Elsewhere {
        file: "tests/end_to_end/phone.rs",
        name: "a_phone_answers_its_tiers_and_a_topic_says_only_that_something_waits",
    });
    shown("limits", &["result_bytes", "pending_per_principal", "asks_per_minute"], || test!(limits::limits_hold));
    shown("limits", &["read.per_minute", "read.burst", "effect.per_minute", "effect.burst"], || {
        test!(limits::limits_hold)
    });
    shown("limits", &["in_flight"], || {
        test!(limits::a_connection_and_the_whole_daemon_do_as_much_at_once_as_the_file_says)
    });
    const CIRCUIT: [&str; 5] = ["mode", "failures", "window_ms", "open_ms", "close_after"];
    shown("circuit", &CIRCUIT, || test!(circuit::failures_are_counted_and_a_circuit_closes_as_the_file_says));
    shown("circuit.tools{}", &CIRCUIT, || test!(circuit::one_tool_may_have_a_circuit_of_its_own));
    shown("retry", &["attempts", "base_ms", "cap_ms"], || {
        test!(circuit::a_call_is_repeated_as_often_and_as_soon_as_the_file_says)
    });
    shown("audit", &["detail", "checkpoint_records", "copy_to"], || test!(audit::the_log_holds_what_the_file_says));
    shown("audit", &["rotate_mb"], || test!(audit::a_segment_ends_where_the_file_says));
    shown("audit", &["checkpoint_ms"], || test!(audit::a_checkpoint_is_made_when_the_file_says));
    shown("audit", &["retention_days"], || test!(audit::segments_older_than_the_file_says_are_removed));
    shown("audit", &["copy_required"], || {
        test!(audit::a_second_copy_that_is_required_and_cannot_be_written_stops_every_effect)
    });
    shown("audit", &["read_only_sync"], || Elsewhere {
        file: "tests/integration/pipeline.rs",
        name: "reads_wait_for_the_disk_only_where_they_are_told_to_and_effects_always",
    });
    shown("http", &["bind"], || test!(http::a_port_in_use_is_told_and_not_fatal));
    shown("http", &["allow_remote", "hosts", "origins"], || {
        test!(http::http_is_served_where_and_to_whom_the_file_says)
    });
    shown("http.tls", &["certificate", "key", "self_signed"], || test!(http::the_certificate_of_the_file_is_used));
    shown("http.tokens[]", &["name", "hash", "scopes"], || test!(http::http_is_served_where_and_to_whom_the_file_says));
    shown("http.oauth", &["issuer", "audience"], || Elsewhere {
        file: "tests/end_to_end/oauth.rs",
        name: "clients_of_two_sdks_sign_in_and_every_other_token_is_refused",
    });
    shown("http.oauth", &["algorithms"], || Elsewhere {
        file: "../conductor-daemon/src/doors/http/oauth.rs",
        name: "every_other_token_is_refused_with_its_reason",
    });
    shown("http.oauth.scopes[]", &["name", "tools", "observe"], || Elsewhere {
        file: "tests/end_to_end/oauth.rs",
        name: "clients_of_two_sdks_sign_in_and_every_other_token_is_refused",
    });
    shown("http.tokens[]", &["views"], || Elsewhere {
        file: "tests/end_to_end/team.rs",
        name: "clients_of_two_sdks_see_the_tools_of_their_tokens",
    });
    shown("http.tokens[]", &["tools", "expires", "per_minute"], || Elsewhere {
        file: "tests/end_to_end/team.rs",
        name: "each_token_has_its_own_tools_scopes_rate_and_end",
    });
    shown("http.hooks[]", &["name", "tool", "arguments", "secret", "signature"], || Elsewhere {
        file: "tests/end_to_end/team.rs",
        name: "a_signed_webhook_makes_one_call_and_a_replay_makes_none",
    });
    shown("webhooks[]", &["name", "url", "events", "secret"], || Elsewhere {
        file: "tests/end_to_end/team.rs",
        name: "an_event_reaches_a_receiver_that_was_down_also_after_a_restart",
    });
    shown("cluster", &["nats", "rig"], || venue("a_person_on_another_rig_answers_and_the_rigs_see_each_other"));
    shown("cluster", &["credentials", "ca"], || venue("a_rig_uses_tls_and_its_own_credentials"));
    shown("cluster.deciders[]", &["name", "key"], || {
        venue("a_person_on_another_rig_answers_and_the_rigs_see_each_other")
    });
    shown("cluster.deciders[]", &["tiers"], || venue("a_key_allows_only_the_tiers_that_were_enrolled"));
    shown("cluster.rigs[]", &["name", "key", "decides_for"], || {
        venue("a_stolen_rig_key_cannot_write_for_another_rig_or_decide_for_it")
    });
    shown("mcp", &["tools", "tool_names", "max_message_bytes", "max_connections", "page_size"], || {
        test!(mcp::clients_see_what_the_file_says)
    });
    shown("mcp", &["view", "output_schemas"], || test!(mcp::a_proxy_lists_the_view_of_the_file));
    shown("mcp", &["max_in_flight"], || {
        test!(limits::a_connection_and_the_whole_daemon_do_as_much_at_once_as_the_file_says)
    });
    shown("mcp", &["elicitation_wait_ms"], || test!(mcp::a_form_nobody_answers_is_waited_for_as_long_as_the_file_says));
    shown("mcp", &["session_idle_s"], || test!(mcp::a_session_nobody_uses_ends_when_the_file_says));
    shown("live", &["default_set", "max_open", "undo_depth"], || {
        test!(live::the_set_at_start_open_sets_and_undo_are_as_the_file_says)
    });
    shown("live", &["file_roots", "template_set"], || test!(live::sets_are_opened_and_made_from_where_the_file_says));
    shown("live", &["max_xml_mb", "render_dir"], || {
        test!(live::large_sets_are_refused_and_tracks_rendered_where_the_file_says)
    });
    shown("live", &["host"], || test!(live::the_host_is_looked_for_where_the_file_says));
    shown("live.osc", &["host", "port"], || test!(live::the_host_is_looked_for_where_the_file_says));
    shown("live.osc", &["reply_port", "timeout_ms"], || {
        test!(live::an_abletonosc_that_does_not_answer_is_waited_for_as_long_as_the_file_says)
    });
    shown("live.script", &["timeout_ms"], || {
        test!(live::a_script_that_does_not_answer_is_waited_for_as_long_as_the_file_says)
    });
    shown("patch", &["open", "max_open", "journal_steps"], || {
        test!(patch::open_patches_and_their_steps_are_as_many_as_the_file_says)
    });
    shown("patch", &["roots", "max_file_mb"], || test!(patch::files_are_opened_where_and_how_large_the_file_says));
    shown("patch", &["journal_mb"], || test!(patch::steps_hold_as_much_as_the_file_says));
    shown("patch.pd", &["mode", "command"], || test!(patch::pd_is_reached_as_the_file_says));
    shown("patch.pd", &["sleepgrain_ms", "audio"], || test!(patch::pd_is_started_with_the_files_flags));
    shown("patch.max", &["enabled", "port"], || test!(patch::every_key_of_patch_max_counts));
    shown("tools.filesystem.roots[]", &["name", "path"], || test!(tools::every_key_of_files_and_commands_counts));
    shown("tools.filesystem.roots[]", &["write"], || Elsewhere {
        file: "tests/integration/builtin.rs",
        name: "a_wrong_hash_changes_nothing_and_a_reading_root_is_never_written",
    });
    shown(
        "tools.shell.commands[]",
        &["name", "program", "args", "cwd", "effect", "env", "timeout_ms", "digest"],
        || test!(tools::every_key_of_files_and_commands_counts),
    );
    shown("tools.shell.commands[].slots{}", &["type", "min", "max", "values", "root", "pattern"], || {
        test!(tools::every_key_of_files_and_commands_counts)
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
        file: "../conductor-hosts/src/web/tests.rs",
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
    shown("devices[].matchers[]", &["type", "pattern"], || test!(devices::a_cable_finds_its_alias));
    shown("devices[].matchers[]", &["vendor_id", "product_id", "value"], || Elsewhere {
        file: "../conductor-hosts/src/midi/identity.rs",
        name: "the_best_matcher_wins_and_ties_go_to_the_first_listed",
    });
    all
}

fn plugin(name: &'static str) -> Evidence {
    Elsewhere { file: "tests/integration/plugins.rs", name }
}

fn front() -> Evidence {
    Elsewhere { file: "tests/integration/desktop.rs", name: "the_window_in_front_chooses_the_mode_until_a_person_does" }
}

fn named(table: &str, key: &str) -> &'static str {
    // The leak is a few hundred bytes in one test process.
    Box::leak(format!("{table}.{key}").into_boxed_str())
}

/// Whether the key belongs to the engine's data, which the tests of `conductor-core` vary.
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
    assert!(idle.is_empty(), "these keys are accepted, but have no evidence: {idle:#?}");
    let gone: Vec<&String> = known.iter().filter(|it| !is_engine(it)).filter(|it| !accepted.contains(*it)).collect();
    assert!(gone.is_empty(), "these keys are no longer accepted, or not in the file that has every field: {gone:#?}");
    let shown = PARTS.concat();
    for (key, evidence) in evidence {
        assert_eq!(
            shown.iter().filter(|it| **it == section(key)).count(),
            1,
            "the section of {key} is not in exactly one of PARTS"
        );
        match evidence {
            Elsewhere { file, name } => {
                let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
                let source = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{key}: {path}: {why}"));
                assert!(is_test(&source, name), "{key}: {file} has no test {name}");
                let word = key.rsplit('.').next().unwrap_or(key);
                assert!(source.contains(word), "{key}: {file} does not contain {word}");
            }
            Test { name, .. } => {
                let name = name.rsplit(':').next().unwrap_or(name).trim();
                assert!(
                    SOURCES.iter().any(|it| is_test(it, name)),
                    "{key}: the test {name} does not exist or is ignored"
                );
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

const SOURCES: [&str; 12] = [
    include_str!("audit.rs"),
    include_str!("circuit.rs"),
    include_str!("devices.rs"),
    include_str!("http.rs"),
    include_str!("limits.rs"),
    include_str!("live.rs"),
    include_str!("mcp.rs"),
    include_str!("patch.rs"),
    include_str!("policy.rs"),
    include_str!("settings.rs"),
    include_str!("surface.rs"),
    include_str!("tools.rs"),
];

/// Whether the source has a test of this name that is not ignored.
fn is_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else { return false };
    let attributes = before.rsplit("\n\n").next().unwrap_or(before);
    (attributes.contains("#[test]") || attributes.contains("#[tokio::test")) && !attributes.contains("#[ignore")
}

/// The sections of the file, in parts that are tested in parallel.
const PARTS: [&[&str]; 7] = [
    &["schema", "default_mode", "modes", "global_mappings", "global_continuous", "routes", "feedback"],
    &["devices"],
    &["config", "advanced_settings", "performance", "led", "per_app_modes", "logging"],
    &["policy", "limits", "circuit", "retry"],
    &["audit", "cluster", "http", "mcp", "webhooks"],
    &["live", "patch"],
    &["plugins", "tools", "secrets"],
];

fn section(key: &str) -> &str {
    key.split(['.', '[', '{']).next().unwrap_or(key)
}

/// The reason why the evidence does not prove the key, if there is one.
fn fault(key: &str, evidence: Evidence) -> Option<String> {
    match evidence {
        Evidence::Probe { one, other, see } => {
            for config in [&one, &other] {
                let loaded = conductor_core::config::load(config);
                if let Some(fault) = loaded.errors().next() {
                    return Some(format!("a configuration of its probe has an error: {}", fault.message));
                }
            }
            let seen = [one, other].map(|config| seen_under(config, see));
            (seen[0] == seen[1]).then(|| format!("its probe gives the same result for both values: {}", seen[0]))
        }
        Test { name, run } => (!without::is_missed(key, run, usual_time(name, run)))
            .then(|| format!("{name} passes even if the file lacks the key")),
        Elsewhere { .. } | Holds | Engine => None,
    }
}

/// The observation under a configuration. Many probes share a configuration, so each is observed
/// once.
fn seen_under(config: String, see: fn(&Studio) -> String) -> String {
    static SEEN: Memo<(String, usize), String> = Memo::new();
    SEEN.get((config.clone(), see as usize), || see(&Studio::start(&config)))
}

/// Run time of the test with all its keys, on this machine at its current load.
fn usual_time(name: &'static str, run: fn()) -> Duration {
    static TIMES: Memo<&str, Duration> = Memo::new();
    TIMES.get(name, || {
        let clock = RealClock::new();
        let from = clock.now();
        run();
        Duration::from_micros(clock.now().since(from))
    })
}

/// Values that are computed once each; a second thread waits for the first.
struct Memo<K, V>(Mutex<BTreeMap<K, Arc<OnceLock<V>>>>);

impl<K: Ord, V: Clone> Memo<K, V> {
    const fn new() -> Self {
        Memo(Mutex::new(BTreeMap::new()))
    }

    fn get(&self, key: K, make: impl FnOnce() -> V) -> V {
        let slot = Arc::clone(self.0.lock().unwrap().entry(key).or_default());
        slot.get_or_init(make).clone()
    }
}

/// Most of the time is spent waiting for events that never occur, so several keys are tested at
/// once.
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

/// The checker detects a key without effect, and a key without evidence.
#[test]
fn a_probe_that_sees_nothing_and_a_key_without_evidence_are_found() {
    let Evidence::Probe { one, other, see } = varied("color = \"green\"", "color = \"red\"", bindings) else {
        unreachable!()
    };
    assert_eq!(see(&Studio::start(&one)), see(&Studio::start(&other)), "another colour changed the bindings");
    let keys = accepted("[led]\nscheme = \"off\"\n");
    assert!(keys.contains("led.brightness"), "a key that the file does not contain was not found: {keys:?}");
    assert!(!keys.contains("led.gloss"));
}

impl Studio {
    /// Waits until a loop was stopped.
    pub(super) fn was_stopped(&self) {
        let traced = || self.block_on(self.handle().trace(Wanted::default())).unwrap().records;
        let told = || traced().iter().any(|it| it.reason.contains("max_route_depth")).then_some(());
        wait_for(PATIENCE, told).unwrap_or_else(|| panic!("{:#?}", traced()));
    }
}
