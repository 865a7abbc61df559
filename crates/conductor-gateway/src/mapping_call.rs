//! Converts an action of a mapping to a tool call.

use conductor_core::action::Action;
use conductor_core::engine::Placeholders;
use serde_json::{Map, Value, json};

/// The tool and the arguments of an action, with `$` placeholders filled in. `None` if the action
/// does not call a tool.
pub fn of(action: &Action, values: &Placeholders) -> Option<(String, Value)> {
    let (tool, template) = template(action)?;
    Some((tool, fill(&template, values)))
}

/// The calls of an action tree whose arguments do not depend on the event.
pub fn constant_calls(action: &Action) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    collect(action, &mut calls);
    calls
}

fn collect(action: &Action, calls: &mut Vec<(String, Value)>) {
    match action {
        Action::Sequence { actions } => actions.iter().for_each(|it| collect(it, calls)),
        Action::Repeat { action, .. } => collect(action, calls),
        Action::Conditional { then_action, else_action, .. } => {
            collect(then_action, calls);
            if let Some(other) = else_action {
                collect(other, calls);
            }
        }
        Action::CallTool { .. } | Action::Shell { .. } | Action::Launch { .. } | Action::Plugin { .. } => {
            calls.extend(template(action).filter(|(_, template)| !has_placeholder(template)).map(|(tool, it)| {
                let filled = fill(&it, &Placeholders::default());
                (tool, filled)
            }));
        }
        Action::Keystroke(_)
        | Action::Text { .. }
        | Action::VolumeControl(_)
        | Action::ModeChange { .. }
        | Action::SendMidi(_)
        | Action::MidiForward { .. }
        | Action::Delay { .. }
        | Action::MouseClick { .. }
        | Action::OscSend { .. } => {}
    }
}

fn template(action: &Action) -> Option<(String, Value)> {
    let object = |members: &Map<String, Value>| Value::Object(members.clone());
    if let Action::CallTool { tool, arguments } = action {
        Some((tool.clone(), object(arguments)))
    } else if let Action::Shell { argv, timeout_ms } = action {
        Some(("shell.exec".into(), json!({ "argv": argv, "timeout_ms": timeout_ms })))
    } else if let Action::Launch { app } = action {
        Some(("desktop.launch".into(), json!({ "app": app })))
    } else if let Action::Plugin { plugin, tool, params } = action {
        // An action without a tool name means the only tool of its plugin. The catalog finds that
        // tool by the name of the plugin.
        let tool = tool.as_ref().map_or_else(|| plugin.clone(), |tool| format!("{plugin}.{tool}"));
        Some((tool, object(params)))
    } else {
        None
    }
}

const NAMES: [&str; 5] = ["$velocity", "$value", "$unit", "$note", "$channel"];

fn has_placeholder(value: &Value) -> bool {
    match value {
        Value::String(text) => NAMES.contains(&text.as_str()),
        Value::Array(items) => items.iter().any(has_placeholder),
        Value::Object(members) => members.values().any(has_placeholder),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces a string that is a placeholder with its number. A leading `$$` becomes `$`.
fn fill(value: &Value, values: &Placeholders) -> Value {
    match value {
        Value::String(text) if NAMES.contains(&text.as_str()) => match values.get(text) {
            Some(number) if number.fract() == 0.0 => json!(number as i64),
            Some(number) => json!(number),
            None => Value::Null,
        },
        Value::String(text) if text.starts_with("$$") => Value::String(text[1..].to_owned()),
        Value::Array(items) => items.iter().map(|it| fill(it, values)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, it)| (key.clone(), fill(it, values))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: Value) -> Action {
        let Value::Object(arguments) = arguments else { panic!("not an object") };
        Action::CallTool { tool: "t".into(), arguments }
    }

    #[test]
    fn placeholders_are_filled_and_escaped() {
        let values = Placeholders { velocity: Some(77), unit: Some(0.5), ..Placeholders::default() };
        let (_, filled) =
            of(&call(json!({"a": "$velocity", "b": ["$unit"], "c": "$$velocity", "d": "x$note"})), &values).unwrap();
        assert_eq!(filled, json!({"a": 77, "b": [0.5], "c": "$velocity", "d": "x$note"}));
    }

    #[test]
    fn only_constant_calls_can_have_a_standing_grant() {
        let tree = Action::Sequence {
            actions: vec![call(json!({"a": 1})), call(json!({"a": "$velocity"})), call(json!({"a": "$$x"}))],
        };
        assert_eq!(constant_calls(&tree), [("t".into(), json!({"a": 1})), ("t".into(), json!({"a": "$x"}))]);
    }
}
