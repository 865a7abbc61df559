//! Approves the pending request when a person has held the approval pad.
//!
//! Not here: the rules for holding the pad (`conductor_core::approval_pad`), and the check that the
//! pad is hardware (`owner`).

use conductor_core::pending::{Kind, Record, Yes};
use conductor_core::policy::{Channel, PadSettings};
use conductor_core::principal::Principal;
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::{self, Call};
use conductor_gateway::studio::Studio;
use serde_json::json;
use std::sync::Arc;
use uuid::Uuid;

/// Allows the only pending call, or applies the only pending plan. Returns a text for the log: the
/// answer, or the reason why no request was answered.
pub(crate) async fn answer(studio: &Arc<Studio>, pad: &PadSettings, id: Uuid) -> Result<String, String> {
    studio.approvals.expire(studio).await.map_err(|fault| format!("the approval requests cannot be read: {fault}"))?;
    let waiting: Vec<Record> = studio.approvals.store().read(|pending| pending.waiting().cloned().collect());
    let [record] = waiting.as_slice() else {
        return Err(format!(
            "{} approval requests are pending; the pad answers only if there is exactly one",
            waiting.len()
        ));
    };
    if record.id != id {
        return Err("the approval request changed while the pad was held".to_owned());
    }
    if !pad.tiers.contains(&record.tier) {
        return Err(format!(
            "{} has the tier {}, which is not listed in [policy.approval.pad] tiers",
            record.short, record.tier
        ));
    }
    let by = Principal::Person { uid: conductor_hosts::system::processes::current_user() };
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
