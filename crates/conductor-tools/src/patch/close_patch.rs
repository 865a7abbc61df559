//! `close_patch`: closes a patch.

use super::prelude::*;
use super::{look, patch_target};
use conductor_core::policy::ByArgs;

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// Whether to lose unsaved edits. A person must approve it.
    #[serde(default)]
    discard: bool,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Id of the patch.
    patch_id: String,
    /// Always true.
    closed: bool,
    /// Number of lost edits.
    discarded_edits: usize,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = change("close_patch", patches, run)
        .text(
            "Close",
            "Closes a patch. Refused if there are unsaved edits, unless `discard` is true, which a person must approve.",
        )
        .summary(with_args(|it: &Args| format!("close the patch {:?}", &*it.patch_id)));
    definition.destructive = Some(true);
    let whose = Arc::clone(patches);
    definition.target(move |_, call| {
        let target = patch_target(call);
        let Some(steps) = parse(&call.arguments).ok().and_then(|args| lost(&whose, &args)) else {
            return Target { by_args: Some(ByArgs::Usual), ..target };
        };
        let facts = vec![("loses".to_owned(), format!("{steps} unsaved steps of this patch"))];
        Target { by_args: Some(ByArgs::Ask), facts: AskFacts { facts, ..AskFacts::default() }, ..target }
    })
}

/// The number of steps that the call would lose.
fn lost(patches: &Patches, Args { patch_id, discard }: &Args) -> Option<usize> {
    discard.then(|| look(patches.is_busy(patch_id), || patches.unsaved(patch_id)))?
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let (patch_id, discarded_edits) = asked.patches.close(&asked.args.patch_id, asked.args.discard)?;
    Ok(Answer { patch_id, closed: true, discarded_edits })
}
