//! `set_object_attribute`: sets an attribute.

use super::schema::{edit_body, edit_input};
use super::{Asked, body as told, gated, single, unmade};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use conductor_patch::{Outcome, StoredIn};
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("set_object_attribute", patches, run)
        .text("Set an attribute", "Sets an attribute of an object; one that its class does not have is refused, unless allow_unknown. Position and size are patching_rect.")
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref", "attribute*": "name", "value*": "value", "allow_unknown": "flag" })))
        .output(edit_body(json!({ "varname": "text", "attribute": "text", "value": { "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "array" }, { "type": "object" }, { "type": "null" }] }, "old_value?": { "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "array" }, { "type": "object" }] }, "stored_in": { "enum": ["box", "text", "host"] } })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let done = asked.patches.edit(
        &asked.ask(),
        |_| Ok(vec![asked.arguments().set_attribute()?]),
        |_, applied| {
            let Some(Outcome::AttributeSet { old, value, stored_in }) = applied.outcomes.first() else {
                return Err(unmade());
            };
            let stored = match stored_in {
                StoredIn::Box => "box",
                StoredIn::Text => "text",
            };
            let mut told = json!({
                "varname": asked.arguments().word("varname"), "attribute": asked.arguments().word("attribute"),
                "value": value.as_ref().map(told::value), "stored_in": stored,
            });
            if let Some(old) = old {
                told["old_value"] = told::value(old);
            }
            Ok(told)
        },
    );
    done.map(told::edited).map_err(single)
}
