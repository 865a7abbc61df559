//! What leaves the engine. Effects are small: trees, texts and messages are shared, never copied.

use crate::action::{Action, Keystroke, MouseButton, Volume};
use crate::event::{Body, DeviceSlot, OscMessage, Taint};
use crate::mapping::Target;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A MIDI message for the output of a device. Taint and hops go with it, in case the port leads
    /// back to us.
    Midi {
        port: DeviceSlot,
        message: Body,
        taint: Taint,
        hops: u8,
    },
    Osc {
        host: Arc<str>,
        port: u16,
        message: Arc<OscMessage>,
        taint: Taint,
    },
    Key {
        keys: Arc<Keystroke>,
        stroke: Stroke,
    },
    Text(Arc<str>),
    Click {
        button: MouseButton,
        at: Option<(i32, i32)>,
    },
    Volume(Volume),
    /// A value for a Live parameter or a patch attribute.
    Parameter {
        target: Arc<Target>,
        value: f64,
        /// Whether `out` gave the range, so that the value is in the target's own units; else it is
        /// 0 to 1.
        ranged: bool,
        taint: Taint,
    },
    /// Shell, Launch, CallTool or Plugin, to go through the pipeline. Answered by
    /// `Engine::call_done`.
    Call(Box<MappingCall>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    Tap,
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallTicket(pub u64);

#[derive(Clone, Debug, PartialEq)]
pub struct MappingCall {
    pub ticket: CallTicket,
    pub mapping: MappingRef,
    pub action: Arc<Action>,
    pub values: Placeholders,
    pub taint: Taint,
}

/// A mapping by the names a person knows it by; `mode` is `*` for a global one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingRef {
    pub mode: Arc<str>,
    pub id: Arc<str>,
}

/// What `$velocity`, `$value`, `$unit`, `$note` and `$channel` stand for in the arguments of a
/// call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Placeholders {
    pub velocity: Option<u8>,
    pub value: Option<f64>,
    /// The value as 0..=1.
    pub unit: Option<f64>,
    pub note: Option<u8>,
    pub channel: Option<u8>,
}

impl Placeholders {
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
