//! `disconnect_max_objects`: removes a cord.

use super::schema::{cord, edit_body};
use super::{Asked, body as told, gated, single, unmade};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use conductor_patch::Outcome;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("disconnect_max_objects", patches, run)
        .text("Disconnect", "Removes a cord.")
        .input(cord(json!({})))
        .output(edit_body(json!({ "src_varname": "text", "outlet": "int", "dst_varname": "text", "inlet": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let done = asked.patches.edit(
        &asked.ask(),
        |_| Ok(vec![asked.arguments().disconnect()]),
        |_, applied| {
            let Some(Outcome::Disconnected) = applied.outcomes.first() else { return Err(unmade()) };
            Ok(json!({
                "src_varname": asked.arguments().word("src_varname"), "outlet": asked.arguments().port("outlet"),
                "dst_varname": asked.arguments().word("dst_varname"), "inlet": asked.arguments().port("inlet"),
            }))
        },
    );
    done.map(told::edited).map_err(single)
}
