//! The yes of a held pad, given at the desk.
//!
//! Not here: whether the hold counts (`conductor_core::approval_pad`), and who may press at all
//! (the owner asks the ports).

use conductor_core::pending::{Kind, Record, Yes};
use conductor_core::policy::{Channel, PadSettings};
use conductor_core::principal::Principal;
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::{self, Call};
use conductor_gateway::studio::Studio;
use serde_json::json;
use std::sync::Arc;
use uuid::Uuid;

/// Allows the one open call, or applies the one open plan. The text is for the log: what was
/// answered, or why nothing was.
pub(crate) async fn answer(studio: &Arc<Studio>, pad: &PadSettings, id: Uuid) -> Result<String, String> {
    studio.approvals.expire(studio).await.map_err(|fault| format!("the questions cannot be read: {fault}"))?;
    let waiting: Vec<Record> = studio.approvals.store().read(|pending| pending.waiting().cloned().collect());
    let [record] = waiting.as_slice() else {
        return Err(format!("{} questions wait; a pad answers when there is exactly one", waiting.len()));
    };
    if record.id != id {
        return Err("the question changed while the pad was held".to_owned());
    }
    if !pad.tiers.contains(&record.tier) {
        return Err(format!("{} is {}, which [policy.approval.pad] tiers do not list", record.short, record.tier));
    }
    let by = Principal::Person { uid: rustix::process::geteuid().as_raw() };
    match record.kind {
        Kind::Plan => {
            let arguments = json!({ "plan_id": id.to_string(), "channel": Channel::Pad.as_str() });
            match pipeline::run(studio, Call::new(by, "plan.apply", arguments)).await.into_outcome() {
                Outcome::Done(Ok(_)) => Ok(format!("plan {} applied", record.short)),
                Outcome::Done(Err(error)) => Err(error.message),
                Outcome::Cancelled | Outcome::Ask { .. } => Err(format!("plan {} was not applied", record.short)),
            }
        }
        Kind::Call | Kind::Standing | Kind::Edit => {
            let grant_ms = studio.catalog().get(&record.tool).and_then(|it| it.grant_ms);
            let yes = Yes { grant_ms, ..Yes::once(by.to_string(), Channel::Pad) };
            studio.approvals.allow(studio, id, yes).await.map_err(|fault| fault.to_string())?;
            Ok(format!("{} allowed: {}", record.short, record.summary))
        }
    }
}
