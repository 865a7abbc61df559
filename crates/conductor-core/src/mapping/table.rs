//! The compiled configuration and its lookup. A lookup needs an index, a channel mask and a window;
//! its cost does not depend on the number of mappings. It does not clone actions or compare
//! strings.
//!
//! There is one [`DeviceTable`] for every mode and every device that a rule names, and one table
//! for all other devices. Each cell of a table lists the rules that can match one control, in order
//! of precedence: the rules of the mode and the global rules. Not here: compiling (`compile`).

use crate::action::{Action, Keystroke, MidiOut, MouseButton, Transform, Volume};
use crate::config::{Advanced, ContinuousRow, Filter, Mapping};
use crate::event::osc::Pattern;
use crate::event::{DeviceSlot, OscMessage};
use crate::mapping::{Continuous, Target, Trigger, Window};
use std::ops::Range;
use std::sync::Arc;

/// Assigns a slot (a number) to each name of a device or port. The slot of a name never changes
/// while the daemon runs.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    names: Vec<Arc<str>>,
}

impl Slots {
    /// The slot of a device alias or port name. It is assigned on first use.
    ///
    /// There are 65,535 slots. If all are used, every further name gets the last slot.
    pub fn slot(&mut self, name: &str) -> DeviceSlot {
        if let Some(slot) = self.find(name) {
            return slot;
        }
        if self.names.len() < usize::from(u16::MAX) {
            self.names.push(name.into());
        }
        DeviceSlot((self.names.len() - 1) as u16)
    }

    /// The slot of a name. `None` if no slot was assigned.
    pub fn find(&self, name: &str) -> Option<DeviceSlot> {
        self.names.iter().position(|it| &**it == name).map(|at| DeviceSlot(at as u16))
    }

    /// The name of a slot.
    pub fn name(&self, slot: DeviceSlot) -> &str {
        self.names.get(usize::from(slot.0)).map_or("?", |it| it)
    }

    /// The number of names that have a slot.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no name has a slot.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Index of a mapping in [`Tables::rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u32);

/// Index of an action in [`Tables::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u32);

/// Index of a binding in [`Tables::bindings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingId(pub u32);

/// Index of a mode in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModeIndex(pub u16);

/// An enabled mapping, with defaults for missing values.
#[derive(Clone, Debug)]
pub struct Row {
    /// The mode of the mapping; absent for a global mapping.
    pub mode: Option<ModeIndex>,
    /// The index among the mappings of its mode in the file.
    pub index: u32,
    /// The id of the mapping.
    pub id: Arc<str>,
    /// The trigger from the file.
    pub trigger: Trigger,
    /// The device; absent for any device.
    pub device: Option<DeviceSlot>,
    /// The channels that match, as a mask.
    pub channels: u16,
    /// The values that the rule matches.
    pub window: Window,
    /// The duration of a long press, or the timeout of a double tap or chord.
    pub time_ms: u32,
    /// Whether routes may also forward the event.
    pub let_through: bool,
    pub action: ActionId,
    /// Upper velocity and action of each zone, ascending.
    pub zones: Vec<(u8, ActionId)>,
    /// The key numbers of a chord; empty for other triggers.
    pub chord: Vec<u8>,
    /// Index of the rule's memory in the engine; absent for gestures of keys.
    pub state: Option<u32>,
    /// The address pattern of an OSC trigger.
    pub pattern: Option<Pattern>,
    /// The precedence of the mapping.
    pub rank: Rank,
    /// The row of the file; a reload compares it with the new row.
    pub written: Arc<Mapping>,
}

impl Row {
    /// The action for a press with this velocity: the action of its zone, else the action of the
    /// mapping.
    pub fn action_for(&self, velocity: u8) -> ActionId {
        self.zones.iter().find(|(max, _)| velocity <= *max).map_or(self.action, |(_, action)| *action)
    }
}

/// The precedence of a rule among the rules for one control. The smallest rank applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Rules of the mode come before global rules.
    pub global: bool,
    /// Rules for a device come before rules for any device.
    pub any_device: bool,
    /// 255 minus the number of conditions of the trigger, such as a channel, a narrow window or a
    /// direction. So rules with more conditions sort first.
    pub slack: u8,
    /// The width of the window. Narrow windows come before wide windows.
    pub width: u16,
    /// The position of the rule in the file. Earlier rules come first.
    pub order: u32,
}

