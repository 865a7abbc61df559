//! CoreMIDI can create ports that other programs see.

use super::{PortError, Receiver};
use midir::os::unix::{VirtualInput as _, VirtualOutput as _};
use midir::{MidiInput, MidiInputConnection, MidiOutput, MidiOutputConnection};

pub const NAME: &str = "coremidi";

pub fn create_input(
    client: MidiInput,
    name: &str,
    receiver: Receiver,
) -> Result<MidiInputConnection<Receiver>, PortError> {
    client.create_virtual(name, Receiver::receive, receiver).map_err(|error| PortError::refused(name, error))
}

pub fn create_output(client: MidiOutput, name: &str) -> Result<MidiOutputConnection, PortError> {
    client.create_virtual(name).map_err(|error| PortError::refused(name, error))
}
