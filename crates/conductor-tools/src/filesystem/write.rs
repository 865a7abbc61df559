//! `filesystem.write`: writes a file atomically. The old content is kept for an undo.

use super::undo::{Was, keep};
use super::{Asked, At, Encoding, expected, over, undoable};
use crate::prelude::*;
use conductor_core::digest::Digest;
use conductor_hosts::files::Files;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    at: At,
    /// The new content of the file
    content: String,
    /// How `content` is written
    #[serde(default)]
    encoding: Encoding,
    /// Change only if the file has this hash, or "absent" if nothing is there
    #[schemars(length(max = 71))]
    expected_hash: Option<String>,
    /// Create missing parent folders
    #[serde(default)]
    create_dirs: bool,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Relative to the root
    path: String,
    /// In bytes
    size: usize,
    /// Hash of the new content
    hash: String,
    /// Whether there was no file before
    created: bool,
    /// A person undoes the change with `conductor plans undo`
    undo_id: String,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    let definition = over("filesystem.write", Tier::HardwareIo, files, run)
        .text(
            "Write file",
            "Writes a file under a granted folder atomically and keeps its mode. A person must approve each call and sees the \
             present content; if the content changes before the write, nothing is written. The old content is kept: a person can \
             undo the write with undo_id.",
        )
        .idempotent()
        .summary(with_args(|args: &Args| format!("write {} bytes to {}", args.content.len(), args.at.shown())));
    undoable(definition, files)
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let Args { at, content, encoding, expected_hash, create_dirs } = &asked.args;
    let bytes = encoding.read(content)?;
    let place = at.place(&asked.files)?;
    place.writable()?;
    let before = place.present()?;
    expected(expected_hash.as_deref(), before.as_ref().map(|it| Digest::of(&it.bytes)), &place.inside())?;
    let hash = Digest::of(&bytes);
    // Store the old content before changing anything.
    let undo = keep(asked, &place, before.as_ref().map_or(Was::Nothing, |it| Was::File(&it.bytes)), Some(hash))?;
    if let Err(fault) = place.replace(&bytes, before.as_ref(), *create_dirs, &undo.to_string()) {
        super::undo::forget(asked, undo);
        return Err(fault.into());
    }
    Ok(Answer {
        path: place.inside(),
        size: bytes.len(),
        hash: hash.to_string(),
        created: before.is_none(),
        undo_id: undo.to_string(),
    })
}
