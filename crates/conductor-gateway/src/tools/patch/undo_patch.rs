//! `undo_patch`: undoes steps.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("undo_patch", patches, run)
        .text(
            "Undo",
            "Undoes the newest steps. The bytes are then exactly those from before the steps. One tool call is one step.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "steps": "steps" })))
        .output(edit_body(json!({ "undone": ["text"], "undo_depth": "int", "redo_depth": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.step_through_history(true, "undone")
}
