//! Modes, mappings and bindings compiled into dense tables. A lookup is an index, a channel mask
//! and a window; it does not grow with the number of mappings, clones no action and touches no
//! string.
//!
//! For every mode and every device that some rule names (and one row for all others) there is one
//! [`DeviceTable`]. Each of its cells lists the rules of the mode and the global rules that can
//! match one control, already in the order of precedence.

use crate::action::{Action, Condition, Keystroke, MidiOut, MouseButton, Transform, Volume};
use crate::config::{Advanced, Config, ContinuousRow, Filter, Mapping, Rows};
use crate::event::osc::Pattern;
use crate::event::{Axis, DeviceSlot, OscMessage, Side};
use crate::mapping::{Continuous, EncoderMode, Key, On, SourceKind, Target, Trigger, TriggerKind, Window};
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

pub fn key_number(key: Key) -> u8 {
    match key {
        Key::Note(note) => note,
        Key::Button(button) => button.id(),
    }
}

/// Where the cells of each kind begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Press,
    Release,
    Long,
    Double,
    Chord,
    Cc,
    Encoder,
    PolyPressure,
    Program,
    Pressure,
    Bend,
    Stick,
    Pull,
    NrpnStep,
    Osc,
    SourceCc,
    SourceCc14,
    SourcePoly,
    SourcePressure,
    SourceBend,
    SourceNrpn,
    SourceRpn,
    SourceNrpnStep,
    SourceStick,
    SourcePull,
    SourceOsc,
}

impl Kind {
    const fn base(self) -> usize {
        const CC: usize = 5 * KEYS;
        const SINGLE: usize = CC + 3 * 128;
        const SOURCE: usize = SINGLE + 11;
        const SOURCE_SINGLE: usize = SOURCE + 128 + 32 + 128;
        match self {
            Kind::Press => 0,
            Kind::Release => KEYS,
            Kind::Long => 2 * KEYS,
            Kind::Double => 3 * KEYS,
            Kind::Chord => 4 * KEYS,
            Kind::Cc => CC,
            Kind::Encoder => CC + 128,
            Kind::PolyPressure => CC + 256,
            Kind::Program => SINGLE,
            Kind::Pressure => SINGLE + 1,
            Kind::Bend => SINGLE + 2,
            Kind::Stick => SINGLE + 3,
            Kind::Pull => SINGLE + 7,
            Kind::NrpnStep => SINGLE + 9,
            Kind::Osc => SINGLE + 10,
            Kind::SourceCc => SOURCE,
            Kind::SourceCc14 => SOURCE + 128,
            Kind::SourcePoly => SOURCE + 160,
            Kind::SourcePressure => SOURCE_SINGLE,
            Kind::SourceBend => SOURCE_SINGLE + 1,
            Kind::SourceNrpn => SOURCE_SINGLE + 2,
            Kind::SourceRpn => SOURCE_SINGLE + 3,
            Kind::SourceNrpnStep => SOURCE_SINGLE + 4,
            Kind::SourceStick => SOURCE_SINGLE + 5,
            Kind::SourcePull => SOURCE_SINGLE + 9,
            Kind::SourceOsc => SOURCE_SINGLE + 11,
        }
    }
}

const CELLS: usize = Kind::SourceOsc.base() + 1;

/// More rules than this on one key are split by channel and velocity, so that a crowded key costs
/// no more than a lonely one.
const CROWDED: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    start: u32,
    len: u16,
    /// `start` is an index into `crowded`, not into `entries`.
    split: bool,
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
    cells: Box<[Cell]>,
    entries: Vec<Entry>,
    /// A crowded press cell has one entry per channel here, side by side, so that finding its rule
    /// is one more step, not a search.
    crowded: Vec<[Channel; 16]>,
    /// Runs of spans for channels that have more than two.
    spans: Vec<Span>,
}

/// Nobody owns these velocities.
const NOBODY: u32 = u32::MAX;

/// The velocities 1-127 of one key on one channel.
#[derive(Clone, Copy, Debug)]
enum Channel {
    /// Up to and including the number one owner, above it the other.
    Two(u8, u32, u32),
    /// A run of `spans`.
    Many(u32, u8),
}

/// Velocities up to `high`, from where the span before ends, belong to one rule.
#[derive(Clone, Copy, Debug)]
struct Span {
    high: u8,
    owner: u32,
}