/// An enabled continuous binding.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The mode of the binding; absent for a global binding.
    pub mode: Option<ModeIndex>,
    /// The id of the binding.
    pub id: Arc<str>,
    /// The binding from the file.
    pub spec: Continuous,
    /// The device; absent for any device.
    pub device: Option<DeviceSlot>,
    /// The channels that match, as a mask.
    pub channels: u16,
    pub targets: Vec<CompiledTarget>,
    /// The address pattern of an OSC source.
    pub pattern: Option<Pattern>,
    /// The precedence of the binding.
    pub rank: Rank,
    /// The row of the file.
    pub written: Arc<ContinuousRow>,
}

/// A target with its port resolved. Live and patch targets have no port.
#[derive(Clone, Debug)]
pub struct CompiledTarget {
    /// The target from the file.
    pub spec: Arc<Target>,
    /// The port of a MIDI target.
    pub port: Option<DeviceSlot>,
}

/// One node of an action tree.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in `Action`")]
pub enum Node {
    Sequence(Vec<ActionId>),
    Delay(u32),
    Repeat { action: ActionId, count: u16, delay_ms: u32, while_held: bool },
    Conditional { condition: CompiledCondition, then_action: ActionId, else_action: Option<ActionId> },
    Leaf(Leaf),
}

/// An action that contains no other actions.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in `Action`")]
pub enum Leaf {
    Keystroke(Arc<Keystroke>),
    Text(Arc<str>),
    Click {
        button: MouseButton,
        at: Option<(i32, i32)>,
    },
    Volume(Volume),
    ModeChange(ModeIndex),
    SendMidi {
        port: DeviceSlot,
        channel: u8,
        message: MidiOut,
    },
    /// Without `port`, the message is sent to the device that the event came from.
    Forward {
        port: Option<DeviceSlot>,
        transform: Arc<Transform>,
    },
    Osc {
        host: Arc<str>,
        port: u16,
        message: Arc<OscMessage>,
    },
    /// Shell, Launch, CallTool and Plugin, which are executed through the pipeline.
    Call(Arc<Action>),
}

/// A condition with its names resolved.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in `Condition`")]
pub enum CompiledCondition {
    Always,
    Never,
    TimeRange { start: u16, end: u16 },
    DayOfWeek { days: u8 },
    AppRunning(Arc<str>),
    AppFrontmost(Arc<str>),
    ModeIs(Option<ModeIndex>),
    DeviceConnected(DeviceSlot),
    And(Vec<CompiledCondition>),
    Or(Vec<CompiledCondition>),
    Not(Box<CompiledCondition>),
}

/// A route with its devices resolved.
#[derive(Clone, Debug)]
pub struct CompiledRoute {
    /// The source device.
    pub from: DeviceSlot,
    /// The target device.
    pub to: DeviceSlot,
    /// The filter for events to forward.
    pub filter: Filter,
    /// Changes to the events.
    pub transform: Arc<Transform>,
    /// The modes in which the route is active.
    pub modes: Vec<ModeIndex>,
    /// Whether the route is active in every mode.
    pub any_mode: bool,
}

/// Settings of a device that the engine needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Whether the file enables the device.
    pub enabled: bool,
    /// The mask of channels whose events are used.
    pub channels: u16,
    /// Whether network events may press keys and call tools.
    pub allow_sensitive_actions: bool,
    /// Whether echoes of sent messages are dropped.
    pub echo_guard: bool,
}

impl Default for DeviceFacts {
    fn default() -> Self {
        DeviceFacts { enabled: true, channels: ALL_CHANNELS, allow_sensitive_actions: false, echo_guard: false }
    }
}

/// The channel mask that matches every channel.
pub const ALL_CHANNELS: u16 = u16::MAX;

