//! `edit_patch`: makes a list of edits as one step, all or none, or previews them.

use super::prelude::*;
use conductor_core::error::Subject;
use conductor_hosts::patch::Edited;
use conductor_patch::{Applied, Document};
use serde_json::Map;
use std::cell::OnceCell;

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("edit_patch", patches, run)
        .text(
            "Edit a patch",
            "Makes many edits as one step: all or none, one undo. `as` on an added object gives it a name ($osc) for later items. With \
             dry_run nothing changes, and `diff` shows what the same call without dry_run would change. A failed item is reported as \
             edits[n].",
        )
        .input(edit_input(json!({
            "patch_id*": "id",
            "edits*": { "type": "array", "minItems": 1, "maxItems": 2000, "items": { "anyOf": items() } },
            "dry_run": "flag",
            "label": { "type": "string", "minLength": 1, "maxLength": 256, "description": "Name of this step in undo_patch" },
        })))
        .output(edit_body(json!({
            "applied": [{ "op": "text", "id?": "text", "index?": "int", "already?": "bool" }],
            "handles": { "type": "object", "additionalProperties": { "type": "string" } },
            "diff": "text", "truncated?": "bool", "dry_run": "bool",
        })))
        .summary(|arguments| {
            let count = arguments["edits"].as_array().map_or(0, Vec::len);
            format!("make {count} edits in the patch {}", arguments["patch_id"])
        })
}

/// One closed object per kind of edit.
fn items() -> Vec<Value> {
    let cord = json!({ "src_varname*": "ref", "outlet*": "port", "dst_varname*": "ref", "inlet*": "port" });
    let kinds = [
        (
            "add",
            json!({ "obj_type*": "name", "position*": "point", "arguments": "atoms", "attributes": "attrs", "varname": "name",
            "size": "point", "allow_unknown": "flag",
            "as": { "type": "string", "pattern": "^\\$[A-Za-z0-9_]{1,64}$" } }),
        ),
        ("remove", json!({ "varname*": "ref" })),
        ("set_text", json!({ "varname*": "ref", "new_text*": "long", "allow_unknown": "flag" })),
        (
            "set_attribute",
            json!({ "varname*": "ref", "attribute*": "name", "value*": "value", "allow_unknown": "flag" }),
        ),
        (
            "set_varname",
            json!({ "varname*": "ref",
            "new_varname*": { "anyOf": [{ "type": "string", "minLength": 1, "maxLength": 256 }, { "type": "null" }] } }),
        ),
        ("set_hidden", json!({ "varname*": "ref", "hidden*": "bool" })),
        ("move", json!({ "varname*": "ref", "position*": "point", "size": "point" })),
        ("connect", extend(&cord, json!({ "hidden": "bool" }))),
        ("disconnect", cord.clone()),
        ("set_midpoints", extend(&cord, json!({ "midpoints*": "midpoints" }))),
    ];
    kinds.into_iter().map(|(op, more)| input(extend(&json!({ "op*": { "const": op } }), more))).collect()
}

fn extend(first: &Value, more: Value) -> Value {
    let mut all = first.as_object().cloned().unwrap_or_default();
    if let Value::Object(more) = more {
        all.extend(more);
    }
    Value::Object(all)
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    let items = asked.arguments().list("edits");
    let before = OnceCell::new();
    let plan = |scene: &Scene<'_>| {
        let _ = before.set(scene.patch.document().clone());
        items.iter().enumerate().map(|(index, item)| op(index, item)).collect()
    };
    let tell = |scene: &Scene<'_>, after: &Document, applied: &Applied, dry_run: bool| {
        let diff = before.get().map(|before| conductor_patch::diff(before, after, 3).text).unwrap_or_default();
        let (diff, truncated) = answer::cut_diff(diff);
        let view = after.view(scene.view.id());
        let handles: Map<String, Value> = applied
            .handles
            .iter()
            .filter_map(|(name, id)| Some((name.clone(), json!(view.as_ref()?.get(*id)?.key()))))
            .collect();
        let made: Vec<Value> = items.iter().zip(&applied.outcomes).map(|(item, outcome)| row(item, outcome)).collect();
        let mut members = json!({ "applied": made, "handles": handles, "diff": diff, "dry_run": dry_run });
        if truncated {
            members["truncated"] = json!(true);
        }
        Ok(members)
    };
    let ask = asked.ask();
    let done: Edited<Value> = if asked.arguments().flag("dry_run") {
        asked.patches.preview(&ask, plan, |scene, after, applied| tell(scene, after, applied, true))?
    } else {
        asked.patches.edit(&ask, plan, |scene, applied| tell(scene, scene.patch.document(), applied, false))?
    };
    Ok(answer::edited(done))
}

fn op(index: usize, item: &Value) -> Result<Op, ToolError> {
    let arguments = Arguments(item);
    let made = match arguments.word("op") {
        "add" => arguments.add(),
        "remove" => Ok(arguments.remove()),
        "set_text" => Ok(arguments.set_text()),
        "set_attribute" => arguments.set_attribute(),
        "set_varname" => Ok(arguments.set_varname()),
        "set_hidden" => Ok(arguments.set_hidden()),
        "move" => Ok(arguments.set_rect()),
        "connect" => Ok(arguments.connect()),
        "disconnect" => Ok(arguments.disconnect()),
        _ => Ok(arguments.set_midpoints()),
    };
    made.map_err(|fault| fault.subject(Subject::Other(format!("edits[{index}]"))))
}

fn row(item: &Value, outcome: &Outcome) -> Value {
    let op = Arguments(item).word("op");
    match outcome {
        Outcome::Added { key, index, .. } => json!({ "op": op, "id": key, "index": index }),
        Outcome::Removed { key, .. } => json!({ "op": op, "id": key }),
        Outcome::Connected { already: true } => json!({ "op": op, "already": true }),
        Outcome::TextSet { .. }
        | Outcome::AttributeSet { .. }
        | Outcome::Named(_)
        | Outcome::HiddenSet(_)
        | Outcome::Moved(_)
        | Outcome::Connected { .. }
        | Outcome::Disconnected
        | Outcome::MidpointsSet(_)
        | Outcome::Encapsulated { .. }
        | Outcome::Restored => json!({ "op": op }),
    }
}
