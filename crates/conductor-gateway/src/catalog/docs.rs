//! Renders the catalog as `docs/tools.md`.

use super::names::Toolset;
use super::{Catalog, Tool};
use serde_json::Value;
use std::fmt::Write;

/// The whole page. A test compares it with the file in the repository.
pub fn page(catalog: &Catalog) -> String {
    let mut page = String::from(
        "# Tools\n\nGenerated from the catalog; do not edit. Every call passes through the same pipeline: it is validated, checked against \
         the policy and the limits, and recorded. ReadOnly and Stateful tools run without approval. ConfigChange tools return a plan that a \
         person applies. HardwareIO tools need a person's approval, unless their entry says otherwise.\n",
    );
    let mut toolset = "";
    for tool in catalog.list(&Toolset::All).filter(|it| !it.hidden) {
        if tool.toolset != toolset {
            toolset = &tool.toolset;
            let _ = write!(page, "\n## {toolset}\n");
        }
        section(&mut page, tool);
    }
    page
}

fn section(page: &mut String, tool: &Tool) {
    let asks = match tool.requires_approval {
        Some(true) => ", needs approval each time",
        Some(false) => ", needs no approval",
        None => "",
    };
    let _ =
        write!(page, "\n### {}\n\n{} ({}{asks}). {}\n", tool.name, tool.title, tool.tier.as_str(), tool.description);
    let schema = tool.published_schema.value();
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|it| !it.is_empty()) else {
        return;
    };
    let required = schema.get("required").and_then(Value::as_array);
    page.push_str("\n| argument | | |\n|---|---|---|\n");
    for (name, schema) in properties {
        let needed = required.is_some_and(|it| it.iter().any(|it| it == name.as_str()));
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(
            page,
            "| `{name}` | {}{} | {} |",
            cell(&kind(schema)),
            if needed { ", required" } else { "" },
            cell(description)
        );
    }
}

/// The type of an argument, or its possible values.
pub fn kind(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.rsplit('/').next()) {
        return name.to_owned();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> =
            values.iter().map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned)).collect();
        return values.join(", ");
    }
    schema.get("type").and_then(Value::as_str).unwrap_or("value").to_owned()
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
