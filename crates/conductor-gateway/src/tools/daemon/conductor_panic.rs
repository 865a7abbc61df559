//! `conductor_panic`: silences everything. It ignores policy, locks, limits and circuit breakers,
//! and does not wait for the audit log.

use super::prelude::*;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let mut definition = owner_tool("conductor_panic", Tier::Stateful, owner, |owner, _studio, _clearance, _arguments| async move { to_output(&owner.panic().await?) })
    .text(
        "Panic",
        "Stops everything that sounds or is held: cancels running actions, releases notes and keys, and sends sustain off, all notes off and \
         all sound off on every channel of every output. Never refused, even if the audit log cannot be written; the result then contains \
         audit: pending.",
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
