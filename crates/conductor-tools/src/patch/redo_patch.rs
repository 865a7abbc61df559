//! `redo_patch`: redoes steps.

use super::prelude::*;
use super::undo_patch::{Depths, Steps, travel};

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Labels of the redone steps.
    redone: Vec<String>,
    #[serde(flatten)]
    depths: Depths,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("redo_patch", patches, run).text("Redo", "Redoes steps that were undone.")
}

fn run(asked: &Asked<Steps>) -> Result<EditAnswer<Answer>, ToolError> {
    travel(asked, false, |redone, depths| Answer { redone, depths })
}
