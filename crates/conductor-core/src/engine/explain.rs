//! Explains an event: lists every rule for its control, in order of precedence, with the conditions
//! of the rule that do not match.
//!
//! The explanation uses only the configuration. If a result also depends on earlier values (edges,
//! throttles, a running action), a note says so.

use super::values::arg_holds;
use crate::action::Action;
use crate::command::{Template, by_app, by_argv};
use crate::config::rows::collect_leaves;
use crate::config::{Config, Mapping, Rule};
use crate::event::osc::Pattern;
use crate::event::{Body, Taint, wire_names};
use crate::mapping::table::{Slots, Tables};
use crate::mapping::{Gate, Key, On, Trigger, TriggerKind, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// The state in which an event is explained.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    /// The current mode.
    pub mode: &'a str,
    /// The device of the event. If absent, the event is explained as coming from a device that no
    /// rule names.
    pub device: Option<&'a str>,
    /// Whether the device is muted.
    pub muted: bool,
    /// Whether the device is not connected.
    pub absent: bool,
    /// The taint of the device's events.
    pub taint: Taint,
}

/// The result for the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A rule fires.
    Fires,
    /// The press is delayed, because another gesture on the same key is still possible.
    Waits,
    /// The result depends on earlier values of the control.
    Depends,
    /// No rule matches.
    NoMatch,
    /// The device is muted.
    Muted,
    /// The device is not connected.
    Absent,
    /// Only input from a person may fire this action, but the event is tainted.
    Tainted,
    /// The action starts a command or a program that `[tools.shell]` does not allow.
    Refused,
}

wire_names!(Verdict {
    Fires "fires", Waits "waits", Depends "depends", NoMatch "no_match", Muted "muted", Absent "absent",
    Tainted "tainted", Refused "refused",
});

/// One condition of a rule that the event does not meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mismatch {
    /// The field of the trigger.
    pub field: Cow<'static, str>,
    /// The value that the rule requires.
    pub wanted: String,
    /// The value of the event.
    pub got: String,
}

/// One rule for the control of the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// The position in the order of precedence; 1 is checked first.
    pub rank: u32,
    /// The mode of the rule; `*` for a global rule.
    pub mode: String,
    /// The id of the mapping.
    pub mapping_id: String,
    /// The type of the trigger.
    pub gesture: Cow<'static, str>,
    /// The type of the action.
    pub action: Cow<'static, str>,
    /// Whether this rule fires.
    pub wins: bool,
    /// The conditions that do not match; empty if the rule matches.
    pub failed: Vec<Mismatch>,
    /// Conditions that depend on earlier values, as text.
    pub note: String,
}

/// The rules for the control (key, knob or button) that sent an event, and the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The result.
    pub verdict: Verdict,
    /// The rules, in order of precedence.
    pub candidates: Vec<Candidate>,
    /// The longest time in milliseconds until the gesture is decided.
    pub waits_ms: Option<u32>,
    /// The device that was given.
    pub device: Option<String>,
    /// The result as a sentence.
    pub reason: String,
}

impl Explanation {
    /// The explanation as text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.verdict.name(), self.reason);
        for it in &self.candidates {
            let mark = if it.wins { "=>" } else { "  " };
            text += &format!("{mark} {}. {}/{} {} -> {}", it.rank, it.mode, it.mapping_id, it.gesture, it.action);
            for miss in &it.failed {
                text += &format!("; {} wanted {}, got {}", miss.field, miss.wanted, miss.got);
            }
            if !it.note.is_empty() {
                text += &format!(" ({})", it.note);
            }
            text.push('\n');
        }
        text
    }
}

