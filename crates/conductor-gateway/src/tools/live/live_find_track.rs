//! `live_find_track`: finds tracks by name.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_find_track", |mut ask, set| async move {
        let found = set.host.find_track(ask.need("query")?).await.map_err(refused)?;
        to_output(&found)
    })
    .text(
        "Find track",
        "Ids of the tracks whose name contains the query, whatever its case. Nothing found is an answer (count 0), not an error; then \
         live_get_song_overview shows every name.",
    )
    .input(schema::look(json!({ "query": schema::id("Track name or a part of it") })))
    .output(schema::object(json!({ "matches": schema::list(schema::track_row()), "count": schema::integer() })))
}
