//! `live_new_set`: creates a file from a given template or from the built-in template.

use super::prelude::*;
use super::{HOST, SetOverview, overview};
use std::path::PathBuf;

const UNTESTED: &str = "the Set was created from the built-in template, which has not been tested in a running Live; a template saved by Live is safer";

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Path of the new file; ends in .als; absolute, or relative to the home's sets folder.
    #[schemars(length(min = 1))]
    path: PathBuf,
    /// Path of a .als file to copy.
    #[schemars(length(min = 1))]
    template: Option<PathBuf>,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    tool("live_new_set", Tier::Stateful, TOOLSET, live, run).text(
        "New Set",
        "Creates a new .als file and opens it as your current Set: a copy of `template`, or by default a Set with one MIDI and one \
         audio track, two returns, eight scenes and 120 BPM. Refuses a path that exists.",
    )
}

async fn run(live: Arc<Live>, cx: Context, args: Args) -> Result<SetOverview, ToolError> {
    let ask = Ask::new(live, cx);
    let skeleton = args.template.is_none() && ask.live.settings().template_set.is_none();
    let set = ask.live.create(&ask.key, &args.path, args.template.as_deref()).await.map_err(refused)?;
    ask.studio.events.uri_changed("ableton://sets");
    ask.studio.circuits.reset_host(&ask.studio.catalog(), HOST);
    let mut answer = overview(&set).await?;
    if skeleton {
        answer.song.warnings.push(UNTESTED.to_owned());
    }
    Ok(answer)
}
