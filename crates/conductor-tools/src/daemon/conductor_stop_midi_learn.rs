//! `conductor_stop_midi_learn`: returns the events that were played, and triggers that these events
//! would fire.

use super::prelude::*;
use conductor_core::learn::Report;

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_stop_midi_learn", Tier::Stateful, TOOLSET, owner, run)
        .text(
            "Stop MIDI learn",
            "Returns the events since conductor_start_midi_learn and triggers for them, the most likely first. Each suggestion is valid as the \
             trigger of conductor_create_mapping; suggestion_info reports the confidence and alternatives. Channels are 0-15.",
        )
        .summary(|_| "stop MIDI learn".into())
}

async fn run(owner: OwnerHandle, _cx: Context, _args: NoArgs) -> Result<Report, ToolError> {
    owner.learn_stop().await
}
