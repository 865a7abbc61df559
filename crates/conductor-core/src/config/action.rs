//! Reads an [`Action`] tree with its conditions, keystrokes and command lines.
//!
//! Not here: whether a command matches a template and whether a tool accepts its arguments. The
//! pipeline checks both for each call.

use super::reader::{Fields, Reader, Start, listed, nearest, suggestion};
use super::tree::Node;
use crate::action::{
    Action, Condition, Curve, KeyName, Keystroke, MidiOut, Modifier, SendMidi, Transform, Velocity, Volume,
};
use crate::named_enum::named_enum;
use std::ops::Range;

const MAX_DEPTH: usize = 8;
const MAX_NODES: usize = 256;
const SHELL_TIMEOUT_MS: u32 = 30_000;

const CONDITIONS: &[&str] = &[
    "Always",
    "Never",
    "TimeRange",
    "DayOfWeek",
    "AppRunning",
    "AppFrontmost",
    "ModeIs",
    "DeviceConnected",
    "And",
    "Or",
    "Not",
];

/// Current depth and number of nodes of the action tree, to enforce the limits.
struct Budget {
    depth: usize,
    nodes: usize,
}

pub(crate) fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Action> {
    let before = r.errors();
    let action = read_within(r, node, &mut Budget { depth: 0, nodes: 0 })?;
    (r.errors() == before).then_some(action)
}

/// Reads a node one level deeper. Reading stops at the first node above the limit, so a malicious
/// tree costs no more time than a large valid one.
fn descend<'t, T>(
    r: &mut Reader<'t>,
    node: &'t Node,
    budget: &mut Budget,
    read: impl FnOnce(&mut Reader<'t>, &mut Budget) -> Option<T>,
) -> Option<T> {
    if budget.nodes > MAX_NODES {
        return None;
    }
    budget.nodes += 1;
    if budget.nodes > MAX_NODES {
        r.rule(&node.place, format!("this action has more than {MAX_NODES} parts"));
        return None;
    }
    if budget.depth == MAX_DEPTH {
        r.rule(&node.place, format!("actions may be nested at most {MAX_DEPTH} levels deep"));
        return None;
    }
    budget.depth += 1;
    let read = read(r, budget);
    budget.depth -= 1;
    read
}

fn read_within<'t>(r: &mut Reader<'t>, node: &'t Node, budget: &mut Budget) -> Option<Action> {
    r.define("Action")?;
    descend(r, node, budget, |r, budget| {
        let mut f = r.table(node)?;
        let name = f.tag(r, "type", Action::NAMES)?;
        let action = kind(r, &mut f, name, budget);
        f.finish(r);
        action
    })
}

