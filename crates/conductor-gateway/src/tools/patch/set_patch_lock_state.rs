//! `set_patch_lock_state`: locks a patch for editing by hand, or unlocks it.

use super::prelude::*;
use conductor_hosts::patch::Edited;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("set_patch_lock_state", patches, run)
        .text(
            "Set lock state",
            "Locks a patch for editing by a person, or unlocks it. Creates no revision and no undo step. For a document, the state is only \
             kept in memory.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "locked*": "bool" })))
        .output(edit_body(json!({ "locked": "bool" })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let locked = arguments.flag("locked");
    let done = asked.patches.set_locked(asked.patch_id(), locked, arguments.expected_revision())?;
    let made = json!({ "locked": locked });
    Ok(answer::edited(Edited { patch_id: done.patch_id, revision: done.revision, warnings: done.warnings, made }))
}