impl DeviceTable {
    /// All rules of a cell in order of precedence. Empty for a crowded press cell, which is only
    /// asked through [`Self::first`].
    #[inline]
    pub fn rules(&self, kind: Kind, number: usize) -> &[Entry] {
        match self.cells.get(kind.base() + number) {
            Some(cell) if !cell.split => self.entries.get(range(cell.start, cell.len)).unwrap_or(&[]),
            Some(_) | None => &[],
        }
    }

    /// The rule that wins for this channel (as a mask) and value.
    #[inline]
    pub fn first(&self, kind: Kind, number: usize, channels: u16, value: u16) -> Option<u32> {
        let cell = self.cells.get(kind.base() + number)?;
        if !cell.split {
            let entries = self.entries.get(range(cell.start, cell.len))?;
            return entries.iter().find(|it| it.takes(channels, value)).map(|it| it.id);
        }
        let value = u8::try_from(value).ok().filter(|it| *it > 0)?;
        let owner = match *self.crowded.get(cell.start as usize)?.get(channels.trailing_zeros() as usize)? {
            Channel::Two(high, low_owner, high_owner) => {
                if value <= high {
                    low_owner
                } else {
                    high_owner
                }
            }
            Channel::Many(start, len) => {
                let spans = self.spans.get(range(start, u16::from(len)))?;
                spans.get(spans.partition_point(|it| it.high < value))?.owner
            }
        };
        (owner != NOBODY).then_some(owner)
    }

    /// Whether any rule at all sits in this cell.
    pub fn has(&self, kind: Kind, number: usize) -> bool {
        self.cells.get(kind.base() + number).is_some_and(|it| it.len > 0 || it.split)
    }

    fn build(mut rules: Vec<(usize, Rank, Entry)>) -> Self {
        rules.sort_unstable_by_key(|it| (it.0, it.1));
        let mut table = DeviceTable {
            cells: vec![Cell::default(); CELLS].into_boxed_slice(),
            entries: Vec::with_capacity(rules.len()),
            crowded: Vec::new(),
            spans: Vec::new(),
        };
        let press = Kind::Press.base()..Kind::Long.base();
        for group in rules.chunk_by(|a, b| a.0 == b.0) {
            let cell_number = group[0].0;
            let cell = if group.len() > CROWDED && press.contains(&cell_number) {
                let start = table.crowded.len() as u32;
                let channels = std::array::from_fn(|channel| table.lay_out(group, channel));
                table.crowded.push(channels);
                Cell { start, len: 0, split: true }
            } else {
                let start = table.entries.len() as u32;
                table.entries.extend(group.iter().map(|it| it.2));
                Cell { start, len: group.len().min(usize::from(u16::MAX)) as u16, split: false }
            };
            table.cells[cell_number] = cell;
        }
        table
    }

    /// Lays the windows of one channel side by side; where they overlap the rule that comes first
    /// in `group` owns the velocity.
    fn lay_out(&mut self, group: &[(usize, Rank, Entry)], channel: usize) -> Channel {
        let mut owners = [NOBODY; 128];
        for (_, _, entry) in group {
            if entry.channels & (1 << channel) != 0 {
                for owner in &mut owners[usize::from(entry.low.min(127))..=usize::from(entry.high.min(127))] {
                    if *owner == NOBODY {
                        *owner = entry.id;
                    }
                }
            }
        }
        let start = self.spans.len();
        let mut high = 0u8;
        // Velocity 0 is a release and never asked for.
        for run in owners[1..].chunk_by(|a, b| a == b) {
            high += run.len() as u8;
            self.spans.push(Span { high, owner: run[0] });
        }
        match self.spans[start..] {
            [only] => {
                self.spans.truncate(start);
                Channel::Two(only.high, only.owner, NOBODY)
            }
            [low, above] => {
                self.spans.truncate(start);
                Channel::Two(low.high, low.owner, above.owner)
            }
            ref spans => Channel::Many(start as u32, spans.len() as u8),
        }
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
    table_row: Vec<u16>,
    tables_per_mode: usize,
    tables: Vec<DeviceTable>,
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

    pub fn compile(config: &Config, slots: &mut Slots) -> Tables {
        let mut compiler = Compiler::new(config, slots);
        for (at, mode) in config.modes.iter().enumerate() {
            compiler.rows(Some(ModeIndex(at as u16)), &mode.rows);
        }
        compiler.rows(None, &config.global);
        compiler.finish()
    }
}

struct Compiler<'a> {
    config: &'a Config,
    slots: &'a mut Slots,
    rows: Vec<Row>,
    bindings: Vec<Binding>,
    nodes: Vec<Node>,
    states: u32,
    asks_for_programs: bool,
}

