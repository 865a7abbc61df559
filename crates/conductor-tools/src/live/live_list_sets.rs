//! `live_list_sets`: lists the open Sets, and the hosts that can be reached. The resource
//! `ableton://sets` returns the same.

use super::Identity;
use super::prelude::*;
use conductor_hosts::live::LiveSet;

/// The open Sets and the hosts.
#[derive(Serialize, JsonSchema)]
struct Sets {
    /// The open Sets.
    sets: Vec<SetRow>,
    /// Ways to reach a running Live.
    hosts: Vec<HostRow>,
}

/// An open Set.
#[derive(Serialize, JsonSchema)]
struct SetRow {
    #[serde(flatten)]
    identity: Identity,
    /// The revision of the Set.
    revision: String,
}

/// A way to reach a running Live.
#[derive(Serialize, JsonSchema)]
struct HostRow {
    /// Name of the host.
    name: &'static str,
    /// attached, ready or absent.
    state: &'static str,
    /// Why the host is absent, if known.
    reason: Option<String>,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    tool("live_list_sets", Tier::ReadOnly, TOOLSET, live, run).text(
        "List Sets",
        "Lists the open Live Sets with their setId, file, revision and whether they have unsaved edits, and the hosts that can be \
         reached.",
    )
}

async fn run(live: Arc<Live>, _: Context, _: NoArgs) -> Result<Sets, ToolError> {
    let row = |set: &Arc<LiveSet>| SetRow { identity: Identity::of(set), revision: set.host.state().revision };
    let sets = live.sets().iter().map(row).collect();
    let hosts = live.hosts().await.into_iter();
    let hosts = hosts.map(|(name, state, reason)| HostRow { name, state, reason }).collect();
    Ok(Sets { sets, hosts })
}
