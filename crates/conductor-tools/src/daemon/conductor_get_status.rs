//! `conductor_get_status`: the state of the daemon and its devices.

use super::prelude::*;
use conductor_gateway::catalog::Availability;
use conductor_gateway::plans::StatusAndPlans;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let mut definition = tool("conductor_get_status", Tier::ReadOnly, TOOLSET, owner, run).text(
        "Get status",
        "Returns the state of the daemon, the devices and the configuration: lifecycle, current mode, connected device, counters, \
         performance lock, start and end time of MIDI learn. Lists missing backends with the reason. Reports whether the newest configuration \
         is in force, which parts and how many plans wait for a person, and whether the audit log and its second copy are written.",
    );
    definition.availability = Availability::HumanDoor;
    definition
}

async fn run(owner: OwnerHandle, cx: Context, _args: NoArgs) -> Result<StatusAndPlans, ToolError> {
    Ok(plans::with_waiting(&cx.studio, owner.status().await?))
}
