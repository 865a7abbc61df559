//! `conductor_stop_midi_learn`: the played events, and triggers that would fire on them.

use super::prelude::*;

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_stop_midi_learn", Tier::Stateful, owner, |owner, _studio, _clearance, _arguments| async move { Ok(Output::new(owner.learn_stop().await?)) })
    .text(
        "Stop MIDI learn",
        "Returns the events since conductor_start_midi_learn and triggers for them, the most likely first. Each suggestion is valid as the \
         trigger of conductor_create_mapping; suggestion_info reports the confidence and alternatives. Channels are 0-15.",
    )
    .output(object(json!({
        "events": list(json!({ "type": "object" })),
        "suggestions": list(json!({ "type": "object" })),
        "suggestion_info": list(json!({ "type": "object" })),
        "expired": boolean(),
    })))
    .summary(|_| "stop MIDI learn".into())
}