fn kind<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, name: &str, budget: &mut Budget) -> Option<Action> {
    Some(match name {
        "Keystroke" => Action::Keystroke(keystroke(r, f)?),
        "Text" => Action::Text { text: f.need(r, "text", |r, it| r.text(it, 1, 4096))? },
        "Launch" => {
            let app = f.need(r, "app", |r, it| {
                let app = r.text(it, 1, 512)?;
                r.note_command(&it.place, Start::App(app.clone()));
                Some(app)
            });
            Action::Launch { app: app? }
        }
        "Shell" => shell(r, f)?,
        "VolumeControl" => Action::VolumeControl(volume(r, f)?),
        "ModeChange" => Action::ModeChange { mode: f.need(r, "mode", Reader::mode_name)? },
        "SendMidi" => Action::SendMidi(send_midi(r, f)?),
        "MidiForward" => {
            let target = f.need(r, "target", |r, it| {
                if it.text() == Some("_source") {
                    return Some("_source".to_owned());
                }
                r.port_name(it, true)
            });
            let transform = f.or_default(r, "transform", transform);
            Action::MidiForward { target: target?, transform }
        }
        "Sequence" => {
            let actions = f.need(r, "actions", |r, it| r.list_of(it, 1, 64, |r, item| read_within(r, item, budget)));
            Action::Sequence { actions: actions? }
        }
        "Delay" => Action::Delay { ms: f.need(r, "ms", Reader::ms_or_zero)? },
        "Repeat" => {
            let action = f.need(r, "action", |r, it| read_within(r, it, budget));
            let count = f.need(r, "count", |r, it| r.whole(it, 1, 1000));
            let delay_ms = f.or(r, "delay_ms", 0, Reader::ms_or_zero);
            let while_held = f.or(r, "while_held", false, Reader::boolean);
            Action::Repeat { action: Box::new(action?), count: count?, delay_ms, while_held }
        }
        "Conditional" => {
            let condition = f.need(r, "condition", |r, it| condition(r, it, budget));
            let then_action = f.need(r, "then_action", |r, it| read_within(r, it, budget));
            let else_action = f.opt(r, "else_action", |r, it| read_within(r, it, budget));
            Action::Conditional {
                condition: condition?,
                then_action: Box::new(then_action?),
                else_action: else_action.map(Box::new),
            }
        }
        "MouseClick" => {
            let coordinate = |r: &mut Reader<'t>, it: &'t Node| {
                r.bounded(it, i32::MIN.into(), i32::MAX.into()).and_then(|it| i32::try_from(it).ok())
            };
            let button = f.need(r, "button", Reader::named);
            let x = f.opt(r, "x", coordinate);
            let y = f.opt(r, "y", coordinate);
            if f.has("x") != f.has("y") {
                let place = f.key_place(if f.has("x") { "x" } else { "y" });
                r.rule_help(
                    &place,
                    "`x` and `y` must be given together".into(),
                    "leave both out to click where the pointer is".into(),
                );
            }
            Action::MouseClick { button: button?, at: x.zip(y) }
        }
        "OscSend" => {
            let host = f.need(r, "host", Reader::filled);
            let port = f.need(r, "port", Reader::udp_port);
            let address = f.need(r, "address", Reader::osc_address);
            let args = f.opt(r, "args", |r, it| r.list_of(it, 0, 64, Reader::osc_arg));
            Action::OscSend { host: host?, port: port?, address: address?, args: args.unwrap_or_default() }
        }
        "CallTool" => {
            let tool = f.need(r, "tool", Reader::tool_name);
            let arguments = f.or_default(r, "arguments", arguments);
            Action::CallTool { tool: tool?, arguments }
        }
        "Plugin" => plugin(r, f)?,
        // Never reached: `tag` returns only names in `Action::NAMES`, and a test covers each of
        // them.
        _ => return None,
    })
}

fn volume<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<Volume> {
    const OPERATIONS: &[(&str, Volume)] = &[
        ("Up", Volume::Up),
        ("Down", Volume::Down),
        ("Mute", Volume::Mute),
        ("Unmute", Volume::Unmute),
        ("Set", Volume::Set(0)),
    ];
    let operation = f.need(r, "operation", |r, it| r.word(it, OPERATIONS));
    let value = f.opt(r, "value", |r, it| r.whole(it, 0, 100));
    match operation? {
        Volume::Set(_) => {
            if !f.has("value") {
                let place = f.key_place("operation");
                r.rule_help(&place, "operation = \"Set\" needs `value`".into(), "add `value`, from 0 to 100".into());
            }
            value.map(Volume::Set)
        }
        other @ (Volume::Up | Volume::Down | Volume::Mute | Volume::Unmute) => {
            f.refuse(r, "value", "is allowed only with operation = \"Set\"");
            Some(other)
        }
    }
}

named_enum! {
    /// `message_type` of a `SendMidi` action.
    enum Message {
        NoteOn = "NoteOn",
        NoteOff = "NoteOff",
        Cc = "CC",
        ProgramChange = "ProgramChange",
        PitchBend = "PitchBend",
        Aftertouch = "Aftertouch",
    }
}

