//! `conductor_get_mappings`: the rows of one mode, as the file has them.

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
        "Mappings and continuous bindings of one mode, as written in the file; mode \"*\" gives the global ones. The index counts from 0; \
         the id stays the same when rows move.",
    )
    .input(object(json!({
        "mode": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Mode name as in conductor_list_modes, or * for global mappings" },
    })))
    .output(object(json!({
        "mode": text(),
        "mappings": list(object(json!({
            "index": integer(), "trigger": { "type": "object" }, "action": { "type": "object" }, "id": text(),
            "description?": text(), "enabled": said("False also when a fault in the row keeps it from running", boolean()),
        }))),
        "continuous": list(json!({ "type": "object" })),
    })))
}