impl<'a> Compiler<'a> {
    fn new(config: &'a Config, slots: &'a mut Slots) -> Self {
        let (rows, bindings, nodes) = (Vec::new(), Vec::new(), Vec::new());
        Compiler { config, slots, rows, bindings, nodes, states: 0, asks_for_programs: false }
    }

    fn mode_named(&self, name: &str) -> Option<ModeIndex> {
        self.config.modes.iter().position(|it| it.name == name).map(|at| ModeIndex(at as u16))
    }

    fn rows(&mut self, mode: Option<ModeIndex>, rows: &Rows) {
        for (index, mapping) in rows.mappings.iter().enumerate() {
            let (true, Some(rule)) = (mapping.enabled, &mapping.rule) else { continue };
            let action = self.action(&rule.action);
            let zones = if let TriggerKind::VelocityRange { zones, .. } = &rule.trigger.kind {
                zones.iter().map(|it| (it.max, self.action(&it.action))).collect()
            } else {
                Vec::new()
            };
            let order = self.rows.len() as u32;
            let state = has_state(&rule.trigger.kind).then(|| {
                self.states += 1;
                self.states - 1
            });
            let device = rule.trigger.device.as_deref().map(|it| self.slots.slot(it));
            let window = window_of(&rule.trigger.kind);
            self.rows.push(Row {
                mode,
                index: index as u32,
                id: mapping.id.as_str().into(),
                device,
                channels: channel_mask(rule.trigger.channel),
                window,
                time_ms: time_of(&rule.trigger.kind, &self.config.advanced),
                let_through: mapping.let_through,
                action,
                zones,
                chord: chord_keys(&rule.trigger.kind),
                state,
                pattern: if let TriggerKind::Osc { address, .. } = &rule.trigger.kind {
                    Pattern::compile(address).ok()
                } else {
                    None
                },
                rank: Rank {
                    global: mode.is_none(),
                    any_device: device.is_none(),
                    slack: 255 - constraints(&rule.trigger),
                    width: window.width(),
                    order,
                },
                trigger: rule.trigger.clone(),
                written: Arc::new(mapping.clone()),
            });
        }
        for row in &rows.continuous {
            let (true, Some(spec)) = (row.enabled, &row.binding) else { continue };
            let device = spec.source.device.as_deref().map(|it| self.slots.slot(it));
            let targets = spec.targets.iter().map(|it| self.target(it)).collect();
            let constrained = u8::from(spec.source.channel.is_some())
                + u8::from(matches!(&spec.source.kind, SourceKind::Osc { address, .. } if is_exact_address(address)));
            self.bindings.push(Binding {
                mode,
                id: row.id.as_str().into(),
                device,
                channels: channel_mask(spec.source.channel),
                targets,
                pattern: if let SourceKind::Osc { address, .. } = &spec.source.kind {
                    Pattern::compile(address).ok()
                } else {
                    None
                },
                rank: Rank {
                    global: mode.is_none(),
                    any_device: device.is_none(),
                    slack: 255 - constrained,
                    width: 0,
                    order: self.bindings.len() as u32,
                },
                spec: spec.clone(),
                written: Arc::new(row.clone()),
            });
        }
    }

    fn target(&mut self, target: &Target) -> CompiledTarget {
        let port = match target {
            Target::Cc { port, .. }
            | Target::Cc14 { port, .. }
            | Target::Nrpn { port, .. }
            | Target::Rpn { port, .. }
            | Target::PitchBend { port, .. }
            | Target::Aftertouch { port, .. } => Some(self.slots.slot(port)),
            Target::OscFloat { .. } | Target::LiveParameter { .. } | Target::PatchAttribute { .. } => None,
        };
        CompiledTarget { spec: Arc::new(target.clone()), port }
    }

