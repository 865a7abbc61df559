//! `redraw_object`: redraws an object.

use super::argument::Varname;
use super::prelude::*;
use super::single;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name or key of the object.
    varname: String,
    /// Whether a program redrew the object.
    effect: Redrawn,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Redrawn {
    HostRedraw,
    NoneDocument,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("redraw_object", patches, run)
        .text(
            "Redraw",
            "Redraws an object in a running program. A document has nothing to redraw; `effect` is then none_document.",
        )
        .idempotent()
}

fn run(asked: &Asked<OneEdit<Varname>>) -> Result<EditAnswer<Answer>, ToolError> {
    let OneEdit { patch, edit: Varname { varname } } = &asked.args;
    let done = asked.patches.edit(
        &asked.ask(patch, None),
        |_| Ok(Vec::new()),
        |scene, _| {
            let object = scene.object(varname)?;
            let drawn = scene.open.host().redraw(scene.open.id(), &object)?;
            let effect = if drawn { Redrawn::HostRedraw } else { Redrawn::NoneDocument };
            Ok(Answer { varname: object.label().to_owned(), effect })
        },
    );
    done.map(|done| EditAnswer::new(done, |it| it)).map_err(single)
}
