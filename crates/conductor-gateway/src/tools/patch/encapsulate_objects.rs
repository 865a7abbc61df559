//! `encapsulate_objects`: moves objects into a new subpatcher and reconnects their cords.

use super::prelude::*;
use super::{single, unexpected_outcome};
use conductor_patch::{Applied, Document, Target};
use std::cell::OnceCell;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("encapsulate_objects", patches, run)
        .text(
            "Encapsulate",
            "Moves objects into a new subpatcher, with an inlet for each source outside and an outlet for each source inside that has cords \
             to the outside. With dry_run nothing changes, and `diff` shows what would change.",
        )
        .input(edit_input(json!({ "patch_id*": "id", "varnames*": "refs", "name*": "name", "varname": "name", "dry_run": "flag" })))
        .output(edit_body(json!({
            "subpatch_id": "text", "id": "text", "inlets": [{ "index": "int", "from": "text" }],
            "outlets": [{ "index": "int", "to": "text" }], "diff?": "text", "dry_run?": "bool",
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let arguments = asked.arguments();
    let before = OnceCell::new();
    let plan = |scene: &Scene<'_>| {
        let _ = before.set(scene.patch.document().clone());
        Ok(vec![Op::Encapsulate {
            targets: arguments.texts("varnames").into_iter().map(Target::from).collect(),
            name: arguments.word("name").to_owned(),
            varname: arguments.text("varname").map(str::to_owned),
        }])
    };
    let tell = |scene: &Scene<'_>, after: &Document, applied: &Applied, dry_run: bool| {
        let Some(Outcome::Encapsulated { key, inlets, outlets, .. }) = applied.outcomes.first() else {
            return Err(unexpected_outcome());
        };
        let nubs = |all: &[(String, u32)], word: &str| -> Vec<Value> {
            let one = |(index, (name, port)): (usize, &(String, u32))| json!({ "index": index, word: format!("{name}:{port}") });
            all.iter().enumerate().map(one).collect()
        };
        let mut members = json!({
            "subpatch_id": format!("{}/{key}", scene.id()), "id": key, "inlets": nubs(inlets, "from"), "outlets": nubs(outlets, "to"),
        });
        if dry_run {
            let diff = before.get().map(|before| conductor_patch::diff(before, after, 3).text).unwrap_or_default();
            members["diff"] = json!(answer::cut_diff(diff).0);
            members["dry_run"] = json!(true);
        }
        Ok(members)
    };
    let ask = asked.ask();
    let done = if arguments.flag("dry_run") {
        asked.patches.preview(&ask, plan, |scene, after, applied| tell(scene, after, applied, true))
    } else {
        asked.patches.edit(&ask, plan, |scene, applied| tell(scene, scene.patch.document(), applied, false))
    };
    done.map(answer::edited).map_err(single)
}