/// Explains what an event would do.
pub fn explain(config: &Config, event: &Body, asked: &Asked<'_>) -> Explanation {
    let tables = Tables::compile(config, &mut Slots::default());
    let mut candidates: Vec<(Option<crate::mapping::table::Rank>, Candidate)> = Vec::new();
    let global = (None, "*", &config.global);
    let modes = config.modes.iter().enumerate().map(|(at, mode)| (Some(at), mode.name.as_str(), &mode.rows));
    for (mode, mode_name, rows) in modes.chain([global]) {
        for (index, mapping) in rows.mappings.iter().enumerate() {
            let Some(mut candidate) = candidate(mapping, mode_name, event, asked) else { continue };
            if mode_name != "*" && mode_name != asked.mode {
                let wanted =
                    Mismatch { field: "mode".into(), wanted: mode_name.to_owned(), got: asked.mode.to_owned() };
                candidate.failed.insert(0, wanted);
            }
            let row = tables
                .rows
                .iter()
                .find(|row| row.index as usize == index && row.mode.map(|it| usize::from(it.0)) == mode);
            candidates.push((row.map(|it| it.rank), candidate));
        }
    }
    // Sort matching rules before all other rules. Each of these two groups is in this order: rules
    // of the current mode and global rules; rules of other modes; rows without a rank, which are
    // not in the compiled tables. Rules that are equal in this order are sorted by precedence.
    let elsewhere = |it: &Candidate| it.failed.first().is_some_and(|it| it.field == "mode");
    candidates.sort_by_key(|(rank, it)| (!it.failed.is_empty(), rank.is_none(), elsewhere(it), *rank));
    let mut candidates: Vec<Candidate> = candidates.into_iter().map(|it| it.1).collect();
    for (at, candidate) in candidates.iter_mut().enumerate() {
        candidate.rank = at as u32 + 1;
    }
    judge(config, event, asked, candidates)
}

/// Gestures that begin like a single press.
const LONGER: [&str; 4] = ["LongPress", "DoubleTap", "NoteChord", "GamepadButtonChord"];

fn judge(config: &Config, event: &Body, asked: &Asked<'_>, mut candidates: Vec<Candidate>) -> Explanation {
    let fits = |it: &Candidate| it.failed.is_empty();
    let device = asked.device.map(str::to_owned);
    let mut waits_ms = None;
    let (verdict, reason) = if asked.absent {
        let name = asked.device.unwrap_or("the device");
        (Verdict::Absent, format!("{name} is not connected"))
    } else if asked.muted {
        (Verdict::Muted, format!("{} is muted", asked.device.unwrap_or("the device")))
    } else if !candidates.iter().any(fits) {
        let reason = match candidates.len() {
            0 => format!("nothing is mapped to {}", control(event)),
            1 => "one rule uses this control, but its conditions do not match".into(),
            n => format!("{n} rules use this control, but their conditions do not match"),
        };
        (Verdict::NoMatch, reason)
    } else {
        waits_ms = wait(config, &candidates);
        for gesture in LONGER {
            if let Some(it) = candidates.iter_mut().find(|it| it.failed.is_empty() && it.gesture == gesture) {
                it.note = "fires if the press becomes this gesture".into();
            }
        }
        let press = candidates.iter_mut().find(|it| it.failed.is_empty() && !LONGER.contains(&&*it.gesture));
        match (press, waits_ms) {
            (Some(it), None) => {
                it.wins = true;
                let gated = !it.note.is_empty();
                let verdict = if gated { Verdict::Depends } else { Verdict::Fires };
                (verdict, format!("{}/{} is the first rule that matches", it.mode, it.mapping_id))
            }
            (Some(it), Some(ms)) => {
                it.wins = true;
                (
                    Verdict::Waits,
                    format!("{}/{} fires unless a longer gesture follows within {ms} ms", it.mode, it.mapping_id),
                )
            }
            (None, Some(ms)) => (
                Verdict::Waits,
                format!("only longer gestures are mapped to this control; the gesture is decided within {ms} ms"),
            ),
            (None, None) => (Verdict::NoMatch, "no rule matches this part of the gesture".into()),
        }
    };
    let tainted = asked.taint != Taint::Clean
        && candidates.iter().any(|it| {
            it.wins
                && ["Keystroke", "Text", "MouseClick", "Launch", "Shell", "CallTool", "Plugin"].contains(&&*it.action)
        });
    if tainted {
        let reason = format!("the rule matches, but its action needs a person's input: {}", asked.taint.reason());
        return Explanation { verdict: Verdict::Tainted, candidates, waits_ms, device, reason };
    }
    let refused = candidates.iter().filter(|it| it.wins).filter_map(|it| rule_of(config, it)).find_map(|rule| {
        let start = not_allowed(&rule.action, &config.tools.commands)?;
        Some(format!("the rule matches, but {start} is refused: no row of [[tools.shell.commands]] allows it"))
    });
    if let Some(reason) = refused {
        return Explanation { verdict: Verdict::Refused, candidates, waits_ms, device, reason };
    }
    Explanation { verdict, candidates, waits_ms, device, reason }
}

