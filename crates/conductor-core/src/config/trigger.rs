//! Reads a [`Trigger`] and its ranges of values.
//!
//! Not here: checks that need other rows (overlaps, duplicates). `rows` does them for a whole mode.

use super::action;
use super::reader::{Fields, Reader};
use super::tree::{Node, Place};
use crate::mapping::{
    Encoder, EncoderMode, Fire, Gate, Key, On, OscTest, Scalar, Trigger, TriggerKind, Turn, Window, Zone,
};
use serde_json::{Value, json};

const STICK_TURN: &[(&str, Turn)] = &[
    ("Clockwise", Turn::Clockwise),
    ("CounterClockwise", Turn::CounterClockwise),
    ("positive", Turn::Clockwise),
    ("negative", Turn::CounterClockwise),
];
pub(crate) const ENCODER_MODES: &[(&str, EncoderMode)] = &[
    ("absolute", EncoderMode::Absolute),
    ("twos_complement", EncoderMode::TwosComplement),
    ("offset64", EncoderMode::Offset64),
    ("sign_bit", EncoderMode::SignBit),
    ("inc_dec", EncoderMode::IncDec),
    ("nrpn_inc_dec", EncoderMode::NrpnIncDec { parameter: 0 }),
];

pub(crate) fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Trigger> {
    r.define("Trigger")?;
    let mut f = r.table(node)?;
    let before = r.errors();
    let name = f.tag(r, "type", TriggerKind::NAMES)?;
    let device = f.opt(r, "device", Reader::heard_device);
    let channel = f.opt(r, "channel", Reader::channel);
    let kind = kind(r, &mut f, name);
    f.finish(r);
    let kind = kind?;
    (r.errors() == before).then_some(Trigger { device, channel, kind })
}

fn kind<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, name: &str) -> Option<TriggerKind> {
    Some(match name {
        "Note" => {
            let note = f.need(r, "note", Reader::u7);
            let velocity = note_velocity(r, f);
            let on = f.or(r, "on", On::Press, Reader::named);
            let eager = f.or(r, "eager", false, Reader::boolean);
            TriggerKind::Note { note: note?, velocity, on, eager }
        }
        "CC" => {
            let cc = f.need(r, "cc", Reader::u7);
            let window = window(r, f, "value_min", "value_max", 127);
            TriggerKind::Cc { gate: gate(r, f, window), cc: cc? }
        }
        "VelocityRange" => {
            let note = f.need(r, "note", Reader::u7);
            let min = f.or(r, "min", 1, Reader::u7);
            let max = f.or(r, "max", 127, Reader::u7);
            let velocity = Window { min: min.into(), max: max.into() };
            let place = window_place(f, "min", "max");
            r.ascending(&place, velocity.min, velocity.max);
            let eager = f.or(r, "eager", false, Reader::boolean);
            let zones = f.or_default(r, "zones", |r, it| zones(r, it, velocity));
            TriggerKind::VelocityRange { note: note?, velocity, eager, zones }
        }
        "LongPress" => {
            let key = key(r, f);
            let duration_ms = f.opt(r, "duration_ms", Reader::ms);
            let fire = f.or(r, "fire", Fire::Threshold, Reader::named);
            TriggerKind::LongPress { key: key?, duration_ms, fire }
        }
        "DoubleTap" => {
            let key = key(r, f);
            let timeout_ms = f.opt(r, "timeout_ms", Reader::ms);
            TriggerKind::DoubleTap { key: key?, timeout_ms }
        }
        "NoteChord" => {
            let notes = f.need(r, "notes", |r, it| r.set(it, 2, 16, Reader::u7));
            let timeout_ms = f.opt(r, "timeout_ms", Reader::ms);
            TriggerKind::NoteChord { notes: notes?, timeout_ms }
        }
        "EncoderTurn" => {
            let encoder = encoder(r, f, false);
            let direction = f.opt(r, "direction", Reader::named);
            let step = f.or(r, "step", 1, |r, it| r.whole(it, 1, 64));
            let invert = f.or(r, "invert", false, Reader::boolean);
            let (cc, encoder) = encoder?;
            TriggerKind::EncoderTurn { cc, encoder, direction, step, invert }
        }
        "Aftertouch" => {
            let window = window(r, f, "pressure_min", "pressure_max", 127);
            TriggerKind::Aftertouch { gate: gate(r, f, window) }
        }
        "PolyAftertouch" => {
            let note = f.need(r, "note", Reader::u7);
            let window = window(r, f, "pressure_min", "pressure_max", 127);
            TriggerKind::PolyAftertouch { gate: gate(r, f, window), note: note? }
        }
        "PitchBend" => {
            let window = window(r, f, "value_min", "value_max", 16383);
            let gate = gate(r, f, window);
            let dead = f.or(r, "center_deadzone", 0, |r, it| r.whole(it, 0, 4096));
            TriggerKind::PitchBend { gate, center_deadzone: dead }
        }
        "ProgramChange" => TriggerKind::ProgramChange {
            program: f.opt(r, "program", Reader::u7),
            bank_msb: f.opt(r, "bank_msb", Reader::u7),
            bank_lsb: f.opt(r, "bank_lsb", Reader::u7),
        },
        "GamepadButton" => {
            let button = f.need(r, "button", Reader::button);
            let on = f.or(r, "on", On::Press, Reader::named);
            let eager = f.or(r, "eager", false, Reader::boolean);
            TriggerKind::GamepadButton { button: button?, on, eager }
        }
        "GamepadButtonChord" => {
            let buttons = f.need(r, "buttons", |r, it| r.set(it, 2, 8, Reader::button));
            let timeout_ms = f.opt(r, "timeout_ms", Reader::ms);
            TriggerKind::GamepadButtonChord { buttons: buttons?, timeout_ms }
        }
        "GamepadAnalogStick" => {
            let axis = f.need(r, "axis", Reader::axis);
            let direction = f.opt(r, "direction", |r, it| r.word(it, STICK_TURN));
            let threshold = f.or(r, "threshold", 0.5, Reader::unit);
            let hysteresis = f.or(r, "hysteresis", 0.1, Reader::unit);
            let repeat_ms = f.opt(r, "repeat_ms", Reader::ms);
            TriggerKind::GamepadAnalogStick { axis: axis?, direction, threshold, hysteresis, repeat_ms }
        }
        "GamepadTrigger" => {
            let side = f.need(r, "trigger", Reader::side);
            let threshold = f.or(r, "threshold", 64, Reader::u7);
            let gate = gate(r, f, Some(Window { min: threshold.into(), max: 127 }));
            TriggerKind::GamepadTrigger { side: side?, threshold, gate }
        }
        "Osc" => {
            let address = f.need(r, "address", |r, it| osc_pattern(r, it));
            let args = f.opt(r, "args", |r, it| r.list_of(it, 1, 16, osc_test));
            TriggerKind::Osc { address: address?, args: args.unwrap_or_default() }
        }
        // Never reached: `tag` returns only names in `TriggerKind::NAMES`, and a test covers each
        // of them.
        _ => return None,
    })
}

