//! `filesystem.delete`: deletes a file or an empty folder. The content is kept for an undo.

use super::undo::{Was, keep};
use super::{Asked, At, at_schema, expected, hash_schema, over, undo_schema, undoable};
use crate::tools::catalog::Definition;
use crate::tools::schema_builder::{object, text};
use conductor_core::digest::Digest;
use conductor_core::error::ToolError;
use conductor_core::policy::Tier;
use conductor_hosts::files::{FileError, Files, Kind};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Deserialize)]
struct Arguments {
    #[serde(flatten)]
    at: At,
    expected_hash: Option<String>,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    let mut definition = over("filesystem.delete", Tier::HardwareIo, files, run)
        .text(
            "Delete file",
            "Deletes a file or an empty folder under a granted folder. A person must approve each call. The content is kept: a person can \
             undo the deletion with undo_id.",
        )
        .input(at_schema(json!({ "expected_hash?": hash_schema() })))
        .output(object(json!({ "path": text(), "undo_id": undo_schema() })))
        .summary(|arguments| format!("delete {}", At::shown(arguments)));
    definition.grantable = false;
    undoable(definition, files)
}

fn run(asked: &Asked<Arguments>) -> Result<Value, ToolError> {
    let Arguments { at, expected_hash } = &asked.arguments;
    let place = at.place(&asked.files)?;
    place.writable()?;
    let (kind, ..) = place.kind()?;
    if kind == Kind::Folder {
        let undo = keep(asked, &place, Was::Folder, None)?;
        if let Err(fault) = place.remove_folder() {
            super::undo::forget(asked, undo);
            return Err(fault.into());
        }
        return Ok(json!({ "path": place.inside(), "undo_id": undo.to_string() }));
    }
    let before = place.present()?.ok_or_else(|| FileError::Missing { path: place.inside() })?;
    expected(expected_hash.as_deref(), Some(Digest::of(&before.bytes)), &place.inside())?;
    let undo = keep(asked, &place, Was::File(&before.bytes), None)?;
    if let Err(fault) = place.remove_file(&before) {
        super::undo::forget(asked, undo);
        return Err(fault.into());
    }
    Ok(json!({ "path": place.inside(), "undo_id": undo.to_string() }))
}
