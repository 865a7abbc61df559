//! `close_patch`: closes a patch.

use super::prelude::*;
use super::{look, patch_target};
use crate::tools::catalog::{AskFacts, Target};
use conductor_core::policy::ByArgs;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = change("close_patch", patches, run)
        .text(
            "Close",
            "Closes a patch. Refused if there are unsaved edits, unless `discard` is true, which a person must approve.",
        )
        .input(input(json!({ "patch_id*": "id", "discard": "flag" })))
        .output(plain(json!({ "patch_id": "text", "closed": "bool", "discarded_edits": "int" })))
        .summary(|arguments| format!("close the patch {}", arguments["patch_id"]));
    definition.destructive = Some(true);
    let whose = Arc::clone(patches);
    definition.target(move |_, call| {
        let target = patch_target(call);
        let Some(steps) = lost(&whose, &call.arguments) else {
            return Target { by_args: Some(ByArgs::Usual), ..target };
        };
        let facts = vec![("loses".to_owned(), format!("{steps} unsaved steps of this patch"))];
        Target { by_args: Some(ByArgs::Ask), facts: AskFacts { facts, ..AskFacts::default() }, ..target }
    })
}

/// The number of steps that the call would lose.
fn lost(patches: &Patches, value: &Value) -> Option<usize> {
    let arguments = Arguments(value);
    let patch_id = arguments.word("patch_id");
    arguments.flag("discard").then(|| look(patches.is_busy(patch_id), || patches.unsaved(patch_id)))?
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let (patch_id, lost) = asked.patches.close(asked.patch_id(), asked.arguments().flag("discard"))?;
    Ok(Output::new(json!({ "patch_id": patch_id, "closed": true, "discarded_edits": lost })))
}
