//! `set_patch_lock_state`: locks a patch for hands, or unlocks it.

use super::schema::{edit_body, edit_input};
use super::{Asked, body as told, change};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::{Edited, Patches};
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("set_patch_lock_state", patches, run)
        .text("Set lock state", "Locks a patch for hands or unlocks it. Makes no revision and no undo step; of a document it is kept in memory.")
        .input(edit_input(json!({ "patch_id*": "id", "locked*": "bool" })))
        .output(edit_body(json!({ "locked": "bool" })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let locked = arguments.flag("locked");
    let done = asked.patches.set_locked(asked.patch_id(), locked, arguments.expected_revision())?;
    let made = json!({ "locked": locked });
    Ok(told::edited(Edited { patch_id: done.patch_id, revision: done.revision, warnings: done.warnings, made }))
}
