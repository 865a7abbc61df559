//! Serialised reports of the owner. All doors and the command line show these values.
//!
//! Not here: how the owner collects the values, and how a terminal shows them (`cli`).

use conductor_core::config::{Config, ContinuousRow, InputMode, Mapping, Rows};
use conductor_core::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

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
    pub daemon_running: bool,
    pub lifecycle_state: Lifecycle,
    /// At least one input is open. Muted inputs count; disabled inputs are never opened.
    pub connected: bool,
    pub device_connected: bool,
    /// The first connected device in file order. If there is none, the first port without an alias.
    pub device: Option<DeviceNow>,
    pub uptime_secs: u64,
    pub input_mode: &'static str,
    pub statistics: Statistics,
    pub running: bool,
    pub current_mode: String,
    pub mode_index: usize,
    pub last_event_at_iso: Option<Timestamp>,
    pub backends: Vec<BackendNow>,
    pub config: ConfigNow,
    pub performance_lock: bool,
    /// MIDI learn is running: mapped actions are suspended.
    pub learning: Option<LearningNow>,
    pub pid: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LearningNow {
    pub since: Timestamp,
    pub until: Timestamp,
    /// Mapped actions run during MIDI learn.
    pub let_through: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeviceNow {
    /// The name of its port on this platform.
    pub name: String,
    /// Its alias in the file; absent for a port without one.
    pub alias: Option<String>,
    /// Index among the MIDI inputs, the gamepads or the OSC listeners, in the order of enumeration.
    pub port: usize,
    /// Seconds since the epoch.
    pub last_event_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Statistics {
    pub events_processed: u64,
    pub actions_executed: u64,
    pub events_dropped: u64,
    pub actions_failed: u64,
    pub reloads_failed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BackendNow {
    pub name: String,
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
    pub loaded_at: Timestamp,
    /// Why the newest file is not in force.
    pub error: Option<String>,
    /// Rows that an error in the file disabled.
    pub disabled_mappings: usize,
    /// Errors in the file; each disables an item.
    pub faults: usize,
    /// The first errors, one line each.
    pub fault_lines: Vec<String>,
    /// Parts of the file that are not in force until a person accepts them.
    pub held: Vec<String>,
    pub held_since: Option<Timestamp>,
    /// Why the accepted configuration is not in force. Restrictive defaults replace it.
    pub closed: Option<String>,
    /// Mappings that type keys or text and took effect without a person's approval, as `mode/id`.
    pub unprotected: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Modes {
    pub modes: Vec<ModeNow>,
    pub current: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModeNow {
    pub name: String,
    pub color: Option<String>,
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
    pub success: bool,
    pub mode_name: String,
    /// Index in the order of the file, from 0
    pub mode_index: usize,
    pub total_modes: usize,
}

/// The rows of one mode, as the file has them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Mappings {
    pub mode: String,
    pub mappings: Vec<MappingNow>,
    pub continuous: Vec<ContinuousNow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MappingNow {
    pub index: usize,
    #[schemars(with = "Map<String, Value>")]
    pub trigger: Value,
    #[schemars(with = "Map<String, Value>")]
    pub action: Value,
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// False also if a fault disables the row.
    pub enabled: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ContinuousNow {
    pub index: usize,
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
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
    pub midi_inputs: Vec<String>,
    pub midi_outputs: Vec<String>,
    pub gamepads: Vec<String>,
    pub osc_listeners: Vec<String>,
    pub backends: Vec<BackendNow>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bindings {
    pub device_bindings: Vec<BindingNow>,
    pub multi_device_active: bool,
    pub total_devices: usize,
    pub connected_count: usize,
    pub muted_count: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BindingNow {
    pub device_id: String,
    pub port_name: Option<String>,
    /// The port that messages to the device are sent to.
    #[serde(skip)]
    pub output: Option<String>,
    pub connected: bool,
    pub enabled: bool,
    /// False for a port without an alias (`raw:<port>`).
    pub is_configured: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Any program can send to its input and the file does not mark it `trusted`, so its events do
    /// not count as played by hand.
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
    pub device_id: String,
    pub enabled: bool,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Scanned {
    pub message: &'static str,
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Panicked {
    pub ports: Vec<String>,
    pub notes_released: usize,
    pub keys_released: usize,
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

pub fn input_mode(mode: InputMode) -> &'static str {
    match mode {
        InputMode::MidiOnly => "MidiOnly",
        InputMode::GamepadOnly => "GamepadOnly",
        InputMode::Both => "Both",
    }
}
