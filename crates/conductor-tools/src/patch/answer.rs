//! Parts of answers that several patch tools share.

use super::argument;
use conductor_hosts::patch::{Ability, Edited, Scene};
use conductor_patch::{Atom, Basis, BoxView, Diagnostic, Format, Severity, Value as PatchValue, Warning};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Lists and diffs are truncated at this size.
pub const MOST_BYTES: usize = 400_000;

/// An answer about one patch.
#[derive(Serialize, JsonSchema)]
pub struct PatchAnswer<T> {
    #[serde(flatten)]
    pub body: T,
    /// Id of the patch.
    pub patch_id: String,
    /// Revision of the patch.
    pub revision: u64,
}

impl<T> PatchAnswer<T> {
    pub fn new(scene: &Scene<'_>, body: T) -> Self {
        Self { body, patch_id: scene.id(), revision: scene.revision() }
    }
}

/// The answer of an edit.
#[derive(Serialize, JsonSchema)]
pub struct EditAnswer<T> {
    #[serde(flatten)]
    body: T,
    /// Id of the patch.
    patch_id: String,
    /// Revision of the patch after the edit.
    revision: u64,
    /// Always success.
    #[schemars(extend("const" = "success"))]
    status: &'static str,
    /// Always true.
    #[schemars(extend("const" = true))]
    success: bool,
    /// Facts about the edit that may need attention.
    warnings: Vec<EditWarning>,
}

#[derive(Serialize, JsonSchema)]
struct EditWarning {
    /// Kind of warning.
    code: &'static str,
    /// The warning as a sentence.
    message: String,
    /// Name or key of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
}

impl<T> EditAnswer<T> {
    pub fn new<M>(edit: Edited<M>, body: impl FnOnce(M) -> T) -> Self {
        let warning = |it: Warning| EditWarning { code: it.code.name(), message: it.message, subject: it.subject };
        Self {
            body: body(edit.made),
            patch_id: edit.patch_id,
            revision: edit.revision,
            status: "success",
            success: true,
            warnings: edit.warnings.into_iter().map(warning).collect(),
        }
    }
}

/// A cord.
#[derive(Serialize, JsonSchema)]
pub struct Cord {
    /// Name or key of the object at the start.
    pub src_varname: String,
    /// Outlet at the start.
    pub outlet: u32,
    /// Name or key of the object at the end.
    pub dst_varname: String,
    /// Inlet at the end.
    pub inlet: u32,
}

impl From<&argument::Cord> for Cord {
    fn from(cord: &argument::Cord) -> Self {
        Self {
            src_varname: cord.src_varname.to_string(),
            outlet: cord.outlet,
            dst_varname: cord.dst_varname.to_string(),
            inlet: cord.inlet,
        }
    }
}

/// One atom, a list, or the JSON value of a Max attribute.
#[derive(Serialize, JsonSchema)]
pub struct AttributeValue(#[schemars(schema_with = "attribute_value")] Value);

fn attribute_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "number" }, { "type": "string" }, { "type": "array" }, { "type": "object" }] })
}

impl From<&PatchValue> for AttributeValue {
    fn from(value: &PatchValue) -> Self {
        let atom = |it: &Atom| match it {
            Atom::Int(whole) => json!(whole),
            Atom::Float(number) => json!(number),
            Atom::Word(word) => json!(word),
        };
        Self(match value {
            PatchValue::One(one) => atom(one),
            PatchValue::Many(many) => many.iter().map(atom).collect(),
            PatchValue::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        })
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

/// Which members of each object a list contains.
#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    #[default]
    Full,
    Layout,
    Identity,
}

/// An object of a patch; some modes leave members out.
#[derive(Serialize, JsonSchema)]
pub struct Object {
    /// Position in the list of objects, valid for this revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    /// Key of the object.
    id: String,
    /// Scripting name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    varname: Option<String>,
    /// Kind of box.
    #[serde(skip_serializing_if = "Option::is_none")]
    maxclass: Option<String>,
    /// Kind of box in a Pure Data file.
    #[serde(skip_serializing_if = "Option::is_none")]
    native_class: Option<&'static str>,
    /// Class and arguments, or the content of a message or comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Left and top in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<[f64; 2]>,
    /// Width and height in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<[f64; 2]>,
    /// Left, top, width and height in presentation mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    presentation: Option<[f64; 4]>,
    /// True if the object is hidden when the patch is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<bool>,
    /// Id of the subpatcher inside the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    subpatch_id: Option<String>,
    /// Id of the patch or subpatcher that contains the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_id: Option<String>,
}

impl Object {
    pub fn new(scene: &Scene<'_>, it: &BoxView<'_>, index: usize, detail: Detail) -> Self {
        let rect = it.rect();
        let (full, layout, identity) = (detail == Detail::Full, detail != Detail::Identity, detail != Detail::Layout);
        Self {
            index: identity.then_some(index),
            id: it.key().to_owned(),
            varname: it.varname().map(str::to_owned),
            maxclass: identity.then(|| it.maxclass().to_owned()),
            native_class: it.native_class().filter(|_| full),
            text: identity.then(|| it.text().to_owned()),
            position: layout.then_some([rect.x, rect.y]),
            size: layout.then_some([rect.w, rect.h]),
            presentation: it.presentation_rect().filter(|_| full && it.in_presentation()).map(|it| it.array()),
            hidden: (full && it.hidden()).then_some(true),
            subpatch_id: it.inside().filter(|_| full).and_then(|inside| scene.id_of(inside.id())),
            patch_id: None,
        }
    }

