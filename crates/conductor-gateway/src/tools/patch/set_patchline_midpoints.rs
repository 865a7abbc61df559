//! `set_patchline_midpoints`: adds corner points to a cord.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("set_patchline_midpoints", patches, run)
        .text("Fold a cord", "Adds corner points to a cord, or makes it straight with an empty list.")
        .input(cord(json!({ "midpoints*": "midpoints" })))
        .output(edit_body(json!({ "src_varname": "text", "outlet": "int", "dst_varname": "text", "inlet": "int", "num_midpoints": "int", "midpoints": ["xy"] })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.edit(
        |it| Ok(it.set_midpoints()),
        |_, outcome| {
            let Outcome::MidpointsSet(points) = outcome else { return None };
            let mut members = asked.arguments().cord();
            members["num_midpoints"] = json!(points.len());
            members["midpoints"] = points.iter().copied().map(answer::point).collect();
            Some(members)
        },
    )
}
