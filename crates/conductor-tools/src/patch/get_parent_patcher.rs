//! `get_parent_patcher`: returns the patcher that contains a subpatcher.

use super::argument::OnePatch;
use super::prelude::*;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name of the parent.
    parent_name: String,
    /// Id of the parent.
    parent_id: String,
    /// Always true.
    has_parent: bool,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_parent_patcher", patches, run).text("Parent patcher", "Returns the patcher that contains a subpatcher.")
}

fn run(asked: &Asked<OnePatch>) -> Result<PatchAnswer<Answer>, ToolError> {
    asked.look(&asked.args.patch_id, |scene| {
        let parent = scene.view.id().parent().ok_or_else(|| {
            ToolError::new(Code::NotFound, "No parent patcher (top-level patch)")
                .hint("This patch has no parent; get_subpatchers lists its subpatchers.")
        })?;
        let view = scene.patch.document().view(&parent);
        let name = match &view {
            Some(view) if parent.depth() > 0 => view.name().or_else(|| view.key_path().pop()),
            Some(_) | None => Some(scene.root_name()),
        };
        Ok(Answer {
            parent_name: name.unwrap_or_default(),
            parent_id: scene.id_of(&parent).unwrap_or_default(),
            has_parent: true,
        })
    })
}
