//! WinMM cannot create ports that other programs see. A person creates them with a driver such as
//! loopMIDI, and Conductor opens them like the ports of a device.

use super::{PortError, Receiver};
use midir::{MidiInput, MidiInputConnection, MidiOutput, MidiOutputConnection};

pub const NAME: &str = "winmm";

fn refused(name: &str) -> PortError {
    PortError::refused(name, "Windows has no virtual ports; create one with loopMIDI, and name it in `port`")
}

pub fn create_input(_: MidiInput, name: &str, _: Receiver) -> Result<MidiInputConnection<Receiver>, PortError> {
    Err(refused(name))
}

pub fn create_output(_: MidiOutput, name: &str) -> Result<MidiOutputConnection, PortError> {
    Err(refused(name))
}
