//! `conductor_panic`: silence, now. No policy, lock, limit or breaker comes before it, and it does
//! not wait for the audit log.

use super::{TOOLSET, give, integer, list, object, text};
use crate::owner_handle::OwnerHandle;
use crate::tools::catalog::Definition;
use conductor_core::policy::Tier;
use serde_json::json;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let owner = owner.clone();
    let mut definition = Definition::new("conductor_panic", Tier::Stateful, TOOLSET, move |_studio, _clearance, _arguments| {
        let owner = owner.clone();
        async move { give(&owner.panic().await?) }
    })
    .text(
        "Panic",
        "Stops everything that sounds or is held: running actions are cancelled, notes and keys released, and every output gets sustain \
         off, all notes off and all sound off on every channel. Never refused, also while the audit log cannot be written; the answer then \
         says audit: pending.",
    )
    .idempotent()
    .output(object(json!({
        "ports": list(text()), "notes_released": integer(), "keys_released": integer(), "actions_cancelled": integer(),
        "audit?": text(),
    })))
    .summary(|_| "silence everything".into());
    definition.always = true;
    definition
}
