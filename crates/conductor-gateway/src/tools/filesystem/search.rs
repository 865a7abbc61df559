//! `filesystem.search`: finds lines that match, in files under a granted folder.

use super::{Asked, over, root_schema};
use crate::tools::catalog::Definition;
use crate::tools::schema_builder::{boolean, integer, list, object, text};
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::Micros;
use conductor_core::policy::Tier;
use conductor_hosts::files::{Files, Query, glob};
use regex::RegexBuilder;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Time limit of one search.
const TIME_LIMIT_US: u64 = 10_000_000;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    root: Option<String>,
    #[serde(default)]
    path: String,
    glob: Option<String>,
    #[serde(default)]
    regex: bool,
    limit: Option<usize>,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    over("filesystem.search", Tier::ReadOnly, files, run)
        .text(
            "Search files",
            "Finds lines that contain the pattern, under a granted folder. The pattern is plain text unless `regex` is true (no look-around, \
             no back-references). `glob` selects files: *.pd, drafts/**/*.txt. Files over 8 MiB and files that are not text are skipped. The \
             search stops after 10 s or `limit` matches; truncated is then true.",
        )
        .input(object(json!({
            "pattern": { "type": "string", "minLength": 1, "maxLength": 1000 },
            "root?": root_schema(),
            "path?": { "type": "string", "maxLength": 4096, "description": "Folder or file to search; default: the whole root" },
            "glob?": { "type": "string", "minLength": 1, "maxLength": 256 },
            "regex?": { "type": "boolean", "default": false },
            "limit?": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 },
        })))
        .output(object(json!({
            "matches": list(object(json!({ "path": text(), "line": integer(), "column": integer(), "text": text() }))),
            "truncated": boolean(),
        })))
}

fn run(asked: &Asked<Arguments>) -> Result<Value, ToolError> {
    let Arguments { pattern, root, path, glob: chosen, regex, limit } = &asked.arguments;
    let bad = |name: &str, fault: &regex::Error| {
        ToolError::new(Code::BadInput, format!("{name}: {fault}")).subject(Subject::Argument(format!("/{name}")))
    };
    let written = if *regex { pattern.clone() } else { regex::escape(pattern) };
    let compiled = RegexBuilder::new(&written).size_limit(1 << 20).build().map_err(|fault| bad("pattern", &fault))?;
    let chosen = chosen.as_deref().map(glob).transpose().map_err(|fault| bad("glob", &fault))?;
    let until = Micros(asked.studio.clock.now().0.saturating_add(TIME_LIMIT_US));
    let query = Query { pattern: compiled, glob: chosen, limit: limit.unwrap_or(100), until };
    let place = asked.files.place(root.as_deref(), path)?;
    let found = place.search(&query, &*asked.studio.clock, asked.clearance.cancel())?;
    let matches = found
        .matches
        .iter()
        .map(|it| json!({ "path": it.path, "line": it.line, "column": it.column, "text": it.text }));
    Ok(json!({ "matches": matches.collect::<Vec<_>>(), "truncated": found.truncated }))
}
