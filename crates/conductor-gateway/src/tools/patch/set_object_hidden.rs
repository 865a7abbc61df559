//! `set_object_hidden`: hides an object or shows it.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("set_object_hidden", patches, run)
        .text("Hide or show", "Hides an object when the patch is locked, or shows it.")
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref", "hidden*": "bool" })))
        .output(edit_body(json!({ "varname": "text", "hidden": "bool" })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.edit(
        |it| Ok(it.set_hidden()),
        |_, outcome| {
            let Outcome::HiddenSet(hidden) = outcome else { return None };
            Some(json!({ "varname": asked.arguments().word("varname"), "hidden": hidden }))
        },
    )
}