fn rule_of<'c>(config: &'c Config, candidate: &Candidate) -> Option<&'c Rule> {
    let rows = match config.modes.iter().find(|it| it.name == candidate.mode) {
        Some(mode) => &mode.rows,
        None => &config.global,
    };
    rows.mappings.iter().find(|it| it.id == candidate.mapping_id).and_then(|it| it.rule.as_ref())
}

/// The first command or app in the action that no template allows.
fn not_allowed(action: &Action, templates: &[Template]) -> Option<String> {
    let mut leaves = Vec::new();
    collect_leaves(action, &mut leaves);
    leaves.into_iter().find_map(|it| {
        if let Action::Launch { app } = it {
            by_app(templates, app).is_err().then(|| format!("Launch {app}"))
        } else if let Action::Shell { argv, .. } = it {
            by_argv(templates, argv).is_err().then(|| format!("Shell {}", argv.join(" ")))
        } else {
            None
        }
    })
}

/// The longest time until the gesture of a press on this key is decided.
fn wait(config: &Config, candidates: &[Candidate]) -> Option<u32> {
    let advanced = &config.advanced;
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a new kind of trigger has no waiting time unless it is listed here"
    )]
    let times =
        candidates.iter().filter(|it| it.failed.is_empty()).filter_map(|it| match &rule_of(config, it)?.trigger.kind {
            TriggerKind::LongPress { duration_ms, .. } => Some(duration_ms.unwrap_or(advanced.hold_threshold_ms)),
            TriggerKind::DoubleTap { timeout_ms, .. } => Some(timeout_ms.unwrap_or(advanced.double_tap_timeout_ms)),
            TriggerKind::NoteChord { timeout_ms, .. } | TriggerKind::GamepadButtonChord { timeout_ms, .. } => {
                Some(timeout_ms.unwrap_or(advanced.chord_timeout_ms))
            }
            _other => None,
        });
    times.max()
}

/// Compares a rule with the event. Returns `None` if the rule is for another control.
fn candidate(mapping: &Mapping, mode: &str, event: &Body, asked: &Asked<'_>) -> Option<Candidate> {
    let Some(rule) = &mapping.rule else {
        // A row with an error cannot be compared. List it if its trigger has the type and the
        // number of this control.
        let kind = mapping.written.trigger.get("type").and_then(Value::as_str)?;
        let gesture = TriggerKind::NAMES.iter().find(|it| **it == kind)?;
        return same_control_as_written(&mapping.written.trigger, event).then(|| Candidate {
            rank: 0,
            mode: mode.to_owned(),
            mapping_id: mapping.id.clone(),
            gesture: (*gesture).into(),
            action: "".into(),
            wins: false,
            failed: vec![Mismatch {
                field: "row".into(),
                wanted: "a row without errors".into(),
                got: "disabled by an error; run `conductor config check`".into(),
            }],
            note: String::new(),
        });
    };
    let (mut failed, note) = compare(&rule.trigger, event)?;
    if let Some(wanted) = &rule.trigger.device
        && asked.device != Some(wanted)
    {
        failed.insert(
            0,
            Mismatch {
                field: "device".into(),
                wanted: wanted.clone(),
                got: asked.device.unwrap_or("another").to_owned(),
            },
        );
    }
    if !mapping.enabled {
        failed.insert(0, Mismatch { field: "enabled".into(), wanted: "true".into(), got: "false".into() });
    }
    Some(Candidate {
        rank: 0,
        mode: mode.to_owned(),
        mapping_id: mapping.id.clone(),
        gesture: rule.trigger.kind.name().into(),
        action: rule.action.name().into(),
        wins: false,
        failed,
        note: note.to_owned(),
    })
}

