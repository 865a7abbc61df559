//! Answers the list methods for tools, resources, templates and prompts, page by page.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::model::{
    CacheScope, ErrorData, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, PromptArgument, ServerResult, Tool as ToolEntry, ToolAnnotations,
};
use serde_json::{Value, json};

use super::era::{self, Era};
use super::methods::{Answer, Cx};
use super::{McpDoor, skill};
use crate::doors::session::View;
use crate::skills;
use conductor_core::config::{OutputSchemas, ToolView};
use conductor_gateway::apps;
use conductor_gateway::catalog::Tool;
use conductor_gateway::catalog::schema::Schema;
use conductor_gateway::catalog::views;

const LIST_TTL_MS: u64 = 60_000;

/// Builds the result of a list method: the entries, the cursor, cache hints and the identity of the
/// server.
macro_rules! listed {
    ($kind:ident, $door:expr, $era:expr, $entries:expr, $next:expr) => {{
        let mut result = $kind::with_all_items($entries);
        result.next_cursor = $next;
        // The result is private, because toolsets and policy may differ by principal.
        if $era == Era::Modern {
            (result.ttl_ms, result.cache_scope) = (Some(LIST_TTL_MS), Some(CacheScope::Private));
        }
        result.meta = $door.signed($era);
        Ok(ServerResult::$kind(result))
    }};
}

pub fn tools(door: &McpDoor, request: Option<PaginatedRequestParams>, cx: &Cx, era: Era) -> Answer {
    let (catalog, policy, view) = (door.studio().catalog(), door.studio().policy(), door.session.view());
    let listed = catalog
        .list(&view.toolset)
        .filter(|tool| view.lists(tool))
        // A tool that runs other tools is always listed: policy decides about the tools that it
        // runs.
        .filter(|tool| tool.runs_tools() || !policy.policy.denies_everyone(&tool.name, tool.tier))
        .map(|tool| (tool.name.to_string(), tool));
    let (page, next) = page(door, request, listed)?;
    let (pages, schemas) = (era::shows_pages(door, cx), door.studio().settings().mcp.output_schemas);
    let entries = page.into_iter().map(|it| tool_entry(it, view, pages, schemas)).collect();
    listed!(ListToolsResult, door, era, entries, next)
}

pub fn resources(door: &McpDoor, request: Option<PaginatedRequestParams>, era: Era) -> Answer {
    let catalog = door.studio().catalog();
    let entry = |it: &Arc<conductor_gateway::catalog::resource::Resource>| {
        rmcp::model::Resource::new(it.uri.to_string(), it.name.to_string())
            .with_title(it.title.to_string())
            .with_description(it.description.to_string())
            .with_mime_type(it.mime.to_string())
    };
    let view = door.session.view();
    let fixed = catalog.resources(&view.toolset).filter(|it| !it.is_template()).map(entry);
    let mut all: Vec<_> = fixed.chain(skills::ALL.iter().map(skill::resource)).map(|it| (it.uri.clone(), it)).collect();
    all.sort_by(|(left, _), (right, _)| left.cmp(right));
    let (page, next) = page(door, request, all.into_iter())?;
    listed!(ListResourcesResult, door, era, page, next)
}

pub fn resource_templates(door: &McpDoor, request: Option<PaginatedRequestParams>, era: Era) -> Answer {
    let catalog = door.studio().catalog();
    let templates = catalog.resources(&door.session.view().toolset).filter(|it| it.is_template());
    let (page, next) = page(door, request, templates.map(|it| (it.uri.to_string(), it)))?;
    let entry = |it: &Arc<conductor_gateway::catalog::resource::Resource>| {
        rmcp::model::ResourceTemplate::new(it.uri.to_string(), it.name.to_string())
            .with_title(it.title.to_string())
            .with_description(it.description.to_string())
            .with_mime_type(it.mime.to_string())
    };
    listed!(ListResourceTemplatesResult, door, era, page.into_iter().map(entry).collect(), next)
}

pub fn prompts(door: &McpDoor, request: Option<PaginatedRequestParams>, era: Era) -> Answer {
    let catalog = door.studio().catalog();
    let listed = catalog.prompts(&door.session.view().toolset).map(|it| (it.name.to_string(), it));
    let (page, next) = page(door, request, listed)?;
    let argument = |it: &conductor_gateway::catalog::prompt::Argument| {
        PromptArgument::new(it.name).with_description(it.description).with_required(it.required)
    };
    let entry = |it: &Arc<conductor_gateway::catalog::prompt::Prompt>| {
        let arguments = it.arguments.iter().map(argument).collect();
        rmcp::model::Prompt::new(it.name.to_string(), Some(it.description.to_string()), Some(arguments))
            .with_title(it.title.to_string())
    };
    listed!(ListPromptsResult, door, era, page.into_iter().map(entry).collect(), next)
}

fn tool_entry(tool: &Tool, view: &View, pages: bool, schemas: OutputSchemas) -> ToolEntry {
    let object = |schema: &Schema| match schema.value() {
        Value::Object(members) => Arc::new(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Arc::default(),
    };
    let mut meta = MetaObject::default();
    meta.insert("conductor/tier".to_owned(), json!(tool.tier));
    meta.insert("conductor/toolset".to_owned(), json!(tool.toolset));
    if pages && apps::shows(tool) {
        meta.insert("ui".to_owned(), apps::tool_meta());
    }
    let hints = tool.annotations;
    let entry = ToolEntry::new(
        tool.listed_name(view.names).to_owned(),
        match (schemas, view.listed) {
            (OutputSchemas::None, ToolView::All) => views::brief(tool).to_owned(),
            (OutputSchemas::None | OutputSchemas::Full, _) => tool.description.to_string(),
        },
        object(match schemas {
            OutputSchemas::None => &tool.listed_schema,
            OutputSchemas::Full => &tool.published_schema,
        }),
    )
    .with_title(tool.title.to_string())
    .with_annotations(
        ToolAnnotations::new()
            .read_only(hints.read_only)
            .destructive(hints.destructive)
            .idempotent(hints.idempotent)
            .open_world(hints.open_world),
    )
    .with_meta(meta);
    // Publish a schema only if the tool declares one: a widely used SDK throws if a tool with an
    // output schema returns no structured value.
    match schemas {
        OutputSchemas::Full if !tool.definition().output_schema.is_null() => {
            entry.with_raw_output_schema(object(&tool.output_schema))
        }
        OutputSchemas::Full | OutputSchemas::None => entry,
    }
}

/// One page of a sorted list. The cursor is the last name of the page before, so entries that are
/// added or removed between two pages do not shift the list.
pub fn page<T>(
    door: &McpDoor,
    request: Option<PaginatedRequestParams>,
    entries: impl Iterator<Item = (String, T)>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let after = match request.and_then(|it| it.cursor) {
        None => None,
        Some(cursor) => {
            let name = URL_SAFE_NO_PAD.decode(&cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            Some(name.filter(|it| !it.is_empty()).ok_or_else(|| ErrorData::invalid_params("Unknown cursor", None))?)
        }
    };
    let size = door.studio().settings().mcp.page_size.max(1);
    let mut rest = entries.filter(|(name, _)| after.as_ref().is_none_or(|after| name > after));
    let mut page = Vec::new();
    let mut last = None;
    for (name, entry) in rest.by_ref().take(size) {
        page.push(entry);
        last = Some(name);
    }
    let next = rest.next().and(last).map(|name| URL_SAFE_NO_PAD.encode(name));
    Ok((page, next))
}