    /// Adds the id of the patch or subpatcher that contains the object.
    pub fn inside(self, patch_id: Option<String>) -> Self {
        Self { patch_id, ..self }
    }
}

/// The items from an offset on, as many as fit, and the offset of the next page if there is one.
pub fn page<T: Serialize>(items: impl Iterator<Item = T>, offset: usize, limit: usize) -> (Vec<T>, Option<usize>) {
    let mut page = Vec::new();
    let mut bytes = 0;
    for item in items.skip(offset) {
        bytes += serde_json::to_vec(&item).map_or(0, |it| it.len());
        // A page has at least one item. Otherwise paging would never end.
        if page.len() == limit || (bytes > MOST_BYTES && !page.is_empty()) {
            let next = offset + page.len();
            return (page, Some(next));
        }
        page.push(item);
    }
    (page, None)
}

/// The facts of an open patch in list_active_patches.
#[derive(Serialize, JsonSchema)]
pub struct Listed {
    /// Name of the patcher without an extension.
    display_name: String,
    /// Name of the patcher.
    patcher_name: String,
    /// File of the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<String>,
    /// Group of the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The host of the patch: document, pd or max.
    host: &'static str,
    /// Number of objects.
    object_count: usize,
    /// Whether there are unsaved changes.
    dirty: bool,
}

impl Listed {
    pub fn new(scene: &Scene<'_>) -> Self {
        let patcher_name = scene.patcher_name();
        Self {
            display_name: display_name(&patcher_name).to_owned(),
            patcher_name,
            file_path: scene.place().map(|it| it.path().display().to_string()),
            group: scene.open.group().map(str::to_owned),
            host: scene.open.host().kind().as_str(),
            object_count: scene.view.box_count(),
            dirty: scene.dirty(),
        }
    }
}

/// The facts of a patch.
#[derive(Serialize, JsonSchema)]
pub struct Info {
    #[serde(flatten)]
    listed: Listed,
    /// Always true.
    has_patcher_ref: bool,
    /// Format of the file.
    format: &'static str,
    /// Formatting style of the file.
    style: &'static str,
    /// Version of the program that wrote the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    app_version: Option<String>,
    /// Number of cords.
    patchline_count: usize,
    /// Number of subpatchers directly inside.
    subpatcher_count: usize,
    /// For each feature: `yes`, or `degraded` or `no` with the reason.
    capabilities: BTreeMap<&'static str, String>,
}

impl Info {
    pub fn new(scene: &Scene<'_>) -> Self {
        let document = scene.patch.document();
        let capabilities = scene.open.host().capabilities(document.format()).into_iter().map(|(name, ability)| {
            let text = match ability {
                Ability::Yes => "yes".to_owned(),
                Ability::Degraded(why) => format!("degraded: {why}"),
                Ability::No(why) => format!("no: {why}"),
            };
            (name, text)
        });
        Self {
            listed: Listed::new(scene),
            has_patcher_ref: true,
            format: document.format().extension(),
            style: document.style_name(),
            app_version: document.app_version().map(str::to_owned),
            patchline_count: scene.view.cord_count(),
            subpatcher_count: scene.view.subpatchers(false).len(),
            capabilities: capabilities.collect(),
        }
    }
}

/// A file name without its last extension.
pub fn display_name(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() && Format::of_name(name).is_some() => stem,
        Some(_) | None => name,
    }
}

/// The facts of a patch that was just opened.
#[derive(Serialize, JsonSchema)]
pub struct Opened {
    #[serde(flatten)]
    info: Info,
    /// Problems in the file.
    diagnostics: Vec<Problem>,
}

#[derive(Serialize, JsonSchema)]
struct Problem {
    /// Severity: info or warning.
    severity: &'static str,
    /// The problem as a sentence.
    message: String,
    /// Line in the file, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// The affected object or cord.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
}

impl Opened {
    pub fn new(scene: &Scene<'_>) -> Self {
        let problem = |it: &Diagnostic| Problem {
            severity: match it.severity {
                Severity::Info => "info",
                Severity::Warning => "warning",
            },
            message: it.message.clone(),
            line: it.line,
            subject: it.subject.clone(),
        };
        let diagnostics = scene.patch.document().diagnostics().iter().take(500).map(problem).collect();
        Self { info: Info::new(scene), diagnostics }
    }
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
