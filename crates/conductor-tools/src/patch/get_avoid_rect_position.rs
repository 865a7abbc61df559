//! `get_avoid_rect_position`: finds a free place for an object.

use super::prelude::*;
use conductor_patch::layout;

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// Width of the new object in pixels.
    #[serde(default = "width")]
    #[schemars(range(max = 100_000), extend("exclusiveMinimum" = 0))]
    width: f64,
    /// Height of the new object in pixels.
    #[serde(default = "height")]
    #[schemars(range(max = 100_000), extend("exclusiveMinimum" = 0))]
    height: f64,
    /// Wanted distance from the left in pixels.
    near_x: Option<f64>,
    /// Wanted distance from the top in pixels.
    near_y: Option<f64>,
}

fn width() -> f64 {
    50.0
}

fn height() -> f64 {
    20.0
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Left and top in pixels.
    position: [f64; 2],
    /// Width that was used.
    width: f64,
    /// Height that was used.
    height: f64,
    /// Reason for this position.
    rationale: String,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_avoid_rect_position", patches, run)
        .text("Free place", "Returns a position for a new object that does not overlap other objects.")
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let Args { width, height, near_x, near_y, .. } = asked.args;
    asked.look(&asked.args.patch_id, |scene| {
        let free = layout::free_place(&scene.view, width, height, near_x, near_y);
        Ok(Answer { position: [free.position.x, free.position.y], width, height, rationale: free.rationale })
    })
}
