//! `remove_max_object`: removes an object.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = gated("remove_max_object", patches, run)
        .text("Remove an object", "Removes an object and its cords. undo_patch restores both.")
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(edit_body(json!({ "varname": "text", "removed": { "id": "text", "text": "text", "maxclass": "text" }, "removed_patchlines": "int" })))
        .summary(|arguments| format!("remove {} from {}", arguments["varname"], arguments["patch_id"]));
    definition.destructive = Some(true);
    definition
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.edit(|it| Ok(it.remove()), |_, outcome| {
        let Outcome::Removed { key, label, text, maxclass, cords } = outcome else { return None };
        Some(json!({
            "varname": label, "removed": { "id": key, "text": text, "maxclass": maxclass }, "removed_patchlines": cords,
        }))
    })
}
