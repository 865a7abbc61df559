//! `open_patch`: opens a file.

use super::schema::{input, opened};
use super::{Asked, body as told, gated};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::ToolError;
use conductor_hosts::patch::{HostKind, Naming, Patches};
use serde_json::json;
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("open_patch", patches, run)
        .text("Open a patch", "Opens a .maxpat, .maxhelp, .amxd or .pd file for reading and editing. On host document nothing in it is run; on host pd or max it \
             runs, and a person is asked when it reaches beyond the patch. An open file gives the patch that has it.")
        .input(input(json!({ "path*": "path", "host": "host", "group": "name", "alias": "name" })))
        .output(opened())
        .idempotent()
        .summary(|arguments| format!("open the patch {}", arguments["path"]))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let host = HostKind::parse(arguments.text("host").unwrap_or("document")).unwrap_or(HostKind::Document);
    let naming =
        Naming { group: arguments.text("group").map(str::to_owned), alias: arguments.text("alias").map(str::to_owned) };
    let open = asked.patches.open(arguments.word("path"), host, naming, &asked.consent)?;
    asked.patches.look(open.id(), |scene| {
        let mut told = told::info(scene);
        told.insert("diagnostics".to_owned(), told::diagnostics(scene.patch.document()).into());
        Ok(Output::new(told.into()))
    })
}
