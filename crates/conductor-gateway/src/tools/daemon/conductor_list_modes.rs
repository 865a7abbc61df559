//! `conductor_list_modes`: the modes of the configuration, and which one is active.

use super::{TOOLSET, give, integer, list, nullable, object, text};
use crate::owner_handle::OwnerHandle;
use crate::tools::catalog::Definition;
use conductor_core::policy::Tier;
use serde_json::json;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let owner = owner.clone();
    Definition::new("conductor_list_modes", Tier::ReadOnly, TOOLSET, move |_studio, _clearance, _arguments| {
        let owner = owner.clone();
        async move { give(&*owner.modes()) }
    })
    .text("List modes", "Every mode with its colour and the number of its mappings, and the active one.")
    .output(object(json!({
        "modes": list(object(json!({ "name": text(), "color": nullable(text()), "mapping_count": integer() }))),
        "current": text(),
    })))
}
