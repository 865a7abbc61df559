//! `filesystem.search`: finds lines that match, in files under a granted folder.

use super::{Asked, over};
use crate::prelude::*;
use conductor_core::event::Micros;
use conductor_hosts::files::{Files, Query, glob};
use regex::RegexBuilder;

/// Time limit of one search.
const TIME_LIMIT_US: u64 = 10_000_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The text to find
    #[schemars(length(min = 1, max = 1000))]
    pattern: String,
    /// Name of a granted folder; default: the first
    #[schemars(length(min = 1, max = 64))]
    root: Option<String>,
    /// Folder or file to search; default: the whole root
    #[serde(default)]
    #[schemars(length(max = 4096))]
    path: String,
    /// Files to search, such as *.pd; default: all
    #[schemars(length(min = 1, max = 256))]
    glob: Option<String>,
    /// Whether the pattern is a regular expression
    #[serde(default)]
    regex: bool,
    /// Maximum number of matches
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

fn default_limit() -> usize {
    100
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// One entry per line that matches
    matches: Vec<Match>,
    /// Whether there may be more matches
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    /// Relative to the root
    path: String,
    /// From 1
    line: u64,
    /// From 1
    column: u64,
    /// The whole line
    text: String,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    over("filesystem.search", Tier::ReadOnly, files, run)
        .text(
            "Search files",
            "Finds lines that contain the pattern, under a granted folder. The pattern is plain text unless `regex` is true (no look-around, \
             no back-references). `glob` selects files: *.pd, drafts/**/*.txt. Files that are not text are skipped. The search stops \
             after 10 s or `limit` matches, and reads only the first 8 MiB of a file; truncated is then true.",
        )
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let Args { pattern, root, path, glob: chosen, regex, limit } = &asked.args;
    let bad = |name: &str, fault: &regex::Error| {
        ToolError::new(Code::BadInput, format!("{name}: {fault}")).subject(Subject::Argument(format!("/{name}")))
    };
    let written = if *regex { pattern.clone() } else { regex::escape(pattern) };
    let compiled = RegexBuilder::new(&written).size_limit(1 << 20).build().map_err(|fault| bad("pattern", &fault))?;
    let chosen = chosen.as_deref().map(glob).transpose().map_err(|fault| bad("glob", &fault))?;
    let until = Micros(asked.cx.studio.clock.now().0.saturating_add(TIME_LIMIT_US));
    let query = Query { pattern: compiled, glob: chosen, limit: *limit, until };
    let place = asked.files.place(root.as_deref(), path)?;
    let found = place.search(&query, &*asked.cx.studio.clock, asked.cx.clearance.cancel())?;
    let matches =
        found.matches.into_iter().map(|it| Match { path: it.path, line: it.line, column: it.column, text: it.text });
    Ok(Answer { matches: matches.collect(), truncated: found.truncated })
}
