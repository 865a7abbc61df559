//! `config.toml` as values. [`load`] returns the sound items and every fault with its place: a
//! fault in one item disables that item, only a fault of the file as a whole refuses it.
//!
//! Not here: reading the file, watching it, or writing it back (the shell does; edits are made by
//! `plan`).

pub(crate) mod action;
mod audit;
mod continuous;
pub(crate) mod device;
pub mod held;
mod http;
pub mod input;
mod limits;
mod live;
mod mcp;
mod patch;
mod plugins;
mod policy;
pub(crate) mod reader;
mod render;
mod root;
pub(crate) mod rows;
pub mod schema;
mod settings;
pub mod timing_report;
mod tools;
pub(crate) mod tree;
pub(crate) mod trigger;

pub use audit::{Audit, AuditDetail, ReadOnlySync};
pub use http::{Http, HttpToken, Scope};
pub use limits::Circuit;
pub use mcp::{Mcp, ToolNames};
pub use plugins::{Plugin, PluginRetry, PluginTool, Plugins};
pub(crate) use root::load_with_tree;
pub use root::{Loaded, load, load_with};
pub use rows::GLOBAL;
pub use tools::{Database, DatabasePlace, FileRoot, KeyRung, MOST_ROWS_AFFECTED, Tools, Web};

use crate::action::{Action, Transform};
use crate::mapping::{Continuous, Trigger};
use crate::named_enum::named_enum;
use crate::policy::Policy;
use crate::policy::limits::{Limits, Retry};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The file that a first run writes: it changes nothing and shows examples.
pub const TUTORIAL: &str = include_str!("config/tutorial.toml");

/// The whole file after reading. Items that had an error are present, so that indexes and names
/// stay true, but carry no rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub default_mode: String,
    /// Never empty.
    pub modes: Vec<Mode>,
    pub global: Rows,
    pub devices: Vec<Device>,
    pub routes: Vec<Route>,
    pub feedback: Vec<Feedback>,
    pub watch: Watch,
    pub advanced: Advanced,
    pub performance: Performance,
    pub led: Led,
    pub per_app_modes: Option<PerAppModes>,
    pub log_level: LogLevel,
    /// Absent when the section has a fault: the policy that was in force before stays.
    pub policy: Option<Policy>,
    pub limits: Limits,
    pub circuit: Circuit,
    pub retry: Retry,
    pub audit: Audit,
    pub http: Http,
    pub mcp: Mcp,
    pub live: Live,
    pub patch: Patch,
    pub plugins: Plugins,
    pub tools: Tools,
    pub secrets: KeyRung,
}

/// `[live]`. Paths as written; `~/` is the person's own folder; a relative path is below the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub host: LiveHostChoice,
    pub default_set: String,
    pub template_set: String,
    pub file_roots: Vec<String>,
    pub max_open: u32,
    pub max_xml_mb: u32,
    pub undo_depth: u32,
    pub render_dir: String,
    pub osc: LiveOsc,
    /// `[live.script] timeout_ms`
    pub script_timeout_ms: u32,
}

named_enum! {
    /// `[live] host`: the target of calls that name no Set.
    pub enum LiveHostChoice {
        /// The script in Live, then AbletonOSC, then `default_set`.
        Auto = "auto",
        /// Always `default_set`.
        Document = "document",
        /// The AbletonOSC script in Live.
        AbletonOsc = "abletonosc",
        /// Our own script in Live.
        Script = "script",
    }
}

/// `[live.osc]`. `host` is an address, not a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOsc {
    pub host: String,
    pub port: u16,
    pub reply_port: u16,
    pub timeout_ms: u32,
}

impl Default for LiveOsc {
    fn default() -> Self {
        LiveOsc { host: "127.0.0.1".into(), port: 11_000, reply_port: 11_001, timeout_ms: 1500 }
    }
}

