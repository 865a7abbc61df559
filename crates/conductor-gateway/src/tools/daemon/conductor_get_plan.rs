//! `conductor_get_plan`: one plan.

use super::{TOOLSET, config_plan, object, plan_id, plans};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::policy::Tier;
use serde_json::{Value, json};

pub fn definition() -> Definition {
    Definition::new("conductor_get_plan", Tier::ReadOnly, TOOLSET, |studio, _clearance, arguments| async move {
        let id = plan_id(&arguments)?;
        // Writes down what ran out, so that the status is true to the millisecond.
        plans::list(&studio).await?;
        Ok(Output::new(plans::find(&studio, &id.to_string())?.config_plan().unwrap_or(Value::Null)))
    })
    .text("Get plan", "One plan with its diff, hashes, warnings and status.")
    .input(object(json!({ "plan_id": { "type": "string", "format": "uuid" } })))
    .output(config_plan())
}
