//! `conductor_list_devices`: the ports that the last scan found.

use super::prelude::*;
use conductor_gateway::report::Devices;

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_list_devices", Tier::ReadOnly, TOOLSET, owner, run).text(
        "List devices",
        "Lists MIDI inputs and outputs, gamepads and OSC listeners by name, from the last scan. Each output name is a valid `port` for \
         conductor_send_midi.",
    )
}

async fn run(owner: OwnerHandle, _cx: Context, _args: NoArgs) -> Result<Devices, ToolError> {
    owner.devices().await
}
