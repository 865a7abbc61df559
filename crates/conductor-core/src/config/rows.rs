//! Reads the rows of a mode: mappings and continuous bindings, their ids, and the checks that need
//! more than one row.
//!
//! Every entry of the file becomes one row, valid or not, so that a row has the same index here as
//! in the file.

use super::reader::{Fields, Reader};
use super::tree::{Node, Place};
use super::{Class, ContinuousRow, Mapping, Rows, Rule, Severity, Written};
use super::{action, continuous, trigger};
use crate::action::{Action, MidiOut};
use crate::mapping::{Fire, Key, On, TriggerKind};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The mode name of global rows, which are outside all modes.
pub const GLOBAL: &str = "*";

/// A row that was read without the other rows. Ids and checks that depend on other rows are added
/// later.
pub(crate) struct Row<T> {
    pub id: Option<String>,
    pub description: Option<String>,
    pub enabled: bool,
    pub let_through: bool,
    pub held: Option<T>,
}

pub(crate) fn mapping<'t>(r: &mut Reader<'t>, node: &'t Node) -> Row<Rule> {
    let before = r.errors();
    let Some(mut f) = r.define("Mapping").and_then(|()| r.table(node)) else { return Row::empty() };
    let id = f.opt(r, "id", Reader::id);
    let description = f.opt(r, "description", Reader::description);
    let trigger = f.need(r, "trigger", trigger::read);
    let action = f.need(r, "action", action::read);
    let let_through = f.or(r, "let_through", false, Reader::boolean);
    let enabled = f.or(r, "enabled", true, Reader::boolean);
    f.finish(r);
    let rule = trigger.zip(action).map(|(trigger, action)| Rule { trigger, action });
    if let Some(rule) = &rule {
        warn_of_outputs_without_end(r, node, rule);
    }
    Row { id, description, enabled, let_through, held: rule.filter(|_| r.errors() == before) }
}

pub(crate) fn continuous<'t>(r: &mut Reader<'t>, node: &'t Node) -> Row<crate::mapping::Continuous> {
    let before = r.errors();
    let Some(mut f) = r.define("Continuous").and_then(|()| r.table(node)) else { return Row::empty() };
    let id = f.opt(r, "id", Reader::id);
    let description = f.opt(r, "description", Reader::description);
    let binding = continuous::binding(r, &mut f);
    let enabled = f.or(r, "enabled", true, Reader::boolean);
    f.finish(r);
    Row { id, description, enabled, let_through: false, held: binding.filter(|_| r.errors() == before) }
}

impl<T> Row<T> {
    fn empty() -> Self {
        Row { id: None, description: None, enabled: true, let_through: false, held: None }
    }
}

pub(crate) fn read<'t>(
    r: &mut Reader<'t>,
    f: &mut Fields<'t>,
    mode: &str,
    [mappings, bindings]: [&'static str; 2],
) -> Rows {
    Rows {
        mappings: f.or_default(r, mappings, |r, node| {
            if r.is_describing() {
                r.list_of(node, 0, usize::MAX, |r, item| mapping(r, item).held)?;
            }
            let nodes = r.list(node, 0, usize::MAX)?;
            Some(read_mappings(r, mode, nodes))
        }),
        continuous: f.or_default(r, bindings, |r, node| {
            if r.is_describing() {
                r.list_of(node, 0, usize::MAX, |r, item| continuous(r, item).held)?;
            }
            let nodes = r.list(node, 0, usize::MAX)?;
            Some(read_continuous(r, mode, nodes))
        }),
    }
}

