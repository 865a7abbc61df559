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
    /// Mode after a start; the first mode unless written.
    pub default_mode: String,
    /// Never empty.
    pub modes: Vec<Mode>,
    /// Rows that hold in every mode.
    pub global: Rows,
    /// `[[devices]]`.
    pub devices: Vec<Device>,
    /// `[[routes]]`.
    pub routes: Vec<Route>,
    /// `[[feedback]]`.
    pub feedback: Vec<Feedback>,
    /// `[config]`.
    pub watch: Watch,
    /// `[advanced_settings]`.
    pub advanced: Advanced,
    /// `[performance]`.
    pub performance: Performance,
    /// `[led]`.
    pub led: Led,
    /// `[per_app_modes]`.
    pub per_app_modes: Option<PerAppModes>,
    /// `[logging] level`.
    pub log_level: LogLevel,
    /// Absent when the section has a fault: the policy that was in force before stays.
    pub policy: Option<Policy>,
    /// `[limits]`.
    pub limits: Limits,
    /// `[circuit]`.
    pub circuit: Circuit,
    /// `[retry]`.
    pub retry: Retry,
    /// `[audit]`.
    pub audit: Audit,
    /// `[http]`.
    pub http: Http,
    /// `[mcp]`.
    pub mcp: Mcp,
    /// `[live]`.
    pub live: Live,
    /// `[patch]`.
    pub patch: Patch,
    /// `[plugins]`.
    pub plugins: Plugins,
    /// `[tools]`.
    pub tools: Tools,
    /// `[secrets] key`.
    pub secrets: KeyRung,
}

/// `[live]`. Paths as written; `~/` is the person's own folder; a relative path is below the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Target of calls that name no Set.
    pub host: LiveHostChoice,
    /// Set of the document host; empty for none.
    pub default_set: String,
    /// Set that new Sets are copied from; empty for the built-in one.
    pub template_set: String,
    /// Folders in which Sets may be opened.
    pub file_roots: Vec<String>,
    /// Sets open at the same time.
    pub max_open: u32,
    /// Largest unpacked Set in MiB.
    pub max_xml_mb: u32,
    /// Undo steps kept per Set.
    pub undo_depth: u32,
    /// Folder of rendered pictures.
    pub render_dir: String,
    /// `[live.osc]`.
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
    /// Address of the machine that runs Live.
    pub host: String,
    /// UDP port of AbletonOSC.
    pub port: u16,
    /// UDP port on which we receive replies.
    pub reply_port: u16,
    /// Longest wait for a reply.
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
    /// Patches open at the same time.
    pub max_open: u32,
    /// Largest patch file in MiB.
    pub max_file_mb: u32,
    /// Undo steps kept per patch.
    pub journal_steps: u32,
    /// Memory of the undo steps of a patch in MiB.
    pub journal_mb: u32,
    /// `[patch.pd]`.
    pub pd: Pd,
    /// `[patch.max]`.
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
    /// How Pd runs.
    pub mode: PdMode,
    /// Program to start.
    pub command: String,
    /// Longest sleep of Pd between two ticks.
    pub sleepgrain_ms: f64,
    /// Audio of a Pd that the daemon starts.
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
    /// Whether the daemon listens for the bridge in Max.
    pub enabled: bool,
    /// 0 is a free one.
    pub port: u16,
}

/// One `[[modes]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// Unique name.
    pub name: String,
    /// Colour of its lights, as written.
    pub color: Option<String>,
    /// Its mappings and bindings.
    pub rows: Rows,
}

/// The rows of a mode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// In the order of the file.
    pub mappings: Vec<Mapping>,
    /// In the order of the file.
    pub continuous: Vec<ContinuousRow>,
}

/// A mapping of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// As written, else made from mode and trigger; unique within its mode.
    pub id: String,
    /// Whether the file has the id.
    pub id_is_written: bool,
    /// For people.
    pub description: Option<String>,
    /// Whether the row is active.
    pub enabled: bool,
    /// Whether the event also goes to the routes.
    pub let_through: bool,
    /// Trigger and action as the file has them, so that `keys = ["cmd", "c"]` comes back as an
    /// array.
    pub written: Written,
    /// Absent when an error disabled this row.
    pub rule: Option<Rule>,
}