fn same_control_as_written(trigger: &Value, event: &Body) -> bool {
    let says = |key: &str, number: u8| trigger.get(key).and_then(Value::as_u64) == Some(u64::from(number));
    if let Body::NoteOn { note, .. } | Body::NoteOff { note, .. } | Body::PolyPressure { note, .. } = event {
        says("note", *note)
    } else if let Body::Cc { controller, .. } = event {
        says("cc", *controller)
    } else {
        false
    }
}

/// The mismatch between a press and a rule for releases, or between a release and a rule for
/// presses.
fn wrong_part(wanted: On, got: On) -> Option<Mismatch> {
    let name = |on: On| if on == On::Press { "press" } else { "release" }.to_owned();
    let differs = wanted != On::Both && wanted != got;
    differs.then(|| Mismatch { field: "on".into(), wanted: name(wanted), got: name(got) })
}

/// Compares a trigger with an event. Returns the mismatches and a note, or `None` if the trigger is
/// for another control.
fn compare(trigger: &Trigger, event: &Body) -> Option<(Vec<Mismatch>, &'static str)> {
    let mut failed = Vec::new();
    if let (Some(wanted), Some(got)) = (trigger.channel, event.channel())
        && wanted != got
    {
        failed.push(Mismatch { field: "channel".into(), wanted: wanted.to_string(), got: got.to_string() });
    }
    let mut window = |field: &'static str, window: Window, got: u16| {
        if !window.contains(got) {
            failed.push(Mismatch {
                field: field.into(),
                wanted: format!("{}-{}", window.min, window.max),
                got: got.to_string(),
            });
        }
    };
    const STREAM: &str = "the result depends on the edge, hysteresis and throttle of the rule";
    let stream = |gate: &Gate| {
        if gate.edge == Some(crate::mapping::Edge::Level) && gate.throttle_ms.is_none() { "" } else { STREAM }
    };
    let same_key = |key: &Key, event: &Body| match (key, event) {
        (Key::Note(want), Body::NoteOn { note, .. } | Body::NoteOff { note, .. }) => want == note,
        (Key::Button(want), Body::ButtonDown(button) | Body::ButtonUp(button)) => want == button,
        (Key::Note(_) | Key::Button(_), _) => false,
    };
    let mut note = "";
    match (&trigger.kind, event) {
        (TriggerKind::Note { note: want, velocity, on, .. }, Body::NoteOn { note, velocity: got, .. })
            if want == note =>
        {
            window("velocity", *velocity, u16::from(*got));
            failed.extend(wrong_part(*on, On::Press));
        }
        (TriggerKind::Note { note: want, on, .. }, Body::NoteOff { note, .. }) if want == note => {
            failed.extend(wrong_part(*on, On::Release));
        }
        (TriggerKind::VelocityRange { note: want, velocity, .. }, Body::NoteOn { note, velocity: got, .. })
            if want == note =>
        {
            window("velocity", *velocity, u16::from(*got));
        }
        (
            TriggerKind::LongPress { key, .. } | TriggerKind::DoubleTap { key, .. },
            Body::NoteOn { .. } | Body::ButtonDown(_),
        ) if same_key(key, event) => {}
        (TriggerKind::NoteChord { notes, .. }, Body::NoteOn { note, .. }) if notes.contains(note) => {}
        (TriggerKind::GamepadButtonChord { buttons, .. }, Body::ButtonDown(button)) if buttons.contains(button) => {}
        (TriggerKind::GamepadButton { button: want, on, .. }, Body::ButtonDown(button)) if want == button => {
            failed.extend(wrong_part(*on, On::Press));
        }
        (TriggerKind::GamepadButton { button: want, on, .. }, Body::ButtonUp(button)) if want == button => {
            failed.extend(wrong_part(*on, On::Release));
        }
        (TriggerKind::Cc { cc, gate }, Body::Cc { controller, value, .. }) if cc == controller => {
            window("value", gate.window.unwrap_or(Window::SEVEN_BIT), u16::from(*value));
            note = stream(gate);
        }
        (TriggerKind::EncoderTurn { cc, .. }, Body::Cc { controller, .. }) if cc == controller => {
            note = "the result depends on the direction, steps and acceleration of the encoder";
        }
        (TriggerKind::Aftertouch { gate }, Body::ChannelPressure { pressure, .. }) => {
            window("pressure", gate.window.unwrap_or(Window::SEVEN_BIT), u16::from(*pressure));
            note = stream(gate);
        }
        (TriggerKind::PolyAftertouch { note: want, gate }, Body::PolyPressure { note: got, pressure, .. })
            if want == got =>
        {
            window("pressure", gate.window.unwrap_or(Window::SEVEN_BIT), u16::from(*pressure));
            note = stream(gate);
        }
        (TriggerKind::PitchBend { gate, center_deadzone }, Body::PitchBend { value, .. }) => {
            let value = if value.abs_diff(8192) <= *center_deadzone { 8192 } else { *value };
            window("value", gate.window.unwrap_or(Window::FOURTEEN_BIT), value);
            note = stream(gate);
        }
        (TriggerKind::ProgramChange { program, bank_msb, bank_lsb }, Body::Program { program: got, .. }) => {
            if let Some(want) = program.filter(|it| it != got) {
                failed.push(Mismatch { field: "program".into(), wanted: want.to_string(), got: got.to_string() });
            }
            if bank_msb.is_some() || bank_lsb.is_some() {
                note = "the result depends on the bank that was selected before";
            }
        }
        (TriggerKind::GamepadAnalogStick { axis: want, .. }, Body::Axis { axis, .. }) if want == axis => {
            note = "fires when the stick crosses the threshold";
        }
        (TriggerKind::GamepadTrigger { side: want, .. }, Body::Trigger { side, .. }) if want == side => {
            note = "fires when the trigger crosses the threshold";
        }
        (TriggerKind::Osc { address, args }, Body::Osc(message)) => {
            if !Pattern::compile(address).is_ok_and(|it| it.is_match(&message.address)) {
                return None;
            }
            for test in args {
                let got = message.args.get(usize::from(test.index));
                if !arg_holds(test, got) {
                    failed.push(Mismatch {
                        field: "args".into(),
                        wanted: format!("{test:?}"),
                        got: format!("{got:?}"),
                    });
                }
            }
        }
        _other => return None,
    }
    Some((failed, note))
}

fn control(event: &Body) -> String {
    match event {
        Body::NoteOn { note, .. } | Body::NoteOff { note, .. } => format!("note {note}"),
        Body::PolyPressure { note, .. } => format!("the pressure of note {note}"),
        Body::Cc { controller, .. } => format!("controller {controller}"),
        Body::Program { program, .. } => format!("program {program}"),
        Body::ChannelPressure { .. } => "channel pressure".into(),
        Body::PitchBend { .. } => "pitch bend".into(),
        Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. } => "system messages, which only routes use".into(),
        Body::ButtonDown(button) | Body::ButtonUp(button) => format!("button {button}"),
        Body::Axis { axis, .. } => format!("axis {axis}"),
        Body::Trigger { side, .. } => format!("the {side} trigger"),
        Body::Osc(message) => format!("address {}", message.address),
    }
}
