//! `get_patch_info`: returns the facts of a patch.

use super::answer::Info;
use super::argument::OnePatch;
use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_info", patches, run).text(
        "Patch info",
        "Returns facts about a patch: its file, format, sizes, revision, and what its host can do with it.",
    )
}

fn run(asked: &Asked<OnePatch>) -> Result<PatchAnswer<Info>, ToolError> {
    asked.look(&asked.args.patch_id, |scene| Ok(Info::new(scene)))
}
