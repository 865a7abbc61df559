//! `get_object_value`: the value an object shows.

use super::schema::{body, input};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::Code;
use conductor_core::error::ToolError;
use conductor_hosts::patch::{HostKind, Patches};
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_value", patches, run)
        .text("Read a value", "The value an object shows: live from a running program, stored from a file.")
        .input(input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(body(json!({ "varname": "text", "value": { "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "array" }, { "type": "object" }] }, "basis": { "enum": ["live", "stored"] } })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.patches.look(asked.patch_id(), |scene| {
        let object = scene.object(asked.arguments().word("varname"))?;
        let value = scene.open.host().value(scene.open.id(), &object)?.ok_or_else(|| {
            ToolError::new(Code::Unsupported, format!("{} has no value to read here", object.label()))
                .hint("A document knows only values that its file stores; read an attribute, or the object's text.")
        })?;
        let basis = match scene.open.host().kind() {
            HostKind::Document => "stored",
            HostKind::Pd | HostKind::Max => "live",
        };
        let told = json!({ "varname": object.label(), "value": told::value(&value), "basis": basis });
        Ok(Output::new(told::of(scene, told)))
    })
}
