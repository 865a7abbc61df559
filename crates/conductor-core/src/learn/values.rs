//! Suggestions for controls that are not keys. Derives the kind of knob, wheel, stick or surface
//! from its values.

use super::Captured;
use super::suggest::{Draft, Guess, Tier, only};
use crate::config::Advanced;
use crate::engine::thresholds;
use crate::event::osc::PATTERN_MAX;
use crate::event::{Axis, Body, DeviceSlot, Micros, OscArg, Side};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of messages that are needed to derive the kind of encoder.
const ENCODER_MESSAGES: usize = 8;
const OTHER_WAY: &str = "turn the control in the other direction";
const BEND_CENTRE: u16 = 8192;

/// One control of one device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Control {
    Cc { channel: u8, cc: u8 },
    Bend { channel: u8 },
    Pressure { channel: u8 },
    PolyPressure { channel: u8, note: u8 },
    Program { channel: u8, program: u8, bank: (Option<u8>, Option<u8>) },
    Stick(Axis),
    Pull(Side),
    Osc(String),
}

impl Control {
    /// Splits a control into the control without its channel, and the channel.
    fn split(&self) -> (Control, Option<u8>) {
        match self {
            Control::Cc { channel, cc } => (Control::Cc { channel: 0, cc: *cc }, Some(*channel)),
            Control::Bend { channel } => (Control::Bend { channel: 0 }, Some(*channel)),
            Control::Pressure { channel } => (Control::Pressure { channel: 0 }, Some(*channel)),
            Control::PolyPressure { channel, note } => {
                (Control::PolyPressure { channel: 0, note: *note }, Some(*channel))
            }
            Control::Program { channel, program, bank } => {
                (Control::Program { channel: 0, program: *program, bank: *bank }, Some(*channel))
            }
            Control::Stick(_) | Control::Pull(_) | Control::Osc(_) => (self.clone(), None),
        }
    }
}

/// The values of a control, in order.
#[derive(Default)]
struct Sent {
    seen: Micros,
    values: Vec<f64>,
}

pub(super) fn drafts(events: &[Captured], advanced: &Advanced) -> Vec<Draft> {
    let mut sent: BTreeMap<(DeviceSlot, Control), Sent> = BTreeMap::new();
    let mut channels: BTreeMap<(DeviceSlot, Control), BTreeSet<u8>> = BTreeMap::new();
    for (device, at, control, value) in Hearing::new(advanced).over(events) {
        let (bare, channel) = control.split();
        channels.entry((device, bare)).or_default().extend(channel);
        let entry = sent.entry((device, control)).or_default();
        entry.seen = at;
        entry.values.extend(value);
    }
    let mut drafts = Vec::new();
    for ((device, control), heard) in sent {
        let (bare, _) = control.split();
        let channel = channels.get(&(device, bare)).and_then(only);
        for guess in guesses(&control, &heard.values) {
            drafts.push(Draft { guess, seen: heard.seen, device, channel });
        }
    }
    drafts
}

/// Interprets events like the engine: sticks and triggers after their dead zones, programs with the
/// selected bank.
struct Hearing<'a> {
    advanced: &'a Advanced,
    axes: BTreeMap<DeviceSlot, [f64; 4]>,
    banks: BTreeMap<(DeviceSlot, u8), (Option<u8>, Option<u8>)>,
}

type Reading = (DeviceSlot, Micros, Control, Option<f64>);

impl<'a> Hearing<'a> {
    fn new(advanced: &'a Advanced) -> Self {
        Hearing { advanced, axes: BTreeMap::new(), banks: BTreeMap::new() }
    }

    fn over(mut self, events: &[Captured]) -> Vec<Reading> {
        let mut out = Vec::new();
        for event in events {
            self.hear(event, &mut out);
        }
        out
    }

