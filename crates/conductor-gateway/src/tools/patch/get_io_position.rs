//! `get_io_position`: where inlets and outlets are drawn.

use super::prelude::*;
use conductor_patch::layout;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_io_position", patches, run)
        .text("Nub positions", "Returns the positions at which the inlets or outlets of an object are drawn.")
        .input(input(json!({ "patch_id*": "id", "varname*": "ref", "side*": "side" })))
        .output(body(json!({ "varname": "text", "side": "text", "count": "int", "positions": [{ "index": "int", "x": "num", "y": "num" }] })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let object = scene.object(arguments.word("varname"))?;
        let side = arguments.word("side");
        let nubs = layout::nubs(&object, side == "outlet");
        let positions: Vec<_> =
            nubs.iter().enumerate().map(|(index, it)| json!({ "index": index, "x": it.x, "y": it.y })).collect();
        Ok(json!({ "varname": object.label(), "side": side, "count": positions.len(), "positions": positions }))
    })
}
