//! Tests reading `config.toml`: values, defaults, errors with their places, and the items that an
//! error disables.

use conductor_core::action::{Action, Condition, KeyName, Keystroke, MidiOut, Modifier, Velocity};
use conductor_core::config::{
    self, Config, Diagnostic, ListenMode, Loaded, Platform, Severity, Surroundings, timing_report,
};
use conductor_core::mapping::{Key, TriggerKind, Window};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const STUDIO: &str = include_str!("../config_fixtures/studio.toml");

fn sound(text: &str) -> Config {
    let loaded = config::load(text);
    let shown: Vec<String> = loaded.diagnostics.iter().map(|it| it.render(text, "config.toml")).collect();
    assert!(loaded.diagnostics.is_empty(), "{}", shown.join("\n"));
    loaded.config.expect("the file was refused")
}

fn only_fault(loaded: &Loaded) -> &Diagnostic {
    assert_eq!(loaded.diagnostics.len(), 1, "{:#?}", loaded.diagnostics);
    &loaded.diagnostics[0]
}

/// A configuration with one mapping in mode `Default`.
fn row(trigger: &str, action: &str) -> String {
    format!("[[modes]]\nname = \"Default\"\n[[modes.mappings]]\ntrigger = {trigger}\naction = {action}\n")
}

fn action(text: &str) -> Action {
    let config = sound(&row("{ type = \"Note\", note = 36 }", text));
    config.modes[0].rows.mappings[0].rule.clone().expect("a rule").action
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(sound(""), Config::default());
    assert_eq!(sound("# only a remark\n"), Config::default());
    assert_eq!(sound("\u{feff}schema = 1\r\n"), Config::default());
}

#[test]
fn the_studio_file_is_read_whole() {
    let config = sound(STUDIO);
    assert_eq!(config.default_mode, "Session");
    assert_eq!(config.modes.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["Session", "Mix"]);
    assert_eq!(config.advanced.listen_mode, ListenMode::Configured);
    assert_eq!((config.advanced.stick_deadzone, config.advanced.chord_learn_timeout_ms), (0.12, 150));
    assert_eq!(config.devices.len(), 5);
    assert_eq!(config.devices[1].channels, [0]);
    let rows = &config.modes[0].rows;
    assert_eq!(rows.mappings[0].id, "copy");
    assert_eq!(rows.mappings[0].written.trigger["zones"][0]["action"]["keys"], json!(["cmd", "c"]));
    let TriggerKind::VelocityRange { velocity, zones, .. } = &rows.mappings[0].rule.as_ref().unwrap().trigger.kind
    else {
        panic!("the trigger is not a velocity range")
    };
    assert_eq!((*velocity, zones.len()), (Window::VELOCITY, 2));
    assert_eq!(config.led.mode_colors["Mix"], "#c800ff");
    assert_eq!(config.per_app_modes.as_ref().unwrap().window_rules[0].title, "*mix*");
}

