//! Every key that the file may have changes what a running daemon does.
//!
//! The keys are asked of the reader itself: into each table of the file that has every field, a key is put that cannot be, and the refusal
//! lists those that can. Each of them must have evidence here: either a probe, which sees something else under another value, or a test
//! that varies the key. So a key that somebody adds and forgets to use fails this test by its name. Triggers, actions, sources, glue and
//! targets are data of the engine and are varied one by one in `conductor-core`'s tests.

use super::surface::{self, BOARD, Cable, with_cable, with_gamepad};
use super::*;
use conductor::daemon::handle::{SentBy, Wanted};
use conductor::hosts::midi::loopback::Loopback;
use conductor_core::event::{Axis, Body, Side, Taint};
use conductor_core::hands::Outcome;
use conductor_testkit::real::{PATIENCE, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const EVERY_FIELD: &str = include_str!("../../../conductor-core/tests/config_fixtures/every-field.toml");
const NOT_A_KEY: &str = "qqqqqqqqqqqq";

/// `table.key` of every key the reader knows, with `[]` for the rows of a list.
fn accepted(fixture: &str) -> BTreeSet<String> {
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut look = |table: String, text: &str| {
        let loaded = conductor_core::config::load(text);
        let fault = loaded.diagnostics.iter().find(|it| it.message.contains(NOT_A_KEY));
        let help = fault.unwrap_or_else(|| panic!("{table} takes any key")).help.clone().unwrap_or_default();
        let known = help.strip_prefix("known keys are ").unwrap_or_else(|| panic!("{table}: {help}"));
        tables.entry(table).or_default().extend(known.split(", ").map(str::to_owned));
    };
    look(String::new(), &format!("{NOT_A_KEY} = 1\n{fixture}"));
    let lines: Vec<&str> = fixture.lines().collect();
    let mut table = String::new();
    for (at, line) in lines.iter().enumerate() {
        let with = |inserted: String| {
            let (head, tail) = lines.split_at(at + 1);
            [head, &[inserted.as_str()], tail].concat().join("\n")
        };
        if let Some(name) = line.strip_prefix('[') {
            let rows = if name.starts_with('[') { "[]" } else { "" };
            table = format!("{}{rows}", name.trim_matches(['[', ']']));
            // The names in it are tools, not keys.
            if table != "circuit.tools" {
                look(table.clone(), &with(format!("{NOT_A_KEY} = 1")));
            }
        } else if let Some((key, _)) = line.split_once(" = ")
            && let Some((owner, _)) = key.rsplit_once('.')
        {
            look(format!("{table}.{owner}"), &with(format!("{owner}.{NOT_A_KEY} = 1")));
        }
    }
    let names = tables.into_iter().flat_map(|(table, keys)| {
        let of = move |key: String| if table.is_empty() { key } else { format!("{table}.{key}") };
        keys.into_iter().map(of)
    });
    names.collect()
}

/// Why a key is believed to do something.
enum Evidence {
    /// What is seen under the one and under the other value must differ.
    Probe { one: String, other: String, see: fn(&Studio) -> String },
    /// A test that varies it.
    Test(fn()),
    /// A table or a list; its own keys have evidence.
    Holds,
    /// Varied over the whole schema in `conductor-core`.
    Engine,
    /// The part that is given the value is tested with it there; the file must at least speak of it.
    Part(&'static str),
}
use Evidence::{Engine, Holds, Part, Test};

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

fn file(studio: &Studio) -> String {
    format!("{:?}", studio.daemon().handle().serving().config.devices)
}

/// What a press that must wait leads to, and after how many milliseconds; deadlines of the hands are exact, whenever they wake.
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
    studio.block_on(handle.learn_start(60_000, false)).unwrap();
    studio.play(&[0x90, 60, 100]);
    std::thread::park_timeout(Duration::from_millis(20));
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
    let surface_test: fn() = surface::feedback_rows_show_what_they_are_told_to_show;
    let values: fn() = surface::a_value_is_scaled_into_its_range_and_a_motor_is_not_a_hand;
    let pad: fn() = surface::each_key_of_the_pad_counts;
    let led: fn() = surface::the_scheme_its_brightness_and_its_colours_are_shown;
    let echo_board = BOARD.replacen("note = 36", "note = 96", 1);
    let echoing = |guard: &str| {
        format!(
            "{}\n{ECHO}{MARK}",
            echo_board.replacen("loopback = true", &format!("loopback = true\necho_guard = {guard}"), 1)
        )
    };
    let mut all = vec![
        ("schema", Test(another_schema_is_refused)),
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
                file,
            ),
        ),
        ("devices[].matchers", Test(a_cable_finds_its_alias)),
        ("devices[].protocol", Test(a_device_is_looked_for_where_the_file_says)),
        ("devices[].direction", Test(a_device_is_heard_and_told_as_the_file_says)),
        (
            "devices[].channels",
            probe(route(""), route("").replacen("loopback = true", "loopback = true\nchannels = [0]", 1), routed),
        ),
        ("devices[].enabled", varied("loopback = true", "loopback = true\nenabled = false", bindings)),
        ("devices[].virtual_port", Test(a_cable_finds_its_alias)),
        (
            "devices[].loopback",
            varied("direction = \"Output\"\nloopback = true", "direction = \"Output\"\nvirtual_port = \"x\"", devices),
        ),
        ("devices[].listen", added(&osc(""), &osc(""), devices)),
        ("devices[].allow_network", Test(a_network_is_listened_to_only_on_a_word)),
        (
            "devices[].allow_sensitive_actions",
            added(&osc(GO), &osc(&format!("allow_sensitive_actions = true\n{GO}")), over_udp),
        ),
        (
            "devices[].ask_output",
            varied("direction = \"Output\"\n", "direction = \"Output\"\nask_output = true\n", sent_by_a_tool),
        ),
        ("devices[].echo_guard", probe(echoing("true"), echoing("false"), echoed)),
        ("devices[].template", Test(surface::a_template_names_the_lights_of_a_device)),
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
        ("config.watch", Test(a_file_is_picked_up_when_and_if_the_file_says)),
        ("config.debounce_ms", Test(a_file_is_picked_up_when_and_if_the_file_says)),
        ("advanced_settings", Holds),
        ("advanced_settings.chord_timeout_ms", advanced("chord_timeout_ms = 30", CHORD, chord)),
        ("advanced_settings.double_tap_timeout_ms", advanced("double_tap_timeout_ms = 100", TAPS, tap)),
        ("advanced_settings.hold_threshold_ms", advanced("hold_threshold_ms = 400", LONG, hold)),
        ("advanced_settings.chord_learn_timeout_ms", advanced("chord_learn_timeout_ms = 1", "", learned)),
        ("advanced_settings.stick_deadzone", Test(a_stick_and_a_trigger_rest_as_far_as_the_file_says)),
        ("advanced_settings.trigger_deadzone", Test(a_stick_and_a_trigger_rest_as_far_as_the_file_says)),
        ("advanced_settings.listen_mode", Test(ports_without_an_alias_are_heard_as_the_file_says)),
        ("advanced_settings.max_midi_ports", Test(ports_without_an_alias_are_heard_as_the_file_says)),
        ("advanced_settings.input_mode", advanced("input_mode = \"GamepadOnly\"", "", played)),
        (
            "advanced_settings.scan_interval_ms",
            Test(ports_that_nobody_announces_are_looked_for_as_often_as_the_file_says),
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
        ("logging.level", Test(the_level_says_what_is_logged)),
        ("policy", Holds),
        ("policy.default", Holds),
        ("policy.rules", Holds),
        ("policy.approval", Holds),
        ("policy.approval.pad", Holds),
        ("limits", Holds),
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
        ("plugins", Part("conductor-core/src/config/plugins.rs")),
        ("tools", Part("conductor-core/src/config/tools.rs")),
        ("secrets", Part("conductor-core/src/config/tools.rs")),
        ("patch", Holds),
        ("patch.pd", Holds),
        ("patch.max", Holds),
    ];
    let mut shown = |table: &'static str, keys: &[&'static str], test: fn()| {
        all.extend(keys.iter().map(|key| (named(table, key), Test(test))));
    };
    shown(
        "feedback[]",
        &["device", "out", "from", "on", "off", "out.type", "out.channel", "out.note", "from.type", "from.mode"],
        surface_test,
    );
    shown("feedback[]", &["range"], values);
    shown("led", &["scheme", "brightness", "mode_colors"], led);
    shown("policy.approval.pad", &["device", "note", "hold_ms", "tiers"], pad);
    let policy = "tests/sections.rs, tests/sections/surface.rs, tests/integration/pipeline.rs";
    let mut part = |table: &'static str, keys: &[&'static str], file: &'static str| {
        all.extend(keys.iter().map(|key| (named(table, key), Part(file))));
    };
    part("per_app_modes", &["default", "rules", "window_rules", "release_on_focus_change"], "tests/desktop.rs");
    part("policy.default", &["ReadOnly", "Stateful", "ConfigChange", "HardwareIO"], policy);
    part("policy.rules[]", &["tool", "principal", "tier", "args", "decision", "channel"], policy);
    part(
        "policy.approval",
        &["wait_ms", "ttl_ms", "client_tiers", "cooldown_ms", "refuse_descendants"],
        "tests/sections.rs, tests/integration/approval.rs, tests/end_to_end/clients.rs",
    );
    let limits = ["in_flight", "result_bytes", "read", "effect", "pending_per_principal", "asks_per_minute"];
    part("limits", &limits, "tests/sections.rs");
    part("limits.read", &["per_minute", "burst"], "tests/sections.rs");
    part("limits.effect", &["per_minute", "burst"], "tests/sections.rs");
    part(
        "circuit",
        &["mode", "failures", "window_ms", "open_ms", "close_after"],
        "tests/sections.rs, conductor-core/src/breaker.rs",
    );
    for tool in ["circuit.tools.\"shell.exec\"", "circuit.tools.\"live_undo\""] {
        part(
            tool,
            &["mode", "failures", "window_ms", "open_ms", "close_after"],
            "tests/sections.rs, conductor-core/src/breaker.rs",
        );
    }
    part("retry", &["attempts", "base_ms", "cap_ms"], "tests/sections.rs");
    let audit = [
        "detail",
        "read_only_sync",
        "rotate_mb",
        "checkpoint_records",
        "checkpoint_ms",
        "retention_days",
        "copy_to",
        "copy_required",
    ];
    part(
        "audit",
        &audit,
        "tests/sections.rs, src/audit_log/tests.rs, src/audit_log/keeper.rs, tests/integration/pipeline.rs",
    );
    part("http", &["bind", "allow_remote", "hosts", "origins"], "tests/sections.rs");
    part("http.tokens[]", &["name", "hash", "scopes"], "tests/sections.rs");
    let mcp = [
        "tools",
        "tool_names",
        "max_message_bytes",
        "max_in_flight",
        "max_connections",
        "elicitation_wait_ms",
        "session_idle_s",
        "page_size",
    ];
    part("mcp", &mcp, "tests/sections.rs");
    let live =
        ["host", "default_set", "template_set", "file_roots", "max_open", "max_xml_mb", "undo_depth", "render_dir"];
    part("live", &live, "src/hosts/live.rs");
    part("live.osc", &["host", "port", "reply_port", "timeout_ms"], "tests/sections.rs, tests/integration/live_osc.rs");
    part("live.script", &["timeout_ms"], "tests/sections.rs");
    let patch = ["roots", "open", "max_open", "max_file_mb", "journal_steps", "journal_mb"];
    part("patch", &patch, "tests/sections.rs");
    part("patch.pd", &["mode", "command", "sleepgrain_ms", "audio"], "tests/sections.rs");
    part("patch.max", &["enabled", "port"], "tests/sections.rs");
    all
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
        || key.starts_with("routes[].transform.")
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
            Part(files) => {
                let name = key.rsplit('.').next().unwrap_or(key);
                let speaks = |file: &str| {
                    let up = if file.starts_with("conductor-") { "../" } else { "" };
                    let path = format!("{}/{up}{file}", env!("CARGO_MANIFEST_DIR"));
                    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{key}: {path}: {why}")).contains(name)
                };
                assert!(files.split(", ").any(speaks), "{key}: {files} does not speak of {name}");
            }
            Holds => {
                let inside = [format!("{key}."), format!("{key}[].")];
                let any = accepted.iter().any(|it| inside.iter().any(|start| it.starts_with(start)));
                assert!(any, "{key} is missing in the file that has every field");
            }
            Evidence::Probe { .. } | Test(_) | Engine => {}
        }
    }
}