    fn action(&mut self, action: &Action) -> ActionId {
        let node = match action {
            Action::Sequence { actions } => Node::Sequence(actions.iter().map(|it| self.action(it)).collect()),
            Action::Delay { ms } => Node::Delay(*ms),
            Action::Repeat { action, count, delay_ms, while_held } => Node::Repeat {
                action: self.action(action),
                count: *count,
                delay_ms: *delay_ms,
                while_held: *while_held,
            },
            Action::Conditional { condition, then_action, else_action } => Node::Conditional {
                condition: self.condition(condition),
                then_action: self.action(then_action),
                else_action: else_action.as_deref().map(|it| self.action(it)),
            },
            Action::Keystroke(keys) => Node::Leaf(Leaf::Keystroke(Arc::new(keys.clone()))),
            Action::Text { text } => Node::Leaf(Leaf::Text(text.as_str().into())),
            Action::MouseClick { button, at } => Node::Leaf(Leaf::Click { button: *button, at: *at }),
            Action::VolumeControl(volume) => Node::Leaf(Leaf::Volume(*volume)),
            // An unknown mode is a load error, so the rule would not be here; the present mode is
            // the harmless reading.
            Action::ModeChange { mode } => match self.mode_named(mode) {
                Some(mode) => Node::Leaf(Leaf::ModeChange(mode)),
                None => Node::Sequence(Vec::new()),
            },
            Action::SendMidi(send) => Node::Leaf(Leaf::SendMidi {
                port: self.slots.slot(&send.port),
                channel: send.channel,
                message: send.message.clone(),
            }),
            Action::MidiForward { target, transform } => Node::Leaf(Leaf::Forward {
                port: (target != "_source").then(|| self.slots.slot(target)),
                transform: Arc::new(transform.clone()),
            }),
            Action::OscSend { host, port, address, args } => Node::Leaf(Leaf::Osc {
                host: host.as_str().into(),
                port: *port,
                message: Arc::new(OscMessage { address: address.clone(), args: args.clone() }),
            }),
            Action::Launch { .. } | Action::Shell { .. } | Action::CallTool { .. } | Action::Plugin { .. } => {
                Node::Leaf(Leaf::Call(Arc::new(action.clone())))
            }
        };
        self.nodes.push(node);
        ActionId(self.nodes.len() as u32 - 1)
    }

    fn condition(&mut self, condition: &Condition) -> CompiledCondition {
        match condition {
            Condition::Always => CompiledCondition::Always,
            Condition::Never => CompiledCondition::Never,
            Condition::TimeRange { start, end } => CompiledCondition::TimeRange { start: *start, end: *end },
            Condition::DayOfWeek { days } => CompiledCondition::DayOfWeek { days: *days },
            Condition::AppRunning { app_name } => {
                self.asks_for_programs = true;
                CompiledCondition::AppRunning(app_name.as_str().into())
            }
            Condition::AppFrontmost { app_name } => CompiledCondition::AppFrontmost(app_name.as_str().into()),
            Condition::ModeIs { mode } => CompiledCondition::ModeIs(self.mode_named(mode)),
            Condition::DeviceConnected { device } => CompiledCondition::DeviceConnected(self.slots.slot(device)),
            Condition::And(all) => CompiledCondition::And(all.iter().map(|it| self.condition(it)).collect()),
            Condition::Or(any) => CompiledCondition::Or(any.iter().map(|it| self.condition(it)).collect()),
            Condition::Not(inner) => CompiledCondition::Not(Box::new(self.condition(inner))),
        }
    }

