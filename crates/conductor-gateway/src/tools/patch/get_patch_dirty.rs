//! `get_patch_dirty`: whether there are unsaved changes.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_dirty", patches, run)
        .text("Unsaved changes", "Returns whether a patch has changed since it was opened or last saved.")
        .input(input(json!({ "patch_id*": "id" })))
        .output(body(json!({ "dirty": "bool", "saved_revision": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| Ok(json!({ "dirty": scene.dirty(), "saved_revision": scene.patch.saved_revision() })))
}
