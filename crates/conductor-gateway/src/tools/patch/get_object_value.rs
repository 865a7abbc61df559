//! `get_object_value`: the value an object shows.

use super::prelude::*;
use conductor_hosts::patch::HostKind;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_value", patches, run)
        .text(
            "Read a value",
            "Returns the value that an object shows: the live value from a running program, or the stored value from a file.",
        )
        .input(input(json!({ "patch_id*": "id", "varname*": "ref" })))
        .output(body(json!({ "varname": "text", "value": { "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "array" }, { "type": "object" }] }, "basis": { "enum": ["live", "stored"] } })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let object = scene.object(asked.arguments().word("varname"))?;
        let value = scene.open.host().value(scene.open.id(), &object)?.ok_or_else(|| {
            ToolError::new(Code::Unsupported, format!("{} has no value to read here", object.label()))
                .hint("A document has only the values that are stored in its file; read an attribute or the object's text instead.")
        })?;
        let basis = match scene.open.host().kind() {
            HostKind::Document => "stored",
            HostKind::Pd | HostKind::Max => "live",
        };
        Ok(json!({ "varname": object.label(), "value": answer::value(&value), "basis": basis }))
    })
}