fn send_midi<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<SendMidi> {
    let port = f.need(r, "port", |r, it| r.port_name(it, true));
    let channel = f.need(r, "channel", Reader::channel);
    let message = f.need(r, "message_type", Reader::named);

    let note = f.opt(r, "note", Reader::u7);
    let fixed = f.opt(r, "velocity", Reader::u7);
    let map = f.opt(r, "velocity_map", velocity_map);
    let controller = f.opt(r, "controller", Reader::u7);
    let value = f.opt(r, "value", Reader::u7);
    let program = f.opt(r, "program", Reader::u7);
    let pitch = f.opt(r, "pitch", |r, it| r.whole(it, -8192, 8191));
    let pressure = f.opt(r, "pressure", Reader::u7);
    let duration_ms = f.opt(r, "duration_ms", Reader::ms);

    let (needed, optional): (&[&str], &[&str]) = match message? {
        Message::NoteOn => (&["note"], &["velocity", "velocity_map", "duration_ms"]),
        Message::NoteOff => (&["note"], &["velocity", "velocity_map"]),
        Message::Cc => (&["controller", "value"], &[]),
        Message::ProgramChange => (&["program"], &[]),
        Message::PitchBend => (&["pitch"], &[]),
        Message::Aftertouch => (&["pressure"], &["note"]),
    };
    let name = message?.as_str();
    for key in needed {
        if !f.has(key) {
            let place = f.key_place("message_type");
            r.rule(&place, format!("{name} needs `{key}`"));
        }
    }
    for key in
        ["note", "velocity", "velocity_map", "controller", "value", "program", "pitch", "pressure", "duration_ms"]
    {
        if !needed.contains(&key) && !optional.contains(&key) {
            f.refuse(r, key, &format!("is not allowed in {name}"));
        }
    }
    if f.has("velocity") && f.has("velocity_map") {
        let place = f.key_place("velocity_map");
        r.rule(&place, "`velocity` and `velocity_map` cannot be used together".to_owned());
    }
    let velocity = map.or(fixed.map(Velocity::Fixed)).unwrap_or(Velocity::Trigger);
    let message = match message? {
        Message::NoteOn => MidiOut::NoteOn { note: note?, velocity, duration_ms },
        Message::NoteOff => MidiOut::NoteOff { note: note?, velocity },
        Message::Cc => MidiOut::Cc { controller: controller?, value: value? },
        Message::ProgramChange => MidiOut::ProgramChange { program: program? },
        Message::PitchBend => MidiOut::PitchBend { pitch: pitch? },
        Message::Aftertouch => MidiOut::Aftertouch { note, pressure: pressure? },
    };
    Some(SendMidi { port: port?, channel: channel?, message })
}

pub(crate) fn velocity_map<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Velocity> {
    r.define("VelocityMap")?;
    let mut f = r.table(node)?;
    let velocity = match f.tag(r, "type", &["PassThrough", "Fixed", "Linear", "Curve"])? {
        "PassThrough" => Some(Velocity::Trigger),
        "Fixed" => f.need(r, "velocity", Reader::u7).map(Velocity::Fixed),
        "Linear" => {
            let min = f.need(r, "min", Reader::u7);
            let max = f.need(r, "max", Reader::u7);
            if let (Some(min), Some(max)) = (min, max) {
                let place = f.key_place("min");
                r.ascending(&place, min.into(), max.into());
            }
            min.zip(max).map(|(min, max)| Velocity::Linear { min, max })
        }
        _ => {
            let kind = f.need(r, "curve", Reader::named);
            let intensity = f.or(r, "intensity", 0.5, Reader::unit);
            kind.map(|kind| Velocity::Curve(Curve { kind, intensity }))
        }
    };
    f.finish(r);
    velocity
}