impl Default for Live {
    fn default() -> Self {
        Live {
            host: LiveHostChoice::Auto,
            default_set: String::new(),
            template_set: String::new(),
            file_roots: vec!["~/Music".into()],
            max_open: 8,
            max_xml_mb: 256,
            undo_depth: 200,
            render_dir: "state/renders".into(),
            osc: LiveOsc::default(),
            script_timeout_ms: 2000,
        }
    }
}

/// `[patch]`. Paths as written; `~/` is the person's own folder; a relative path is below `patches`
/// of the home.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// Folders in addition to `patches` of the home.
    pub roots: Vec<String>,
    /// Opened at start.
    pub open: Vec<String>,
    pub max_open: u32,
    pub max_file_mb: u32,
    pub journal_steps: u32,
    pub journal_mb: u32,
    pub pd: Pd,
    pub max: MaxBridge,
}

impl Default for Patch {
    fn default() -> Self {
        Patch {
            roots: Vec::new(),
            open: Vec::new(),
            max_open: 64,
            max_file_mb: 64,
            journal_steps: 200,
            journal_mb: 64,
            pd: Pd::default(),
            max: MaxBridge::default(),
        }
    }
}

/// `[patch.pd]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pd {
    pub mode: PdMode,
    pub command: String,
    pub sleepgrain_ms: f64,
    pub audio: PdAudio,
}

impl Default for Pd {
    fn default() -> Self {
        Pd { mode: PdMode::Off, command: "pd".into(), sleepgrain_ms: 0.5, audio: PdAudio::Off }
    }
}

named_enum! {
    /// How Pd runs.
    pub enum PdMode {
        /// No Pd.
        Off = "off",
        /// The daemon starts it.
        Spawn = "spawn",
        /// The person starts it, with our helper patch in it.
        Attach = "attach",
    }
}

named_enum! {
    /// Audio of a Pd that the daemon starts.
    pub enum PdAudio {
        /// No audio.
        Off = "off",
        /// Pd's own choice.
        Default = "default",
        /// JACK.
        Jack = "jack",
    }
}

/// `[patch.max]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxBridge {
    pub enabled: bool,
    /// 0 is a free one.
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    pub name: String,
    pub color: Option<String>,
    pub rows: Rows,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub mappings: Vec<Mapping>,
    pub continuous: Vec<ContinuousRow>,
}

/// A mapping of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// As written, else made from mode and trigger; unique within its mode.
    pub id: String,
    pub id_is_written: bool,
    pub description: Option<String>,
    pub enabled: bool,
    pub let_through: bool,
    /// Trigger and action as the file has them, so that `keys = ["cmd", "c"]` comes back as an
    /// array.
    pub written: Written,
    /// Absent when an error disabled this row.
    pub rule: Option<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    pub trigger: Value,
    pub action: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub trigger: Trigger,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ContinuousRow {
    pub id: String,
    pub id_is_written: bool,
    pub description: Option<String>,
    pub enabled: bool,
    /// The whole row as the file has it.
    pub written: Value,
    /// Absent when an error disabled this row.
    pub binding: Option<Continuous>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    pub alias: String,
    pub description: Option<String>,
    pub matchers: Vec<Matcher>,
    pub protocol: Protocol,
    pub direction: Direction,
    /// 0-15; empty means all.
    pub channels: Vec<u8>,
    pub enabled: bool,
    /// Name of a port this daemon creates.
    pub virtual_port: Option<String>,
    /// An in-process device with two ends: the port named by the alias, and `<alias> hand`.
    pub loopback: bool,
    /// Address of an OSC listener.
    pub listen: Option<String>,
    pub allow_network: bool,
    pub allow_sensitive_actions: bool,
    pub ask_output: bool,
    pub echo_guard: bool,
    /// Its input counts as played by hand, though any program could feed it.
    pub trusted: bool,
    pub template: Option<String>,
}

