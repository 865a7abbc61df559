//! `conductor_list_device_bindings`: which alias has which port.

use super::{TOOLSET, boolean, give, integer, list, nullable, object, text};
use crate::owner_handle::OwnerHandle;
use crate::tools::catalog::Definition;
use conductor_core::policy::Tier;
use serde_json::json;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let owner = owner.clone();
    Definition::new("conductor_list_device_bindings", Tier::ReadOnly, TOOLSET, move |_studio, _clearance, _arguments| {
        let owner = owner.clone();
        async move { give(&owner.bindings().await?) }
    })
    .text(
        "List device bindings",
        "Each configured device (by its alias) and each port without one (raw:PORT): whether it is connected, whether it is muted, and \
         whether it is tainted: what arrives there is not taken for a hand and reaches no keys, programs or tools.",
    )
    .output(object(json!({
        "device_bindings": list(object(json!({
            "device_id": text(), "port_name": nullable(text()), "connected": boolean(), "enabled": boolean(), "is_configured": boolean(),
            "description?": text(), "tainted": boolean(),
        }))),
        "multi_device_active": boolean(), "total_devices": integer(), "connected_count": integer(), "muted_count": integer(),
    })))
}
