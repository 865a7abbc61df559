//! `get_parent_patcher`: the patcher around a subpatcher.

use super::schema::{body, input};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::Code;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_parent_patcher", patches, run)
        .text("Parent patcher", "The patcher around a subpatcher.")
        .input(input(json!({ "patch_id*": "id" })))
        .output(body(json!({ "parent_name": "text", "parent_id": "text", "has_parent": "bool" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| {
        let parent = scene.view.id().parent().ok_or_else(|| {
            ToolError::new(Code::NotFound, "No parent patcher (top-level patch)")
                .hint("This patch stands alone; get_subpatchers tells what is inside it.")
        })?;
        let view = scene.patch.document().view(&parent);
        let name = match &view {
            Some(view) if parent.depth() > 0 => view.name().or_else(|| view.key_path().pop()),
            Some(_) | None => Some(scene.root_name()),
        };
        let told = json!({ "parent_name": name.unwrap_or_default(), "parent_id": scene.id_of(&parent).unwrap_or_default(), "has_parent": true });
        Ok(Output::new(told::of(scene, told)))
    })
}
