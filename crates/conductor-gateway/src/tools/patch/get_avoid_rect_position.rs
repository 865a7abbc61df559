//! `get_avoid_rect_position`: a free place for an object.

use super::prelude::*;
use conductor_patch::layout;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_avoid_rect_position", patches, run)
        .text("Free place", "Returns a position for a new object that does not overlap other objects.")
        .input(input(json!({
            "patch_id*": "id", "width": { "type": "number", "exclusiveMinimum": 0, "maximum": 100000, "default": 50 },
            "height": { "type": "number", "exclusiveMinimum": 0, "maximum": 100000, "default": 20 }, "near_x": "num", "near_y": "num",
        })))
        .output(body(json!({ "position": "point", "width": "num", "height": "num", "rationale": "text" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let (width, height) = (arguments.number("width").unwrap_or(50.0), arguments.number("height").unwrap_or(20.0));
        let free = layout::free_place(&scene.view, width, height, arguments.number("near_x"), arguments.number("near_y"));
        Ok(json!({
            "position": [free.position.x, free.position.y], "width": width, "height": height, "rationale": free.rationale,
        }))
    })
}
