//! `live_render_track`: writes the audio of a track to a file, without the effect of its mixer and
//! devices.

use super::prelude::*;
use conductor_hosts::live::document::Rendered;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// Audio track id, such as track:2.
    track_id: Id,
    /// First beat.
    #[schemars(range(min = 0))]
    start_beat: f64,
    /// End beat (exclusive); must be after startBeat.
    #[schemars(range(min = 0))]
    end_beat: f64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// The requested track.
    track_id: PathId,
    #[serde(flatten)]
    rendered: Rendered,
    /// What the file does not contain.
    note: &'static str,
    /// Always 0, because the Set does not change.
    undo_steps: u32,
    /// The revision of the Set.
    revision: String,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_render_track", Tier::Stateful, run)
        .text(
            "Render track",
            "Writes the audio of one audio track between two beats to a new WAV file, before its mixer and devices. Needs arrangement \
             clips that are not warped and not transposed, and a constant tempo; samples must be in the allowed folders. Nothing in the \
             Set changes.",
        )
        .idempotent()
}

async fn run(ask: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<Answer, ToolError> {
    set.needs(Op::RenderTrack).map_err(refused)?;
    let track_id = args.track_id.path()?;
    let document = set.file().map_err(refused)?;
    let (roots, folder) = (ask.live.roots().clone(), ask.live.settings().render_dir.clone());
    let render = move || document.render(&roots, &folder, track_id, args.start_beat, args.end_beat);
    let rendered = blocking(render).await.map_err(refused)?;
    let note = "pre-FX: the track's mixer and devices are not applied";
    Ok(Answer { track_id, rendered, note, undo_steps: 0, revision: set.host.state().revision })
}
