//! Serialised reports of the owner. All doors and the command line show these values.
//!
//! Not here: how the owner collects the values, and how a terminal shows them (`cli`).

use conductor_core::config::{Config, ContinuousRow, InputMode, Mapping, Rows};
use conductor_core::digest::Digest;
use conductor_core::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The state of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Lifecycle {
    /// Nothing has been opened yet.
    Init,
    /// The configuration is read, ports are being opened.
    Starting,
    Running,
    /// The file has changed, and the new version is not in force yet.
    Reloading,
    /// No configuration could be read since the start; the built-in empty mode is in force.
    Degraded,
    /// Devices of the configuration were present before and are absent now.
    Reconnecting,
    /// Sounding notes and held keys are being released.
    Stopping,
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Status {
    /// Always true: a stopped daemon does not answer.
    pub daemon_running: bool,
    pub lifecycle_state: Lifecycle,
    /// Whether at least one input is open. Muted inputs count; disabled inputs are never opened.
    pub connected: bool,
    /// The same as `connected`.
    pub device_connected: bool,
    /// The first connected device in file order. If there is none, the first port without an alias.
    pub device: Option<DeviceNow>,
    /// Seconds since the start of the daemon.
    pub uptime_secs: u64,
    /// The protocols that are read: `MidiOnly`, `GamepadOnly` or `Both`.
    pub input_mode: &'static str,
    /// Counters since the start of the daemon.
    pub statistics: Statistics,
    /// The same as `daemon_running`.
    pub running: bool,
    /// Name of the active mode.
    pub current_mode: String,
    /// Index of the active mode in the order of the file, from 0.
    pub mode_index: usize,
    /// Time of the last event of any device.
    pub last_event_at_iso: Option<Timestamp>,
    /// Device libraries and their state.
    pub backends: Vec<BackendNow>,
    /// The configuration in force.
    pub config: ConfigNow,
    /// Whether AI clients are kept from changing modes and sending MIDI.
    pub performance_lock: bool,
    /// MIDI learn, if it is running.
    pub learning: Option<LearningNow>,
    /// Process id of the daemon.
    pub pid: u32,
}

/// The connections to and from other machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct NetworkNow {
    /// The open HTTP listeners; the daemon's own is first.
    pub http: Vec<HttpNow>,
    /// The webhooks that Conductor sends.
    pub webhooks: Vec<WebhookNow>,
    /// The connection to the server of several rigs; absent without `[cluster]`.
    pub cluster: Option<ClusterNow>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClusterNow {
    /// Name of this rig.
    pub rig: String,
    /// Address of the server.
    pub server: String,
    /// Whether the server is connected.
    pub connected: bool,
    /// Last record of the audit log that the server has confirmed.
    pub witnessed_through: Option<u64>,
    /// Number of records after that, up to the last one with an effect. They are published later.
    pub unwitnessed: u64,
    /// Number of decisions of other rigs that were refused since the start.
    pub refused_decisions: u64,
    /// Number of events that were not sent since the start, because they were too many.
    pub dropped_events: u64,
    /// Why the connection or the witness failed.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WebhookNow {
    /// Name of the webhook.
    pub name: String,
    /// Number of stored events that the receiver has not accepted yet.
    pub waiting: usize,
    /// Number of accepted events since the start.
    pub delivered: u64,
    /// Number of events since the start that were dropped, because they were too many or too old.
    pub dropped: u64,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HttpNow {
    /// Address for clients.
    pub url: String,
    /// SHA-256 of the certificate; absent without TLS.
    pub fingerprint: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LearningNow {
    /// Start of the session.
    pub since: Timestamp,
    /// End of the session, if it is not stopped earlier.
    pub until: Timestamp,
    /// Whether mapped actions run during MIDI learn.
    pub let_through: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeviceNow {
    /// The name of the device's port on this platform.
    pub name: String,
    /// The device's alias in the file; absent for a port without an alias.
    pub alias: Option<String>,
    /// Index among the MIDI inputs, the gamepads or the OSC listeners, in the order of enumeration.
    pub port: usize,
    /// Seconds since the epoch.
    pub last_event_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Statistics {
    /// Number of events from devices.
    pub events_processed: u64,
    /// Number of actions that ran.
    pub actions_executed: u64,
    /// Number of events lost in a full queue, or dropped to end a feedback loop.
    pub events_dropped: u64,
    /// Number of actions that failed.
    pub actions_failed: u64,
    /// Number of changed files that could not be loaded.
    pub reloads_failed: u64,
    /// Events over JACK that the audio callback processed, so their messages left in the same
    /// period.
    pub events_in_period: u64,
    /// Events over JACK that waited because the owner's thread held the engine.
    pub events_after_owner: u64,
    /// Events over JACK that the owner's thread processed for another reason: an older event
    /// waited, a learn session ran, or the device has lights or the approval pad.
    pub events_to_owner: u64,
    /// Events processed after a later event of another backend, less than one period late.
    pub events_inverted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BackendNow {
    /// Name of the library.
    pub name: String,
    /// Whether the library can be used.
    pub state: BackendState,
    /// Why the backend is not ready, and how to fix that.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendState {
    Ready,
    Missing,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConfigNow {
    /// Hash of the file in force; absent without a file.
    pub hash: Option<String>,
    /// When the file was loaded.
    pub loaded_at: Timestamp,
    /// Why the newest file is not in force.
    pub error: Option<String>,
    /// Number of mappings and bindings that an error in the file disabled.
    pub disabled_mappings: usize,
    /// Number of errors in the file. Each error disables an item.
    pub faults: usize,
    /// The first errors, one line each.
    pub fault_lines: Vec<String>,
    /// Parts of the file that are not in force until a person accepts them.
    pub held: Vec<String>,
    /// Since when these parts wait.
    pub held_since: Option<Timestamp>,
    /// Why the accepted configuration is not in force. Restrictive defaults replace it.
    pub closed: Option<String>,
    /// Mappings that type keys or text and took effect without a person's approval, as `mode/id`.
    pub unprotected: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Modes {
    /// In the order of the file.
    pub modes: Vec<ModeNow>,
    /// Name of the active mode.
    pub current: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModeNow {
    /// Name of the mode.
    pub name: String,
    /// Colour of its lights.
    pub color: Option<String>,
    /// Number of its mappings, without global ones.
    pub mapping_count: usize,
}

impl Modes {
    pub fn of(config: &Config, current: &str) -> Self {
        let modes = config.modes.iter().map(|mode| ModeNow {
            name: mode.name.clone(),
            color: mode.color.clone(),
            mapping_count: mode.rows.mappings.len(),
        });
        Modes { modes: modes.collect(), current: current.to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Switched {
    /// Always true; a failure is an error.
    pub success: bool,
    /// Name of the mode that is active now.
    pub mode_name: String,
    /// Index of the mode in the order of the file, from 0.
    pub mode_index: usize,
    /// Number of modes.
    pub total_modes: usize,
}

/// The rows of one mode, as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Mappings {
    /// Name of the mode, or `*` for global rows.
    pub mode: String,
    /// In the order of the file.
    pub mappings: Vec<MappingNow>,
    /// Continuous bindings, in the order of the file.
    pub continuous: Vec<ContinuousNow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MappingNow {
    /// Index among the mappings of the mode, from 0.
    pub index: usize,
    /// As in conductor_create_mapping.
    #[schemars(with = "Map<String, Value>")]
    pub trigger: Value,
    /// As in conductor_create_mapping.
    #[schemars(with = "Map<String, Value>")]
    pub action: Value,
    /// Does not change when rows move.
    pub id: String,
    /// Description in the file, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Also false if a fault disables the row.
    pub enabled: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ContinuousNow {
    /// Index among the continuous bindings of the mode, from 0.
    pub index: usize,
    /// Does not change when rows move.
    pub id: String,
    /// Description in the file, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Also false if a fault disables the row.
    pub enabled: bool,
    #[serde(flatten)]
    pub written: Value,
}

impl Mappings {
    /// The rows of `mode`, or the global rows for `*`. `None` if there is no such mode.
    pub fn of(config: &Config, mode: &str) -> Option<Self> {
        let rows = if mode == "*" { &config.global } else { &config.modes.iter().find(|it| it.name == mode)?.rows };
        let Rows { mappings, continuous } = rows;
        Some(Mappings {
            mode: mode.to_owned(),
            mappings: mappings.iter().enumerate().map(|(index, row)| MappingNow::of(index, row)).collect(),
            continuous: continuous.iter().enumerate().map(|(index, row)| ContinuousNow::of(index, row)).collect(),
        })
    }
}

impl MappingNow {
    fn of(index: usize, row: &Mapping) -> Self {
        MappingNow {
            index,
            trigger: row.written.trigger.clone(),
            action: row.written.action.clone(),
            id: row.id.clone(),
            description: row.description.clone(),
            enabled: row.enabled && row.rule.is_some(),
        }
    }
}

impl ContinuousNow {
    fn of(index: usize, row: &ContinuousRow) -> Self {
        let mut written = row.written.clone();
        if let Value::Object(members) = &mut written {
            // These keys have separate fields in the report.
            for key in ["id", "description", "enabled"] {
                members.shift_remove(key);
            }
        }
        ContinuousNow {
            index,
            id: row.id.clone(),
            description: row.description.clone(),
            enabled: row.enabled && row.binding.is_some(),
            written,
        }
    }
}

/// Names of the ports and devices that the last scan found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Devices {
    /// Names of the MIDI input ports.
    pub midi_inputs: Vec<String>,
    /// Names of the MIDI output ports.
    pub midi_outputs: Vec<String>,
    /// Names of the gamepads.
    pub gamepads: Vec<String>,
    /// Addresses on which OSC messages are received.
    pub osc_listeners: Vec<String>,
    /// Device libraries and their state.
    pub backends: Vec<BackendNow>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bindings {
    /// Configured devices in the order of the file, then ports without an alias.
    pub device_bindings: Vec<BindingNow>,
    /// Whether more than one device is connected.
    pub multi_device_active: bool,
    /// Number of devices, connected or not.
    pub total_devices: usize,
    /// Number of connected devices.
    pub connected_count: usize,
    /// Number of muted devices.
    pub muted_count: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BindingNow {
    /// Alias, or `raw:` and the name of the port.
    pub device_id: String,
    /// Name of the connected port.
    pub port_name: Option<String>,
    /// The port that messages to the device are sent to.
    #[serde(skip)]
    pub output: Option<String>,
    /// Whether the port is open.
    pub connected: bool,
    /// False while the device is muted.
    pub enabled: bool,
    /// False for a port without an alias (`raw:<port>`).
    pub is_configured: bool,
    /// Description in the file, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether any program can send to the input of the device and the file does not mark the
    /// device as `trusted`. If so, its events do not count as played by hand.
    pub tainted: bool,
}

impl Bindings {
    pub fn of(device_bindings: Vec<BindingNow>) -> Self {
        let connected_count = device_bindings.iter().filter(|it| it.connected).count();
        Bindings {
            multi_device_active: connected_count > 1,
            total_devices: device_bindings.len(),
            connected_count,
            muted_count: device_bindings.iter().filter(|it| !it.enabled).count(),
            device_bindings,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeviceSwitched {
    /// The given device.
    pub device_id: String,
    /// False if the device is muted now.
    pub enabled: bool,
    /// The result as a sentence.
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Scanned {
    /// The result as a sentence.
    pub message: &'static str,
    /// Names of new ports and gamepads.
    pub added: Vec<String>,
    /// Names of ports and gamepads that are gone.
    pub removed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Panicked {
    /// Output ports that were silenced.
    pub ports: Vec<String>,
    /// Number of notes that were on.
    pub notes_released: usize,
    /// Number of keys that were held.
    pub keys_released: usize,
    /// Number of actions that were running.
    pub actions_cancelled: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reloaded {
    pub hash: Option<String>,
    /// False when the file equals the configuration in force.
    pub changed: bool,
    /// Faults that disabled single rows, one line each.
    pub faults: Vec<String>,
    /// Parts of the file that wait for `conductor config accept`.
    pub held: Vec<String>,
}

/// The events that a person played in the console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Injected {
    /// The device that the events belong to.
    pub device: String,
    pub events: usize,
}

/// Counters, firings and held controls: the values that change while a person plays.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MetersNow {
    pub statistics: Statistics,
    /// By `MODE/ID`; the mode of a global mapping is the mode in which it fired.
    pub firings: BTreeMap<String, FiringNow>,
    /// Notes and buttons that are down, by device, as event tokens without a value.
    pub held: BTreeMap<String, Vec<String>>,
}

/// How often a mapping fired since the start of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FiringNow {
    pub count: u64,
    /// Time of the last firing, in microseconds of the daemon's clock.
    pub last_us: u64,
}

pub fn input_mode(mode: InputMode) -> &'static str {
    match mode {
        InputMode::MidiOnly => "MidiOnly",
        InputMode::GamepadOnly => "GamepadOnly",
        InputMode::Both => "Both",
    }
}
