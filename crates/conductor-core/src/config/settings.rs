//! The sections `config`, `advanced_settings`, `performance`, `led`, `per_app_modes` and `logging`.
//!
//! Not here: the other sections. Each of them has its own file and one line in `root`.

use super::form::{Form, boolean, by, filled, list, mode_name, ms, named, names, number, output_port, set, u7, whole};
use super::reader::{Reader, nearest, suggestion};
use super::section::{entry, row, section};
use super::tree::{Entry, Node};
use crate::named_enum::named_enum;
use std::collections::BTreeMap;

/// Names of colours that every palette has.
const COLORS: &[&str] =
    &["off", "white", "red", "orange", "amber", "yellow", "green", "cyan", "blue", "purple", "magenta", "pink"];

section! {
    /// How the daemon reloads the file.
    pub struct Watch {
        /// Whether a saved file is loaded automatically.
        watch: bool = true, boolean(), "false";
        /// Time in milliseconds after the last write before the file is loaded.
        debounce_ms: u32 = 75, whole(0..=10_000), "200";
    }
}

section! {
    /// Gesture times, device limits, and which devices are opened.
    pub struct Advanced {
        /// Keys pressed within this time in milliseconds are a chord.
        chord_timeout_ms: u32 = 50, ms(), "40";
        /// Chord timeout in milliseconds while learning. It is longer, because people then press
        /// less precisely.
        chord_learn_timeout_ms: u32 = 150, ms(), "200";
        /// Longest time in milliseconds between the two taps of a double tap.
        double_tap_timeout_ms: u32 = 300, ms(), "250";
        /// Time in milliseconds after which a press is a long press.
        hold_threshold_ms: u32 = 2000, ms(), "1000";
        /// Ignored part of a gamepad stick's travel.
        stick_deadzone: f64 = 0.1, number(0.0..=0.9), "0.2";
        /// Ignored part of a gamepad trigger's travel.
        trigger_deadzone: f64 = 0.1, number(0.0..=0.9), "0.05";
        /// Which ports are opened. `All`: those of configured devices, and up to `max_midi_ports`
        /// others. `Configured`: only those of configured devices.
        listen_mode: ListenMode = ListenMode::All, named(), "\"Configured\"";
        /// Maximum number of opened ports that match no device in the file.
        max_midi_ports: u16 = 32, whole(1..=256), "8";
        /// Maximum number of events from one device per second. Above this limit, releases still
        /// pass, continuous values are merged, and other events are dropped.
        max_events_per_sec: u32 = 10_000, whole(1..=1_000_000), "5000";
        /// Which kinds of devices are opened.
        input_mode: InputMode = InputMode::Both, named(), "\"MidiOnly\"";
        /// How many times one message may be forwarded.
        max_route_depth: u8 = 8, whole(1..=8), "4";
        /// Number of events kept in the trace.
        trace_buffer_size: u32 = 1000, whole(1..=100_000), "5000";
        /// Time in milliseconds between two scans for ports.
        scan_interval_ms: u32 = 5000, whole(100..=600_000), "10000";
    }
}

named_enum! {
    /// Which ports are opened.
    pub enum ListenMode {
        /// All ports of configured devices, and up to `max_midi_ports` other ports.
        All = "All",
        /// Only the ports of configured devices.
        Configured = "Configured",
    }
}

named_enum! {
    /// Which kinds of devices are opened.
    pub enum InputMode {
        /// Only MIDI devices are opened, no gamepads.
        MidiOnly = "MidiOnly",
        /// Only gamepads are opened, no MIDI devices.
        GamepadOnly = "GamepadOnly",
        /// MIDI devices and gamepads are opened.
        Both = "Both",
    }
}

section! {
    /// Prevents changes by tools during a show.
    #[derive(Eq)]
    pub struct Performance {
        /// Whether the performance lock is on. While it is on, plans cannot be applied, and tools
        /// cannot switch modes, mute devices or send MIDI.
        lock: bool = false, boolean(), "true";
        /// Ports that tools may send to while the lock is on.
        allow_output: Vec<String> = Vec::new(), set(output_port(), 0..=usize::MAX), "[\"synth\"]";
    }
}

