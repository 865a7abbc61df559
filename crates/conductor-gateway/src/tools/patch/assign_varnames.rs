//! `assign_varnames`: names objects by index.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("assign_varnames", patches, run)
        .text(
            "Name objects",
            "Names objects by their index. All items are checked before any object is named. Pass the revision of the object list as \
             expected_revision: indices are valid for one revision only.",
        )
        .input(edit_input(json!({
            "patch_id*": "id",
            "assignments*": { "type": "array", "minItems": 1, "maxItems": 2000, "items": {
                "type": "object",
                "properties": {
                    "index": { "type": "integer", "minimum": 0 },
                    "varname": { "type": "string", "minLength": 1, "maxLength": 256 },
                },
                "required": ["index", "varname"], "additionalProperties": false,
            } },
        })))
        .output(edit_body(json!({ "assigned": "int", "assignments": [{ "index": "int", "varname": "text", "maxclass": "text", "old_varname?": "text" }] })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let op = |arguments: Arguments<'_>| Ok(Op::AssignVarnames(wanted(arguments)));
    asked.edit(op, |_, outcome| {
        let Outcome::Named(named) = outcome else { return None };
        let rows = named.iter().map(|it| {
            answer::object(json!({
                "index": it.index, "varname": it.varname, "maxclass": it.maxclass, "old_varname": it.old_varname,
            }))
        });
        Some(json!({ "assigned": named.len(), "assignments": rows.collect::<Vec<_>>() }))
    })
}

fn wanted(arguments: Arguments<'_>) -> Vec<(usize, String)> {
    let row = |it| (Arguments(it).count("index", usize::MAX), Arguments(it).word("varname").to_owned());
    arguments.list("assignments").iter().map(row).collect()
}
