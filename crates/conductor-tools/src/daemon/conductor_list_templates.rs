//! `conductor_list_templates`: controllers whose controls are known by name.

use super::prelude::*;
use conductor_core::templates;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Name, description and controls of each controller
    #[schemars(with = "Vec<Map<String, Value>>")]
    templates: Vec<Value>,
}

pub fn definition() -> Definition {
    tool("conductor_list_templates", Tier::ReadOnly, TOOLSET, &(), run).text(
        "List templates",
        "Lists the controllers that Conductor has templates for: the names of their controls and the messages that they send. To assign a \
         template to a device alias, use the change ApplyTemplate of conductor_plan_changes.",
    )
}

async fn run((): (), _cx: Context, _args: NoArgs) -> Result<Answer, ToolError> {
    Ok(Answer { templates: templates::list() })
}
