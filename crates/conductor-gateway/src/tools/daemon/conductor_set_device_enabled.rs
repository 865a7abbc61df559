//! `conductor_set_device_enabled`: mutes or unmutes a device.

use super::prelude::*;

#[derive(Deserialize)]
struct Arguments {
    device_id: String,
    enabled: bool,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_set_device_enabled", Tier::Stateful, owner, |owner, _studio, clearance, arguments| async move {
        unlocked(&owner, &clearance, "no device is muted or unmuted").await?;
        let Arguments { device_id, enabled } = parse_arguments(arguments)?;
        to_output(&owner.set_device_enabled(device_id, enabled).await?)
    })
    .text(
        "Mute or unmute a device",
        "enabled = false mutes a device: its events fire nothing, and its held notes and keys are released. true unmutes it, even if the file \
         disables the device. The setting is lost when the daemon stops; the file is not changed.",
    )
    .idempotent()
    .input(object(json!({
        "device_id": { "type": "string", "minLength": 1, "maxLength": 256, "description": "As in conductor_list_device_bindings" },
        "enabled": { "type": "boolean", "description": "true to unmute, false to mute" },
    })))
    .output(object(json!({ "device_id": text(), "enabled": boolean(), "message": text() })))
    .summary(|arguments| format!("set device {} enabled = {}", arguments["device_id"], arguments["enabled"]))
}
