//! `live_render_clip`: a clip as a picture.

use super::{reading, refused, schema, to_object};
use crate::hosts::live::Live;
use crate::pipeline::call::{Content, Output};
use crate::tools::catalog::Definition;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_set::Resource;
use schema::{integer, list, nullable, object, text};
use serde_json::{Value, json};
use std::sync::Arc;

const DEFAULT_WIDTH: u32 = 1200;

pub fn definition(live: &Arc<Live>) -> Definition {
    reading(live, "live_render_clip", |mut ask, set| async move {
        let clip = ask.id("clipId")?;
        let width: u32 = ask.take("width")?.unwrap_or(DEFAULT_WIDTH);
        let format: String = ask.take("format")?.unwrap_or_else(|| "svg".into());
        let drawing = set.host.draw_clip(clip, width).await.map_err(refused)?;
        if format == "png" {
            return Err(ToolError::new(Code::Unsupported, "this build has no painter of pixels")
                .hint("Call live_render_clip with format svg, or open the SVG elsewhere; any host can.")
                .subject(Subject::Argument("format".into())));
        }
        let value = Value::Object(to_object(&drawing)?);
        let uri = Resource::ClipNotes(clip).uri();
        Ok(Output::new(value).with(Content::Resource { uri, mime: "image/svg+xml".into(), text: drawing.svg }))
    })
    .text(
        "Render clip",
        "Draws the notes of one MIDI clip as a piano roll: keys, beat grid, notes coloured by velocity, muted ones outlined, the loop. Gives an \
         SVG text resource.",
    )
    .input(schema::look(json!({
        "clipId": schema::id("MIDI clip id from live_list_clips"),
        "format?": { "type": "string", "enum": ["png", "svg"], "description": "Default svg" },
        "width?": { "type": "integer", "minimum": 320, "maximum": 4096, "description": "In pixels; default 1200" },
    })))
    .output(object(json!({
        "clipId": text(), "width": integer(), "height": integer(), "pitchRange": nullable(list(integer())), "count": integer(),
    })))
}