    fn finish(self) -> Tables {
        let Compiler { config, slots, rows, bindings, nodes, states, asks_for_programs } = self;
        let mut facts = vec![DeviceFacts::default(); slots.len()];
        for device in &config.devices {
            let slot = slots.slot(&device.alias);
            facts.resize(facts.len().max(slots.len()), DeviceFacts::default());
            facts[usize::from(slot.0)] = DeviceFacts {
                enabled: device.enabled,
                channels: if device.channels.is_empty() {
                    ALL_CHANNELS
                } else {
                    device.channels.iter().fold(0, |mask, it| mask | channel_mask(Some(*it)))
                },
                allow_sensitive_actions: device.allow_sensitive_actions,
                echo_guard: device.echo_guard,
            };
        }
        let routes: Vec<CompiledRoute> = config
            .routes
            .iter()
            .filter(|it| it.enabled)
            .map(|route| CompiledRoute {
                from: slots.slot(&route.from),
                to: slots.slot(&route.to),
                filter: route.filter.clone(),
                transform: Arc::new(route.transform.clone()),
                any_mode: route.modes.is_empty(),
                modes: config
                    .modes
                    .iter()
                    .enumerate()
                    .filter(|(_, it)| route.modes.contains(&it.name))
                    .map(|(at, _)| ModeIndex(at as u16))
                    .collect(),
            })
            .collect();

        let mut table_row = vec![0u16; slots.len()];
        let mut named = 0u16;
        for device in rows.iter().filter_map(|it| it.device).chain(bindings.iter().filter_map(|it| it.device)) {
            let row = &mut table_row[usize::from(device.0)];
            if *row == 0 {
                named += 1;
                *row = named;
            }
        }
        let tables_per_mode = usize::from(named) + 1;
        let modes = config.modes.len().max(1);
        let mut buckets: Vec<Vec<(usize, Rank, Entry)>> = vec![Vec::new(); modes * tables_per_mode];
        let mut place =
            |mode: Option<ModeIndex>, device: Option<DeviceSlot>, cells: &[usize], rank: Rank, entry: Entry| {
                let modes = match mode {
                    Some(mode) => usize::from(mode.0)..usize::from(mode.0) + 1,
                    None => 0..modes,
                };
                let devices = match device {
                    Some(slot) => {
                        let row = usize::from(table_row[usize::from(slot.0)]);
                        row..row + 1
                    }
                    None => 0..tables_per_mode,
                };
                for mode in modes {
                    for device in devices.clone() {
                        let bucket = &mut buckets[mode * tables_per_mode + device];
                        bucket.extend(cells.iter().map(|cell| (*cell, rank, entry)));
                    }
                }
            };
        for (id, row) in rows.iter().enumerate() {
            let entry = Entry { id: id as u32, channels: row.channels, low: row.window.min, high: row.window.max };
            place(row.mode, row.device, &trigger_cells(&row.trigger.kind), row.rank, entry);
        }
        for (id, binding) in bindings.iter().enumerate() {
            let (cells, low, high) = source_cells(&binding.spec.source.kind);
            let entry = Entry { id: id as u32, channels: binding.channels, low, high };
            place(binding.mode, binding.device, &cells, binding.rank, entry);
        }
        let default_mode = config
            .modes
            .iter()
            .position(|it| it.name == config.default_mode)
            .map_or(ModeIndex(0), |at| ModeIndex(at as u16));
        Tables {
            mode_names: config.modes.iter().map(|it| it.name.as_str().into()).collect(),
            default_mode,
            rows,
            bindings,
            nodes,
            states: states as usize,
            asks_for_programs,
            routes,
            advanced: config.advanced.clone(),
            devices: facts,
            table_row,
            tables_per_mode,
            tables: buckets.into_iter().map(DeviceTable::build).collect(),
        }
    }
}

fn channel_mask(channel: Option<u8>) -> u16 {
    channel.map_or(ALL_CHANNELS, |it| 1 << (it & 15))
}

fn window_of(kind: &TriggerKind) -> Window {
    const FULL: Window = Window { min: 0, max: u16::MAX };
    match kind {
        TriggerKind::Note { velocity, .. } | TriggerKind::VelocityRange { velocity, .. } => *velocity,
        TriggerKind::Cc { gate, .. } | TriggerKind::Aftertouch { gate } | TriggerKind::PolyAftertouch { gate, .. } => {
            gate.window.unwrap_or(Window { min: 0, max: 127 })
        }
        TriggerKind::PitchBend { gate, .. } => gate.window.unwrap_or(Window { min: 0, max: 16383 }),
        TriggerKind::GamepadTrigger { threshold, .. } => Window { min: u16::from(*threshold), max: 127 },
        TriggerKind::LongPress { .. }
        | TriggerKind::DoubleTap { .. }
        | TriggerKind::NoteChord { .. }
        | TriggerKind::EncoderTurn { .. }
        | TriggerKind::ProgramChange { .. }
        | TriggerKind::GamepadButton { .. }
        | TriggerKind::GamepadButtonChord { .. }
        | TriggerKind::GamepadAnalogStick { .. }
        | TriggerKind::Osc { .. } => FULL,
    }
}

