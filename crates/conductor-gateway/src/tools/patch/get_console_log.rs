//! `get_console_log`: messages of the hosts.

use super::prelude::*;
use conductor_hosts::patch::console::{Level, Question};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_console_log", patches, run)
        .text(
            "Console",
            "Returns the newest console lines of the hosts. With `after`, only newer lines. `clear` hides lines from you only.",
        )
        .input(input(json!({
            "lines": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 50 }, "clear": "flag", "patch_id": "id",
            "after": { "type": "integer", "minimum": 0, "description": "`next` of an earlier result" },
            "level": { "enum": ["error", "warning", "info", "debug"], "description": "Only lines of this level or more severe" },
        })))
        .output(plain(json!({
            "logs": ["text"], "count": "int",
            "entries": [{ "seq": "int", "time": "text", "level": "text", "source": "text", "text": "text", "patch_id?": "text",
                "object?": "text" }],
            "next": "int",
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let question = Question {
        principal: &asked.principal,
        patch_id: arguments.text("patch_id"),
        after: arguments.whole("after"),
        level: Level::ALL.into_iter().find(|it| arguments.text("level") == Some(it.as_str())),
        lines: arguments.count("lines", 50),
    };
    let (lines, next) = asked.patches.console(&question, arguments.flag("clear"));
    let logs: Vec<String> = lines.iter().map(|it| format!("{}: {}", it.source.as_str(), it.text)).collect();
    let entries: Vec<_> = lines
        .iter()
        .map(|it| {
            answer::object(json!({
                "seq": it.seq, "time": it.time.to_string(), "level": it.level.as_str(), "source": it.source.as_str(), "text": it.text,
                "patch_id": it.patch_id, "object": it.object,
            }))
        })
        .collect();
    Ok(Output::new(json!({ "logs": logs, "count": logs.len(), "entries": entries, "next": next })))
}
