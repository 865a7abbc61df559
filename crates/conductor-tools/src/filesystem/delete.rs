//! `filesystem.delete`: deletes a file or an empty folder. The content is kept for an undo.

use super::undo::{Was, keep};
use super::{Asked, At, expected, over, undoable};
use crate::prelude::*;
use conductor_core::digest::Digest;
use conductor_hosts::files::{FileError, Files, Kind};

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    at: At,
    /// Change only if the file has this hash, or "absent" if nothing is there
    #[schemars(length(max = 71))]
    expected_hash: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Relative to the root
    path: String,
    /// A person undoes the change with `conductor plans undo`
    undo_id: String,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    let mut definition = over("filesystem.delete", Tier::HardwareIo, files, run)
        .text(
            "Delete file",
            "Deletes a file or an empty folder under a granted folder. A person must approve each call. The content is kept: a person can \
             undo the deletion with undo_id.",
        )
        .summary(with_args(|at: &At| format!("delete {}", at.shown())));
    definition.grantable = false;
    undoable(definition, files)
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let Args { at, expected_hash } = &asked.args;
    let place = at.place(&asked.files)?;
    place.writable()?;
    let (kind, ..) = place.kind()?;
    if kind == Kind::Folder {
        if let Some(hash) = expected_hash {
            let text = format!("{} is a folder, so it does not have the hash {hash}", place.inside());
            return Err(ToolError::new(Code::StaleReference, text)
                .hint("Nothing was changed. Leave out expected_hash to delete an empty folder.")
                .subject(Subject::Other(place.inside())));
        }
        let undo = keep(asked, &place, Was::Folder, None)?;
        if let Err(fault) = place.remove_folder() {
            super::undo::forget(asked, undo);
            return Err(fault.into());
        }
        return Ok(Answer { path: place.inside(), undo_id: undo.to_string() });
    }
    let before = place.present()?.ok_or_else(|| FileError::Missing { path: place.inside() })?;
    expected(expected_hash.as_deref(), Some(Digest::of(&before.bytes)), &place.inside())?;
    let undo = keep(asked, &place, Was::File(&before.bytes), None)?;
    if let Err(fault) = place.remove_file(&before) {
        super::undo::forget(asked, undo);
        return Err(fault.into());
    }
    Ok(Answer { path: place.inside(), undo_id: undo.to_string() })
}