fn time_of(kind: &TriggerKind, advanced: &Advanced) -> u32 {
    match kind {
        TriggerKind::LongPress { duration_ms, .. } => duration_ms.unwrap_or(advanced.hold_threshold_ms),
        TriggerKind::DoubleTap { timeout_ms, .. } => timeout_ms.unwrap_or(advanced.double_tap_timeout_ms),
        TriggerKind::NoteChord { timeout_ms, .. } | TriggerKind::GamepadButtonChord { timeout_ms, .. } => {
            timeout_ms.unwrap_or(advanced.chord_timeout_ms)
        }
        TriggerKind::Note { .. }
        | TriggerKind::Cc { .. }
        | TriggerKind::VelocityRange { .. }
        | TriggerKind::EncoderTurn { .. }
        | TriggerKind::Aftertouch { .. }
        | TriggerKind::PolyAftertouch { .. }
        | TriggerKind::PitchBend { .. }
        | TriggerKind::ProgramChange { .. }
        | TriggerKind::GamepadButton { .. }
        | TriggerKind::GamepadAnalogStick { .. }
        | TriggerKind::GamepadTrigger { .. }
        | TriggerKind::Osc { .. } => 0,
    }
}

fn chord_keys(kind: &TriggerKind) -> Vec<u8> {
    if let TriggerKind::NoteChord { notes, .. } = kind {
        notes.clone()
    } else if let TriggerKind::GamepadButtonChord { buttons, .. } = kind {
        buttons.iter().map(|it| it.id()).collect()
    } else {
        Vec::new()
    }
}

/// Whether the rule remembers what its control did before.
fn has_state(kind: &TriggerKind) -> bool {
    match kind {
        TriggerKind::Cc { .. }
        | TriggerKind::Aftertouch { .. }
        | TriggerKind::PolyAftertouch { .. }
        | TriggerKind::PitchBend { .. }
        | TriggerKind::EncoderTurn { .. }
        | TriggerKind::GamepadAnalogStick { .. }
        | TriggerKind::GamepadTrigger { .. } => true,
        TriggerKind::Note { .. }
        | TriggerKind::VelocityRange { .. }
        | TriggerKind::LongPress { .. }
        | TriggerKind::DoubleTap { .. }
        | TriggerKind::NoteChord { .. }
        | TriggerKind::ProgramChange { .. }
        | TriggerKind::GamepadButton { .. }
        | TriggerKind::GamepadButtonChord { .. }
        | TriggerKind::Osc { .. } => false,
    }
}

/// How many dimensions a trigger constrains, for the third rule of precedence.
fn constraints(trigger: &Trigger) -> u8 {
    let channel = u8::from(trigger.channel.is_some());
    let window = window_of(&trigger.kind);
    let narrower = |full: Window| u8::from(window.min > full.min || window.max < full.max);
    let own = match &trigger.kind {
        TriggerKind::Note { .. } | TriggerKind::VelocityRange { .. } => narrower(Window::VELOCITY),
        TriggerKind::Cc { .. } | TriggerKind::Aftertouch { .. } | TriggerKind::PolyAftertouch { .. } => {
            narrower(Window { min: 0, max: 127 })
        }
        TriggerKind::PitchBend { .. } => narrower(Window { min: 0, max: 16383 }),
        TriggerKind::GamepadTrigger { .. } => narrower(Window { min: 0, max: 127 }),
        TriggerKind::EncoderTurn { direction, .. } | TriggerKind::GamepadAnalogStick { direction, .. } => {
            u8::from(direction.is_some())
        }
        TriggerKind::ProgramChange { program, bank_msb, bank_lsb } => {
            u8::from(program.is_some()) + u8::from(bank_msb.is_some()) + u8::from(bank_lsb.is_some())
        }
        TriggerKind::Osc { address, args } => args.len().min(16) as u8 + u8::from(is_exact_address(address)),
        TriggerKind::LongPress { .. }
        | TriggerKind::DoubleTap { .. }
        | TriggerKind::NoteChord { .. }
        | TriggerKind::GamepadButton { .. }
        | TriggerKind::GamepadButtonChord { .. } => 0,
    };
    channel + own
}

