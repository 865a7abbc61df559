//! `open_patch`: opens a file.

use super::answer::Opened;
use super::argument::{FilePath, Opening};
use super::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Args {
    path: FilePath,
    #[serde(flatten)]
    opening: Opening,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("open_patch", patches, run)
        .text(
            "Open a patch",
            "Opens a .maxpat, .maxhelp, .amxd or .pd file for reading and editing. On host document nothing in it is run. On host \
             pd or max it runs, and a person must approve it if it has effects outside the patch. If the file is open already, \
             returns the open patch.",
        )
        .idempotent()
        .summary(with_args(|it: &Args| format!("open the patch {:?}", &*it.path)))
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Opened>, ToolError> {
    let Args { path, opening } = &asked.args;
    let open = asked.patches.open(path, opening.host.into(), opening.naming(), &asked.consent)?;
    asked.look(open.id(), |scene| Ok(Opened::new(scene)))
}
