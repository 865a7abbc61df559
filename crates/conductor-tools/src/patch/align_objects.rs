//! `align_objects`: proposes positions that align objects.

use super::prelude::*;
use conductor_patch::layout::{self, Align};

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// The objects to align.
    #[schemars(length(min = 1, max = 2000))]
    varnames: Vec<ObjectRef>,
    /// The edge or centre to align, or the direction of the distribution.
    mode: Mode,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    AlignLeft,
    AlignRight,
    AlignTop,
    AlignBottom,
    AlignHcenter,
    AlignVcenter,
    DistributeH,
    DistributeV,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The requested mode.
    mode: Mode,
    /// Objects that would move.
    moves: Vec<Move>,
    /// Reason for these positions.
    rationale: String,
}

#[derive(Serialize, JsonSchema)]
struct Move {
    /// Name or key of the object.
    varname: String,
    /// Left, top, width and height in pixels.
    recommended_patching_rect: [f64; 4],
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("align_objects", patches, run).text(
        "Align objects",
        "Proposes positions that align objects or distribute them evenly. Moves nothing: pass the result to edit_patch as move items.",
    )
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let Args { patch_id, varnames, mode } = &asked.args;
    asked.look(patch_id, |scene| {
        let chosen = argument::objects(varnames, scene)?;
        let how = match mode {
            Mode::AlignLeft => Align::Left,
            Mode::AlignRight => Align::Right,
            Mode::AlignTop => Align::Top,
            Mode::AlignBottom => Align::Bottom,
            Mode::AlignHcenter => Align::HCenter,
            Mode::AlignVcenter => Align::VCenter,
            Mode::DistributeH => Align::DistributeH,
            Mode::DistributeV => Align::DistributeV,
        };
        let (moves, rationale) = layout::align(&scene.view, &chosen, how)
            .map_err(|fault| bad("varnames", fault.to_string()).hint("Name at least that many different objects."))?;
        let label = |id| scene.view.get(id).map(|it| it.label().to_owned()).unwrap_or_default();
        let moves =
            moves.iter().map(|it| Move { varname: label(it.object), recommended_patching_rect: it.rect.array() });
        Ok(Answer { mode: *mode, moves: moves.collect(), rationale })
    })
}
