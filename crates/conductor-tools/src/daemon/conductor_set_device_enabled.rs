//! `conductor_set_device_enabled`: mutes or unmutes a device.

use super::prelude::*;
use conductor_gateway::report::DeviceSwitched;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// As in conductor_list_device_bindings
    #[schemars(length(min = 1, max = 256))]
    device_id: String,
    /// true to unmute, false to mute
    enabled: bool,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_set_device_enabled", Tier::Stateful, TOOLSET, owner, run)
        .text(
            "Mute or unmute a device",
            "enabled = false mutes a device: its events fire nothing, and its held notes and keys are released. true unmutes it, even if the \
             file disables the device. The setting is lost when the daemon stops; the file is not changed.",
        )
        .idempotent()
        .summary(with_args(|args: &Args| format!("set device {:?} enabled = {}", args.device_id, args.enabled)))
}

async fn run(owner: OwnerHandle, cx: Context, args: Args) -> Result<DeviceSwitched, ToolError> {
    unlocked(&owner, &cx.clearance, "no device is muted or unmuted").await?;
    owner.set_device_enabled(args.device_id, args.enabled).await
}
