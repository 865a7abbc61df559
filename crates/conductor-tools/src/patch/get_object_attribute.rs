//! `get_object_attribute`: reads one attribute.

use super::answer::AttributeValue;
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    varname: ObjectRef,
    /// Name of the attribute.
    attribute: Name,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name or key of the object.
    varname: String,
    /// Name of the attribute.
    attribute: String,
    /// One value or a list.
    value: AttributeValue,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_attribute", patches, run)
        .text("Read an attribute", "Returns one attribute of an object, from the file or the running program.")
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let Args { patch_id, varname, attribute } = &asked.args;
    asked.look(patch_id, |scene| {
        let object = scene.object(varname)?;
        let value = object.attribute(attribute).ok_or_else(|| {
            let name = &**attribute;
            ToolError::new(Code::NotFound, format!("{} has no value for attribute {name:?}", object.label())).hint(
                format!(
                    "The attribute is not set, and its default is unknown. describe_object with {:?} lists attributes.",
                    object.class()
                ),
            )
        })?;
        Ok(Answer { varname: object.label().to_owned(), attribute: attribute.to_string(), value: (&value).into() })
    })
}
