//! `live_get_track`: everything about one track, for clients that do not read resources. The
//! resource `ableton://track/{i}` mirrors it.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_get_track", |mut ask, set| async move {
        let track = ask.id("trackId")?;
        to_output(&set.host.track_detail(track).await.map_err(refused)?)
    })
    .text(
        "Get track",
        "Returns one track in full: every slot and arrangement clip with its properties, its devices, and the parameters of devices and mixer \
         with ids for live_set_param. At most 400 clips and 400 parameters; if there are more, `truncated` is true and `totals` has the \
         numbers.",
    )
    .input(schema::look(json!({ "trackId": schema::id("Track id, such as track:2") })))
    .output(object(json!({
        "trackId": text(), "clips": list(object(schema::clip_info_members())), "params": list(schema::param()),
        "devices": list(object(json!({ "id": text(), "name": text(), "className": text(), "paramIds": list(text()) }))),
        "mixer": list(schema::param()), "truncated?": boolean(),
        "unknown?": list(text()), "totals?": object(json!({ "clips": integer(), "params": integer() })),
    })))
}