/// The sections of the file, in parts that are shown side by side.
const PARTS: [&[&str]; 4] = [
    &["schema", "default_mode", "modes", "global_mappings", "global_continuous", "routes", "feedback"],
    &["devices"],
    &["config", "advanced_settings", "performance", "led", "per_app_modes", "logging"],
    &["policy", "limits", "circuit", "retry", "audit", "http", "mcp", "live", "patch", "plugins", "tools", "secrets"],
];

fn section(key: &str) -> &str {
    key.split(['.', '[']).next().unwrap_or(key)
}

fn show(part: usize) {
    let (mut silent, mut shown) = (Vec::new(), BTreeSet::new());
    for (key, evidence) in evidence().into_iter().filter(|(key, _)| PARTS[part].contains(&section(key))) {
        match evidence {
            Evidence::Probe { one, other, see } => {
                for config in [&one, &other] {
                    let faults: Vec<String> =
                        conductor_core::config::load(config).errors().map(|it| it.message.clone()).collect();
                    assert!(faults.is_empty(), "the probe of {key} is faulty: {faults:?}");
                }
                let look = |config: String| std::panic::catch_unwind(|| see(&Studio::start(&config)));
                match (look(one), look(other)) {
                    (Ok(one), Ok(other)) if one != other => {}
                    seen => silent.push((key, seen)),
                }
            }
            Test(test) if shown.insert(test as usize) => test(),
            Test(_) | Engine | Holds | Part(_) => {}
        }
    }
    assert!(silent.is_empty(), "nothing else is seen under another value: {silent:#?}");
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
fn the_keys_of_calls_do_something() {
    show(3);
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

fn another_schema_is_refused() {
    let studio = Studio::start(BOARD);
    std::fs::write(studio.home.path().join("config.toml"), format!("schema = 2\n{BOARD}")).unwrap();
    assert!(studio.block_on(studio.daemon().handle().reload()).is_err());
}

fn keys_at(port: &str) -> String {
    format!("[[devices]]\nalias = \"keys\"\nmatchers = [{{ type = \"ExactName\", pattern = \"{port}\" }}]\n")
}

fn a_cable_finds_its_alias() {
    let seen = |config: &str| bindings(&with_cable(config).0);
    assert_ne!(seen(&keys_at("Grand")), seen(&keys_at("Small")));
    let made = |name: &str| {
        seen(&format!("[[devices]]\nalias = \"daw\"\ndirection = \"Output\"\nvirtual_port = \"{name}\"\n"))
    };
    assert_ne!(made("V"), made("W"));
}

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

/// A tool turns a knob, the knob's binding plays a loopback device, and a pad of that device would type.
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

/// A missing backend is looked for as well, at first every second or so; so the interval shows in how often ports are listed.
fn ports_that_nobody_announces_are_looked_for_as_often_as_the_file_says() {
    let often = |interval: u32, within: Duration| {
        let scans: Arc<AtomicUsize> = Arc::default();
        let counted = scans.clone();
        let make: conductor::daemon::MakeBackend = Box::new(move |stamp, _| {
            Box::new(Cable { machinery: Loopback::new(stamp, Arc::new(|_| {})), scans: counted })
        });
        let machine = Machine { backends: vec![make], ..Machine::default() };
        let _studio = Studio::on(machine, &format!("[advanced_settings]\nscan_interval_ms = {interval}\n"));
        wait_for(within, || (scans.load(Ordering::Relaxed) >= 15).then_some(())).is_some()
    };
    assert!(often(100, PATIENCE));
    assert!(!often(60_000, Duration::from_secs(3)));
}

fn a_file_is_picked_up_when_and_if_the_file_says() {
    let seen = |section: &str| {
        let studio = Studio::start(&format!("{BOARD}\n{section}\n"));
        let changed = BOARD.replacen("color = \"green\"", "color = \"red\"", 1);
        std::fs::write(studio.home.path().join("config.toml"), changed).unwrap();
        wait_for(Duration::from_secs(3), || modes(&studio).contains("red").then_some(())).is_some()
    };
    assert!(seen("[config]\ndebounce_ms = 1"));
    assert!(!seen("[config]\nwatch = false"));
    assert!(!seen("[config]\ndebounce_ms = 10000"));
}

fn the_level_says_what_is_logged() {
    let logged = |level: &str| {
        let studio = Studio::start(&format!("{BOARD}\n[logging]\nlevel = \"{level}\"\n"));
        studio.block_on(studio.daemon().handle().switch_mode("Mix".into())).unwrap();
        studio.log().contains("mode Mix")
    };
    assert!(logged("info"));
    assert!(!logged("error"));
}
