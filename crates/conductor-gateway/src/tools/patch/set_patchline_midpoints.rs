//! `set_patchline_midpoints`: folds a cord.

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
    gated("set_patchline_midpoints", patches, run)
        .text("Fold a cord", "Folds a cord at points, or straightens it with an empty list.")
        .input(cord(json!({ "midpoints*": "midpoints" })))
        .output(edit_body(json!({ "src_varname": "text", "outlet": "int", "dst_varname": "text", "inlet": "int", "num_midpoints": "int", "midpoints": ["xy"] })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let done = asked.patches.edit(
        &asked.ask(),
        |_| Ok(vec![asked.arguments().set_midpoints()]),
        |_, applied| {
            let Some(Outcome::MidpointsSet(points)) = applied.outcomes.first() else { return Err(unmade()) };
            let points: Vec<_> = points.iter().copied().map(told::point).collect();
            Ok(json!({
                "src_varname": asked.arguments().word("src_varname"), "outlet": asked.arguments().port("outlet"),
                "dst_varname": asked.arguments().word("dst_varname"), "inlet": asked.arguments().port("inlet"),
                "num_midpoints": points.len(), "midpoints": points,
            }))
        },
    );
    done.map(told::edited).map_err(single)
}
