//! `get_object_hidden`: whether an object is hidden.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_hidden", patches, run)
        .text("Hidden", "Returns whether an object is hidden when the patch is locked.")
        .input(input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(body(json!({ "varname": "text", "hidden": "bool" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let object = scene.object(asked.arguments().word("varname"))?;
        Ok(json!({ "varname": object.label(), "hidden": object.hidden() }))
    })
}
