//! `set_patchline_midpoints`: adds corner points to a cord.

use super::argument::{Cord, Xy};
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
pub struct Corners {
    #[serde(flatten)]
    cord: Cord,
    /// Corner points from start to end; none makes the cord straight.
    #[schemars(length(max = 256))]
    midpoints: Vec<Xy>,
}

impl Corners {
    pub fn op(&self) -> Op {
        let points = self.midpoints.iter().copied().map(Into::into).collect();
        Op::SetMidpoints { ends: self.cord.ends(), points }
    }
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    #[serde(flatten)]
    cord: answer::Cord,
    /// Number of corner points.
    num_midpoints: usize,
    /// Corner points from start to end, read back.
    midpoints: Vec<Xy>,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("set_patchline_midpoints", patches, run)
        .text("Fold a cord", "Adds corner points to a cord, or makes it straight with an empty list.")
        .idempotent()
}

fn run(asked: &Asked<OneEdit<Corners>>) -> Result<EditAnswer<Answer>, ToolError> {
    let OneEdit { patch, edit: set } = &asked.args;
    asked.edit(patch, set.op(), |_, outcome| {
        let Outcome::MidpointsSet(points) = outcome else { return None };
        let midpoints = points.iter().copied().map(Xy::from).collect();
        Some(Answer { cord: (&set.cord).into(), num_midpoints: points.len(), midpoints })
    })
}
