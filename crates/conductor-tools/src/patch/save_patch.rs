//! `save_patch`: writes the file.

use super::argument::FilePath;
use super::prelude::*;
use conductor_hosts::patch::Edited;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    patch: EditedPatch,
    path: Option<FilePath>,
    /// Whether `path` may be an existing file.
    #[serde(default)]
    overwrite: bool,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The written file.
    file_path: String,
    /// Size of the file.
    bytes: usize,
    /// Hash of the file.
    hash: String,
    /// Path of the old file's backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup_path: Option<String>,
    /// Number of lines that differ from the old file.
    changed_lines: usize,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("save_patch", patches, run)
        .text(
            "Save",
            "Writes the file atomically and keeps the old file as a backup. Never overwrites a file that another program has changed.",
        )
        .summary(with_args(|it: &Args| format!("save the patch {:?}", &*it.patch.patch_id)))
}

fn run(asked: &Asked<Args>) -> Result<EditAnswer<Answer>, ToolError> {
    let Args { patch, path, overwrite } = &asked.args;
    let revision = patch.expected_revision();
    let saved = asked.patches.save(&patch.patch_id, path.as_deref(), *overwrite, revision, &asked.consent)?;
    let answer = Answer {
        file_path: saved.path.display().to_string(),
        bytes: saved.bytes,
        hash: saved.hash.to_string(),
        backup_path: saved.backup.map(|it| it.display().to_string()),
        changed_lines: saved.changed_lines,
    };
    let patch_id = patch.patch_id.split('/').next().unwrap_or_default().to_owned();
    let done = Edited { patch_id, revision: saved.revision, warnings: saved.warnings, made: answer };
    Ok(EditAnswer::new(done, |it| it))
}
