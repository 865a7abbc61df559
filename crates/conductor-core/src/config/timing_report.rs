//! Reports about a valid configuration: how long a press is delayed, and how many controls are
//! mapped.
//!
//! Not here: faults. These reports are information, not errors.

use super::{Advanced, Config, Rows};
use crate::event::Button;
use crate::mapping::{Fire, Key, SourceKind, Trigger, TriggerKind};
use std::collections::BTreeSet;

/// The delay of a press on a key that also has a longer gesture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitNote {
    /// Mode of the mapping.
    pub mode: String,
    /// The key whose press is delayed.
    pub key: Key,
    /// Longest delay in milliseconds.
    pub wait_ms: u32,
    /// Name of the trigger that delays the press.
    pub because: &'static str,
}

impl std::fmt::Display for WaitNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = match self.key {
            Key::Note(note) => format!("note {note}"),
            Key::Button(button) => format!("button {button}"),
        };
        write!(f, "{}: {key} waits up to {} ms because of {}", self.mode, self.wait_ms, self.because)
    }
}

/// The delays of all presses: one entry per mode, key and reason. Global rows are included in every
/// mode, because they are active in every mode.
pub fn waits(config: &Config) -> Vec<WaitNote> {
    let mut notes: Vec<WaitNote> = Vec::new();
    for mode in &config.modes {
        let triggers: Vec<&Trigger> = live(&mode.rows).chain(live(&config.global)).collect();
        let presses = triggers.iter().filter_map(|it| Some((*it, pressed(&it.kind)?)));
        // Compare each press only with the few triggers that can delay it.
        let slow: Vec<&Trigger> = triggers.iter().copied().filter(|it| can_delay(&it.kind)).collect();
        for (press, key) in presses {
            for other in &slow {
                let Some(wait_ms) = delays(&other.kind, key, &config.advanced) else { continue };
                if !overlap(press, other) {
                    continue;
                }
                let because = other.kind.name();
                let same = |it: &&mut WaitNote| it.mode == mode.name && it.key == key && it.because == because;
                match notes.iter_mut().find(same) {
                    // With several long presses, a press is decided at the shortest duration, so
                    // use the minimum. With several gestures of another kind, a press is decided at
                    // the longest timeout, so use the maximum.
                    Some(note) if matches!(other.kind, TriggerKind::LongPress { .. }) => {
                        note.wait_ms = note.wait_ms.min(wait_ms);
                    }
                    Some(note) => note.wait_ms = note.wait_ms.max(wait_ms),
                    None => notes.push(WaitNote { mode: mode.name.clone(), key, wait_ms, because }),
                }
            }
        }
    }
    notes
}

fn live(rows: &Rows) -> impl Iterator<Item = &Trigger> {
    rows.mappings.iter().filter(|row| row.enabled).filter_map(|row| row.rule.as_ref()).map(|rule| &rule.trigger)
}

/// The key of a trigger that fires on a press and may be delayed. `None` for an `eager` trigger,
/// which is never delayed, and for all other triggers.
fn pressed(kind: &TriggerKind) -> Option<Key> {
    match kind {
        TriggerKind::Note { note, eager: false, .. } | TriggerKind::VelocityRange { note, eager: false, .. } => {
            Some(Key::Note(*note))
        }
        TriggerKind::GamepadButton { button, eager: false, .. } => Some(Key::Button(*button)),
        TriggerKind::Note { .. }
        | TriggerKind::VelocityRange { .. }
        | TriggerKind::GamepadButton { .. }
        | TriggerKind::Cc { .. }
        | TriggerKind::LongPress { .. }
        | TriggerKind::DoubleTap { .. }
        | TriggerKind::NoteChord { .. }
        | TriggerKind::EncoderTurn { .. }
        | TriggerKind::Aftertouch { .. }
        | TriggerKind::PolyAftertouch { .. }
        | TriggerKind::PitchBend { .. }
        | TriggerKind::ProgramChange { .. }
        | TriggerKind::GamepadButtonChord { .. }
        | TriggerKind::GamepadAnalogStick { .. }
        | TriggerKind::GamepadTrigger { .. }
        | TriggerKind::Osc { .. } => None,
    }
}

fn can_delay(kind: &TriggerKind) -> bool {
    matches!(
        kind,
        TriggerKind::LongPress { .. }
            | TriggerKind::DoubleTap { .. }
            | TriggerKind::NoteChord { .. }
            | TriggerKind::GamepadButtonChord { .. }
    )
}