fn read_mappings<'t>(r: &mut Reader<'t>, mode: &str, nodes: &'t [Node]) -> Vec<Mapping> {
    let mut rows = r.each(nodes, |r, node| Some(mapping(r, node)));
    refuse_second_ids(r, nodes, &mut rows);
    refuse_overlapping_velocities(r, nodes, &mut rows);
    let taken: BTreeSet<String> = rows.iter().filter_map(|row| row.id.clone()).collect();
    let mut ids = Ids { taken };
    let mappings: Vec<Mapping> = rows
        .into_iter()
        .zip(nodes)
        .map(|(row, node)| {
            let part = |key: &str| node.get(key).map_or(Value::Null, Node::to_json);
            let written = Written { trigger: part("trigger"), action: part("action") };
            let id_is_written = row.id.is_some();
            let id = row.id.unwrap_or_else(|| {
                let canonical = match &row.held {
                    Some(rule) => trigger::canonical(&rule.trigger).to_string(),
                    None => sorted(&written.trigger).to_string(),
                };
                ids.make(mode, &canonical)
            });
            Mapping {
                id,
                id_is_written,
                description: row.description,
                enabled: row.enabled,
                let_through: row.let_through,
                written,
                rule: row.held,
            }
        })
        .collect();
    warn_of_second_triggers(r, nodes, &mappings);
    mappings
}

fn read_continuous<'t>(r: &mut Reader<'t>, mode: &str, nodes: &'t [Node]) -> Vec<ContinuousRow> {
    let mut rows = r.each(nodes, |r, node| Some(continuous(r, node)));
    refuse_second_ids(r, nodes, &mut rows);
    let mut ids = Ids { taken: rows.iter().filter_map(|row| row.id.clone()).collect() };
    rows.into_iter()
        .zip(nodes)
        .map(|(row, node)| {
            let id_is_written = row.id.is_some();
            let id = row.id.unwrap_or_else(|| {
                let source = node.get("source").map_or(Value::Null, Node::to_json);
                ids.make(mode, &sorted(&source).to_string())
            });
            ContinuousRow {
                id,
                id_is_written,
                description: row.description,
                enabled: row.enabled,
                written: node.to_json(),
                binding: row.held,
            }
        })
        .collect()
}

/// Generates ids for rows without an id. The ids are unique within a mode, and the same each time
/// the same file is loaded.
struct Ids {
    taken: BTreeSet<String>,
}

impl Ids {
    fn make(&mut self, mode: &str, canonical: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(mode.as_bytes());
        hash.update([0]);
        hash.update(canonical.as_bytes());
        let digest = hash.finalize();
        let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let base = format!("x{hex}");
        let mut id = base.clone();
        let mut count = 2;
        while !self.taken.insert(id.clone()) {
            id = format!("{base}-{count}");
            count += 1;
        }
        id
    }
}

/// Sorts the keys of all tables, so that equal tables have equal hashes.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, Value> = map.iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Refuses the second of two rows with the same id. The first row keeps the id. The second row is
/// disabled and gets a generated id, so that ids stay unique.
fn refuse_second_ids<'t, T>(r: &mut Reader<'t>, nodes: &'t [Node], rows: &mut [Row<T>]) {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (index, (row, node)) in rows.iter_mut().zip(nodes).enumerate() {
        let Some(id) = row.id.clone() else { continue };
        let Some(earlier) = first.get(&id) else {
            first.insert(id, index);
            continue;
        };
        let place = node.get("id").and_then(|it| it.place.clone());
        let message = format!("row {earlier} of this mode already has the id \"{id}\"");
        r.at_index(index, |r| r.under("id", |r| r.rule(&place, message)));
        row.id = None;
        row.held = None;
    }
}

/// Refuses overlapping velocity ranges of one note, because a press could match both rows. Rows for
/// different devices or channels may overlap: precedence decides between them.
fn refuse_overlapping_velocities<'t>(r: &mut Reader<'t>, nodes: &'t [Node], rows: &mut [Row<Rule>]) {
    type Pad = (Option<String>, Option<u8>, u8);
    let mut windows: BTreeMap<Pad, Vec<(usize, crate::mapping::Window)>> = BTreeMap::new();
    for (index, (row, node)) in rows.iter_mut().zip(nodes).enumerate() {
        let Some(rule) = row.held.as_ref().filter(|_| row.enabled) else { continue };
        let TriggerKind::VelocityRange { note, velocity, .. } = &rule.trigger.kind else { continue };
        let others = windows.entry((rule.trigger.device.clone(), rule.trigger.channel, *note)).or_default();
        let clash = others.iter().find(|(_, other)| other.min <= velocity.max && velocity.min <= other.max);
        let Some((earlier, other)) = clash else {
            others.push((index, *velocity));
            continue;
        };
        let message = format!(
            "velocities {} to {} of note {note} overlap with {} to {} of row {earlier}",
            velocity.min, velocity.max, other.min, other.max
        );
        let help = "give each row its own velocity range, or use `zones` in one row".to_owned();
        let place = node.get("trigger").and_then(|it| it.place.clone());
        r.at_index(index, |r| r.under("trigger", |r| r.rule_help(&place, message, help)));
        row.held = None;
    }
}