/// Reads `curve` with its `intensity`. Neither may be combined with a `lut`.
pub(crate) fn curve<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<Curve> {
    let kind = f.opt(r, "curve", Reader::named);
    let intensity = f.or(r, "intensity", 0.5, Reader::unit);
    if f.has("intensity") && !f.has("curve") {
        let place = f.key_place("intensity");
        r.rule_help(&place, "`intensity` needs a `curve`".into(), "add curve = \"exponential\"".into());
    }
    if f.has("lut") && f.has("curve") {
        let place = f.key_place("lut");
        r.rule(&place, "`curve` and `lut` cannot be used together".to_owned());
    }
    kind.map(|kind| Curve { kind, intensity })
}

pub(crate) fn transform<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Transform> {
    r.define("Transform")?;
    let mut f = r.table(node)?;
    let offset = |r: &mut Reader<'t>, it: &'t Node| r.whole(it, -127, 127);
    let transform = Transform {
        channel: f.opt(r, "channel", Reader::channel),
        cc: f.opt(r, "cc", Reader::u7),
        note: f.opt(r, "note", Reader::u7),
        note_offset: f.or(r, "note_offset", 0, offset),
        curve: curve(r, &mut f),
        lut: f.opt(r, "lut", |r, it| r.list_of(it, 128, 128, Reader::u7)),
        velocity_scale: f.opt(r, "velocity_scale", |r, it| r.number(it, 0.0, 10.0)),
        velocity_offset: f.or(r, "velocity_offset", 0, offset),
        invert_value: f.or(r, "invert_value", false, Reader::boolean),
    };
    f.finish(r);
    Some(transform)
}

/// Reads a condition that is not part of an action, for the JSON Schema.
pub(crate) fn any_condition<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Condition> {
    condition(r, node, &mut Budget { depth: 0, nodes: 0 })
}

fn condition<'t>(r: &mut Reader<'t>, node: &'t Node, budget: &mut Budget) -> Option<Condition> {
    r.define("Condition")?;
    descend(r, node, budget, |r, budget| {
        let mut f = r.table(node)?;
        let name = f.tag(r, "type", CONDITIONS)?;
        let condition = match name {
            "Always" => Some(Condition::Always),
            "Never" => Some(Condition::Never),
            "TimeRange" => {
                let start = f.need(r, "start", Reader::time_of_day);
                let end = f.need(r, "end", Reader::time_of_day);
                if start.is_some() && start == end {
                    let place = f.key_place("end");
                    let help = "for the whole day use { type = \"Always\" }".to_owned();
                    r.rule_help(&place, "`start` and `end` are the same time".to_owned(), help);
                }
                start.zip(end).map(|(start, end)| Condition::TimeRange { start, end })
            }
            "DayOfWeek" => {
                let day = |r: &mut Reader<'t>, it: &'t Node| r.whole::<u8>(it, 1, 7);
                let days = f.need(r, "days", |r, it| r.set(it, 1, 7, day));
                days.map(|days| Condition::DayOfWeek { days: days.iter().fold(0, |bits, day| bits | 1 << (day - 1)) })
            }
            "AppRunning" => f.need(r, "app_name", Reader::name).map(|app_name| Condition::AppRunning { app_name }),
            "AppFrontmost" => f.need(r, "app_name", Reader::name).map(|app_name| Condition::AppFrontmost { app_name }),
            "ModeIs" => f.need(r, "mode", Reader::mode_name).map(|mode| Condition::ModeIs { mode }),
            "DeviceConnected" => {
                f.need(r, "device", Reader::device_name).map(|device| Condition::DeviceConnected { device })
            }
            "And" | "Or" => {
                let conditions =
                    f.need(r, "conditions", |r, it| r.list_of(it, 1, 16, |r, item| condition(r, item, budget)));
                conditions.map(if name == "And" { Condition::And } else { Condition::Or })
            }
            _ => f.need(r, "condition", |r, it| condition(r, it, budget)).map(|it| Condition::Not(Box::new(it))),
        };
        f.finish(r);
        condition
    })
}

