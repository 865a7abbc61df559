//! `live_list_sets`: the open Sets, and the hosts that can be reached. The resource
//! `ableton://sets` mirrors it.

use super::TOOLSET;
use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    let live = Arc::clone(live);
    Definition::new("live_list_sets", Tier::ReadOnly, TOOLSET, move |_studio, _clearance, _arguments| {
        let live = Arc::clone(&live);
        async move {
            let sets: Vec<Value> = live
                .sets()
                .iter()
                .map(|set| {
                    let state = set.host.state();
                    json!({
                        "setId": set.id, "path": state.path, "host": state.host, "dirty": state.dirty, "revision": state.revision,
                    })
                })
                .collect();
            let hosts: Vec<Value> = live
                .hosts()
                .await
                .into_iter()
                .map(|(name, state, reason)| json!({ "name": name, "state": state, "reason": reason }))
                .collect();
            Ok(Output::new(json!({ "sets": sets, "hosts": hosts })))
        }
    })
    .text(
        "List Sets",
        "Lists the open Live Sets with their setId, file, revision and whether they have unsaved edits, and the hosts that can be reached.",
    )
    .input(object(json!({})))
    .output(object(json!({
        "sets": list(object(json!({
            "setId": text(), "path": nullable(text()), "host": text(), "dirty": boolean(), "revision": text(),
        }))),
        "hosts": list(object(json!({ "name": text(), "state": text(), "reason": nullable(text()) }))),
    })))
}
