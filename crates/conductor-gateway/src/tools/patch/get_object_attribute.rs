//! `get_object_attribute`: reads one attribute.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_attribute", patches, run)
        .text("Read an attribute", "Returns one attribute of an object, as the file or the running program has it.")
        .input(input(json!({ "patch_id*": "id", "varname*": "ref", "attribute*": "name" })))
        .output(body(json!({ "varname": "text", "attribute": "text", "value": { "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "array" }, { "type": "object" }] } })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let object = scene.object(arguments.word("varname"))?;
        let name = arguments.word("attribute");
        let value = object.attribute(name).ok_or_else(|| {
            ToolError::new(Code::NotFound, format!("{} has no value for attribute {name:?}", object.label())).hint(
                format!(
                    "The attribute is not set, and its default is unknown. describe_object with {:?} lists attributes.",
                    object.class()
                ),
            )
        })?;
        Ok(json!({ "varname": object.label(), "attribute": name, "value": answer::value(&value) }))
    })
}
