//! Compiles a configuration into the dense tables of [`table`](super::table). The engine compiles a
//! configuration when it takes effect, not for each event.
//!
//! [`trigger_shape`] describes each kind of trigger, [`source_cell`] each kind of source.

use super::table::{
    ALL_CHANNELS, ActionId, Binding, CELLS, CROWDED, Cell, ChannelSpans, CompiledCondition, CompiledRoute,
    CompiledTarget, DeviceFacts, DeviceTable, Entry, KEYS, Kind, Leaf, ModeIndex, NO_RULE, Node, Rank, Row, Slots,
    Span, Tables,
};
use super::{Encoder, EncoderMode, Gate, Key, On, SourceKind, Target, TriggerKind, Window};
use crate::action::{Action, Condition};
use crate::config::{Advanced, Config, Rows};
use crate::event::osc::Pattern;
use crate::event::{DeviceSlot, OscMessage};
use std::sync::Arc;

impl Tables {
    /// Compiles a configuration. Devices and ports in the configuration get a slot.
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
    /// The table cells of each row.
    cells: Vec<Vec<usize>>,
    bindings: Vec<Binding>,
    nodes: Vec<Node>,
    states: u32,
    asks_for_programs: bool,
    asks_for_time: bool,
}

impl<'a> Compiler<'a> {
    fn new(config: &'a Config, slots: &'a mut Slots) -> Self {
        Compiler {
            config,
            slots,
            rows: Vec::new(),
            cells: Vec::new(),
            bindings: Vec::new(),
            nodes: Vec::new(),
            states: 0,
            asks_for_programs: false,
            asks_for_time: false,
        }
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
            let device = rule.trigger.device.as_deref().map(|it| self.slots.slot(it));
            let shape = trigger_shape(&rule.trigger.kind, &self.config.advanced);
            let state = shape.has_state.then_some(self.states);
            self.states += u32::from(shape.has_state);
            let constraints = u8::from(rule.trigger.channel.is_some()) + shape.constraints;
            let rank = Rank::new(mode, device, constraints, shape.window, self.rows.len());
            self.cells.push(shape.cells);
            self.rows.push(Row {
                mode,
                index: index as u32,
                id: mapping.id.as_str().into(),
                device,
                channels: channel_mask(rule.trigger.channel),
                window: shape.window,
                time_ms: shape.time_ms,
                let_through: mapping.let_through,
                action,
                zones,
                chord: shape.chord,
                state,
                pattern: shape.pattern,
                rank,
                trigger: rule.trigger.clone(),
                written: Arc::new(mapping.clone()),
            });
        }
        for row in &rows.continuous {
            let (true, Some(spec)) = (row.enabled, &row.binding) else { continue };
            let device = spec.source.device.as_deref().map(|it| self.slots.slot(it));
            let targets = spec.targets.iter().map(|it| self.target(it)).collect();
            let pattern = if let SourceKind::Osc { address, .. } = &spec.source.kind {
                Pattern::compile(address).ok()
            } else {
                None
            };
            let constraints =
                u8::from(spec.source.channel.is_some()) + u8::from(pattern.as_ref().is_some_and(Pattern::is_exact));
            let rank = Rank::new(mode, device, constraints, Window { min: 0, max: 0 }, self.bindings.len());
            self.bindings.push(Binding {
                mode,
                id: row.id.as_str().into(),
                device,
                channels: channel_mask(spec.source.channel),
                targets,
                pattern,
                rank,
                spec: spec.clone(),
                written: Arc::new(row.clone()),
            });
        }
    }

    fn target(&mut self, target: &Target) -> CompiledTarget {
        let port = target.midi().map(|(port, _)| self.slots.slot(port));
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
            // A row with an unknown mode is disabled with an error, so `mode_named` always finds
            // the mode. The other branch does nothing.
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
            Condition::TimeRange { start, end } => {
                self.asks_for_time = true;
                CompiledCondition::TimeRange { start: *start, end: *end }
            }
            Condition::DayOfWeek { days } => {
                self.asks_for_time = true;
                CompiledCondition::DayOfWeek { days: *days }
            }
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
        let Compiler { config, slots, rows, cells, bindings, nodes, states, asks_for_programs, asks_for_time } = self;
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
        for (id, (row, cells)) in rows.iter().zip(&cells).enumerate() {
            let entry = Entry { id: id as u32, channels: row.channels, low: row.window.min, high: row.window.max };
            place(row.mode, row.device, cells, row.rank, entry);
        }
        for (id, binding) in bindings.iter().enumerate() {
            let (cell, numbers) = source_cell(&binding.spec.source.kind);
            let entry = Entry { id: id as u32, channels: binding.channels, low: numbers.min, high: numbers.max };
            place(binding.mode, binding.device, &[cell], binding.rank, entry);
        }
        let default_mode = config
            .modes
            .iter()
            .position(|it| it.name == config.default_mode)
            .map_or(ModeIndex(0), |at| ModeIndex(at as u16));
        let mut chords = [0; KEYS];
        for key in rows.iter().flat_map(|it| &it.chord) {
            if let Some(count) = chords.get_mut(usize::from(*key)) {
                *count += 1;
            }
        }
        Tables {
            any_mode: "*".into(),
            chord_rules: chords.into_iter().max().unwrap_or(0),
            mode_names: config.modes.iter().map(|it| it.name.as_str().into()).collect(),
            default_mode,
            rows,
            bindings,
            nodes,
            states: states as usize,
            asks_for_programs,
            asks_for_time,
            routes,
            advanced: config.advanced.clone(),
            devices: facts,
            table_row,
            tables_per_mode,
            tables: buckets.into_iter().map(DeviceTable::build).collect(),
        }
    }
}
impl DeviceTable {
    fn build(mut rules: Vec<(usize, Rank, Entry)>) -> Self {
        rules.sort_unstable_by_key(|it| (it.0, it.1));
        let mut table = DeviceTable {
            cells: vec![Cell::default(); CELLS].into_boxed_slice(),
            entries: Vec::with_capacity(rules.len()),
            crowded: Vec::new(),
            spans: Vec::new(),
        };
        let press = Kind::Press as usize..Kind::Long as usize;
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

    /// Splits the velocities of one channel into spans with one rule each. Where windows overlap,
    /// the rule that is first in `group` applies.
    fn lay_out(&mut self, group: &[(usize, Rank, Entry)], channel: usize) -> ChannelSpans {
        let mut owners = [NO_RULE; 128];
        for (_, _, entry) in group {
            if entry.channels & (1 << channel) != 0 {
                for owner in &mut owners[usize::from(entry.low.min(127))..=usize::from(entry.high.min(127))] {
                    if *owner == NO_RULE {
                        *owner = entry.id;
                    }
                }
            }
        }
        let start = self.spans.len();
        let mut high = 0u8;
        // No lookup has velocity 0: a release is looked up with the velocity of its press.
        for run in owners[1..].chunk_by(|a, b| a == b) {
            high += run.len() as u8;
            self.spans.push(Span { high, owner: run[0] });
        }
        match self.spans[start..] {
            [only] => {
                self.spans.truncate(start);
                ChannelSpans::Two(only.high, only.owner, NO_RULE)
            }
            [low, above] => {
                self.spans.truncate(start);
                ChannelSpans::Two(low.high, low.owner, above.owner)
            }
            ref spans => ChannelSpans::Many(start as u32, spans.len() as u8),
        }
    }
}

impl Rank {
    fn new(mode: Option<ModeIndex>, device: Option<DeviceSlot>, constraints: u8, window: Window, order: usize) -> Rank {
        Rank {
            global: mode.is_none(),
            any_device: device.is_none(),
            slack: 255 - constraints,
            width: window.width(),
            order: order as u32,
        }
    }
}

fn channel_mask(channel: Option<u8>) -> u16 {
    channel.map_or(ALL_CHANNELS, |it| 1 << (it & 15))
}

const ANY: Window = Window { min: 0, max: u16::MAX };

/// The properties of a trigger that the tables need.
struct TriggerShape {
    /// The table cells of the trigger: usually one cell; two cells for a trigger on press and
    /// release; one cell per member of a chord.
    cells: Vec<usize>,
    window: Window,
    /// The number of conditions of the trigger, without the channel; see [`Rank::slack`].
    constraints: u8,
    /// The duration of a long press, or the timeout of a double tap or chord.
    time_ms: u32,
    /// The keys of a chord; empty otherwise.
    chord: Vec<u8>,
    /// Whether the rule needs earlier values of its control.
    has_state: bool,
    pattern: Option<Pattern>,
}

impl TriggerShape {
    fn cell(kind: Kind, number: impl Into<usize>) -> Self {
        TriggerShape {
            cells: vec![kind as usize + number.into()],
            window: ANY,
            constraints: 0,
            time_ms: 0,
            chord: Vec::new(),
            has_state: false,
            pattern: None,
        }
    }