/// The number of keys: notes 0-127, then the gamepad buttons.
pub const KEYS: usize = 128 + 19;

const CC: usize = 5 * KEYS;
const SINGLE: usize = CC + 3 * 128;
const SOURCE: usize = SINGLE + 11;
const SOURCE_SINGLE: usize = SOURCE + 128 + 32 + 128;

/// The kinds of cells. The value of a kind is the index of its first cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "the names explain themselves")]
pub enum Kind {
    Press = 0,
    Release = KEYS,
    Long = 2 * KEYS,
    Double = 3 * KEYS,
    Chord = 4 * KEYS,
    Cc = CC,
    Encoder = CC + 128,
    PolyPressure = CC + 256,
    Program = SINGLE,
    Pressure = SINGLE + 1,
    Bend = SINGLE + 2,
    Stick = SINGLE + 3,
    Pull = SINGLE + 7,
    NrpnStep = SINGLE + 9,
    Osc = SINGLE + 10,
    SourceCc = SOURCE,
    SourceCc14 = SOURCE + 128,
    SourcePoly = SOURCE + 160,
    SourcePressure = SOURCE_SINGLE,
    SourceBend = SOURCE_SINGLE + 1,
    SourceNrpn = SOURCE_SINGLE + 2,
    SourceRpn = SOURCE_SINGLE + 3,
    SourceNrpnStep = SOURCE_SINGLE + 4,
    SourceStick = SOURCE_SINGLE + 5,
    SourcePull = SOURCE_SINGLE + 9,
    SourceOsc = SOURCE_SINGLE + 11,
}

impl Kind {
    /// The channel mask for a lookup. Controls of gamepads and OSC have no channel, so their mask
    /// matches every rule.
    pub fn channels(self, channel: u8) -> u16 {
        use Kind::{Osc, Pull, SourceOsc, SourcePull, SourceStick, Stick};
        if matches!(self, Stick | Pull | Osc | SourceStick | SourcePull | SourceOsc) {
            ALL_CHANNELS
        } else {
            1 << (channel & 15)
        }
    }
}

pub(super) const CELLS: usize = Kind::SourceOsc as usize + 1;

/// Cells for presses or releases with more rules than this are split by channel and velocity, so
/// that a lookup stays short.
pub(super) const CROWDED: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) start: u32,
    pub(super) len: u16,
    /// Whether `start` is an index into `crowded` instead of `entries`.
    pub(super) split: bool,
}

/// A rule in a cell.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Index of the row or binding.
    pub id: u32,
    /// The channels that match, as a mask.
    pub channels: u16,
    /// The lowest value that the rule matches.
    pub low: u16,
    /// The highest value that the rule matches.
    pub high: u16,
}

impl Entry {
    fn takes(&self, channels: u16, value: u16) -> bool {
        self.channels & channels != 0 && self.low <= value && value <= self.high
    }
}

/// The rules for one device in one mode.
#[derive(Clone, Debug)]
pub struct DeviceTable {
    pub(super) cells: Box<[Cell]>,
    pub(super) entries: Vec<Entry>,
    /// The cells for presses and releases with more than `CROWDED` rules, split by channel.
    pub(super) crowded: Vec<[ChannelSpans; 16]>,
    /// The spans of the channels that have more than two spans.
    pub(super) spans: Vec<Span>,
}

/// The `owner` of velocities that no rule matches.
pub(super) const NO_RULE: u32 = u32::MAX;

/// The velocities 1-127 of one key on one channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChannelSpans {
    /// The highest velocity of the first rule, the first rule, and the rule above that velocity.
    Two(u8, u32, u32),
    /// Start and length of a slice of `spans`.
    Many(u32, u8),
}

/// A span of velocities with one rule: above the previous span, up to and including `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) high: u8,
    pub(super) owner: u32,
}

