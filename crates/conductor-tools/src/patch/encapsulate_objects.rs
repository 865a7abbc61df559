//! `encapsulate_objects`: moves objects into a new subpatcher and reconnects their cords.

use super::prelude::*;
use super::{single, unexpected_outcome};
use conductor_patch::{Applied, Document};
use std::cell::OnceCell;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    patch: EditedPatch,
    /// The objects to move.
    #[schemars(length(min = 1, max = 2000))]
    varnames: Vec<ObjectRef>,
    /// Name of the subpatcher.
    name: Name,
    /// Scripting name of the subpatcher's object.
    varname: Option<Name>,
    /// Whether to only show what would change.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Id of the subpatcher.
    subpatch_id: String,
    /// Key of the subpatcher's object.
    id: String,
    /// Inlets of the subpatcher.
    inlets: Vec<Inlet>,
    /// Outlets of the subpatcher.
    outlets: Vec<Outlet>,
    /// Changes to the file, as a unified diff. Only with dry_run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// True if nothing was changed because of dry_run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct Inlet {
    /// Number of the inlet, counted from 0.
    index: usize,
    /// The source: name or key of the object outside, a colon and its outlet.
    from: String,
}

#[derive(Serialize, JsonSchema)]
struct Outlet {
    /// Number of the outlet, counted from 0.
    index: usize,
    /// The source: name or key of the object inside, a colon and its outlet.
    to: String,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("encapsulate_objects", patches, run).text(
        "Encapsulate",
        "Moves objects into a new subpatcher. The subpatcher gets an inlet for each outside source, and an outlet for each inside \
         source that has cords to the outside. With dry_run nothing changes, and `diff` shows what would change.",
    )
}

fn run(asked: &Asked<Args>) -> Result<EditAnswer<Answer>, ToolError> {
    let Args { patch, varnames, name, varname, dry_run } = &asked.args;
    let before = OnceCell::new();
    let plan = |scene: &Scene<'_>| {
        let _ = before.set(scene.patch.document().clone());
        Ok(vec![Op::Encapsulate {
            targets: varnames.iter().map(ObjectRef::target).collect(),
            name: name.to_string(),
            varname: varname.as_deref().map(str::to_owned),
        }])
    };
    let report = |scene: &Scene<'_>, after: &Document, applied: &Applied| {
        let Some(Outcome::Encapsulated { key, inlets, outlets, .. }) = applied.outcomes.first() else {
            return Err(unexpected_outcome());
        };
        let source = |(name, port): &(String, u32)| format!("{name}:{port}");
        let inlets = inlets.iter().enumerate().map(|(index, it)| Inlet { index, from: source(it) });
        let outlets = outlets.iter().enumerate().map(|(index, it)| Outlet { index, to: source(it) });
        let diff = || before.get().map(|before| conductor_patch::diff(before, after, 3).text).unwrap_or_default();
        Ok(Answer {
            subpatch_id: format!("{}/{key}", scene.id()),
            id: key.clone(),
            inlets: inlets.collect(),
            outlets: outlets.collect(),
            diff: dry_run.then(|| answer::cut_diff(diff()).0),
            dry_run: *dry_run,
        })
    };
    let ask = asked.ask(patch, None);
    let done = if *dry_run {
        asked.patches.preview(&ask, plan, report)
    } else {
        asked.patches.edit(&ask, plan, |scene, applied| report(scene, scene.patch.document(), applied))
    };
    done.map(|done| EditAnswer::new(done, |it| it)).map_err(single)
}
