//! `live_set_track_props`: sets the name and the switches of a track.

use super::prelude::*;
use conductor_set::{TrackProps, TrackState};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Track id, such as track:2.
    track_id: Id,
    /// The properties to set, at least one.
    props: TrackProps,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    editing::<Args, TrackState>(live, "live_set_track_props", |args| {
        Ok(LiveEdit::SetTrackProps { track_id: args.track_id.path()?, props: args.props })
    })
    .text(
        "Set track properties",
        "Sets name, mute, solo and arm of one track, at least one of them, in one undo step; properties that are not given do not \
         change. Returns the track after the write.",
    )
    .idempotent()
}
