//! `live_open_set`: opens a file and makes it the caller's current Set.

use super::prelude::*;
use super::{HOST, SetOverview, overview};
use std::path::PathBuf;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Path of a .als file.
    #[schemars(length(min = 1))]
    path: Option<PathBuf>,
    /// How to attach a running Live.
    host: Option<Host>,
    /// Read the file again and drop unsaved edits.
    #[serde(default)]
    reload: bool,
}

/// The ways to reach a running Live.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Host {
    AbletonOsc,
    Script,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    tool("live_open_set", Tier::Stateful, TOOLSET, live, run)
        .text(
            "Open Set",
            "Opens a .als file (`path`, absolute or relative to the home's sets folder) or attaches a running Live (`host`) and makes it \
             your current Set. Give exactly one of the two. An open file is not opened twice. reload: true reads the file again; unsaved \
             edits are lost.",
        )
        .idempotent()
}

async fn run(live: Arc<Live>, cx: Context, args: Args) -> Result<SetOverview, ToolError> {
    let ask = Ask::new(live, cx);
    let set = match (args.path, args.host) {
        (Some(path), None) => ask.live.open(&ask.key, &path).await.map_err(refused)?,
        (None, Some(Host::AbletonOsc)) => ask.live.attach_osc(&ask.key).await.map_err(refused)?,
        (None, Some(Host::Script)) => ask.live.attach_script(&ask.key).await.map_err(refused)?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(ToolError::new(Code::BadInput, "give exactly one of path and host")
                .hint("Pass path for a .als file, or host for a running Live."));
        }
    };
    if args.reload {
        let turn = set.lane.enter().await.map_err(refused)?;
        set.file().map_err(refused)?.reload(turn).await.map_err(refused)?;
        ask.live.sessions(|sessions| sessions.shifted(&set.id));
        ask.notify(&set, &[], true);
    }
    ask.studio.events.uri_changed("ableton://sets");
    ask.studio.circuits.reset_host(&ask.studio.catalog(), HOST);
    set.host.refresh().await.map_err(refused)?;
    let structure = set.host.state().structure;
    let answer = overview(&set).await?;
    ask.live.saw(&ask.key, &set, structure);
    Ok(answer)
}
