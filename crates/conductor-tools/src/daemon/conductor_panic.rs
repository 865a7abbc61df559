//! `conductor_panic`: silences everything. It ignores policy, locks, limits and circuit breakers,
//! and does not wait for the audit log.

use super::prelude::*;
use conductor_gateway::catalog::Availability;
use conductor_gateway::report::Panicked;

#[derive(Serialize, JsonSchema)]
struct Answer {
    #[serde(flatten)]
    done: Panicked,
    /// `pending` if the audit log cannot be written; the pipeline adds it
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<String>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    let mut definition = tool("conductor_panic", Tier::Stateful, TOOLSET, owner, run)
        .text(
            "Panic",
            "Stops everything that sounds or is held: cancels running actions, releases notes and keys, and sends sustain off, all notes off \
             and all sound off on every channel of every output. Never refused, even if the audit log cannot be written; the result then \
             contains audit: pending.",
        )
        .idempotent()
        .summary(|_| "silence everything".into());
    definition.availability = Availability::Always;
    definition
}

async fn run(owner: OwnerHandle, _cx: Context, _args: NoArgs) -> Result<Answer, ToolError> {
    Ok(Answer { done: owner.panic().await?, audit: None })
}
