//! `open_patch`: opens a file.

use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("open_patch", patches, run)
        .text(
            "Open a patch",
            "Opens a .maxpat, .maxhelp, .amxd or .pd file for reading and editing. On host document nothing in it is run. On host pd or max \
             it runs, and a person must approve it if it reaches beyond the patch. If the file is open already, returns the open patch.",
        )
        .input(input(json!({ "path*": "path", "host": "host", "group": "name", "alias": "name" })))
        .output(opened())
        .idempotent()
        .summary(|arguments| format!("open the patch {}", arguments["path"]))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let host = arguments.host();
    let open = asked.patches.open(arguments.word("path"), host, arguments.naming(), &asked.consent)?;
    asked.patches.look(open.id(), |scene| Ok(answer::opened(scene)))
}
