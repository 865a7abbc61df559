//! `live_list_devices`: lists the device chain and mixer of a track, with every parameter.

use super::prelude::*;
use conductor_set::Devices;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// track:N, returntrack:N or main.
    track_id: Id,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_list_devices", Tier::ReadOnly, run).text(
        "List devices",
        "Lists the devices and the mixer of a track, a return track or the main track; each parameter has its id, range, value and \
         display text. Use a parameter id with live_set_param. At most 400 parameters in total. In a document, ranges are those \
         stored for mapped controllers.",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<Devices, ToolError> {
    set.host.devices(args.track_id.path()?).await.map_err(refused)
}
