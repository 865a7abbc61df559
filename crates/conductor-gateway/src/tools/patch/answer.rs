//! Builds the results of the patch tools as JSON.

use crate::pipeline::call::Output;
use conductor_hosts::patch::{Ability, Edited, Scene};
use conductor_patch::{Atom, Basis, BoxView, Document, Point, Value as Given, Warning};
use serde_json::{Map, Value, json};

/// Lists and diffs are truncated at this size.
pub const MOST_BYTES: usize = 400_000;

/// An object whose absent members are left out.
pub fn object(members: Value) -> Value {
    match members {
        Value::Object(members) => Value::Object(members.into_iter().filter(|(_, it)| !it.is_null()).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => members,
    }
}

fn extend(mut body: Value, more: Value) -> Value {
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

/// A body about one patch.
pub fn of(scene: &Scene<'_>, body: Value) -> Value {
    extend(body, json!({ "patch_id": scene.id(), "revision": scene.revision() }))
}

/// The result body of an edit.
pub fn edited(edit: Edited<Value>) -> Output {
    let Edited { patch_id, revision, warnings, made } = edit;
    let warning =
        |it: &Warning| object(json!({ "code": it.code.name(), "message": it.message, "subject": it.subject }));
    let common = json!({
        "patch_id": patch_id, "revision": revision, "status": "success", "success": true,
        "warnings": warnings.iter().map(warning).collect::<Vec<_>>(),
    });
    Output::new(extend(made, common))
}

pub fn point(point: Point) -> Value {
    json!({ "x": point.x, "y": point.y })
}

pub fn value(value: &Given) -> Value {
    let atom = |it: &Atom| match it {
        Atom::Int(whole) => json!(whole),
        Atom::Float(number) => json!(number),
        Atom::Word(word) => json!(word),
    };
    match value {
        Given::One(one) => atom(one),
        Given::Many(many) => many.iter().map(atom).collect(),
        Given::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
    }
}

pub const fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::File => "file",
        Basis::Structure => "structure",
        Basis::Rule => "rule",
        Basis::Host => "host",
        Basis::Unknown => "unknown",
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Full,
    Layout,
    Identity,
}

/// An object of a patch.
pub fn box_of(scene: &Scene<'_>, it: &BoxView<'_>, index: usize, detail: Detail) -> Value {
    let rect = it.rect();
    let (full, layout, identity) = (detail == Detail::Full, detail != Detail::Identity, detail != Detail::Layout);
    object(json!({
        "index": identity.then_some(index),
        "id": it.key(),
        "varname": it.varname(),
        "maxclass": identity.then_some(it.maxclass()),
        "native_class": it.native_class().filter(|_| full),
        "text": identity.then_some(it.text()),
        "position": layout.then_some([rect.x, rect.y]),
        "size": layout.then_some([rect.w, rect.h]),
        "presentation": it.presentation_rect().filter(|_| full && it.in_presentation()).map(|it| it.array()),
        "hidden": (full && it.hidden()).then_some(true),
        "subpatch_id": it.inside().filter(|_| full).and_then(|inside| scene.id_of(inside.id())),
    }))
}

/// The items from an offset on, as many as fit, and the offset of the next page if there is one.
pub fn page(items: impl Iterator<Item = Value>, offset: usize, limit: usize) -> (Vec<Value>, Option<usize>) {
    let mut page = Vec::new();
    let mut bytes = 0;
    for item in items.skip(offset) {
        bytes += item.to_string().len();
        // A page has at least one item, or paging would never end.
        if page.len() == limit || (bytes > MOST_BYTES && !page.is_empty()) {
            let next = offset + page.len();
            return (page, Some(next));
        }
        page.push(item);
    }
    (page, None)
}

/// The facts of `get_patch_info`.
pub fn info(scene: &Scene<'_>) -> Map<String, Value> {
    let document = scene.patch.document();
    let patcher_name = scene.patcher_name();
    let capabilities: Map<String, Value> = scene
        .open
        .host()
        .capabilities(document.format())
        .into_iter()
        .map(|(name, ability)| {
            let text = match ability {
                Ability::Yes => "yes".to_owned(),
                Ability::Degraded(why) => format!("degraded: {why}"),
                Ability::No(why) => format!("no: {why}"),
            };
            (name.to_owned(), json!(text))
        })
        .collect();
    let body = object(json!({
        "display_name": display_name(&patcher_name),
        "patcher_name": patcher_name,
        "file_path": scene.place().map(|it| it.path().display().to_string()),
        "group": scene.open.group(),
        "host": scene.open.host().kind().as_str(),
        "has_patcher_ref": true,
        "format": document.format().extension(),
        "style": document.style_name(),
        "app_version": document.app_version(),
        "object_count": scene.view.box_count(),
        "patchline_count": scene.view.cord_count(),
        "subpatcher_count": scene.view.subpatchers(false).len(),
        "dirty": scene.dirty(),
        "capabilities": capabilities,
    }));
    match of(scene, body) {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// A file name without its last extension.
pub fn display_name(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() && conductor_patch::Format::of_name(name).is_some() => stem,
        Some(_) | None => name,
    }
}

/// The facts of a patch that was just opened, with warnings about its file.
pub fn opened(scene: &Scene<'_>) -> Output {
    let mut members = info(scene);
    members.insert("diagnostics".to_owned(), diagnostics(scene.patch.document()).into());
    Output::new(members.into())
}

fn diagnostics(document: &Document) -> Vec<Value> {
    let one = |it: &conductor_patch::Diagnostic| {
        let severity = match it.severity {
            conductor_patch::Severity::Info => "info",
            conductor_patch::Severity::Warning => "warning",
        };
        object(json!({ "severity": severity, "message": it.message, "line": it.line, "subject": it.subject }))
    };
    document.diagnostics().iter().take(500).map(one).collect()
}

/// A diff text, truncated at a line when it is too large.
pub fn cut_diff(text: String) -> (String, bool) {
    if text.len() <= MOST_BYTES {
        return (text, false);
    }
    let kept = text.as_bytes().get(..MOST_BYTES).unwrap_or_default();
    let end = kept.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    (text.get(..end).unwrap_or_default().to_owned(), true)
}