const PLACEHOLDERS: &[&str] = &["$velocity", "$value", "$unit", "$note", "$channel"];

fn arguments<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<serde_json::Map<String, serde_json::Value>> {
    warn_of_misspelt_placeholders(r, node);
    r.object(node)
}

fn warn_of_misspelt_placeholders<'t>(r: &mut Reader<'t>, node: &'t Node) {
    for entry in node.entries().unwrap_or_default() {
        r.under(&entry.key, |r| warn_of_misspelt_placeholders(r, &entry.node));
    }
    r.each(node.items().unwrap_or_default(), |r, item| {
        warn_of_misspelt_placeholders(r, item);
        Some(())
    });
    let Some(text) = node.text() else { return };
    let is_slip = text.starts_with('$') && !text.starts_with("$$") && !PLACEHOLDERS.contains(&text);
    if is_slip && let Some(near) = nearest(text, PLACEHOLDERS.iter().copied()) {
        let help = Some(format!("did you mean \"{near}\"? To send the text itself, write \"${text}\""));
        r.warn(&node.place, format!("\"{text}\" is not a placeholder and is sent as text"), help);
    }
}

fn plugin<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<Action> {
    let plugins = r.surroundings.plugins;
    let plugin = f.need(r, "plugin", |r, it| {
        let name = r.text(it, 1, 64)?;
        if plugins.is_some_and(|known| !known.contains_key(&name)) {
            let help = suggestion(&name, plugins.into_iter().flat_map(|known| known.keys()), "plugins are");
            return r.reject(it, format!("there is no plugin \"{name}\""), help);
        }
        Some(name)
    });
    let tools = plugin.as_ref().and_then(|plugin| plugins?.get(plugin));
    let tool = f.opt(r, "tool", |r, it| {
        let name = r.text(it, 1, 128)?;
        if tools.is_some_and(|tools| !tools.contains(&name)) {
            let known = listed(tools.into_iter().flatten().map(String::as_str));
            return r.reject(it, format!("this plugin has no tool \"{name}\""), format!("its tools are {known}"));
        }
        Some(name)
    });
    let count = tools.map_or(1, std::collections::BTreeSet::len);
    if !f.has("tool") && count != 1 {
        let place = f.key_place("plugin");
        let known = listed(tools.into_iter().flatten().map(String::as_str));
        r.rule_help(
            &place,
            format!("this plugin has {count} tools; name one with `tool`"),
            format!("add tool = one of {known}"),
        );
    }
    let params = f.or_default(r, "params", arguments);
    Some(Action::Plugin { plugin: plugin?, tool, params })
}

const MODIFIERS: &[(&str, Modifier)] = &[
    ("cmd", Modifier::Cmd),
    ("command", Modifier::Cmd),
    ("meta", Modifier::Cmd),
    ("super", Modifier::Cmd),
    ("ctrl", Modifier::Ctrl),
    ("control", Modifier::Ctrl),
    ("alt", Modifier::Alt),
    ("option", Modifier::Alt),
    ("shift", Modifier::Shift),
];

const KEYS: &[(&str, KeyName)] = &[
    ("space", KeyName::Space),
    ("return", KeyName::Return),
    ("enter", KeyName::Return),
    ("tab", KeyName::Tab),
    ("escape", KeyName::Escape),
    ("esc", KeyName::Escape),
    ("backspace", KeyName::Backspace),
    ("delete", KeyName::Delete),
    ("del", KeyName::Delete),
    ("insert", KeyName::Insert),
    ("up", KeyName::Up),
    ("down", KeyName::Down),
    ("left", KeyName::Left),
    ("right", KeyName::Right),
    ("home", KeyName::Home),
    ("end", KeyName::End),
    ("pageup", KeyName::PageUp),
    ("pagedown", KeyName::PageDown),
    ("volumeup", KeyName::VolumeUp),
    ("volumedown", KeyName::VolumeDown),
    ("mute", KeyName::Mute),
    ("playpause", KeyName::PlayPause),
    ("stop", KeyName::Stop),
    ("next", KeyName::Next),
    ("previous", KeyName::Previous),
    ("printscreen", KeyName::PrintScreen),
    ("scrolllock", KeyName::ScrollLock),
    ("pause", KeyName::Pause),
    ("capslock", KeyName::CapsLock),
    ("numlock", KeyName::NumLock),
];

