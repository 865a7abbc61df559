//! `conductor_list_modes`: the modes of the configuration and the active mode.

use super::prelude::*;

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_list_modes", Tier::ReadOnly, owner, |owner, _studio, _clearance, _arguments| async move {
        to_output(&*owner.modes())
    })
    .text("List modes", "Lists every mode with its colour and the number of its mappings, and names the active mode.")
    .output(object(json!({
        "modes": list(object(json!({ "name": text(), "color": nullable(text()), "mapping_count": integer() }))),
        "current": text(),
    })))
}
