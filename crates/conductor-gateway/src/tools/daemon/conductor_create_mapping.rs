//! `conductor_create_mapping`: plans a new mapping.

use super::prelude::*;
use conductor_core::action::Action;
use conductor_core::config::{Diagnostic, input};
use conductor_core::mapping::TriggerKind;
use conductor_core::plan::Change;

/// Message types in the order of the documentation.
pub const MESSAGE_TYPES: [&str; 6] = ["NoteOn", "NoteOff", "CC", "ProgramChange", "PitchBend", "Aftertouch"];

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Mode name as in conductor_list_modes, or * for global
    #[schemars(length(min = 1, max = 64))]
    mode: String,
    /// What the player does
    #[schemars(extend("$ref" = "#/$defs/Trigger"))]
    trigger: Value,
    /// What happens then
    #[schemars(extend("$ref" = "#/$defs/Action"))]
    action: Value,
    /// One line about the mapping
    #[schemars(length(max = 1024))]
    description: Option<String>,
    /// Index among the mode's mappings; default: last
    position: Option<usize>,
}

pub fn definition() -> Definition {
    let description = format!(
        "Plans a new mapping: a trigger and its action. Returns a plan with a diff; nothing changes until a person applies it. Valid trigger \
         types: {}. Valid action types: {}. Valid SendMidi message_type values: {}. Channels are 0-15 here (1-16 only in \
         conductor_send_midi). mode \"*\" creates a global mapping.",
        TriggerKind::NAMES.join(", "),
        Action::NAMES.join(", "),
        MESSAGE_TYPES.join(", "),
    );
    tool("conductor_create_mapping", Tier::ConfigChange, TOOLSET, &(), run)
        .text("Create mapping", description)
        .check(|arguments| {
            let read = |key: &str, faults: fn(&Value, &str) -> Vec<Diagnostic>| {
                arguments.get(key).map(|it| plans::violations(&faults(it, &format!("/{key}")))).unwrap_or_default()
            };
            let mut violations = read("trigger", |it, at| input::trigger(it, at).err().unwrap_or_default());
            violations.extend(read("action", |it, at| input::action(it, at).err().unwrap_or_default()));
            violations
        })
        .summary(with_args(|args: &Args| format!("plan a new mapping in {:?}", args.mode)))
}

async fn run((): (), cx: Context, args: Args) -> Result<ConfigPlan, ToolError> {
    let Args { mode, trigger, action, description, position } = args;
    let mut mapping = json!({ "trigger": trigger, "action": action });
    if let Some(text) = description {
        mapping["description"] = text.into();
    }
    plans::make(&cx, &[Change::CreateMapping { mode, mapping, position }], None).await
}
