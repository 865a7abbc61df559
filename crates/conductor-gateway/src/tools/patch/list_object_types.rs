//! `list_object_types`: classes that are known.

use super::schema::{input, plain};
use super::{Asked, body as told, read};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::Patches;
use conductor_patch::{Format, objects};
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("list_object_types", patches, run)
        .text("Object classes", "Classes of Max or Pure Data that are known, with their inlets and outlets.")
        .input(input(json!({ "host": "family", "query": "long", "family": "name", "offset": "offset", "limit": "limit" })))
        .output(plain(json!({ "types": [{ "class": "text", "family": "text", "inlets": "count", "outlets": "count" }], "count": "int", "total": "int", "next_offset?": "int" })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let format = if arguments.text("host") == Some("pd") { Format::Pd } else { Format::Maxpat };
    let found = objects::table(format).search(arguments.text("query").unwrap_or_default(), arguments.text("family"));
    let all = found
        .iter()
        .map(|it| json!({ "class": it.name, "family": it.family, "inlets": it.inlets, "outlets": it.outlets }));
    let (types, next) = told::page(all, arguments.count("offset", 0), arguments.count("limit", 2000));
    Ok(Output::new(told::object(
        json!({ "count": types.len(), "types": types, "total": found.len(), "next_offset": next }),
    )))
}
