//! `render_patch`: a picture of a patch for a model.

use super::prelude::*;
use crate::pipeline::call::Content;
use crate::tools::resource::percent_encode;
use base64::Engine;
use conductor_hosts::picture::patch::{Labels, Options, draw};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = read("render_patch", patches, run)
        .text(
            "Picture of a patch",
            "Draws a patch: objects, text, cords (signal cords striped). Use it to check your edits. Text that is too small to read is left \
             out and counted in `omitted`. A subpatcher is drawn with its own patch_id.",
        )
        .input(input(json!({
            "patch_id*": "id", "format": { "enum": ["png", "svg"], "default": "png" },
            "view": { "enum": ["patching", "presentation"], "default": "patching" },
            "labels": { "enum": ["none", "index", "varname"], "default": "none" }, "highlight": "refs",
            "max_size": { "type": "integer", "minimum": 64, "maximum": 4096, "default": 1568 },
        })))
        .output(body(json!({
            "width": "int", "height": "int", "scale": "num", "view": "text", "omitted": "int",
        })));
    definition.max_result_bytes = 8 << 20;
    definition
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let (members, picture) = asked.patches.look(asked.patch_id(), |scene| {
        let highlight = arguments.objects("highlight", scene)?;
        let labels = match arguments.text("labels") {
            Some("index") => Labels::Index,
            Some("varname") => Labels::Varname,
            Some(_) | None => Labels::None,
        };
        let view = arguments.text("view").unwrap_or("patching");
        let drawn = draw(
            &scene.view,
            &Options {
                presentation: view == "presentation",
                locked: scene.patch.locked(),
                labels,
                highlight,
                max_size: arguments.whole("max_size").and_then(|it| u32::try_from(it).ok()).unwrap_or(1568),
            },
        );
        let members = json!({
            "width": drawn.picture.width, "height": drawn.picture.height, "scale": drawn.scale, "view": view,
            "omitted": drawn.omitted,
        });
        Ok((answer::of(scene, members), drawn.picture))
    })?;
    let content = if arguments.text("format") == Some("svg") {
        // Model APIs refuse SVG as an image. As a resource, a client can still show it.
        let uri = format!("patch://{}/picture.svg", percent_encode(members["patch_id"].as_str().unwrap_or_default()));
        Content::Resource { uri, mime: "image/svg+xml".into(), text: picture.to_svg() }
    } else {
        let bytes = picture.to_png().map_err(|fault| ToolError::new(Code::Internal, fault.to_string()))?;
        Content::Image { mime: "image/png".into(), base64: base64::engine::general_purpose::STANDARD.encode(bytes) }
    };
    Ok(Output::new(members).with(content))
}
