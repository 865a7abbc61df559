//! Completes prompt arguments and template variables. Uses only cached state: starts no program and
//! calls no tool.

use rmcp::model::{CompletionInfo, ErrorData, Reference};

use crate::doors::session::Session;
use conductor_gateway::catalog::resource::Completer;

/// The values for one argument, best match first. Empty if the caller may not use the read tool
/// that provides the values.
pub fn complete(
    session: &Session,
    reference: &Reference,
    argument: &str,
    typed: &str,
) -> Result<CompletionInfo, ErrorData> {
    let catalog = session.studio.catalog();
    let toolset = &session.view().toolset;
    let (completer, source): (Option<Completer>, Option<String>) = match reference {
        Reference::Prompt(prompt) => {
            let entry = catalog
                .prompt(&prompt.name)
                .filter(|entry| toolset.has_set(&entry.toolset))
                .ok_or_else(|| unknown("prompt", &prompt.name))?;
            let known =
                entry.arguments.iter().find(|it| it.name == argument).ok_or_else(|| unknown("argument", argument))?;
            (known.complete.clone(), known.source.map(str::to_owned))
        }
        Reference::Resource(template) => {
            let entry = catalog
                .resources(toolset)
                .find(|entry| entry.uri == template.uri)
                .ok_or_else(|| unknown("resource", &template.uri))?;
            if !entry.variables().any(|it| it == argument) {
                return Err(unknown("argument", argument));
            }
            (entry.complete.get(argument).cloned(), Some(entry.tool.to_string()))
        }
        _ => return Err(unknown("reference", "this type is not supported")),
    };
    let allowed = source.is_none_or(|tool| {
        catalog.get(&tool).is_some_and(|tool| !session.studio.policy().policy.denies_everyone(&tool.name, tool.tier))
    });
    let values = match completer {
        Some(completer) if allowed => {
            let mut values = rank(completer(&session.studio, typed), typed);
            values.iter_mut().for_each(|it| session.studio.scrubber.string(it));
            values
        }
        Some(_) | None => Vec::new(),
    };
    let total = values.len();
    let shown: Vec<String> = values.into_iter().take(CompletionInfo::MAX_VALUES).collect();
    let more = total > shown.len();
    CompletionInfo::with_pagination(shown, Some(total.try_into().unwrap_or(u32::MAX)), more)
        .map_err(|fault| ErrorData::internal_error(fault, None))
}

fn unknown(kind: &str, name: &str) -> ErrorData {
    let name: String = name.chars().take(128).collect();
    ErrorData::invalid_params(format!("Unknown {kind}: {name}"), None)
}

/// Prefix matches first, then values that contain the text, then those that contain its letters in
/// order; case is ignored.
pub fn rank(values: Vec<String>, typed: &str) -> Vec<String> {
    let typed = typed.to_lowercase();
    let mut ranked: Vec<(u8, String)> = values
        .into_iter()
        .filter_map(|value| {
            let low = value.to_lowercase();
            let rank = if low.starts_with(&typed) {
                0
            } else if low.contains(&typed) {
                1
            } else if holds_in_order(&low, &typed) {
                2
            } else {
                return None;
            };
            Some((rank, value))
        })
        .collect();
    ranked.sort_by_key(|it| it.0);
    ranked.into_iter().map(|it| it.1).collect()
}

fn holds_in_order(text: &str, letters: &str) -> bool {
    let mut text = text.chars();
    letters.chars().all(|letter| text.any(|it| it == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_then_inside_then_letters_in_order() {
        let values = ["shell", "Help", "hello", "h-e-l", "other"].map(str::to_owned).to_vec();
        assert_eq!(rank(values.clone(), "HEL"), ["Help", "hello", "shell", "h-e-l"]);
        assert_eq!(rank(values.clone(), "").len(), 5);
        assert_eq!(rank(values, "zz"), Vec::<String>::new());
    }
}
