//! `get_object_hidden`: reports whether an object is hidden.

use super::argument::OneObject;
use super::prelude::*;
use super::set_object_hidden::Answer;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_object_hidden", patches, run)
        .text("Hidden", "Returns whether an object is hidden when the patch is locked.")
}

fn run(asked: &Asked<OneObject>) -> Result<PatchAnswer<Answer>, ToolError> {
    asked.look(&asked.args.patch_id, |scene| {
        let object = scene.object(&asked.args.varname)?;
        Ok(Answer { varname: object.label().to_owned(), hidden: object.hidden() })
    })
}
