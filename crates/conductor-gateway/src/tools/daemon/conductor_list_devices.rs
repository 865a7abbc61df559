//! `conductor_list_devices`: the ports that the last scan found.

use super::prelude::*;

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_list_devices", Tier::ReadOnly, owner, |owner, _studio, _clearance, _arguments| async move { to_output(&owner.devices().await?) })
    .text(
        "List devices",
        "Lists MIDI inputs and outputs, gamepads and OSC listeners by name, from the last scan. Each output name is a valid `port` for \
         conductor_send_midi.",
    )
    .output(object(json!({
        "midi_inputs": list(text()), "midi_outputs": list(text()), "gamepads": list(text()), "osc_listeners": list(text()),
        "backends": list(object(json!({ "name": text(), "state": text(), "reason": nullable(text()) }))),
    })))
}
