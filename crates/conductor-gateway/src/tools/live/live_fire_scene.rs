//! `live_fire_scene`: launches a scene in a running Live.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_fire_scene", Tier::Stateful, |mut ask, set| async move {
        let id = ask.id("sceneId")?;
        set.needs(Op::Launch).map_err(refused)?;
        let state = set.host.launch(id).await.map_err(refused)?;
        Ok(Output::new(json!({ "id": id, "state": state })))
    })
    .text("Fire scene", "Launches a scene in a running Live. Not available for a closed file.")
    .input(schema::look(json!({ "sceneId": schema::id("Scene id from live_list_scenes, such as scene:0") })))
    .output(object(json!({ "id": text(), "state": text() })))
}
