//! `live_list_scenes`: lists scenes and locators.

use super::prelude::*;
use conductor_set::Scenes;

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_list_scenes", Tier::ReadOnly, run).text(
        "List scenes",
        "Lists the scenes of the Set (name, own tempo and time signature if any, whether the row is empty) and the locators of the \
         arrangement by time.",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, _: NoArgs) -> Result<Scenes, ToolError> {
    set.host.scenes().await.map_err(refused)
}
