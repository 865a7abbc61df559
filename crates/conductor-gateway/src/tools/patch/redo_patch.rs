//! `redo_patch`: redoes steps.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("redo_patch", patches, run)
        .text("Redo", "Redoes steps that were undone.")
        .input(edit_input(json!({ "patch_id*": "id", "steps": "steps" })))
        .output(edit_body(json!({ "redone": ["text"], "undo_depth": "int", "redo_depth": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.step_through_history(false, "redone")
}
