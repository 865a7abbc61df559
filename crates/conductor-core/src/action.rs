//! What happens when a gesture fires, as data. Actions are trees; the compiled tables hold each
//! tree once and hand out its number.
//!
//! Not here: carrying an action out. Reflexes leave through `hands`, calls through the shell's
//! pipeline.

use crate::event::{OscArg, wire_names};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Keystroke(Keystroke),
    Text {
        text: String,
    },
    Launch {
        app: String,
    },
    /// `argv[0]` is the command; never interpreted by a shell.
    Shell {
        argv: Vec<String>,
        timeout_ms: u32,
    },
    VolumeControl(Volume),
    ModeChange {
        mode: String,
    },
    SendMidi(SendMidi),
    MidiForward {
        target: String,
        transform: Transform,
    },
    Sequence {
        actions: Vec<Action>,
    },
    Delay {
        ms: u32,
    },
    Repeat {
        action: Box<Action>,
        count: u16,
        delay_ms: u32,
        while_held: bool,
    },
    Conditional {
        condition: Condition,
        then_action: Box<Action>,
        else_action: Option<Box<Action>>,
    },
    MouseClick {
        button: MouseButton,
        at: Option<(i32, i32)>,
    },
    OscSend {
        host: String,
        port: u16,
        address: String,
        args: Vec<OscArg>,
    },
    CallTool {
        tool: String,
        arguments: Map<String, Value>,
    },
    Plugin {
        plugin: String,
        tool: Option<String>,
        params: Map<String, Value>,
    },
}

wire_names!(Action {
    Keystroke "Keystroke", Text "Text", Launch "Launch", Shell "Shell", VolumeControl "VolumeControl",
    ModeChange "ModeChange", SendMidi "SendMidi", MidiForward "MidiForward", Sequence "Sequence", Delay "Delay",
    Repeat "Repeat", Conditional "Conditional", MouseClick "MouseClick", OscSend "OscSend", CallTool "CallTool",
    Plugin "Plugin",
});

/// In canonical form: modifiers in the order cmd, ctrl, alt, shift, then at most one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keystroke {
    pub modifiers: Vec<Modifier>,
    pub key: Option<KeyName>,
    /// Held until the trigger's release instead of pressed and released at once.
    pub hold: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Modifier {
    Cmd,
    Ctrl,
    Alt,
    Shift,
}

/// A key by the names of the specification. `Char` is a single printable character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyName {
    Char(char),
    Space,
    Return,
    Tab,
    Escape,
    Backspace,
    Delete,
    Insert,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// 1-20.
    F(u8),
    VolumeUp,
    VolumeDown,
    Mute,
    PlayPause,
    Stop,
    Next,
    Previous,
    PrintScreen,
    ScrollLock,
    Pause,
    CapsLock,
    NumLock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Volume {
    Up,
    Down,
    Mute,
    Unmute,
    /// Percent, 0-100.
    Set(u8),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SendMidi {
    pub port: String,
    pub channel: u8,
    pub message: MidiOut,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MidiOut {
    NoteOn {
        note: u8,
        velocity: Velocity,
        duration_ms: Option<u32>,
    },
    NoteOff {
        note: u8,
        velocity: Velocity,
    },
    Cc {
        controller: u8,
        value: u8,
    },
    ProgramChange {
        program: u8,
    },
    /// -8192..=8191.
    PitchBend {
        pitch: i16,
    },
    /// Polyphonic when a note is given.
    Aftertouch {
        note: Option<u8>,
        pressure: u8,
    },
}

/// Where a sent velocity comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Velocity {
    /// The trigger's velocity, else 100.
    Trigger,
    Fixed(u8),
    Linear {
        min: u8,
        max: u8,
    },
    Curve(Curve),
}

/// `intensity` is 0..=1; at 0 every curve is the straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    pub kind: CurveKind,
    pub intensity: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CurveKind {
    Linear,
    Exponential,
    Logarithmic,
    Scurve,
}

/// Applied in the order curve or lut, scale, offset, invert, clamp. A note-on never leaves with
/// velocity 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transform {
    pub channel: Option<u8>,
    pub cc: Option<u8>,
    pub note: Option<u8>,
    pub note_offset: i8,
    pub curve: Option<Curve>,
    /// 128 values.
    pub lut: Option<Vec<u8>>,
    pub velocity_scale: Option<f64>,
    pub velocity_offset: i8,
    pub invert_value: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    Always,
    Never,
    /// Minutes after midnight, local time, `[start, end)`, wrapping midnight.
    TimeRange {
        start: u16,
        end: u16,
    },
    /// Bit 0 is Monday.
    DayOfWeek {
        days: u8,
    },
    AppRunning {
        app_name: String,
    },
    AppFrontmost {
        app_name: String,
    },
    ModeIs {
        mode: String,
    },
    DeviceConnected {
        device: String,
    },
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MouseButton {
    Left,
    Right,
    Middle,
}
