//! Modes, mappings and bindings compiled into dense tables. A lookup is an index, a channel mask
//! and a window; it does not grow with the number of mappings, clones no action and touches no
//! string.
//!
//! For every mode and every device that some rule names (and one row for all others) there is one
//! [`DeviceTable`]. Each of its cells lists the rules of the mode and the global rules that can
//! match one control, already in the order of precedence.

use crate::action::{Action, Keystroke, MidiOut, MouseButton, Transform, Volume};
use crate::config::{Advanced, ContinuousRow, Filter, Mapping};
use crate::event::osc::Pattern;
use crate::event::{DeviceSlot, OscMessage};
use crate::mapping::{Continuous, Target, Trigger, Window};
use std::ops::Range;
use std::sync::Arc;

/// Names of devices and ports, numbered once and never again: a slot means the same device for the
/// life of the daemon.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    names: Vec<Arc<str>>,
}

impl Slots {
    /// The number of a device alias or port name, given out on first use.
    ///
    /// There are 65,536 numbers and a studio has a handful of names; past the end every further
    /// name shares the last number.
    pub fn slot(&mut self, name: &str) -> DeviceSlot {
        if let Some(slot) = self.find(name) {
            return slot;
        }
        if self.names.len() < usize::from(u16::MAX) {
            self.names.push(name.into());
        }
        DeviceSlot((self.names.len() - 1) as u16)
    }

    pub fn find(&self, name: &str) -> Option<DeviceSlot> {
        self.names.iter().position(|it| &**it == name).map(|at| DeviceSlot(at as u16))
    }

    pub fn name(&self, slot: DeviceSlot) -> &str {
        self.names.get(usize::from(slot.0)).map_or("?", |it| it)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingId(pub u32);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModeIndex(pub u16);

/// A mapping that takes part, with its defaults filled in.
#[derive(Clone, Debug)]
pub struct Row {
    /// Absent for a global mapping.
    pub mode: Option<ModeIndex>,
    /// Its place among the mappings of its mode in the file.
    pub index: u32,
    pub id: Arc<str>,
    pub trigger: Trigger,
    pub device: Option<DeviceSlot>,
    pub channels: u16,
    pub window: Window,
    /// The gesture's own time: a long press's duration, a double tap's or chord's timeout.
    pub time_ms: u32,
    pub let_through: bool,
    pub action: ActionId,
    /// Upper velocity and action of each zone, ascending.
    pub zones: Vec<(u8, ActionId)>,
    /// The keys of a chord, as numbers of the tables; empty otherwise.
    pub chord: Vec<u8>,
    /// Which cell of gate states belongs to this rule; absent for key gestures.
    pub state: Option<u32>,
    /// Compiled only for OSC triggers.
    pub pattern: Option<Pattern>,
    pub rank: Rank,
    /// Tells whether a reload left this mapping as it was.
    pub written: Arc<Mapping>,
}

impl Row {
    /// The action for a press of this velocity: its zone's, else the mapping's own.
    pub fn action_for(&self, velocity: u8) -> ActionId {
        self.zones.iter().find(|(max, _)| velocity <= *max).map_or(self.action, |(_, action)| *action)
    }
}

/// Precedence of a rule among those on one control; the smallest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    pub global: bool,
    pub any_device: bool,
    /// 255 minus the number of constrained dimensions, so that more constrained rules sort first.
    pub slack: u8,
    pub width: u16,
    pub order: u32,
}

/// A continuous binding that takes part.
#[derive(Clone, Debug)]
pub struct Binding {
    pub mode: Option<ModeIndex>,
    pub id: Arc<str>,
    pub spec: Continuous,
    pub device: Option<DeviceSlot>,
    pub channels: u16,
    pub targets: Vec<CompiledTarget>,
    pub pattern: Option<Pattern>,
    pub rank: Rank,
    pub written: Arc<ContinuousRow>,
}

/// A target with its port looked up. Live and patch targets keep their names; the shell resolves
/// them.
#[derive(Clone, Debug)]
pub struct CompiledTarget {
    pub spec: Arc<Target>,
    /// For MIDI targets.
    pub port: Option<DeviceSlot>,
}

/// One node of an action tree.
#[derive(Clone, Debug)]
pub enum Node {
    Sequence(Vec<ActionId>),
    Delay(u32),
    Repeat { action: ActionId, count: u16, delay_ms: u32, while_held: bool },
    Conditional { condition: CompiledCondition, then_action: ActionId, else_action: Option<ActionId> },
    Leaf(Leaf),
}

#[derive(Clone, Debug)]
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
    /// `port` absent means back to the event's own device.
    Forward {
        port: Option<DeviceSlot>,
        transform: Arc<Transform>,
    },
    Osc {
        host: Arc<str>,
        port: u16,
        message: Arc<OscMessage>,
    },
    /// Shell, Launch, CallTool, Plugin: through the pipeline.
    Call(Arc<Action>),
}

#[derive(Clone, Debug)]
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

