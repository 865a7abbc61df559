//! Events of devices. One enum contains the bodies of MIDI, gamepad and OSC events.
//!
//! Not here: reading devices (`conductor-hosts`), and the meaning of a press (`gesture`).

pub mod assemble;
pub mod echo;
pub mod midi;
pub mod osc;
pub mod returns;
pub mod script;

use std::fmt;
use std::sync::Arc;

/// Microseconds of a monotonic clock. Zero is the start of the daemon or of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    /// Creates a time from milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Micros(ms.saturating_mul(1000))
    }

    /// The time `ms` milliseconds later.
    pub const fn plus_ms(self, ms: u32) -> Self {
        Micros(self.0.saturating_add(ms as u64 * 1000))
    }

    /// The time `us` microseconds later.
    pub const fn plus_us(self, us: u64) -> Self {
        Micros(self.0.saturating_add(us))
    }

    /// Microseconds since `earlier`; 0 if `earlier` is the later time.
    pub const fn since(self, earlier: Micros) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The slot of a device or port in the running daemon; see `mapping::table::Slots`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceSlot(pub u16);

/// Whether a person's input caused an event. Only `Clean` events may press keys, start programs and
/// commands, or call tools. `Network` events may do so too if their device has
/// `allow_sensitive_actions`. The variants are in order of severity: if several events act
/// together, the most severe taint applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Taint {
    /// Caused by a person's input on a controller.
    #[default]
    Clean,
    /// Arrived over UDP, whose senders are not authenticated.
    Network,
    /// Arrived at a port that any program can write to, on a device that is not `trusted`.
    Virtual,
    /// Caused by a tool, or sent by the engine without a person's input. Without this taint, a
    /// model could fire mappings that only a person may fire.
    Tool,
}

impl Taint {
    /// The reason why an action that needs a person's input did not run.
    pub const fn reason(self) -> &'static str {
        match self {
            Taint::Clean => "",
            Taint::Virtual => {
                "any program can send to this port; if only a person plays the device, set trusted = true on it"
            }
            Taint::Network | Taint::Tool => "the event came over the network or was not caused by a person's input",
        }
    }
}

/// The origin of a message. It is passed along with the message wherever the message can come back
/// to this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Whether a person's input caused the message.
    pub taint: Taint,
    /// The number of times that the message was forwarded. A limit on this number ends loops of
    /// routes, mappings and bindings.
    pub hops: u8,
}

impl Trail {
    /// The trail of a message that two events caused together.
    #[must_use]
    pub fn and(self, other: Trail) -> Self {
        Trail { taint: self.taint.max(other.taint), hops: self.hops.max(other.hops) }
    }

    /// The trail of a message that was caused by a message with this trail. The new trail has one
    /// more hop.
    #[must_use]
    pub const fn further(self) -> Self {
        Trail { taint: self.taint, hops: self.hops.saturating_add(1) }
    }
}

/// The trail of a message that has not been forwarded yet: zero hops.
impl From<Taint> for Trail {
    fn from(taint: Taint) -> Self {
        Trail { taint, hops: 0 }
    }
}

/// An event of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The time stamp.
    pub at: Micros,
    /// The device that sent the event.
    pub device: DeviceSlot,
    /// Whether a person's input caused the event.
    pub taint: Taint,
    /// The number of times that the message was forwarded; see [`Trail`].
    pub hops: u8,
    pub body: Body,
}

impl Event {
    /// Taint and hops together.
    pub const fn trail(&self) -> Trail {
        Trail { taint: self.taint, hops: self.hops }
    }
}

/// The content of an event. Channels are 0-15; notes, controllers and values are 0-127; pitch bend
/// is 0-16383 with its centre at 8192.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields have the names of the MIDI specification")]
pub enum Body {
    /// Velocity is 1-127: a note-on with velocity 0 is decoded as `NoteOff`.
    NoteOn { channel: u8, note: u8, velocity: u8 },
    /// The release of a key.
    NoteOff { channel: u8, note: u8, velocity: u8 },
    /// Pressure of one key.
    PolyPressure { channel: u8, note: u8, pressure: u8 },
    /// A controller.
    Cc { channel: u8, controller: u8, value: u8 },
    /// A program change.
    Program { channel: u8, program: u8 },
    /// Pressure of a channel.
    ChannelPressure { channel: u8, pressure: u8 },
    /// Pitch bend.
    PitchBend { channel: u8, value: u16 },
    /// The bytes between F0 and F7.
    SysEx(Arc<[u8]>),
    /// A transport message; only for routes and the trace.
    RealTime(RealTime),
    /// MTC quarter frame, song position, song select or tune request; only for routes and the
    /// trace.
    Common { status: u8, data: [u8; 2] },
    /// A gamepad button went down.
    ButtonDown(Button),
    /// A gamepad button went up.
    ButtonUp(Button),
    /// A stick moved. The value is -1..=1; right and up are positive.
    Axis { axis: Axis, value: f32 },
    /// A trigger of a gamepad moved. The value is 0..=1.
    Trigger { side: Side, value: f32 },
    /// An OSC message.
    Osc(Arc<OscMessage>),
}