fn delays(kind: &TriggerKind, key: Key, advanced: &Advanced) -> Option<u32> {
    match kind {
        TriggerKind::LongPress { key: other, duration_ms, fire: Fire::Threshold | Fire::Release } => {
            (*other == key).then(|| duration_ms.unwrap_or(advanced.hold_threshold_ms))
        }
        TriggerKind::DoubleTap { key: other, timeout_ms } => {
            (*other == key).then(|| timeout_ms.unwrap_or(advanced.double_tap_timeout_ms))
        }
        TriggerKind::NoteChord { notes, timeout_ms } => {
            let member = matches!(key, Key::Note(note) if notes.contains(&note));
            member.then(|| timeout_ms.unwrap_or(advanced.chord_timeout_ms))
        }
        TriggerKind::GamepadButtonChord { buttons, timeout_ms } => {
            let member = matches!(key, Key::Button(button) if buttons.contains(&button));
            member.then(|| timeout_ms.unwrap_or(advanced.chord_timeout_ms))
        }
        TriggerKind::Note { .. }
        | TriggerKind::VelocityRange { .. }
        | TriggerKind::GamepadButton { .. }
        | TriggerKind::Cc { .. }
        | TriggerKind::EncoderTurn { .. }
        | TriggerKind::Aftertouch { .. }
        | TriggerKind::PolyAftertouch { .. }
        | TriggerKind::PitchBend { .. }
        | TriggerKind::ProgramChange { .. }
        | TriggerKind::GamepadAnalogStick { .. }
        | TriggerKind::GamepadTrigger { .. }
        | TriggerKind::Osc { .. } => None,
    }
}

fn overlap(a: &Trigger, b: &Trigger) -> bool {
    let device = a.device.is_none() || b.device.is_none() || a.device == b.device;
    let channel = a.channel.is_none() || b.channel.is_none() || a.channel == b.channel;
    device && channel
}

/// Number of distinct controls in the triggers and sources of valid rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Number of mapped notes.
    pub notes_used: usize,
    /// Number of mapped controllers.
    pub cc_used: usize,
    /// Number of mapped buttons.
    pub buttons_used: usize,
    /// Number of mapped OSC addresses.
    pub addresses_used: usize,
}

/// Counts the mapped controls.
pub fn coverage(config: &Config) -> Coverage {
    let mut notes: BTreeSet<u8> = BTreeSet::new();
    let mut ccs: BTreeSet<u8> = BTreeSet::new();
    let mut buttons: BTreeSet<Button> = BTreeSet::new();
    let mut addresses: BTreeSet<&str> = BTreeSet::new();
    let all = || config.modes.iter().map(|it| &it.rows).chain(std::iter::once(&config.global));
    for trigger in all().flat_map(|it| &it.mappings).filter_map(|it| it.rule.as_ref()).map(|it| &it.trigger) {
        match &trigger.kind {
            TriggerKind::Note { note, .. }
            | TriggerKind::VelocityRange { note, .. }
            | TriggerKind::PolyAftertouch { note, .. } => {
                notes.insert(*note);
            }
            TriggerKind::Cc { cc, .. } | TriggerKind::EncoderTurn { cc, .. } => {
                ccs.insert(*cc);
            }
            TriggerKind::LongPress { key, .. } | TriggerKind::DoubleTap { key, .. } => match key {
                Key::Note(note) => {
                    notes.insert(*note);
                }
                Key::Button(button) => {
                    buttons.insert(*button);
                }
            },
            TriggerKind::NoteChord { notes: members, .. } => notes.extend(members),
            TriggerKind::GamepadButton { button, .. } => {
                buttons.insert(*button);
            }
            TriggerKind::GamepadButtonChord { buttons: members, .. } => buttons.extend(members),
            TriggerKind::Osc { address, .. } => {
                addresses.insert(address);
            }
            TriggerKind::Aftertouch { .. }
            | TriggerKind::PitchBend { .. }
            | TriggerKind::ProgramChange { .. }
            | TriggerKind::GamepadAnalogStick { .. }
            | TriggerKind::GamepadTrigger { .. } => {}
        }
    }
    for binding in all().flat_map(|it| &it.continuous).filter_map(|it| it.binding.as_ref()) {
        match &binding.source.kind {
            SourceKind::Cc { cc } | SourceKind::Encoder { cc, .. } => {
                ccs.insert(*cc);
            }
            SourceKind::Cc14 { cc } => ccs.extend([*cc, *cc + 32]),
            SourceKind::PolyAftertouch { note } => {
                notes.insert(*note);
            }
            SourceKind::Osc { address, .. } => {
                addresses.insert(address);
            }
            SourceKind::Nrpn { .. }
            | SourceKind::Rpn { .. }
            | SourceKind::PitchBend
            | SourceKind::Aftertouch
            | SourceKind::GamepadAnalogStick { .. }
            | SourceKind::GamepadTrigger { .. } => {}
        }
    }
    Coverage {
        notes_used: notes.len(),
        cc_used: ccs.len(),
        buttons_used: buttons.len(),
        addresses_used: addresses.len(),
    }
}
