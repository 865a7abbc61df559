//! `live_render_clip`: draws a clip as a picture.

use super::prelude::*;
use base64::Engine;
use conductor_gateway::catalog::typed::WithContent;
use conductor_gateway::pipeline::call::Content;
use conductor_hosts::picture::piano_roll::ClipDrawing;
use conductor_set::Resource;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// MIDI clip id from live_list_clips.
    clip_id: Id,
    /// Format of the picture; default png.
    format: Option<Format>,
    /// Width in pixels; default 1200.
    #[schemars(range(min = 320, max = 4096))]
    width: Option<u32>,
}

/// The format of a picture.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Png,
    Svg,
}

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_render_clip", Tier::ReadOnly, run).text(
        "Render clip",
        "Draws the notes of one MIDI clip as a piano roll: keys, beat grid, loop, notes coloured by velocity, muted notes outlined. \
         Returns a PNG image, or an SVG text resource.",
    )
}

async fn run(_: Arc<Ask>, set: Arc<LiveSet>, args: Args) -> Result<WithContent<ClipDrawing>, ToolError> {
    let clip = args.clip_id.path()?;
    let drawn = set.host.draw_clip(clip, args.width.unwrap_or(1200)).await.map_err(refused)?;
    let content = match args.format {
        // Model APIs refuse SVG as an image. Send it as a resource, which a client can show.
        Some(Format::Svg) => {
            let uri = Resource::ClipNotes(clip).uri();
            Content::Resource { uri, mime: "image/svg+xml".into(), text: drawn.picture.to_svg() }
        }
        Some(Format::Png) | None => {
            let bytes = drawn.picture.to_png().map_err(|fault| ToolError::new(Code::Internal, fault.to_string()))?;
            let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
            Content::Image { mime: "image/png".into(), base64 }
        }
    };
    Ok(WithContent { answer: drawn, content: vec![content] })
}
