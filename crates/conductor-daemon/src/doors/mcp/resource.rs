//! Answers `resources/read`.

use std::collections::BTreeMap;
use std::sync::Arc;

use conductor_core::error::{Code, Subject, ToolError};
use rmcp::model::{
    CacheScope, ErrorData, MetaObject, ReadResourceRequestParams, ReadResourceResult, ResourceContents, ServerResult,
};

use super::era::Era;
use super::methods::{Answer, Cx};
use super::{McpDoor, call_tool, progress, render, skill};
use crate::skills::Skill;
use conductor_gateway::apps;
use conductor_gateway::catalog::resource::Resource;
use conductor_gateway::pipeline::call::{Outcome, Via};

const PAGE_TTL_MS: u64 = 3_600_000;

/// Reads a resource by calling its tool, so that policy, limits and audit apply.
pub async fn read(door: &McpDoor, request: ReadResourceRequestParams, cx: &Cx, era: Era) -> Answer {
    let uri = request.uri;
    if let Some(page) = Skill::with_uri(&uri) {
        return skill::read(door, page, era);
    }
    if uri == apps::URI {
        return Ok(page(door, era));
    }
    let Some((entry, variables)) = find(door, &uri) else {
        let scrubber = &door.studio().scrubber;
        let shown: String = if scrubber.is_idle() { uri.chars().take(256).collect() } else { String::new() };
        let unknown = ToolError::new(Code::NotFound, scrubber.unknown("Unknown resource", &shown))
            .hint("Call resources/list and resources/templates/list.")
            .subject(Subject::Other(shown.clone()));
        return Err(render::resource_failure(&shown, &unknown));
    };
    let principal = door.principal(cx);
    let mut call =
        door.session.call(principal, entry.tool.to_string(), (entry.arguments)(&variables), cx.cancel.clone());
    call.via = Via::Resource { uri: uri.clone() };
    // `find` has checked the caller's toolset: a resource and its tool are in the same toolset.
    call.toolset = Arc::new(conductor_gateway::catalog::names::Toolset::All);
    call.progress = progress::channel(door, cx, era);
    let contents = match call_tool::run(door, call).await.into_outcome() {
        Outcome::Done(Ok(output)) => render::resource_contents(&door.studio().scrubber.text(&uri), &entry.mime, output),
        Outcome::Done(Err(error)) => return Err(render::resource_failure(&uri, &error)),
        Outcome::Cancelled | Outcome::Ask { .. } => return Err(ErrorData::internal_error("cancelled", None)),
    };
    let mut result = ReadResourceResult::new(contents).with_cache_scope(CacheScope::Private).with_ttl_ms(0);
    if era == Era::Legacy {
        (result.ttl_ms, result.cache_scope) = (None, None);
    }
    result.meta = door.signed(era);
    Ok(ServerResult::ReadResourceResult(result))
}

/// The page of the MCP Apps extension. It is the same for every caller and contains no data, so it
/// is served without a tool call.
fn page(door: &McpDoor, era: Era) -> ServerResult {
    let mut meta = MetaObject::default();
    meta.insert("ui".to_owned(), apps::page_meta());
    let page = ResourceContents::text(apps::PAGE, apps::URI).with_mime_type(apps::MIME).with_meta(meta);
    let mut result = ReadResourceResult::new(vec![page]).with_cache_scope(CacheScope::Private).with_ttl_ms(PAGE_TTL_MS);
    if era == Era::Legacy {
        (result.ttl_ms, result.cache_scope) = (None, None);
    }
    result.meta = door.signed(era);
    ServerResult::ReadResourceResult(result)
}

fn find(door: &McpDoor, uri: &str) -> Option<(Arc<Resource>, BTreeMap<String, String>)> {
    let catalog = door.studio().catalog();
    catalog
        .resources(&door.session.view().toolset)
        // A fixed URI has priority over a template that also matches.
        .filter_map(|entry| entry.matches(uri).map(|variables| (Arc::clone(entry), variables)))
        .min_by_key(|(_, variables)| variables.len())
}
