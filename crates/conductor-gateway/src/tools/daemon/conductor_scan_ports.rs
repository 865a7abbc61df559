//! `conductor_scan_ports`: looks for devices now instead of at the next scan.

use super::{TOOLSET, give, list, object, text, unlocked};
use crate::owner_handle::OwnerHandle;
use crate::tools::catalog::Definition;
use conductor_core::policy::Tier;
use serde_json::json;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let owner = owner.clone();
    Definition::new("conductor_scan_ports", Tier::Stateful, TOOLSET, move |_studio, clearance, _arguments| {
        let owner = owner.clone();
        async move {
            unlocked(&owner, &clearance, "no scan is started").await?;
            give(&owner.scan_ports().await?)
        }
    })
    .text("Scan ports", "Looks for connected and disconnected devices now. Gives the names that came and went.")
    .idempotent()
    .output(object(json!({ "message": text(), "added": list(text()), "removed": list(text()) })))
    .summary(|_| "look for devices now".into())
}
