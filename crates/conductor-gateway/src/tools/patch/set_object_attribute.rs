//! `set_object_attribute`: sets an attribute.

use super::prelude::*;
use conductor_patch::StoredIn;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("set_object_attribute", patches, run)
        .text(
            "Set an attribute",
            "Sets an attribute of an object. An attribute that its class does not have is refused, unless allow_unknown is true. Position and \
             size are patching_rect.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref", "attribute*": "name", "value*": "value", "allow_unknown": "flag" })))
        .output(edit_body(json!({ "varname": "text", "attribute": "text", "value": { "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "array" }, { "type": "object" }, { "type": "null" }] }, "old_value?": { "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "array" }, { "type": "object" }] }, "stored_in": { "enum": ["box", "text", "host"] } })))
        .idempotent()
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    asked.edit(
        |it| it.set_attribute(),
        |_, outcome| {
            let Outcome::AttributeSet { old, value, stored_in } = outcome else { return None };
            let stored = match stored_in {
                StoredIn::Box => "box",
                StoredIn::Text => "text",
            };
            let mut members = json!({
                "varname": arguments.word("varname"), "attribute": arguments.word("attribute"),
                "value": value.as_ref().map(answer::value), "stored_in": stored,
            });
            if let Some(old) = old {
                members["old_value"] = answer::value(old);
            }
            Some(members)
        },
    )
}