enum Pressed {
    Modifier(Modifier),
    Key(KeyName),
}

fn pressed<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Pressed> {
    let text = r.filled(node)?;
    if let Some((_, modifier)) = MODIFIERS.iter().find(|(name, _)| *name == text) {
        return Some(Pressed::Modifier(*modifier));
    }
    if let Some(key) = key_name(&text) {
        return Some(Pressed::Key(key));
    }
    let message = format!("there is no key \"{text}\"");
    let parts: Vec<&str> = text.split('+').map(str::trim).collect();
    let is_key = |part: &&str| MODIFIERS.iter().any(|(name, _)| name == part) || key_name(part).is_some();
    let help = if parts.len() > 1 && parts.iter().all(is_key) {
        format!("write the keys as a list: keys = {parts:?}")
    } else {
        let names = KEYS.iter().map(|(name, _)| *name).chain(MODIFIERS.iter().map(|(name, _)| *name));
        nearest(&text, names).map_or_else(
            || "a key is one character, f1 to f20, or a name such as return, escape, left, pageup".to_owned(),
            |it| format!("did you mean \"{it}\"?"),
        )
    };
    r.reject(node, message, help)
}

fn key_name(text: &str) -> Option<KeyName> {
    let mut characters = text.chars();
    if let (Some(only), None) = (characters.next(), characters.next()) {
        return match only {
            ' ' => Some(KeyName::Space),
            _ if only.is_control() || only.is_whitespace() => None,
            _ => Some(KeyName::Char(only)),
        };
    }
    if let Some((_, key)) = KEYS.iter().find(|(name, _)| *name == text) {
        return Some(*key);
    }
    let number = text.strip_prefix('f').filter(|it| !it.starts_with(['0', '+']))?.parse::<u8>().ok()?;
    (1..=20).contains(&number).then_some(KeyName::F(number))
}

/// Normalizes both forms (a key plus `modifiers`, or one list) to the same result: modifiers in
/// fixed order, then at most one key.
fn keystroke<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<Keystroke> {
    let mut modifiers: Vec<Modifier> = f.or_default(r, "modifiers", |r, it| {
        if r.is_describing() {
            return r.set(it, 0, 4, |r, item| r.word(item, MODIFIERS));
        }
        let items = r.list(it, 0, 4)?;
        let read = r.each(items, |r, item| r.word(item, MODIFIERS));
        for (index, item) in items.iter().enumerate() {
            if items.iter().take(index).any(|earlier| earlier.text() == item.text()) {
                r.at_index(index, |r| r.shape(item, "a modifier is duplicated".to_owned()));
            }
        }
        Some(read)
    });
    let keys = f.need(r, "keys", |r, it| {
        r.describe_either(|r| pressed(r, it), |r| r.list_of(it, 1, 8, pressed))?;
        let presses: Vec<(&'t Node, Pressed)> = match it.items() {
            Some(_) => {
                let items = r.list(it, 1, 8)?;
                r.each(items, |r, item| Some((item, pressed(r, item)?)))
            }
            None => vec![(it, pressed(r, it)?)],
        };
        let mut key = None;
        for (node, press) in presses {
            match press {
                Pressed::Modifier(modifier) => modifiers.push(modifier),
                Pressed::Key(_) if key.is_some() => {
                    let help = "to press one key after another, use a Sequence".to_owned();
                    r.rule_help(&node.place, "a keystroke has one key in addition to its modifiers".to_owned(), help);
                }
                Pressed::Key(it) => key = Some(it),
            }
        }
        Some(key)
    });
    let hold = f.or(r, "hold", false, Reader::boolean);
    modifiers.sort_unstable();
    modifiers.dedup();
    Some(Keystroke { modifiers, key: keys?, hold })
}