    fn key(on: On, number: u8) -> Self {
        match on {
            On::Press => TriggerShape::cell(Kind::Press, number),
            On::Release => TriggerShape::cell(Kind::Release, number),
            On::Both => {
                let cells = [Kind::Press, Kind::Release].map(|it| it as usize + usize::from(number)).into();
                TriggerShape { cells, ..TriggerShape::cell(Kind::Press, number) }
            }
        }
    }

    fn chord(keys: Vec<u8>, time_ms: u32) -> Self {
        let cells = keys.iter().map(|key| Kind::Chord as usize + usize::from(*key)).collect();
        TriggerShape { cells, chord: keys, time_ms, ..TriggerShape::cell(Kind::Chord, 0u8) }
    }

    /// Sets the window. The window counts as a restriction if it is narrower than the full range.
    fn windowed(self, window: Window, full: Window) -> Self {
        TriggerShape { window, constraints: u8::from(window.min > full.min || window.max < full.max), ..self }
    }

    fn addressed(self, address: &str) -> Self {
        let pattern = Pattern::compile(address).ok();
        let exact = u8::from(pattern.as_ref().is_some_and(Pattern::is_exact));
        TriggerShape { constraints: self.constraints + exact, pattern, ..self }
    }

    fn gated(self, gate: &Gate, full: Window) -> Self {
        TriggerShape { has_state: true, ..self.windowed(gate.window.unwrap_or(full), full) }
    }
}

fn trigger_shape(kind: &TriggerKind, advanced: &Advanced) -> TriggerShape {
    match kind {
        TriggerKind::Note { note, on, velocity, .. } => {
            TriggerShape::key(*on, *note).windowed(*velocity, Window::VELOCITY)
        }
        TriggerKind::VelocityRange { note, velocity, .. } => {
            TriggerShape::key(On::Press, *note).windowed(*velocity, Window::VELOCITY)
        }
        TriggerKind::GamepadButton { button, on, .. } => TriggerShape::key(*on, button.id()),
        TriggerKind::LongPress { key, duration_ms, .. } => TriggerShape {
            time_ms: duration_ms.unwrap_or(advanced.hold_threshold_ms),
            ..TriggerShape::cell(Kind::Long, key_number(*key))
        },
        TriggerKind::DoubleTap { key, timeout_ms } => TriggerShape {
            time_ms: timeout_ms.unwrap_or(advanced.double_tap_timeout_ms),
            ..TriggerShape::cell(Kind::Double, key_number(*key))
        },
        TriggerKind::NoteChord { notes, timeout_ms } => {
            TriggerShape::chord(notes.clone(), timeout_ms.unwrap_or(advanced.chord_timeout_ms))
        }
        TriggerKind::GamepadButtonChord { buttons, timeout_ms } => {
            let keys = buttons.iter().map(|it| it.id()).collect();
            TriggerShape::chord(keys, timeout_ms.unwrap_or(advanced.chord_timeout_ms))
        }
        TriggerKind::Cc { cc, gate } => TriggerShape::cell(Kind::Cc, *cc).gated(gate, Window::SEVEN_BIT),
        TriggerKind::Aftertouch { gate } => TriggerShape::cell(Kind::Pressure, 0u8).gated(gate, Window::SEVEN_BIT),
        TriggerKind::PolyAftertouch { note, gate } => {
            TriggerShape::cell(Kind::PolyPressure, *note).gated(gate, Window::SEVEN_BIT)
        }
        TriggerKind::PitchBend { gate, .. } => TriggerShape::cell(Kind::Bend, 0u8).gated(gate, Window::FOURTEEN_BIT),
        TriggerKind::GamepadTrigger { side, threshold, gate } => {
            let window = Some(Window { min: u16::from(*threshold), ..Window::SEVEN_BIT });
            TriggerShape::cell(Kind::Pull, side.index()).gated(&Gate { window, ..*gate }, Window::SEVEN_BIT)
        }
        TriggerKind::EncoderTurn { cc, encoder, direction, .. } => TriggerShape {
            has_state: true,
            constraints: u8::from(direction.is_some()),
            ..match nrpn_parameter(encoder) {
                Some(_) => TriggerShape::cell(Kind::NrpnStep, 0u8),
                None => TriggerShape::cell(Kind::Encoder, *cc),
            }
        },
        TriggerKind::GamepadAnalogStick { axis, direction, .. } => TriggerShape {
            has_state: true,
            constraints: u8::from(direction.is_some()),
            ..TriggerShape::cell(Kind::Stick, axis.index())
        },
        TriggerKind::ProgramChange { program, bank_msb, bank_lsb } => {
            let constraints = [program, bank_msb, bank_lsb].into_iter().flatten().count() as u8;
            TriggerShape { constraints, ..TriggerShape::cell(Kind::Program, 0u8) }
        }
        TriggerKind::Osc { address, args } => {
            TriggerShape { constraints: args.len().min(16) as u8, ..TriggerShape::cell(Kind::Osc, 0u8) }
                .addressed(address)
        }
    }
}

/// The table cell of a source, and the parameter numbers that it matches: one number for NRPN and
/// RPN, all for other sources.
fn source_cell(kind: &SourceKind) -> (usize, Window) {
    let any = |kind: Kind, number: usize| (kind as usize + number, ANY);
    let one = |kind: Kind, parameter: u16| (kind as usize, Window { min: parameter, max: parameter });
    match kind {
        SourceKind::Cc { cc } => any(Kind::SourceCc, usize::from(*cc)),
        SourceKind::Encoder { cc, encoder, .. } => match nrpn_parameter(encoder) {
            Some(parameter) => one(Kind::SourceNrpnStep, parameter),
            None => any(Kind::SourceCc, usize::from(*cc)),
        },
        SourceKind::Cc14 { cc } => any(Kind::SourceCc14, usize::from(*cc & 31)),
        SourceKind::Nrpn { parameter } => one(Kind::SourceNrpn, *parameter),
        SourceKind::Rpn { parameter } => one(Kind::SourceRpn, *parameter),
        SourceKind::PitchBend => any(Kind::SourceBend, 0),
        SourceKind::Aftertouch => any(Kind::SourcePressure, 0),
        SourceKind::PolyAftertouch { note } => any(Kind::SourcePoly, usize::from(*note)),
        SourceKind::GamepadAnalogStick { axis } => any(Kind::SourceStick, axis.index()),
        SourceKind::GamepadTrigger { side } => any(Kind::SourcePull, side.index()),
        SourceKind::Osc { .. } => any(Kind::SourceOsc, 0),
    }
}

/// The parameter of an encoder that sends NRPN increments. `None` for encoders that send controller
/// values.
fn nrpn_parameter(encoder: &Encoder) -> Option<u16> {
    if let EncoderMode::NrpnIncDec { parameter } = encoder.mode { Some(parameter) } else { None }
}

fn key_number(key: Key) -> u8 {
    match key {
        Key::Note(note) => note,
        Key::Button(button) => button.id(),
    }
}
