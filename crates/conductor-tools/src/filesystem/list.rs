//! `filesystem.list`: the content of a folder.

use super::{Asked, over};
use crate::prelude::*;
use conductor_core::timestamp::Timestamp;
use conductor_hosts::files::Files;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Relative to the root; default: the root itself
    #[serde(default)]
    #[schemars(length(max = 4096))]
    path: String,
    /// Name of a granted folder; default: the first
    #[schemars(length(min = 1, max = 64))]
    root: Option<String>,
    /// Levels of folders to list
    #[serde(default = "default_depth")]
    #[schemars(range(min = 1, max = 8))]
    depth: u32,
    /// next_cursor of the previous page
    #[schemars(length(max = 4096))]
    cursor: Option<String>,
}

fn default_depth() -> u32 {
    1
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Files and folders, sorted by name
    entries: Vec<Entry>,
    /// `cursor` of the next page; null on the last page
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Entry {
    /// Path relative to the listed folder
    name: String,
    /// Kind of the entry
    #[schemars(extend("enum" = ["file", "directory", "link", "other"]))]
    kind: &'static str,
    /// In bytes
    size: u64,
    /// Time of the last change
    mtime: Timestamp,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    over("filesystem.list", Tier::ReadOnly, files, run)
        .text(
            "List folder",
            "Lists a granted folder, or a folder inside it, sorted by name; entries of deeper levels are listed with their path. Links are \
             listed but not followed. At most 1000 entries; pass next_cursor as `cursor` to get the rest.",
        )
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let Args { path, root, depth, cursor } = &asked.args;
    let place = asked.files.place(root.as_deref(), path)?;
    let listing = place.list(*depth, cursor.as_deref(), asked.cx.clearance.cancel())?;
    let entries = listing.entries.into_iter().map(|it| Entry {
        name: it.name,
        kind: it.kind.name(),
        size: it.size,
        mtime: Timestamp::from_millis(u64::try_from(it.modified_ms).unwrap_or(0)),
    });
    Ok(Answer { entries: entries.collect(), next_cursor: listing.next })
}
