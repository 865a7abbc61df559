//! `align_objects`: proposes positions that align objects.

use super::prelude::*;
use conductor_patch::layout::{self, Align};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("align_objects", patches, run)
        .text(
            "Align objects",
            "Proposes positions that align objects or distribute them evenly. Moves nothing: pass the result to edit_patch as move items.",
        )
        .input(input(json!({
            "patch_id*": "id", "varnames*": "refs",
            "mode*": { "enum": ["align_left", "align_right", "align_top", "align_bottom", "align_hcenter", "align_vcenter", "distribute_h",
                "distribute_v"] },
        })))
        .output(body(json!({ "mode": "text", "moves": [{ "varname": "text", "recommended_patching_rect": "rect" }], "rationale": "text" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let chosen = arguments.objects("varnames", scene)?;
        let mode = arguments.word("mode");
        let how = match mode {
            "align_left" => Align::Left,
            "align_right" => Align::Right,
            "align_top" => Align::Top,
            "align_bottom" => Align::Bottom,
            "align_hcenter" => Align::HCenter,
            "align_vcenter" => Align::VCenter,
            "distribute_h" => Align::DistributeH,
            _ => Align::DistributeV,
        };
        let (moves, rationale) = layout::align(&scene.view, &chosen, how)
            .map_err(|fault| bad("varnames", fault.to_string()).hint("Name at least that many different objects."))?;
        let label = |id| scene.view.get(id).map(|it| it.label().to_owned()).unwrap_or_default();
        let moves: Vec<_> = moves
            .iter()
            .map(|it| json!({ "varname": label(it.object), "recommended_patching_rect": it.rect.array() }))
            .collect();
        Ok(json!({ "mode": mode, "moves": moves, "rationale": rationale }))
    })
}
