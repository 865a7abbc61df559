//! `diff_patch`: compares a patch with an earlier state or another file.

use super::prelude::*;
use conductor_patch::{Diff, DiffKind, Document, Format, Limits, diff, diff_bytes};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("diff_patch", patches, run)
        .text(
            "Compare a patch",
            "Compares the patch with its file on disk, with the state in which it was opened, with an earlier revision, or with another file: \
             by meaning, and line by line.",
        )
        .input(input(json!({
            "patch_id*": "id", "against": { "enum": ["disk", "opened", "revision", "file"], "default": "disk" },
            "revision": { "type": "integer", "description": "The revision to compare with, if `against` is revision" },
            "path": { "type": "string", "minLength": 1, "maxLength": 4096, "description": "The file to compare with, if `against` is file" },
            "context": { "type": "integer", "minimum": 0, "maximum": 20, "default": 3 },
        })))
        .output(body(json!({
            "changes": [{ "kind": "text", "subject": "text", "before?": "text", "after?": "text" }], "text_diff": "text", "added": "int",
            "removed": "int", "changed": "int", "identical": "bool", "truncated?": "bool",
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let found = compare(asked, scene)?;
        let count = |kinds: &[DiffKind]| found.count(kinds);
        let (text, cut) = answer::cut_diff(found.text.clone());
        let rows = found.changes.iter().map(|it| {
            answer::object(
                json!({ "kind": it.kind.name(), "subject": it.subject, "before": it.before, "after": it.after }),
            )
        });
        let (changes, more) = answer::page(rows, 0, usize::MAX);
        let mut members = json!({
            "changes": changes,
            "text_diff": text,
            "added": count(&[DiffKind::BoxAdded, DiffKind::CordAdded]),
            "removed": count(&[DiffKind::BoxRemoved, DiffKind::CordRemoved]),
            "changed": count(&[
                DiffKind::TextChanged,
                DiffKind::Moved,
                DiffKind::Renamed,
                DiffKind::AttributesChanged,
                DiffKind::CordChanged,
            ]),
            "identical": found.identical,
        });
        if cut || more.is_some() {
            members["truncated"] = json!(true);
        }
        Ok(members)
    })
}

fn compare(asked: &Asked, scene: &Scene<'_>) -> Result<Diff, ToolError> {
    let arguments = asked.arguments();
    let (now, context) = (scene.patch.document(), arguments.count("context", 3));
    let folders = asked.patches.folders();
    match arguments.text("against") {
        Some("opened") => Ok(diff(scene.opened(), now, context)),
        Some("revision") => {
            let wanted = arguments.get("revision").ok_or_else(|| {
                bad("revision", "revision is missing")
                    .hint("Give the revision to compare with; earlier results contain it.")
            })?;
            let before = wanted.as_u64().and_then(|it| scene.patch.at_revision(it)).ok_or_else(|| {
                ToolError::new(Code::NotFound, format!("revision {wanted} is no longer stored"))
                    .hint(format!("The patch is at revision {}; only the newest steps are kept.", scene.revision()))
            })?;
            Ok(diff(&before, now, context))
        }
        Some("file") => {
            let path = arguments
                .text("path")
                .ok_or_else(|| bad("path", "path is missing").hint("Give the path of the file to compare with."))?;
            let place = folders.place(path)?;
            Ok(against(folders.read(&place)?, place.format(), now, context))
        }
        Some(_) | None => {
            let place = scene.place().ok_or_else(|| {
                ToolError::new(Code::NotFound, "this patch has no file yet")
                    .hint("Compare against \"opened\", or save it first.")
            })?;
            Ok(against(folders.read(place)?, place.format(), now, context))
        }
    }
}

/// A file that cannot be read as a patch can still be compared line by line.
fn against(bytes: Vec<u8>, format: Format, now: &Document, context: usize) -> Diff {
    match Document::open(bytes.clone(), format, &Limits::default()) {
        Ok(before) if format.is_pd() == now.format().is_pd() => diff(&before, now, context),
        Ok(_) | Err(_) => diff_bytes(&bytes, &now.to_bytes(), context),
    }
}
