//! `replace_object_text`: changes the text of an object and keeps its cords.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("replace_object_text", patches, run)
        .text(
            "Replace the text",
            "Changes the text of an object: class and arguments, or the content of a message or comment. Cords stay if their ports still \
             exist; the others are listed in `dropped`.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "varname*": "ref", "new_text*": "long", "allow_unknown": "flag" })))
        .output(edit_body(json!({
            "varname": "text", "old_text": "text", "new_text": "text", "reconnected": "int",
            "dropped": [{ "src_varname": "text", "outlet": "int", "dst_varname": "text", "inlet": "int", "reason": "text" }],
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    asked.edit(|it| Ok(it.set_text()), |_, outcome| {
        let Outcome::TextSet { old_text, kept, dropped } = outcome else { return None };
        let dropped: Vec<_> = dropped
            .iter()
            .map(|it| {
                json!({ "src_varname": it.from, "outlet": it.outlet, "dst_varname": it.to, "inlet": it.inlet, "reason": it.reason })
            })
            .collect();
        Some(json!({
            "varname": arguments.word("varname"), "old_text": old_text, "new_text": arguments.word("new_text"), "reconnected": kept,
            "dropped": dropped,
        }))
    })
}
