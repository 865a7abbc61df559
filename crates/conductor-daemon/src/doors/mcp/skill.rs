//! Answers `skills/list` and `skills/get`, and reads a skill as a resource.
//!
//! Skills are pages of this program and contain no data of the studio, so reading one is not a tool
//! call and needs no permission.

use rmcp::model::{
    CacheScope, CustomResult, ErrorData, ExtensionCapabilities, PaginatedRequestParams, ReadResourceResult,
    ResourceContents, ServerResult,
};
use serde_json::{Map, Value, json};

use super::era::Era;
use super::lists;
use super::methods::Answer;
use super::{McpDoor, era};
use crate::skills::{self, Skill};

const EXTENSION: &str = "io.modelcontextprotocol/skills";
const LIST: &str = "skills/list";
const GET: &str = "skills/get";
pub const MIME: &str = "text/markdown";
/// Skills change only with a new version of the program.
const TTL_MS: u64 = 300_000;

/// Declares the extension, without its optional directories.
pub fn declare(extensions: &mut ExtensionCapabilities) {
    extensions.insert(EXTENSION.to_owned(), Map::new());
}

pub fn is_method(method: &str) -> bool {
    matches!(method, LIST | GET)
}

pub fn answer(door: &McpDoor, method: &str, params: Option<Value>, era: Era) -> Answer {
    let mut result = match method {
        LIST => {
            let request: Option<PaginatedRequestParams> =
                params.map(serde_json::from_value).transpose().map_err(invalid)?;
            let (page, next) = lists::page(door, request, skills::ALL.iter().map(|it| (it.uri(), it)))?;
            let entries: Vec<Value> = page.into_iter().map(entry).collect();
            let mut result = Map::from_iter([("skills".to_owned(), Value::Array(entries))]);
            result.extend(next.map(|it| ("nextCursor".to_owned(), Value::String(it))));
            result
        }
        GET => {
            let uri = params.as_ref().and_then(|it| it.get("uri")).and_then(Value::as_str);
            let uri = uri.ok_or_else(|| ErrorData::invalid_params("skills/get needs the uri of a SKILL.md", None))?;
            let skill = Skill::with_uri(uri)
                .ok_or_else(|| ErrorData::invalid_params(door.studio().scrubber.unknown("Unknown skill", uri), None))?;
            Map::from_iter([("skill".to_owned(), entry(skill))])
        }
        other => return Err(era::unknown_method(other)),
    };
    if era == Era::Modern {
        result.insert("resultType".to_owned(), json!("complete"));
        result.insert("ttlMs".to_owned(), json!(TTL_MS));
        result.insert("cacheScope".to_owned(), json!("public"));
    }
    result.extend(door.signed(era).map(|it| ("_meta".to_owned(), json!(it))));
    Ok(ServerResult::CustomResult(CustomResult::new(Value::Object(result))))
}

fn invalid(error: serde_json::Error) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}

fn entry(skill: &Skill) -> Value {
    json!({
        "uri": skill.uri(),
        "frontmatter": skill.front_matter(),
        "resources": [{ "uri": skill.uri(), "digest": skill.digest(), "size": skill.text.len() }],
    })
}

/// The skill as an entry of `resources/list`.
pub fn resource(skill: &Skill) -> rmcp::model::Resource {
    let mut it = rmcp::model::Resource::new(skill.uri(), skill.name())
        .with_description(skill.description())
        .with_mime_type(MIME);
    it.size = Some(skill.text.len() as u64);
    it
}

pub fn read(door: &McpDoor, skill: &Skill, era: Era) -> Answer {
    let contents = vec![ResourceContents::text(skill.text, skill.uri()).with_mime_type(MIME)];
    let mut result = ReadResourceResult::new(contents);
    if era == Era::Modern {
        (result.ttl_ms, result.cache_scope) = (Some(TTL_MS), Some(CacheScope::Public));
    }
    result.meta = door.signed(era);
    Ok(ServerResult::ReadResourceResult(result))
}