/// A row as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The `trigger` as JSON.
    pub trigger: Value,
    /// The `action` as JSON.
    pub action: Value,
}

/// A row that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The gesture that fires it.
    pub trigger: Trigger,
    /// The action that it runs.
    pub action: Action,
}

/// A continuous binding of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct ContinuousRow {
    /// As written, else made from mode and source; unique within its mode.
    pub id: String,
    /// Whether the file has the id.
    pub id_is_written: bool,
    /// For people.
    pub description: Option<String>,
    /// Whether the row is active.
    pub enabled: bool,
    /// The whole row as the file has it.
    pub written: Value,
    /// Absent when an error disabled this row.
    pub binding: Option<Continuous>,
}

/// One `[[devices]]`. The default matches and opens nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Unique name in the file.
    pub alias: String,
    /// For people.
    pub description: Option<String>,
    /// A port that fits any of them belongs to the device.
    pub matchers: Vec<Matcher>,
    /// How the device talks.
    pub protocol: Protocol,
    /// Which of its ports are opened.
    pub direction: Direction,
    /// 0-15; empty means all.
    pub channels: Vec<u8>,
    /// Whether the device is used.
    pub enabled: bool,
    /// Name of a port this daemon creates.
    pub virtual_port: Option<String>,
    /// An in-process device with two ends: the port named by the alias, and `<alias> hand`.
    pub loopback: bool,
    /// Address of an OSC listener.
    pub listen: Option<String>,
    /// Whether `listen` may be an address that other machines can reach.
    pub allow_network: bool,
    /// Whether its events may reach keys, programs and tools. OSC senders are not authenticated.
    pub allow_sensitive_actions: bool,
    /// Whether a tool that sends to it asks a person first.
    pub ask_output: bool,
    /// Whether our own output that comes back as input is dropped.
    pub echo_guard: bool,
    /// Its input counts as played by hand, though any program could feed it.
    pub trusted: bool,
    /// Name of a controller template.
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
    /// Whether input is opened.
    pub fn has_input(self) -> bool {
        match self {
            Direction::Input | Direction::Bidirectional => true,
            Direction::Output => false,
        }
    }

    /// Whether output is opened.
    pub fn has_output(self) -> bool {
        match self {
            Direction::Output | Direction::Bidirectional => true,
            Direction::Input => false,
        }
    }
}

/// One way to find the ports of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// The whole name of the port.
    ExactName(String),
    /// A part of the name.
    NameContains(String),
    /// Compiles in a linear-time engine; checked when read.
    NameRegex(String),
    /// The system's id of the port.
    PlatformId(String),
    /// The USB socket; Linux only.
    UsbTopology(String),
    /// GUID of a gamepad model.
    ControllerGuid(String),
    /// USB vendor and product.
    UsbIdentifier {
        /// idVendor.
        vendor_id: u16,
        /// idProduct.
        product_id: u16,
    },
    /// Unique id of the port; macOS only.
    CoreMidiUniqueId(i64),
}

/// One `[[routes]]`: MIDI from one port to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Device alias or port name.
    pub from: String,
    /// Device alias or port name.
    pub to: String,
    /// Messages that pass.
    pub filter: Filter,
    /// Changes on the way.
    pub transform: Transform,
    /// Empty means every mode.
    pub modes: Vec<String>,
    /// Whether the route is active.
    pub enabled: bool,
}

/// Absent and empty fields let everything pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Lowest and highest note.
    pub note_range: Option<(u8, u8)>,
    /// Lowest and highest controller.
    pub cc_range: Option<(u8, u8)>,
    /// 0-15.
    pub channels: Vec<u8>,
    /// Kinds of messages.
    pub message_types: Vec<MessageType>,
}

named_enum! {
    /// Kinds of MIDI messages that a filter can name.
    #[expect(missing_docs, reason = "the names say it")]
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

/// One `[[feedback]]`: a light or motor that shows a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Feedback {
    /// Alias of the device that is lit.
    pub device: String,
    /// Message that lights it.
    pub out: FeedbackOut,
    /// State that is shown.
    pub from: FeedbackFrom,
    /// Value for on, 0-127.
    pub on: u8,
    /// Value for off, 0-127.
    pub off: u8,
    /// Values for the lowest and the highest state.
    pub range: (u8, u8),
}

