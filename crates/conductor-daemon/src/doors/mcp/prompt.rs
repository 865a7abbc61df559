//! Answers `prompts/get`.

use std::collections::BTreeMap;

use rmcp::model::{ErrorData, GetPromptRequestParams, GetPromptResult, PromptMessage, Role, ServerResult};
use serde_json::Value;

use super::era::Era;
use super::methods::Answer;
use super::{McpDoor, render};

pub fn get(door: &McpDoor, request: GetPromptRequestParams, era: Era) -> Answer {
    let catalog = door.studio().catalog();
    let prompt =
        catalog.prompt(&request.name).filter(|it| door.session.view().toolset.has_set(&it.toolset)).ok_or_else(
            || ErrorData::invalid_params(door.studio().scrubber.unknown("Unknown prompt", &request.name), None),
        )?;
    let mut arguments = BTreeMap::new();
    for (name, value) in request.arguments.unwrap_or_default() {
        match value {
            Value::String(text) => {
                arguments.insert(name, text);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return Err(ErrorData::invalid_params(format!("Prompt argument {name} must be a string"), None));
            }
        }
    }
    if let Some(unknown) = arguments.keys().find(|name| prompt.arguments.iter().all(|it| it.name != name.as_str())) {
        let known: Vec<&str> = prompt.arguments.iter().map(|it| it.name).collect();
        let name: String = unknown.chars().take(128).collect();
        return Err(ErrorData::invalid_params(
            format!("Unknown prompt argument: {name}; the arguments of {} are: {}", prompt.name, known.join(", ")),
            None,
        ));
    }
    if let Some(missing) = prompt.arguments.iter().find(|it| it.required && !arguments.contains_key(it.name)) {
        return Err(ErrorData::invalid_params(format!("Missing prompt argument: {}", missing.name), None));
    }
    let messages = (prompt.render)(&arguments)
        .into_iter()
        .map(|mut it| {
            it.content.clean(&door.studio().scrubber);
            PromptMessage::new(Role::User, render::block(it.content))
        })
        .collect();
    let mut result = GetPromptResult::new(messages).with_description(prompt.description.to_string());
    result.meta = door.signed(era);
    Ok(ServerResult::GetPromptResult(result))
}