fn warn_of_second_triggers<'t>(r: &mut Reader<'t>, nodes: &'t [Node], mappings: &[Mapping]) {
    // Most controls have only one row. Compute the normal form only for controls with several rows.
    let live = || mappings.iter().filter(|row| row.enabled).filter_map(|row| row.rule.as_ref());
    let mut seen = BTreeSet::new();
    let crowded: BTreeSet<_> = live().map(|it| rough(&it.trigger)).filter(|it| !seen.insert(*it)).collect();
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    for (index, (row, node)) in mappings.iter().zip(nodes).enumerate() {
        let Some(rule) = row.rule.as_ref().filter(|_| row.enabled) else { continue };
        if !crowded.contains(&rough(&rule.trigger)) {
            continue;
        }
        let canonical = trigger::canonical(&rule.trigger).to_string();
        let Some(winner) = first.get(&canonical) else {
            first.insert(canonical, &row.id);
            continue;
        };
        let message = format!("this mode already has this trigger: \"{winner}\" wins and \"{}\" never fires", row.id);
        let place = node.get("trigger").and_then(|it| it.place.clone());
        r.at_index(index, |r| r.under("trigger", |r| r.warn(&place, message, None)));
    }
}

/// A key that is cheap to compare: equal for equal triggers, and mostly different for different
/// triggers.
fn rough(trigger: &crate::mapping::Trigger) -> (&'static str, Option<u8>, u32) {
    let key = |key: &Key| match key {
        Key::Note(note) => u32::from(*note),
        Key::Button(button) => u32::from(button.id()),
    };
    let control = match &trigger.kind {
        TriggerKind::Note { note, velocity, .. } | TriggerKind::VelocityRange { note, velocity, .. } => {
            u32::from(*note) | u32::from(velocity.min) << 8 | u32::from(velocity.max) << 16
        }
        TriggerKind::PolyAftertouch { note, .. } => u32::from(*note),
        TriggerKind::Cc { cc, .. } | TriggerKind::EncoderTurn { cc, .. } => u32::from(*cc),
        TriggerKind::LongPress { key: it, .. } | TriggerKind::DoubleTap { key: it, .. } => key(it),
        TriggerKind::NoteChord { notes, .. } => notes.iter().map(|it| u32::from(*it)).sum(),
        TriggerKind::ProgramChange { program, .. } => program.map_or(128, u32::from),
        TriggerKind::GamepadButton { button, .. } => u32::from(button.id()),
        TriggerKind::GamepadButtonChord { buttons, .. } => buttons.iter().map(|it| u32::from(it.id())).sum(),
        TriggerKind::GamepadAnalogStick { axis, .. } => u32::from(axis.id()),
        TriggerKind::GamepadTrigger { side, .. } => u32::from(side.id()),
        TriggerKind::Osc { address, .. } => u32::try_from(address.len()).unwrap_or(0),
        TriggerKind::Aftertouch { .. } | TriggerKind::PitchBend { .. } => 0,
    };
    (trigger.kind.name(), trigger.channel, control)
}

/// The generated id of a new row. `taken` contains the ids that the mode already has.
pub(crate) fn made_mapping_id(mode: &str, written: &Value, taken: impl Iterator<Item = String>) -> String {
    let canonical = match super::input::trigger(written, "") {
        Ok(it) => trigger::canonical(&it).to_string(),
        Err(_) => sorted(written).to_string(),
    };
    Ids { taken: taken.collect() }.make(mode, &canonical)
}

