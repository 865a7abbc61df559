//! `live_set_tempo`: sets the tempo of the Set.

use super::SetOverview;
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Beats per minute, 20 to 999.
    #[schemars(range(min = 20, max = 999))]
    bpm: f64,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    editing::<Args, SetOverview>(live, "live_set_tempo", |args| Ok(LiveEdit::SetTempo { bpm: args.bpm }))
    .text(
        "Set tempo",
        "Sets the tempo in beats per minute. One undo step. Returns the overview after the write. Refused if the tempo of the Set is \
         automated.",
    )
    .idempotent()
}