fn note_velocity<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Window {
    let range = f.opt(r, "velocity_range", Reader::u7_pair);
    let min = f.opt(r, "velocity_min", Reader::u7);
    let max = f.opt(r, "velocity_max", Reader::u7);
    if f.has("velocity_range") && (f.has("velocity_min") || f.has("velocity_max")) {
        let place = f.key_place("velocity_range");
        let help = "use either velocity_range, or velocity_min and velocity_max".to_owned();
        r.rule_help(
            &place,
            "`velocity_range` cannot be used together with `velocity_min` or `velocity_max`".to_owned(),
            help,
        );
    }
    if let Some((min, max)) = range {
        return Window { min: min.into(), max: max.into() };
    }
    let window =
        Window { min: min.map_or(Window::VELOCITY.min, u16::from), max: max.map_or(Window::VELOCITY.max, u16::from) };
    let place = window_place(f, "velocity_min", "velocity_max");
    r.ascending(&place, window.min, window.max);
    window
}

fn window_place(f: &Fields<'_>, low: &str, high: &str) -> Place {
    if f.has(low) { f.key_place(low) } else { f.key_place(high) }
}

fn window<'t>(
    r: &mut Reader<'t>,
    f: &mut Fields<'t>,
    low: &'static str,
    high: &'static str,
    top: u16,
) -> Option<Window> {
    let value = |r: &mut Reader<'t>, it: &'t Node| r.whole(it, 0, top.into());
    let min = f.opt(r, low, value);
    let max = f.opt(r, high, value);
    if min.is_none() && max.is_none() {
        return None;
    }
    let window = Window { min: min.unwrap_or(0), max: max.unwrap_or(top) };
    let place = window_place(f, low, high);
    r.ascending(&place, window.min, window.max);
    Some(window)
}

