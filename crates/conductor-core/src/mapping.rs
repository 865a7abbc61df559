//! Which gesture leads to which action: triggers, continuous bindings, and the rows of a mode.
//!
//! Not here: how a trigger is recognised (`gesture`), what an action does (`action`), how rows are
//! read from a file (`config`).

mod compile;
pub mod table;

use crate::action::{Action, Curve};
use crate::event::{Axis, Button, Side, wire_names};

/// What must happen for an action to fire. `device` is an alias, absent for any; `channel` is 0-15,
/// absent for any.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub device: Option<String>,
    pub channel: Option<u8>,
    pub kind: TriggerKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TriggerKind {
    Note {
        note: u8,
        velocity: Window,
        on: On,
        eager: bool,
    },
    Cc {
        cc: u8,
        gate: Gate,
    },
    VelocityRange {
        note: u8,
        velocity: Window,
        eager: bool,
        zones: Vec<Zone>,
    },
    LongPress {
        key: Key,
        duration_ms: Option<u32>,
        fire: Fire,
    },
    DoubleTap {
        key: Key,
        timeout_ms: Option<u32>,
    },
    NoteChord {
        notes: Vec<u8>,
        timeout_ms: Option<u32>,
    },
    EncoderTurn {
        cc: u8,
        encoder: Encoder,
        direction: Option<Turn>,
        step: u8,
        invert: bool,
    },
    Aftertouch {
        gate: Gate,
    },
    PolyAftertouch {
        note: u8,
        gate: Gate,
    },
    PitchBend {
        gate: Gate,
        center_deadzone: u16,
    },
    ProgramChange {
        program: Option<u8>,
        bank_msb: Option<u8>,
        bank_lsb: Option<u8>,
    },
    GamepadButton {
        button: Button,
        on: On,
        eager: bool,
    },
    GamepadButtonChord {
        buttons: Vec<Button>,
        timeout_ms: Option<u32>,
    },
    GamepadAnalogStick {
        axis: Axis,
        direction: Option<Turn>,
        threshold: f64,
        hysteresis: f64,
        repeat_ms: Option<u32>,
    },
    /// The trigger's travel reads as 0-127; the gate's window begins at `threshold`.
    GamepadTrigger {
        side: Side,
        threshold: u8,
        gate: Gate,
    },
    Osc {
        address: String,
        args: Vec<OscTest>,
    },
}

wire_names!(TriggerKind {
    Note "Note", Cc "CC", VelocityRange "VelocityRange", LongPress "LongPress", DoubleTap "DoubleTap",
    NoteChord "NoteChord", EncoderTurn "EncoderTurn", Aftertouch "Aftertouch", PolyAftertouch "PolyAftertouch",
    PitchBend "PitchBend", ProgramChange "ProgramChange", GamepadButton "GamepadButton",
    GamepadButtonChord "GamepadButtonChord", GamepadAnalogStick "GamepadAnalogStick",
    GamepadTrigger "GamepadTrigger", Osc "Osc",
});

/// Inclusive at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    pub min: u16,
    pub max: u16,
}

impl Window {
    /// The velocities of a press.
    pub const VELOCITY: Window = Window { min: 1, max: 127 };
    /// The values of a controller or of pressure.
    pub const SEVEN_BIT: Window = Window { min: 0, max: 127 };
    /// The values of pitch bend.
    pub const FOURTEEN_BIT: Window = Window { min: 0, max: 16383 };

    pub fn contains(self, value: u16) -> bool {
        self.min <= value && value <= self.max
    }

    pub fn width(self) -> u16 {
        self.max.saturating_sub(self.min)
    }
}

/// One velocity zone: it owns the velocities above the zone before it, up to and including `max`.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    pub max: u8,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum On {
    #[default]
    Press,
    Release,
    Both,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fire {
    #[default]
    Threshold,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Note(u8),
    Button(Button),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    Level,
    Rising,
    Falling,
    Change,
}

/// How a stream of values becomes single firings. `window` absent means all values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gate {
    pub window: Option<Window>,
    /// Absent: `Rising` with a window, `Change` without.
    pub edge: Option<Edge>,
    /// In units of the value. Absent: 0, for gamepad triggers 8.
    pub hysteresis: Option<f64>,
    pub throttle_ms: Option<u32>,
}

