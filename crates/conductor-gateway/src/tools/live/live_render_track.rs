//! `live_render_track`: bounces an audio track to a file, before its mixer and devices.

use super::prelude::*;

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_render_track", Tier::Stateful, |mut ask, set| async move {
        set.needs(Op::RenderTrack).map_err(refused)?;
        let track = ask.id("trackId")?;
        let (start, end): (f64, f64) = (ask.need("startBeat")?, ask.need("endBeat")?);
        let document = set.file().map_err(refused)?;
        let (roots, folder) = (ask.live.roots().clone(), ask.live.settings().render_dir.clone());
        let done = blocking(move || document.render(&roots, &folder, track, start, end)).await.map_err(refused)?;
        Ok(Output::new(json!({
            "trackId": track, "track": done.track, "path": done.path, "note": "pre-FX: the track's mixer and devices are not applied",
            "seconds": done.seconds, "sampleRate": done.sample_rate, "peak": done.peak, "undoSteps": 0, "revision": set.host.state().revision,
        })))
    })
    .text(
        "Render track",
        "Writes the audio of one audio track between two beats to a new WAV file, before its mixer and devices. Only arrangement clips that \
         are not warped and not transposed, at a constant tempo; samples must be in the allowed folders. Nothing in the Set changes.",
    )
    .idempotent()
    .input(schema::look(json!({
        "trackId": schema::id("Audio track id, such as track:2"),
        "startBeat": schema::beats("First beat"),
        "endBeat": schema::beats("End beat (exclusive); must be after startBeat"),
    })))
    .output(object(json!({
        "trackId": text(), "track": text(), "path": text(), "note": text(), "seconds": number(), "sampleRate": integer(), "peak": number(),
        "undoSteps": integer(), "revision": text(),
    })))
}
