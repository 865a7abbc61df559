//! `get_patch_lock_state`: reports whether a patch is locked against edits by a person.

use super::argument::OnePatch;
use super::prelude::*;
use conductor_hosts::patch::HostKind;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Whether the patch is locked.
    locked: bool,
    /// Whether the program was queried now.
    state_verified: bool,
    /// Whether the patch opens in presentation mode.
    presentation: bool,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_lock_state", patches, run).text(
        "Lock state",
        "Returns whether a patch is locked against edits by a person. Tools can still edit a locked patch. If state_verified is true, the \
         program was queried now; if it is false, `locked` is the state that was last set here. Presentation is a separate state.",
    )
}

fn run(asked: &Asked<OnePatch>) -> Result<PatchAnswer<Answer>, ToolError> {
    asked.look(&asked.args.patch_id, |scene| {
        // A document stores its lock state. For the hosts pd and max, query the program.
        let host = scene.open.host();
        let queried =
            if host.kind() == HostKind::Document { Some(scene.patch.locked()) } else { host.locked(scene.open.id())? };
        Ok(Answer {
            locked: queried.unwrap_or_else(|| scene.patch.locked()),
            state_verified: queried.is_some(),
            presentation: scene.view.opens_in_presentation(),
        })
    })
}
