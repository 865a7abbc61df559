//! `set_object_attribute`: sets an attribute.

use super::argument::AttributeValue;
use super::prelude::*;
use conductor_patch::StoredIn;

#[derive(Deserialize, JsonSchema)]
pub struct NewValue {
    varname: ObjectRef,
    /// Name of the attribute.
    attribute: Name,
    value: AttributeValue,
    /// Whether to accept an unknown attribute.
    #[serde(default)]
    allow_unknown: bool,
}

impl NewValue {
    pub fn op(&self) -> Op {
        Op::SetAttribute {
            target: self.varname.target(),
            name: self.attribute.to_string(),
            value: (&self.value).into(),
            allow_unknown: self.allow_unknown,
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The object, as in the arguments.
    varname: String,
    /// Name of the attribute.
    attribute: String,
    /// Value after the change, read back.
    value: Option<answer::AttributeValue>,
    /// Value before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_value: Option<answer::AttributeValue>,
    /// Where the value is stored.
    #[schemars(extend("enum" = ["box", "text", "host"]))]
    stored_in: &'static str,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("set_object_attribute", patches, run)
        .text(
            "Set an attribute",
            "Sets an attribute of an object. An attribute that its class does not have is refused, unless allow_unknown is true. patching_rect \
             sets position and size.",
        )
        .idempotent()
}

fn run(asked: &Asked<OneEdit<NewValue>>) -> Result<EditAnswer<Answer>, ToolError> {
    let OneEdit { patch, edit: set } = &asked.args;
    asked.edit(patch, set.op(), |_, outcome| {
        let Outcome::AttributeSet { old, value, stored_in } = outcome else { return None };
        Some(Answer {
            varname: set.varname.to_string(),
            attribute: set.attribute.to_string(),
            value: value.as_ref().map(Into::into),
            old_value: old.as_ref().map(Into::into),
            stored_in: match stored_in {
                StoredIn::Box => "box",
                StoredIn::Text => "text",
            },
        })
    })
}
