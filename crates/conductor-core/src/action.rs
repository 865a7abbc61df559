//! The actions of the configuration file. An action is a tree; the compiled tables contain each
//! tree once.
//!
//! Not here: performing actions. The `engine` performs most of them; tool calls go through the
//! gateway's pipeline.

use crate::event::{OscArg, wire_names};
use crate::named_enum::named_enum;
use serde_json::{Map, Value};

/// The kinds of actions, with their fields.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the keys of the configuration file")]
pub enum Action {
    Keystroke(Keystroke),
    Text {
        text: String,
    },
    Launch {
        app: String,
    },
    /// `argv[0]` is the command. No shell interprets the arguments.
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

/// A key with modifiers, in canonical form: modifiers in the order cmd, ctrl, alt, shift, then at
/// most one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keystroke {
    /// The modifiers, in canonical order.
    pub modifiers: Vec<Modifier>,
    /// The key; absent if the keystroke has only modifiers.
    pub key: Option<KeyName>,
    /// Whether the key stays pressed until the trigger is released. If false, it is pressed and
    /// released at once.
    pub hold: bool,
}

/// A modifier key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names explain themselves")]
pub enum Modifier {
    Cmd,
    Ctrl,
    Alt,
    Shift,
}

/// A key by its name in the configuration. `Char` is a single printable character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names explain themselves")]
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
    /// The function keys F1 to F20.
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

/// A change of the system volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names explain themselves")]
pub enum Volume {
    Up,
    Down,
    Mute,
    Unmute,
    /// Percent, 0-100.
    Set(u8),
}

/// A MIDI message for a port.
#[derive(Clone, Debug, PartialEq)]
pub struct SendMidi {
    /// A device alias or the name of a port.
    pub port: String,
    /// The channel, 0-15.
    pub channel: u8,
    pub message: MidiOut,
}

/// The MIDI messages that an action can send.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the keys of the configuration file")]
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
    /// The pitch is -8192..=8191.
    PitchBend {
        pitch: i16,
    },
    /// Polyphonic aftertouch if a note is given, otherwise channel aftertouch.
    Aftertouch {
        note: Option<u8>,
        pressure: u8,
    },
}

/// The source of a velocity to send.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names explain themselves")]
pub enum Velocity {
    /// The velocity of the trigger; 100 if the trigger has no velocity. In a note-off, always 0.
    Trigger,
    Fixed(u8),
    Linear {
        min: u8,
        max: u8,
    },
    Curve(Curve),
}

/// A response curve. `intensity` is 0..=1; at 0 every curve is a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// The shape of the curve.
    pub kind: CurveKind,
    /// The intensity, 0..=1.
    pub intensity: f64,
}

named_enum! {
    /// The shape of a curve.
    #[allow(missing_docs, reason = "the names explain themselves")]
    pub enum CurveKind {
        Linear = "linear",
        Exponential = "exponential",
        Logarithmic = "logarithmic",
        Scurve = "scurve",
    }
}

/// Changes to a forwarded message. They are applied in this order: curve or lut, scale, offset,
/// invert, clamp. A note-on never gets velocity 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transform {
    /// The new channel.
    pub channel: Option<u8>,
    /// The new controller.
    pub cc: Option<u8>,
    /// The new note; overrides `note_offset`.
    pub note: Option<u8>,
    /// Semitones added to the note.
    pub note_offset: i8,
    /// The curve for velocity or value.
    pub curve: Option<Curve>,
    /// A lookup table of 128 values; overrides `curve`.
    pub lut: Option<Vec<u8>>,
    /// The factor for velocity or value.
    pub velocity_scale: Option<f64>,
    /// Added to velocity or value after scaling.
    pub velocity_offset: i8,
    /// Whether the value is subtracted from 127 (pitch bend: from 16383).
    pub invert_value: bool,
}

/// A condition of an action.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the keys of the configuration file")]
pub enum Condition {
    Always,
    Never,
    /// Minutes after midnight in local time, from `start` up to but not including `end`. The range
    /// may cross midnight.
    TimeRange {
        start: u16,
        end: u16,
    },
    /// The days are a bit mask; bit 0 is Monday.
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

named_enum! {
    /// A mouse button.
    #[allow(missing_docs, reason = "the names explain themselves")]
    pub enum MouseButton {
        Left = "left",
        Right = "right",
        Middle = "middle",
    }
}
