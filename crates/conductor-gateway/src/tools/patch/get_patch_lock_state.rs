//! `get_patch_lock_state`: whether a patch is locked for editing by hand.

use super::prelude::*;
use conductor_hosts::patch::HostKind;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_lock_state", patches, run)
        .text(
            "Lock state",
            "Returns whether a patch is locked for editing by a person. Tools can still edit a locked patch. If state_verified is true, the \
             program was queried now; if it is false, `locked` is the state that was last set here. Presentation is a separate state.",
        )
        .input(input(json!({ "patch_id*": "id" })))
        .output(body(json!({ "locked": "bool", "state_verified": "bool", "presentation": "bool" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        // Query a running program; a document stores its own state.
        let host = scene.open.host();
        let asked = if host.kind() == HostKind::Document { Some(scene.patch.locked()) } else { host.locked(scene.open.id())? };
        Ok(json!({
            "locked": asked.unwrap_or_else(|| scene.patch.locked()), "state_verified": asked.is_some(), "presentation": scene.view.opens_in_presentation(),
        }))
    })
}
