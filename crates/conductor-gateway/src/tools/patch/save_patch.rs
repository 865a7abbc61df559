//! `save_patch`: writes the file.

use super::prelude::*;
use conductor_hosts::patch::Edited;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("save_patch", patches, run)
        .text(
            "Save",
            "Writes the file atomically and keeps the old file as a backup. Never overwrites a file that another program changed meanwhile.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "path": "path", "overwrite": "flag" })))
        .output(edit_body(json!({ "file_path": "text", "bytes": "int", "hash": "text", "backup_path?": "text", "changed_lines": "int" })))
        .summary(|arguments| format!("save the patch {}", arguments["patch_id"]))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let (path, overwrite) = (arguments.text("path"), arguments.flag("overwrite"));
    let revision = arguments.expected_revision();
    let saved = asked.patches.save(asked.patch_id(), path, overwrite, revision, &asked.consent)?;
    let made = answer::object(json!({
        "file_path": saved.path.display().to_string(), "bytes": saved.bytes, "hash": saved.hash.to_string(),
        "backup_path": saved.backup.map(|it| it.display().to_string()), "changed_lines": saved.changed_lines,
    }));
    let patch_id = asked.patch_id().split('/').next().unwrap_or_default().to_owned();
    Ok(answer::edited(Edited { patch_id, revision: saved.revision, warnings: saved.warnings, made }))
}
