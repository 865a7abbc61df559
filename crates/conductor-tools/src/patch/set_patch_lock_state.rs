//! `set_patch_lock_state`: locks a patch for editing by hand, or unlocks it.

use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    patch: EditedPatch,
    /// Whether to lock the patch.
    locked: bool,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Whether the patch is locked.
    locked: bool,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("set_patch_lock_state", patches, run)
        .text(
            "Set lock state",
            "Locks a patch against edits by a person, or unlocks it. Creates no revision and no undo step. For a document, the state is only \
             kept in memory.",
        )
        .idempotent()
}

fn run(asked: &Asked<Args>) -> Result<EditAnswer<Answer>, ToolError> {
    let Args { patch, locked } = &asked.args;
    let done = asked.patches.set_locked(&patch.patch_id, *locked, patch.expected_revision())?;
    Ok(EditAnswer::new(done, |()| Answer { locked: *locked }))
}