named_enum! {
    /// How a device talks.
    #[derive(Default)]
    pub enum Protocol {
        /// MIDI ports.
        #[default]
        Midi = "Midi",
        /// A game controller.
        Gamepad = "Gamepad",
        /// OSC over UDP.
        Osc = "Osc",
    }
}

named_enum! {
    /// Which ports of a device are opened.
    #[derive(Default)]
    pub enum Direction {
        /// Only its input.
        Input = "Input",
        /// Only its output.
        Output = "Output",
        /// Both.
        #[default]
        Bidirectional = "Bidirectional",
    }
}

impl Direction {
    pub fn has_input(self) -> bool {
        match self {
            Direction::Input | Direction::Bidirectional => true,
            Direction::Output => false,
        }
    }

    pub fn has_output(self) -> bool {
        match self {
            Direction::Output | Direction::Bidirectional => true,
            Direction::Input => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matcher {
    ExactName(String),
    NameContains(String),
    /// Compiles in a linear-time engine; checked when read.
    NameRegex(String),
    PlatformId(String),
    UsbTopology(String),
    ControllerGuid(String),
    UsbIdentifier {
        vendor_id: u16,
        product_id: u16,
    },
    CoreMidiUniqueId(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    pub from: String,
    pub to: String,
    pub filter: Filter,
    pub transform: Transform,
    /// Empty means every mode.
    pub modes: Vec<String>,
    pub enabled: bool,
}

/// Absent and empty fields let everything pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    pub note_range: Option<(u8, u8)>,
    pub cc_range: Option<(u8, u8)>,
    pub channels: Vec<u8>,
    pub message_types: Vec<MessageType>,
}

named_enum! {
    /// Kinds of MIDI messages that a filter can name.
    pub enum MessageType {
        NoteOn = "NoteOn",
        NoteOff = "NoteOff",
        Cc = "CC",
        ProgramChange = "ProgramChange",
        PitchBend = "PitchBend",
        Aftertouch = "Aftertouch",
        PolyAftertouch = "PolyAftertouch",
        SysEx = "SysEx",
        /// Clock, start, continue and stop.
        Clock = "Clock",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Feedback {
    pub device: String,
    pub out: FeedbackOut,
    pub from: FeedbackFrom,
    pub on: u8,
    pub off: u8,
    pub range: (u8, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FeedbackOut {
    Note { channel: u8, note: u8 },
    Cc { channel: u8, controller: u8 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedbackFrom {
    Mode(String),
    Pressed { mapping: String },
    Value { continuous: String },
    LiveParameter { path: String },
    Connected { device: String },
    PerformanceLock,
    PendingApprovals,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub watch: bool,
    pub debounce_ms: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { watch: true, debounce_ms: 75 }
    }
}

/// `[advanced_settings]`. A missing table means these values, not zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Advanced {
    pub chord_timeout_ms: u32,
    pub chord_learn_timeout_ms: u32,
    pub double_tap_timeout_ms: u32,
    pub hold_threshold_ms: u32,
    pub stick_deadzone: f64,
    pub trigger_deadzone: f64,
    pub listen_mode: ListenMode,
    pub max_midi_ports: u16,
    pub max_events_per_sec: u32,
    pub input_mode: InputMode,
    pub max_route_depth: u8,
    pub trace_buffer_size: u32,
    pub scan_interval_ms: u32,
}

impl Default for Advanced {
    fn default() -> Self {
        Advanced {
            chord_timeout_ms: 50,
            chord_learn_timeout_ms: 150,
            double_tap_timeout_ms: 300,
            hold_threshold_ms: 2000,
            stick_deadzone: 0.1,
            trigger_deadzone: 0.1,
            listen_mode: ListenMode::All,
            max_midi_ports: 32,
            max_events_per_sec: 10_000,
            input_mode: InputMode::Both,
            max_route_depth: 8,
            trace_buffer_size: 1000,
            scan_interval_ms: 5000,
        }
    }
}

named_enum! {
    /// Which ports are opened.
    pub enum ListenMode {
        /// Every port.
        All = "All",
        /// Only the ports of configured devices.
        Configured = "Configured",
    }
}

named_enum! {
    /// Which kinds of devices are opened.
    pub enum InputMode {
        /// MIDI and OSC only.
        MidiOnly = "MidiOnly",
        /// Gamepads only.
        GamepadOnly = "GamepadOnly",
        /// All.
        Both = "Both",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Performance {
    pub lock: bool,
    pub allow_output: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Led {
    pub scheme: LedScheme,
    pub brightness: u8,
    /// Mode name to colour as written (`#rrggbb` or a palette word).
    pub mode_colors: BTreeMap<String, String>,
}

impl Default for Led {
    fn default() -> Self {
        Led { scheme: LedScheme::Off, brightness: 127, mode_colors: BTreeMap::new() }
    }
}

named_enum! {
    /// Pattern of the lights on a controller.
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

#[derive(Clone, Debug, PartialEq)]
pub struct PerAppModes {
    pub default: Option<String>,
    /// Window class to mode; classes compare without case.
    pub rules: BTreeMap<String, String>,
    pub window_rules: Vec<WindowRule>,
    pub release_on_focus_change: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRule {
    pub app: String,
    /// A glob.
    pub title: String,
    pub mode: String,
}

named_enum! {
    /// Least severe message that is logged.
    #[derive(Default)]
    pub enum LogLevel {
        Error = "error",
        Warn = "warn",
        #[default]
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
}

impl Default for Config {
    /// The configuration without a file: one empty mode named `Default`.
    fn default() -> Self {
        Config {
            default_mode: "Default".into(),
            modes: vec![Mode { name: "Default".into(), color: None, rows: Rows::default() }],
            global: Rows::default(),
            devices: Vec::new(),
            routes: Vec::new(),
            feedback: Vec::new(),
            watch: Watch::default(),
            advanced: Advanced::default(),
            performance: Performance::default(),
            led: Led::default(),
            per_app_modes: None,
            log_level: LogLevel::default(),
            live: Live::default(),
            patch: Patch::default(),
            policy: Some(Policy::default()),
            limits: Limits::default(),
            circuit: Circuit::default(),
            retry: Retry::default(),
            audit: Audit::default(),
            http: Http::default(),
            mcp: Mcp::default(),
            plugins: Plugins::new(),
            tools: Tools::default(),
            secrets: KeyRung::default(),
        }
    }
}

/// One fault or remark about the file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub class: Class,
    pub message: String,
    /// A suggested correction.
    pub help: Option<String>,
    /// Where in the file, as a path such as `modes[0].mappings[2].trigger.note`; empty for the
    /// whole file. For the input of a tool, a JSON pointer such as `/trigger/note`; span, line and
    /// column are then 0.
    pub path: String,
    /// Byte range in the text.
    pub span: std::ops::Range<usize>,
    /// 1-based; columns count characters.
    pub line: u32,
    pub column: u32,
}

named_enum! {
    /// How much of the file a fault disables.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// Nothing.
        Warning = "warning",
        /// The item; the rest runs.
        Error = "error",
        /// The file as a whole; the old configuration stays.
        Fatal = "fatal",
    }
}

/// The check that found a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Not TOML.
    Syntax,
    /// Refused by the JSON schema too.
    Shape,
    /// A rule that no schema can express.
    Rule,
}

/// Facts that the names in a file are checked against. Absent facts are not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    pub platform: Option<Platform>,
    /// Exact names of the ports present, in addition to the devices of the file.
    pub ports: Option<&'a BTreeSet<String>>,
    /// Every tool of the catalog.
    pub tools: Option<&'a BTreeSet<String>>,
    /// Every plugin with its tools.
    pub plugins: Option<&'a BTreeMap<String, BTreeSet<String>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    Linux,
    MacOs,
    Windows,
}
