//! `render_patch`: draws a picture of a patch for a model.

use super::prelude::*;
use base64::Engine;
use conductor_gateway::catalog::resource::percent_encode;
use conductor_gateway::catalog::typed::WithContent;
use conductor_gateway::pipeline::call::Content;
use conductor_hosts::picture::patch::{Labels, Options, draw};

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// Image format. Most models read png only.
    #[serde(default)]
    format: ImageFormat,
    /// Mode of the patch to draw.
    #[serde(default)]
    view: View,
    /// Label next to each object.
    #[serde(default)]
    labels: Label,
    /// Objects to highlight.
    #[schemars(length(min = 1, max = 2000))]
    highlight: Option<Vec<ObjectRef>>,
    /// Maximum width and height in pixels.
    #[serde(default = "max_size")]
    #[schemars(range(min = 64, max = 4096))]
    max_size: u32,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ImageFormat {
    #[default]
    Png,
    Svg,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum View {
    #[default]
    Patching,
    Presentation,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Label {
    #[default]
    None,
    Index,
    Varname,
}

fn max_size() -> u32 {
    1568
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Width of the picture in pixels.
    width: u32,
    /// Height of the picture in pixels.
    height: u32,
    /// Pixels of the picture per pixel of the patch.
    scale: f64,
    /// The requested view: patching or presentation.
    view: View,
    /// Number of texts that were left out.
    omitted: usize,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = read("render_patch", patches, run).text(
        "Picture of a patch",
        "Draws a patch: objects, text, cords (signal cords striped). Use it to check your edits. Text that is too small to read is left \
         out and counted in `omitted`. A subpatcher is drawn with its own patch_id.",
    );
    definition.max_result_bytes = 8 << 20;
    definition
}

fn run(asked: &Asked<Args>) -> Result<WithContent<PatchAnswer<Answer>>, ToolError> {
    let Args { patch_id, format, view, labels, highlight, max_size } = &asked.args;
    let (answer, picture) = asked.patches.look(patch_id, |scene| {
        let options = Options {
            presentation: *view == View::Presentation,
            locked: scene.patch.locked(),
            labels: match labels {
                Label::None => Labels::None,
                Label::Index => Labels::Index,
                Label::Varname => Labels::Varname,
            },
            highlight: argument::objects(highlight.as_deref().unwrap_or_default(), scene)?,
            max_size: *max_size,
        };
        let drawn = draw(&scene.view, &options);
        let (width, height) = (drawn.picture.width, drawn.picture.height);
        let body = Answer { width, height, scale: drawn.scale, view: *view, omitted: drawn.omitted };
        Ok((PatchAnswer::new(scene, body), drawn.picture))
    })?;
    let content = match format {
        // Model APIs refuse SVG as an image. Send it as a resource, which a client can show.
        ImageFormat::Svg => {
            let uri = format!("patch://{}/picture.svg", percent_encode(&answer.patch_id));
            Content::Resource { uri, mime: "image/svg+xml".into(), text: picture.to_svg() }
        }
        ImageFormat::Png => {
            let bytes = picture.to_png().map_err(|fault| ToolError::new(Code::Internal, fault.to_string()))?;
            Content::Image { mime: "image/png".into(), base64: base64::engine::general_purpose::STANDARD.encode(bytes) }
        }
    };
    Ok(WithContent { answer, content: vec![content] })
}