/// `Clockwise` and `positive` are the same for a stick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    Clockwise,
    CounterClockwise,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoder {
    pub mode: EncoderMode,
    /// 0..=1.
    pub acceleration: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncoderMode {
    Absolute,
    TwosComplement,
    Offset64,
    SignBit,
    IncDec,
    /// Counts CC 96 and 97 while this parameter is selected.
    NrpnIncDec {
        parameter: u16,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct OscTest {
    pub index: u8,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub equals: Option<Scalar>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    Number(f64),
    Text(String),
    Bool(bool),
}

/// A knob that drives values: source, glue, targets.
#[derive(Clone, Debug, PartialEq)]
pub struct Continuous {
    pub source: Source,
    pub glue: Glue,
    pub targets: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub device: Option<String>,
    pub channel: Option<u8>,
    pub kind: SourceKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SourceKind {
    Cc {
        cc: u8,
    },
    Cc14 {
        cc: u8,
    },
    Nrpn {
        parameter: u16,
    },
    Rpn {
        parameter: u16,
    },
    PitchBend,
    Aftertouch,
    PolyAftertouch {
        note: u8,
    },
    /// `step` is the part of the whole range that one detent moves.
    Encoder {
        cc: u8,
        encoder: Encoder,
        step: f64,
    },
    GamepadAnalogStick {
        axis: Axis,
    },
    GamepadTrigger {
        side: Side,
    },
    Osc {
        address: String,
        arg_index: u8,
    },
}

wire_names!(SourceKind {
    Cc "CC", Cc14 "CC14", Nrpn "NRPN", Rpn "RPN", PitchBend "PitchBend", Aftertouch "Aftertouch",
    PolyAftertouch "PolyAftertouch", Encoder "Encoder", GamepadAnalogStick "GamepadAnalogStick",
    GamepadTrigger "GamepadTrigger", Osc "Osc",
});

/// The stages between a source and its targets; see `continuous` for their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glue {
    /// In raw units of the source.
    pub input: Option<(f64, f64)>,
    pub deadzone: f64,
    pub center: bool,
    pub invert: bool,
    pub shape: Shape,
    pub steps: Option<u16>,
    /// In units of the target.
    pub output: Option<(f64, f64)>,
    /// 0..=1; changes smaller than this are dropped.
    pub hysteresis: f64,
    /// Absent: 5 for MIDI and OSC, 20 for Live and patches.
    pub throttle_ms: Option<u32>,
    pub takeover: Takeover,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Shape {
    #[default]
    Straight,
    Curve(Curve),
    /// Points 0..=1, evenly spaced, interpolated linearly.
    Lut(Vec<f64>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Takeover {
    #[default]
    Off,
    Pickup,
    Scale,
    CatchUp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    Cc { port: String, channel: u8, controller: u8 },
    Cc14 { port: String, channel: u8, controller: u8 },
    Nrpn { port: String, channel: u8, parameter: u16, null_after: bool },
    Rpn { port: String, channel: u8, parameter: u16, null_after: bool },
    PitchBend { port: String, channel: u8 },
    Aftertouch { port: String, channel: u8 },
    OscFloat { host: String, port: u16, address: String, prefix_args: Vec<crate::event::OscArg> },
    LiveParameter { path: String },
    PatchAttribute { patch: String, object: String, attribute: String },
}

impl Target {
    /// The port and the channel of a MIDI target.
    pub fn midi(&self) -> Option<(&str, u8)> {
        match self {
            Target::Cc { port, channel, .. }
            | Target::Cc14 { port, channel, .. }
            | Target::Nrpn { port, channel, .. }
            | Target::Rpn { port, channel, .. }
            | Target::PitchBend { port, channel }
            | Target::Aftertouch { port, channel } => Some((port, *channel)),
            Target::OscFloat { .. } | Target::LiveParameter { .. } | Target::PatchAttribute { .. } => None,
        }
    }
}

wire_names!(Target {
    Cc "CC", Cc14 "CC14", Nrpn "NRPN", Rpn "RPN", PitchBend "PitchBend", Aftertouch "Aftertouch",
    OscFloat "OscFloat", LiveParameter "LiveParameter", PatchAttribute "PatchAttribute",
});
