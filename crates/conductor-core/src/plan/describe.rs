//! Short descriptions of triggers and actions for plans, traces and lists: `Note 36`, `Keystroke
//! cmd+c`.

use crate::action::{Action, KeyName, MidiOut, Modifier, MouseButton, Volume};
use crate::mapping::{Key, Trigger, TriggerKind};

fn joined<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    items.iter().map(show).collect::<Vec<_>>().join("+")
}

/// A short description of a trigger.
pub fn trigger(trigger: &Trigger) -> String {
    let name = trigger.kind.name();
    let key = |key: &Key| match key {
        Key::Note(note) => note.to_string(),
        Key::Button(button) => button.to_string(),
    };
    let control = match &trigger.kind {
        TriggerKind::Note { note, .. }
        | TriggerKind::VelocityRange { note, .. }
        | TriggerKind::PolyAftertouch { note, .. } => note.to_string(),
        TriggerKind::Cc { cc, .. } | TriggerKind::EncoderTurn { cc, .. } => cc.to_string(),
        TriggerKind::LongPress { key: it, .. } | TriggerKind::DoubleTap { key: it, .. } => key(it),
        TriggerKind::NoteChord { notes, .. } => joined(notes, u8::to_string),
        TriggerKind::Aftertouch { .. } | TriggerKind::PitchBend { .. } => String::new(),
        TriggerKind::ProgramChange { program, .. } => program.map(|it| it.to_string()).unwrap_or_default(),
        TriggerKind::GamepadButton { button, .. } => button.to_string(),
        TriggerKind::GamepadButtonChord { buttons, .. } => joined(buttons, ToString::to_string),
        TriggerKind::GamepadAnalogStick { axis, .. } => axis.to_string(),
        TriggerKind::GamepadTrigger { side, .. } => side.to_string(),
        TriggerKind::Osc { address, .. } => address.clone(),
    };
    let device = trigger.device.as_ref().map(|it| format!(" on {it}")).unwrap_or_default();
    format!("{name} {control}").trim_end().to_owned() + &device
}

/// A short description of an action.
pub fn action(action: &Action) -> String {
    let name = action.name();
    let detail = match action {
        Action::Keystroke(keys) => {
            let modifiers = keys.modifiers.iter().map(|it| modifier(*it).to_owned());
            modifiers.chain(keys.key.map(key_name)).collect::<Vec<_>>().join("+")
        }
        Action::Text { text } => format!("{:?}", short(text)),
        Action::Launch { app } => app.clone(),
        Action::Shell { argv, .. } => short(&argv.join(" ")),
        Action::VolumeControl(volume) => match volume {
            Volume::Up => "Up".to_owned(),
            Volume::Down => "Down".to_owned(),
            Volume::Mute => "Mute".to_owned(),
            Volume::Unmute => "Unmute".to_owned(),
            Volume::Set(percent) => format!("Set {percent}"),
        },
        Action::ModeChange { mode } => mode.clone(),
        Action::SendMidi(sent) => {
            let message = match &sent.message {
                MidiOut::NoteOn { note, .. } => format!("NoteOn {note}"),
                MidiOut::NoteOff { note, .. } => format!("NoteOff {note}"),
                MidiOut::Cc { controller, value } => format!("CC {controller}={value}"),
                MidiOut::ProgramChange { program } => format!("ProgramChange {program}"),
                MidiOut::PitchBend { pitch } => format!("PitchBend {pitch}"),
                MidiOut::Aftertouch { note: Some(note), pressure } => format!("Aftertouch {note}={pressure}"),
                MidiOut::Aftertouch { note: None, pressure } => format!("Aftertouch {pressure}"),
            };
            format!("{message} to {}", sent.port)
        }
        Action::MidiForward { target, .. } => format!("to {target}"),
        Action::Sequence { actions } => format!("of {}", actions.len()),
        Action::Delay { ms } => format!("{ms} ms"),
        Action::Repeat { action: inner, count, .. } => format!("{count} x {}", self::action(inner)),
        Action::Conditional { then_action, .. } => self::action(then_action),
        Action::MouseClick { button, .. } => match button {
            MouseButton::Left => "left".to_owned(),
            MouseButton::Right => "right".to_owned(),
            MouseButton::Middle => "middle".to_owned(),
        },
        Action::OscSend { address, .. } => address.clone(),
        Action::CallTool { tool, .. } => tool.clone(),
        Action::Plugin { plugin, tool, .. } => {
            tool.as_ref().map_or_else(|| plugin.clone(), |tool| format!("{plugin}.{tool}"))
        }
    };
    format!("{name} {detail}")
}

fn short(text: &str) -> String {
    let mut out: String = text.chars().take(32).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}

fn modifier(modifier: Modifier) -> &'static str {
    match modifier {
        Modifier::Cmd => "cmd",
        Modifier::Ctrl => "ctrl",
        Modifier::Alt => "alt",
        Modifier::Shift => "shift",
    }
}

fn key_name(key: KeyName) -> String {
    let name = match key {
        KeyName::Char(it) => return it.to_string(),
        KeyName::F(number) => return format!("f{number}"),
        KeyName::Space => "space",
        KeyName::Return => "return",
        KeyName::Tab => "tab",
        KeyName::Escape => "escape",
        KeyName::Backspace => "backspace",
        KeyName::Delete => "delete",
        KeyName::Insert => "insert",
        KeyName::Up => "up",
        KeyName::Down => "down",
        KeyName::Left => "left",
        KeyName::Right => "right",
        KeyName::Home => "home",
        KeyName::End => "end",
        KeyName::PageUp => "pageup",
        KeyName::PageDown => "pagedown",
        KeyName::VolumeUp => "volumeup",
        KeyName::VolumeDown => "volumedown",
        KeyName::Mute => "mute",
        KeyName::PlayPause => "playpause",
        KeyName::Stop => "stop",
        KeyName::Next => "next",
        KeyName::Previous => "previous",
        KeyName::PrintScreen => "printscreen",
        KeyName::ScrollLock => "scrolllock",
        KeyName::Pause => "pause",
        KeyName::CapsLock => "capslock",
        KeyName::NumLock => "numlock",
    };
    name.to_owned()
}
