//! `live_get_song_overview`: a summary of the Set.

use super::overview;
use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_get_song_overview", |_ask, set| async move { Ok(Output::new(Value::Object(overview(&set).await?))) })
        .text(
            "Get song overview",
            "Returns tempo, scale, grid, counts, revision and the list of tracks (id, name, type) of the current Live Set, without clip \
             contents. Call this tool first, then live_list_clips and live_get_notes.",
        )
        .input(schema::look(json!({})))
        .output(schema::overview())
}
