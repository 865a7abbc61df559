//! `conductor_stop_midi_learn`: what was played, and triggers that would fire on it.

use super::{TOOLSET, boolean, list, object};
use crate::owner_handle::OwnerHandle;
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::policy::Tier;
use serde_json::json;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let owner = owner.clone();
    Definition::new("conductor_stop_midi_learn", Tier::Stateful, TOOLSET, move |_studio, _clearance, _arguments| {
        let owner = owner.clone();
        async move { Ok(Output::new(owner.learn_stop().await?)) }
    })
    .text(
        "Stop MIDI learn",
        "Gives the events heard since conductor_start_midi_learn and triggers for them, the likeliest first. Each suggestion is valid as the \
         trigger of conductor_create_mapping; suggestion_info says how sure it is and what else to try. Channels are 0-15.",
    )
    .output(object(json!({
        "events": list(json!({ "type": "object" })),
        "suggestions": list(json!({ "type": "object" })),
        "suggestion_info": list(json!({ "type": "object" })),
        "expired": boolean(),
    })))
    .summary(|_| "stop listening".into())
}