fn shell<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<Action> {
    let args = f.opt(r, "args", |r, it| r.list_of(it, 0, 64, |r, item| r.text(item, 0, usize::MAX)));
    let has_args = f.has("args");
    let command = f.need(r, "command", |r, it| {
        let command = r.text(it, 1, 4096)?;
        if has_args {
            return Some(vec![command]);
        }
        match split_words(&command) {
            Ok(words) if words.argv.first().is_some_and(|it| !it.is_empty()) => {
                if let Some(symbol) = words.shell_symbol {
                    let help = "no shell is used; call a script, or put the text in quotes".to_owned();
                    r.warn(
                        &it.place,
                        format!("`{symbol}` has no special meaning and is passed to the program unchanged"),
                        Some(help),
                    );
                }
                Some(words.argv)
            }
            Ok(_) => {
                r.rule(&it.place, "`command` is empty: it needs a program".to_owned());
                None
            }
            Err(unclosed) => {
                let quote = command.get(unclosed).unwrap_or_default().to_owned();
                let message = match quote.as_str() {
                    "\\" => "`command` ends in a backslash without a character after it".to_owned(),
                    _ => format!("the {quote} in `command` is never closed"),
                };
                r.rule(&it.place, message);
                None
            }
        }
    });
    let timeout = |r: &mut Reader<'t>, it: &'t Node| r.whole(it, 1000, 300_000);
    let timeout_ms = f.or(r, "timeout_ms", SHELL_TIMEOUT_MS, timeout);
    let mut argv = command?;
    argv.extend(args.unwrap_or_default());
    if let Some(node) = f.node("command") {
        r.under("command", |r| r.note_command(&node.place, Start::Line(argv.clone())));
    }
    Some(Action::Shell { argv, timeout_ms })
}

pub(crate) struct Words {
    pub argv: Vec<String>,
    /// The first unquoted character that a shell would interpret. No shell is used, so the
    /// character is passed to the program unchanged.
    pub shell_symbol: Option<char>,
}

/// Splits a command into words by the quoting rules of POSIX (Shell Command Language, 2.2), without
/// any expansion. The error is the place of an unclosed quote or of a backslash at the end.
pub(crate) fn split_words(command: &str) -> Result<Words, Range<usize>> {
    let mut words = Words { argv: Vec::new(), shell_symbol: None };
    let mut word: Option<String> = None;
    let mut characters = command.char_indices().peekable();
    while let Some((start, character)) = characters.next() {
        match character {
            ' ' | '\t' | '\n' | '\r' => words.argv.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some((_, '\'')) => break,
                        Some((_, inner)) => word.push(inner),
                        None => return Err(start..start + 1),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => match characters.next() {
                            Some((_, '\n')) => {}
                            Some((_, special @ ('"' | '\\' | '$' | '`'))) => word.push(special),
                            Some((_, other)) => word.extend(['\\', other]),
                            None => return Err(start..start + 1),
                        },
                        Some((_, inner)) => word.push(inner),
                        None => return Err(start..start + 1),
                    }
                }
            }
            '\\' => match characters.next() {
                Some((_, '\n')) => {}
                Some((_, next)) => word.get_or_insert_default().push(next),
                None => return Err(start..start + 1),
            },
            other => {
                if matches!(other, '|' | '&' | ';' | '<' | '>' | '$' | '`' | '*') {
                    words.shell_symbol.get_or_insert(other);
                }
                word.get_or_insert_default().push(other);
            }
        }
    }
    words.argv.extend(word);
    Ok(words)
}
