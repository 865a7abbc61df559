//! `conductor_create_mapping`: plans a new mapping.

use super::prelude::*;
use conductor_core::action::Action;
use conductor_core::config::{Diagnostic, input, schema};
use conductor_core::mapping::TriggerKind;
use conductor_core::plan::Change;

/// Message types in the order of the documentation.
pub const MESSAGE_TYPES: [&str; 6] = ["NoteOn", "NoteOff", "CC", "ProgramChange", "PitchBend", "Aftertouch"];

pub fn definition() -> Definition {
    let description = format!(
        "Plans a new mapping: a trigger and its action. Returns a plan with a diff; nothing changes until a person applies it. Valid trigger \
         types: {}. Valid action types: {}. Valid SendMidi message_type values: {}. Channels are 0-15 here (1-16 only in \
         conductor_send_midi). mode \"*\" creates a global mapping.",
        TriggerKind::NAMES.join(", "),
        Action::NAMES.join(", "),
        MESSAGE_TYPES.join(", "),
    );
    Definition::new("conductor_create_mapping", Tier::ConfigChange, TOOLSET, |studio, clearance, arguments| async move {
        let (trigger, action) = (&arguments["trigger"], &arguments["action"]);
        let mut mapping = json!({ "trigger": trigger, "action": action });
        let description = arguments.get("description").and_then(Value::as_str);
        if let Some(text) = description {
            mapping["description"] = text.into();
        }
        let change = Change::CreateMapping {
            mode: arguments["mode"].as_str().unwrap_or_default().to_owned(),
            mapping,
            position: arguments.get("position").and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok()),
        };
        Ok(Output::new(plans::make(&studio, &clearance, &arguments, &[change], None).await?))
    })
    .text("Create mapping", description)
    .input(schema::with_defs(object(json!({
        "mode": { "type": "string", "minLength": 1, "maxLength": 64, "description": "Mode name as in conductor_list_modes, or * for global" },
        "trigger": { "$ref": "#/$defs/Trigger" },
        "action": { "$ref": "#/$defs/Action" },
        "description?": { "type": "string", "maxLength": 1024 },
        "position?": { "type": "integer", "minimum": 0, "description": "Index among the mode's mappings; default: last" },
    }))))
    .check(|arguments| {
        let read = |key: &str, faults: fn(&Value, &str) -> Vec<Diagnostic>| {
            arguments.get(key).map(|it| plans::violations(&faults(it, &format!("/{key}")))).unwrap_or_default()
        };
        let mut violations = read("trigger", |it, at| input::trigger(it, at).err().unwrap_or_default());
        violations.extend(read("action", |it, at| input::action(it, at).err().unwrap_or_default()));
        violations
    })
    .output(config_plan())
    .summary(|arguments| format!("plan a new mapping in {}", arguments["mode"]))
}
