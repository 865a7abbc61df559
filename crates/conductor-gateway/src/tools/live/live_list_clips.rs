//! `live_list_clips`: the slots and arrangement clips of a track.

use super::prelude::*;
use super::schema::clip_kind;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_list_clips", |mut ask, set| async move {
        let (track, offset) = (ask.id("trackId")?, ask.take("offset")?.unwrap_or(0));
        to_output(&set.host.clips(track, offset).await.map_err(refused)?)
    })
    .text(
        "List clips",
        "Lists the session slots (including empty slots) and arrangement clips of one track, each with its id, name and kind. Up to 400 of \
         each; if nextOffset is present, there are more. Use a clip id with live_get_notes, and an empty slot id with live_create_midi_clip.",
    )
    .input(schema::look(json!({ "trackId": schema::id("Track id, such as track:2"), "offset?": schema::offset() })))
    .output(object(json!({
        "trackId": text(),
        "session": list(object(json!({ "slotId": text(), "clipId": nullable(text()), "name": nullable(text()), "kind": clip_kind() }))),
        "arrangement": list(object(json!({
            "clipId": text(), "name": text(), "startBeat": number(), "endBeat": number(), "kind": clip_kind(),
        }))),
        "truncated?": schema::boolean(), "nextOffset?": integer(), "warnings?": list(text()),
    })))
}
