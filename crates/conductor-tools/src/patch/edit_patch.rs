//! `edit_patch`: makes a list of edits as one step, all or none, or previews them.

use super::add_max_object::NewObject;
use super::argument::{Cord, Varname};
use super::connect_max_objects::NewCord;
use super::prelude::*;
use super::replace_object_text::NewText;
use super::set_object_attribute::NewValue;
use super::set_object_hidden::Visibility;
use super::set_patchline_midpoints::Corners;
use conductor_patch::{Applied, Document, Point};
use schemars::{Schema, SchemaGenerator, json_schema};
use std::cell::OnceCell;
use std::collections::BTreeMap;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    patch: EditedPatch,
    /// The edits, in order.
    #[schemars(length(min = 1, max = 2000))]
    edits: Vec<Item>,
    /// Whether to only show what would change.
    #[serde(default)]
    dry_run: bool,
    /// Name of this step in undo_patch.
    label: Option<Name>,
}

/// One edit.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
#[schemars(transform = branches_by_op)]
enum Item {
    Add(Addition),
    Remove(Varname),
    SetText(NewText),
    SetAttribute(NewValue),
    SetVarname(NewVarname),
    SetHidden(Visibility),
    Move(NewPlace),
    Connect(NewCord),
    Disconnect(Cord),
    SetMidpoints(Corners),
}

#[derive(Deserialize, JsonSchema)]
struct Addition {
    #[serde(flatten)]
    object: NewObject,
    /// Name of the object for later items, such as $osc.
    #[serde(rename = "as")]
    #[schemars(regex(pattern = r"^\$[A-Za-z0-9_]{1,64}$"))]
    handle: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct NewVarname {
    varname: ObjectRef,
    /// The new name; null removes the name.
    #[schemars(schema_with = "name_or_null")]
    new_varname: Option<Name>,
}

#[derive(Deserialize, JsonSchema)]
struct NewPlace {
    varname: ObjectRef,
    /// Left and top in pixels.
    position: [f64; 2],
    /// Width and height in pixels; without it, the object keeps its size.
    size: Option<[f64; 2]>,
}

/// Adds a description to the tag `op`, which is not a field and thus has no doc comment. Replaces
/// `oneOf` with `anyOf`, because some clients do not accept `oneOf`.
fn branches_by_op(schema: &mut Schema) {
    let mut branches = schema.remove("oneOf").unwrap_or_default();
    for branch in branches.as_array_mut().into_iter().flatten() {
        branch["properties"]["op"]["description"] = "Kind of edit".into();
    }
    schema.insert("anyOf".to_owned(), branches);
}

fn name_or_null(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [generator.subschema_for::<Name>(), { "type": "null" }] })
}

