//! `live_save_set`: writes the file and keeps a backup of the old one.

use super::prelude::*;
use conductor_hosts::live::document::Saving;
use std::path::PathBuf;

pub fn definition(live: &Arc<Live>) -> Definition {
    let mut definition = on_files(live, "live_save_set", |mut ask| async move {
        let set = ask.set().await?;
        let document = set.file().map_err(refused)?;
        let to: Option<PathBuf> = ask.take("path")?;
        let saving = Saving {
            roots: ask.live.roots().clone(),
            to: to.clone(),
            overwrite: ask.take("overwrite")?.unwrap_or(false),
            expect_revision: ask.take("expectRevision")?,
            now: ask.studio.timestamp(),
            unique: ask.studio.ids.v4().simple().to_string(),
        };
        let turn = set.lane.enter().await.map_err(refused)?;
        let saved = document.save(turn, saving).await.map_err(refused)?;
        let set = if to.is_some() { ask.live.moved(&ask.key, &set, &saved.path) } else { set };
        ask.notify(&set, &[], false);
        Ok(Output::new(json!({
            "setId": set.id, "path": saved.path, "bytes": saved.bytes, "backup": saved.backup, "revision": saved.revision, "dirty": false,
            "undoSteps": 0,
        })))
    })
    .text(
        "Save Set",
        "Writes the Set to its file. With `path`, saves a copy there and makes the copy the current file. The old file is kept in the Backup \
         folder next to it; `backup` is its path. To restore it, open that file and save it to the old path with overwrite. Without edits, \
         the bytes do not change. Refuses a file that another program changed meanwhile, unless overwrite is true.",
    )
    .idempotent()
    .input(schema::look(json!({
        "path?": schema::id("Path of another .als file, which becomes the current file"),
        "overwrite?": schema::said("Replace an existing file, or a file that another program changed", boolean()),
        "expectRevision?": schema::said("Write nothing and fail if the Set has another revision", text()),
    })))
    .output(object(json!({
        "setId": text(), "path": text(), "bytes": integer(), "backup": nullable(text()), "revision": text(), "dirty": boolean(),
        "undoSteps": integer(),
    })));
    definition.state_hash = Some(super::state_hash(live));
    definition
}
