//! `diff_patch`: compares a patch with an earlier state or with another file.

use super::argument::FilePath;
use super::prelude::*;
use conductor_patch::{Diff, DiffKind, Document, Format, Limits, diff, diff_bytes};

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// State to compare with.
    #[serde(default)]
    against: Against,
    /// The revision to compare with, if `against` is revision.
    revision: Option<i64>,
    /// The file to compare with, if `against` is file.
    path: Option<FilePath>,
    /// Number of unchanged lines around each change.
    #[serde(default = "argument::count::<3>")]
    #[schemars(range(max = 20))]
    context: usize,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Against {
    #[default]
    Disk,
    Opened,
    Revision,
    File,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Differences in objects and cords.
    changes: Vec<Change>,
    /// Differences line by line, as a unified diff.
    text_diff: String,
    /// Number of added objects and cords.
    added: usize,
    /// Number of removed objects and cords.
    removed: usize,
    /// Number of changed objects and cords.
    changed: usize,
    /// Whether the bytes are the same.
    identical: bool,
    /// True if the changes or the diff were truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Change {
    /// Kind of change.
    kind: &'static str,
    /// The object or cord.
    subject: String,
    /// State before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// State after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("diff_patch", patches, run).text(
        "Compare a patch",
        "Compares the patch with its file on disk, with the state in which it was opened, with an earlier revision, or with another file: \
         by meaning, and line by line.",
    )
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    asked.look(&asked.args.patch_id, |scene| {
        let found = compare(asked, scene)?;
        let added = found.count(&[DiffKind::BoxAdded, DiffKind::CordAdded]);
        let removed = found.count(&[DiffKind::BoxRemoved, DiffKind::CordRemoved]);
        let changed = found.count(&[
            DiffKind::TextChanged,
            DiffKind::Moved,
            DiffKind::Renamed,
            DiffKind::AttributesChanged,
            DiffKind::CordChanged,
        ]);
        let rows = found.changes.into_iter().map(|it| Change {
            kind: it.kind.name(),
            subject: it.subject,
            before: it.before,
            after: it.after,
        });
        let (changes, more) = answer::page(rows, 0, usize::MAX);
        let (text_diff, cut) = answer::cut_diff(found.text);
        let truncated = cut || more.is_some();
        Ok(Answer { changes, text_diff, added, removed, changed, identical: found.identical, truncated })
    })
}

fn compare(asked: &Asked<Args>, scene: &Scene<'_>) -> Result<Diff, ToolError> {
    let Args { against, revision, path, context, .. } = &asked.args;
    let (now, context) = (scene.patch.document(), *context);
    let folders = asked.patches.folders();
    match against {
        Against::Opened => Ok(diff(scene.opened(), now, context)),
        Against::Revision => {
            let wanted = revision.ok_or_else(|| {
                bad("revision", "revision is missing")
                    .hint("Give the revision to compare with; earlier results contain it.")
            })?;
            let before = u64::try_from(wanted).ok().and_then(|it| scene.patch.at_revision(it)).ok_or_else(|| {
                ToolError::new(Code::NotFound, format!("revision {wanted} is no longer stored"))
                    .hint(format!("The patch is at revision {}; only the newest steps are kept.", scene.revision()))
            })?;
            Ok(diff(&before, now, context))
        }
        Against::File => {
            let path = path
                .as_deref()
                .ok_or_else(|| bad("path", "path is missing").hint("Give the path of the file to compare with."))?;
            let place = folders.place(path)?;
            Ok(compare_file(folders.read(&place)?, place.format(), now, context))
        }
        Against::Disk => {
            let place = scene.place().ok_or_else(|| {
                ToolError::new(Code::NotFound, "this patch has no file yet")
                    .hint("Compare against \"opened\", or save it first.")
            })?;
            Ok(compare_file(folders.read(place)?, place.format(), now, context))
        }
    }
}

/// A file that cannot be read as a patch can still be compared line by line.
fn compare_file(bytes: Vec<u8>, format: Format, now: &Document, context: usize) -> Diff {
    match Document::open(bytes.clone(), format, &Limits::default()) {
        Ok(before) if format.is_pd() == now.format().is_pd() => diff(&before, now, context),
        Ok(_) | Err(_) => diff_bytes(&bytes, &now.to_bytes(), context),
    }
}