impl Item {
    /// The name of the edit, and the edit.
    fn op(&self) -> (&'static str, Result<Op, ToolError>) {
        match self {
            Item::Add(it) => ("add", it.object.op(it.handle.as_deref())),
            Item::Remove(it) => ("remove", Ok(Op::Remove(it.varname.target()))),
            Item::SetText(it) => ("set_text", Ok(it.op())),
            Item::SetAttribute(it) => ("set_attribute", Ok(it.op())),
            Item::SetVarname(it) => {
                let name = it.new_varname.as_deref().map(str::to_owned);
                ("set_varname", Ok(Op::SetVarname { target: it.varname.target(), name }))
            }
            Item::SetHidden(it) => ("set_hidden", Ok(it.op())),
            Item::Move(it) => {
                let ([x, y], size) = (it.position, it.size.map(Into::into));
                ("move", Ok(Op::SetRect { target: it.varname.target(), position: Point::new(x, y), size }))
            }
            Item::Connect(it) => ("connect", Ok(it.op())),
            Item::Disconnect(it) => ("disconnect", Ok(Op::Disconnect(it.ends()))),
            Item::SetMidpoints(it) => ("set_midpoints", Ok(it.op())),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// One entry per edit.
    applied: Vec<AppliedItem>,
    /// Keys of the added objects, by their name in `as`.
    handles: BTreeMap<String, String>,
    /// Changes to the file, as a unified diff.
    diff: String,
    /// Whether nothing was changed because of dry_run.
    dry_run: bool,
    /// True if the diff was truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct AppliedItem {
    /// Name of the edit.
    op: &'static str,
    /// Key of the added or removed object.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Position of the added object in the list of objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    /// True if the cord existed before the edit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already: bool,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    gated("edit_patch", patches, run)
        .text(
            "Edit a patch",
            "Makes many edits as one step: all or none, one undo. Needs a patch from open_patch or create_patch. add needs obj_type and \
             position; connect and disconnect need the four ends; the other ops need varname. `as` on an added object gives it a name \
             ($osc) for later items. With dry_run nothing changes and `diff` shows the change. Then check with render_patch and keep with \
             save_patch.",
        )
        .listed(short_schema())
        .summary(with_args(|it: &Args| format!("make {} edits in the patch {:?}", it.edits.len(), &*it.patch.patch_id)))
}

/// The schema for lists: one item with the fields of all edits.
fn short_schema() -> Value {
    let text = |text: &str| json!({ "type": "string", "description": text });
    let number = |text: &str| json!({ "type": "integer", "description": text });
    let pair = |text: &str| json!({ "type": "array", "items": { "type": "number" }, "description": text });
    let ops = [
        "add",
        "remove",
        "set_text",
        "set_attribute",
        "set_varname",
        "set_hidden",
        "move",
        "connect",
        "disconnect",
        "set_midpoints",
    ];
    let atom = || json!({ "anyOf": [{ "type": "string" }, { "type": "number" }] });
    let mut value = atom();
    value["description"] = "Value for set_attribute; a list is allowed".into();
    let atoms = json!({ "type": "array", "items": atom(), "description": "Arguments or content of an added object" });
    let points = json!({ "type": "array", "items": { "type": "object" }, "description": "Corners of a cord: {x, y}" });
    json!({
        "type": "object",
        "properties": {
            "patch_id": text("Id from list_active_patches or open_patch"),
            "edits": {
                "type": "array",
                "description": "The edits, in order",
                "items": {
                    "type": "object",
                    "properties": {
                        "op": { "enum": ops, "description": "Kind of edit" },
                        "varname": text("The object: varname, id, #index@revision or a name from `as`"),
                        "obj_type": text("Class of an added object, such as cycle~"),
                        "arguments": atoms,
                        "position": pair("Left and top in pixels"),
                        "size": pair("Width and height in pixels"),
                        "as": text("Name of an added object, such as $osc"),
                        "new_text": text("Text for set_text"),
                        "new_varname": text("Name for set_varname"),
                        "attribute": text("Name for set_attribute"),
                        "value": value,
                        "hidden": { "type": "boolean", "description": "State for set_hidden" },
                        "src_varname": text("Object at the start of a cord"),
                        "outlet": number("Outlet, from 0"),
                        "dst_varname": text("Object at the end of a cord"),
                        "inlet": number("Inlet, from 0"),
                        "midpoints": points,
                    },
                    "required": ["op"],
                },
            },
            "expected_revision": number("Fail if the patch has another revision"),
            "dry_run": { "type": "boolean", "description": "Only show what would change" },
            "label": text("Name of this step in undo_patch"),
        },
        "required": ["patch_id", "edits"],
        "additionalProperties": false,
    })
}

fn run(asked: &Asked<Args>) -> Result<EditAnswer<Answer>, ToolError> {
    let Args { patch, edits, dry_run, label } = &asked.args;
    let (names, ops): (Vec<_>, Vec<_>) = edits.iter().map(Item::op).unzip();
    let before = OnceCell::new();
    let plan = |scene: &Scene<'_>| {
        let _ = before.set(scene.patch.document().clone());
        let subject = |index| Subject::Other(format!("edits[{index}]"));
        ops.into_iter().enumerate().map(|(index, op)| op.map_err(|fault| fault.subject(subject(index)))).collect()
    };
    let report = |scene: &Scene<'_>, after: &Document, applied: &Applied| {
        let diff = before.get().map(|before| conductor_patch::diff(before, after, 3).text).unwrap_or_default();
        let (diff, truncated) = answer::cut_diff(diff);
        let view = after.view(scene.view.id());
        let handles = applied.handles.iter();
        let handles = handles.filter_map(|(name, id)| Some((name.clone(), view.as_ref()?.get(*id)?.key().to_owned())));
        Ok(Answer {
            applied: names.iter().zip(&applied.outcomes).map(|(op, outcome)| item(op, outcome)).collect(),
            handles: handles.collect(),
            diff,
            dry_run: *dry_run,
            truncated,
        })
    };
    let ask = asked.ask(patch, label.as_deref());
    let done = if *dry_run {
        asked.patches.preview(&ask, plan, report)?
    } else {
        asked.patches.edit(&ask, plan, |scene, applied| report(scene, scene.patch.document(), applied))?
    };
    Ok(EditAnswer::new(done, |it| it))
}

fn item(op: &'static str, outcome: &Outcome) -> AppliedItem {
    let (id, index, already) = match outcome {
        Outcome::Added { key, index, .. } => (Some(key.clone()), Some(*index), false),
        Outcome::Removed { key, .. } => (Some(key.clone()), None, false),
        Outcome::Connected { already } => (None, None, *already),
        Outcome::TextSet { .. }
        | Outcome::AttributeSet { .. }
        | Outcome::Named(_)
        | Outcome::HiddenSet(_)
        | Outcome::Moved(_)
        | Outcome::Disconnected
        | Outcome::MidpointsSet(_)
        | Outcome::Encapsulated { .. }
        | Outcome::Restored => (None, None, false),
    };
    AppliedItem { op, id, index, already }
}
