//! `conductor_list_device_bindings`: devices and their ports.

use super::prelude::*;

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_list_device_bindings", Tier::ReadOnly, owner, |owner, _studio, _clearance, _arguments| async move { to_output(&owner.bindings().await?) })
    .text(
        "List device bindings",
        "Lists each configured device (by alias) and each port without an alias (raw:PORT): whether it is connected, muted, or tainted. \
         Events of a tainted device do not count as played by a person and trigger no keys, programs or tools.",
    )
    .output(object(json!({
        "device_bindings": list(object(json!({
            "device_id": text(), "port_name": nullable(text()), "connected": boolean(), "enabled": boolean(), "is_configured": boolean(),
            "description?": text(), "tainted": boolean(),
        }))),
        "multi_device_active": boolean(), "total_devices": integer(), "connected_count": integer(), "muted_count": integer(),
    })))
}
