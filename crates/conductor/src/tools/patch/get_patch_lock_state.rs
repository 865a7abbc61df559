//! `get_patch_lock_state`: whether a patch is locked for hands.

use super::schema::{body, input};
use super::{Asked, body as told, read};
use crate::hosts::patch::Patches;
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_lock_state", patches, run)
        .text("Lock state", "Whether a patch is locked for hands. A locked patch can still be edited by tools. Presentation is another thing and told apart.")
        .input(input(json!({ "patch_id*": "id" })))
        .output(body(json!({ "locked": "bool", "state_verified": "bool", "presentation": "bool" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| {
        let told = json!({
            "locked": scene.patch.locked(), "state_verified": true, "presentation": scene.view.opens_in_presentation(),
        });
        Ok(Output::new(told::of(scene, told)))
    })
}
