//! Triggers, continuous bindings and targets, as in the configuration file.
//!
//! Not here: the recognition of gestures (`gesture`), actions (`action`), and reading rows from a
//! file (`config`).

mod compile;
pub mod table;

use crate::action::{Action, Curve};
use crate::event::{Axis, Button, Side, wire_names};
use crate::named_enum::named_enum;

/// The event that fires an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The alias of the device; absent for any device.
    pub device: Option<String>,
    /// The MIDI channel, 0-15; absent for any channel.
    pub channel: Option<u8>,
    /// The kind of trigger.
    pub kind: TriggerKind,
}

/// The kinds of triggers, with their fields.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the keys of the configuration file")]
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
    /// The position of the gamepad trigger is scaled to 0-127. Positions from `threshold` on can
    /// fire.
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

/// A range of values, inclusive at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The lowest value.
    pub min: u16,
    /// The highest value.
    pub max: u16,
}

impl Window {
    /// The velocities of a press.
    pub const VELOCITY: Window = Window { min: 1, max: 127 };
    /// The values of a controller or of pressure.
    pub const SEVEN_BIT: Window = Window { min: 0, max: 127 };
    /// The values of pitch bend.
    pub const FOURTEEN_BIT: Window = Window { min: 0, max: 16383 };

    /// Whether the value is inside the window.
    pub fn contains(self, value: u16) -> bool {
        self.min <= value && value <= self.max
    }

    /// The distance between both ends.
    pub fn width(self) -> u16 {
        self.max.saturating_sub(self.min)
    }
}

/// One velocity zone: the velocities above the previous zone, up to and including `max`.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// The highest velocity of the zone.
    pub max: u8,
    /// The action of the zone.
    pub action: Action,
}

named_enum! {
    /// The part of a press that fires a rule.
    #[derive(Default)]
    pub enum On {
        /// The rule fires on the press.
        #[default]
        Press = "press",
        /// The rule fires on the release.
        Release = "release",
        /// The rule fires on both the press and the release.
        Both = "both",
    }
}

named_enum! {
    /// The time at which a long press fires.
    #[derive(Default)]
    pub enum Fire {
        /// The rule fires as soon as the duration is reached.
        #[default]
        Threshold = "threshold",
        /// The rule fires at the first release after the duration.
        Release = "release",
    }
}

/// A note or a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A note.
    Note(u8),
    /// A gamepad button.
    Button(Button),
}

named_enum! {
    /// The changes of a value that fire the rule.
    pub enum Edge {
        /// Every value inside the window.
        Level = "level",
        /// A change from outside the window to inside.
        Rising = "rising",
        /// A change from inside the window to outside.
        Falling = "falling",
        /// Every change inside the window.
        Change = "change",
    }
}

/// The conditions under which a value of a control fires a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gate {
    /// The range of values that can fire; absent for all values.
    pub window: Option<Window>,
    /// The changes that fire. The default is `Rising` with a window and `Change` without a window.
    pub edge: Option<Edge>,
    /// The hysteresis, in units of the value. The default is 8 for gamepad triggers and 0 for all
    /// others.
    pub hysteresis: Option<f64>,
    /// The minimum time between two firings.
    pub throttle_ms: Option<u32>,
}

named_enum! {
    /// A direction of an encoder or a stick; `Clockwise` is positive.
    pub enum Turn {
        /// Clockwise or positive.
        Clockwise = "Clockwise",
        /// Counter-clockwise or negative.
        CounterClockwise = "CounterClockwise",
    }
}

/// The encoding and the acceleration of an encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoder {
    /// The encoding of ticks.
    pub mode: EncoderMode,
    /// The acceleration, 0..=1.
    pub acceleration: f64,
}

/// The encodings of encoder ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the keys of the configuration file")]
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

/// A test of one OSC argument.
#[derive(Clone, Debug, PartialEq)]
pub struct OscTest {
    /// The index of the argument.
    pub index: u8,
    /// The lowest number that passes the test.
    pub min: Option<f64>,
    /// The highest number that passes the test.
    pub max: Option<f64>,
    /// The value that the argument must have.
    pub equals: Option<Scalar>,
}

/// A value to compare with an OSC argument.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names explain themselves")]
pub enum Scalar {
    Number(f64),
    Text(String),
    Bool(bool),
}

/// A continuous binding: source, glue, targets.
#[derive(Clone, Debug, PartialEq)]
pub struct Continuous {
    pub source: Source,
    /// The stages between the source and the targets.
    pub glue: Glue,
    pub targets: Vec<Target>,
}

/// The control that drives a binding.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The alias of the device; absent for any device.
    pub device: Option<String>,
    /// The MIDI channel; absent for any channel.
    pub channel: Option<u8>,
    /// The kind of source.
    pub kind: SourceKind,
}

/// The kinds of sources, with their fields.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the keys of the configuration file")]
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
    /// `step` is the change per detent, as a share of the whole range.
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

/// The stages between a source and its targets; see `engine::continuous` for their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glue {
    /// The range of the source that is used, in raw units of the source.
    pub input: Option<(f64, f64)>,
    /// The share of the range that is ignored, 0..=1.
    pub deadzone: f64,
    /// Whether the dead zone is in the centre.
    pub center: bool,
    /// Whether the value is reversed.
    pub invert: bool,
    /// The response curve.
    pub shape: Shape,
    /// The number of steps, if the value is stepped.
    pub steps: Option<u16>,
    /// The range of values to send, in units of the target.
    pub output: Option<(f64, f64)>,
    /// Changes smaller than this share of the range (0..=1) are dropped.
    pub hysteresis: f64,
    /// The minimum time between two sent values. The default is 5 ms for MIDI and OSC, and 20 ms
    /// for Live and patches.
    pub throttle_ms: Option<u32>,
    /// How the knob takes control of the target.
    pub takeover: Takeover,
}

/// The response curve of a binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Shape {
    /// A straight line.
    #[default]
    Straight,
    Curve(Curve),
    /// Points 0..=1, evenly spaced, interpolated linearly.
    Lut(Vec<f64>),
}

named_enum! {
    /// How a knob takes control of a target that has a different value.
    #[derive(Default)]
    pub enum Takeover {
        /// The target jumps to the knob's value.
        #[default]
        Off = "off",
        /// The knob takes control when it passes the target's value.
        Pickup = "pickup",
        /// Each turn of the knob moves the target in proportion to the target's remaining range.
        Scale = "scale",
        /// Each turn of the knob moves the target towards the knob's value.
        CatchUp = "catch_up",
    }
}

/// A target for the values of a binding.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the keys of the configuration file")]
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
