//! `live_fire_clip`: launches a clip in a running Live.

use super::prelude::*;
use super::{Launched, launch};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Session clip id.
    clip_id: Option<Id>,
    /// Slot id.
    slot_id: Option<Id>,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_fire_clip", Tier::Stateful, run).text(
        "Fire clip",
        "Launches a session clip in a running Live. Give exactly one of clipId and slotId. Not available for a document (a Set file).",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<Launched, ToolError> {
    let id = match (args.clip_id, args.slot_id) {
        (Some(id), None) | (None, Some(id)) => id.path()?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(
                ToolError::new(Code::BadInput, "give exactly one of clipId and slotId").hint("Pass clipId or slotId.")
            );
        }
    };
    launch(&set, id).await
}
