//! The types of `config.toml`. [`load`] returns the valid items, and every fault with its place in
//! the file. A fault in one item disables only that item. The whole file is refused only for a
//! fault such as a syntax error.
//!
//! Not here: reading, watching and writing the file on disk (the `conductor` crate does that), and
//! edits of its text (`plan`).

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

/// The file that a first run writes: one empty mode, and examples as comments.
pub const TUTORIAL: &str = include_str!("config/tutorial.toml");

/// The whole file after reading. An item with an error is kept without its rule, so that indexes
/// and names still match the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Mode after a start. Default: the first mode.
    pub default_mode: String,
    /// All modes; never empty.
    pub modes: Vec<Mode>,
    /// Rows that are active in every mode.
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
    /// `[policy]`. Absent when the section has a fault; the previous policy then stays in force.
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

/// `[live]`. Paths are stored as written: `~/` is the user's home directory, and a relative path
/// starts at Conductor's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Target of calls that name no Set.
    pub host: LiveHostChoice,
    /// Set file for calls that name no Set and use no running Live; empty means none.
    pub default_set: String,
    /// Set that new Sets are copied from; empty means the built-in template.
    pub template_set: String,
    /// Folders in which Sets may be opened.
    pub file_roots: Vec<String>,
    /// Maximum number of Sets that are open at the same time.
    pub max_open: u32,
    /// Largest unpacked Set in MiB.
    pub max_xml_mb: u32,
    /// Number of undo steps kept per Set.
    pub undo_depth: u32,
    /// Folder of rendered pictures.
    pub render_dir: String,
    /// `[live.osc]`.
    pub osc: LiveOsc,
    /// `[live.script] timeout_ms`: longest wait for a reply of our script.
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

/// `[patch]`. Paths are stored as written: `~/` is the user's home directory, and a relative path
/// starts at `patches` in Conductor's home.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// Folders of patches, in addition to `patches` in Conductor's home.
    pub roots: Vec<String>,
    /// Patches that are opened at start.
    pub open: Vec<String>,
    /// Maximum number of patches that are open at the same time.
    pub max_open: u32,
    /// Largest patch file in MiB.
    pub max_file_mb: u32,
    /// Number of undo steps kept per patch.
    pub journal_steps: u32,
    /// Maximum memory for the undo steps of one patch, in MiB.
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
    /// Command that starts Pd.
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
        /// The daemon starts Pd.
        Spawn = "spawn",
        /// A person starts Pd and opens our helper patch in it.
        Attach = "attach",
    }
}

named_enum! {
    /// Audio of a Pd that the daemon starts.
    pub enum PdAudio {
        /// No audio.
        Off = "off",
        /// The audio settings that Pd uses by default.
        Default = "default",
        /// Audio through JACK.
        Jack = "jack",
    }
}

/// `[patch.max]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxBridge {
    /// Whether the daemon listens for the bridge in Max.
    pub enabled: bool,
    /// TCP port of the listener; 0 means any free port.
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
    /// The mappings in the order of the file.
    pub mappings: Vec<Mapping>,
    /// The continuous bindings in the order of the file.
    pub continuous: Vec<ContinuousRow>,
}

/// A mapping of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// The id in the file, or one generated from mode and trigger. Unique within its mode.
    pub id: String,
    /// Whether the id is in the file and not generated.
    pub id_is_written: bool,
    /// Free text for people.
    pub description: Option<String>,
    /// Whether the row is active.
    pub enabled: bool,
    /// Whether the event is also sent through the routes.
    pub let_through: bool,
    /// Trigger and action as written in the file, so that `keys = ["cmd", "c"]` is returned as an
    /// array.
    pub written: Written,
    /// Absent when an error disabled this row.
    pub rule: Option<Rule>,
}

/// A row as written in the file.
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
    /// The gesture that fires the row.
    pub trigger: Trigger,
    /// The action that the row runs.
    pub action: Action,
}

