//! `conductor_scan_ports`: scans for devices now, without waiting for the next scan.

use super::prelude::*;
use conductor_gateway::report::Scanned;

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_scan_ports", Tier::Stateful, TOOLSET, owner, run)
        .text(
            "Scan ports",
            "Scans for connected and disconnected devices now. Returns the names that were added and removed.",
        )
        .idempotent()
        .summary(|_| "scan for devices now".into())
}

async fn run(owner: OwnerHandle, cx: Context, _args: NoArgs) -> Result<Scanned, ToolError> {
    unlocked(&owner, &cx.clearance, "no scan is started").await?;
    owner.scan_ports().await
}
