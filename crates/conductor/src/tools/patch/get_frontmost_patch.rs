//! `get_frontmost_patch`: the patch used last.

use super::schema::{body, input};
use super::{Asked, body as told, read};
use crate::hosts::patch::Patches;
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::Code;
use conductor_core::error::ToolError;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_frontmost_patch", patches, run)
        .text("Frontmost patch", "The patch that was opened, made or edited last. Documents have no windows, so this is the best guess at what the person means.")
        .input(input(json!({})))
        .output(body(json!({ "display_name": "text", "patcher_name": "text", "group?": "text", "basis": { "enum": ["host_window", "last_used"] } })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let open = asked.patches.last_used().ok_or_else(|| {
        ToolError::new(Code::NotFound, "No active patches")
            .hint("Open one with open_patch or make one with create_patch.")
    })?;
    asked.patches.look(open.id(), |scene| {
        let name = scene.patcher_name();
        let told = told::object(json!({
            "display_name": told::display_name(&name), "patcher_name": name, "group": scene.open.group(), "basis": "last_used",
        }));
        Ok(Output::new(told::of(scene, told)))
    })
}