section! {
    /// The lights of controllers.
    pub struct Led {
        /// Pattern of the lights.
        scheme: LedScheme = LedScheme::Off, named(), "\"reactive\"";
        /// Brightness of the lights.
        brightness: u8 = 127, u7(), "96";
        /// The colour of each mode: `#rrggbb` or the name of a colour.
        mode_colors: BTreeMap<String, String> = BTreeMap::new(), by(mode_colors),
            "{ Default = \"blue\" }";
    }
}

named_enum! {
    /// Pattern of the lights on a controller.
    #[expect(missing_docs, reason = "the names explain themselves")]
    pub enum LedScheme {
        Off = "off",
        Static = "static",
        Breathing = "breathing",
        Pulse = "pulse",
        Rainbow = "rainbow",
        Wave = "wave",
        Sparkle = "sparkle",
        Reactive = "reactive",
        Vumeter = "vumeter",
        Spiral = "spiral",
    }
}

section! {
    /// The focused window selects the mode.
    pub struct PerAppModes {
        /// Mode for windows that match no rule. If absent, the mode does not change.
        default: Option<String> = None, mode_name().maybe(), "\"Default\"";
        /// The mode for each window class; case is ignored.
        rules: BTreeMap<String, String> = BTreeMap::new(), names(mode_name()), "{ Live = \"Default\" }";
        /// Rules for window titles, tried in order before `rules`.
        window_rules: Vec<WindowRule> = Vec::new(), list(entry(), 0..=usize::MAX);
        /// Whether a mode that was selected by a pad, a tool or a command is released when another
        /// window gets the focus, so that the rules apply again.
        release_on_focus_change: bool = true, boolean(), "false";
    }
}

row! {
    /// A mode for a window title.
    #[derive(Eq)]
    pub struct WindowRule {
        /// Window class; case is ignored.
        app: String, filled(), "\"firefox\"";
        /// Glob pattern for the window title.
        title: String, filled(), "\"*Mixer*\"";
        /// Mode to switch to.
        mode: String, mode_name(), "\"Default\"";
    }
}

section! {
    /// The daemon's log.
    pub(crate) struct Logging {
        /// The least severe level that is logged.
        level: LogLevel = LogLevel::Info, named(), "\"debug\"";
    }
}

named_enum! {
    /// The least severe level that is logged.
    #[derive(Default)]
    #[expect(missing_docs, reason = "the names explain themselves")]
    pub enum LogLevel {
        Error = "error",
        Warn = "warn",
        #[default]
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
}

/// The name of a colour, or `#rrggbb`. An unknown name causes a warning but is kept, because the
/// palette of a device may contain it.
pub(crate) fn color<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let text = r.name(node)?;
    if let Some(hex) = text.strip_prefix('#') {
        if hex.len() != 6 || !hex.bytes().all(|it| it.is_ascii_hexdigit()) {
            let help = Some("write six hex digits, such as \"#0064ff\"".to_owned());
            r.warn(&node.place, format!("\"{text}\" is not a colour"), help);
        }
    } else if !COLORS.contains(&text.as_str()) {
        let near = nearest(&text, COLORS.iter().copied());
        let help = near.map_or_else(
            || format!("known colours are {}, or \"#rrggbb\"", COLORS.join(", ")),
            |it| format!("did you mean \"{it}\"?"),
        );
        r.warn(&node.place, format!("\"{text}\" is not a known colour"), Some(help));
    }
    Some(text)
}

fn mode_colors<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<BTreeMap<String, String>> {
    r.map_of(node, |r, entry| {
        known_mode(r, entry)?;
        color(r, &entry.node)
    })
}

fn known_mode<'t>(r: &mut Reader<'t>, entry: &'t Entry) -> Option<()> {
    let modes = r.names.modes.as_ref().filter(|modes| !modes.contains(&entry.key));
    let Some(modes) = modes else { return Some(()) };
    let help = suggestion(&entry.key, modes, "modes are");
    r.rule_help(&entry.key_place, format!("there is no mode \"{}\"", entry.key), help);
    None
}