#[test]
fn both_spellings_of_a_keystroke_are_one_value() {
    let expected = Action::Keystroke(Keystroke {
        modifiers: vec![Modifier::Cmd, Modifier::Shift],
        key: Some(KeyName::Char('c')),
        hold: false,
    });
    for text in [
        r#"{ type = "Keystroke", keys = ["cmd", "shift", "c"] }"#,
        r#"{ type = "Keystroke", keys = ["c", "shift", "command"] }"#,
        r#"{ type = "Keystroke", keys = "c", modifiers = ["shift", "meta"] }"#,
        r#"{ type = "Keystroke", keys = ["super", "c"], modifiers = ["shift", "cmd"] }"#,
    ] {
        assert_eq!(action(text), expected, "{text}");
    }
    let alone = action(r#"{ type = "Keystroke", keys = "option", hold = true }"#);
    assert_eq!(alone, Action::Keystroke(Keystroke { modifiers: vec![Modifier::Alt], key: None, hold: true }));
    for (alias, key) in [
        ("enter", KeyName::Return),
        ("esc", KeyName::Escape),
        ("del", KeyName::Delete),
        (" ", KeyName::Space),
        ("f20", KeyName::F(20)),
    ] {
        let read = action(&format!("{{ type = \"Keystroke\", keys = \"{alias}\" }}"));
        assert_eq!(read, Action::Keystroke(Keystroke { modifiers: vec![], key: Some(key), hold: false }), "{alias}");
    }
}

#[test]
fn a_command_is_split_by_posix_quoting_and_never_expanded() {
    let argv = |command: &str| {
        // Loading reports a warning because no row allows the command, but the words are still
        // parsed.
        let loaded = config::load(&row(
            "{ type = \"Note\", note = 36 }",
            &format!("{{ type = \"Shell\", command = {command} }}"),
        ));
        let found: Vec<&str> = loaded.diagnostics.iter().filter_map(|it| it.help.as_deref()).collect();
        assert!(matches!(found.as_slice(), [help] if help.contains("[[tools.shell.commands]]")), "{found:?}");
        let read = loaded.config.expect("sound").modes[0].rows.mappings[0].rule.clone().expect("a rule").action;
        let Action::Shell { argv, timeout_ms: 30_000 } = read else { panic!("{read:?}") };
        argv
    };
    assert_eq!(argv(r#"'git log -n 5'"#), ["git", "log", "-n", "5"]);
    assert_eq!(argv(r#"''' say "a b"'c d'\ e  "" '''"#), ["say", "a bc d e", ""]);
    assert_eq!(argv(r#"'x "a\$b\n\"c"'"#), ["x", r#"a$b\n"c"#]);
    assert_eq!(argv(r#"'two words', args = ["$HOME"]"#), ["two words", "$HOME"]);

    let loaded = config::load(&row("{ type = \"Note\", note = 1 }", r#"{ type = "Shell", command = "ls $HOME" }"#));
    let [warning, _fits_no_command] = loaded.diagnostics.as_slice() else { panic!("{:#?}", loaded.diagnostics) };
    assert_eq!(warning.severity, Severity::Warning);
    assert!(warning.message.contains('$'), "{}", warning.message);
    assert!(loaded.valid());
}

#[test]
fn osc_arguments_have_types() {
    use conductor_core::event::OscArg;
    let sent = action(
        r#"{ type = "OscSend", host = "h", port = 9000, address = "/a", args = [1, 1.0, "x", true, { type = "float", value = 1 }, { type = "int", value = 2.0 }] }"#,
    );
    let Action::OscSend { args, .. } = sent else { panic!("{sent:?}") };
    assert_eq!(
        args,
        [
            OscArg::Int(1),
            OscArg::Float(1.0),
            OscArg::Text("x".into()),
            OscArg::Bool(true),
            OscArg::Float(1.0),
            OscArg::Int(2)
        ]
    );
}

#[test]
fn a_velocity_comes_from_the_trigger_unless_said_otherwise() {
    let velocity = |more: &str| {
        let text =
            format!("{{ type = \"SendMidi\", port = \"p\", channel = 0, message_type = \"NoteOn\", note = 60{more} }}");
        let Action::SendMidi(sent) = action(&text) else { panic!("{text}") };
        let MidiOut::NoteOn { velocity, .. } = sent.message else { panic!("{text}") };
        velocity
    };
    assert_eq!(velocity(""), Velocity::Trigger);
    assert_eq!(velocity(", velocity = 3"), Velocity::Fixed(3));
    assert_eq!(velocity(", velocity_map = { type = \"PassThrough\" }"), Velocity::Trigger);
    assert_eq!(
        velocity(", velocity_map = { type = \"Linear\", min = 1, max = 9 }"),
        Velocity::Linear { min: 1, max: 9 }
    );
}

#[test]
fn days_and_times_become_bits_and_minutes() {
    let read = action(
        r#"{ type = "Conditional", condition = { type = "And", conditions = [{ type = "DayOfWeek", days = [1, 7] }, { type = "TimeRange", start = "23:00", end = "06:30" }] }, then_action = { type = "Delay", ms = 0 } }"#,
    );
    let Action::Conditional { condition: Condition::And(all), .. } = read else { panic!("{read:?}") };
    assert_eq!(all, [Condition::DayOfWeek { days: 0b100_0001 }, Condition::TimeRange { start: 1380, end: 390 }]);
}

#[test]
fn every_fault_is_told_in_one_run_with_its_place() {
    let text = "\
schema = 1
[[modes]]
name = \"Default\"
[[modes.mappings]]
trigger = { type = \"CC\", cc = 128 }
action = { type = \"Delay\", ms = 10 }
[[modes.mappings]]
trigger = { type = \"Note\", nte = 36 }
action = { type = \"ModeChange\", mode = \"Defalt\" }
[advanced_settings]
chord_timeout_ms = 0
hold_threshold_ms = 700
";
    let loaded = config::load(text);
    let found: Vec<(u32, u32, &str)> =
        loaded.diagnostics.iter().map(|it| (it.line, it.column, it.message.as_str())).collect();
    assert_eq!(
        found,
        [
            (5, 31, "`cc` must be from 0 to 127, found 128"),
            (8, 28, "unknown key `nte`"),
            (9, 40, "there is no mode \"Defalt\""),
            (11, 20, "`chord_timeout_ms` must be from 1 to 60000, found 0"),
        ]
    );
    assert_eq!(loaded.diagnostics[0].path, "modes[0].mappings[0].trigger.cc");
    assert_eq!(loaded.diagnostics[1].help.as_deref(), Some("did you mean `note`?"));
    assert_eq!(loaded.diagnostics[2].help.as_deref(), Some("did you mean \"Default\"?"));
    assert!(!loaded.valid());
    let config = loaded.config.expect("the whole file was refused");
    assert!(config.modes[0].rows.mappings.iter().all(|it| it.rule.is_none()));
    assert_eq!((config.advanced.chord_timeout_ms, config.advanced.hold_threshold_ms), (50, 700));
}

#[test]
fn a_fault_is_drawn_with_a_caret() {
    let text = "[advanced_settings]\n\tlisten_mode = \"all\"\n";
    let loaded = config::load(text);
    let drawn = only_fault(&loaded).render(text, "config.toml");
    assert_eq!(
        drawn,
        "\
error: `listen_mode` is \"all\", which does not exist
 --> config.toml:2:16
  |
2 | \tlisten_mode = \"all\"
  | \t              ^^^^^
  = help: did you mean \"All\"?
"
    );
}

#[test]
fn a_fault_is_told_to_tools_and_in_lists() {
    let fault = &config::load("[led]\nbrightness = 128\n").diagnostics[0];
    assert_eq!(fault.summary(), "2:14: `brightness` must be from 0 to 127, found 128");
    assert_eq!(
        fault.to_json(),
        json!({ "severity": "error", "message": "`brightness` must be from 0 to 127, found 128", "help": null,
                "path": "led.brightness", "line": 2, "column": 14 })
    );
    let input = &config::input::action(&json!({ "type": "Delay", "ms": -1 }), "/action").unwrap_err()[0];
    assert_eq!(input.to_json()["path"], "/action/ms");
    assert_eq!(input.to_json()["line"], json!(null));
    assert!(input.render("", "arguments").contains("--> arguments: /action/ms"));
}

#[test]
fn syntax_faults_refuse_the_file_and_are_all_told() {
    let loaded = config::load("schema = \n[[modes]]\nname = \"A\"\nname = \"B\"\n");
    assert_eq!(loaded.config, None);
    let places: Vec<(Severity, u32, u32)> =
        loaded.diagnostics.iter().map(|it| (it.severity, it.line, it.column)).collect();
    assert_eq!(places, [(Severity::Fatal, 1, 10), (Severity::Fatal, 4, 1)]);
}

#[test]
fn fatal_faults_of_the_whole_file() {
    for text in ["schema = 2\n", "schema = \"1\"\n", "[[modes]]\nname = \"A\"\n[[modes]]\nname = \"A\"\n"] {
        let loaded = config::load(text);
        assert_eq!(only_fault(&loaded).severity, Severity::Fatal, "{text}");
        assert_eq!(loaded.config, None, "{text}");
    }
}

#[test]
fn ids_are_written_or_made_from_mode_and_trigger() {
    let text = "\
[[modes]]
name = \"A\"
mappings = [
  { trigger = { type = \"Note\", note = 1, velocity_range = [10, 20] }, action = { type = \"Delay\", ms = 1 } },
  { trigger = { type = \"Note\", velocity_max = 20, velocity_min = 10, note = 1 }, action = { type = \"Delay\", ms = 2 }, enabled = false },
  { id = \"mine\", trigger = { type = \"Note\", note = 2 }, action = { type = \"Delay\", ms = 1 } },
]
[[modes]]
name = \"B\"
mappings = [{ trigger = { type = \"Note\", note = 1, velocity_range = [10, 20] }, action = { type = \"Delay\", ms = 1 } }]
";
    let config = sound(text);
    let ids: Vec<&str> = config.modes.iter().flat_map(|it| &it.rows.mappings).map(|it| it.id.as_str()).collect();
    assert_eq!(ids[0].len(), 9);
    assert!(ids[0].starts_with('x'));
    assert_eq!(ids[1], format!("{}-2", ids[0]), "two spellings of one trigger have different ids");
    assert_eq!(ids[2], "mine");
    assert_ne!(ids[3], ids[0], "rows of different modes have the same id");
    let edited = text.replace("ms = 1", "ms = 9");
    let again = sound(&edited);
    assert_eq!(again.modes[0].rows.mappings[0].id, ids[0], "an edited action changed the id");
}

#[test]
fn overlapping_velocity_ranges_disable_the_later_row() {
    let text = "\
[[global_mappings]]
trigger = { type = \"VelocityRange\", note = 1, min = 1, max = 60 }
action = { type = \"Delay\", ms = 1 }
[[global_mappings]]
trigger = { type = \"VelocityRange\", note = 1, min = 60, max = 127 }
action = { type = \"Delay\", ms = 1 }
[[global_mappings]]
trigger = { type = \"VelocityRange\", note = 1, min = 61, max = 127 }
action = { type = \"Delay\", ms = 1 }
[[global_mappings]]
trigger = { type = \"VelocityRange\", note = 1, channel = 3 }
action = { type = \"Delay\", ms = 1 }
";
    let loaded = config::load(text);
    let fault = only_fault(&loaded);
    assert_eq!((fault.line, fault.column), (5, 11));
    let rules: Vec<bool> = loaded.config.unwrap().global.mappings.iter().map(|it| it.rule.is_some()).collect();
    assert_eq!(rules, [true, false, true, true]);
}

#[test]
fn a_second_row_with_the_same_trigger_is_a_warning_that_names_the_winner() {
    let text = "\
[[global_mappings]]
id = \"first\"
trigger = { type = \"NoteChord\", notes = [60, 64] }
action = { type = \"Delay\", ms = 1 }
[[global_mappings]]
id = \"second\"
trigger = { type = \"NoteChord\", notes = [64, 60] }
action = { type = \"Delay\", ms = 1 }
";
    let loaded = config::load(text);
    let warning = only_fault(&loaded);
    assert_eq!((warning.severity, warning.line), (Severity::Warning, 7));
    assert!(warning.message.contains("\"first\" wins"), "{}", warning.message);
    let off = text.replace("id = \"second\"", "enabled = false");
    assert!(config::load(&off).diagnostics.is_empty());
}

#[test]
fn a_note_that_nothing_ends_is_a_warning() {
    let note_on = r#"{ type = "SendMidi", port = "p", channel = 0, message_type = "NoteOn", note = 60 }"#;
    let note_off = r#"{ type = "SendMidi", port = "p", channel = 0, message_type = "NoteOff", note = 60 }"#;
    let with_end =
        r#"{ type = "SendMidi", port = "p", channel = 0, message_type = "NoteOn", note = 60, duration_ms = 9 }"#;
    let warned = |trigger: &str, action: &str| config::load(&row(trigger, action)).warnings().count();
    for trigger in [
        r#"{ type = "CC", cc = 1 }"#,
        r#"{ type = "Note", note = 1, on = "release" }"#,
        r#"{ type = "LongPress", note = 1, fire = "release" }"#,
    ] {
        assert_eq!(warned(trigger, note_on), 1, "{trigger}");
        assert_eq!(warned(trigger, with_end), 0, "{trigger}");
        let both = format!("{{ type = \"Sequence\", actions = [{note_on}, {note_off}] }}");
        assert_eq!(warned(trigger, &both), 0, "{trigger}");
        assert_eq!(warned(trigger, r#"{ type = "Keystroke", keys = "a", hold = true }"#), 1, "{trigger}");
    }
    assert_eq!(warned(r#"{ type = "Note", note = 1 }"#, note_on), 0);
}

#[test]
fn matchers_that_cannot_match_here_are_warnings() {
    let text = "[[devices]]\nalias = \"a\"\nmatchers = [{ type = \"CoreMidiUniqueId\", value = 7 }, { type = \"UsbTopology\", pattern = \"1-2\" }]\n";
    let on = |platform| config::load_with(text, &Surroundings { platform: Some(platform), ..Surroundings::default() });
    let messages = |loaded: &Loaded| loaded.diagnostics.iter().map(|it| it.message.clone()).collect::<Vec<_>>();
    assert!(messages(&on(Platform::Linux))[0].starts_with("CoreMidiUniqueId"));
    assert!(messages(&on(Platform::MacOs))[0].starts_with("UsbTopology"));
    assert_eq!(on(Platform::Windows).diagnostics.len(), 2);
    assert!(on(Platform::Windows).valid());
    assert!(config::load(text).diagnostics.is_empty());
    let usb = "matchers = [{ type = \"UsbIdentifier\", vendor_id = 1, product_id = 2 }]\n";
    for (protocol, platform, count) in [
        ("Midi", Platform::Linux, 0),
        ("Midi", Platform::MacOs, 1),
        ("Midi", Platform::Windows, 1),
        ("Gamepad", Platform::MacOs, 0),
    ] {
        let text = format!("[[devices]]\nalias = \"a\"\nprotocol = \"{protocol}\"\n{usb}");
        let around = Surroundings { platform: Some(platform), ..Surroundings::default() };
        let found = messages(&config::load_with(&text, &around));
        assert!(
            found.len() == count && found.iter().all(|it| it.starts_with("UsbIdentifier")),
            "{protocol}: {found:?}"
        );
    }
}

#[test]
fn names_from_outside_are_checked_when_known() {
    let set = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<String>>();
    let tools = set(&["live_undo"]);
    let ports = set(&["Synth"]);
    let plugins = BTreeMap::from([("one".to_owned(), set(&["a"])), ("two".to_owned(), set(&["a", "b"]))]);
    let around = Surroundings { platform: None, ports: Some(&ports), tools: Some(&tools), plugins: Some(&plugins) };
    let fault = |action: &str| {
        let text = row("{ type = \"Note\", note = 1 }", action);
        assert!(config::load(&text).valid(), "a name was checked without a list of names: {action}");
        let loaded = config::load_with(&text, &around);
        loaded.diagnostics.first().map(|it| it.help.clone().unwrap_or_default())
    };
    assert_eq!(fault(r#"{ type = "CallTool", tool = "live_undo" }"#), None);
    assert_eq!(fault(r#"{ type = "CallTool", tool = "live_undu" }"#).unwrap(), "did you mean \"live_undo\"?");
    assert_eq!(fault(r#"{ type = "Plugin", plugin = "one" }"#), None);
    assert_eq!(fault(r#"{ type = "Plugin", plugin = "two", tool = "b" }"#), None);
    assert_eq!(fault(r#"{ type = "Plugin", plugin = "two" }"#).unwrap(), "add tool = one of a, b");
    assert_eq!(fault(r#"{ type = "Plugin", plugin = "two", tool = "c" }"#).unwrap(), "its tools are a, b");
    assert_eq!(fault(r#"{ type = "MidiForward", target = "Synth" }"#), None);
    assert_eq!(fault(r#"{ type = "MidiForward", target = "_source" }"#), None);
    assert_eq!(fault(r#"{ type = "MidiForward", target = "Synt" }"#).unwrap(), "did you mean \"Synth\"?");
    let device = "[[devices]]\nalias = \"a\"\ntemplate = \"apc\"\n";
    assert!(!config::load(device).valid(), "an unknown template was accepted");
    assert!(!config::load_with(device, &around).valid());
}

#[test]
fn a_faulty_device_keeps_its_name_and_matches_nothing() {
    let text = "\
[[devices]]
alias = \"pads\"
matchers = [{ type = \"NameRegex\", pattern = \"(\" }]
loopback = true
[[global_mappings]]
trigger = { type = \"Note\", note = 1, device = \"pads\" }
action = { type = \"Delay\", ms = 1 }
";
    let loaded = config::load(text);
    let fault = only_fault(&loaded);
    assert_eq!((fault.line, fault.column), (3, 45));
    assert!(fault.message.contains("unclosed group"), "{}", fault.message);
    let config = loaded.config.unwrap();
    let device = &config.devices[0];
    assert!(!device.enabled && device.matchers.is_empty() && !device.loopback);
    assert!(config.global.mappings[0].rule.is_some());
}

#[test]
fn caps_on_actions() {
    let nested = |depth: usize| {
        let open = r#"{ type = "Sequence", actions = ["#.repeat(depth - 1);
        let close = "] }".repeat(depth - 1);
        format!("{open}{{ type = \"Delay\", ms = 1 }}{close}")
    };
    assert!(config::load(&row("{ type = \"Note\", note = 1 }", &nested(8))).valid());
    assert!(!config::load(&row("{ type = \"Note\", note = 1 }", &nested(9))).valid());

    // A sequence of `outer` sequences with `inner` delays each has 1 + outer * (1 + inner) parts.
    let wide = |outer: usize, inner: usize| {
        let delays = vec![r#"{ type = "Delay", ms = 1 }"#; inner].join(", ");
        let sequences = vec![format!("{{ type = \"Sequence\", actions = [{delays}] }}"); outer].join(", ");
        format!("{{ type = \"Sequence\", actions = [{sequences}] }}")
    };
    assert!(
        config::load(&row("{ type = \"Note\", note = 1 }", &wide(5, 50))).valid(),
        "an action with 256 parts was refused"
    );
    let loaded = config::load(&row("{ type = \"Note\", note = 1 }", &wide(4, 63)));
    assert_eq!(only_fault(&loaded).message, "this action has more than 256 parts");
}

#[test]
fn waits_and_coverage() {
    let config = sound(STUDIO);
    assert_eq!(timing_report::waits(&config), [], "a delay was reported for a key without a press rule");
    let with_press = format!(
        "{STUDIO}\n[[modes.mappings]]\ntrigger = {{ type = \"Note\", note = 51 }}\naction = {{ type = \"Delay\", ms = 1 }}\n\
         [[modes.mappings]]\ntrigger = {{ type = \"DoubleTap\", note = 51 }}\naction = {{ type = \"Delay\", ms = 1 }}\n"
    );
    // The rows are appended at the end of the file, but [[modes.mappings]] still belongs to the
    // last mode.
    let config = sound(&with_press);
    let found: Vec<String> = timing_report::waits(&config).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["Mix: note 51 waits up to 300 ms because of DoubleTap"]);
    assert_eq!(timing_report::waits(&config)[0].key, Key::Note(51));
    let coverage = timing_report::coverage(&config);
    assert_eq!((coverage.notes_used, coverage.cc_used, coverage.buttons_used, coverage.addresses_used), (5, 2, 0, 1));
}

#[test]
fn tool_input_is_read_by_the_same_code() {
    let trigger =
        config::input::trigger(&json!({ "type": "Note", "note": 36.0, "velocity_range": [1, 100] }), "").unwrap();
    let file = sound(&row("{ type = \"Note\", note = 36, velocity_max = 100 }", r#"{ type = "Delay", ms = 1 }"#));
    assert_eq!(trigger, file.modes[0].rows.mappings[0].rule.as_ref().unwrap().trigger);

    let faults = config::input::trigger(&json!({ "type": "NoteChord", "notes": [1, 200], "tieout_ms": 3 }), "/trigger")
        .unwrap_err();
    let found: Vec<(&str, &str)> = faults.iter().map(|it| (it.path.as_str(), it.message.as_str())).collect();
    assert_eq!(
        found,
        [
            ("/trigger/notes/1", "entry 1 of `notes` must be from 0 to 127, found 200"),
            ("/trigger/tieout_ms", "unknown key `tieout_ms`"),
        ]
    );
    assert_eq!(faults[1].help.as_deref(), Some("did you mean `timeout_ms`?"));
}

#[test]
fn a_policy_with_any_fault_is_no_policy() {
    use conductor_core::policy::{Decision, Policy};
    let good = "[[policy.rules]]\ntool = \"shell.*\"\ndecision = \"deny\"\n";
    let policy = sound(good).policy.expect("the policy was refused");
    assert_eq!((policy.rules.len(), policy.rules[0].decision), (1, Some(Decision::Deny)));
    for fault in [
        "decision = \"alow\"",
        "decision = \"allow\"\nprincipal = \"socket:1000/me\"",
        "tol = \"x\"\ndecision = \"ask\"",
    ] {
        let loaded = config::load(&format!("{good}[[policy.rules]]\n{fault}\n"));
        assert!(!loaded.valid());
        let config = loaded.config.expect("the whole file was refused");
        assert_eq!(config.policy, None, "{fault}");
    }
    assert_eq!(config::load("policy = 3\n").config.unwrap().policy, None);
    assert_eq!(
        config::load("[polcy]\n").config.unwrap().policy,
        None,
        "a file with a misspelt policy section has a policy"
    );
    assert_eq!(config::load("[policies_of_another_program]\n").config.unwrap().policy, Some(Policy::default()));
    assert_eq!(sound("").policy, Some(Policy::default()));
}

#[test]
fn every_line_of_a_policy_is_in_its_version_and_remarks_are_not() {
    let text = include_str!("../config_fixtures/every-field.toml");
    let version = |text: &str| config::load(text).config.unwrap().policy.unwrap().version(&json!({}), &json!({}));
    let base = version(text);
    assert_eq!(version(&text.replace("#|", "# or")), base);
    let start = text.find("[policy]").unwrap();
    let end = text.find("[limits]").unwrap();
    let mut varied = 0;
    for line in text[start..end].lines().filter(|it| it.contains(" #| ")) {
        let (key, other) = (line.split_once(" = ").unwrap().0, line.split_once(" #| ").unwrap().1);
        let changed = format!("{}{}", &text[..start], text[start..].replacen(line, &format!("{key} = {other}"), 1));
        assert_ne!(version(&changed), base, "{line}");
        varied += 1;
    }
    assert!(varied >= 19, "only {varied} lines");
    assert_eq!(
        version(&text.replace("in_flight = 257", "in_flight = 9")),
        base,
        "another section changed the version of the policy"
    );
}

#[test]
fn a_tools_breaker_is_the_common_one_with_its_own_words_over_it() {
    let config = sound(
        "[circuit]\nwindow_ms = 9\nfailures = 8\n[circuit.tools]\n\"shell.exec\" = { open_ms = 7 }\nmine = { failures = 1 }\n",
    );
    let tools = &config.circuit.tools;
    let shown = |tool: &str| (tools[tool].failures, tools[tool].window_ms, tools[tool].open_ms);
    assert_eq!((config.circuit.base.failures, config.circuit.base.open_ms), (8, 30_000));
    assert_eq!(shown("shell.exec"), (3, 9, 7), "the built-in value of the tool was not kept");
    assert_eq!(shown("database.query"), (10, 9, 15_000));
    assert_eq!(shown("mine"), (1, 9, 30_000));
}
