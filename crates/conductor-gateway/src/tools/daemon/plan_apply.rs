//! `plan.apply` and `plan.reject`: hidden tools for a person, who calls them through the control
//! socket or the approval pad.

use super::prelude::*;
use crate::pipeline::call::Principal;
use crate::pipeline::gate::Clearance;
use conductor_core::policy::Channel;

pub fn apply(owner: &OwnerHandle) -> Definition {
    let owner = owner.clone();
    hidden("plan.apply", move |studio, clearance, arguments| {
        let owner = owner.clone();
        async move {
            let by = person(&clearance)?;
            let (id, channel) = (plan_id(&arguments)?, channel(&arguments));
            Ok(Output::new(plans::apply(&studio, &owner, &by, channel, id).await?))
        }
    })
    .text("Apply plan", "Writes the plan's result, if the file has not changed since the plan was made.")
}

pub fn reject() -> Definition {
    hidden("plan.reject", |studio, clearance, arguments| async move {
        let by = person(&clearance)?;
        Ok(Output::new(plans::reject(&studio, &by, channel(&arguments), plan_id(&arguments)?).await?))
    })
    .text("Reject plan", "Ends the plan without writing anything.")
}

fn hidden<F, R>(name: &'static str, run: F) -> Definition
where
    F: Fn(std::sync::Arc<crate::studio::Studio>, Clearance, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    let mut definition = Definition::new(name, Tier::ConfigChange, TOOLSET, run).input(object(json!({
        "plan_id": { "type": "string", "format": "uuid" },
        "channel": { "enum": ["cli", "terminal", "console", "pad"] },
    })));
    definition.hidden = true;
    definition
}

/// Refuses all callers except a person. A pad may call tools, but must not decide about plans.
pub(super) fn person(clearance: &Clearance) -> Result<Principal, ToolError> {
    if clearance.principal().is_person() {
        return Ok(clearance.principal().clone());
    }
    let name = clearance.tool().name.to_string();
    Err(ToolError::new(Code::NotFound, format!("Unknown tool: {name}")).subject(Subject::Tool(name)))
}

fn channel(arguments: &Value) -> Channel {
    match arguments["channel"].as_str() {
        Some("terminal") => Channel::Terminal,
        Some("console") => Channel::Console,
        Some("pad") => Channel::Pad,
        Some(_) | None => Channel::Cli,
    }
}
