//! `set_object_hidden`: hides an object or shows it.

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
    gated("set_object_hidden", patches, run)
        .text("Hide or show", "Hides an object when the patch is locked, or shows it.")
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref", "hidden*": "bool" })))
        .output(edit_body(json!({ "varname": "text", "hidden": "bool" })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let done = asked.patches.edit(
        &asked.ask(),
        |_| Ok(vec![asked.arguments().set_hidden()]),
        |_, applied| {
            let Some(Outcome::HiddenSet(hidden)) = applied.outcomes.first() else { return Err(unmade()) };
            Ok(json!({ "varname": asked.arguments().word("varname"), "hidden": hidden }))
        },
    );
    done.map(told::edited).map_err(single)
}
