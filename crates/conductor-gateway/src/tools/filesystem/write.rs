//! `filesystem.write`: writes a file atomically. The old content is kept for an undo.

use super::undo::{Was, keep};
use super::{Asked, At, Encoding, at_schema, encoding_schema, expected, hash_schema, over, undo_schema, undoable};
use crate::tools::catalog::Definition;
use crate::tools::schema_builder::{boolean, integer, object, text};
use conductor_core::digest::Digest;
use conductor_core::error::ToolError;
use conductor_core::policy::Tier;
use conductor_hosts::files::Files;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Deserialize)]
struct Arguments {
    #[serde(flatten)]
    at: At,
    content: String,
    #[serde(default)]
    encoding: Encoding,
    expected_hash: Option<String>,
    #[serde(default)]
    create_dirs: bool,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    let definition = over("filesystem.write", Tier::HardwareIo, files, run)
        .text(
            "Write file",
            "Writes a file under a granted folder atomically and keeps its mode. A person must approve each call and sees the present \
             content; if it changes meanwhile, nothing is written. The old content is kept: a person can undo the write with undo_id.",
        )
        .input(at_schema(json!({
            "content": { "type": "string" },
            "encoding?": encoding_schema(),
            "expected_hash?": hash_schema(),
            "create_dirs?": { "type": "boolean", "default": false, "description": "Create missing parent folders" },
        })))
        .output(object(json!({
            "path": text(), "size": integer(), "hash": text(), "created": boolean(), "undo_id": undo_schema(),
        })))
        .idempotent()
        .summary(|arguments| {
            let bytes = arguments.get("content").and_then(Value::as_str).map_or(0, str::len);
            format!("write {bytes} bytes to {}", At::shown(arguments))
        });
    undoable(definition, files)
}

fn run(asked: &Asked<Arguments>) -> Result<Value, ToolError> {
    let Arguments { at, content, encoding, expected_hash, create_dirs } = &asked.arguments;
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
    Ok(json!({
        "path": place.inside(), "size": bytes.len(), "hash": hash.to_string(), "created": before.is_none(), "undo_id": undo.to_string(),
    }))
}