/// An OSC message.
#[derive(Clone, Debug, PartialEq)]
pub struct OscMessage {
    pub address: String,
    pub args: Vec<OscArg>,
}

/// An argument of an OSC message.
#[derive(Clone, Debug, PartialEq)]
pub enum OscArg {
    /// A whole number.
    Int(i32),
    /// A floating-point number.
    Float(f32),
    /// A text.
    Text(String),
    /// True or false.
    Bool(bool),
}

/// Defines the wire names of an enum's variants.
macro_rules! wire_names {
    ($enum:ident { $($variant:ident $wire:literal),+ $(,)? }) => {
        impl $enum {
            /// Every wire name, in the order in which the documentation lists them.
            pub const NAMES: &'static [&'static str] = &[$($wire),+];

            /// The wire name.
            pub const fn name(&self) -> &'static str {
                match self { $($enum::$variant { .. } => $wire),+ }
            }
        }
    };
}
pub(crate) use wire_names;

wire_names!(Body {
    NoteOn "NoteOn", NoteOff "NoteOff", PolyPressure "PolyAftertouch", Cc "CC", Program "ProgramChange",
    ChannelPressure "Aftertouch", PitchBend "PitchBend", SysEx "SysEx", RealTime "RealTime", Common "Common",
    ButtonDown "ButtonDown", ButtonUp "ButtonUp", Axis "Axis", Trigger "Trigger", Osc "Osc",
});

impl Body {
    /// Whether the body shares memory, so that dropping it may free memory.
    pub const fn owns_memory(&self) -> bool {
        matches!(self, Body::SysEx(_) | Body::Osc(_))
    }

    /// The channel of a channel message.
    pub const fn channel(&self) -> Option<u8> {
        if let Body::NoteOn { channel, .. }
        | Body::NoteOff { channel, .. }
        | Body::PolyPressure { channel, .. }
        | Body::Cc { channel, .. }
        | Body::Program { channel, .. }
        | Body::ChannelPressure { channel, .. }
        | Body::PitchBend { channel, .. } = self
        {
            Some(*channel)
        } else {
            None
        }
    }
}

impl OscArg {
    /// The argument as a number; `None` for texts.
    pub fn number(&self) -> Option<f64> {
        match self {
            OscArg::Int(value) => Some(f64::from(*value)),
            OscArg::Float(value) => Some(f64::from(*value)),
            OscArg::Bool(value) => Some(f64::from(u8::from(*value))),
            OscArg::Text(_) => None,
        }
    }
}

/// Declares an enum whose members have only a wire number and a wire name.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $id:literal $wire:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names explain themselves")]
        pub enum $name { $($variant),+ }

        impl $name {
            /// Every member.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The wire number.
            pub const fn id(self) -> u8 {
                match self { $($name::$variant => $id),+ }
            }

            /// The index of the member in `ALL`.
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The wire name.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $wire),+ }
            }

            /// The member with this wire number.
            pub fn from_id(id: i64) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| i64::from(it.id()) == id)
            }

            /// The member with this wire name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.name() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

numbered!(
    /// Gamepad buttons by position, not by their printed letters.
    Button {
        South = 128 "south", East = 129 "east", West = 130 "west", North = 131 "north",
        DpadUp = 132 "dpad_up", DpadDown = 133 "dpad_down", DpadLeft = 134 "dpad_left", DpadRight = 135 "dpad_right",
        L1 = 136 "l1", R1 = 137 "r1", L3 = 138 "l3", R3 = 139 "r3",
        Start = 140 "start", Select = 141 "select", Guide = 142 "guide",
        L2 = 143 "l2", R2 = 144 "r2", C = 145 "c", Z = 146 "z",
    }
);

numbered!(
    /// Axes of the sticks of a gamepad.
    Axis { LeftX = 128 "left_x", LeftY = 129 "left_y", RightX = 130 "right_x", RightY = 131 "right_y" }
);

impl Axis {
    /// Index of the horizontal axis of the same stick. The vertical axis has the next index.
    pub const fn stick(self) -> usize {
        self.index() & !1
    }
}

numbered!(
    /// The triggers of a gamepad.
    Side { Left = 132 "left", Right = 133 "right" }
);

numbered!(
    /// Transport messages, by their status byte.
    RealTime { Clock = 0xF8 "clock", Start = 0xFA "start", Continue = 0xFB "continue", Stop = 0xFC "stop" }
);
