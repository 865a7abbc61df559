//! `redraw_object`: redraws an object.

use super::prelude::*;
use super::single;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("redraw_object", patches, run)
        .text(
            "Redraw",
            "Redraws an object in a running program. A document has nothing to redraw; `effect` is then none_document.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(edit_body(json!({ "varname": "text", "effect": { "enum": ["host_redraw", "none_document"] } })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let (patches, ask) = (&asked.patches, asked.ask());
    let done = patches.edit(
        &ask,
        |_| Ok(Vec::new()),
        |scene, _| {
            let object = scene.object(asked.arguments().word("varname"))?;
            let drawn = scene.open.host().redraw(scene.open.id(), &object)?;
            Ok(json!({ "varname": object.label(), "effect": if drawn { "host_redraw" } else { "none_document" } }))
        },
    );
    done.map(answer::edited).map_err(single)
}
