//! `disconnect_max_objects`: removes a cord.

use super::argument::Cord;
use super::prelude::*;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("disconnect_max_objects", patches, run).text("Disconnect", "Removes a cord.")
}

fn run(asked: &Asked<OneEdit<Cord>>) -> Result<EditAnswer<answer::Cord>, ToolError> {
    let OneEdit { patch, edit: cord } = &asked.args;
    let report = |_: &Scene<'_>, outcome: &Outcome| matches!(outcome, Outcome::Disconnected).then(|| cord.into());
    asked.edit(patch, Op::Disconnect(cord.ends()), report)
}
