//! `close_patch`: closes a patch.

use super::arguments::Arguments;
use super::schema::{input, plain};
use super::{Asked, change, look};
use crate::pipeline::call::Output;
use crate::tools::catalog::{AskFacts, Definition};
use conductor_core::error::ToolError;
use conductor_core::policy::ByArgs;
use conductor_hosts::patch::Patches;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    let mut definition = change("close_patch", patches, run)
        .text("Close", "Closes a patch. Unsaved edits are refused unless discard says to lose them, which a person is asked about.")
        .input(input(json!({ "patch_id*": "id", "discard": "flag" })))
        .output(plain(json!({ "patch_id": "text", "closed": "bool", "discarded_edits": "int" })))
        .summary(|arguments| format!("close the patch {}", arguments["patch_id"]));
    definition.destructive = Some(true);
    let whose = Arc::clone(patches);
    definition.decide = Some(Arc::new(move |_, value| match lost(&whose, value) {
        Some(_) => ByArgs::Ask,
        None => ByArgs::Usual,
    }));
    let whose = Arc::clone(patches);
    definition.facts = Some(Arc::new(move |_, value| {
        let facts =
            lost(&whose, value).map(|steps| ("loses".to_owned(), format!("{steps} unsaved steps of this patch")));
        AskFacts { facts: facts.into_iter().collect(), ..AskFacts::default() }
    }));
    definition
}

/// How many steps the call would lose for good.
fn lost(patches: &Patches, value: &Value) -> Option<usize> {
    let arguments = Arguments(value);
    let patch_id = arguments.word("patch_id");
    arguments.flag("discard").then(|| look(patches.is_busy(patch_id), || patches.unsaved(patch_id)))?
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let (patch_id, lost) = asked.patches.close(asked.patch_id(), asked.arguments().flag("discard"))?;
    Ok(Output::new(json!({ "patch_id": patch_id, "closed": true, "discarded_edits": lost })))
}
