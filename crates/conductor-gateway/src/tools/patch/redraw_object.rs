//! `redraw_object`: draws an object anew.

use super::schema::{edit_body, edit_input};
use super::{Asked, body as told, change, single};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("redraw_object", patches, run)
        .text(
            "Redraw",
            "Draws an object anew in a running program. A document has no picture to draw: effect tells so.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(edit_body(json!({ "varname": "text", "effect": { "enum": ["host_redraw", "none_document"] } })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let (patches, ask) = (&asked.patches, asked.ask());
    let done = patches.edit(
        &ask,
        |_| Ok(Vec::new()),
        |scene, _| {
            let object = scene.object(asked.arguments().word("varname"))?;
            let drawn = scene.open.host().redraw(scene.open.id(), &object)?;
            Ok(json!({ "varname": object.label(), "effect": if drawn { "host_redraw" } else { "none_document" } }))
        },
    );
    done.map(told::edited).map_err(single)
}