    fn hear(&mut self, event: &Captured, out: &mut Vec<Reading>) {
        let device = event.device;
        let mut put = |control: Control, value: Option<f64>| out.push((device, event.at, control, value));
        match &event.body {
            Body::Cc { channel, controller, value } => {
                let bank = self.banks.entry((device, *channel)).or_default();
                match controller {
                    0 => bank.0 = Some(*value),
                    32 => bank.1 = Some(*value),
                    _ => {}
                }
                put(Control::Cc { channel: *channel, cc: *controller }, Some(f64::from(*value)));
            }
            Body::PitchBend { channel, value } => put(Control::Bend { channel: *channel }, Some(f64::from(*value))),
            Body::ChannelPressure { channel, pressure } => {
                put(Control::Pressure { channel: *channel }, Some(f64::from(*pressure)));
            }
            Body::PolyPressure { channel, note, pressure } => {
                put(Control::PolyPressure { channel: *channel, note: *note }, Some(f64::from(*pressure)));
            }
            Body::Program { channel, program } => {
                let bank = self.banks.get(&(device, *channel)).copied().unwrap_or_default();
                put(Control::Program { channel: *channel, program: *program, bank }, None);
            }
            Body::Axis { axis, value } => {
                let axes = self.axes.entry(device).or_default();
                axes[axis.index()] = f64::from(*value).clamp(-1.0, 1.0);
                let first = axis.stick();
                let (x, y) = thresholds::radial(self.advanced.stick_deadzone, axes[first], axes[first + 1]);
                put(Control::Stick(Axis::ALL[first]), Some(x));
                put(Control::Stick(Axis::ALL[first + 1]), Some(y));
            }
            Body::Trigger { side, value } => {
                let pulled = thresholds::pull(self.advanced.trigger_deadzone, f64::from(*value));
                put(Control::Pull(*side), Some((pulled * 127.0).round()));
            }
            Body::Osc(message) => {
                let value = message.args.first().and_then(OscArg::number);
                put(Control::Osc(message.address.clone()), value);
            }
            Body::NoteOn { .. }
            | Body::NoteOff { .. }
            | Body::ButtonDown(_)
            | Body::ButtonUp(_)
            | Body::SysEx(_)
            | Body::RealTime(_)
            | Body::Common { .. } => {}
        }
    }
}

fn guess(kind: &'static str, fields: Vec<(&'static str, Value)>, confidence: f64, reason: impl Into<String>) -> Guess {
    Guess::new(Tier::Control, kind, fields, confidence, reason)
}

fn guesses(control: &Control, values: &[f64]) -> Vec<Guess> {
    match control {
        Control::Cc { cc, .. } => controller(*cc, &values.iter().map(|it| *it as u8).collect::<Vec<_>>()),
        Control::Bend { .. } => bend(values),
        Control::Pressure { .. } => pressure("Aftertouch", Vec::new(), values),
        Control::PolyPressure { note, .. } => pressure("PolyAftertouch", vec![("note", json!(note))], values),
        Control::Program { program, bank, .. } => {
            let mut fields = vec![("program", json!(program))];
            fields.extend(bank.0.map(|it| ("bank_msb", json!(it))));
            fields.extend(bank.1.map(|it| ("bank_lsb", json!(it))));
            vec![guess("ProgramChange", fields, 0.9, format!("program {program} was selected"))]
        }
        Control::Stick(axis) => stick(*axis, values),
        Control::Pull(side) => pull(*side, values),
        Control::Osc(address) => osc(address, values),
    }
}

// Suggestions for MIDI controllers.

