//! `get_patch_info`: the facts of a patch.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_info", patches, run)
        .text(
            "Patch info",
            "Returns the facts of a patch: its file, format, sizes, revision, and what its host can do with it.",
        )
        .input(input(json!({ "patch_id*": "id" })))
        .output(body(info()))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| Ok(Output::new(answer::info(scene).into())))
}
