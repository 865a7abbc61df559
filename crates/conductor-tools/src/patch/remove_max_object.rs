//! `remove_max_object`: removes an object.

use super::argument::Varname;
use super::prelude::*;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name or key of the object.
    varname: String,
    /// The removed object.
    removed: Removed,
    /// Number of cords that were removed with the object.
    removed_patchlines: usize,
}

#[derive(Serialize, JsonSchema)]
struct Removed {
    /// Key of the object.
    id: String,
    /// Text of the object.
    text: String,
    /// Kind of box.
    maxclass: String,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = gated("remove_max_object", patches, run)
        .text("Remove an object", "Removes an object and its cords. undo_patch restores both.")
        .summary(with_args(|it: &OneEdit<Varname>| {
            format!("remove {:?} from {:?}", &*it.edit.varname, &*it.patch.patch_id)
        }));
    definition.destructive = Some(true);
    definition
}

fn run(asked: &Asked<OneEdit<Varname>>) -> Result<EditAnswer<Answer>, ToolError> {
    let OneEdit { patch, edit: Varname { varname } } = &asked.args;
    asked.edit(patch, Op::Remove(varname.target()), |_, outcome| {
        let Outcome::Removed { key, label, text, maxclass, cords } = outcome else { return None };
        let removed = Removed { id: key.clone(), text: text.clone(), maxclass: maxclass.clone() };
        Some(Answer { varname: label.clone(), removed, removed_patchlines: *cords })
    })
}
