//! `live_create_track`: adds a new track at the end.

use super::prelude::*;
use conductor_set::{TrackInfo, TrackKind};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Kind of track.
    kind: Kind,
}

/// The kinds of tracks that can be created.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Midi,
    Audio,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    editing::<Args, TrackInfo>(live, "live_create_track", |args| {
        let kind = match args.kind {
            Kind::Midi => TrackKind::Midi,
            Kind::Audio => TrackKind::Audio,
        };
        Ok(LiveEdit::CreateTrack { kind })
    })
    .text(
        "Create track",
        "Adds an empty MIDI or audio track after the last track. One undo step. Use live_set_track_props with the returned id to name \
         it.",
    )
}
