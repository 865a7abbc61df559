//! The effects that the engine returns. They are small: trees, texts and messages are shared, not
//! copied.

use crate::action::{Action, Keystroke, MouseButton, Volume};
use crate::event::{Body, DeviceSlot, OscMessage, Taint};
use crate::mapping::Target;
use std::sync::Arc;

/// One effect for the owner to carry out.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are named by their types")]
pub enum Effect {
    /// A MIDI message for the output of a device. It contains taint and hops because the port may
    /// lead back to us.
    Midi { port: DeviceSlot, message: Body, taint: Taint, hops: u8 },
    /// An OSC message.
    Osc { host: Arc<str>, port: u16, message: Arc<OscMessage>, taint: Taint },
    /// Keys to press or release.
    Key { keys: Arc<Keystroke>, stroke: Stroke },
    /// Text to type.
    Text(Arc<str>),
    /// A mouse click.
    Click { button: MouseButton, at: Option<(i32, i32)> },
    /// A change of the system volume.
    Volume(Volume),
    /// A value for a Live parameter or a patch attribute.
    Parameter {
        target: Arc<Target>,
        value: f64,
        /// True if the binding sets `out`; the value is then in the target's units. Otherwise it is
        /// 0 to 1.
        ranged: bool,
        taint: Taint,
    },
    /// Shell, Launch, CallTool or Plugin: a call for the pipeline, answered with
    /// `Engine::call_done`.
    Call(Box<MappingCall>),
}

/// How keys are pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// Press and release.
    Tap,
    /// Press and hold.
    Down,
    /// Release.
    Up,
}

/// Identifies a call until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallTicket(pub u64);

/// A call that a mapping fired.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingCall {
    /// The ticket for `Engine::call_done`.
    pub ticket: CallTicket,
    /// The mapping that fired.
    pub mapping: MappingRef,
    /// The action of the mapping.
    pub action: Arc<Action>,
    /// Values for placeholders in the arguments.
    pub values: Placeholders,
    /// The taint of the event that fired it.
    pub taint: Taint,
}

/// The mode and the id of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingRef {
    /// The mode, or `*` for a global mapping.
    pub mode: Arc<str>,
    /// The id of the mapping.
    pub id: Arc<str>,
}

/// The values of `$velocity`, `$value`, `$unit`, `$note` and `$channel` in the arguments of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Placeholders {
    /// The velocity of a press.
    pub velocity: Option<u8>,
    /// The value of the control.
    pub value: Option<f64>,
    /// The value as 0..=1.
    pub unit: Option<f64>,
    /// The note of a key.
    pub note: Option<u8>,
    /// The MIDI channel.
    pub channel: Option<u8>,
}

impl Placeholders {
    /// The value of a placeholder such as `$velocity`.
    pub fn get(&self, name: &str) -> Option<f64> {
        match name {
            "$velocity" => self.velocity.map(f64::from),
            "$value" => self.value,
            "$unit" => self.unit,
            "$note" => self.note.map(f64::from),
            "$channel" => self.channel.map(f64::from),
            _ => None,
        }
    }
}