fn controller(cc: u8, values: &[u8]) -> Vec<Guess> {
    let plain = |confidence: f64, reason: String| guess("CC", vec![("cc", json!(cc))], confidence, reason);
    let (low, high) = (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
    if is_button(values) {
        let fields = vec![("cc", json!(cc)), ("value_min", json!(64))];
        return vec![guess("CC", fields, 0.9, format!("CC {cc} sends 127 and 0, like a button"))];
    }
    let mut guesses: Vec<Guess> = encoder(values)
        .into_iter()
        .map(|(mode, confidence, needs)| {
            let fields = vec![("cc", json!(cc)), ("mode", json!(mode))];
            let reason = format!("CC {cc} sent values from {low} to {high}, as {mode} encoders do");
            Guess { needs, ..guess("EncoderTurn", fields, confidence, reason) }
        })
        .collect();
    let few = values.len() < ENCODER_MESSAGES && low != high;
    let fallback =
        plain(if guesses.is_empty() { 0.6 } else { 0.3 }, format!("CC {cc} sent values from {low} to {high}"));
    guesses.push(if few { fallback.needs("move the control further and in both directions") } else { fallback });
    guesses
}

/// Whether the values come from a button. Buttons send 127, usually followed by 0. Eight or more
/// messages must alternate strictly, because encoders repeat values.
fn is_button(values: &[u8]) -> bool {
    let only_ends = values.iter().all(|it| matches!(it, 0 | 127)) && values.contains(&127);
    only_ends && (values.len() < ENCODER_MESSAGES || values.windows(2).all(|pair| pair[0] != pair[1]))
}

/// The encoder modes that can send these values, each with its confidence.
fn encoder(values: &[u8]) -> Vec<(&'static str, f64, Option<&'static str>)> {
    if values.len() < ENCODER_MESSAGES {
        return Vec::new();
    }
    let within = |ranges: &[(u8, u8)]| {
        let inside = |range: &(u8, u8), value: &u8| (range.0..=range.1).contains(value);
        values.iter().all(|value| ranges.iter().any(|it| inside(it, value)))
            && ranges.iter().all(|range| values.iter().any(|it| inside(range, it)))
    };
    const UP: (u8, u8) = (1, 7);
    const TWOS_DOWN: (u8, u8) = (121, 127);
    const OFFSET_DOWN: (u8, u8) = (57, 63);
    const ABOVE_64: (u8, u8) = (65, 71);
    let one_way = Some(OTHER_WAY);
    if within(&[UP, TWOS_DOWN]) {
        vec![("twos_complement", 0.95, None)]
    } else if within(&[OFFSET_DOWN, ABOVE_64]) {
        vec![("offset64", 0.95, None)]
    } else if within(&[UP, ABOVE_64]) {
        vec![("sign_bit", 0.95, None)]
    } else if within(&[(0, 0), (127, 127)]) {
        vec![("inc_dec", 0.9, None)]
    } else if within(&[UP]) {
        vec![("twos_complement", 0.6, one_way), ("sign_bit", 0.4, one_way)]
    } else if within(&[ABOVE_64]) {
        vec![("offset64", 0.6, one_way), ("sign_bit", 0.4, one_way)]
    } else if within(&[(127, 127)]) {
        vec![("twos_complement", 0.5, one_way), ("inc_dec", 0.5, one_way)]
    } else if within(&[TWOS_DOWN]) {
        vec![("twos_complement", 0.6, one_way)]
    } else if within(&[OFFSET_DOWN]) {
        vec![("offset64", 0.6, one_way)]
    } else if moves_smoothly(values) {
        vec![("absolute", 0.7, None)]
    } else {
        Vec::new()
    }
}

/// Whether the values move in small steps over a range of more than 16. A quick turn skips some
/// values, so one step in four may be larger.
fn moves_smoothly(values: &[u8]) -> bool {
    let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) else { return false };
    let small = values.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 8).count();
    high - low > 16 && small * 4 >= (values.len() - 1) * 3
}

// Suggestions for pitch wheels and pressure.

