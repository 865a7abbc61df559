//! `suggest_alignment`: proposes how to align two inlets or outlets.

use super::prelude::*;
use conductor_patch::layout::{self, Adjust, Nub};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("suggest_alignment", patches, run)
        .text(
            "Align two nubs",
            "Proposes the position or width of the target that places its inlet or outlet directly above or below that of the anchor. Moves \
             nothing; use edit_patch to move.",
        )
        .input(input(json!({ "patch_id*": "id", "anchor*": "nub", "target*": "nub", "adjust*": { "enum": ["width", "left"] } })))
        .output(body(json!({
            "anchor": { "varname": "text", "side": "text", "index": "int", "x": "num" },
            "target": { "varname": "text", "side": "text", "index": "int", "x": "num" },
            "adjust": "text", "recommended_patching_rect": "rect", "rationale": "text",
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let nub = |name: &str| {
            let given = Arguments(arguments.get(name).unwrap_or(&Value::Null));
            let object = scene.object(given.word("varname"))?;
            let nub = Nub { object: object.id(), outlet: given.word("side") == "outlet", index: given.port("index") };
            Ok::<_, ToolError>((nub, object.label().to_owned(), given.word("side").to_owned()))
        };
        let (anchor, target) = (nub("anchor")?, nub("target")?);
        let adjust = if arguments.word("adjust") == "width" { Adjust::Width } else { Adjust::Left };
        let found = layout::suggest_alignment(&scene.view, anchor.0, target.0, adjust)
            .map_err(|fault| bad("target", fault.to_string()).hint("get_io_position lists the inlets and outlets with their positions."))?;
        let end = |(nub, label, side): (Nub, String, String), x: f64| {
            json!({ "varname": label, "side": side, "index": nub.index, "x": x })
        };
        Ok(json!({
            "anchor": end(anchor, found.anchor_x), "target": end(target, found.target_x), "adjust": arguments.word("adjust"),
            "recommended_patching_rect": found.proposal.rect.array(), "rationale": found.rationale,
        }))
    })
}
