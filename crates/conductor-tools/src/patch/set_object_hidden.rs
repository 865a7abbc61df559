//! `set_object_hidden`: hides or shows an object.

use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
pub struct Visibility {
    varname: ObjectRef,
    /// Whether to hide the object when the patch is locked.
    hidden: bool,
}

impl Visibility {
    pub fn op(&self) -> Op {
        Op::SetHidden { target: self.varname.target(), hidden: self.hidden }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Answer {
    /// Name or key of the object, or the object as in the arguments.
    pub varname: String,
    /// Whether the object is hidden when the patch is locked.
    pub hidden: bool,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("set_object_hidden", patches, run)
        .text("Hide or show", "Hides an object when the patch is locked, or shows it.")
        .idempotent()
}

fn run(asked: &Asked<OneEdit<Visibility>>) -> Result<EditAnswer<Answer>, ToolError> {
    let OneEdit { patch, edit: set } = &asked.args;
    asked.edit(patch, set.op(), |_, outcome| {
        let Outcome::HiddenSet(hidden) = outcome else { return None };
        Some(Answer { varname: set.varname.to_string(), hidden: *hidden })
    })
}