fn gate<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, window: Option<Window>) -> Gate {
    Gate {
        window,
        edge: f.opt(r, "edge", Reader::named),
        hysteresis: f.opt(r, "hysteresis", |r, it| r.number(it, 0.0, 16383.0)),
        throttle_ms: f.opt(r, "throttle_ms", Reader::ms),
    }
}

fn key<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<Key> {
    f.exactly_one(&["note", "button"]);
    if f.has("note") && f.has("button") {
        let place = f.key_place("button");
        r.shape_help(&place, "`note` and `button` cannot be used together".to_owned(), None);
    }
    if !f.has("note") && !f.has("button") && !r.is_describing() {
        // Request both keys, so that `finish` can suggest either of them for a misspelt key.
        f.node("button");
        f.need(r, "note", Reader::u7);
        return None;
    }
    let note = f.opt(r, "note", Reader::u7).map(Key::Note);
    let button = f.opt(r, "button", Reader::button).map(Key::Button);
    note.or(button)
}

fn zones<'t>(r: &mut Reader<'t>, node: &'t Node, velocity: Window) -> Option<Vec<Zone>> {
    let mut floor = velocity.min.saturating_sub(1);
    r.list_of(node, 1, 8, |r, item| {
        let mut f = r.table(item)?;
        let max = f.need(r, "max", |r, it| {
            let max = r.u7(it)?;
            let top = u16::from(max);
            if top <= floor {
                let message = format!("zones must ascend: {max} is not above {floor}");
                r.rule(&it.place, message);
            } else if top >= velocity.max {
                let message = format!(
                    "the last zone must end below `max` ({}), because higher velocities fire `action`",
                    velocity.max
                );
                r.rule(&it.place, message);
            }
            floor = floor.max(top);
            Some(max)
        });
        let action = f.need(r, "action", action::read);
        f.finish(r);
        Some(Zone { max: max?, action: action? })
    })
}

/// Reads the encoder of a trigger or of a continuous source. Only a continuous source requires
/// `mode`.
pub(crate) fn encoder<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, mode_required: bool) -> Option<(u8, Encoder)> {
    let cc = f.need(r, "cc", Reader::u7);
    let mode = if mode_required {
        f.need(r, "mode", |r, it| r.word(it, ENCODER_MODES))
    } else {
        Some(f.opt(r, "mode", |r, it| r.word(it, ENCODER_MODES)).unwrap_or(EncoderMode::Absolute))
    };
    let parameter = f.opt(r, "parameter", Reader::u14);
    let acceleration = f.or(r, "acceleration", 0.0, Reader::unit);
    let mode = match mode? {
        EncoderMode::NrpnIncDec { .. } => {
            if !f.has("parameter") {
                let help = "add `parameter`, from 0 to 16383".to_owned();
                r.rule_help(&f.key_place("mode"), "`nrpn_inc_dec` needs `parameter`".to_owned(), help);
            }
            if cc.is_some_and(|cc| cc != 96) {
                let help = "write cc = 96".to_owned();
                r.rule_help(&f.key_place("cc"), "`nrpn_inc_dec` uses CC 96 and 97".to_owned(), help);
            }
            EncoderMode::NrpnIncDec { parameter: parameter.unwrap_or(0) }
        }
        mode @ (EncoderMode::Absolute
        | EncoderMode::TwosComplement
        | EncoderMode::Offset64
        | EncoderMode::SignBit
        | EncoderMode::IncDec) => {
            f.refuse(r, "parameter", "is allowed only with mode = \"nrpn_inc_dec\"");
            mode
        }
    };
    Some((cc?, Encoder { mode, acceleration }))
}

/// An address, which may contain the OSC 1.0 pattern characters `? * [] {}`. Brackets must be
/// closed.
pub(crate) fn osc_pattern<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let address = r.osc_address(node)?;
    let mut open: Option<char> = None;
    for character in address.chars() {
        let closes = match open {
            Some('[') => character == ']',
            Some(_) => character == '}',
            None => false,
        };
        if closes {
            open = None;
        } else if matches!(character, '[' | ']' | '{' | '}') {
            if open.is_some() || matches!(character, ']' | '}') {
                let message = format!(
                    "`{character}` in the address is misplaced: brackets do not nest and must open before they close"
                );
                r.rule(&node.place, message);
                return None;
            }
            open = Some(character);
        }
    }
    if let Some(character) = open {
        r.rule(&node.place, format!("`{character}` in the address is never closed"));
        return None;
    }
    Some(address)
}

