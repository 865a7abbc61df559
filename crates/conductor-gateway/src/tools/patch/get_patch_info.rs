//! `get_patch_info`: what a patch is.

use super::schema::{body, info, input};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patch_info", patches, run)
        .text("Patch info", "What a patch is: its file, format, sizes, revision, and what its host can do with it.")
        .input(input(json!({ "patch_id*": "id" })))
        .output(body(info()))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| Ok(Output::new(told::info(scene).into())))
}
