//! `remove_max_object`: removes an object.

use super::schema::{edit_body, edit_input};
use super::{Asked, body as told, gated, single, unmade};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use conductor_patch::Outcome;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = gated("remove_max_object", patches, run)
        .text("Remove an object", "Removes an object and its cords. undo_patch brings both back.")
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(edit_body(json!({ "varname": "text", "removed": { "id": "text", "text": "text", "maxclass": "text" }, "removed_patchlines": "int" })))
        .summary(|arguments| format!("remove {} from {}", arguments["varname"], arguments["patch_id"]));
    definition.destructive = Some(true);
    definition
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let done = asked.patches.edit(&asked.ask(), |_| Ok(vec![asked.arguments().remove()]), |_, applied| {
        let Some(Outcome::Removed { key, label, text, maxclass, cords }) = applied.outcomes.first() else { return Err(unmade()) };
        Ok(json!({
            "varname": label, "removed": { "id": key, "text": text, "maxclass": maxclass }, "removed_patchlines": cords,
        }))
    });
    done.map(told::edited).map_err(single)
}
