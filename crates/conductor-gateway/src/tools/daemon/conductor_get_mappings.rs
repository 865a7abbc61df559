//! `conductor_get_mappings`: the rows of one mode, as written in the file.

use super::prelude::*;

#[derive(Deserialize)]
struct Arguments {
    mode: String,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_get_mappings", Tier::ReadOnly, owner, |owner, _studio, _clearance, arguments| async move {
        let Arguments { mode } = parse_arguments(arguments)?;
        to_output(&owner.mappings(&mode)?)
    })
    .text(
        "Get mappings",
        "Lists the mappings and continuous bindings of one mode, as written in the file; mode \"*\" lists the global ones. `index` counts \
         from 0; `id` does not change when rows move.",
    )
    .input(object(json!({
        "mode": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Mode name as in conductor_list_modes, or * for global mappings" },
    })))
    .output(object(json!({
        "mode": text(),
        "mappings": list(object(json!({
            "index": integer(), "trigger": { "type": "object" }, "action": { "type": "object" }, "id": text(),
            "description?": text(), "enabled": said("False also if a fault disables the row", boolean()),
        }))),
        "continuous": list(json!({ "type": "object" })),
    })))
}
