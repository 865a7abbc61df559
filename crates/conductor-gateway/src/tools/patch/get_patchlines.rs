//! `get_patchlines`: the cords of a patch.

use super::prelude::*;
use conductor_patch::{CordView, layout};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patchlines", patches, run)
        .text(
            "List cords",
            "Lists the cords of a patch, each with the four values that identify it. A dangling cord has an end without an object.",
        )
        .input(input(json!({
            "patch_id*": "id", "mode": { "enum": ["full", "geometry", "connections"], "default": "full" }, "offset": "offset",
            "limit": "limit",
        })))
        .output(body(json!({
            "patchlines": [{ "src_varname": "text", "src_id": "text", "outlet": "int", "dst_varname": "text", "dst_id": "text", "inlet": "int",
                "start_point?": "place", "end_point?": "place", "num_midpoints?": "int", "midpoints?": ["xy"], "hidden?": "bool",
                "color?": { "r": "num", "g": "num", "b": "num", "a": "num" }, "order?": "int", "dangling?": "bool" }],
            "count": "int", "total": "int", "next_offset?": "int",
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let mode = arguments.text("mode").unwrap_or("full");
        let all = scene.view.cords().map(|cord| line(&cord, mode != "connections", mode == "full"));
        let (lines, next) = answer::page(all, arguments.count("offset", 0), arguments.count("limit", 2000));
        Ok(answer::object(json!({
            "count": lines.len(), "patchlines": lines, "total": scene.view.cord_count(), "next_offset": next,
        })))
    })
}

fn line(cord: &CordView<'_>, geometry: bool, full: bool) -> Value {
    let (from, to) = (cord.from(), cord.to());
    let mut members = json!({
        "src_varname": from.as_ref().map_or(cord.from_name(), |it| it.label()),
        "src_id": from.as_ref().map_or(cord.from_name(), |it| it.key()),
        "outlet": cord.outlet(),
        "dst_varname": to.as_ref().map_or(cord.to_name(), |it| it.label()),
        "dst_id": to.as_ref().map_or(cord.to_name(), |it| it.key()),
        "inlet": cord.inlet(),
    });
    if geometry {
        let points = layout::cord_points(cord).unwrap_or_default();
        let midpoints: Vec<Value> = cord.midpoints().into_iter().map(answer::point).collect();
        members["start_point"] = json!(points.first().copied().map(answer::point));
        members["end_point"] = json!(points.last().copied().map(answer::point));
        members["num_midpoints"] = json!(midpoints.len());
        if !midpoints.is_empty() {
            members["midpoints"] = json!(midpoints);
        }
    }
    if full {
        let [r, g, b, a] = cord.color().unwrap_or([0.0, 0.0, 0.0, 1.0]);
        members["hidden"] = json!(cord.hidden());
        members["color"] = json!({ "r": r, "g": g, "b": b, "a": a });
        if let Some(order) = cord.order() {
            members["order"] = json!(order);
        }
    }
    if cord.dangling() {
        members["dangling"] = json!(true);
    }
    members
}
