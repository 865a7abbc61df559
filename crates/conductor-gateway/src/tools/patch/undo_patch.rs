//! `undo_patch`: undoes steps.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("undo_patch", patches, run)
        .text(
            "Undo",
            "Takes the newest steps back, exactly: the bytes are those from before. One call of a tool is one step.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "steps": "steps" })))
        .output(edit_body(json!({ "undone": ["text"], "undo_depth": "int", "redo_depth": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.step_through_history(true, "undone")
}
