//! `conductor_list_plans`: every plan, newest first.

use super::prelude::*;

pub fn definition() -> Definition {
    Definition::new("conductor_list_plans", Tier::ReadOnly, TOOLSET, |studio, _clearance, _arguments| async move {
        Ok(Output::new(json!({ "plans": plans::list(&studio).await? })))
    })
    .text(
        "List plans",
        "Lists plans for the configuration with their diff and status (pending, applied, rejected, expired, stale, undone), newest first.",
    )
    .output(object(json!({ "plans": { "type": "array", "items": { "type": "object" } } })))
}
