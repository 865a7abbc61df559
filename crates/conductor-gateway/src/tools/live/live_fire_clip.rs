//! `live_fire_clip`: launches a clip in a running Live.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_fire_clip", Tier::Stateful, |mut ask, set| async move {
        let given = (ask.arguments.contains_key("clipId"), ask.arguments.contains_key("slotId"));
        let id = match given {
            (true, false) => ask.id("clipId")?,
            (false, true) => ask.id("slotId")?,
            (true, true) | (false, false) => return Err(ToolError::new(Code::BadInput, "give exactly one of clipId and slotId").hint("Pass clipId or slotId.")),
        };
        set.needs(Op::Launch).map_err(refused)?;
        let state = set.host.launch(id).await.map_err(refused)?;
        Ok(Output::new(json!({ "id": id, "state": state })))
    })
    .text(
        "Fire clip",
        "Launches a session clip in a running Live. Give exactly one of clipId and slotId. Not available for a closed file.",
    )
    .input(schema::look(json!({ "clipId?": schema::id("Session clip id"), "slotId?": schema::id("Slot id") })))
    .output(object(json!({ "id": text(), "state": text() })))
}
