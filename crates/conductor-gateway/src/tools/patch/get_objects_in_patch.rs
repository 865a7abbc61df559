//! `get_objects_in_patch`: the objects of a patch.

use super::body::Detail;
use super::schema::{body, input, object};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_objects_in_patch", patches, run)
        .text("List objects", "Objects of a patch with the names other tools take. Start with mode identity on a large patch; next_offset goes on.")
        .input(input(json!({
            "patch_id*": "id", "mode": { "enum": ["full", "layout", "identity"], "default": "full" }, "offset": "offset", "limit": "limit",
        })))
        .output(body(json!({ "objects": [object()], "count": "int", "total": "int", "next_offset?": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| {
        let arguments = asked.arguments();
        let detail = match arguments.text("mode") {
            Some("layout") => Detail::Layout,
            Some("identity") => Detail::Identity,
            Some(_) | None => Detail::Full,
        };
        let all = scene.view.boxes().enumerate().map(|(index, it)| told::box_of(scene, &it, index, detail));
        let (objects, next) = told::page(all, arguments.count("offset", 0), arguments.count("limit", 2000));
        let told = told::object(json!({
            "count": objects.len(), "objects": objects, "total": scene.view.box_count(), "next_offset": next,
        }));
        Ok(Output::new(told::of(scene, told)))
    })
}