/// Address of a light; channels are 0-15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant describes its fields")]
pub enum FeedbackOut {
    /// A note, with the value as velocity.
    Note { channel: u8, note: u8 },
    /// A controller.
    Cc { channel: u8, controller: u8 },
}

/// The state that a light shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant describes its fields")]
pub enum FeedbackFrom {
    /// On while this mode is active.
    Mode(String),
    /// On while the key of this mapping is held.
    Pressed { mapping: String },
    /// The value of this continuous binding.
    Value { continuous: String },
    /// The value of this parameter in Live.
    LiveParameter { path: String },
    /// On while this device is present.
    Connected { device: String },
    /// On while the performance lock is on.
    PerformanceLock,
    /// On while a question waits for a person.
    PendingApprovals,
}

/// `[config]`: reloading of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Whether a saved file is loaded automatically.
    pub watch: bool,
    /// Quiet time after the last write before loading.
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
    /// Keys pressed within this time are a chord.
    pub chord_timeout_ms: u32,
    /// The same while learning, when people press less exactly.
    pub chord_learn_timeout_ms: u32,
    /// Longest time between two taps.
    pub double_tap_timeout_ms: u32,
    /// A press is long after this time.
    pub hold_threshold_ms: u32,
    /// Part of the way of a stick that is ignored, 0-0.9.
    pub stick_deadzone: f64,
    /// Part of the way of a trigger that is ignored, 0-0.9.
    pub trigger_deadzone: f64,
    /// Which ports are opened.
    pub listen_mode: ListenMode,
    /// Most ports without a device that are opened.
    pub max_midi_ports: u16,
    /// Events of one device per second; above it values are merged and the rest is dropped.
    pub max_events_per_sec: u32,
    /// Which kinds of devices are opened.
    pub input_mode: InputMode,
    /// How often a message may be sent on.
    pub max_route_depth: u8,
    /// Events kept in the trace.
    pub trace_buffer_size: u32,
    /// Time between two scans for ports.
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
        /// Also ports without a device, up to `max_midi_ports`.
        All = "All",
        /// Only the ports of configured devices.
        Configured = "Configured",
    }
}

named_enum! {
    /// Which kinds of devices are opened.
    pub enum InputMode {
        /// No gamepads.
        MidiOnly = "MidiOnly",
        /// No MIDI.
        GamepadOnly = "GamepadOnly",
        /// Every device.
        Both = "Both",
    }
}

/// `[performance]`: protection on stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Performance {
    /// Whether only a person may change what is on stage.
    pub lock: bool,
    /// Ports that tools may send to while the lock is on.
    pub allow_output: Vec<String>,
}

/// `[led]`: the lights of controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct Led {
    /// Pattern of the lights.
    pub scheme: LedScheme,
    /// 0-127.
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
    #[expect(missing_docs, reason = "the names say it")]
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

/// `[per_app_modes]`: the focused window selects the mode.
#[derive(Clone, Debug, PartialEq)]
pub struct PerAppModes {
    /// Mode for every other window; absent keeps the mode.
    pub default: Option<String>,
    /// Window class to mode; classes compare without case.
    pub rules: BTreeMap<String, String>,
    /// Tried in order, before `rules`.
    pub window_rules: Vec<WindowRule>,
    /// Whether a mode chosen by hand ends when another window gets the focus.
    pub release_on_focus_change: bool,
}

/// One `[[per_app_modes.window_rules]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRule {
    /// Window class; compared without case.
    pub app: String,
    /// A glob.
    pub title: String,
    /// Mode to switch to.
    pub mode: String,
}

named_enum! {
    /// Least severe message that is logged.
    #[derive(Default)]
    #[expect(missing_docs, reason = "the names say it")]
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
    /// How much of the file it disables.
    pub severity: Severity,
    /// The check that found it.
    pub class: Class,
    /// One sentence without its end.
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
    /// 1-based, in characters.
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
    /// Checks which matchers can match here.
    pub platform: Option<Platform>,
    /// Exact names of the ports present, in addition to the devices of the file.
    pub ports: Option<&'a BTreeSet<String>>,
    /// Every tool of the catalog.
    pub tools: Option<&'a BTreeSet<String>>,
    /// Every plugin with its tools.
    pub plugins: Option<&'a BTreeMap<String, BTreeSet<String>>>,
}

/// The operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}
