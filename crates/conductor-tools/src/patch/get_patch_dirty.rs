//! `get_patch_dirty`: reports whether there are unsaved changes.

use super::argument::OnePatch;
use super::prelude::*;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Whether there are unsaved changes.
    dirty: bool,
    /// Revision that was opened or saved last.
    saved_revision: u64,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_dirty", patches, run)
        .text("Unsaved changes", "Returns whether a patch has changed since it was opened or last saved.")
}

fn run(asked: &Asked<OnePatch>) -> Result<PatchAnswer<Answer>, ToolError> {
    asked.look(&asked.args.patch_id, |scene| {
        Ok(Answer { dirty: scene.dirty(), saved_revision: scene.patch.saved_revision() })
    })
}
