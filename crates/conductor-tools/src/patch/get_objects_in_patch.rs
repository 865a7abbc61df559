//! `get_objects_in_patch`: lists the objects of a patch.

use super::answer::{Detail, Object};
use super::argument::Page;
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// Members of each object: all, only the layout, or only the identity.
    #[serde(default)]
    mode: Detail,
    #[serde(flatten)]
    page: Page,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Number of objects in this page.
    count: usize,
    /// The objects.
    objects: Vec<Object>,
    /// Number of objects in the patch.
    total: usize,
    /// Offset of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_objects_in_patch", patches, run).text(
        "List objects",
        "Lists the objects of a patch with the names that other tools accept. For a large patch, start with mode identity. Pass \
         next_offset as `offset` to get the next page.",
    )
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let Args { patch_id, mode, page } = &asked.args;
    asked.look(patch_id, |scene| {
        let all = scene.view.boxes().enumerate().map(|(index, it)| Object::new(scene, &it, index, *mode));
        let (objects, next_offset) = answer::page(all, page.offset, page.limit);
        Ok(Answer { count: objects.len(), objects, total: scene.view.box_count(), next_offset })
    })
}
