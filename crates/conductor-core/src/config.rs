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
pub(crate) mod form;
pub mod held;
mod http;
pub mod input;
mod limits;
mod live;
mod mcp;
mod patch;
mod plugins;
pub(crate) mod policy;
pub(crate) mod reader;
pub mod reference;
mod render;
mod root;
pub(crate) mod rows;
pub mod schema;
pub(crate) mod section;
mod settings;
pub mod timing_report;
mod tools;
pub(crate) mod tree;
pub(crate) mod trigger;

pub use audit::{Audit, AuditDetail, ReadOnlySync};
pub use http::{Http, HttpToken, Scope};
pub use limits::Circuit;
pub use live::{Live, LiveHostChoice, LiveOsc, LiveScript};
pub use mcp::{Mcp, ToolNames};
pub use patch::{MaxBridge, Patch, Pd, PdAudio, PdMode};
pub use plugins::{Plugin, PluginRetry, PluginTool, Plugins};
pub(crate) use root::load_with_tree;
pub use root::{Loaded, load, load_with};
pub use rows::GLOBAL;
pub use settings::{
    Advanced, InputMode, Led, LedScheme, ListenMode, LogLevel, PerAppModes, Performance, Watch, WindowRule,
};
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
