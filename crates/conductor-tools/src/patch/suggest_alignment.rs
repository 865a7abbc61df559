//! `suggest_alignment`: proposes how to align two inlets or outlets.

use super::argument::Side;
use super::prelude::*;
use conductor_patch::layout::{self, Adjust};

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// The inlet or outlet that stays.
    anchor: Nub,
    /// The inlet or outlet of the object to move or resize.
    target: Nub,
    /// What to change in the target.
    adjust: Change,
}

#[derive(Deserialize, JsonSchema)]
struct Nub {
    varname: ObjectRef,
    side: Side,
    /// Number of the inlet or outlet, counted from 0.
    #[schemars(range(max = 4095))]
    index: u32,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Change {
    Width,
    Left,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The inlet or outlet that stays.
    anchor: Position,
    /// The inlet or outlet of the target before the change.
    target: Position,
    /// The requested change.
    adjust: Change,
    /// Left, top, width and height of the target in pixels.
    recommended_patching_rect: [f64; 4],
    /// Reason for this rectangle.
    rationale: String,
}

#[derive(Serialize, JsonSchema)]
struct Position {
    /// Name or key of the object.
    varname: String,
    side: Side,
    /// Number of the inlet or outlet, counted from 0.
    index: u32,
    /// Distance from the left in pixels.
    x: f64,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("suggest_alignment", patches, run).text(
        "Align two nubs",
        "Proposes the position or width of the target that places its inlet or outlet directly above or below that of the anchor. Moves \
         nothing; use edit_patch to move.",
    )
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let Args { patch_id, anchor, target, adjust } = &asked.args;
    asked.look(patch_id, |scene| {
        let (anchored, moved) = (scene.object(&anchor.varname)?, scene.object(&target.varname)?);
        let nub = |object, it: &Nub| layout::Nub { object, outlet: it.side == Side::Outlet, index: it.index };
        let how = match adjust {
            Change::Width => Adjust::Width,
            Change::Left => Adjust::Left,
        };
        let found = layout::suggest_alignment(&scene.view, nub(anchored.id(), anchor), nub(moved.id(), target), how)
            .map_err(|fault| {
                bad("target", fault.to_string())
                    .hint("get_io_position lists the inlets and outlets with their positions.")
            })?;
        let position =
            |label: &str, it: &Nub, x| Position { varname: label.to_owned(), side: it.side, index: it.index, x };
        Ok(Answer {
            anchor: position(anchored.label(), anchor, found.anchor_x),
            target: position(moved.label(), target, found.target_x),
            adjust: *adjust,
            recommended_patching_rect: found.proposal.rect.array(),
            rationale: found.rationale,
        })
    })
}
