//! `get_patchlines`: the cords of a patch.

use super::schema::{body, input};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use conductor_patch::{CordView, layout};
use serde_json::Value;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("get_patchlines", patches, run)
        .text("List cords", "Cords of a patch, each with the four things that name it. A dangling one ends at nothing.")
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
    asked.patches.look(asked.patch_id(), |scene| {
        let arguments = asked.arguments();
        let mode = arguments.text("mode").unwrap_or("full");
        let all = scene.view.cords().map(|cord| line(&cord, mode != "connections", mode == "full"));
        let (lines, next) = told::page(all, arguments.count("offset", 0), arguments.count("limit", 2000));
        let told = told::object(json!({
            "count": lines.len(), "patchlines": lines, "total": scene.view.cord_count(), "next_offset": next,
        }));
        Ok(Output::new(told::of(scene, told)))
    })
}

fn line(cord: &CordView<'_>, geometry: bool, full: bool) -> Value {
    let (from, to) = (cord.from(), cord.to());
    let mut told = json!({
        "src_varname": from.as_ref().map_or(cord.from_name(), |it| it.label()),
        "src_id": from.as_ref().map_or(cord.from_name(), |it| it.key()),
        "outlet": cord.outlet(),
        "dst_varname": to.as_ref().map_or(cord.to_name(), |it| it.label()),
        "dst_id": to.as_ref().map_or(cord.to_name(), |it| it.key()),
        "inlet": cord.inlet(),
    });
    if geometry {
        let points = layout::cord_points(cord).unwrap_or_default();
        let midpoints: Vec<Value> = cord.midpoints().into_iter().map(told::point).collect();
        told["start_point"] = json!(points.first().copied().map(told::point));
        told["end_point"] = json!(points.last().copied().map(told::point));
        told["num_midpoints"] = json!(midpoints.len());
        if !midpoints.is_empty() {
            told["midpoints"] = json!(midpoints);
        }
    }
    if full {
        let [r, g, b, a] = cord.color().unwrap_or([0.0, 0.0, 0.0, 1.0]);
        told["hidden"] = json!(cord.hidden());
        told["color"] = json!({ "r": r, "g": g, "b": b, "a": a });
        if let Some(order) = cord.order() {
            told["order"] = json!(order);
        }
    }
    if cord.dangling() {
        told["dangling"] = json!(true);
    }
    told
}