/// The cells a trigger is found in. A trigger on press and release stands in both tables, a chord
/// in one cell per member.
fn trigger_cells(kind: &TriggerKind) -> Vec<usize> {
    let one = |kind: Kind, number: usize| vec![kind.base() + number];
    let press = |on: On, number: u8| {
        let number = usize::from(number);
        match on {
            On::Press => one(Kind::Press, number),
            On::Release => one(Kind::Release, number),
            On::Both => vec![Kind::Press.base() + number, Kind::Release.base() + number],
        }
    };
    match kind {
        TriggerKind::Note { note, on, .. } => press(*on, *note),
        TriggerKind::VelocityRange { note, .. } => press(On::Press, *note),
        TriggerKind::GamepadButton { button, on, .. } => press(*on, button.id()),
        TriggerKind::LongPress { key, .. } => one(Kind::Long, usize::from(key_number(*key))),
        TriggerKind::DoubleTap { key, .. } => one(Kind::Double, usize::from(key_number(*key))),
        TriggerKind::NoteChord { notes, .. } => {
            notes.iter().map(|note| Kind::Chord.base() + usize::from(*note)).collect()
        }
        TriggerKind::GamepadButtonChord { buttons, .. } => {
            buttons.iter().map(|button| Kind::Chord.base() + usize::from(button.id())).collect()
        }
        TriggerKind::Cc { cc, .. } => one(Kind::Cc, usize::from(*cc)),
        TriggerKind::EncoderTurn { cc, encoder, .. } => match encoder.mode {
            EncoderMode::NrpnIncDec { .. } => one(Kind::NrpnStep, 0),
            EncoderMode::Absolute
            | EncoderMode::TwosComplement
            | EncoderMode::Offset64
            | EncoderMode::SignBit
            | EncoderMode::IncDec => one(Kind::Encoder, usize::from(*cc)),
        },
        TriggerKind::PolyAftertouch { note, .. } => one(Kind::PolyPressure, usize::from(*note)),
        TriggerKind::Aftertouch { .. } => one(Kind::Pressure, 0),
        TriggerKind::PitchBend { .. } => one(Kind::Bend, 0),
        TriggerKind::ProgramChange { .. } => one(Kind::Program, 0),
        TriggerKind::GamepadAnalogStick { axis, .. } => one(Kind::Stick, axis_number(*axis)),
        TriggerKind::GamepadTrigger { side, .. } => one(Kind::Pull, side_number(*side)),
        TriggerKind::Osc { .. } => one(Kind::Osc, 0),
    }
}

/// The cell of a source, and the window its number must lie in (the parameter of an NRPN or RPN;
/// everything otherwise).
fn source_cells(kind: &SourceKind) -> ([usize; 1], u16, u16) {
    let any = |kind: Kind, number: usize| ([kind.base() + number], 0, u16::MAX);
    match kind {
        SourceKind::Cc { cc } => any(Kind::SourceCc, usize::from(*cc)),
        SourceKind::Encoder { cc, encoder, .. } => match encoder.mode {
            EncoderMode::NrpnIncDec { parameter } => ([Kind::SourceNrpnStep.base()], parameter, parameter),
            EncoderMode::Absolute
            | EncoderMode::TwosComplement
            | EncoderMode::Offset64
            | EncoderMode::SignBit
            | EncoderMode::IncDec => any(Kind::SourceCc, usize::from(*cc)),
        },
        SourceKind::Cc14 { cc } => any(Kind::SourceCc14, usize::from(*cc & 31)),
        SourceKind::Nrpn { parameter } => ([Kind::SourceNrpn.base()], *parameter, *parameter),
        SourceKind::Rpn { parameter } => ([Kind::SourceRpn.base()], *parameter, *parameter),
        SourceKind::PitchBend => any(Kind::SourceBend, 0),
        SourceKind::Aftertouch => any(Kind::SourcePressure, 0),
        SourceKind::PolyAftertouch { note } => any(Kind::SourcePoly, usize::from(*note)),
        SourceKind::GamepadAnalogStick { axis } => any(Kind::SourceStick, axis_number(*axis)),
        SourceKind::GamepadTrigger { side } => any(Kind::SourcePull, side_number(*side)),
        SourceKind::Osc { .. } => any(Kind::SourceOsc, 0),
    }
}

pub fn axis_number(axis: Axis) -> usize {
    usize::from(axis.id() - Axis::LeftX.id())
}

pub fn side_number(side: Side) -> usize {
    usize::from(side.id() - Side::Left.id())
}

fn is_exact_address(address: &str) -> bool {
    Pattern::compile(address).is_ok_and(|it| it.is_exact())
}