/// A continuous binding of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct ContinuousRow {
    /// The id in the file, or one generated from mode and source. Unique within its mode.
    pub id: String,
    /// Whether the id is in the file and not generated.
    pub id_is_written: bool,
    /// Free text for people.
    pub description: Option<String>,
    /// Whether the row is active.
    pub enabled: bool,
    /// The whole row as written in the file.
    pub written: Value,
    /// Absent when an error disabled this row.
    pub binding: Option<Continuous>,
}

/// One `[[devices]]`. The default matches and opens nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Unique name in the file.
    pub alias: String,
    /// Free text for people.
    pub description: Option<String>,
    /// A port that matches any of these belongs to the device.
    pub matchers: Vec<Matcher>,
    /// The kind of connection.
    pub protocol: Protocol,
    /// Which of its ports are opened.
    pub direction: Direction,
    /// MIDI channels, 0-15; empty means all.
    pub channels: Vec<u8>,
    /// Whether the device is used.
    pub enabled: bool,
    /// Name of a virtual port that the daemon creates.
    pub virtual_port: Option<String>,
    /// Whether this is an in-process device with two ports: one is named like the alias, the other
    /// `<alias> hand`.
    pub loopback: bool,
    /// Address of an OSC listener.
    pub listen: Option<String>,
    /// Whether `listen` may be an address that other machines can reach.
    pub allow_network: bool,
    /// Whether events of this device may press keys, start programs and call tools. Off by default
    /// for OSC, because OSC senders are not authenticated.
    pub allow_sensitive_actions: bool,
    /// Whether a tool needs a person's approval before it sends to the device.
    pub ask_output: bool,
    /// Whether input that echoes our own output is dropped.
    pub echo_guard: bool,
    /// Whether its input is treated as played by a person, although any program could send to it.
    pub trusted: bool,
    /// Name of a controller template.
    pub template: Option<String>,
}

named_enum! {
    /// The kind of connection of a device.
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
    /// A regular expression for the name. Compiled with a linear-time engine when the file is read.
    NameRegex(String),
    /// The system's id of the port.
    PlatformId(String),
    /// The USB socket that the device is plugged into; Linux only.
    UsbTopology(String),
    /// GUID of a gamepad model.
    ControllerGuid(String),
    /// USB vendor and product.
    UsbIdentifier {
        /// USB vendor id (`idVendor`).
        vendor_id: u16,
        /// USB product id (`idProduct`).
        product_id: u16,
    },
    /// Unique id of the port; macOS only.
    CoreMidiUniqueId(i64),
}

/// One `[[routes]]`: sends MIDI from one port to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Source: a device alias or a port name.
    pub from: String,
    /// Target: a device alias or a port name.
    pub to: String,
    /// Messages that pass.
    pub filter: Filter,
    /// Changes to each message.
    pub transform: Transform,
    /// Modes in which the route is active; empty means every mode.
    pub modes: Vec<String>,
    /// Whether the route is active.
    pub enabled: bool,
}

/// Selects the messages of a route. An absent or empty field lets all messages pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Lowest and highest note.
    pub note_range: Option<(u8, u8)>,
    /// Lowest and highest controller.
    pub cc_range: Option<(u8, u8)>,
    /// MIDI channels, 0-15.
    pub channels: Vec<u8>,
    /// Kinds of messages.
    pub message_types: Vec<MessageType>,
}

named_enum! {
    /// Kinds of MIDI messages that a filter can name.
    #[expect(missing_docs, reason = "the names are self-explanatory")]
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

/// One `[[feedback]]`: a light or a motor of a controller that shows a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Feedback {
    /// Alias of the device with the light.
    pub device: String,
    /// Message that sets the light.
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
    /// A control change, with the value as controller value.
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
    /// On while an approval request is open.
    PendingApprovals,
}

/// `[config]`: reloading of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Whether a saved file is loaded automatically.
    pub watch: bool,
    /// Time after the last write before the file is loaded.
    pub debounce_ms: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { watch: true, debounce_ms: 75 }
    }
}

