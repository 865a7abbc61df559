//! `conductor_scan_ports`: looks for devices now instead of at the next scan.

use super::prelude::*;

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_scan_ports", Tier::Stateful, owner, |owner, _studio, clearance, _arguments| async move {
        unlocked(&owner, &clearance, "no scan is started").await?;
        to_output(&owner.scan_ports().await?)
    })
    .text("Scan ports", "Looks for connected and disconnected devices now. Gives the names that came and went.")
    .idempotent()
    .output(object(json!({ "message": text(), "added": list(text()), "removed": list(text()) })))
    .summary(|_| "look for devices now".into())
}
