//! `live_list_scenes`: scenes and locators.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_list_scenes", |_ask, set| async move {
        to_output(&set.host.scenes().await.map_err(refused)?)
    })
    .text(
        "List scenes",
        "Lists the scenes of the Set (name, own tempo and time signature if any, whether the row is empty) and the locators of the \
         arrangement by time.",
    )
    .input(schema::look(json!({})))
    .output(object(json!({
        "scenes": list(object(json!({
            "id": text(), "name": text(), "tempo": nullable(number()), "timeSignature": nullable(text()), "isEmpty": boolean(),
        }))),
        "cuePoints": list(object(json!({ "id": text(), "name": text(), "beat": number() }))),
    })))
}
