//! `add_max_object`: adds an object.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("add_max_object", patches, run)
        .text(
            "Add an object",
            "Adds an object to a patch. An unknown class is refused with similar names, unless allow_unknown is true. Call \
             get_avoid_rect_position for a free place.",
        )
        .input(edit_input(json!({
            "patch_id*": "id", "obj_type*": { "type": "string", "minLength": 1, "maxLength": 256, "description": "Class, such as cycle~ or number" },
            "position*": "point", "varname": "name", "arguments": "atoms", "attributes": "attrs", "size": "point", "allow_unknown": "flag",
        })))
        .output(edit_body(json!({
            "obj_type": "text", "position": "point", "varname?": "text", "id": "text", "index": "int", "text": "text", "size": "point",
            "inlet_count?": "int", "outlet_count?": "int",
        })))
        .summary(|arguments| format!("add {} to {}", arguments["obj_type"], arguments["patch_id"]))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.edit(|it| it.add(), |scene, outcome| {
        let Outcome::Added { id, key, index, text, rect, ports } = outcome else { return None };
        let name = scene.view.get(*id).and_then(|it| it.varname().map(str::to_owned));
        Some(answer::object(json!({
            "obj_type": asked.arguments().word("obj_type"), "position": [rect.x, rect.y], "varname": name, "id": key, "index": index,
            "text": text, "size": [rect.w, rect.h], "inlet_count": ports.inlets, "outlet_count": ports.outlets,
        })))
    })
}
