//! `get_io_position`: returns where inlets and outlets are drawn.

use super::argument::Side;
use super::prelude::*;
use conductor_patch::layout;

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    varname: ObjectRef,
    side: Side,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name or key of the object.
    varname: String,
    /// The requested side.
    side: Side,
    /// Number of inlets or outlets.
    count: usize,
    /// One entry per inlet or outlet.
    positions: Vec<Nub>,
}

#[derive(Serialize, JsonSchema)]
struct Nub {
    /// Number of the inlet or outlet, counted from 0.
    index: usize,
    /// Distance from the left in pixels.
    x: f64,
    /// Distance from the top in pixels.
    y: f64,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_io_position", patches, run)
        .text("Nub positions", "Returns the positions at which the inlets or outlets of an object are drawn.")
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let Args { patch_id, varname, side } = &asked.args;
    asked.look(patch_id, |scene| {
        let object = scene.object(varname)?;
        let nubs = layout::nubs(&object, *side == Side::Outlet);
        let positions = nubs.iter().enumerate().map(|(index, it)| Nub { index, x: it.x, y: it.y }).collect();
        Ok(Answer { varname: object.label().to_owned(), side: *side, count: nubs.len(), positions })
    })
}
