//! Answers `resources/read`.

use std::collections::BTreeMap;
use std::sync::Arc;

use conductor_core::error::{Code, Subject, ToolError};
use rmcp::model::{CacheScope, ErrorData, ReadResourceRequestParams, ReadResourceResult, ServerResult};

use super::era::Era;
use super::methods::{Answer, Cx};
use super::{McpDoor, call_tool, progress, render};
use conductor_gateway::pipeline::call::{Outcome, Via};
use conductor_gateway::tools::resource::Resource;

/// Reads a resource by calling its tool, so that policy, limits and audit apply.
pub async fn read(door: &McpDoor, request: ReadResourceRequestParams, cx: &Cx, era: Era) -> Answer {
    let uri = request.uri;
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
    // A resource and its tool are in the same toolset.
    call.toolset = Arc::new(conductor_gateway::tools::names::Toolset::All);
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

fn find(door: &McpDoor, uri: &str) -> Option<(Arc<Resource>, BTreeMap<String, String>)> {
    let catalog = door.studio().catalog();
    catalog
        .resources(&door.session.view().toolset)
        // A fixed URI has priority over a template that also matches.
        .filter_map(|entry| entry.matches(uri).map(|variables| (Arc::clone(entry), variables)))
        .min_by_key(|(_, variables)| variables.len())
}
