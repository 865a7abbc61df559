//! `close_patch`: closes a patch.

use super::schema::{input, plain};
use super::{Asked, change};
use crate::hosts::patch::Patches;
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = change("close_patch", patches, run)
        .text("Close", "Closes a patch. Unsaved edits are refused unless discard says to lose them.")
        .input(input(json!({ "patch_id*": "id", "discard": "flag" })))
        .output(plain(json!({ "patch_id": "text", "closed": "bool", "discarded_edits": "int" })))
        .summary(|arguments| format!("close the patch {}", arguments["patch_id"]));
    definition.destructive = Some(true);
    definition
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let (patch_id, lost) = asked.patches.close(asked.patch_id(), asked.arguments().flag("discard"))?;
    Ok(Output::new(json!({ "patch_id": patch_id, "closed": true, "discarded_edits": lost })))
}