impl DeviceTable {
    /// All rules of a cell in order of precedence. Empty for a cell that is split; see
    /// [`Self::first`].
    #[inline]
    pub fn rules(&self, kind: Kind, number: usize) -> &[Entry] {
        match self.cells.get(kind as usize + number) {
            Some(cell) if !cell.split => self.entries.get(range(cell.start, cell.len)).unwrap_or(&[]),
            Some(_) | None => &[],
        }
    }

    /// The first rule in order of precedence that matches this channel (as a mask) and value.
    #[inline]
    pub fn first(&self, kind: Kind, number: usize, channels: u16, value: u16) -> Option<u32> {
        let cell = self.cells.get(kind as usize + number)?;
        if !cell.split {
            let entries = self.entries.get(range(cell.start, cell.len))?;
            return entries.iter().find(|it| it.takes(channels, value)).map(|it| it.id);
        }
        let value = u8::try_from(value).ok().filter(|it| *it > 0)?;
        let owner = match *self.crowded.get(cell.start as usize)?.get(channels.trailing_zeros() as usize)? {
            ChannelSpans::Two(high, low_owner, high_owner) => {
                if value <= high {
                    low_owner
                } else {
                    high_owner
                }
            }
            ChannelSpans::Many(start, len) => {
                let spans = self.spans.get(range(start, u16::from(len)))?;
                spans.get(spans.partition_point(|it| it.high < value))?.owner
            }
        };
        (owner != NO_RULE).then_some(owner)
    }
}

fn range(start: u32, len: u16) -> Range<usize> {
    start as usize..start as usize + usize::from(len)
}

/// A compiled configuration.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The names of the modes, in file order.
    pub mode_names: Vec<Arc<str>>,
    /// The mode of a global mapping in a [`MappingRef`](crate::engine::MappingRef): `*`.
    pub any_mode: Arc<str>,
    /// The maximum number of chord rules of one key.
    pub chord_rules: usize,
    /// The mode when the daemon starts.
    pub default_mode: ModeIndex,
    pub rows: Vec<Row>,
    /// The continuous bindings.
    pub bindings: Vec<Binding>,
    /// The parts of all actions.
    pub nodes: Vec<Node>,
    /// Number of rules with a memory (`Row::state`).
    pub states: usize,
    pub routes: Vec<CompiledRoute>,
    /// Whether a condition depends on running programs.
    pub asks_for_programs: bool,
    /// Whether a condition depends on the local time.
    pub asks_for_time: bool,
    /// The section `[advanced_settings]`.
    pub advanced: Advanced,
    /// Settings by device slot.
    pub devices: Vec<DeviceFacts>,
    /// The table of each device slot. Devices that no rule names use table 0.
    pub(super) table_row: Vec<u16>,
    pub(super) tables_per_mode: usize,
    pub(super) tables: Vec<DeviceTable>,
}

impl Tables {
    /// The table of a device in a mode.
    #[inline]
    pub fn device(&self, mode: ModeIndex, device: DeviceSlot) -> &DeviceTable {
        let row = self.table_row.get(usize::from(device.0)).copied().unwrap_or(0);
        &self.tables[usize::from(mode.0) * self.tables_per_mode + usize::from(row)]
    }

    /// The keystrokes of all actions.
    pub fn keystrokes(&self) -> impl Iterator<Item = &Arc<Keystroke>> {
        self.nodes.iter().filter_map(|it| if let Node::Leaf(Leaf::Keystroke(keys)) = it { Some(keys) } else { None })
    }

    /// The mapping with this index.
    #[inline]
    pub fn row(&self, id: u32) -> &Row {
        &self.rows[id as usize]
    }

    /// Settings of a device.
    pub fn facts(&self, device: DeviceSlot) -> DeviceFacts {
        self.devices.get(usize::from(device.0)).copied().unwrap_or_default()
    }

    /// The mode with this name.
    pub fn mode_named(&self, name: &str) -> Option<ModeIndex> {
        self.mode_names.iter().position(|it| &**it == name).map(|at| ModeIndex(at as u16))
    }

    /// The name of a mode.
    pub fn mode_name(&self, mode: ModeIndex) -> &Arc<str> {
        &self.mode_names[usize::from(mode.0)]
    }
}
