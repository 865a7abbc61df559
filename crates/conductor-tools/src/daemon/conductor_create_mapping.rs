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
    let mode = json!({ "type": "string", "description": "Mode name as in conductor_list_modes, or * for global" });
    let description = json!({ "type": "string", "description": "One line about the mapping" });
    let position = json!({ "type": "integer", "description": "Index among the mode's mappings; default: last" });
    tool("conductor_create_mapping", Tier::ConfigChange, TOOLSET, &(), run)
        .text(
            "Create mapping",
            "Plans a new mapping: a trigger and its action. Nothing changes until a person applies the plan. If you do not know what the \
             control sends, call conductor_start_midi_learn first. For a fader or knob that moves a value continuously, use \
             conductor_plan_changes with CreateContinuous. conductor_find_tools {query: \"conductor_create_mapping\"} shows every field.",
        )
        .listed(json!({
            "type": "object",
            "properties": {
                "mode": mode, "trigger": short_trigger(), "action": short_action(), "description": description,
                "position": position,
            },
            "required": ["mode", "trigger", "action"],
            "additionalProperties": false,
        }))
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

/// The trigger in lists: its types, and the fields that most of them have.
fn short_trigger() -> Value {
    let number = |text: &str| json!({ "type": "integer", "description": text });
    let text = |text: &str| json!({ "type": "string", "description": text });
    json!({
        "type": "object",
        "description": "What the player does. Note needs note, CC and EncoderTurn need cc, NoteChord needs notes, gamepad types need button",
        "properties": {
            "type": { "enum": TriggerKind::NAMES, "description": "Kind of trigger" },
            "device": text("Alias of the device; without it, any device"),
            "channel": number("0-15; without it, any channel"),
            "note": number("0-127, middle C is 60"),
            "cc": number("0-127"),
            "notes": { "type": "array", "items": { "type": "integer" }, "description": "Notes of a chord" },
            "button": text("Gamepad button, such as south"),
            "duration_ms": number("Time of a LongPress"),
        },
        "required": ["type"],
    })
}

/// The action in lists: its types, and the fields of the most frequent ones.
fn short_action() -> Value {
    let number = |text: &str| json!({ "type": "integer", "description": text });
    let text = |text: &str| json!({ "type": "string", "description": text });
    json!({
        "type": "object",
        "description": "What happens then. SendMidi needs port, channel, message_type; ModeChange needs mode; Keystroke needs keys; CallTool needs tool",
        "properties": {
            "type": { "enum": Action::NAMES, "description": "Kind of action" },
            "port": text("Output of SendMidi: an alias or a port name"),
            "channel": number("0-15"),
            "message_type": { "enum": MESSAGE_TYPES, "description": "Message of SendMidi" },
            "note": number("0-127"),
            "velocity": number("1-127"),
            "controller": number("CC number 0-127"),
            "value": number("CC value 0-127"),
            "program": number("0-127"),
            "mode": text("Mode of ModeChange"),
            "keys": text("Key of Keystroke, such as s or space"),
            "tool": text("Tool of CallTool"),
            "arguments": { "type": "object", "description": "Arguments of CallTool" },
            "actions": { "type": "array", "items": { "type": "object" }, "description": "Actions of Sequence" },
        },
        "required": ["type"],
    })
}

async fn run((): (), cx: Context, args: Args) -> Result<ConfigPlan, ToolError> {
    let Args { mode, trigger, action, description, position } = args;
    let mut mapping = json!({ "trigger": trigger, "action": action });
    if let Some(text) = description {
        mapping["description"] = text.into();
    }
    plans::make(&cx, &[Change::CreateMapping { mode, mapping, position }], None).await
}
