//! `live_open_set`: opens a file and makes it the caller's current Set.

use super::prelude::*;
use super::{HOST, overview};
use std::path::PathBuf;

pub fn definition(live: &Arc<Live>) -> Definition {
    on_files(live, "live_open_set", |mut ask| async move {
        let (path, host): (Option<PathBuf>, Option<String>) = (ask.take("path")?, ask.take("host")?);
        let set = match (path, host) {
            (Some(path), None) => ask.live.open(&ask.key, &path).await.map_err(refused)?,
            (None, Some(host)) if host == "abletonosc" => ask.live.attach_osc(&ask.key).await.map_err(refused)?,
            (None, Some(_)) => ask.live.attach_script(&ask.key).await.map_err(refused)?,
            (Some(_), Some(_)) | (None, None) => {
                return Err(ToolError::new(Code::BadInput, "give exactly one of path and host").hint("Pass path for a .als file, or host for a running Live."));
            }
        };
        if ask.take("reload")?.unwrap_or(false) {
            let turn = set.lane.enter().await.map_err(refused)?;
            set.file().map_err(refused)?.reload(turn).await.map_err(refused)?;
            ask.live.sessions(|sessions| sessions.shifted(&set.id));
            ask.notify(&set, &[], true);
        }
        ask.studio.events.uri_changed("ableton://sets");
        ask.studio.circuits.reset_host(&ask.studio.catalog(), HOST);
        set.host.refresh().await.map_err(refused)?;
        let structure = set.host.state().structure;
        let value = overview(&set).await?;
        ask.live.saw(&ask.key, &set, structure);
        Ok(Output::new(Value::Object(value)))
    })
    .text(
        "Open Set",
        "Opens a .als file (`path`, absolute or relative to the home's sets folder) or attaches a running Live (`host`) and makes it your \
         current Set. Give exactly one of the two. An open file is not opened twice. reload: true reads the file again; unsaved edits are \
         lost.",
    )
    .idempotent()
    .input(schema::object(json!({
        "path?": schema::id("Path of a .als file"),
        "host?": { "type": "string", "enum": ["abletonosc", "script"], "description": "How to attach a running Live" },
        "reload?": schema::said("Read the file again and drop unsaved edits", schema::boolean()),
    })))
    .output(schema::overview())
}
