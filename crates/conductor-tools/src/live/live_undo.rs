//! `live_undo`: undoes edits.

use super::prelude::*;
use super::{StepResult, stepping};
use conductor_hosts::live::Way;

#[derive(Serialize, JsonSchema)]
struct Undone {
    /// Number of undone edits.
    undone: u32,
    #[serde(flatten)]
    rest: StepResult,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    stepping(live, "live_undo", Way::Undo, |undone, rest| Undone { undone, rest }).text(
        "Undo",
        "Undoes the last edits of the Set, including edits made by others. One step by default. `labels` names the undone edits.",
    )
}
