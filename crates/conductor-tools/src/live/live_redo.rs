//! `live_redo`: redoes undone edits.

use super::prelude::*;
use super::{StepResult, stepping};
use conductor_hosts::live::Way;

#[derive(Serialize, JsonSchema)]
struct Redone {
    /// Number of redone edits.
    redone: u32,
    #[serde(flatten)]
    rest: StepResult,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    stepping(live, "live_redo", Way::Redo, |redone, rest| Redone { redone, rest })
        .text("Redo", "Redoes edits that live_undo has undone. After a new edit, nothing can be redone.")
}