#[derive(Clone, Debug)]
pub struct CompiledRoute {
    pub from: DeviceSlot,
    pub to: DeviceSlot,
    pub filter: Filter,
    pub transform: Arc<Transform>,
    /// Bit per mode; all ones for every mode.
    pub modes: Vec<ModeIndex>,
    pub any_mode: bool,
}

/// What the engine must know of a device beyond its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    pub enabled: bool,
    pub channels: u16,
    pub allow_sensitive_actions: bool,
    pub echo_guard: bool,
}

impl Default for DeviceFacts {
    fn default() -> Self {
        DeviceFacts { enabled: true, channels: ALL_CHANNELS, allow_sensitive_actions: false, echo_guard: false }
    }
}

pub const ALL_CHANNELS: u16 = u16::MAX;

/// Notes 0-127, then the gamepad buttons.
pub const KEYS: usize = 128 + 19;

const CC: usize = 5 * KEYS;
const SINGLE: usize = CC + 3 * 128;
const SOURCE: usize = SINGLE + 11;
const SOURCE_SINGLE: usize = SOURCE + 128 + 32 + 128;

/// The kinds of cells. The value of each is where its cells begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
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
    /// The mask that a control on this channel asks for. Controls of gamepads and OSC have no
    /// channel and match every rule.
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

/// More rules than this on one key are split by channel and velocity, so that a crowded key costs
/// no more than a lonely one.
pub(super) const CROWDED: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) start: u32,
    pub(super) len: u16,
    /// `start` is an index into `crowded`, not into `entries`.
    pub(super) split: bool,
}

/// A rule as the hot path sees it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub id: u32,
    pub channels: u16,
    pub low: u16,
    pub high: u16,
}

impl Entry {
    fn takes(&self, channels: u16, value: u16) -> bool {
        self.channels & channels != 0 && self.low <= value && value <= self.high
    }
}

#[derive(Clone, Debug)]
pub struct DeviceTable {
    pub(super) cells: Box<[Cell]>,
    pub(super) entries: Vec<Entry>,
    /// A crowded press cell has one entry per channel here, side by side, so that finding its rule
    /// is one more step, not a search.
    pub(super) crowded: Vec<[ChannelSpans; 16]>,
    /// Runs of spans for channels that have more than two.
    pub(super) spans: Vec<Span>,
}

/// Nobody owns these velocities.
pub(super) const NO_RULE: u32 = u32::MAX;

/// The velocities 1-127 of one key on one channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChannelSpans {
    /// Up to and including the number one owner, above it the other.
    Two(u8, u32, u32),
    /// A run of `spans`.
    Many(u32, u8),
}

/// Velocities up to `high`, from where the span before ends, belong to one rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) high: u8,
    pub(super) owner: u32,
}

impl DeviceTable {
    /// All rules of a cell in order of precedence. Empty for a crowded press cell, which is only
    /// asked through [`Self::first`].
    #[inline]
    pub fn rules(&self, kind: Kind, number: usize) -> &[Entry] {
        match self.cells.get(kind as usize + number) {
            Some(cell) if !cell.split => self.entries.get(range(cell.start, cell.len)).unwrap_or(&[]),
            Some(_) | None => &[],
        }
    }

    /// The rule that wins for this channel (as a mask) and value.
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

/// One configuration, ready to run.
#[derive(Clone, Debug)]
pub struct Tables {
    pub mode_names: Vec<Arc<str>>,
    pub default_mode: ModeIndex,
    pub rows: Vec<Row>,
    pub bindings: Vec<Binding>,
    pub nodes: Vec<Node>,
    /// How many rules keep a state per control (`Row::state`).
    pub states: usize,
    pub routes: Vec<CompiledRoute>,
    /// Some condition asks which programs run, so somebody must look.
    pub asks_for_programs: bool,
    pub advanced: Advanced,
    pub devices: Vec<DeviceFacts>,
    /// Device slot to the row of its table; slots beyond the end and devices that no rule names use
    /// row 0.
    pub(super) table_row: Vec<u16>,
    pub(super) tables_per_mode: usize,
    pub(super) tables: Vec<DeviceTable>,
}

impl Tables {
    #[inline]
    pub fn device(&self, mode: ModeIndex, device: DeviceSlot) -> &DeviceTable {
        let row = self.table_row.get(usize::from(device.0)).copied().unwrap_or(0);
        &self.tables[usize::from(mode.0) * self.tables_per_mode + usize::from(row)]
    }

    #[inline]
    pub fn row(&self, id: u32) -> &Row {
        &self.rows[id as usize]
    }

    pub fn facts(&self, device: DeviceSlot) -> DeviceFacts {
        self.devices.get(usize::from(device.0)).copied().unwrap_or_default()
    }

    pub fn mode_named(&self, name: &str) -> Option<ModeIndex> {
        self.mode_names.iter().position(|it| &**it == name).map(|at| ModeIndex(at as u16))
    }

    pub fn mode_name(&self, mode: ModeIndex) -> &Arc<str> {
        &self.mode_names[usize::from(mode.0)]
    }
}
