//! `live_save_set`: writes the file and keeps a backup of the old one.

use super::prelude::*;
use super::{OnSet, state_hash};
use conductor_hosts::live::document::{Saved, Saving};
use std::path::PathBuf;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Path of another .als file, which becomes the current file.
    #[schemars(length(min = 1))]
    path: Option<PathBuf>,
    /// Replace an existing file, or a file that another program changed.
    #[serde(default)]
    overwrite: bool,
    /// Write nothing and fail if the Set has another revision.
    expect_revision: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// Id of the Set; a new id when the Set was saved to another path.
    set_id: String,
    #[serde(flatten)]
    saved: Saved,
    /// Always false.
    dirty: bool,
    /// Always 0, because a save cannot be undone.
    undo_steps: u32,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    let mut definition = tool("live_save_set", Tier::Stateful, TOOLSET, live, run)
        .text(
            "Save Set",
            "Writes the Set to its file. With `path`, saves a copy there and makes the copy the current file. The old file is kept in \
             the Backup folder next to it; `backup` is its path. To restore it, open that file and save it to the old path with \
             overwrite. Without edits, the bytes do not change. Refuses to replace a file that another program has changed, unless \
             overwrite is true.",
        )
        .idempotent();
    definition.state_hash = Some(state_hash(live));
    definition
}

async fn run(live: Arc<Live>, cx: Context, args: OnSet<Args>) -> Result<Answer, ToolError> {
    let ask = Ask::new(live, cx);
    let set = ask.set(args.set_id.as_deref()).await?;
    let document = set.file().map_err(refused)?;
    let args = args.own;
    let moved = args.path.is_some();
    let saving = Saving {
        roots: ask.live.roots().clone(),
        to: args.path,
        overwrite: args.overwrite,
        expect_revision: args.expect_revision,
        now: ask.studio.timestamp(),
        unique: ask.studio.ids.v4().simple().to_string(),
    };
    let turn = set.lane.enter().await.map_err(refused)?;
    let saved = document.save(turn, saving).await.map_err(refused)?;
    let set = if moved { ask.live.moved(&ask.key, &set, &saved.path) } else { set };
    ask.notify(&set, &[], false);
    Ok(Answer { set_id: set.id.clone(), saved, dirty: false, undo_steps: 0 })
}
