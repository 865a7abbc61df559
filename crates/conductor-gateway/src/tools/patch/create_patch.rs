//! `create_patch`: makes an empty patch.

use super::schema::{input, opened};
use super::{Asked, body as told, change};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::{HostKind, Naming, Patches};
use conductor_patch::Format;
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("create_patch", patches, run)
        .text("New patch", "Makes an empty patch. Nothing is written until save_patch; with a path it is saved there.")
        .input(input(json!({
            "format": { "enum": ["maxpat", "maxhelp", "pd"], "default": "maxpat", "description": "On host pd the default is pd" }, "path": "path", "name": "name", "host": "host",
            "group": "name", "alias": "name",
        })))
        .output(opened())
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let host = HostKind::parse(arguments.text("host").unwrap_or("document")).unwrap_or(HostKind::Document);
    let format = match (arguments.text("format"), host) {
        (Some("pd"), _) | (None, HostKind::Pd) => Format::Pd,
        (Some("maxhelp"), _) => Format::Maxhelp,
        (Some(_), _) | (None, HostKind::Document | HostKind::Max) => Format::Maxpat,
    };
    let naming =
        Naming { group: arguments.text("group").map(str::to_owned), alias: arguments.text("alias").map(str::to_owned) };
    let open = asked.patches.create(format, arguments.text("path"), arguments.text("name"), host, naming)?;
    asked.patches.look(open.id(), |scene| {
        let mut told = told::info(scene);
        told.insert("diagnostics".to_owned(), told::diagnostics(scene.patch.document()).into());
        Ok(Output::new(told.into()))
    })
}
