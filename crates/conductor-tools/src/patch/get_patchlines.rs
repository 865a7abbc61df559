//! `get_patchlines`: lists the cords of a patch.

use super::argument::{Page, Xy};
use super::prelude::*;
use conductor_patch::{CordView, layout};
use schemars::{Schema, SchemaGenerator, json_schema};

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// Members of each cord: all, all without style, or only the connection.
    #[serde(default)]
    mode: Mode,
    #[serde(flatten)]
    page: Page,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Full,
    Geometry,
    Connections,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Number of cords in this page.
    count: usize,
    /// The cords.
    patchlines: Vec<Line>,
    /// Number of cords in the patch.
    total: usize,
    /// Offset of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Line {
    /// Name or key of the object at the start.
    src_varname: String,
    /// Key of the object at the start.
    src_id: String,
    /// Outlet at the start.
    outlet: u32,
    /// Name or key of the object at the end.
    dst_varname: String,
    /// Key of the object at the end.
    dst_id: String,
    /// Inlet at the end.
    inlet: u32,
    /// Where the cord starts; null if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "place")]
    start_point: Option<Option<Xy>>,
    /// Where the cord ends; null if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "place")]
    end_point: Option<Option<Xy>>,
    /// Number of corner points.
    #[serde(skip_serializing_if = "Option::is_none")]
    num_midpoints: Option<usize>,
    /// Corner points from start to end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    midpoints: Vec<Xy>,
    /// Whether the cord is hidden when the patch is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<bool>,
    /// Colour, each part from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    color: Option<Color>,
    /// Order among the cords of one outlet.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<i64>,
    /// True if an end has no object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dangling: bool,
}

#[derive(Serialize, JsonSchema)]
struct Color {
    /// Red.
    r: f64,
    /// Green.
    g: f64,
    /// Blue.
    b: f64,
    /// Opacity.
    a: f64,
}

fn place(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [generator.subschema_for::<Xy>(), { "type": "null" }] })
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patchlines", patches, run).text(
        "List cords",
        "Lists the cords of a patch, each with the four values that identify it. A dangling cord has an end without an object.",
    )
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let Args { patch_id, mode, page } = &asked.args;
    asked.look(patch_id, |scene| {
        let all = scene.view.cords().map(|cord| line(&cord, *mode));
        let (patchlines, next_offset) = answer::page(all, page.offset, page.limit);
        Ok(Answer { count: patchlines.len(), patchlines, total: scene.view.cord_count(), next_offset })
    })
}

fn line(cord: &CordView<'_>, mode: Mode) -> Line {
    let (from, to) = (cord.from(), cord.to());
    let geometry =
        (mode != Mode::Connections).then(|| (layout::cord_points(cord).unwrap_or_default(), cord.midpoints()));
    let full = mode == Mode::Full;
    let [r, g, b, a] = cord.color().unwrap_or([0.0, 0.0, 0.0, 1.0]);
    Line {
        src_varname: from.as_ref().map_or(cord.from_name(), |it| it.label()).to_owned(),
        src_id: from.as_ref().map_or(cord.from_name(), |it| it.key()).to_owned(),
        outlet: cord.outlet(),
        dst_varname: to.as_ref().map_or(cord.to_name(), |it| it.label()).to_owned(),
        dst_id: to.as_ref().map_or(cord.to_name(), |it| it.key()).to_owned(),
        inlet: cord.inlet(),
        start_point: geometry.as_ref().map(|(points, _)| points.first().copied().map(Xy::from)),
        end_point: geometry.as_ref().map(|(points, _)| points.last().copied().map(Xy::from)),
        num_midpoints: geometry.as_ref().map(|(_, midpoints)| midpoints.len()),
        midpoints: geometry.into_iter().flat_map(|(_, midpoints)| midpoints).map(Xy::from).collect(),
        hidden: full.then(|| cord.hidden()),
        color: full.then_some(Color { r, g, b, a }),
        order: cord.order().filter(|_| full),
        dangling: cord.dangling(),
    }
}
