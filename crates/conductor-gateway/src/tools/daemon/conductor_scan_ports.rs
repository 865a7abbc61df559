//! `conductor_scan_ports`: scans for devices now, without waiting for the next scan.

use super::prelude::*;

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_scan_ports", Tier::Stateful, owner, |owner, _studio, clearance, _arguments| async move {
        unlocked(&owner, &clearance, "no scan is started").await?;
        to_output(&owner.scan_ports().await?)
    })
    .text(
        "Scan ports",
        "Scans for connected and disconnected devices now. Returns the names that were added and removed.",
    )
    .idempotent()
    .output(object(json!({ "message": text(), "added": list(text()), "removed": list(text()) })))
    .summary(|_| "scan for devices now".into())
}