fn osc_test<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<OscTest> {
    let mut f = r.table(node)?;
    let index = f.need(r, "index", |r, it| r.whole(it, 0, 63));
    let min = f.opt(r, "min", Reader::finite);
    let max = f.opt(r, "max", Reader::finite);
    let equals = f.opt(r, "equals", Reader::scalar);
    if let (Some(low), Some(high)) = (min, max)
        && low > high
    {
        let place = f.key_place("min");
        r.rule_help(
            &place,
            format!("the range is empty: {low} is above {high}"),
            "write the smaller number first".into(),
        );
    }
    f.finish(r);
    Some(OscTest { index: index?, min, max, equals })
}

/// The normal form of a trigger: equal triggers have equal normal forms. Aliases are resolved,
/// defaults are filled in, and actions of zones are left out. The id of a row without an id is
/// generated from the normal form, so editing an action does not change the id.
pub(crate) fn canonical(trigger: &Trigger) -> Value {
    let window = |it: &Window| json!([it.min, it.max]);
    let key = |it: &Key| match it {
        Key::Note(note) => json!(note),
        Key::Button(button) => json!(button.name()),
    };
    let gate = |it: &Gate| json!([it.window.as_ref().map(window), it.edge, it.hysteresis, it.throttle_ms]);
    let fields = match &trigger.kind {
        TriggerKind::Note { note, velocity, on, eager } => json!([note, window(velocity), on, eager]),
        TriggerKind::Cc { cc, gate: it } => json!([cc, gate(it)]),
        TriggerKind::VelocityRange { note, velocity, eager, zones } => {
            let tops: Vec<u8> = zones.iter().map(|zone| zone.max).collect();
            json!([note, window(velocity), eager, tops])
        }
        TriggerKind::LongPress { key: it, duration_ms, fire } => {
            json!([key(it), duration_ms, matches!(fire, Fire::Release)])
        }
        TriggerKind::DoubleTap { key: it, timeout_ms } => json!([key(it), timeout_ms]),
        TriggerKind::NoteChord { notes, timeout_ms } => {
            let mut notes = notes.clone();
            notes.sort_unstable();
            json!([notes, timeout_ms])
        }
        TriggerKind::EncoderTurn { cc, encoder, direction, step, invert } => {
            json!([cc, encoder_mode(encoder.mode), encoder.acceleration, direction, step, invert])
        }
        TriggerKind::Aftertouch { gate: it } => json!([gate(it)]),
        TriggerKind::PolyAftertouch { note, gate: it } => json!([note, gate(it)]),
        TriggerKind::PitchBend { gate: it, center_deadzone } => json!([gate(it), center_deadzone]),
        TriggerKind::ProgramChange { program, bank_msb, bank_lsb } => json!([program, bank_msb, bank_lsb]),
        TriggerKind::GamepadButton { button, on, eager } => json!([button.name(), on, eager]),
        TriggerKind::GamepadButtonChord { buttons, timeout_ms } => {
            let mut names: Vec<&str> = buttons.iter().map(|it| it.name()).collect();
            names.sort_unstable();
            json!([names, timeout_ms])
        }
        TriggerKind::GamepadAnalogStick { axis, direction, threshold, hysteresis, repeat_ms } => {
            json!([axis.name(), direction, threshold, hysteresis, repeat_ms])
        }
        TriggerKind::GamepadTrigger { side, threshold, gate: it } => json!([side.name(), threshold, gate(it)]),
        TriggerKind::Osc { address, args } => {
            let tests: Vec<Value> = args.iter().map(osc_test_canonical).collect();
            json!([address, tests])
        }
    };
    json!([trigger.kind.name(), trigger.device, trigger.channel, fields])
}

fn encoder_mode(mode: EncoderMode) -> Value {
    match mode {
        EncoderMode::Absolute => json!("absolute"),
        EncoderMode::TwosComplement => json!("twos_complement"),
        EncoderMode::Offset64 => json!("offset64"),
        EncoderMode::SignBit => json!("sign_bit"),
        EncoderMode::IncDec => json!("inc_dec"),
        EncoderMode::NrpnIncDec { parameter } => json!(["nrpn_inc_dec", parameter]),
    }
}

fn osc_test_canonical(test: &OscTest) -> Value {
    let equals = test.equals.as_ref().map(|it| match it {
        Scalar::Number(number) => json!(number),
        Scalar::Text(text) => json!(text),
        Scalar::Bool(it) => json!(it),
    });
    json!([test.index, test.min, test.max, equals])
}
