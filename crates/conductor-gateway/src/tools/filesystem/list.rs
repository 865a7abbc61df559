//! `filesystem.list`: the content of a folder.

use super::{Asked, over, root_schema};
use crate::tools::catalog::Definition;
use crate::tools::schema_builder::{integer, list, nullable, object, text};
use conductor_core::error::ToolError;
use conductor_core::policy::Tier;
use conductor_core::timestamp::Timestamp;
use conductor_hosts::files::Files;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    path: String,
    root: Option<String>,
    depth: Option<u32>,
    cursor: Option<String>,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    over("filesystem.list", Tier::ReadOnly, files, run)
        .text(
            "List folder",
            "Lists a granted folder, or a folder inside it, sorted by name; entries of deeper levels are listed with their path. Links are \
             listed but not followed. At most 1000 entries; pass next_cursor as `cursor` to get the rest.",
        )
        .input(object(json!({
            "path?": { "type": "string", "maxLength": 4096, "description": "Relative to the root; default: the root itself" },
            "root?": root_schema(),
            "depth?": { "type": "integer", "minimum": 1, "maximum": 8, "default": 1 },
            "cursor?": { "type": "string", "maxLength": 4096 },
        })))
        .output(object(json!({
            "entries": list(object(json!({
                "name": text(), "kind": { "enum": ["file", "directory", "link", "other"] }, "size": integer(), "mtime": text(),
            }))),
            "next_cursor": nullable(text()),
        })))
}

fn run(asked: &Asked<Arguments>) -> Result<Value, ToolError> {
    let Arguments { path, root, depth, cursor } = &asked.arguments;
    let place = asked.files.place(root.as_deref(), path)?;
    let listing = place.list(depth.unwrap_or(1), cursor.as_deref(), asked.clearance.cancel())?;
    let entries = listing.entries.iter().map(|it| {
        let at = Timestamp::from_millis(u64::try_from(it.modified_ms).unwrap_or(0));
        json!({ "name": it.name, "kind": it.kind.name(), "size": it.size, "mtime": at.to_string() })
    });
    Ok(json!({ "entries": entries.collect::<Vec<_>>(), "next_cursor": listing.next }))
}
