//! `get_subpatchers`: the subpatchers of a patch.

use super::prelude::*;
use conductor_patch::{Format, Subpatcher};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_subpatchers", patches, run)
        .text(
            "Subpatchers",
            "Lists the subpatchers, bpatchers and abstractions inside a patch. Embedded ones have a patch_id and can be edited like a patch.",
        )
        .input(input(json!({ "patch_id*": "id", "recursive": "flag" })))
        .output(body(json!({
            "subpatchers": [{ "type": "text", "varname?": "text", "name?": "text", "patch_id?": "text", "id": "text", "embedded": "bool",
                "file_path?": "text", "depth": "int" }],
            "count": "int",
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let outer = scene.view.id().depth();
        let one = |it: &Subpatcher| {
            let file = it.name.as_deref().filter(|_| it.canvas.is_none()).and_then(|name| {
                let plain = Format::of_name(name).is_none();
                let file = if plain {
                    format!("{name}.{}", scene.patch.document().format().extension())
                } else {
                    name.to_owned()
                };
                asked.patches.folders().find_near(scene.place(), &file)
            });
            answer::object(json!({
                "type": it.kind, "varname": it.varname, "name": it.name, "id": it.key, "embedded": it.canvas.is_some(),
                "patch_id": it.canvas.as_ref().and_then(|canvas| scene.id_of(canvas)),
                "file_path": file.map(|(place, _)| place.path().display().to_string()),
                "depth": it.within.depth() - outer + 1,
            }))
        };
        let found: Vec<_> = scene.view.subpatchers(asked.arguments().flag("recursive")).iter().map(one).collect();
        Ok(json!({ "count": found.len(), "subpatchers": found }))
    })
}
