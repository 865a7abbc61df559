//! `live_find_track`: finds tracks by name.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_find_track", |mut ask, set| async move {
        let found = set.host.find_track(ask.need("query")?).await.map_err(refused)?;
        to_output(&found)
    })
    .text(
        "Find track",
        "Returns the ids of the tracks whose name contains the query; case is ignored. If nothing is found, `count` is 0 and there is no \
         error; live_get_song_overview lists all names.",
    )
    .input(schema::look(json!({ "query": schema::id("Track name or a part of it") })))
    .output(schema::object(json!({ "matches": schema::list(schema::track_row()), "count": schema::integer() })))
}
