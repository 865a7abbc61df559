//! `get_object_hidden`: whether an object is hidden.

use super::schema::{body, input};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_hidden", patches, run)
        .text("Hidden", "Whether an object is hidden when the patch is locked.")
        .input(input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(body(json!({ "varname": "text", "hidden": "bool" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| {
        let object = scene.object(asked.arguments().word("varname"))?;
        Ok(Output::new(told::of(scene, json!({ "varname": object.label(), "hidden": object.hidden() }))))
    })
}
