//! `get_patch_dirty`: whether there are unsaved changes.

use super::schema::{body, input};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_dirty", patches, run)
        .text("Unsaved changes", "Whether a patch differs from what was opened or saved last.")
        .input(input(json!({ "patch_id*": "id" })))
        .output(body(json!({ "dirty": "bool", "saved_revision": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| {
        let told = json!({ "dirty": scene.dirty(), "saved_revision": scene.patch.saved_revision() });
        Ok(Output::new(told::of(scene, told)))
    })
}