fn bend(values: &[f64]) -> Vec<Guess> {
    let centre = f64::from(BEND_CENTRE);
    let up = values.iter().copied().fold(centre, f64::max) - centre;
    let down = centre - values.iter().copied().fold(centre, f64::min);
    let mut guesses = Vec::new();
    let half = |way: f64| (way / 2.0) as u16;
    if half(up) > 0 {
        let from = BEND_CENTRE + half(up);
        let reason = format!("the wheel moved above its centre, to {}", centre + up);
        guesses.push(guess("PitchBend", vec![("value_min", json!(from))], if up >= down { 0.8 } else { 0.6 }, reason));
    }
    if half(down) > 0 {
        let to = BEND_CENTRE - half(down);
        let reason = format!("the wheel moved below its centre, to {}", centre - down);
        guesses.push(guess("PitchBend", vec![("value_max", json!(to))], if down > up { 0.8 } else { 0.6 }, reason));
    }
    if guesses.is_empty() {
        let found = guess("PitchBend", Vec::new(), 0.3, "the wheel moved only slightly from its centre");
        guesses.push(found.needs("push the wheel further"));
    }
    guesses
}

/// Suggests half of the strongest pressure as the threshold, because a pressing finger can easily
/// reach it again and a resting finger does not.
fn pressure(kind: &'static str, mut fields: Vec<(&'static str, Value)>, values: &[f64]) -> Vec<Guess> {
    let strongest = values.iter().copied().fold(0.0, f64::max);
    fields.push(("pressure_min", json!((strongest / 2.0).ceil() as u8)));
    let found = guess(kind, fields, 0.4, format!("pressure rose to {strongest}"));
    vec![Guess { tier: Tier::Pressure, ..found }]
}

// Suggestions for gamepads.

fn stick(axis: Axis, values: &[f64]) -> Vec<Guess> {
    const THRESHOLD: f64 = 0.5;
    /// Smaller values are ignored, because they can come from a resting thumb or from a movement of
    /// the stick's other axis.
    const LEAST: f64 = 0.2;
    let mut guesses = Vec::new();
    for (direction, sign) in [("positive", 1.0), ("negative", -1.0)] {
        let furthest = values.iter().map(|it| it * sign).fold(0.0, f64::max);
        if furthest < LEAST {
            continue;
        }
        let fields = vec![("axis", json!(axis.name())), ("direction", json!(direction))];
        let reason = format!("{axis} moved to {:.2}", furthest * sign);
        let mut found = guess("GamepadAnalogStick", fields, 0.4 + furthest / 2.0, reason);
        if furthest < THRESHOLD {
            // One hundredth below the reached value, so that the person can reach the threshold
            // despite rounding.
            found.fields.push(("threshold", json!(((furthest * 100.0).floor() - 1.0) / 100.0)));
            found = found.needs("push the stick further");
        }
        guesses.push(found);
    }
    guesses
}

fn pull(side: Side, values: &[f64]) -> Vec<Guess> {
    const THRESHOLD: f64 = 64.0;
    let furthest = values.iter().copied().fold(0.0, f64::max);
    if furthest < 1.0 {
        return Vec::new();
    }
    let fields = vec![("trigger", json!(side.name()))];
    let mut found = guess("GamepadTrigger", fields, 0.8, format!("the {side} trigger moved to {furthest} of 127"));
    if furthest < THRESHOLD {
        found.fields.push(("threshold", json!(furthest as u8)));
        found = found.needs("pull the trigger further");
    }
    vec![found]
}

// Suggestions for OSC messages.

fn osc(address: &str, values: &[f64]) -> Vec<Guess> {
    // These characters would be wildcards in a trigger. Replace each of them with `?`, which
    // matches it.
    let pattern = address.replace(['?', '*', '[', ']', '{', '}'], "?");
    if !pattern.starts_with('/') || pattern.chars().count() > PATTERN_MAX {
        return Vec::new();
    }
    let mut fields = vec![("address", json!(pattern))];
    let is_button = values.iter().all(|it| *it == 0.0 || *it == 1.0) && values.contains(&1.0);
    let reason = if is_button {
        fields.push(("args", json!([{"index": 0, "min": 0.5}])));
        format!("{address} sends 1 and 0, like a button")
    } else {
        format!("{address} was received")
    };
    vec![guess("Osc", fields, 0.8, reason)]
}
