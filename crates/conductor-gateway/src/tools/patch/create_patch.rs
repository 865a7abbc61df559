//! `create_patch`: makes an empty patch.

use super::prelude::*;
use conductor_hosts::patch::HostKind;
use conductor_patch::Format;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    change("create_patch", patches, run)
        .text(
            "New patch",
            "Creates an empty patch. Nothing is written until save_patch, which uses `path` if it is given here.",
        )
        .input(input(json!({
            "format": { "enum": ["maxpat", "maxhelp", "pd"], "default": "maxpat", "description": "On host pd the default is pd" }, "path": "path", "name": "name", "host": "host",
            "group": "name", "alias": "name",
        })))
        .output(opened())
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let host = arguments.host();
    let format = match (arguments.text("format"), host) {
        (Some("pd"), _) | (None, HostKind::Pd) => Format::Pd,
        (Some("maxhelp"), _) => Format::Maxhelp,
        (Some(_), _) | (None, HostKind::Document | HostKind::Max) => Format::Maxpat,
    };
    let open =
        asked.patches.create(format, arguments.text("path"), arguments.text("name"), host, arguments.naming())?;
    asked.patches.look(open.id(), |scene| Ok(answer::opened(scene)))
}
