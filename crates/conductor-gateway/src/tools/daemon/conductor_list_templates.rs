//! `conductor_list_templates`: controllers whose controls are known by name.

use super::prelude::*;
use conductor_core::templates;

pub fn definition() -> Definition {
    Definition::new("conductor_list_templates", Tier::ReadOnly, TOOLSET, |_studio, _clearance, _arguments| async move {
        Ok(Output::new(templates::list()))
    })
    .text(
        "List templates",
        "Lists the controllers that Conductor has templates for: the names of their controls and the messages that they send. To assign a \
         template to a device alias, use the change ApplyTemplate of conductor_plan_changes.",
    )
    .output(object(json!({ "templates": list(json!({ "type": "object" })) })))
}
