//! `undo_patch`: takes steps back.

use super::schema::{edit_body, edit_input};
use super::{Asked, body as told, gated};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::{Edited, Patches};
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("undo_patch", patches, run)
        .text(
            "Undo",
            "Takes the newest steps back, exactly: the bytes are those from before. One call of a tool is one step.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "steps": "steps" })))
        .output(edit_body(json!({ "undone": ["text"], "undo_depth": "int", "redo_depth": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let done = asked.patches.travel(&asked.ask(), asked.arguments().count("steps", 1), true)?;
    let (labels, undo, redo) = done.made;
    let made = json!({ "undone": labels, "undo_depth": undo, "redo_depth": redo });
    Ok(told::edited(Edited { patch_id: done.patch_id, revision: done.revision, warnings: done.warnings, made }))
}
