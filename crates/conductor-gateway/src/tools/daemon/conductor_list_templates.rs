//! `conductor_list_templates`: controllers whose controls are known by name.

use super::prelude::*;
use conductor_core::templates;

pub fn definition() -> Definition {
    Definition::new("conductor_list_templates", Tier::ReadOnly, TOOLSET, |_studio, _clearance, _arguments| async move {
        Ok(Output::new(templates::list()))
    })
    .text(
        "List templates",
        "Controllers that Conductor knows: their controls by name with the messages they send. A template is put under an alias with the \
         change ApplyTemplate of conductor_plan_changes.",
    )
    .output(object(json!({ "templates": list(json!({ "type": "object" })) })))
}
