//! The effects that the engine returns. They are small: trees, texts and messages are shared, not
//! copied.

use crate::action::{Action, Keystroke, MouseButton, Volume};
use crate::event::{Body, DeviceSlot, OscArg, OscMessage, Taint};
use crate::mapping::Target;
use std::sync::Arc;

/// One effect for the daemon to carry out.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the types of the fields explain them")]
pub enum Effect {
    /// A MIDI message for the output of a device. The message has taint and hops, because the port
    /// may lead back to an input of the engine.
    Midi { port: DeviceSlot, message: Body, taint: Taint, hops: u8 },
    /// An OSC message.
    Osc { host: Arc<str>, port: u16, message: Arc<OscMessage>, taint: Taint },
    /// A value for the OSC message of a continuous binding. [`Effect::rendered`] creates the
    /// message, because that allocates and the engine may run in a device callback.
    OscValue { target: Arc<Target>, value: f32, taint: Taint },
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
        /// Whether the binding sets `out`. If so, the value is in the target's units. Otherwise the
        /// value is 0 to 1.
        ranged: bool,
        taint: Taint,
    },
    /// A call for the pipeline: Shell, Launch, CallTool or Plugin. The pipeline answers with
    /// `Engine::call_done`.
    Call(MappingCall),
}

impl Effect {
    /// Converts [`Effect::OscValue`] to [`Effect::Osc`]; returns any other effect unchanged.
    #[must_use]
    pub fn rendered(self) -> Self {
        if let Effect::OscValue { target, value, taint } = &self
            && let Target::OscFloat { host, port, address, prefix_args } = &**target
        {
            let args = prefix_args.iter().cloned().chain([OscArg::Float(*value)]).collect();
            let message = Arc::new(OscMessage { address: address.clone(), args });
            return Effect::Osc { host: host.as_str().into(), port: *port, message, taint: *taint };
        }
        self
    }
}

/// How keys are pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// The keys are pressed and released.
    Tap,
    /// The keys are pressed and held.
    Down,
    /// The keys are released.
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
    /// The taint of the event that fired the call.
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
    /// The value of the control, scaled to 0..=1.
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
