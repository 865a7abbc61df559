//! `get_console_log`: returns console messages of the hosts.

use super::prelude::*;
use conductor_hosts::patch::console::{Level, Question};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Maximum number of lines; the newest are returned.
    #[serde(default = "argument::count::<50>")]
    #[schemars(range(min = 1, max = 1000))]
    lines: usize,
    /// Whether to hide earlier lines from you.
    #[serde(default)]
    clear: bool,
    /// Only lines of this patch, by its id from list_active_patches.
    patch_id: Option<PatchId>,
    /// `next` of an earlier result.
    after: Option<u64>,
    /// Only lines of this level or more severe.
    level: Option<LeastLevel>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LeastLevel {
    Error,
    Warning,
    Info,
    Debug,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The lines as text, oldest first.
    logs: Vec<String>,
    /// Number of lines.
    count: usize,
    /// The lines with their facts, oldest first.
    entries: Vec<Line>,
    /// Pass it as `after` to get newer lines only.
    next: u64,
}

#[derive(Serialize, JsonSchema)]
struct Line {
    /// Number of the line.
    seq: u64,
    /// Time of the line.
    time: String,
    /// Level: error, warning, info or debug.
    level: &'static str,
    /// Origin of the line: conductor, pd or max.
    source: &'static str,
    /// The message.
    text: String,
    /// Id of the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_id: Option<String>,
    /// Name or key of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_console_log", patches, run).text(
        "Console",
        "Returns the newest console lines of the hosts. With `after`, only newer lines. `clear` hides lines from you only.",
    )
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let Args { lines, clear, patch_id, after, level } = &asked.args;
    let question = Question {
        principal: &asked.principal,
        patch_id: patch_id.as_deref(),
        after: *after,
        level: level.map(|it| match it {
            LeastLevel::Error => Level::Error,
            LeastLevel::Warning => Level::Warning,
            LeastLevel::Info => Level::Info,
            LeastLevel::Debug => Level::Debug,
        }),
        lines: *lines,
    };
    let (lines, next) = asked.patches.console(&question, *clear);
    let logs = lines.iter().map(|it| format!("{}: {}", it.source.as_str(), it.text)).collect();
    let count = lines.len();
    let entries = lines.into_iter().map(|it| Line {
        seq: it.seq,
        time: it.time.to_string(),
        level: it.level.as_str(),
        source: it.source.as_str(),
        text: it.text,
        patch_id: it.patch_id,
        object: it.object,
    });
    Ok(Answer { logs, count, entries: entries.collect(), next })
}
