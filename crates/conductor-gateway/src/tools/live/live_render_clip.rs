//! `live_render_clip`: a clip as a picture.

use super::prelude::*;
use crate::pipeline::call::Content;
use base64::Engine;
use conductor_set::Resource;

const DEFAULT_WIDTH: u32 = 1200;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_render_clip", |mut ask, set| async move {
        let clip = ask.id("clipId")?;
        let width: u32 = ask.take("width")?.unwrap_or(DEFAULT_WIDTH);
        let format: String = ask.take("format")?.unwrap_or_else(|| "png".into());
        let drawn = set.host.draw_clip(clip, width).await.map_err(refused)?;
        let output = to_output(&drawn)?;
        let content = if format == "svg" {
            // Model APIs refuse SVG as an image. As a resource, a client can still show it.
            let uri = Resource::ClipNotes(clip).uri();
            Content::Resource { uri, mime: "image/svg+xml".into(), text: drawn.picture.to_svg() }
        } else {
            let bytes = drawn.picture.to_png().map_err(|fault| ToolError::new(Code::Internal, fault.to_string()))?;
            Content::Image { mime: "image/png".into(), base64: base64::engine::general_purpose::STANDARD.encode(bytes) }
        };
        Ok(output.with(content))
    })
    .text(
        "Render clip",
        "Draws the notes of one MIDI clip as a piano roll: keys, beat grid, loop, notes coloured by velocity, muted notes outlined. Returns a \
         PNG image, or an SVG text resource.",
    )
    .input(schema::look(json!({
        "clipId": schema::id("MIDI clip id from live_list_clips"),
        "format?": { "type": "string", "enum": ["png", "svg"], "description": "Default png" },
        "width?": { "type": "integer", "minimum": 320, "maximum": 4096, "description": "In pixels; default 1200" },
    })))
    .output(object(json!({
        "clipId": text(), "width": integer(), "height": integer(), "pitchRange": nullable(list(integer())), "count": integer(),
    })))
}
