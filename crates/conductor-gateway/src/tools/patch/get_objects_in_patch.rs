//! `get_objects_in_patch`: the objects of a patch.

use super::answer::Detail;
use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_objects_in_patch", patches, run)
        .text(
            "List objects",
            "Lists the objects of a patch with the names that other tools accept. For a large patch, start with mode identity. Pass \
             next_offset as `offset` to get the next page.",
        )
        .input(input(json!({
            "patch_id*": "id", "mode": { "enum": ["full", "layout", "identity"], "default": "full" }, "offset": "offset", "limit": "limit",
        })))
        .output(body(json!({ "objects": [object()], "count": "int", "total": "int", "next_offset?": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let detail = match arguments.text("mode") {
            Some("layout") => Detail::Layout,
            Some("identity") => Detail::Identity,
            Some(_) | None => Detail::Full,
        };
        let all = scene.view.boxes().enumerate().map(|(index, it)| answer::box_of(scene, &it, index, detail));
        let (objects, next) = answer::page(all, arguments.count("offset", 0), arguments.count("limit", 2000));
        Ok(answer::object(json!({
            "count": objects.len(), "objects": objects, "total": scene.view.box_count(), "next_offset": next,
        })))
    })
}
