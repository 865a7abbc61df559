//! `live_fire_scene`: launches a scene in a running Live.

use super::prelude::*;
use super::{Launched, launch};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Scene id from live_list_scenes, such as scene:0.
    scene_id: Id,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_fire_scene", Tier::Stateful, run)
        .text("Fire scene", "Launches a scene in a running Live. Not available for a document (a Set file).")
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<Launched, ToolError> {
    launch(&set, args.scene_id.path()?).await
}