/// `[advanced_settings]`. A missing table means the values of `Default`, not zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Advanced {
    /// Keys pressed within this time are a chord.
    pub chord_timeout_ms: u32,
    /// The chord timeout while learning; longer because people press less exactly then.
    pub chord_learn_timeout_ms: u32,
    /// Longest time between the two taps of a double tap.
    pub double_tap_timeout_ms: u32,
    /// Time after which a press is a long press.
    pub hold_threshold_ms: u32,
    /// Part of a stick's travel that is ignored, 0-0.9.
    pub stick_deadzone: f64,
    /// Part of a trigger's travel that is ignored, 0-0.9.
    pub trigger_deadzone: f64,
    /// Which ports are opened.
    pub listen_mode: ListenMode,
    /// Maximum number of ports that are opened although no device of the file matches them.
    pub max_midi_ports: u16,
    /// Maximum number of events of one device per second. Above this limit, releases still pass,
    /// continuous values are merged, and other events are dropped.
    pub max_events_per_sec: u32,
    /// Which kinds of devices are opened.
    pub input_mode: InputMode,
    /// How many times one message may be forwarded.
    pub max_route_depth: u8,
    /// Number of events kept in the trace.
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
        /// All ports: those of configured devices, and up to `max_midi_ports` others.
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

/// `[performance]`: protects a show from changes by tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Performance {
    /// Whether the performance lock is on. It refuses to apply plans, and refuses tools that switch
    /// modes, mute devices or send MIDI.
    pub lock: bool,
    /// Ports that tools may send to while the lock is on.
    pub allow_output: Vec<String>,
}

/// `[led]`: the lights of controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct Led {
    /// Pattern of the lights.
    pub scheme: LedScheme,
    /// Brightness, 0-127.
    pub brightness: u8,
    /// The colour of each mode as written: `#rrggbb` or the name of a colour.
    pub mode_colors: BTreeMap<String, String>,
}

impl Default for Led {
    fn default() -> Self {
        Led { scheme: LedScheme::Off, brightness: 127, mode_colors: BTreeMap::new() }
    }
}

named_enum! {
    /// Pattern of the lights on a controller.
    #[expect(missing_docs, reason = "the names are self-explanatory")]
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
    /// Mode for windows that match no rule. If absent, the mode does not change.
    pub default: Option<String>,
    /// The mode for each window class; case is ignored.
    pub rules: BTreeMap<String, String>,
    /// Rules for window titles, tried in order before `rules`.
    pub window_rules: Vec<WindowRule>,
    /// Whether a mode that a person selected ends when another window gets the focus.
    pub release_on_focus_change: bool,
}

/// One `[[per_app_modes.window_rules]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRule {
    /// Window class; case is ignored.
    pub app: String,
    /// Glob pattern for the window title.
    pub title: String,
    /// Mode to switch to.
    pub mode: String,
}

named_enum! {
    /// The least severe level that is logged.
    #[derive(Default)]
    #[expect(missing_docs, reason = "the names are self-explanatory")]
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

/// One fault or warning about the file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much of the file the fault disables.
    pub severity: Severity,
    /// The kind of check that found the fault.
    pub class: Class,
    /// One sentence without its full stop.
    pub message: String,
    /// A suggested correction.
    pub help: Option<String>,
    /// Place in the file, as a path such as `modes[0].mappings[2].trigger.note`; empty for the
    /// whole file. For the input of a tool, this is a JSON pointer such as `/trigger/note`, and
    /// span, line and column are 0.
    pub path: String,
    /// Byte range in the text.
    pub span: std::ops::Range<usize>,
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
}

named_enum! {
    /// How much of the file a fault disables.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// Disables nothing.
        Warning = "warning",
        /// Disables the item; the rest of the file is loaded.
        Error = "error",
        /// The whole file is refused; the old configuration stays in force.
        Fatal = "fatal",
    }
}

/// The kind of check that found a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The text is not valid TOML.
    Syntax,
    /// The JSON schema also refuses the value.
    Shape,
    /// The value violates a rule that a JSON schema cannot express.
    Rule,
}

/// Facts that the names in a file are checked against. Absent facts are not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The operating system, to warn about matchers that cannot match on it.
    pub platform: Option<Platform>,
    /// Exact names of the ports that exist now. A name may also be a device of the file.
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
