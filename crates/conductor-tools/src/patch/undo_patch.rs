//! `undo_patch`: undoes steps.

use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
pub struct Steps {
    #[serde(flatten)]
    patch: EditedPatch,
    /// Number of steps.
    #[serde(default = "argument::count::<1>")]
    #[schemars(range(min = 1, max = 200))]
    steps: usize,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Labels of the undone steps.
    undone: Vec<String>,
    #[serde(flatten)]
    depths: Depths,
}

#[derive(Serialize, JsonSchema)]
pub struct Depths {
    /// Number of steps that can be undone now.
    undo_depth: usize,
    /// Number of steps that can be redone now.
    redo_depth: usize,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("undo_patch", patches, run).text(
        "Undo",
        "Undoes the newest steps. The bytes are then exactly those from before the steps. One tool call is one step.",
    )
}

fn run(asked: &Asked<Steps>) -> Result<EditAnswer<Answer>, ToolError> {
    travel(asked, true, |undone, depths| Answer { undone, depths })
}

/// Undoes or redoes steps.
pub(super) fn travel<T>(
    asked: &Asked<Steps>,
    back: bool,
    answer: impl FnOnce(Vec<String>, Depths) -> T,
) -> Result<EditAnswer<T>, ToolError> {
    let Steps { patch, steps } = &asked.args;
    let done = asked.patches.travel(&asked.ask(patch, None), *steps, back)?;
    Ok(EditAnswer::new(done, |(labels, undo_depth, redo_depth)| answer(labels, Depths { undo_depth, redo_depth })))
}
