//! The types of `config.toml`. [`load`] returns the valid items, and every fault with its place in
//! the file. A fault in one item disables only that item. The whole file is refused only for a
//! fatal fault, such as a syntax error.
//!
//! Not here: reading, watching and writing the file on disk (the `conductor` crate does that), and
//! edits of its text (`plan`).

mod absolute;
pub(crate) mod action;
mod audit;
mod cluster;
mod continuous;
pub(crate) mod device;
pub(crate) mod form;
pub mod held;
pub(crate) mod http;
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
pub(crate) mod webhooks;

pub use audit::{Audit, AuditDetail, ReadOnlySync};
pub use cluster::{Cluster, ClusterRig, Decider};
pub use device::{
    Device, Direction, Feedback, FeedbackFrom, FeedbackOut, Filter, Matcher, MessageType, Protocol, Route,
};
pub use http::{HookSignature, Http, HttpHook, HttpOauth, HttpTls, HttpToken, JwtAlgorithm, OauthScope, Scope};
pub use limits::Circuit;
pub use live::{Live, LiveHostChoice, LiveOsc, LiveScript};
pub use mcp::{Mcp, OutputSchemas, ToolNames, ToolView};
pub use patch::{MaxBridge, Patch, Pd, PdAudio, PdMode};
pub use plugins::{Plugin, PluginRetry, PluginTool, Plugins};
pub(crate) use root::load_with_tree;
pub use root::{Loaded, load, load_with};
pub use rows::GLOBAL;
pub use settings::{
    Advanced, InputMode, Led, LedScheme, ListenMode, LogLevel, PerAppModes, Performance, Watch, WindowRule,
};
pub use tools::{Database, DatabasePlace, FileRoot, KeyRung, MOST_ROWS_AFFECTED, Tools, Web};
pub use webhooks::{Webhook, WebhookEvent};

use crate::action::Action;
use crate::mapping::{Continuous, Trigger};
use crate::named_enum::named_enum;
use crate::policy::Policy;
use crate::policy::limits::{Limits, Retry};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The file that a first run writes: one empty mode, and examples as comments.
pub const TUTORIAL: &str = include_str!("config/tutorial.toml");

/// The content of the file. A row with an error is kept without its rule, so that indexes and names
/// still match the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Mode after a start. Default: the first mode.
    pub default_mode: String,
    /// All modes; never empty.
    pub modes: Vec<Mode>,
    /// Rows that are active in every mode.
    pub global: Rows,
    /// The rows of `[[devices]]`.
    pub devices: Vec<Device>,
    /// The rows of `[[routes]]`.
    pub routes: Vec<Route>,
    /// The rows of `[[feedback]]`.
    pub feedback: Vec<Feedback>,
    /// The section `[config]`.
    pub watch: Watch,
    /// The section `[advanced_settings]`.
    pub advanced: Advanced,
    /// The section `[performance]`.
    pub performance: Performance,
    /// The section `[led]`.
    pub led: Led,
    /// The section `[per_app_modes]`.
    pub per_app_modes: Option<PerAppModes>,
    /// The key `level` of `[logging]`.
    pub log_level: LogLevel,
    /// The section `[policy]`. Absent when the section has a fault; the previous policy then stays
    /// in force.
    pub policy: Option<Policy>,
    /// The section `[limits]`.
    pub limits: Limits,
    /// The section `[circuit]`.
    pub circuit: Circuit,
    /// The section `[retry]`.
    pub retry: Retry,
    /// The section `[audit]`.
    pub audit: Audit,
    /// The section `[http]`.
    pub http: Http,
    /// The rows of `[[webhooks]]`.
    pub webhooks: Vec<Webhook>,
    /// The section `[cluster]`.
    pub cluster: Cluster,
    /// The section `[mcp]`.
    pub mcp: Mcp,
    /// The section `[live]`.
    pub live: Live,
    /// The section `[patch]`.
    pub patch: Patch,
    /// The section `[plugins]`.
    pub plugins: Plugins,
    /// The section `[tools]`.
    pub tools: Tools,
    /// The key `key` of `[secrets]`.
    pub secrets: KeyRung,
}

/// One entry of `[[modes]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// The unique name of the mode.
    pub name: String,
    /// Colour of the mode's lights, as written in the file.
    pub color: Option<String>,
    /// Mappings and bindings of the mode.
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
    /// Whether routes also forward the event that fires the row.
    pub let_through: bool,
    /// Trigger and action as written in the file, so that `keys = ["cmd", "c"]` is returned as an
    /// array.
    pub written: Written,
    /// Absent when an error disabled this row.
    pub rule: Option<Rule>,
}

/// Trigger and action of a row, as written in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The `trigger` as JSON.
    pub trigger: Value,
    /// The `action` as JSON.
    pub action: Value,
}

/// The trigger and the action of a row without errors.
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
            webhooks: Vec::new(),
            cluster: Cluster::default(),
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
    /// One sentence, without the full stop at its end.
    pub message: String,
    /// A suggested correction.
    pub help: Option<String>,
    /// Place in the file, as a path such as `modes[0].mappings[2].trigger.note`; empty for the
    /// whole file. For the input of a tool, this is a JSON pointer such as `/trigger/note`, and
    /// span, line and column are 0.
    pub path: String,
    /// Byte range in the text.
    pub span: std::ops::Range<usize>,
    /// Line of the fault, 1-based.
    pub line: u32,
    /// Column of the fault, 1-based, in characters.
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

/// Facts about the machine and the studio that the names in a file are checked against. If a fact
/// is `None`, the names that need it are not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The operating system, to warn about matchers that cannot match on it.
    pub platform: Option<Platform>,
    /// Exact names of the ports that exist now. A port name in the file may also be a device alias.
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
