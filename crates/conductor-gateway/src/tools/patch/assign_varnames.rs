//! `assign_varnames`: names objects by index.

use super::schema::{edit_body, edit_input};
use super::{Asked, arguments::Arguments, body as told, gated, single, unmade};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use conductor_patch::{Op, Outcome};
use serde_json::Value;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("assign_varnames", patches, run)
        .text("Name objects", "Names objects by their index; all are checked before any is named. Pass the revision of the list as expected_revision: indices hold for one revision.")
        .input(edit_input(json!({
            "patch_id*": "id",
            "assignments*": { "type": "array", "minItems": 1, "maxItems": 2000, "items": {
                "type": "object",
                "properties": {
                    "index": { "type": "integer", "minimum": 0 },
                    "varname": { "type": "string", "minLength": 1, "maxLength": 256 },
                },
                "required": ["index", "varname"], "additionalProperties": false,
            } },
        })))
        .output(edit_body(json!({ "assigned": "int", "assignments": [{ "index": "int", "varname": "text", "maxclass": "text", "old_varname?": "text" }] })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let done = asked.patches.edit(
        &asked.ask(),
        |_| Ok(vec![Op::AssignVarnames(wanted(asked))]),
        |_, applied| {
            let Some(Outcome::Named(named)) = applied.outcomes.first() else { return Err(unmade()) };
            let all: Vec<_> = named
            .iter()
            .map(|it| {
                told::object(json!({
                    "index": it.index, "varname": it.varname, "maxclass": it.maxclass, "old_varname": it.old_varname,
                }))
            })
            .collect();
            Ok(json!({ "assigned": all.len(), "assignments": all }))
        },
    );
    done.map(told::edited).map_err(single)
}

fn wanted(asked: &Asked) -> Vec<(usize, String)> {
    let rows = asked.arguments().get("assignments").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let row = |it| (Arguments(it).count("index", usize::MAX), Arguments(it).word("varname").to_owned());
    rows.iter().map(row).collect()
}