pub(crate) fn made_continuous_id(mode: &str, source: &Value, taken: impl Iterator<Item = String>) -> String {
    Ids { taken: taken.collect() }.make(mode, &sorted(source).to_string())
}

/// Whether a release of the key follows after the rule has fired. The release ends a note or a held
/// key.
fn has_release(kind: &TriggerKind) -> bool {
    match kind {
        TriggerKind::Note { on, .. } | TriggerKind::GamepadButton { on, .. } => match on {
            On::Press => true,
            On::Release | On::Both => false,
        },
        TriggerKind::LongPress { fire, .. } => match fire {
            Fire::Threshold => true,
            Fire::Release => false,
        },
        TriggerKind::VelocityRange { .. }
        | TriggerKind::DoubleTap { .. }
        | TriggerKind::NoteChord { .. }
        | TriggerKind::GamepadButtonChord { .. } => true,
        TriggerKind::Cc { .. }
        | TriggerKind::EncoderTurn { .. }
        | TriggerKind::Aftertouch { .. }
        | TriggerKind::PolyAftertouch { .. }
        | TriggerKind::PitchBend { .. }
        | TriggerKind::ProgramChange { .. }
        | TriggerKind::GamepadAnalogStick { .. }
        | TriggerKind::GamepadTrigger { .. }
        | TriggerKind::Osc { .. } => false,
    }
}

fn warn_of_outputs_without_end<'t>(r: &mut Reader<'t>, node: &'t Node, rule: &Rule) {
    if has_release(&rule.trigger.kind) {
        return;
    }
    let place: Place = node.get("action").and_then(|it| it.place.clone());
    let mut leaves = Vec::new();
    collect_leaves(&rule.action, &mut leaves);
    let ends = |port: &str, channel: u8, note: u8| {
        leaves.iter().any(|leaf| {
            matches!(leaf, Action::SendMidi(it) if it.port == port && it.channel == channel
                && matches!(it.message, MidiOut::NoteOff { note: other, .. } if other == note))
        })
    };
    for leaf in &leaves {
        if let Action::SendMidi(sent) = leaf
            && let MidiOut::NoteOn { note, duration_ms: None, .. } = sent.message
            && !ends(&sent.port, sent.channel, note)
        {
            let message =
                format!("note {note} is never switched off, because {} has no release", rule.trigger.kind.name());
            r.under("action", |r| r.warn(&place, message, Some("add duration_ms".to_owned())));
        }
        if matches!(leaf, Action::Keystroke(keys) if keys.hold) {
            let message = format!("a held key is never released, because {} has no release", rule.trigger.kind.name());
            r.under("action", |r| r.warn(&place, message, Some("leave out hold = true".to_owned())));
        }
    }
}

pub(crate) fn collect_leaves<'a>(action: &'a Action, out: &mut Vec<&'a Action>) {
    match action {
        Action::Sequence { actions } => actions.iter().for_each(|it| collect_leaves(it, out)),
        Action::Repeat { action, .. } => collect_leaves(action, out),
        Action::Conditional { then_action, else_action, .. } => {
            collect_leaves(then_action, out);
            if let Some(action) = else_action {
                collect_leaves(action, out);
            }
        }
        Action::Keystroke(_)
        | Action::Text { .. }
        | Action::Launch { .. }
        | Action::Shell { .. }
        | Action::VolumeControl(_)
        | Action::ModeChange { .. }
        | Action::SendMidi(_)
        | Action::MidiForward { .. }
        | Action::Delay { .. }
        | Action::MouseClick { .. }
        | Action::OscSend { .. }
        | Action::CallTool { .. }
        | Action::Plugin { .. } => out.push(action),
    }
}

/// Two modes with the same name make every reference ambiguous, so the whole file is refused.
pub(crate) fn duplicate_mode(r: &mut Reader<'_>, place: &Place, name: &str) {
    r.fault(Severity::Fatal, Class::Rule, place, format!("there are two modes named \"{name}\""), None);
}
